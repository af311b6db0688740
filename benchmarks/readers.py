"""Readers of a whole image or a window, each in its usual form, and the bound that none can beat.

The bound, `Decoder`, has every tile in memory before the clock
starts and decodes with imagecodecs into an array that exists already; what a reader takes beyond
that is its own cost.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import rasterio
import tifffile
from numpy.typing import NDArray

JPEG, DEFLATE, WEBP = 7, 8, 50001
HORIZONTAL = 2
SEPARATE = 2

type Tile = tuple[bytes, tuple[int | slice, ...]]
"""Encoded bytes, and where in the array they go."""


class Decoder:
    """Decode the tiles of a TIFF's first page from memory: the least work that any reader does."""

    def __init__(self, path: Path) -> None:
        """Read every tile, and touch every page of the array that they go to."""
        with tifffile.TiffFile(path) as tiff:
            page = tiff.pages.first
            self.compression, self.predictor = int(page.compression), int(page.predictor)
            self.tables, self.shape, self.dtype = page.jpegtables, page.shape, page.dtype
            self.height, self.width = page.tilelength, page.tilewidth
            self.tiles = list(_tiles(page, tiff.filehandle))
        self.out = np.zeros(self.shape, self.dtype)

    def into(self, tile: Tile) -> None:
        """Decode one tile to its place."""
        data, where = tile
        place = self.out[where]
        if self.compression == JPEG:
            place[:] = imagecodecs.jpeg8_decode(data, tables=self.tables, colorspace="YCBCR", outcolorspace="RGB")
        elif self.compression == WEBP:
            place[:] = imagecodecs.webp_decode(data)
        elif self.compression == DEFLATE and self.predictor == HORIZONTAL:
            flat = np.frombuffer(imagecodecs.deflate_decode(data, out=place.nbytes), self.dtype)
            imagecodecs.delta_decode(flat.reshape(place.shape), axis=-1, out=place)
        else:
            raise ValueError(
                f"the bound is written for JPEG, WebP and deflate with predictor 2, not {self.compression}"
            )

    def read(self, threads: int = 2) -> NDArray[Any]:
        """Decode all tiles on that many threads."""
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(self.into, self.tiles):
                pass
        return self.out


def _tiles(page: tifffile.TiffPage, handle: tifffile.FileHandle) -> Iterator[Tile]:
    """Yield the page's tiles in file order."""
    planes = range(page.samplesperpixel if page.planarconfig == SEPARATE else 1)
    down, across = range(0, page.imagelength, page.tilelength), range(0, page.imagewidth, page.tilewidth)
    places = product(planes, down, across)
    for (plane, row, column), offset, count in zip(places, page.dataoffsets, page.databytecounts, strict=True):
        handle.seek(offset)
        where = (slice(row, row + page.tilelength), slice(column, column + page.tilewidth))
        yield handle.read(count), (plane, *where) if len(planes) > 1 else where


def rasterio_full(path: Path) -> NDArray[Any]:
    """Return the image as rasterio reads it on two threads."""
    with rasterio.open(path, NUM_THREADS=2) as source:
        return source.read(1) if source.count == 1 else source.read()


def tifffile_full(path: Path) -> NDArray[Any]:
    """Return the image as tifffile reads it on two threads."""
    return tifffile.imread(path, key=0, maxworkers=2)
