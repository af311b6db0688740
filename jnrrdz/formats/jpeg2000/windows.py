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
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple, get_args

import numpy as np

from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.boxes import ReadRange
from jnrrdz.formats.jpeg2000.codestream import Codestream
from jnrrdz.formats.jpeg2000.markers import Axis, Marker, Progression
from jnrrdz.formats.jpeg2000.packets import (
    REACH,
    Box,
    Coding,
    PacketTable,
    Share,
    TilePart,
    coding,
    cut,
    packet_counts,
    packet_table,
    resolution,
    shares,
    tile_part,
    walk_packets,
)
from jnrrdz.formats.jpeg2000.tile_parts import SOT_BYTES, Ints, Walk
from jnrrdz.options import PrecinctWindows

MAX_SIDE = 1 << 16
"""Rows or columns of windows: a chunk carries as many bytes."""

DEPTH = 31
"""Bits of the signed samples that windows are decoded to: nothing is clipped."""

WORTH = 64
SMALL = 1 << 20
"""A window may cost as many times its own samples, or as many samples, before precincts count as too large."""

MAX_COST = 1 << 27
"""Samples of one resolution, all components together, that a window is put together from: some 2 GB of memory."""

MAX_PACKETS = 1 << 20
"""Packets of one resolution that a window is put together from; each costs a decoder some kilobytes."""


