"""The chunk grid of a resolution level, and components of several sizes brought to one grid.

A chunk grid is regular whatever the tiles are.  Where all tiles of a level have the same size, and the image begins
where a tile does, a chunk is a tile.  Else a chunk is as many tiles as make up a whole number of samples, and begins
where the image does: it may then take parts of further tiles.

A component with one sample every d points of the reference grid is repeated d times, from the point of each sample
on.  That is certain only where the image and its tiles begin at points that have a sample: else the first pixels
belong to a sample that the image, or the tile, has not.
Spec: docs/codecs/jpeg2000/README.md; ITU-T T.800, B.2
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.markers import Axis, Component, Siz
from jnrrdz.formats.jpeg2000.tile_parts import Ints

MAX_SAMPLES = 1 << 29
"""Of a chunk, all components together: decoders take four bytes a sample and more of their own, some 4 GB."""

type Tiles = tuple[range, range]
"""Rows and columns of tiles."""

type Area = tuple[tuple[int, int], tuple[int, int]]
"""The first sample and the one after the last, down and across."""


@dataclass(frozen=True)
class ChunkGrid:
    """The chunks of some components at one resolution level."""

    siz: Siz
    component: Component
    """Any of the components: all have its subsampling."""

    level: int

    @cached_property
    def factors(self) -> tuple[int, int]:
        """How many points of the reference grid a sample spans, down and across."""
        return self.component.dy << self.level, self.component.dx << self.level

    @cached_property
    def axes(self) -> tuple[tuple[Axis, int], tuple[Axis, int]]:
        """Each axis with its factor, y first."""
        down, across = self.factors
        return (self.siz.y, down), (self.siz.x, across)

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of samples."""
        down, across = self.factors
        return self.siz.y.size(down), self.siz.x.size(across)

    @cached_property
    def chunk(self) -> tuple[int, int]:
        """Rows and columns of a chunk."""
        down, across = self.factors
        return self.siz.y.chunk(down), self.siz.x.chunk(across)

    @cached_property
    def is_tiles(self) -> bool:
        """Whether every chunk has samples of one tile only."""
        chunk, _ = self.members
        return len(chunk) == int(chunk[-1]) + 1

    @cached_property
    def most_tiles(self) -> int:
        """How many tiles make up a chunk, at most."""
        return math.prod(min(axis.together(factor), axis.tiles) for axis, factor in self.axes)

    def check_samples(self, why_whole: str = "") -> None:
        """Refuse chunks that cost a decoder too much memory, with the reason that they are not smaller."""
        rows, columns = self.chunk
        if rows * columns * len(self.siz.components) > MAX_SAMPLES:
            raise UnsupportedError(
                f"tiles of {rows} x {columns} pixels of {len(self.siz.components)} components: "
                f"no more than {MAX_SAMPLES} samples are decoded at once{why_whole}",
                field="SIZ",
            )

    def tiles(self, row: int, column: int) -> Tiles:
        """Return the tiles that a chunk has samples of."""
        down, across = self.factors
        return range(*self.siz.y.chunk_tiles(row, down)), range(*self.siz.x.chunk_tiles(column, across))

    def box(self, row: int, column: int) -> Area:
        """Return the samples of a chunk, counted as the component counts them."""
        down, across = self.factors
        return self.siz.y.chunk_box(row, down), self.siz.x.chunk_box(column, across)

    def tile_box(self, number: int) -> Area:
        """Return the samples of a tile, likewise."""
        row, column = divmod(number, self.siz.x.tiles)
        down, across = self.factors
        return self.siz.y.of_tile(row).samples(down), self.siz.x.of_tile(column).samples(across)

    def numbers(self, tiles: Tiles) -> set[int]:
        """Return tiles by their numbers, those without any sample left out."""
        pairs = [(row, column) for row in tiles[0] for column in tiles[1]]
        return {row * self.siz.x.tiles + column for row, column in pairs if self.siz.has_samples(row, column)}

    @cached_property
    def members(self) -> tuple[Ints, Ints]:
        """Every pair of a chunk and a tile that it needs, by chunks in C order, then by tiles."""
        (chunk_y, tile_y), (chunk_x, tile_x) = (_members(axis, factor) for axis, factor in self.axes)
        across = int(chunk_x.max()) + 1
        chunk = (chunk_y[:, np.newaxis] * across + chunk_x).ravel()
        tile = (tile_y[:, np.newaxis] * self.siz.x.tiles + tile_x).ravel()
        order = np.lexsort((tile, chunk))
        return chunk[order], tile[order]

    def place(self, present: Sequence[int]) -> tuple[int, int]:
        """Return the row and column of the chunk whose bytes hold these tiles, and perhaps others between them.

        The first tile is one of the chunk's own.
        """
        row, column = divmod(present[0], self.siz.x.tiles)
        (y, down), (x, across) = self.axes
        have = set(present)
        needs = {
            (i, j): self.numbers(self.tiles(i, j))
            for i in _chunks_with(y, down, row)
            for j in _chunks_with(x, across, column)
        }
        fit = [place for place, needed in needs.items() if needed <= have]
        if len(fit) > 1:
            fit = [place for place in fit if needs[place] == have]
        if len(fit) != 1:
            shown = ", ".join(str(tile) for tile in sorted(have)[:8])
            raise MalformedError(f"tiles {shown} make up no chunk", field="Isot")
        return fit[0]


