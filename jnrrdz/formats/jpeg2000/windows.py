"""Tiles cut into windows by precinct: whether, the byte ranges of each window, and how its bytes are read back.

A window is decoded from the packets of the precincts that it needs, so where packets are has to be known: PLT marker
segments say it in a few reads; else every packet header is read, which is cheap in a local file only.

A codec sees a chunk's bytes and not its place in the grid, so the bytes say it: every chunk is a row of sections,
each begun by the tile's first SOT marker segment (twelve bytes that packets do not hold, taken from the source by
reference like all others).  The number of bytes in the first section is the chunk's row, in the second its column;
then follow the packets of one resolution (of one component's resolution where the progression is by component) a
section, lowest first, in the order of the source.
Spec: docs/decisions/007-precincts.md; docs/codecs/jnrrdz.jpeg2000-window/README.md
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import NamedTuple, get_args

import numpy as np

from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.boxes import ReadRange
from jnrrdz.formats.jpeg2000.codestream import Codestream
from jnrrdz.formats.jpeg2000.markers import Axis, Marker, Progression, Siz
from jnrrdz.formats.jpeg2000.packets import (
    IN_WINDOWS,
    REACH,
    Box,
    Coding,
    PacketTable,
    Resolution,
    TilePart,
    coding,
    cut,
    is_empty,
    packet_counts,
    packet_order,
    packet_table,
    resolution,
    shares,
    shrunk,
    tile_part,
    walk_packets,
)
from jnrrdz.formats.jpeg2000.tile_parts import SOT_BYTES, Ints, Walk
from jnrrdz.options import PrecinctWindows

MAX_SIDE = 1 << 16
"""Rows or columns of windows: a chunk carries as many bytes."""

WORTH = 64
SMALL = 1 << 20
"""A window may cost as many times its samples, or as many samples, before precincts count as too large."""

MAX_COST = 1 << 27
"""Samples of one resolution's precincts, all components together, that a window needs."""

MAX_PACKETS = 1 << 20
"""Packets of one resolution that a window needs; each costs a decoder some kilobytes."""

type Packets = tuple[Ints, ...]
"""Of each section of a chunk, the positions of its packets in the order of the tile."""


