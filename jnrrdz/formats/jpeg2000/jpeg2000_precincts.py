"""Where a tile's resolutions, subbands and precincts lie, and which of them a window needs.

May touch `layout.jpeg2000_coding` only; pure arithmetic on coordinates, which are those of the resolution
itself (the reference grid divided by the sampling and by 2 for each level below).
Spec: ITU-T T.800, B.5 to B.7 (boxes), Annex F (how far the wavelets reach).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from jnrrdz.formats.jpeg2000.jpeg2000_coding import Box, Coding

REACH = {True: 2, False: 4}
"""Samples on each side of one that its synthesis depends on: 5/3 (reversible) and 9/7."""


def shrunk(box: Box, x: int, y: int) -> Box:
    """Return a box divided by `x` and `y`, rounded up as the specification does with every coordinate."""
    return -(-box[0] // x), -(-box[1] // y), -(-box[2] // x), -(-box[3] // y)


def cut(box: Box, limit: Box) -> Box:
    """Return the part of a box that lies in another one."""
    return max(box[0], limit[0]), max(box[1], limit[1]), min(box[2], limit[2]), min(box[3], limit[3])


def is_empty(box: Box) -> bool:
    """Whether a box has no samples."""
    return box[2] <= box[0] or box[3] <= box[1]


@dataclass(frozen=True)
class Resolution:
    """One resolution of one component of a tile: its box and the precincts that cover it."""

    box: Box
    exponents: tuple[int, int]

    @cached_property
    def cells(self) -> Box:
        """The precincts, counted from the origin of the canvas: first and end, column and row."""
        return self.cells_of(self.box)

    def cells_of(self, box: Box) -> Box:
        """Return the precincts that a box touches."""
        if is_empty(box):
            return 0, 0, 0, 0
        across, down = self.exponents
        return box[0] >> across, box[1] >> down, -(-box[2] >> across), -(-box[3] >> down)

    @property
    def columns(self) -> int:
        """Precincts in a row."""
        return self.cells[2] - self.cells[0]

    @property
    def rows(self) -> int:
        """Rows of precincts."""
        return self.cells[3] - self.cells[1]

    @property
    def count(self) -> int:
        """Number of precincts."""
        return self.columns * self.rows

    def area(self, cells: Box) -> Box:
        """Return the samples that a rectangle of precincts holds."""
        across, down = self.exponents
        whole = cells[0] << across, cells[1] << down, cells[2] << across, cells[3] << down
        return cut(whole, self.box)

    def cell(self, precinct: int) -> Box:
        """Return a precinct, by its number, as a rectangle of one."""
        row, column = divmod(precinct, self.columns)
        left, top = self.cells[0] + column, self.cells[1] + row
        return left, top, left + 1, top + 1


def resolution(coding: Coding, tile: Box, component: int, number: int) -> Resolution:
    """Return a resolution of a tile, 0 the lowest."""
    part = coding.siz.components[component]
    scale = 1 << (coding.levels - number)
    return Resolution(shrunk(shrunk(tile, part.dx, part.dy), scale, scale), coding.precincts[number])


def bands(number: int) -> tuple[tuple[int, int], ...]:
    """Return whether a resolution's subbands are high in x and y: LL, or HL, LH, HH."""
    return ((0, 0),) if number == 0 else ((1, 0), (0, 1), (1, 1))


def band_box(box: Box, high: tuple[int, int]) -> Box:
    """Return the subband samples that a box of a resolution above the lowest is made of."""
    x, y = high
    return (box[0] - x + 1) >> 1, (box[1] - y + 1) >> 1, (box[2] - x + 1) >> 1, (box[3] - y + 1) >> 1


def blocks_of(coding: Coding, level: Resolution, number: int, precinct: int) -> list[tuple[int, int]]:
    """Return columns and rows of a precinct's code-blocks in each subband."""
    area = level.area(level.cell(precinct))
    found = []
    for high in bands(number):
        box = area if number == 0 else band_box(area, high)
        less = 0 if number == 0 else 1
        wide = min(coding.blocks[0], level.exponents[0] - less)
        tall = min(coding.blocks[1], level.exponents[1] - less)
        size = (-(-box[2] >> wide) - (box[0] >> wide), -(-box[3] >> tall) - (box[1] >> tall))
        found.append((0, 0) if is_empty(box) else size)
    return found


@dataclass(frozen=True)
class Share:
    """What a window takes from one resolution."""

    level: Resolution
    need: Box
    """The samples of this resolution that the one above (or the window itself) is made of, its reach included."""
    cells: Box
    """The precincts whose subbands give them."""

    @property
    def cover(self) -> Box:
        """The samples of this resolution that those precincts hold."""
        return self.level.area(self.cells)

    def precincts(self) -> Iterator[int]:
        """Yield the numbers of those precincts in their resolution, row by row."""
        left, top, right, bottom = self.cells
        x, y = self.level.cells[:2]
        for row in range(top - y, bottom - y):
            first = row * self.level.columns - x
            yield from range(first + left, first + right)


def shares(coding: Coding, tile: Box, window: Box, level: int = 0) -> list[Share]:
    """Return what a window of the pyramid's `level` takes from each resolution, lowest first."""
    found: list[Share] = []
    need, reach = window, REACH[coding.reversible]
    for number in range(coding.levels - level, -1, -1):
        grid = resolution(coding, tile, 0, number)
        if number:
            wider = (need[0] - reach, need[1] - reach, need[2] + reach, need[3] + reach)
            need = cut(wider, grid.box)
        found.append(Share(grid, need, grid.cells_of(need)))
        need = band_box(need, (0, 0))
    return found[::-1]
