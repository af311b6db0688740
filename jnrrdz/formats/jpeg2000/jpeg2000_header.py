"""The structure of a JPEG 2000 codestream: its main header, and where its tile-parts are.

May touch numpy, errors and the layouts of JPEG 2000; bytes come through `read(start, stop)`, and a
codestream may be any window of a source, as in JP2 or in a segment of NITF.  Tile-parts are found
by TLM where the main header has it and is right, else by walking from SOT to SOT.
Spec: ITU-T T.800, annex A
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.jp2_boxes import SIGNATURE, Boxes, parse_boxes
from jnrrdz.formats.jpeg2000.jpeg2000_heads import Heads
from jnrrdz.formats.jpeg2000.jpeg2000_markers import BARE, Marker, Segment, Style, levels_of, parse_cod, segments
from jnrrdz.formats.jpeg2000.jpeg2000_siz import Siz, parse_siz
from jnrrdz.formats.jpeg2000.tile_parts import TileParts, Walk, listed_parts, walked_parts

type ReadRange = Callable[[int, int], bytes]

MAGIC = b"\xff\x4f\xff\x51"
MAX_HEADER = 16 << 20
PSOT = 6
"""Where Psot stands in a tile-part, counted from SOT."""

HT_BIT = 1 << (32 - 15)
"""Of Pcap in CAP: the stream follows part 15."""

UNSUPPORTED_BITS = 1 << 15
"""Of Rsiz: the stream has extensions of part 2."""


@dataclass(frozen=True, eq=False)
class Codestream:
    """What one codestream says of itself."""

    start: int
    stop: int
    """Where it stands in the source, EOC included."""

    header: bytes
    """The main header, from SOC to before the first SOT."""

    siz: Siz
    style: Style
    levels: int
    """How many times every component of every tile can be halved, as far as headers were read."""

    ht: bool
    """Whether code-blocks are those of HTJ2K (part 15)."""

    parts: TileParts

    heads: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """For some tiles, the bytes of the first tile-part up to and with each resolution, lowest first."""

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The main header's segments."""
        return tuple(segments(self.header))

    def bodies(self, marker: Marker) -> list[bytes]:
        """Return the contents of all segments of one kind, without marker and length."""
        return [self.header[one.start + 4 : one.stop] for one in self.segments if one.marker == marker]


def is_codestream(head: bytes) -> bool:
    """Whether bytes begin a codestream."""
    return head.startswith(MAGIC)


def is_jpeg2000(head: bytes) -> bool:
    """Whether a file that starts with `head` is a codestream or a JP2, JPX or JPH file."""
    return is_codestream(head) or head.startswith(SIGNATURE)


def find_codestream(read: ReadRange, start: int, stop: int) -> tuple[int, int, Boxes | None]:
    """Return where a window's codestream is, and the boxes around it (None where it stands bare)."""
    head = read(start, min(start + len(SIGNATURE), stop))
    if is_codestream(head):
        return start, stop, None
    if not head.startswith(SIGNATURE):
        raise MalformedError(f"neither a codestream nor JP2: {head[:8].hex(' ')}", offset=start, field="JPEG 2000")
    boxes = parse_boxes(read, start, stop)
    if not boxes.codestreams:
        raise UnsupportedError("no codestream in the file itself (jp2c)", offset=start, field="JP2")
    return (*boxes.codestreams[0], boxes)


