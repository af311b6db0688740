"""What a worker process costs a parser of another library: `python benchmarks/guests.py`.

Each file is scanned in this process and through a worker that runs already, in turns;
the table shows the best CPU time of a scan in each, that of the worker included, and
their ratio.  The files are ordinary ones, small and large, on a local disk.
"""

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import tifffile
from astropy.io import fits

from jnrrdz.formats.guests import Guests
from jnrrdz.formats.neighbours import Guest
from jnrrdz.formats.scanning import scan
from jnrrdz.options import Access, ScanOptions

SECONDS = 600.0
ROUNDS = 5
"""Scans of a turn; the first turn, which imports libraries, is never the best."""


def hdf5(path: Path, side: int, chunk: int) -> None:
    """Write an HDF5 file of one compressed data set."""
    with h5py.File(path, "w") as file:
        options = {"chunks": (chunk, chunk), "compression": "gzip"}
        values = np.arange(side * side, dtype="f4").reshape(side, side)
        file.create_dataset("v", data=values, **options)


def write_files(folder: Path) -> list[Path]:
    """Write the files and return their paths."""
    hdf5(folder / "small.h5", 64, 32)
    hdf5(folder / "chunks.h5", 2000, 20)
    image = np.zeros((100, 120), "i2")
    fits.PrimaryHDU(image).writeto(folder / "small.fits")
    units = [fits.PrimaryHDU(image), *(fits.ImageHDU(image) for _ in range(20))]
    fits.HDUList(units).writeto(folder / "units.fits")
    planes = np.zeros((5, 2, 40, 50), "u2")
    tifffile.imwrite(folder / "imagej.tif", planes, imagej=True)
    tifffile.imwrite(folder / "ome.tif", planes, ome=True)
    many = np.zeros((200, 2, 40, 50), "u2")
    metadata = {"axes": "TCYX"}
    tifffile.imwrite(folder / "pages.tif", many, imagej=True, metadata=metadata)
    slide = {"description": "Aperio Image Library v1", "tile": (256, 256)}
    pixels = np.zeros((4096, 4096, 3), "u1")
    tifffile.imwrite(folder / "slide.svs", pixels, photometric="rgb", **slide)
    return sorted(folder.iterdir())


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children, as Linux counts it."""
    total = time.process_time_ns()
    for children in Path("/proc/self/task").glob("*/children"):
        for process in children.read_text().split():
            total += int(Path(f"/proc/{process}/schedstat").read_text().split()[0])
    return total / 1e9


def cost(call: Callable[[], object], rounds: int) -> float:
    """Return the CPU seconds of a call."""
    start = cpu_seconds()
    for _ in range(rounds):
        call()
    return (cpu_seconds() - start) / rounds


def compare(path: Path, guest: Guest, turns: int) -> tuple[float, float]:
    """Return the best CPU seconds of a scan in this process, and through a worker."""
    inside = partial(scan, str(path), ScanOptions(), Access())
    outside = partial(inside, guest=guest)
    pairs = [(cost(inside, ROUNDS), cost(outside, ROUNDS)) for _ in range(turns)]
    best, best_outside = (min(times) for times in zip(*pairs, strict=True))
    return best, best_outside


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=30)
    turns = parser.parse_args().turns
    warnings.simplefilter("ignore")
    guests = Guests(1)
    guest = guests.within(SECONDS)
    print("| file | in the process | in a worker | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for path in write_files(Path(folder)):
            inside, outside = compare(path, guest, turns)
            times = f"{inside * 1e3:.2f} ms | {outside * 1e3:.2f} ms"
            print(f"| {path.name} | {times} | {outside / inside:.2f} |")
    guests.close()


if __name__ == "__main__":
    main()
