"""What merging many manifests takes, and what a large manifest takes afterwards.

    python benchmarks/merge_many.py [--members 10000] [--chunks 100] [--forms json parquet icechunk]

Makes BigTIFFs of so many tiles each, sparse but for a few of them, indexes each, and merges the manifests.  Then it
opens what came of it, reads one window and compares it with tifffile's, verifies all of it and a hundredth, and
refreshes it after one source has changed.  Each step is a process of its own; printed are its seconds, its peak
memory, how much that is above what the imports take, and how many of the manifest's files it read, and their bytes.
Run it with more and more members to see what grows:

    for members in 1 100 1000; do python benchmarks/merge_many.py --members $members --chunks 100489; done

`--keep` puts the figures into `benchmarks/results/VERSION.json`, from where docs/scale.md has its comparison of
Parquet with Icechunk:

    python benchmarks/merge_many.py --members 10 100 --chunks 100489 --forms parquet icechunk --keep
"""

import argparse
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import results

TILE = 16
FORMS = {"json": ".json", "parquet": ".parquet", "icechunk": ".icechunk"}
LARGE = 100_000


def tiff(side: int, gap: int = 0) -> bytes:
    """Return the head of a BigTIFF of `side` by `side` plain tiles of bytes, which begin `gap` bytes behind it."""
    tiles, width = side * side, TILE * side
    counts = np.full(tiles, TILE * TILE, "<u2").tobytes()
    short = {256: width, 257: width, 258: 8, 259: 1, 262: 1, 277: 1, 322: TILE, 323: TILE}
    first = 16 + 8 + 20 * (len(short) + 2) + 8
    begin = first + len(counts) + 8 * tiles + gap
    offsets = (begin + TILE * TILE * np.arange(tiles)).astype("<u8").tobytes()
    tags = {tag: (4, 1, value) for tag, value in short.items()}
    tags |= {325: (3, tiles, first), 324: (16, tiles, first + len(counts))}
    entries = b"".join(struct.pack("<HHQQ", tag, *tags[tag]) for tag in sorted(tags))
    return struct.pack("<2sHHHQQ", b"II", 43, 8, 0, 16, len(tags)) + entries + bytes(8) + counts + offsets


def corner(side: int, member: int) -> int:
    """Return the first row and column of the tiles of a member that are not zero."""
    return member * 7 % max(side - 4, 1)


def write(path: Path, side: int, member: int, seed: int = 0) -> None:
    """Write a file, the tiles of another seed in other places."""
    head = tiff(side, seed and TILE)
    first = len(head) + (seed and TILE)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(first + side * side * TILE * TILE)
        noise = np.random.default_rng(seed + member).integers(1, 255, (4, 4 * TILE * TILE), np.uint8)
        for row in range(4):
            at = (corner(side, member) + row) * side + corner(side, member)
            file.seek(first + at * TILE * TILE)
            file.write(noise[row].tobytes())


def prepare(folder: Path, members: int, chunks: int) -> int:
    """Write files and their manifests, and return the tiles of a row; what is there already stays."""
    import jnrrdz

    side = int(chunks**0.5)
    ending = ".parquet" if side * side >= LARGE else ".json"
    for member in range(members):
        path = folder / f"scene_{member:06}.tif"
        if not path.with_suffix(ending).exists():
            write(path, side, member)
            jnrrdz.index(path, path.with_suffix(ending))
    return side


def merge(folder: Path, out: str, _: int) -> str:
    """Merge all manifests."""
    import jnrrdz

    refs = sorted(str(path) for path in folder.glob("scene_*") if path.suffix in FORMS.values())
    made = jnrrdz.merge(refs, out, concat_dim="time", coord_from=r"scene_(\d+)", overwrite=True)
    return f"{len(made.members):,} manifests, {made.chunks:,} chunks"


def open_it(_: Path, out: str, __: int) -> str:
    """Open it as xarray does."""
    import jnrrdz

    return str(dict(jnrrdz.open_dataset(out).sizes))


def window(folder: Path, out: str, side: int) -> dict[str, object]:
    """Read four by four tiles of the member in the middle, and compare them with tifffile's."""
    import tifffile

    import jnrrdz

    data = jnrrdz.open_dataset(out)["data"]
    member = data.sizes["time"] // 2
    low = corner(side, member) * TILE
    there = (slice(low, low + 4 * TILE), slice(low, low + 4 * TILE))
    cpu = time.process_time()
    found = data[(member, *there)].to_numpy()
    cpu = time.process_time() - cpu
    meant = tifffile.imread(folder / f"scene_{member:06}.tif")[there]
    assert meant.any()
    np.testing.assert_array_equal(found, meant)
    return {"cpu": cpu, "what": f"{found.size:,} pixels compared with tifffile's"}


def far(folder: Path, out: str, side: int) -> dict[str, int]:
    """Return the requests and bytes that opening it takes where an HTTP server has it, and then a window."""
    import tifffile
    from server import serving

    import jnrrdz

    with serving(folder.parent, 0) as remote:
        options = {"key": "none", "secret": "none", "endpoint_url": remote.root.rstrip("/")}
        options["client_kwargs"] = {"region_name": "us-east-1"}
        url = f"s3://{folder.name}/{Path(out).name}"
        data = jnrrdz.open_dataset(url, storage_options=options, source_options={}, allow=("*",))["data"]
        told = {f"open {name}": value for name, value in remote.tally().items()}
        member = data.sizes["time"] // 2
        low = corner(side, member) * TILE
        there = (slice(low, low + 4 * TILE), slice(low, low + 4 * TILE))
        found = data[(member, *there)].to_numpy()
        told |= {f"window {name}": value for name, value in remote.tally().items()}
    np.testing.assert_array_equal(found, tifffile.imread(folder / f"scene_{member:06}.tif")[there])
    return told