def parse_codestream(read: ReadRange, start: int, stop: int, *, far: bool = False, heads: bool = False) -> Codestream:
    """Return the facts of the codestream that begins at `start` and ends at `stop` or before.

    `far` says that a request costs more than some bytes: tile-parts are then looked for in long
    reads, and the headers of single tiles are left alone where TLM tells where they are, unless `heads` asks
    how far each tile-part holds which resolution.
    """
    header = _main_header(read, start, stop)
    found = list(segments(header))
    siz, style = _described(header, found, start)
    _check_part(siz, start)
    walk = Walk(read, stop, far=far)
    least = _Least(levels_of(header, found, siz, None) or 0, siz, Heads(header))
    tlm = [header[one.start + 4 : one.stop] for one in found if one.marker == Marker.TLM]
    parts = None if far and heads else listed_parts(walk, tlm, start + len(header), siz)
    if parts is None:
        parts = walked_parts(walk, start + len(header), siz, least.see)
    elif not far:
        _, firsts = np.unique(parts.tile, return_index=True)
        for first in firsts.tolist():
            place = int(parts.offset[first]), int(parts.length[first])
            least.see(int(parts.tile[first]), walk.tile_header(*place))
    end = int((parts.offset + parts.length).max())
    ht = any(
        one.marker == Marker.CAP and int.from_bytes(header[one.start + 4 : one.start + 8], "big") & HT_BIT
        for one in found
    )
    return Codestream(
        start, min(end + 2, stop), header, siz, style, least.levels, ht, parts, _closed(walk, parts, least.heads)
    )


def _closed(walk: Walk, parts: TileParts, heads: Heads) -> Mapping[int, tuple[int, ...]]:
    """Return the heads of those tile-parts that say how long they are: of one that does not, no head can be told."""
    last = int(np.argmax(parts.offset))
    tile, offset = int(parts.tile[last]), int(parts.offset[last])
    # a look back, for which no block is read
    if tile in heads.lengths and walk.exactly(offset + PSOT, offset + PSOT + 4) == bytes(4):
        del heads.lengths[tile]
    return heads.lengths


def _main_header(read: ReadRange, start: int, stop: int) -> bytes:
    """Return the bytes from SOC to before the first SOT."""
    at = start + 2
    while True:
        four = read(at, min(at + 4, stop)) if at < stop else b""
        marker = int.from_bytes(four[:2], "big")
        if marker == Marker.SOT:
            return read(start, at)
        if len(four) < 4 or marker >> 8 != 0xFF or marker in {Marker.SOD, Marker.EOC}:  # noqa: PLR2004
            raise MalformedError(
                f"{four.hex(' ') or 'nothing'} where the main header goes on", offset=at, field="main header"
            )
        at += 2 + (0 if marker in BARE else max(struct.unpack(">H", four[2:])[0], 2))
        if at - start > MAX_HEADER:
            raise UnsupportedError(f"a main header of more than {MAX_HEADER} bytes", offset=start, field="main header")


def _described(header: bytes, found: list[Segment], start: int) -> tuple[Siz, Style]:
    """Return what SIZ and COD say."""
    if not found or found[0].marker != Marker.SIZ:
        raise MalformedError("a main header that does not begin with SIZ", offset=start + 2, field="SIZ")
    cod = next((one for one in found if one.marker == Marker.COD), None)
    if cod is None:
        raise MalformedError("a main header without COD", offset=start, field="COD")
    try:
        return parse_siz(header[: found[0].stop][2:]), parse_cod(header[cod.start : cod.stop])
    except MalformedError as error:
        raise error.at(offset=start) from None


def _check_part(siz: Siz, start: int) -> None:
    if siz.capabilities & UNSUPPORTED_BITS and siz.capabilities & ~UNSUPPORTED_BITS:
        raise UnsupportedError(
            f"extensions of part 2 (Rsiz {siz.capabilities:#06x}); parts 1 and 15 are read", offset=start, field="SIZ"
        )


class _Least:
    """The levels that every tile has of those seen so far, and where their resolutions end."""

    def __init__(self, levels: int, siz: Siz, heads: Heads) -> None:
        self.levels, self.heads = levels, heads
        self._siz = siz

    def see(self, tile: int, header: bytes) -> None:
        """Take the marker segments of a tile's first tile-part into account."""
        self.heads.see(tile, header)
        found = list(segments(header, 0))
        own = levels_of(header, found, self._siz, self.levels)
        self.levels = self.levels if own is None else min(self.levels, own)
