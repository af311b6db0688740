"""Where the tile-parts of a codestream are: by the list in TLM, or from SOT to SOT.

A list is taken for true only if the first and the last SOT stand where it says and the tile-parts fill the stream;
where a look costs no request, every SOT.
Spec: ITU-T T.800 (https://www.itu.int/rec/T-REC-T.800), A.4.2 (SOT) and A.7.1 (TLM)
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError
from jnrrdz.formats.jpeg2000.boxes import ReadRange
from jnrrdz.formats.jpeg2000.markers import Marker, Siz, steps

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

    def __len__(self) -> int:
        return len(self.tile)


class Walk:
    """Reads of a few bytes, ever further on: in blocks that double where requests are dear."""

    def __init__(self, read: ReadRange, stop: int, *, far: bool, block: int = FIRST_BLOCK) -> None:
        self.stop = stop
        self._read, self.far = read, far
        self._start, self._block, self._size = 0, b"", block
        self._parts, self._bytes = 0, 0
        """Of the tile-parts so far."""

    def __call__(self, start: int, stop: int) -> bytes:
        """Return bytes, fewer only at the end."""
        stop = min(stop, self.stop)
        if start >= stop:
            return b""
        if not self.far:
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
    return parts if len(tile) == len(lengths) and _is_true(walk, parts, siz) else None


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


def _is_true(walk: Walk, parts: TileParts, siz: Siz) -> bool:
    """Whether a list names every tile, and the tile-parts (of a far source the first and the last) stand there."""
    if not len(parts) or parts.length.min() <= SOT_BYTES or parts.tile.max() >= siz.tiles:
        return False
    if np.setdiff1d(siz.needed(), parts.tile).size or int(parts.offset[-1] + parts.length[-1]) > walk.stop:
        return False
    rows = list(zip(parts.tile.tolist(), parts.offset.tolist(), parts.length.tolist(), strict=True))
    for number, (tile, offset, length) in enumerate([rows[0], rows[-1]] if walk.far else rows):
        data = walk.exactly(offset, offset + SOT_BYTES)
        if len(data) < SOT_BYTES or not data.startswith(b"\xff\x90"):
            return False
        _, _, named, psot, *_ = SOT.unpack(data)
        # a last tile-part may leave its length open
        is_open = number > 0 and offset == rows[-1][1] and psot == 0
        if named != tile or (psot != length and not is_open):
            return False
    return True


def walked_parts(walk: Walk, first: int, siz: Siz, see: Callable[[int, bytes], None]) -> TileParts:
    """Return the tile-parts found by going from each to the next; every tile that has samples must have one.

    `see` is given each tile with the marker segments of its first tile-part.
    """
    rows: list[tuple[int, int, int]] = []
    at, tiles = first, siz.tiles
    while (found := walk.sot(at)) is not None:
        tile, length, part, is_bare = found
        if not length:  # a last tile-part leaves it open: up to EOC
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
            see(tile, b"" if is_bare and length > SOT_BYTES + 1 else walk.tile_header(at, length))
        at += length
    parts = TileParts(*np.array(rows, np.int64).reshape(-1, 3).T.copy())
    missing = np.setdiff1d(siz.needed(), parts.tile)
    if missing.size:
        raise MalformedError(
            f"{missing.size} of {siz.tiles} tiles have no tile-part, the first is {missing[0]}", offset=at, field="SOT"
        )
    return parts
