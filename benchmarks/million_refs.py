"""How fast a million references are written: `python benchmarks/million_refs.py [--side 1000] [--rounds 3]`.

Compares only the writing: the references are in memory, and tifffile has parsed its file.  Every round of
every contender is a process of its own, in turns; printed are the best seconds, their ratio to
tifffile's `write_fsspec`, the process's peak memory and what the writing added to it.
"""

import argparse
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
CONTENDERS = ("tifffile", "json", "parquet", "manifest store", "icechunk")


def offsets_and_lengths(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the tiles of a picture of `side` by `side` tiles would be, in no regular distance."""
    lengths = np.random.default_rng(0).integers(100, 400, side * side, np.int64)
    return 2**20 + np.cumsum(lengths), lengths


def bigtiff(side: int) -> bytes:
    """Return the header, the tags and the two long arrays of a deflated BigTIFF, without a tile."""
    offset, length = (column.astype("<u8").tobytes() for column in offsets_and_lengths(side))
    short = {256: TILE * side, 257: TILE * side, 258: 8, 259: 8, 262: 1, 277: 1, 322: TILE, 323: TILE}
    first = 16 + 8 + 20 * (len(short) + 2) + 8
    tags = {tag: (4, 1, value) for tag, value in short.items()}
    tags |= {324: (16, side * side, first), 325: (16, side * side, first + len(offset))}
    entries = b"".join(struct.pack("<HHQQ", tag, *tags[tag]) for tag in sorted(tags))
    header = struct.pack("<2sHHHQQ", b"II", 43, 8, 0, 16, len(tags))
    return header + entries + bytes(8) + offset + length


def prepare(contender: str, side: int, work: Path):  # noqa: ANN201 - a closure
    """Return what is to be measured, everything before it done."""
    if contender == "tifffile":
        import tifffile

        store = tifffile.TiffFile(work / "a.tif").aszarr()
        return lambda: store.write_fsspec(str(work / "tifffile.json"), "file:///data", zarr_format=3)
    from jnrrdz.core.arrays import VirtualArray
    from jnrrdz.core.codecs import bytes_
    from jnrrdz.core.configuration import CodecSpec
    from jnrrdz.core.refs import ChunkRefs
    from jnrrdz.core.tree import VirtualGroup

    refs = ChunkRefs.single("file:///data/a.tif", *offsets_and_lengths(side))
    codecs = (bytes_(None), CodecSpec("numcodecs.zlib", {"level": 6}))
    shape = (side * TILE, side * TILE)
    array = VirtualArray(shape, np.dtype("u1"), (TILE, TILE), codecs, refs, ("y", "x"))
    return _writer(contender, VirtualGroup({"data": array}), work)


def _writer(contender: str, root, work: Path):  # noqa: ANN001, ANN202 - what is imported differs
    from jnrrdz.options import WriteOptions

    if contender == "json":
        from jnrrdz.manifests import json as kerchunk_json

        return lambda: kerchunk_json.write(root, str(work / "a.json"), WriteOptions(overwrite=True))
    if contender == "parquet":
        from jnrrdz.manifests import parquet as kerchunk_parquet

        return lambda: kerchunk_parquet.write(root, str(work / "a.parq"), WriteOptions(overwrite=True))
    if contender == "icechunk":
        from jnrrdz.manifests import icechunk

        return lambda: icechunk.write(root, str(work / "a.icechunk"), WriteOptions(overwrite=True))
    from jnrrdz.parser import to_manifest_store

    return lambda: to_manifest_store(root)


def peak() -> int:
    """Return the highest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measured(contender: str, side: int, work: Path) -> tuple[float, ...]:
    """Return seconds, peak megabytes and their rise of one run in a process of its own."""
    command = [sys.executable, __file__, "--one", contender, "--side", str(side), "--work", str(work)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return tuple(float(number) for number in text[-3:])


def compare(side: int, rounds: int) -> None:
    """Measure every contender in turns and print a table."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "a.tif").write_bytes(bigtiff(side))
        runs = {contender: [] for contender in CONTENDERS}
        for _ in range(rounds):
            for contender in CONTENDERS:
                runs[contender].append(measured(contender, side, Path(name)))
    best = {contender: [min(column) for column in zip(*samples, strict=True)] for contender, samples in runs.items()}
    print(f"{side * side:,} references, best of {rounds}; ratios to tifffile's write_fsspec")
    for contender, (seconds, top, rise) in best.items():
        faster = best["tifffile"][0] / seconds
        print(f"{contender:15} {seconds:7.3f} s  {faster:6.1f} times as fast, peak {top:4.0f} MB, {rise:3.0f} MB new")


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", choices=CONTENDERS)
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    if options.one is None:
        compare(options.side, options.rounds)
        return
    action = prepare(options.one, options.side, options.work)
    before, start = peak(), time.perf_counter()
    action()
    print(time.perf_counter() - start, peak() / 2**20, (peak() - before) / 2**20, flush=True)
    os._exit(0)  # tifffile's store would take seconds to let go of


if __name__ == "__main__":
    main()
