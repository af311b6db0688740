"""Levels, their tiles, and in which bands of tiles a source is read.

May touch the model's limits and errors only; pure.  Axes are in the array's order, last one fastest; the
header's order is the reverse.  Sizes of levels as docs/formats/jnrrd.md has them: max(1, floor(size / scale)).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from jnrrdz.errors import UnsupportedError

type Sizes = tuple[int, ...]
type Region = tuple[slice, ...]

BAND = 256 << 20
"""Bytes of the source that are read at one time so that no chunk of it is decoded twice."""

MOST_LEVELS = 32


@dataclass(frozen=True)
class Level:
    """One level and its grid of tiles, the last one along an axis filled up."""

    number: int
    scale: Sizes
    """Elements of the finest level that one spans."""

    factors: Sizes
    """Elements of the level before that one spans."""

    shape: Sizes
    tile: Sizes

    @property
    def grid(self) -> Sizes:
        """Tiles along each axis."""
        return tuple(-(-size // tile) for size, tile in zip(self.shape, self.tile, strict=True))

    @property
    def tiles(self) -> int:
        """Tiles of the level."""
        return math.prod(self.grid)

    def region(self, index: Sizes) -> Region:
        """Return the elements of a tile that are there."""
        axes = zip(index, self.tile, self.shape, strict=True)
        return tuple(slice(i * tile, min((i + 1) * tile, size)) for i, tile, size in axes)

    def number_of(self, index: Sizes) -> int:
        """Return a tile's place in the order of tiles."""
        found = 0
        for i, count in zip(index, self.grid, strict=True):
            found = found * count + i
        return found

    def indices(self, band: Sizes) -> Iterator[tuple[Region, list[Sizes]]]:
        """Yield bands of so many tiles, and the tiles in each; all together in the order of tiles."""
        for first in product(*(range(0, count, step) for count, step in zip(self.grid, band, strict=True))):
            spans = [range(i, min(i + step, count)) for i, step, count in zip(first, band, self.grid, strict=True)]
            start, end = self.region(first), self.region(tuple(span[-1] for span in spans))
            yield tuple(slice(a.start, b.stop) for a, b in zip(start, end, strict=True)), list(product(*spans))


def levels(shape: Sizes, tile: Sizes, count: int, factors: Sizes) -> tuple[Level, ...]:
    """Return so many levels, each coarser than the one before by the factors; tiles are never larger than a level."""
    if not 1 <= count <= MOST_LEVELS:
        raise UnsupportedError(f"{count}; there can be 1 to {MOST_LEVELS}", field="levels")
    found = [_level(shape, tile, 0, factors)]
    while len(found) < count:
        found.append(_level(shape, tile, len(found), factors))
        if found[-1].shape == found[-2].shape:
            raise UnsupportedError(
                f"{count} levels of {'x'.join(map(str, shape))} elements; no level is smaller than that of "
                f"number {found[-2].number}, so ask for {len(found) - 1}",
                field="levels",
            )
    return tuple(found)


def _level(shape: Sizes, tile: Sizes, number: int, factors: Sizes) -> Level:
    scale = tuple(factor**number for factor in factors)
    own = tuple(max(1, size // by) for size, by in zip(shape, scale, strict=True))
    return Level(number, scale, factors if number else (1,) * len(shape), own, tuple(map(min, tile, own)))


def band(level: Level, chunks: Sizes, itemsize: int, most: int = BAND) -> Sizes:
    """Return how many tiles along each axis to read at once: the fewest for which no chunk is decoded twice.

    Tiles are written in their order, so a band of several along an axis has all of those along the axes
    behind it.  Where that is more than `most` bytes, the band is less, and chunks are decoded again.
    """
    ones = (1,) * len(level.shape)
    cut = [number for number in range(len(ones)) if _is_cut(level, chunks, number)]
    if not cut:
        return ones
    for axis in range(cut[0], len(ones)):
        behind = level.grid[axis + 1 :]
        aligned = math.lcm(level.tile[axis], chunks[axis]) // level.tile[axis]
        widest = min(aligned if axis == cut[0] else level.grid[axis], level.grid[axis])
        for tiles in range(widest, 0, -1):
            found = (*ones[:axis], tiles, *behind)
            if _bytes(level, found) * itemsize <= most:
                return found
    return ones


def _is_cut(level: Level, chunks: Sequence[int], axis: int) -> bool:
    """Whether the border of a tile goes through a chunk."""
    return level.grid[axis] > 1 and level.tile[axis] % chunks[axis] != 0


def _bytes(level: Level, tiles: Sizes) -> int:
    return math.prod(count * tile for count, tile in zip(tiles, level.tile, strict=True))
