"""A band as of Sentinel-2 over HTTP: index, a window, and lower levels, beside GDAL's /vsicurl/.

Tiles of 1024, LRCP, one layer, lossless: with and without TLM and PLT.  Levels have to
be those of the local file, or the run stops.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import data
import numpy as np
import rasterio
import rasterio.shutil
from jpeg2000_window import counted
from measure import Case, Sample
from numpy.typing import NDArray
from rasterio.windows import Window
from server import serving

import jnrrdz

LATENCY = 0.020
TILE = 1024
SIDE = 500
LEVELS = (0, 3, 4)
POINTERS = {"neither": {}, "TLM": {"TLM": "YES"}, "PLT": {"PLT": "YES"}, "both": {"TLM": "YES", "PLT": "YES"}}
OPTIONS = {
    "driver": "JP2OpenJPEG",
    "QUALITY": 100,
    "REVERSIBLE": "YES",
    "NUM_THREADS": 2,
    "PROGRESSION": "LRCP",
    "RESOLUTIONS": 6,
    "PRECINCTS": "{32768,32768}",
    "BLOCKXSIZE": TILE,
    "BLOCKYSIZE": TILE,
}
PICTURE = data.Picture(samples=1, dtype="uint16", scale=4000.0, noise=1.2)
type Pixels = NDArray[Any]


def band(size: int, pointers: str) -> Path:
    """Return the JP2 of that size and those pointers, made where it is missing."""
    path = data.cache() / f"band_{size}_{pointers}.jp2"
    if not path.exists():
        plain, part = path.with_suffix(".plain"), path.with_suffix(".part.jp2")
        data.draw(plain, size, PICTURE)
        rasterio.shutil.copy(str(plain), str(part), **OPTIONS, **POINTERS[pointers])
        plain.unlink()
        part.rename(path)
    return path


def read_by_gdal(path: str, level: int, place: int) -> Pixels:
    """Return a window of the full resolution, or all of a lower level."""
    if not level:
        with rasterio.open(path) as source:
            return source.read(1, window=Window(place, place, SIDE, SIDE))
    with rasterio.open(path, overview_level=level - 1) as source:
        return source.read(1)


def cases(
    size: int, work: Path, same: Callable[[Pixels, Pixels, str], None], latency: float = LATENCY
) -> Iterator[Case]:
    """Yield a case for each kind of pointers."""
    place = size // 3
    for pointers in POINTERS:
        path, manifest = band(size, pointers), work / f"band_{pointers}.json"
        title = f"{size} squared, 16 bits, tiles of {TILE}, {path.stat().st_size / 1e6:.1f} MB, TLM and PLT: {pointers}"

        def indexed(path: Path = path, manifest: Path = manifest) -> Sample:
            with serving(path.parent, latency) as server:
                url = f"{server.root}/{path.name}"
                return counted(server, lambda: jnrrdz.index(url, str(manifest), overwrite=True))[0]

        def ours(level: int, path: Path = path, manifest: Path = manifest) -> Sample:
            with serving(path.parent, latency) as server:
                jnrrdz.index(f"{server.root}/{path.name}", str(manifest), overwrite=True)
                array = jnrrdz.open_group(str(manifest), allow=[server.root])[f"{level}/data"]
                window = np.s_[place : place + SIDE, place : place + SIDE] if not level else np.s_[:, :]
                sample, pixels = counted(server, lambda: array[window])
            same(pixels, read_by_gdal(str(path), level, place), f"{path.name}, level {level}")
            return sample

        def gdal(level: int, path: Path = path) -> Sample:
            with serving(path.parent, latency) as server:
                url = f"/vsicurl/{server.root}/{path.name}"
                return counted(server, lambda: read_by_gdal(url, level, place))[0]

        contenders: dict[str, Callable[[], Sample]] = {"jnrrdz, index": indexed}
        for level in LEVELS:
            name = f"level {level}" if level else f"window of {SIDE}"
            contenders[f"jnrrdz, {name}"] = lambda level=level, read=ours: read(level)
            contenders[f"GDAL, {name}"] = lambda level=level, read=gdal: read(level)
        yield Case(title, "jnrrdz, index", contenders, rounds=1)
