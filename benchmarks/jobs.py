"""What is measured in a process of its own, because its peak memory counts too.

May touch the files that it is given.  `python benchmarks/jobs.py NAME ARGUMENTS...` prints one
line of JSON: seconds and peak memory, imports left out of the seconds and told apart in memory.
"""

import importlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

STATUS = Path("/proc/self/status")


def tifffile_index(source: str, out: str) -> None:
    """Write JSON references with tifffile."""
    import tifffile

    with tifffile.imread(source, aszarr=True, key=0) as store:
        store.write_fsspec(out, f"file://{Path(source).parent}", zarr_format=3)


def jnrrdz_json(source: str, out: str) -> None:
    """Write a JSON manifest with jnrrdz."""
    import jnrrdz

    jnrrdz.index(source, out, format="json", overwrite=True)


def jnrrdz_parquet(source: str, out: str) -> None:
    """Write a Parquet manifest with jnrrdz."""
    import jnrrdz

    jnrrdz.index(source, out, format="parquet", overwrite=True)


def jnrrdz_open(manifest: str, _: str) -> None:
    """Open a manifest with jnrrdz and read one chunk from the middle."""
    import jnrrdz

    array = jnrrdz.open_group(manifest)["data"]
    row, column = (size // 2 for size in array.shape)
    array[row : row + 1, column : column + 1]


def fsspec_open(manifest: str, _: str) -> None:
    """Open a JSON manifest with fsspec's ReferenceFileSystem."""
    from fsspec.implementations.reference import ReferenceFileSystem

    ReferenceFileSystem(manifest).cat("zarr.json")


IMPORTS = {
    tifffile_index: ("tifffile", "zarr"),
    jnrrdz_json: ("jnrrdz",),
    jnrrdz_parquet: ("jnrrdz", "pyarrow.parquet"),
    jnrrdz_open: ("jnrrdz", "zarr", "imagecodecs", "pyarrow.parquet"),
    fsspec_open: ("fsspec.implementations.reference", "fsspec.implementations.local"),
}
JOBS: dict[str, Callable[[str, str], None]] = {job.__name__: job for job in IMPORTS}


def peak() -> int:
    """Return the process's peak resident memory in bytes.

    The kernel's high-water mark, where there is one: `ru_maxrss` keeps that of the parent.
    """
    if STATUS.exists():
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def run(job: Callable[[str, str], None], source: str, out: str = "") -> dict[str, float]:
    """Return seconds and peak memory of one job in a fresh interpreter."""
    command = [sys.executable, __file__, job.__name__, source, out]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(answer.stdout.splitlines()[-1])


def main(name: str, source: str, out: str) -> None:
    """Run one job and print what it took."""
    job = JOBS[name]
    for module in IMPORTS[job]:
        importlib.import_module(module)
    before = peak()
    start = time.perf_counter()
    job(source, out)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak": peak(), "rise": peak() - before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
