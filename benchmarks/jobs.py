"""What is measured in a process of its own, because its peak memory counts too.

`python benchmarks/jobs.py NAME WARM_UP WARM_UP_OUT SOURCE OUT`
does the job on a small input first, so that imports are over when the clock starts, and prints one
line of JSON: seconds, peak memory, and how far that is above the peak after the warm-up.
"""

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
    """Open a manifest with jnrrdz."""
    import jnrrdz

    jnrrdz.open_group(manifest)["data"]


def jnrrdz_open_and_read(manifest: str, _: str) -> None:
    """Open a manifest with jnrrdz and read one chunk from the middle."""
    import jnrrdz

    array = jnrrdz.open_group(manifest)["data"]
    array[tuple(slice(size // 2, size // 2 + 1) for size in array.shape)]


def fsspec_open(manifest: str, _: str) -> None:
    """Open a JSON manifest with fsspec's ReferenceFileSystem."""
    from fsspec.implementations.reference import ReferenceFileSystem

    ReferenceFileSystem(manifest).cat("zarr.json")


JOBS: dict[str, Callable[[str, str], None]] = {
    job.__name__: job
    for job in (tifffile_index, jnrrdz_json, jnrrdz_parquet, jnrrdz_open, jnrrdz_open_and_read, fsspec_open)
}


def peak() -> int:
    """Return the process's peak resident memory in bytes.

    The kernel's high-water mark, where there is one: `ru_maxrss` keeps that of the parent.
    """
    if STATUS.exists():
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def run(name: str, warm_up: tuple[str, str], arguments: tuple[str, str]) -> dict[str, float]:
    """Return seconds and peak memory of one job in a fresh interpreter."""
    command = [sys.executable, __file__, name, *warm_up, *arguments]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(answer.stdout.splitlines()[-1])


def main(name: str, *arguments: str) -> None:
    """Run one job on the small input, then on the large one, and print what the latter took."""
    job = JOBS[name]
    job(*arguments[:2])
    before = peak()
    start = time.perf_counter()
    job(*arguments[2:])
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak": peak(), "rise": peak() - before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
