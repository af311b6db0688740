"""Many made-up files of 100 chunks as one cube: time and memory, beside VirtualiZarr on some of them.

    python benchmarks/cube_many.py [FILES] [PEER_FILES]

Each way runs in a process of its own.  What carries over to other machines is the ratio of the times a file.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

FILES, PEER_FILES, SIDE = 100_000, 1_000, 10
"""Files, those that VirtualiZarr gets, and chunks along a side of each."""

BANDS = 4


@cache
def _common() -> tuple[Any, ...]:
    """Return what the scans of all files have in common."""
    import numpy as np

    from jnrrdz.core.arrays import VirtualArray
    from jnrrdz.core.configuration import CodecSpec
    from jnrrdz.core.refs import ChunkRefs

    endian = CodecSpec("bytes", {"endian": "little"})
    codecs = (endian, CodecSpec("zstd", {"level": 0, "checksum": False}))
    place = {"crs_wkt": 'PROJCRS["x"]', "GeoTransform": "500000.0 10.0 0.0 5200000.0 0.0 -10.0"}
    mapping = VirtualArray((), np.dtype("i8"), (), (endian,), ChunkRefs.empty(1), (), 0, place)
    return codecs, mapping, np.dtype("u2")


def group(number: int) -> Any:
    """Return what a scan of one file would: a band of a date, 100 chunks."""
    import numpy as np

    from jnrrdz.core.arrays import SourceRecord, VirtualArray
    from jnrrdz.core.refs import ChunkRefs
    from jnrrdz.core.tree import VirtualGroup

    codecs, mapping, kind = _common()
    time = str(np.datetime64("2000-01-01T00:00") + number // BANDS).replace(":", "")
    url = f"s3://archive/scenes/{time}/B{number % BANDS:02}.tif"
    lengths = 9000 + (np.arange(SIDE * SIDE) * 7919 + number) % 1000
    refs = ChunkRefs.single(url, 4096 + np.cumsum(lengths) - lengths, lengths)
    side = SIDE * 512
    attributes = {"grid_mapping": "spatial_ref", "band_names": [f"B{number % BANDS:02}"]}
    data = VirtualArray((side, side), kind, (512, 512), codecs, refs, ("y", "x"), 0, attributes)
    record = SourceRecord(url, 1_000_000, f'"{number:032x}"')
    return VirtualGroup({"data": data, "spatial_ref": mapping}, {}, (record,))


def ours(form: str, files: int, out: str) -> dict[str, Any]:
    """Write the cube of made-up scans; no file is opened, and what is written are the requests of a store."""
    import jnrrdz

    connected = []
    sys.addaudithook(lambda event, _: connected.append(event) if event == "socket.connect" else None)
    target = Path(out) / f"cube.{form}"
    made = jnrrdz.cube(map(group, range(files)), target, time_from=r"scenes/([0-9T-]+)/")
    assert (made.files, made.missing, made.times) == (files, 0, -(-files // BANDS))
    objects = [path for path in target.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in objects)
    return {"chunks": made.chunks, "connections": len(connected), "objects": len(objects), "bytes": size}


def virtualizarr(files: int, out: str) -> dict[str, Any]:
    """Do the same with `open_virtual_mfdataset`: times in turn, bands as variables of their own."""
    from virtualizarr import open_virtual_mfdataset

    from jnrrdz.parser import to_manifest_store

    def parse(url: str, registry: Any) -> Any:
        return to_manifest_store(group(int(url.rpartition("/")[2])), registry)

    class Registry:
        def resolve(self, url: str) -> tuple[None, str]:
            return None, url

    paths = [f"s3://archive/{number}" for number in range(0, files * BANDS, BANDS)]
    found = open_virtual_mfdataset(
        paths,
        registry=Registry(),
        parser=parse,
        combine="nested",
        concat_dim="time",
        parallel=False,
        preprocess=lambda one: one.drop_vars("spatial_ref", errors="ignore").expand_dims("time"),
        loadable_variables=[],
        compat="override",
        coords="minimal",
    )
    found.vz.to_kerchunk(str(Path(out) / "peer.parquet"), format="parquet")
    return {"chunks": files * SIDE * SIDE}


def child(way: str, files: int, out: str) -> None:
    """Run one way, and print what it took."""
    start = time.perf_counter()
    told = virtualizarr(files, out) if way == "virtualizarr" else ours(way, files, out)
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"way": way, "files": files, "seconds": took, "MB": round(peak), **told}))


def main() -> None:
    """Run each way in a process of its own, and print the ratio."""
    if sys.argv[1:2] == ["child"]:
        child(sys.argv[2], int(sys.argv[3]), sys.argv[4])
        return
    files, peers = (
        (int(text) for text in (*sys.argv[1:], FILES, PEER_FILES)[:2])
        if len(sys.argv) != 2
        else (int(sys.argv[1]), PEER_FILES)
    )
    seconds = {}
    for way, count in (("parquet", files), ("icechunk", files), ("virtualizarr", peers)):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run(
                [sys.executable, __file__, "child", way, str(count), out], capture_output=True, text=True, check=False
            )
        print(done.stdout.strip().rpartition(chr(10))[2] or done.stderr[-800:], flush=True)
        if done.returncode == 0:
            seconds[way] = json.loads(done.stdout)["seconds"] / count
    if "virtualizarr" in seconds:
        for way in {"parquet", "icechunk"} & seconds.keys():
            print(f"a file: VirtualiZarr takes {seconds['virtualizarr'] / seconds[way]:.1f} times as long as {way}")


if __name__ == "__main__":
    main()
