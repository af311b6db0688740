"""What merging many manifests takes, and what a large manifest takes afterwards.

    python benchmarks/merge_many.py [--members 10000] [--chunks 100] [--forms json parquet icechunk]

Makes BigTIFFs of so many tiles each, sparse but for a few of them, indexes each, and merges the manifests.  Then it
opens what came of it, reads one window and compares it with tifffile's, verifies all of it and a hundredth, and
refreshes it after one source has changed.  Each step is a process of its own; printed are its seconds, its peak
memory, how much that is above what the imports take, and how many of the manifest's files it read, and their bytes.
Run it with more and more members to see what grows:

    for members in 1 100 1000; do python benchmarks/merge_many.py --members $members --chunks 100489; done
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

TILE = 16
FORMS = {"json": ".json", "parquet": ".parquet", "icechunk": ".icechunk"}
LARGE = 100_000


def tiff(side: int) -> bytes:
    """Return the header, the tags and the offsets of a BigTIFF of `side` by `side` plain tiles of bytes."""
    tiles, width = side * side, TILE * side
    counts = np.full(tiles, TILE * TILE, "<u2").tobytes()
    short = {256: width, 257: width, 258: 8, 259: 1, 262: 1, 277: 1, 322: TILE, 323: TILE}
    first = 16 + 8 + 20 * (len(short) + 2) + 8
    begin = first + len(counts) + 8 * tiles
    offsets = (begin + TILE * TILE * np.arange(tiles)).astype("<u8").tobytes()
    tags = {tag: (4, 1, value) for tag, value in short.items()}
    tags |= {325: (3, tiles, first), 324: (16, tiles, first + len(counts))}
    entries = b"".join(struct.pack("<HHQQ", tag, *tags[tag]) for tag in sorted(tags))
    return struct.pack("<2sHHHQQ", b"II", 43, 8, 0, 16, len(tags)) + entries + bytes(8) + counts + offsets


def corner(side: int, member: int) -> int:
    """Return the first row and column of the tiles of a member that are not zero."""
    return member * 7 % max(side - 4, 1)


def prepare(folder: Path, members: int, chunks: int) -> int:
    """Write files and their manifests, and return the tiles of a row; what is there already stays."""
    import jnrrdz

    side = int(chunks**0.5)
    head, ending = tiff(side), ".parquet" if side * side >= LARGE else ".json"
    for member in range(members):
        path = folder / f"scene_{member:06}.tif"
        if path.with_suffix(ending).exists():
            continue
        with path.open("wb") as file:
            file.write(head)
            file.truncate(len(head) + side * side * TILE * TILE)
            noise = np.random.default_rng(member).integers(1, 255, (4, 4 * TILE * TILE), np.uint8)
            for row in range(4):
                at = (corner(side, member) + row) * side + corner(side, member)
                file.seek(len(head) + at * TILE * TILE)
                file.write(noise[row].tobytes())
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


def window(folder: Path, out: str, side: int) -> str:
    """Read four by four tiles of the member in the middle, and compare them with tifffile's."""
    import tifffile

    import jnrrdz

    start, cpu = time.perf_counter(), time.process_time()
    data = jnrrdz.open_dataset(out)["data"]
    member = data.sizes["time"] // 2
    low = corner(side, member) * TILE
    there = (slice(low, low + 4 * TILE), slice(low, low + 4 * TILE))
    found = data[(member, *there)].to_numpy()
    took = f"{time.perf_counter() - start:.2f} s, {time.process_time() - cpu:.2f} s of CPU, then"
    meant = tifffile.imread(folder / f"scene_{member:06}.tif")[there]
    assert meant.any()
    np.testing.assert_array_equal(found, meant)
    return f"{took} {found.size:,} pixels compared with tifffile's"


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


def refresh(folder: Path, out: str, side: int) -> str:
    """Refresh it after the tiles of one source have changed their places, and compare a tile with tifffile's."""
    import tifffile

    import jnrrdz

    member = len(list(folder.glob("scene_*.tif"))) // 2
    path = folder / f"scene_{member:06}.tif"
    data = tifffile.imread(path)
    tifffile.imwrite(path, data + 1, tile=(TILE, TILE), photometric="minisblack", metadata=None, bigtiff=True)
    changed = jnrrdz.refresh(out).changed
    low = corner(side, member) * TILE
    found = jnrrdz.open_dataset(out)["data"][member, low : low + TILE, low : low + TILE].to_numpy()
    np.testing.assert_array_equal(found, data[low : low + TILE, low : low + TILE] + 1)
    return f"{len(changed)} sources scanned again"


DO = {
    "merge": merge,
    "open": open_it,
    "window": window,
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
    print(json.dumps(took | {"files": len(sizes), "bytes": sum(sizes), "what": text}), flush=True)
    os._exit(0)


def show(folder: Path, form: str, side: int, steps: list[str]) -> None:
    """Do the steps for one form, and print a line for each."""
    out = str(folder / f"merged{FORMS[form]}")
    for name in steps:
        command = [sys.executable, __file__, "--step", name, "--work", str(folder), "--out", out, "--side", str(side)]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if run.returncode:
            print(f"{form:8} {name:8} failed", flush=True)
            continue
        took = json.loads(run.stdout.splitlines()[-1])
        read = f"{took['files']:5} files {took['bytes'] / 1e6:8.2f} MB read" if form == "parquet" else ""
        memory = f"peak {took['peak']:5.0f} MB (+{took['more']:.0f})"
        print(
            f"{form:8} {name:8} {took['seconds']:8.2f} s, CPU {took['cpu']:7.2f} s  {memory:20} {read}  {took['what']}",
            flush=True,
        )


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--chunks", type=int, default=100, help="of each member, about")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["json", "parquet"])
    parser.add_argument("--steps", nargs="+", choices=DO, default=list(DO))
    parser.add_argument("--work", type=Path, help="a folder that stays")
    parser.add_argument("--step", choices=DO, help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    parser.add_argument("--side", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        step(options.step, options.work, options.out, options.side)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = options.work or Path(name)
        folder.mkdir(exist_ok=True)
        side = prepare(folder, options.members, options.chunks)
        for form in options.forms:
            show(folder, form, side, options.steps)


if __name__ == "__main__":
    main()
