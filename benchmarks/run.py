"""The benchmarks: `python benchmarks/run.py [--quick] [--only TASK] [--out FILE] [--keep]`.

Times mean something only beside each other, so every
figure stands with its ratio to the case's base, measured in turns in the same run.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import data
import results
import zarr
from cases import TASKS
from measure import Row, measure, table

THREADS = 2


def hold_to(threads: int) -> None:
    """Give this process (and its children) that many cores, and zarr as many decoding threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    zarr.config.set({"threading.max_workers": threads})


def main() -> None:
    """Measure, print one table, write JSON where asked."""
    parser = argparse.ArgumentParser(description="Compare jnrrdz with tifffile, rasterio, fsspec and the bound.")
    parser.add_argument("--quick", action="store_true", help="small data sets, whose figures are not kept")
    parser.add_argument("--only", choices=TASKS, action="append", help="this task; may be given again")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--keep", action="store_true", help="put the ratios into benchmarks/results/VERSION.json")
    options = parser.parse_args()
    hold_to(THREADS)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=data.cache()) as work:
        for task in options.only or TASKS:
            load, start = os.getloadavg()[0], time.monotonic()
            cases = TASKS[task](data.QUICK if options.quick else data.FULL, Path(work))
            done = [row for case in cases for row in measure(case)]
            print(f"{task}: {time.monotonic() - start:.0f} s", file=sys.stderr)
            if options.keep and done and not options.quick:
                results.keep(task, done, [round(load, 1), round(os.getloadavg()[0], 1)])
            rows += done
    print(table(rows))
    if options.out:
        options.out.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