@dataclass(frozen=True)
class WindowGrid:
    """Windows of one size over one level of a tile, counted from the tile's own corner."""

    coding: Coding
    tile: Box
    level: int
    chunk: tuple[int, int]
    """Height and width."""

    def __post_init__(self) -> None:
        """Refuse components on different grids, which do not share windows, and levels that are not there."""
        most = self.coding.guard + max(exponent for exponent, _ in self.coding.steps)
        if most > DEPTH - 4:  # exact integers need room for what `decode_window` adds
            raise UnsupportedError(f"{most - 1} bit-planes; windows are read with up to {DEPTH - 5}", field="QCD")
        samplings = sorted(self.coding.siz.samplings)
        if len(samplings) > 1:
            raise UnsupportedError(f"windows over components sampled {samplings}", field="SIZ")
        if not 0 <= self.level <= self.coding.levels:
            raise UnsupportedError(f"level {self.level} of a codestream with {self.coding.levels}", field="COD")
        if min(self.chunk) < 1 or max(self.shape) > MAX_SIDE:
            raise UnsupportedError(f"a grid of {self.shape} windows of {self.chunk}", field="chunk")
        if self.cost > max(WORTH * self.chunk[0] * self.chunk[1], SMALL):
            raise UnsupportedError(
                f"a window of {self.chunk} would cost {self.cost} samples: the precincts are too large for it",
                field="COD",
            )
        components, packets = len(self.coding.siz.components), self.packets
        if self.cost * components > MAX_COST or packets > MAX_PACKETS:
            raise UnsupportedError(
                f"a window of {self.chunk} costs {self.cost} samples of {components} components in {packets} packets; "
                f"{MAX_COST} samples and {MAX_PACKETS} packets are the most",
                field="COD",
            )

    @cached_property
    def packets(self) -> int:
        """The packets, at most, that a window takes from one resolution."""
        most = 0
        for number in range(self.coding.levels - self.level + 1):
            level = resolution(self.coding, self.tile, 0, number)
            sides = zip((level.rows, level.columns), self._needed(number), reversed(level.exponents), strict=True)
            most = max(most, math.prod(min(count, (step >> exponent) + 2) for count, step, exponent in sides))
        return most * len(self.coding.siz.components) * self.coding.layers

    @cached_property
    def cost(self) -> int:
        """The samples, at most, that one resolution is decoded to for a window: whole precincts, with the reach."""
        most = 0
        for number in range(self.coding.levels - self.level + 1):
            level = resolution(self.coding, self.tile, 0, number)
            x0, y0, x1, y1 = level.box
            sides = zip((y1 - y0, x1 - x0), self._needed(number), reversed(level.exponents), strict=True)
            most = max(most, math.prod(min(side, step + (2 << exponent)) for side, step, exponent in sides))
        return most

    def _needed(self, number: int) -> tuple[int, int]:
        """Return the rows and columns of a resolution, at most, that a window depends on."""
        scale, reach = 1 << (self.coding.levels - self.level - number), 2 * REACH[self.coding.reversible]
        return -(-self.chunk[0] // scale) + 2 * reach, -(-self.chunk[1] // scale) + 2 * reach

    @property
    def box(self) -> Box:
        """The level's samples."""
        return resolution(self.coding, self.tile, 0, self.coding.levels - self.level).box

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

    def shares(self, row: int, column: int) -> list[Share]:
        """Return what a window takes from each resolution, lowest first."""
        return shares(self.coding, self.tile, self.window(row, column), self.level)

    def sections(self) -> list[tuple[int, tuple[int, ...]]]:
        """Return resolution and components of each section of packets, in a chunk's order."""
        every = tuple(range(len(self.coding.siz.components)))
        groups = [(c,) for c in every] if self.coding.progression == Progression.CPRL else [every]
        return [(number, group) for number in range(self.coding.levels - self.level + 1) for group in groups]


def chunk_ranges(grid: WindowGrid, table: PacketTable, sot: int) -> tuple[Ints, Ints, Ints]:
    """Return row pointers, offsets and lengths of the ranges of every chunk; the first SOT stands at `sot`."""
    rows, columns = grid.shape
    if max(grid.shape) > int((table.offset + table.length).max()) - sot - SOT_BYTES:
        raise UnsupportedError(f"a grid of {grid.shape} windows over a tile of fewer bytes", offset=sot, field="chunk")
    index = _packet_index(grid, table)
    offsets, lengths, counts = [], [], [0]
    for row, column in product(range(rows), range(columns)):
        shares = grid.shares(row, column)
        ranges = [(np.array([sot, sot], np.int64), np.array([SOT_BYTES + row, SOT_BYTES + column], np.int64))]
        for number, components in grid.sections():
            left, top, right, bottom = shares[number].cells
            x, y = shares[number].level.cells[:2]
            part = np.s_[top - y : bottom - y, left - x : right - x]
            packets = np.sort(np.concatenate([index[component, number][part].ravel() for component in components]))
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


def _packet_index(grid: WindowGrid, table: PacketTable) -> dict[tuple[int, int], Ints]:
    """Return where in the table the packets of each component's resolution are, by precinct row, column and layer."""
    index, at = {}, 0
    order = np.lexsort((table.layer, table.precinct, table.resolution, table.component))
    for component, number in product(range(len(grid.coding.siz.components)), range(grid.coding.levels + 1)):
        level = resolution(grid.coding, grid.tile, component, number)
        stop = at + level.count * grid.coding.layers
        index[component, number] = order[at:stop].reshape(level.rows, level.columns, grid.coding.layers)
        at = stop
    return index


def check_section(coding: Coding, share: Share, number: int, components: Sequence[int], packets: bytes) -> None:
    """Refuse a section that is not exactly its resolution's packets: decoders do not miss what is not there."""
    layers, precincts = range(coding.layers), list(share.precincts())
    if coding.progression in {Progression.LRCP, Progression.RLCP}:
        layer, component, precinct = np.meshgrid(layers, components, precincts, indexing="ij")
    else:
        precinct, component, layer = np.meshgrid(precincts, components, layers, indexing="ij")
    columns = [column.ravel() for column in (component, np.full_like(component, number), precinct, layer)]
    parts, stop = [TilePart(0, len(packets))], len(packets)
    walk = walk_packets(lambda start, end: packets[start:end], coding, columns, parts, lambda *_: share.level)
    ends = [end for _, end, _ in walk]
    if len(ends) < component.size or max(ends, default=0) != stop:
        raise MalformedError(
            f"{stop} bytes that are not all packets of resolution {number} and nothing else", field="packets"
        )


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
        across, down = coded.precincts[coded.levels - level]
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
        part = tile_part(self.read, start, stop)
        if self.wish == "auto" and not part.plt and part.start < part.stop:
            if self.far:
                raise UnsupportedError("no lengths of packets (PLT), and the file is far", offset=start, field="PLT")
            if self._packets > MAX_PARSED:
                raise UnsupportedError(f"{self._packets} packets without their lengths (PLT)", offset=start)
        return part

    @cached_property
    def _packets(self) -> int:
        return sum(sum(packet_counts(self._coding, tile)) for tile in range(self.codestream.siz.tiles))

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
