"""Tiles of a coarser level from the tiles of the level before, read back as they were stored.

May touch downsample and this folder's modules.  A tile is computed in pieces, each of the elements under
about one tile of the finer level; downsample gives the same elements, to the bit, however they are cut.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.commands.places import Place
from jnrrdz.downsample import Downsampling
from jnrrdz.formats.nrrd.grid import Level, Region, Sizes
from jnrrdz.formats.nrrd.packing import Packer

KEPT = 4
"""Decoded tiles of the finer level that are kept, for pieces that need parts of the same ones."""


class Coarser:
    """Reads regions of a level that is made from the one before."""

    def __init__(self, finer: Level, level: Level, method: str, missing: Any, packer: Packer) -> None:
        self._finer, self._level, self._packer = finer, level, packer
        self._how = Downsampling(method, level.factors, finer.shape, packer.dtype, missing)
        self._how.check_shape(level.shape)
        self._kept: OrderedDict[Sizes, NDArray[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def tile(self, place: Place, index: Sizes) -> NDArray[Any]:
        """Return the elements of a tile that are there."""
        region = self._level.region(index)
        found = np.empty(_shape(region), self._packer.dtype)
        for piece in self._pieces(region):
            target = tuple(slice(p.start - r.start, p.stop - r.start) for p, r in zip(piece, region, strict=True))
            found[target] = self._how.apply(self._gathered(place, self._how.window(piece)), piece)
        return found

    def _pieces(self, region: Region) -> Iterator[Region]:
        tile, factors = self._finer.tile, self._level.factors
        steps = [max(size // factor, 1) for size, factor in zip(tile, factors, strict=True)]
        axes = [range(at.start, at.stop, step) for at, step in zip(region, steps, strict=True)]
        for corner in product(*axes):
            ends = zip(corner, steps, region, strict=True)
            yield tuple(slice(start, min(start + step, at.stop)) for start, step, at in ends)

    def _gathered(self, place: Place, window: Region) -> NDArray[Any]:
        """Return the elements of the finer level in a window."""
        tile = self._finer.tile
        spans = [range(at.start // size, -(-at.stop // size)) for at, size in zip(window, tile, strict=True)]
        found = np.empty(_shape(window), self._packer.dtype)
        for index in product(*spans):
            within, out = [], []
            for i, size, at in zip(index, tile, window, strict=True):
                first, last = max(i * size, at.start), min((i + 1) * size, at.stop)
                within.append(slice(first - i * size, last - i * size))
                out.append(slice(first - at.start, last - at.start))
            found[tuple(out)] = self._decoded(place, index)[tuple(within)]
        return found

    def _decoded(self, place: Place, index: Sizes) -> NDArray[Any]:
        with self._lock:
            if index in self._kept:
                self._kept.move_to_end(index)
                return self._kept[index]
        tile = self._packer.unpack(place.get(self._finer, index), self._finer.tile)
        with self._lock:
            self._kept[index] = tile
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return tile


def _shape(region: Region) -> Sizes:
    return tuple(at.stop - at.start for at in region)