@dataclass(frozen=True)
class WindowGrid:
    """Windows of one size over one level of a tile, counted from the tile's corner."""

    coding: Coding
    tile: Box
    level: int
    chunk: tuple[int, int]
    """Height and width."""

    def __post_init__(self) -> None:
        """Refuse components on different grids, which do not share windows, and levels that do not exist."""
        coded, components = self.coding, len(self.coding.components)
        samplings = sorted(coded.siz.samplings)
        if len(samplings) > 1:
            raise UnsupportedError(f"windows over components sampled {samplings}", field="SIZ")
        levels = min(component.levels for component in coded.components)
        if not 0 <= self.level <= levels:
            raise UnsupportedError(f"level {self.level} of a codestream with {levels}", field="COD")
        if min(self.chunk) < 1 or max(self.shape) > MAX_SIDE:
            raise UnsupportedError(f"a grid of {self.shape} windows of {self.chunk}", field="chunk")
        if self.cost > max(WORTH * self.chunk[0] * self.chunk[1], SMALL):
            raise UnsupportedError(
                f"a window of {self.chunk} would cost {self.cost} samples: the precincts are too large for it",
                field="COD",
            )
        if self.cost * components > MAX_COST or self._most_packets > MAX_PACKETS:
            raise UnsupportedError(
                f"a window of {self.chunk} costs {self.cost} samples of {components} components in "
                f"{self._most_packets} packets; {MAX_COST} samples and {MAX_PACKETS} packets are the most",
                field="COD",
            )

    @cached_property
    def cost(self) -> int:
        """Samples of one resolution in the precincts of a window, at most."""
        most = 0
        for level, sides in self._reaches:
            x0, y0, x1, y1 = level.box
            wide, high = (step + (2 << exponent) for step, exponent in zip(sides, level.exponents, strict=True))
            most = max(most, min(y1 - y0, high) * min(x1 - x0, wide))
        return most

    @cached_property
    def _most_packets(self) -> int:
        """Packets of one resolution that a window needs, at most."""
        most = 0
        for level, sides in self._reaches:
            across, down = ((step >> exponent) + 2 for step, exponent in zip(sides, level.exponents, strict=True))
            most = max(most, min(level.columns, across) * min(level.rows, down))
        return most * len(self.coding.components) * self.coding.layers

    @cached_property
    def _reaches(self) -> list[tuple[Resolution, tuple[int, int]]]:
        """The resolutions of all kinds of components, with the columns and rows that a window needs at most."""
        kinds = {coded: number for number, coded in enumerate(self.coding.components)}
        reaches = []
        for coded, component in kinds.items():
            last, more = coded.levels - self.level, 4 * REACH[coded.reversible]
            for number in range(last + 1):
                rows, columns = (-(-side >> (last - number)) + more for side in self.chunk)
                reaches.append((resolution(self.coding, self.tile, component, number), (columns, rows)))
        return reaches

    @property
    def box(self) -> Box:
        """The level's samples."""
        levels = self.coding.components[0].levels
        return resolution(self.coding, self.tile, 0, levels - self.level).box

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of windows."""
        x0, y0, x1, y1 = self.box
        return -(-(y1 - y0) // self.chunk[0]), -(-(x1 - x0) // self.chunk[1])

    def window(self, row: int, column: int) -> Box:
        """Return a window, cut where the level ends."""
        if not (0 <= row < self.shape[0] and 0 <= column < self.shape[1]):
            raise MalformedError(f"chunk {row}, {column} of a grid of {self.shape}", field="chunk")
        x0, y0 = self.box[0] + column * self.chunk[1], self.box[1] + row * self.chunk[0]
        return cut((x0, y0, x0 + self.chunk[1], y0 + self.chunk[0]), self.box)

    def sections(self) -> list[tuple[int, tuple[int, ...]]]:
        """Return resolution and components of each section of packets, in a chunk's order."""
        components = self.coding.components
        sections: list[tuple[int, tuple[int, ...]]] = []
        for number in range(self.coding.levels - self.level + 1):
            group = tuple(c for c, coded in enumerate(components) if number <= coded.levels - self.level)
            if self.coding.progression == Progression.CPRL:
                sections += [(number, (component,)) for component in group]
            else:
                sections.append((number, group))
        return sections

    def packets(self, window: Box) -> Packets:
        """Return the packets of each section of a window's chunk, in the order of the tile."""
        parts = [
            shares(self.coding, self.tile, component, window, self.level)
            for component in range(len(self.coding.components))
        ]
        packets = []
        for number, components in self.sections():
            pieces = []
            for component in components:
                level, (left, top, right, bottom) = parts[component][number]
                x, y = level.cells[:2]
                places = self._index[component, number][top - y : bottom - y, left - x : right - x]
                pieces.append(places.ravel())
            packets.append(np.sort(np.concatenate(pieces)))
        return tuple(packets)

    @cached_property
    def order(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Component, resolution, precinct and layer of every packet of the tile, in its order."""
        return packet_order(self.coding, self.tile)

    @cached_property
    def _index(self) -> dict[tuple[int, int], Ints]:
        """Where the packets of each component's resolution are in that order, by precinct row, column and layer."""
        index, at = {}, 0
        component, number, precinct, layer = self.order
        places = np.lexsort((layer, precinct, number, component))
        layers = self.coding.layers
        for c, coded in enumerate(self.coding.components):
            for r in range(coded.levels + 1):
                level = resolution(self.coding, self.tile, c, r)
                stop = at + level.count * layers
                index[c, r] = places[at:stop].reshape(level.rows, level.columns, layers)
                at = stop
        return index

    def cutout(self, window: Box) -> Siz:
        """Return the part of the tile that a window needs, cut between precincts of every resolution.

        Packets follow one another in it as in the tile, and their code-blocks are the same: both are counted
        from the origin of the canvas.  Its grid is that of the samples.
        """
        steps, areas = [1, 1], []
        for component, coded in enumerate(self.coding.components):
            for number, (across, down) in enumerate(coded.precincts):
                scale = coded.levels - number
                steps = [max(steps[0], 1 << across + scale), max(steps[1], 1 << down + scale)]
            for number, (level, cells) in enumerate(shares(self.coding, self.tile, component, window, self.level)):
                if not is_empty(cells):
                    across, down = (exponent + coded.levels - number for exponent in level.exponents)
                    left, top, right, bottom = cells
                    areas.append((left << across, top << down, right << across, bottom << down))
        siz = self.coding.siz
        (dx, dy), *_ = siz.samplings
        x0, y0, x1, y1 = shrunk(self.tile, dx, dy)
        start = [min(area[axis] for area in areas) // steps[axis] * steps[axis] for axis in (0, 1)]
        stop = [-(-max(area[2 + axis] for area in areas) // steps[axis]) * steps[axis] for axis in (0, 1)]
        left, top, right, bottom = cut((start[0], start[1], stop[0], stop[1]), (x0, y0, x1, y1))
        components = tuple(replace(part, dx=1, dy=1) for part in siz.components)
        x, y = Axis(left, right, left, right - left), Axis(top, bottom, top, bottom - top)
        return replace(siz, x=x, y=y, components=components)


def chunk_ranges(grid: WindowGrid, table: PacketTable, sot: int) -> tuple[Ints, Ints, Ints]:
    """Return row pointers, offsets and lengths of the ranges of every chunk; `sot` is the offset of the first SOT."""
    rows, columns = grid.shape
    if max(grid.shape) > int((table.offset + table.length).max()) - sot - SOT_BYTES:
        raise UnsupportedError(f"a grid of {grid.shape} windows over a tile of fewer bytes", offset=sot, field="chunk")
    offsets, lengths, counts = [], [], [0]
    for row, column in product(range(rows), range(columns)):
        ranges = [(np.array([sot, sot], np.int64), np.array([SOT_BYTES + row, SOT_BYTES + column], np.int64))]
        for packets in grid.packets(grid.window(row, column)):
            ranges.append((np.array([sot], np.int64), np.array([SOT_BYTES], np.int64)))
            offset, length = table.offset[packets], table.length[packets]
            if len(offset):  # neighbours are one range
                first = np.concatenate(([0], np.flatnonzero(offset[1:] != offset[:-1] + length[:-1]) + 1))
                offset, length = offset[first], np.add.reduceat(length, first)
            ranges.append((offset, length))
        offsets += [offset for offset, _ in ranges]
        lengths += [length for _, length in ranges]
        counts.append(sum(len(offset) for offset, _ in ranges))
    return np.cumsum(counts, dtype=np.int64), np.concatenate(offsets), np.concatenate(lengths)


def section_packets(grid: WindowGrid, positions: Ints, number: int, data: bytes) -> Iterator[bytes]:
    """Yield the packets of a section; refuse one that is not exactly these: decoders do not miss absent ones."""
    columns = [column[positions] for column in grid.order]
    resolution_of = partial(resolution, grid.coding, grid.tile)
    walk = walk_packets(
        lambda start, stop: data[start:stop], grid.coding, columns, [TilePart(0, len(data))], resolution_of
    )
    spans = [(start, end) for start, end, _ in walk]
    if len(spans) < len(positions) or max((end for _, end in spans), default=0) != len(data):
        raise MalformedError(
            f"{len(data)} bytes that are not all packets of resolution {number} and nothing else", field="packets"
        )
    return (data[start:end] for start, end in spans)


def parse_chunk(grid: WindowGrid, sot: bytes, data: bytes) -> tuple[tuple[int, int], list[bytes]]:
    """Return a chunk's place in the grid and its sections of packets."""
    if len(sot) != SOT_BYTES or int.from_bytes(sot[:2], "big") != Marker.SOT:
        raise MalformedError(f"{sot.hex(' ')} is no SOT marker segment", field="SOT")
    before, *parts = data.split(sot)
    expected = 2 + len(grid.sections())
    if before or len(parts) != expected:
        raise MalformedError(
            f"{len(parts)} sections where a chunk has {expected}: these are not one chunk's ranges in their order",
            field="SOT",
        )
    return (len(parts[0]), len(parts[1])), parts[2:]


SIDE = 1024
"""Samples of a window's side: with precincts of 256 it costs 2.3 times what it shows, 5.8 times at half the side."""

LARGE = 4096 * 4096
"""Samples of a tile up to which it stays one chunk: it is decoded in some two seconds, in some 100 MB."""

WINDOWS_WORTH = 4
"""A window costs at most its tile's samples divided by this, or the tile stays one chunk."""

MAX_PARSED = 50_000
"""Packet headers that are read without being asked for: some ten seconds."""

LONG = 8 << 20
"""Bytes of a read where packet headers are looked for over a network."""


class _Tile(NamedTuple):
    """One tile whose packets are known."""

    number: int
    sot: int
    table: PacketTable


@dataclass(frozen=True)
class Windows:
    """The windows of one codestream; its packets are looked up once, when the first level is asked for."""

    codestream: Codestream
    read: ReadRange
    url: str
    wish: PrecinctWindows = "auto"
    far: bool = False
    """Whether a request costs more than some bytes."""
    _refused: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse a wish that is not known."""
        if self.wish not in get_args(PrecinctWindows.__value__):
            raise UnsupportedError(f"precinct windows {self.wish!r}; auto, always and never are known", url=self.url)

    def cut(self, level: int) -> tuple[tuple[int, int], ChunkRefs] | None:
        """Return size and references of a level's windows, None where its chunks are tiles."""
        if self._tiles is None:
            return None
        try:
            chunk = self._chunk(level)
            return chunk, self._refs(level, chunk, self._tiles)
        except (UnsupportedError, MalformedError) as error:
            self._stay_whole(error)
            return None

    @property
    def why_whole(self) -> str:
        """Why there are no windows, as an addition to an error; empty where nobody looked."""
        if not self._refused:
            return ""
        return f"; as windows (precinct_windows={self.wish}) it cannot be read: {self._refused[0]}"

    @cached_property
    def _tiles(self) -> list[_Tile] | None:
        """Every tile's packets; None where tiles stay whole."""
        siz = self.codestream.siz
        tile = [min(axis.tile, axis.stop - axis.start) for axis in (siz.y, siz.x)]
        if self.wish == "never" or (self.wish == "auto" and math.prod(tile) <= LARGE):
            return None
        try:
            return list(self._tables(tile))
        except (UnsupportedError, MalformedError) as error:
            self._stay_whole(error)
            return None

    def _stay_whole(self, error: Exception) -> None:
        """Say why tiles stay whole, where windows were asked for; keep it, should a tile be too large."""
        self._refused.append(str(error))
        if self.wish == "always":
            warnings.warn(f"tiles stay whole: {error}", stacklevel=2)

    @cached_property
    def _coding(self) -> Coding:
        return coding(self.codestream.header)

    def _grid(self, level: int, chunk: tuple[int, int], tile: int) -> WindowGrid:
        return WindowGrid(self._coding, self._coding.tile_box(tile), level, chunk)

    def _chunk(self, level: int) -> tuple[int, int]:
        """Return height and width of a level's windows, whole precincts where that can be."""
        coded, siz = self._coding, self.codestream.siz
        main = coded.components[0]
        across, down = main.precincts[main.levels - level]
        component = siz.components[0]
        return (
            side(siz.y, component.dy << level, max(SIDE, 2 << down)),
            side(siz.x, component.dx << level, max(SIDE, 2 << across)),
        )

    def _tables(self, side: Sequence[int]) -> Iterator[_Tile]:
        """Yield the tiles with their packets; refuse windows that cost not much less than tiles of `side` samples."""
        chunk, parts, tiles = self._chunk(0), self.codestream.parts, range(self.codestream.siz.tiles)
        grid = self._grid(0, chunk, int(parts.tile[0]))
        if max(grid.shape) == 1:
            raise UnsupportedError(f"a window of {chunk} would be a tile of {tuple(side)}", field="COD")
        if grid.cost > math.prod(side) // (1 if self.wish == "always" else WINDOWS_WORTH):
            raise UnsupportedError(f"a window of {chunk} costs {grid.cost} samples of {math.prod(side)}", field="COD")
        if len(np.unique(parts.tile)) != len(tiles):
            raise MalformedError("not every tile is there", field="SOT")
        read = Walk(self.read, self.codestream.stop, far=True, block=LONG) if self.far else self.read
        order = np.argsort(parts.tile, kind="stable")
        for number, rows in enumerate(np.split(order, np.cumsum(np.bincount(parts.tile))[:-1])):
            spans = zip(parts.offset[rows].tolist(), parts.length[rows].tolist(), strict=True)
            bodies = [self._part(start, start + length) for start, length in spans]
            table = packet_table(read, self._coding, self._coding.tile_box(number), bodies)
            yield _Tile(number, int(parts.offset[rows[0]]), table)

    def _part(self, start: int, stop: int) -> TilePart:
        """Return where the packets of a tile-part are; refuse to look for each of many that no PLT tells."""
        part = tile_part(self.read, start, stop, IN_WINDOWS)
        if self.wish == "auto" and not part.plt and part.start < part.stop:
            if self.far:
                raise UnsupportedError("no lengths of packets (PLT), and the file is far", offset=start, field="PLT")
            if self._packets > MAX_PARSED:
                raise UnsupportedError(f"{self._packets} packets without their lengths (PLT)", offset=start)
        return part

    @cached_property
    def _packets(self) -> int:
        return sum(
            sum(packet_counts(self._coding, self._coding.tile_box(tile))) for tile in range(self.codestream.siz.tiles)
        )

    def _refs(self, level: int, chunk: tuple[int, int], tiles: list[_Tile]) -> ChunkRefs:
        """Return the ranges of all tiles' windows, in the order of the level's own grid."""
        siz, component = self.codestream.siz, self.codestream.siz.components[0]
        rows, columns = (
            -(-axis.size(factor << level) // step)
            for axis, factor, step in zip((siz.y, siz.x), (component.dy, component.dx), chunk, strict=True)
        )
        owners, offsets, lengths = [], [], []
        for tile in tiles:
            grid = self._grid(level, chunk, tile.number)
            head = self.read(tile.sot, tile.sot + SOT_BYTES + max(grid.shape))
            if head.count(head[:SOT_BYTES]) > 1:  # sections could not be told apart
                raise UnsupportedError("a tile whose header repeats its SOT", offset=tile.sot, field="SOT")
            indptr, offset, length = chunk_ranges(grid, tile.table, tile.sot)
            down, across = divmod(tile.number, siz.x.tiles)
            top = down * ((siz.y.tile // (component.dy << level)) // chunk[0])
            left = across * ((siz.x.tile // (component.dx << level)) // chunk[1])
            place = np.add.outer((top + np.arange(grid.shape[0])) * columns, left + np.arange(grid.shape[1])).ravel()
            owners.append(np.repeat(place, np.diff(indptr)))
            offsets.append(offset)
            lengths.append(length)
        owner = np.concatenate(owners)
        # ranges stand tile by tile
        refs = ChunkRefs.grouped((self.url,), rows * columns, owner, np.concatenate(offsets), np.concatenate(lengths))
        if refs.chunks > rows * columns or not refs.counts.all():
            raise MalformedError(f"windows that do not make up a grid of {rows * columns}", field="SIZ")
        return refs


def side(axis: Axis, factor: int, wanted: int) -> int:
    """Return a window's samples along an axis; where there are several tiles they have to be cut alike."""
    if axis.tiles == 1:
        return min(wanted, axis.size(factor))
    tile, rest = divmod(axis.tile, factor)
    if rest or axis.start != axis.tile_start:
        raise UnsupportedError(
            f"tiles of {axis.tile} from {axis.tile_start} are not cut alike at {factor}", field="SIZ"
        )
    window = next(size for size in range(min(wanted, tile), 0, -1) if tile % size == 0)
    if window < min(wanted // WINDOWS_WORTH, tile):
        raise UnsupportedError(f"tiles of {tile} samples do not divide into windows of {wanted}", field="SIZ")
    return window
