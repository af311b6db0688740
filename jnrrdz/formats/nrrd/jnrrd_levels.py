"""What a JNRRD's tiling is: levels, their grids, and which part of a tile each chunk is.

May touch errors; opens nothing.  Rules in docs/formats/jnrrd.md; vectors are in the file's order, dimension 0
first, with an entry for every dimension, tiled or not.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jnrrdz.errors import MalformedError

MOST_TILES = 1 << 26
DEFAULT_METHOD = "average"

type Sizes = tuple[int, ...]
type Choice = tuple[int, int]


@dataclass(frozen=True)
class TileAxis:
    """One axis of one level."""

    size: int
    tile: int
    overlap: int
    is_variable: bool

    @property
    def count(self) -> int:
        """Tiles along the axis; one where it is not larger than the overlap."""
        return max(1, -(-(self.size - self.overlap) // (self.tile - self.overlap)))

    @property
    def stride(self) -> int:
        """How far apart tiles begin."""
        return self.tile - self.overlap

    @property
    def last(self) -> int:
        """What is stored of the last tile."""
        return self.size - (self.count - 1) * self.stride if self.is_variable else self.tile

    @property
    def chunk(self) -> int:
        """Size of the chunks: the stride, or all of the only tile."""
        return self.last if self.count == 1 else self.stride

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Stored size and first element of every chunk's tile, each once."""
        return tuple(dict.fromkeys(map(self.choice, self._distinct)))

    @property
    def chunks(self) -> int:
        """Chunks along the axis: some may be of the last tile, behind its first stride."""
        return -(-self.size // self.chunk)

    @property
    def _distinct(self) -> range | tuple[int, ...]:
        return (0, *range(self.count - 1, self.chunks))

    def tile_of(self, chunk: int) -> int:
        """Return the tile that a chunk is read from."""
        return min(chunk, self.count - 1)

    def choice(self, chunk: int) -> Choice:
        """Return what is stored of a chunk's tile, and where in it the chunk begins."""
        tile = self.tile_of(chunk)
        return (self.last if tile == self.count - 1 else self.tile), (chunk - tile) * self.chunk


@dataclass(frozen=True)
class TileLevel:
    """One stored level."""

    number: int
    scale: Sizes
    axes: tuple[TileAxis, ...]

    @property
    def sizes(self) -> Sizes:
        """Elements along each dimension."""
        return tuple(axis.size for axis in self.axes)

    @property
    def counts(self) -> Sizes:
        """Tiles along each dimension."""
        return tuple(axis.count for axis in self.axes)

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return math.prod(self.counts)


@dataclass(frozen=True)
class ComputedLevel:
    """One virtual level: what it is made from, and how much coarser than that it is."""

    number: int
    source: int
    factors: Sizes
    sizes: Sizes
    tile: Sizes


@dataclass(frozen=True)
class Tiling:
    """A tiling, checked."""

    prefix: str
    keys: Mapping[str, Any]
    dimensions: Sizes
    compression: str
    stored: tuple[TileLevel, ...]
    virtual: tuple[ComputedLevel, ...] = ()
    total: int = 1
    """Levels that there are, stored or not."""

    method: str = field(default=DEFAULT_METHOD)

    @property
    def tiles(self) -> int:
        """Tiles of all stored levels."""
        return sum(level.tiles for level in self.stored)

    def error(self, message: str, name: str) -> MalformedError:
        """Return the error about one of the extension's keys."""
        return MalformedError(message, field=f"{self.prefix}:{name}")
