"""Readers of a whole image or a window, each in its usual form, and the bound that none can beat.

The bound, `Decoder`, has every tile in memory before the clock
starts and decodes with imagecodecs into an array that exists already; what a reader takes beyond
that is its own cost.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import rasterio
import tifffile
from numpy.typing import NDArray

JPEG, DEFLATE, ZSTD, WEBP = 7, 8, 50000, 50001
HORIZONTAL, FLOATING_POINT = 2, 3
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
        elif self.compression == ZSTD and self.predictor == FLOATING_POINT:
            flat = np.frombuffer(imagecodecs.zstd_decode(data, out=place.nbytes), self.dtype)
            imagecodecs.floatpred_decode(flat.reshape(place.shape), axis=-1, out=place)
        elif self.compression == DEFLATE and self.predictor == 1:
            flat = np.frombuffer(imagecodecs.deflate_decode(data, out=place.nbytes), self.dtype)
            place[:] = flat.reshape(place.shape)
        else:
            raise ValueError(f"no bound is written for compression {self.compression} with {self.predictor}")

    def read(self, threads: int = 2) -> NDArray[Any]:
        """Decode all tiles on that many threads, each of which takes some of them at a time."""
        self._read(self.tiles, threads)
        return self.out

    def read_anew(self, threads: int = 2) -> NDArray[Any]:
        """Do the same into a new array, as whoever returns one has to: the system clears its pages first."""
        del self.out
        self.out = np.empty(self.shape, self.dtype)
        return self.read(threads)

    def read_windows(self, places: Sequence[tuple[int, int]], size: int, threads: int = 2) -> None:
        """Decode the tiles that each of some windows meets, one window after another."""
        by_place = {(where[0].start, where[1].start): (data, where) for data, where in self.tiles}
        for row, column in places:
            tops = range(row - row % self.height, row + size, self.height)
            lefts = range(column - column % self.width, column + size, self.width)
            self._read([by_place[place] for place in product(tops, lefts)], threads)

    def _read(self, tiles: Sequence[Tile], threads: int) -> None:
        length = max(1, min(256, len(tiles) // (16 * threads)))

        def some(first: int) -> None:
            for tile in tiles[first : first + length]:
                self.into(tile)

        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(some, range(0, len(tiles), length)):
                pass


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
