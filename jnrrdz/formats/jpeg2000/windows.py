"""Whether a codestream's tiles are cut into windows by precinct, and the references of the windows.

May touch the layouts of JPEG 2000, the model, and the reads that it is given.  A window is decoded from the
packets of the precincts that it needs, so where packets are has to be known: PLT marker segments say it in a
few reads; else every packet header is read, which is cheap in a local file only.
Spec: docs/decisions/007-precincts.md
"""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.jpeg2000_coding import Coding, coding
from jnrrdz.formats.jpeg2000.jpeg2000_header import Codestream
from jnrrdz.formats.jpeg2000.jpeg2000_packets import PacketTable, TilePart, packet_count, packet_table, tile_part
from jnrrdz.formats.jpeg2000.jpeg2000_siz import Axis
from jnrrdz.formats.jpeg2000.jpeg2000_windows import Grid, chunk_ranges
from jnrrdz.formats.jpeg2000.tile_parts import SOT_BYTES
from jnrrdz.options import PrecinctWindows

type ReadRange = Callable[[int, int], bytes]
type Ints = NDArray[np.int64]

SIDE = 1024
"""Samples of a window's side: with precincts of 256 it costs 2.3 times what it shows, 5.8 times at half the side."""

LARGE = 4096 * 4096
"""Samples of a tile up to which it stays one chunk: it is decoded in some two seconds, in some 100 MB."""

WORTH = 4
"""A window costs at most its tile's samples divided by this, or the tile stays one chunk."""

MAX_PARSED = 50_000
"""Packet headers that are read without being asked for: some ten seconds."""

LONG = 8 << 20
"""Bytes of a read where packet headers are looked for over a network."""


class Cut(NamedTuple):
    """A level's windows."""

    chunk: tuple[int, int]
    refs: ChunkRefs