def _members(axis: Axis, factor: int) -> tuple[Ints, Ints]:
    """Return every pair of a chunk and a tile that it needs along one axis."""
    count = -(-axis.size(factor) // axis.chunk(factor))
    start, stop = axis.tiles_of_chunks(np.arange(count), factor)
    chunk = np.repeat(np.arange(count), stop - start)
    tile = np.arange(len(chunk)) + (start - np.cumsum(stop - start) + (stop - start))[chunk]
    return chunk, tile


def _chunks_with(axis: Axis, factor: int, tile: int) -> list[int]:
    """Return the chunks that need a tile: one, or two where chunks begin inside of tiles."""
    count = -(-axis.size(factor) // axis.chunk(factor))
    guess = axis.chunk_of(tile, factor)
    near = range(max(guess - 1, 0), min(guess + 2, count))
    return [index for index in near if tile in range(*axis.chunk_tiles(index, factor))]


STEPS = {1, 2, 4}
"""The subsamplings of the standard's own profiles; what is coarser than that is no picture's colour."""

COLOURS = 3
SYCC_BITS = 16


def check_composite(siz: Siz, level: int) -> int:
    """Return the finest component where all can be brought to its grid at a level; say why not elsewhere."""
    if (1, 1) not in siz.samplings:
        raise UnsupportedError("no component has a sample at every point of the reference grid", field="SIZ")
    steps = {step for sampling in siz.samplings for step in sampling}
    if not steps <= STEPS:
        raise UnsupportedError(f"a sample every {max(steps)} points: up to {max(STEPS)} are repeated", field="SIZ")
    for axis, most in zip((siz.x, siz.y), map(max, zip(*siz.samplings, strict=True)), strict=True):
        starts = [axis.start] if axis.tiles == 1 else [axis.start, axis.tile_start, axis.tile]
        factor = most << level
        if any(start % factor for start in starts):
            raise UnsupportedError(
                f"an image from {axis.start} in tiles of {axis.tile}: they do not begin at every {factor}th point",
                field="SIZ",
            )
    return next(number for number, component in enumerate(siz.components) if component.sampling == (1, 1))


def is_sycc(components: Sequence[Component]) -> bool:
    """Whether components are those of an sYCC picture as all readers take it: 4:2:2 or 4:2:0, without sign."""
    if len(components) != COLOURS or any(component.signed for component in components):
        return False
    luma, *chroma = components
    steps = {component.sampling for component in chroma}
    bits = {component.bits for component in components}
    is_alike = len(bits) == len(steps) == 1 and max(bits) <= SYCC_BITS
    return is_alike and luma.sampling == (1, 1) and steps <= {(2, 1), (2, 2)}
