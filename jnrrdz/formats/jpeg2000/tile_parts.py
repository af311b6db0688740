"""Where the tile-parts of a codestream are: by the list in TLM, or from SOT to SOT.

A list is taken for true only if the first and the last SOT stand where it says and the tile-parts fill the stream;
where a look costs no request, every SOT.
Spec: ITU-T T.800 (https://www.itu.int/rec/T-REC-T.800), A.4.2 (SOT) and A.7.1 (TLM)
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError
from jnrrdz.formats.jpeg2000.boxes import ReadRange
from jnrrdz.formats.jpeg2000.markers import Marker, Siz, steps
from jnrrdz.formats.jpeg2000.tile_part_table import TilePartList

type Ints = NDArray[np.int64]

SOT = struct.Struct(">HHHIBB")  # marker, Lsot, Isot, Psot, TPsot, TNsot
SOT_BYTES = SOT.size
EOC = b"\xff\xd9"
SOD = b"\xff\x93"
SOT_LENGTH = 10
TLM_WIDTHS = {0: 0, 1: 1, 2: 2}
FIRST_BLOCK = 128 * 1024
HEADER_BLOCK = 4096
LARGEST_BLOCK = 32 << 20
WORTH_A_REQUEST = 512 * 1024
"""Tile-parts longer than this are jumped over, one request each; at 20 ms and 25 MB/s both cost the same."""

MAX_PARTS = 1 << 21
MAX_TILE_HEADER = 1 << 24


@dataclass(frozen=True, eq=False)
class TileParts:
    """The tile-parts of a codestream in the order of the file, SOT included."""

    tile: Ints
    offset: Ints
    """In the source."""

    length: Ints

    is_open: bool = False
    """Whether the last one leaves its length open: it ends where the codestream does."""

    def __len__(self) -> int:
        return len(self.tile)

    @cached_property
    def total(self) -> int:
        """Bytes of all of them."""
        return int(self.length.sum())

    def by_tile(self, tiles: int) -> tuple[Ints, Ints]:
        """Return the tile-parts in the order of `tiles` tiles, and where each tile's begin in that order."""
        if len(self) == tiles and np.array_equal(self.tile, numbers := np.arange(tiles)):
            return numbers, np.arange(tiles + 1)
        order = np.argsort(self.tile, kind="stable")
        return order, np.searchsorted(self.tile[order], np.arange(tiles + 1))


type Fetch = Callable[[Sequence[tuple[int, int]]], Sequence[bytes]]
"""Returns the bytes of several spans, read at once."""


