"""A window of a large lossless JPEG 2000 image in ONE tile, against decoding the tile.

The file has PLT, the progression RPCL and
precincts of 256.  Pixels that differ from those that were encoded stop the run.
"""

import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import data
import imagecodecs
import numpy as np
import rasterio
import rasterio.shutil
from measure import Case, Sample, timed
from numpy.typing import NDArray
from rasterio.windows import Window
from server import Remote, serving

import jnrrdz

SIDE = 512
LATENCY = 0.020
PICTURE = data.Picture(samples=1, dtype="uint8", scale=200.0, noise=6.0)
OPTIONS = {
    "driver": "JP2OpenJPEG",
    "QUALITY": 100,
    "REVERSIBLE": "YES",
    "NUM_THREADS": 2,
    "PROGRESSION": "RPCL",
    "PLT": "YES",
    "RESOLUTIONS": 6,
    "PRECINCTS": ",".join(["{256,256}"] * 6),
}
type Pixels = NDArray[Any]


def one_tile_jp2(size: int) -> Path:
    """Return a lossless JP2 of size x size grey pixels in one tile."""
    path = data.cache() / f"one_tile_{size}.jp2"
    if not path.exists():
        plain, made = path.with_suffix(".plain"), path.with_suffix(".part.jp2")
        data.draw(plain, size, PICTURE)
        rasterio.shutil.copy(str(plain), str(made), **OPTIONS, BLOCKXSIZE=size, BLOCKYSIZE=size)
        plain.unlink()
        made.rename(path)
    return path


def places(size: int) -> dict[str, tuple[int, int]]:
    """Return first row and column of a window that lies in one chunk, and of one that lies in four."""
    inside = size // 2
    return {"in one chunk": (inside, inside), "in four chunks": (inside + 1024 - 240, inside + 1024 - 240)}


def expected(size: int) -> dict[str, Pixels]:
    """Return what was encoded there."""
    rows = np.concatenate([band[0] for band in data.bands(size, PICTURE)])
    return {name: rows[row : row + SIDE, column : column + SIDE].copy() for name, (row, column) in places(size).items()}


def finest(manifest: Path, **options: Any) -> Any:
    """Return the full-resolution array."""
    return jnrrdz.open_group(str(manifest), **options)["0/data"]


def local(size: int, work: Path, same: Callable[[Pixels, Pixels, str], None]) -> Case:
    """Return windows of the local file."""
    path, manifest, known = one_tile_jp2(size), work / "one_tile.json", expected(size)
    jnrrdz.index(str(path), str(manifest), overwrite=True)
    array = finest(manifest)
    contenders: dict[str, Callable[[], Sample]] = {"whole tile, imagecodecs": lambda: timed(whole, path.read_bytes())}
    for name, (row, column) in places(size).items():

        def windowed(row: int = row, column: int = column) -> Pixels:
            return array[row : row + SIDE, column : column + SIDE]

        def by_gdal(row: int = row, column: int = column) -> Pixels:
            with rasterio.open(path) as source:
                return source.read(1, window=Window(column, row, SIDE, SIDE))

        same(windowed(), known[name], name)
        same(by_gdal(), known[name], name)
        contenders[f"rasterio, {name}"] = lambda read=by_gdal: timed(read)
        contenders[f"jnrrdz, {name}"] = lambda read=windowed: timed(read)
    return Case(f"{SIDE}x{SIDE} of {size} squared in one JPEG 2000 tile", "whole tile, imagecodecs", contenders, 2)


def whole(octets: bytes) -> Pixels:
    """Return the whole image."""
    return imagecodecs.jpeg2k_decode(octets)


def remote(size: int, work: Path, same: Callable[[Pixels, Pixels, str], None]) -> Case:
    """Return the same over HTTP, and what the index takes."""
    path, manifest, known = one_tile_jp2(size), work / "one_tile_remote.json", expected(size)

    def fetched() -> Sample:
        with serving(path.parent, LATENCY) as server:
            return counted(server, lambda: whole(urllib.request.urlopen(f"{server.root}/{path.name}").read()))[0]

    def indexed() -> Sample:
        with serving(path.parent, LATENCY) as server:
            url = f"{server.root}/{path.name}"
            return counted(server, lambda: jnrrdz.index(url, str(manifest), overwrite=True))[0]

    def windowed(name: str, row: int, column: int) -> Sample:
        with serving(path.parent, LATENCY) as server:
            jnrrdz.index(f"{server.root}/{path.name}", str(manifest), overwrite=True)
            array = finest(manifest, allow=[server.root])
            sample, pixels = counted(server, lambda: array[row : row + SIDE, column : column + SIDE])
        same(pixels, known[name], name)
        return sample

    contenders: dict[str, Callable[[], Sample]] = {"fetch and decode whole": fetched, "jnrrdz index": indexed}
    for name, place in places(size).items():
        contenders[f"jnrrdz, {name}"] = lambda name=name, place=place: windowed(name, *place)
    title = f"{SIDE}x{SIDE} of {size} squared in one JPEG 2000 tile, HTTP with {LATENCY * 1000:.0f} ms"
    return Case(title, "fetch and decode whole", contenders, 2)


def counted(server: Remote, function: Callable[[], Any]) -> tuple[Sample, Any]:
    """Return seconds, requests and bytes of one call, and its result."""
    server.tally()
    start = time.perf_counter()
    result = function()
    seconds, tally = time.perf_counter() - start, server.tally()
    return Sample(seconds=seconds, requests=tally["requests"], nbytes=tally["bytes"]), result


def cases(size: int, work: Path, same: Callable[[Pixels, Pixels, str], None]) -> Iterator[Case]:
    """Yield both cases."""
    yield local(size, work, same)
    yield remote(size, work, same)