def drift(_: Path, out: str, __: int) -> str:
    """Compare the sources with what is recorded of them."""
    import jnrrdz

    return repr(jnrrdz.verify(out, drift=True))


def part(_: Path, out: str, __: int) -> str:
    """Verify a hundredth."""
    import jnrrdz

    return repr(jnrrdz.verify(out, shard=(50, 100)))


def verify(_: Path, out: str, __: int) -> str:
    """Verify everything, but for most of the pixels."""
    import jnrrdz

    return repr(jnrrdz.verify(out))


def refresh(folder: Path, out: str, side: int) -> dict[str, object]:
    """Refresh it after the tiles of one source have changed their places, and compare them with tifffile's."""
    import tifffile

    import jnrrdz

    member = len(list(folder.glob("scene_*.tif"))) // 2
    path = folder / f"scene_{member:06}.tif"
    kept = path.rename(path.with_suffix(".kept"))
    write(path, side, member, seed=1 << 20)
    before = {each: each.stat().st_ino for each in Path(out).rglob("*") if each.is_file()}
    cpu = time.process_time()
    changed = jnrrdz.refresh(out).changed
    cpu = time.process_time() - cpu
    written = sum(before.get(each) != each.stat().st_ino for each in Path(out).rglob("*") if each.is_file())
    low = corner(side, member) * TILE
    there = (slice(low, low + 4 * TILE), slice(low, low + 4 * TILE))
    found = jnrrdz.open_dataset(out)["data"][(member, *there)].to_numpy()
    np.testing.assert_array_equal(found, tifffile.imread(path)[there])
    assert found.any()
    kept.replace(path)
    return {"cpu": cpu, "written": written, "what": f"{len(changed)} sources scanned again, {written} files written"}


DO = {
    "merge": merge,
    "open": open_it,
    "window": window,
    "far": far,
    "drift": drift,
    "part": part,
    "verify": verify,
    "refresh": refresh,
}


def counting() -> list[int]:
    """Return a list that gets the size of each of the manifest's files when it is read."""
    from jnrrdz.manifests import parquet_records

    sizes: list[int] = []
    opened = parquet_records.open_source

    def counted(url: str, **options: object):  # noqa: ANN202  a byte source
        source = opened(url, **options)
        sizes.append(source.validators.size)
        return source

    parquet_records.open_source = counted
    return sizes


def peak() -> float:
    """Return the highest resident memory of this process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def step(name: str, folder: Path, out: str, side: int) -> None:
    """Do one step, and print what it took as JSON."""
    import tifffile  # noqa: F401
    import xarray  # noqa: F401

    import jnrrdz.commands.merge
    import jnrrdz.commands.verify
    import jnrrdz.store.group  # noqa: F401

    sizes = counting()
    before, start, cpu = peak(), time.perf_counter(), time.process_time()
    text = DO[name](folder, out, side)
    took = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    took |= {"peak": peak(), "more": peak() - before}
    took |= {"files": len(sizes), "bytes": sum(sizes), "what": ""} | (
        text if isinstance(text, dict) else {"what": text}
    )
    print(json.dumps(took), flush=True)
    os._exit(0)


def show(folder: Path, form: str, side: int, steps: list[str]) -> dict[str, dict[str, float]]:
    """Do the steps for one form, print a line for each, and return what they took."""
    out, told = str(folder / f"merged{FORMS[form]}"), {}
    for name in steps:
        command = [sys.executable, __file__, "--step", name, "--work", str(folder), "--out", out, "--side", str(side)]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if run.returncode:
            print(f"{form:8} {name:8} failed", flush=True)
            continue
        took = json.loads(run.stdout.splitlines()[-1])
        if name == "merge":
            files = [each.stat().st_size for each in [Path(out), *Path(out).rglob("*")] if each.is_file()]
            took |= {"objects": len(files), "size": sum(files)}
        told[name] = {key: float(f"{value:.4g}") for key, value in took.items() if not isinstance(value, str)}
        read = f"{took['files']:5} files {took['bytes'] / 1e6:8.2f} MB read" if form == "parquet" else ""
        memory = f"peak {took['peak']:5.0f} MB (+{took['more']:.0f})"
        print(
            f"{form:8} {name:8} {took['seconds']:8.2f} s, CPU {took['cpu']:7.2f} s  {memory:20} {read}  {took['what']}",
            flush=True,
        )
        if name == "far":
            print({key: value for key, value in told[name].items() if " " in key}, flush=True)
    return told


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[10_000])
    parser.add_argument("--chunks", type=int, default=100, help="of each member, about")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["json", "parquet"])
    parser.add_argument("--steps", nargs="+", choices=DO, default=list(DO))
    parser.add_argument("--work", type=Path, help="a folder that stays")
    parser.add_argument("--keep", action="store_true", help="put the figures into benchmarks/results/VERSION.json")
    parser.add_argument("--step", choices=DO, help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    parser.add_argument("--side", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        step(options.step, options.work, options.out, options.side)
        return
    for members in options.members:
        with tempfile.TemporaryDirectory() as name:
            folder = (options.work or Path(name)) / f"stack-{members}"
            folder.mkdir(exist_ok=True, parents=True)
            load = os.getloadavg()[0]
            side = prepare(folder, members, options.chunks)
            told = {form: show(folder, form, side, options.steps) for form in options.forms}
            if options.keep:
                loads = [round(load, 1), round(os.getloadavg()[0], 1)]
                results.keep_forms(members * side * side, members, told, loads)
    if options.keep:
        results.write_pages()


if __name__ == "__main__":
    main()