class Walk:
    """Reads of a few bytes, ever further on: in blocks that double where requests are dear."""

    def __init__(self, read: ReadRange, stop: int, *, far: bool, block: int = FIRST_BLOCK) -> None:
        self.stop = stop
        self._read, self.far = read, far
        self._start, self._block, self._size = 0, b"", block
        self._parts, self._bytes = 0, 0
        """Of the tile-parts so far."""
        self.heads: Mapping[int, bytes] = {}
        """First bytes of tile-parts that were read before, by their offsets."""
        self._head = 0, b""
        self.is_dense = False
        """Whether tile-parts are so short that it costs less to read them through."""

    def __call__(self, start: int, stop: int) -> bytes:
        """Return bytes, fewer only at the end."""
        stop = min(stop, self.stop)
        if start >= stop:
            return b""
        at, head = self._head
        if at <= start <= stop <= at + len(head):
            return head[start - at : stop - at]
        if not (self.far or self.is_dense):
            return self._read(start, stop)
        if not self._start <= start <= stop <= self._start + len(self._block):
            long = self._parts > 1 and self._bytes > WORTH_A_REQUEST * self._parts
            size = HEADER_BLOCK if long else self._size
            self._size = min(self._size * 2, LARGEST_BLOCK)
            self._start = start
            self._block = self._read(start, min(max(stop, start + size), self.stop))
        return self._block[start - self._start : stop - self._start]

    def sot(self, offset: int) -> tuple[int, int, int, bool] | None:
        """Return Isot, Psot and TPsot of the tile-part at `offset`, and whether SOD follows; None at the end.

        A stream that ends without EOC has all of its tile-parts none the less.
        """
        self._head = offset, self.heads.get(offset, b"")
        data = self(offset, offset + SOT_BYTES + len(SOD))  # in one look: a file may have a million tile-parts
        if not data or data.startswith(EOC):
            return None
        if len(data) < SOT_BYTES or not data.startswith(b"\xff\x90\0\x0a"):
            raise MalformedError(
                f"{data[:4].hex(' ') or 'nothing'} where a tile-part begins", offset=offset, field="SOT"
            )
        _, _, tile, length, part, _ = SOT.unpack_from(data)
        self._parts, self._bytes = self._parts + 1, self._bytes + length
        return tile, length, part, data.endswith(SOD)

    def exactly(self, start: int, stop: int) -> bytes:
        """Return bytes without reading on, fewer only at the end."""
        return self._read(start, min(stop, self.stop)) if start < self.stop else b""

    def tile_header(self, offset: int, length: int) -> bytes:
        """Return a tile-part's marker segments, from behind SOT to before SOD."""
        end = offset + length
        pieces: list[bytes] = []

        def head(at: int) -> bytes:
            return self(at, min(at + 4, end)) if at + 2 <= end else b""

        for step in steps(head, offset + SOT_BYTES):
            if step.at + 2 > end or step.marker == Marker.SOD:
                break
            if step.marker >> 8 != 0xFF or step.at - offset > MAX_TILE_HEADER:  # noqa: PLR2004
                raise step.refusal("in a tile-part's header", "SOT")
            pieces.append(self(step.at, min(step.stop, end)))
        return b"".join(pieces)


MARK = b"\xff\x90\0\x0a"
"""SOT and its length: packets hold no marker from FF90 on."""

DENSE = 32 * 1024
"""Tile-parts of a tile that are no longer than this are read through in a local file too."""

JUMP = 64 * 1024
"""Tile-parts of a tile that are longer than this are looked for at several places; shorter ones are read through."""

PLACES = 16
"""Places at which tile-parts are looked for at once."""

FEWEST = 8
"""Tiles for each such place: to find its first tile-part costs half a tile."""

SEARCHED = 1 << 20
"""Bytes that are searched at a time, at most."""

HEAD = 512
"""First bytes of a tile-part that are read at least."""

LONGEST_HEAD = 16 * 1024
MOST_HEADS = 64 << 20
"""Bytes of all of them that are held in memory; of more tiles no lower level is looked for."""

SHARE = 40
"""Of a tile, so much of it is read where its first resolutions are to be found: lower levels end there."""