@dataclass(frozen=True, eq=False)
class _Tile:
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

    def cut(self, level: int) -> Cut | None:
        """Return a level's windows, None where its chunks are tiles."""
        if self._tiles is None:
            return None
        try:
            chunk = self._chunk(level)
            return Cut(chunk, self._refs(level, chunk, self._tiles))
        except (UnsupportedError, MalformedError) as error:
            self._tell(error)
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
            self._check_worth(tile)
            return list(self._found())
        except (UnsupportedError, MalformedError) as error:
            self._tell(error)
            return None

    def _tell(self, error: Exception) -> None:
        """Say why tiles stay whole, where windows were asked for; keep it, should a tile be too large."""
        self._refused.append(str(error))
        if self.wish == "always":
            warnings.warn(f"tiles stay whole: {error}", stacklevel=2)

    @cached_property
    def _coding(self) -> Coding:
        return coding(self.codestream.header)

    def _check_worth(self, tile: list[int]) -> None:
        """Refuse windows that would cost not much less than their tile."""
        chunk = self._chunk(0)
        grid = self._grid(0, chunk, int(self.codestream.parts.tile[0]))
        most = math.prod(tile) if self.wish == "always" else math.prod(tile) // WORTH
        if max(grid.shape) == 1:
            raise UnsupportedError(f"a window of {chunk} would be a tile of {tuple(tile)}", field="COD")
        if grid.cost > most:
            raise UnsupportedError(f"a window of {chunk} costs {grid.cost} samples of {math.prod(tile)}", field="COD")

    def _grid(self, level: int, chunk: tuple[int, int], tile: int) -> Grid:
        return Grid(self._coding, self._coding.tile_box(tile), level, chunk)

    def _chunk(self, level: int) -> tuple[int, int]:
        """Return height and width of a level's windows, whole precincts where that can be."""
        coded, siz = self._coding, self.codestream.siz
        across, down = coded.precincts[coded.levels - level]
        one = siz.components[0]
        return (
            side(siz.y, one.dy << level, max(SIDE, 2 << down)),
            side(siz.x, one.dx << level, max(SIDE, 2 << across)),
        )

    def _found(self) -> Iterator[_Tile]:
        """Yield the tiles with their packets."""
        parts = self.codestream.parts
        if len(np.unique(parts.tile)) != self.codestream.siz.tiles:
            raise MalformedError("not every tile is there", field="SOT")
        for number in range(self.codestream.siz.tiles):
            rows = np.flatnonzero(parts.tile == number)
            spans = list(zip(parts.offset[rows].tolist(), parts.length[rows].tolist(), strict=True))
            found = [self._part(start, start + length) for start, length in spans]
            read = _Long(self.read) if self.far else self.read
            table = packet_table(read, self._coding, self._coding.tile_box(number), found)
            yield _Tile(number, spans[0][0], table)

    def _part(self, start: int, stop: int) -> TilePart:
        found = tile_part(self.read, start, stop)
        if self.wish == "auto" and not found.plt and found.start < found.stop:
            if self.far:
                raise UnsupportedError("no lengths of packets (PLT), and the file is far", offset=start, field="PLT")
            if self._packets > MAX_PARSED:
                raise UnsupportedError(f"{self._packets} packets without their lengths (PLT)", offset=start)
        return found

    @cached_property
    def _packets(self) -> int:
        return sum(packet_count(self._coding, tile) for tile in range(self.codestream.siz.tiles))

    def _refs(self, level: int, chunk: tuple[int, int], tiles: list[_Tile]) -> ChunkRefs:
        """Return the ranges of all tiles' windows, in the order of the level's own grid."""
        siz, one = self.codestream.siz, self.codestream.siz.components[0]
        rows, columns = (
            -(-axis.size(factor << level) // step)
            for axis, factor, step in zip((siz.y, siz.x), (one.dy, one.dx), chunk, strict=True)
        )
        owners, offsets, lengths = [], [], []
        for tile in tiles:
            grid = self._grid(level, chunk, tile.number)
            self._check_mark(tile, grid)
            indptr, offset, length = chunk_ranges(grid, tile.table, tile.sot)
            down, across = divmod(tile.number, siz.x.tiles)
            top = down * ((siz.y.tile // (one.dy << level)) // chunk[0])
            left = across * ((siz.x.tile // (one.dx << level)) // chunk[1])
            place = np.add.outer((top + np.arange(grid.shape[0])) * columns, left + np.arange(grid.shape[1])).ravel()
            owners.append(np.repeat(place, np.diff(indptr)))
            offsets.append(offset)
            lengths.append(length)
        return _sorted(self.url, rows * columns, *(np.concatenate(each) for each in (owners, offsets, lengths)))

    def _check_mark(self, tile: _Tile, grid: Grid) -> None:
        """Refuse a tile whose first bytes hold its SOT again: sections could not be told apart."""
        head = self.read(tile.sot, tile.sot + SOT_BYTES + max(grid.shape))
        if head.count(head[:SOT_BYTES]) > 1:
            raise UnsupportedError("a tile whose header repeats its SOT", offset=tile.sot, field="SOT")


def side(axis: Axis, factor: int, wanted: int) -> int:
    """Return a window's samples along an axis; where there are several tiles they have to be cut alike."""
    if axis.tiles == 1:
        return min(wanted, axis.size(factor))
    tile, rest = divmod(axis.tile, factor)
    if rest or axis.start != axis.tile_start:
        raise UnsupportedError(
            f"tiles of {axis.tile} from {axis.tile_start} are not cut alike at {factor}", field="SIZ"
        )
    found = next(one for one in range(min(wanted, tile), 0, -1) if tile % one == 0)
    if found < min(wanted // WORTH, tile):
        raise UnsupportedError(f"tiles of {tile} samples do not divide into windows of {wanted}", field="SIZ")
    return found


def _sorted(url: str, chunks: int, owner: Ints, offset: Ints, length: Ints) -> ChunkRefs:
    """Return the references of chunks whose ranges stand tile by tile."""
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=chunks)
    if len(counts) > chunks or not counts.all():
        raise MalformedError(f"windows that do not make up a grid of {chunks}", field="SIZ")
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    source = np.broadcast_to(np.int32(0), len(order))
    return ChunkRefs((url,), indptr, source, offset[order], length[order])


class _Long:
    """Long reads for a walk from packet header to packet header."""

    def __init__(self, read: ReadRange) -> None:
        self._read, self._start, self._data = read, 0, b""

    def __call__(self, start: int, stop: int) -> bytes:
        first = start - self._start
        if first < 0 or stop - self._start > len(self._data):
            self._start, self._data, first = start, self._read(start, max(stop, start + LONG)), 0
        return self._data[first : first + stop - start]
