"""Two versions of jnrrdz side by side: `python benchmarks/versions.py OLD_CHECKOUT [--only NAME] [--rounds N]`.

Each version works in a process of its own, and the two take turns within one run, so that a busy moment of the
machine hits both.  The figure is the least CPU time of the rounds, and the ratio new / old of it.  Only the
library's public functions are used, so that versions whose modules differ compare.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import data

ROOT = Path(__file__).resolve().parent.parent
TOML = "pyproject.toml"


def sources(folder: Path) -> dict[str, str]:
    """Return the files that the tasks read, made on the first run and kept."""
    import numpy as np
    import zarr

    import jnrrdz

    sizes = data.QUICK
    paths = {
        "small COG": data.deflate_cog(1024),
        "deflate COG": data.deflate_cog(4096),
        "JPEG COG": data.jpeg_cog(2048),
        "planar": data.planar_cog(sizes.planar),
        "strips": data.row_strips(sizes.strips),
        "tiles": data.many_tiles(250_000),
    }
    volume = folder / "volume.jnrrd"
    array = zarr.open_array({}, mode="w", shape=(128, 256, 256), chunks=(32, 64, 64), dtype="u2", attributes={})
    array[...] = np.random.default_rng(1).integers(0, 400, array.shape)
    np.save(folder / "volume.npy", array[...])
    jnrrdz.tile(str(folder / "volume.npy"), str(volume), tile=(64, 64, 32))
    for number in range(100):
        (folder / f"many_{number:03}.tif").write_bytes(paths["small COG"].read_bytes())
    return {
        **{name: str(path) for name, path in paths.items()},
        "JNRRD": str(volume),
        "folder": str(folder),
        **formats(folder),
    }


FORMATS = ("COG", "NITF", "J2K", "N5", "NRRD", "HDF5")
"""Formats of which a file each is scanned, taken by a batch and served."""

COPIES = 40
"""Files of a batch."""


def formats(folder: Path) -> dict[str, str]:
    """Return folders with copies of a file of each format."""
    import glymur
    import h5py
    import nrrd
    import numpy as np
    import rasterio

    pixels = (np.add.outer(np.arange(1024), 3 * np.arange(1024)) // 8).astype("u2")
    first = folder / "first"
    first.mkdir()
    names = {"COG": "a.tif", "NITF": "a.ntf", "J2K": "a.j2k", "N5": "a.n5"}
    names |= {"NRRD": "a.nrrd", "HDF5": "a.h5"}
    paths = {name: first / file for name, file in names.items()}
    (paths["COG"]).write_bytes(data.deflate_cog(1024).read_bytes())
    profile = {"height": 1024, "width": 1024, "count": 1, "dtype": "uint16"}
    nitf = {"driver": "NITF", "BLOCKSIZE": 256, **profile}
    with rasterio.open(paths["NITF"], "w", **nitf) as target:
        target.write(pixels, 1)
    glymur.Jp2k(paths["J2K"], data=pixels, tilesize=(256, 256))
    nrrd.write(str(paths["NRRD"]), pixels, {"encoding": "raw"})
    with h5py.File(paths["HDF5"], "w") as file:
        file.create_dataset("data", data=pixels, chunks=(256, 256), compression="gzip")
    write_n5(paths["N5"], pixels)
    for name, path in paths.items():
        (folder / name).mkdir()
        for number in range(COPIES):
            copy = folder / name / f"{number:03}{path.suffix}"
            if path.is_dir():
                shutil.copytree(path, copy)
            else:
                shutil.copy(path, copy)
    return {f"format {name}": str(folder / name) for name in FORMATS}


def write_n5(folder: Path, pixels: object) -> None:
    """Write a data set of N5 in blocks of 256 x 256."""
    import tensorstore

    schema = {"dimensions": [1024, 1024], "blockSize": [256, 256]}
    schema |= {"dataType": "uint16", "compression": {"type": "gzip"}}
    place = {"driver": "file", "path": str(folder)}
    target = tensorstore.open({"driver": "n5", "kvstore": place, "metadata": schema}, create=True).result()
    target.write(pixels).result()


def format_tasks(paths: dict[str, str], work: Path) -> dict[str, Callable[[], object]]:
    """Return what is measured of each format, by its name."""
    import jnrrdz

    kinds = {name: sorted(map(str, Path(paths[f"format {name}"]).iterdir())) for name in FORMATS}

    def scan(files: list[str]) -> object:
        return [jnrrdz.scan(file) for file in files]

    def batch(files: list[str]) -> object:
        out = str(work / "{stem}.json")
        done = jnrrdz.batch(files, out, processes=1, overwrite=True)
        assert done.ok == len(files), done
        return done

    def serve(file: str) -> object:
        with jnrrdz.serve(file) as server:
            base = f"{server.url}{server.names[0]}"
            with urllib.request.urlopen(f"{base}/zarr.json") as answer:
                document = json.load(answer)
            arrays = document["consolidated_metadata"]["metadata"]
            for name, array in arrays.items():
                if array["node_type"] == "array" and len(array["shape"]) > 1:
                    fetch(f"{base}/{name}", array)

    measured: dict[str, Callable[[], object]] = {}
    for name, files in kinds.items():
        measured[f"scan {COPIES} files: {name}"] = partial(scan, files)
        measured[f"batch of {COPIES} files: {name}"] = partial(batch, files)
        measured[f"serve a file: {name}"] = partial(serve, files[0])
    return measured


def tasks(paths: dict[str, str], work: Path) -> dict[str, Callable[[], object]]:
    """Return what is measured, by its name."""
    import xarray

    import jnrrdz

    manifests = {}
    for name in sorted(paths.keys() - {"folder"} - {f"format {name}" for name in FORMATS}):
        manifests[name] = str(work / f"{name.replace(' ', '_')}.json")
        jnrrdz.index(paths[name], manifests[name], overwrite=True)
    groups = {name: jnrrdz.open_group(manifest) for name, manifest in manifests.items()}
    arrays = {name: group["0/data"] if "0" in group else group["data"] for name, group in groups.items()}
    many = sorted(str(path) for path in Path(paths["folder"]).glob("many_*.tif"))

    def repeat(count: int, function: Callable[[], object]) -> Callable[[], object]:
        return lambda: [function() for _ in range(count)]

    def windows(name: str) -> object:
        return [arrays[name][..., row : row + 300, row : row + 300] for row in range(0, 1500, 100)]

    def index(name: str, out: str) -> Callable[[], object]:
        return lambda: jnrrdz.index(paths[name], str(work / out), overwrite=True)

    def command(*arguments: str) -> object:
        program = "from jnrrdz.cli import main; main()"
        return subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True)

    out = str(work / "d.json")
    read = {f"read {name}": partial(arrays[name].__getitem__, ...) for name in arrays if name != "tiles"}
    return {
        "command: index a small COG": lambda: command("index", "--overwrite", "-o", out, paths["small COG"]),
        "command: --help": lambda: command("--help"),
        "index a small COG, 50 times": repeat(50, index("small COG", "a.json")),
        "index 250,000 tiles, JSON": index("tiles", "b.json"),
        "index 250,000 tiles, Parquet": index("tiles", "b.parquet"),
        "index a JNRRD, 20 times": repeat(20, index("JNRRD", "c.json")),
        "open a small manifest, 20 times": repeat(20, lambda: xarray.open_dataset(manifests["small COG"]).close()),
        "open 250,000 references": lambda: jnrrdz.open_group(manifests["tiles"]),
        **read,
        "windows of the deflate COG": lambda: windows("deflate COG"),
        **format_tasks(paths, work),
        "batch of 100 COGs": lambda: jnrrdz.batch(many, str(work / "{stem}.json"), processes=1, overwrite=True),
    }


def fetch(url: str, array: dict[str, object]) -> None:
    """Read all chunks of an array from a server."""
    import itertools

    shape = array["shape"]
    chunks = array["chunk_grid"]["configuration"]["chunk_shape"]
    sides = [range(-(-size // chunk)) for size, chunk in zip(shape, chunks, strict=True)]
    for place in itertools.product(*sides):
        key = "/".join(map(str, place))
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(f"{url}/c/{key}") as answer:
            answer.read()


def work_on_request(folder: Path, own: Path) -> None:
    """Measure the tasks whose names come through stdin, one line each."""
    paths = json.loads((folder / "paths.json").read_text())
    known = tasks(paths, own)
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        before, children = time.process_time(), os.times()
        known[line.strip()]()
        after = os.times()
        spent = after.children_user + after.children_system - children.children_user - children.children_system
        print(time.process_time() - before + spent, flush=True)


@contextlib.contextmanager
def worker(checkout: Path, folder: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that works with the package of a checkout."""
    own = folder / name
    own.mkdir()
    describe(checkout, own)
    path = os.pathsep.join([str(own), str(checkout)])
    command = [sys.executable, __file__, "--worker", str(folder), "--own", str(own), str(checkout)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    with process:
        yield process
        process.stdin.close()


def describe(checkout: Path, folder: Path) -> None:
    """Write the metadata of a checkout's package, by which zarr finds its codecs and xarray its engine."""
    import tomllib

    project = tomllib.loads((checkout / TOML).read_text(encoding="utf-8"))["project"]
    info = folder / f"jnrrdz-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: jnrrdz\nVersion: {project['version']}\n")
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    lines = [line for group, entries in groups.items() for line in (f"[{group}]", *map(" = ".join, entries.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Measure both versions in turns and print a table."""
    parser = argparse.ArgumentParser(description="Compare two versions of jnrrdz.")
    parser.add_argument("old", type=Path, metavar="OLD_CHECKOUT", help="a checkout of the other version")
    parser.add_argument("--only", action="append", help="tasks whose name holds this text; may be given again")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--own", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work_on_request(options.worker, options.own)
        return
    with tempfile.TemporaryDirectory(dir=data.cache()) as name:
        folder = Path(name)
        (folder / "paths.json").write_text(json.dumps(sources(folder)))
        with worker(options.old.resolve(), folder, "old") as old, worker(ROOT, folder, "new") as new:
            names = json.loads(old.stdout.readline())
            assert json.loads(new.stdout.readline()) == names
            for task in names:
                if options.only and not any(text in task for text in options.only):
                    continue
                least = [float("inf"), float("inf")]
                for _ in range(options.rounds):
                    for side, process in enumerate((old, new)):
                        process.stdin.write(f"{task}\n")
                        process.stdin.flush()
                        least[side] = min(least[side], float(process.stdout.readline()))
                print(
                    f"{task:36s} old {least[0]:8.3f} s   new {least[1]:8.3f} s   {least[1] / least[0]:5.2f}", flush=True
                )


if __name__ == "__main__":
    main()