def part_heads(fetch: Fetch, first: int, stop: int, tiles: int, *, whole: bool) -> dict[int, bytes]:
    """Return the first bytes of tile-parts of a far codestream by their offsets, found at several places at once.

    From each place the next SOT is searched, and from there on one leads to the next, until a chain meets another.
    What only looks like a SOT is never met by the chain that begins at `first`.
    `whole` requires as much of each as the lowest resolutions take.
    """
    mean = (stop - first) // tiles
    if mean <= JUMP:
        return {}
    size = min(max(mean // SHARE, HEAD), LONGEST_HEAD) if whole else HEAD
    if size * tiles > MOST_HEADS:
        size = HEAD
    count = min(tiles // FEWEST + 1, PLACES)
    places = [first + number * (stop - first) // count for number in range(count)]
    chains = [
        _Chain(place, end, is_found=place == first) for place, end in zip(places, [*places[1:], stop], strict=True)
    ]
    block = min(mean // 4, SEARCHED)
    heads: dict[int, bytes] = {}
    # short tile-parts, of which a tile may have many, cost less where they are read through
    while chains and len(heads) * JUMP <= 4 * (stop - first):
        spans = [(chain.at, min(chain.at + (size if chain.is_found else block), stop)) for chain in chains]
        for chain, data in zip(chains, fetch(spans), strict=True):
            chain.follow(data, size, stop, heads)
        chains = [chain for chain in chains if not chain.is_over]
    return heads


@dataclass
class _Chain:
    """Tile-parts that lead from one to the next."""

    at: int
    """The next byte to read."""
    end: int
    """Where the next chain begins to search."""
    is_found: bool
    """Whether a tile-part begins there; else it is searched from there on."""
    is_over: bool = False

    def follow(self, data: bytes, size: int, stop: int, heads: dict[int, bytes]) -> None:
        """Record the tile-parts in the bytes that were read, and go on after them."""
        if not self.is_found:
            place = data.find(MARK)
            if place < 0:
                self.at += max(len(data) - len(MARK) + 1, 1)
                self.is_over = self.at >= self.end
                return
            self.at, data, self.is_found = self.at + place, data[place:], True
            if len(data) < min(size, stop - self.at):
                return  # it is read again, with all of its first bytes
        while True:
            if len(data) < SOT_BYTES or not data.startswith(MARK):
                self.is_over = True
                return
            length = SOT.unpack_from(data)[3]
            heads[self.at] = data[: min(size, length) or size]
            self.at += length
            if length <= SOT_BYTES or self.at >= stop or self.at in heads:
                self.is_over = True
                return
            data = data[length:]
            if len(data) < HEAD:
                return


def listed_parts(walk: Walk, segments: list[bytes], first: int, siz: Siz) -> TileParts | None:
    """Return the tile-parts that TLM lists (contents without marker and length); None where it is not right."""
    columns = [_tlm(body) for body in sorted(segments, key=lambda body: body[:1])]
    known = [column for column in columns if column is not None]
    if not known or len(known) < len(columns):
        return None
    lengths = np.concatenate([length for _, length in known])
    named = [tile for tile, _ in known if tile is not None]
    tile = np.concatenate(named) if len(named) == len(known) else np.arange(len(lengths))
    offsets = first + np.concatenate(([0], np.cumsum(lengths)[:-1]))
    parts = TileParts(tile.astype(np.int64), offsets.astype(np.int64), lengths)
    return _checked(walk, parts, siz) if len(tile) == len(lengths) else None


CLAIMS_LOOKED_AT = 16
"""Tile-parts of a far file that are looked at before a table of others is believed."""


def claimed_parts(walk: Walk, claim: TilePartList, first: int, siz: Siz, fetch: Fetch | None) -> TileParts:
    """Return the tile-parts that a table of others claims; one that is not of this file is refused.

    Of a local file every SOT is compared, of a far one the first, the last and some between.
    """
    if claim.first != first:
        message = f"the table has the first tile-part at {claim.first}, the file at {first}"
        raise MalformedError(message, offset=first, field="tile-part table")
    parts = listed_parts(walk, list(claim.segments), first, siz)
    if parts is not None and fetch is not None:
        numbers = np.unique(np.linspace(0, len(parts) - 1, CLAIMS_LOOKED_AT).astype(np.int64))
        offsets = parts.offset[numbers].tolist()
        heads = fetch([(offset, offset + SOT_BYTES) for offset in offsets])
        rows = zip(heads, parts.tile[numbers].tolist(), parts.length[numbers].tolist(), strict=True)
        is_last = [number == len(parts) - 1 for number in numbers.tolist()]
        if not all(_is_head(*row, may_be_open=last) for row, last in zip(rows, is_last, strict=True)):
            parts = None
    if parts is None:
        message = "the tile-parts of the table are not those of this file; index it without the table"
        raise MalformedError(message, offset=first, field="tile-part table")
    return parts


def _is_head(data: bytes, tile: int, length: int, *, may_be_open: bool) -> bool:
    """Whether bytes are the SOT of a tile-part of some tile and length."""
    if len(data) < SOT_BYTES:
        return False
    marker, size, named, psot, *_ = SOT.unpack(data[:SOT_BYTES])
    is_length = psot == length or (may_be_open and psot == 0)
    return (marker, size) == (Marker.SOT, SOT_LENGTH) and named == tile and is_length


def _tlm(body: bytes) -> tuple[Ints | None, Ints] | None:
    """Return the tiles (None where they are numbered in order) and lengths that a TLM segment lists."""
    if len(body) < 2:  # noqa: PLR2004  Ztlm and Stlm
        return None
    width, wide = TLM_WIDTHS.get(body[1] >> 4 & 3), bool(body[1] >> 6 & 1)
    if width is None:
        return None
    entry = np.dtype([("tile", f">u{width}")] * bool(width) + [("length", ">u4" if wide else ">u2")])
    if (len(body) - 2) % entry.itemsize:
        return None
    rows = np.frombuffer(body, entry, offset=2)
    return rows["tile"].astype(np.int64) if width else None, rows["length"].astype(np.int64)


def _checked(walk: Walk, parts: TileParts, siz: Siz) -> TileParts | None:
    """Return listed tile-parts if every tile has one, and they (of a far source the first and the last) are there."""
    if not len(parts) or parts.length.min() <= SOT_BYTES or parts.tile.max() >= siz.tiles:
        return None
    if np.setdiff1d(siz.needed(), parts.tile).size or int(parts.offset[-1] + parts.length[-1]) > walk.stop:
        return None
    is_open = False
    rows = list(zip(parts.tile.tolist(), parts.offset.tolist(), parts.length.tolist(), strict=True))
    for number, (tile, offset, length) in enumerate([rows[0], rows[-1]] if walk.far else rows):
        data = walk.exactly(offset, offset + SOT_BYTES)
        if len(data) < SOT_BYTES or not data.startswith(b"\xff\x90"):
            return None
        _, _, named, psot, *_ = SOT.unpack(data)
        # a last tile-part may leave its length open
        is_open = number > 0 and offset == rows[-1][1] and psot == 0
        if named != tile or (psot != length and not is_open):
            return None
    return replace(parts, is_open=is_open)


def walked_parts(walk: Walk, first: int, siz: Siz, see: Callable[[int, bytes, bytes, int], None]) -> TileParts:
    """Return the tile-parts found by going from each to the next; every tile that has samples must have one.

    `see` gets each tile with the marker segments, the first bytes and the length of its first tile-part.
    """
    rows: list[tuple[int, int, int]] = []
    at, tiles, is_open = first, siz.tiles, False
    while (found := walk.sot(at)) is not None:
        tile, length, part, is_bare = found
        is_open = not length
        if is_open:  # a last tile-part leaves it open: up to EOC
            length = walk.stop - at - (2 if walk(max(walk.stop - 2, at), walk.stop) == EOC else 0)
        if tile >= tiles:
            raise MalformedError(f"a tile-part of tile {tile}, where there are {tiles}", offset=at, field="Isot")
        if length <= SOT_BYTES or at + length > walk.stop:
            raise MalformedError(
                f"a tile-part of {length} bytes would end at {at + length}, the codestream ends at {walk.stop}",
                offset=at,
                field="Psot",
            )
        if len(rows) >= MAX_PARTS:
            raise MalformedError(f"more than {MAX_PARTS} tile-parts", offset=at, field="SOT")
        rows.append((tile, at, length))
        if part == 0:
            is_empty = is_bare and length > SOT_BYTES + 1
            see(tile, b"" if is_empty else walk.tile_header(at, length), walk.heads.get(at, b"")[:length], length)
        at += length
    tile_column, offset_column, length_column = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    parts = TileParts(tile_column, offset_column, length_column, is_open)
    missing = np.setdiff1d(siz.needed(), parts.tile)
    if missing.size:
        raise MalformedError(
            f"{missing.size} of {siz.tiles} tiles have no tile-part, the first is {missing[0]}", offset=at, field="SOT"
        )
    return parts
