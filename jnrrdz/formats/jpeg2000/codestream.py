"""How much of a tile-part a lower resolution needs, by the packet lengths in its header (PLT).

May touch numpy, errors and the layouts of JPEG 2000; pure.  Where resolutions come first in the progression,
the packets of the lower ones are the head of a tile-part.  Lengths are taken at their word here: who decodes
such a head reads the packet headers, and counts (`jpeg2000_levels`).
Spec: ITU-T T.800, A.7.3 (PLT), B.12 (progression orders)

The structure of a JPEG 2000 codestream: its main header, and where its tile-parts are.

May touch numpy, errors and the layouts of JPEG 2000; bytes come through `read(start, stop)`, and a
codestream may be any window of a source, as in JP2 or in a segment of NITF.  Tile-parts are found
by TLM where the main header has it and is right, else by walking from SOT to SOT.
Spec: ITU-T T.800, annex A

Which tile-parts a resolution level needs, or what part of them, and whether those at hand hold its packets.

May touch numpy, errors and the layouts of JPEG 2000; pure.  Where resolutions come first in the progression,
a level needs the first tile-parts only if a tile has one for each, or the head of a tile's only one if PLT
says where that ends.  Neither is a promise of the format, so who decodes counts the packets.
Spec: ITU-T T.800, B.10 (packet headers), B.12 (progression orders)
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.boxes import SIGNATURE, Boxes, parse_boxes
from jnrrdz.formats.jpeg2000.grid import ChunkGrid
from jnrrdz.formats.jpeg2000.markers import (
    BARE,
    Marker,
    Progression,
    Segment,
    Siz,
    Style,
    levels_of,
    parse_cod,
    parse_siz,
    segments,
)
from jnrrdz.formats.jpeg2000.packets import (
    IN_TILES,
    Coding,
    TilePart,
    blocks_of,
    coding,
    packet_order,
    plt_lengths,
    resolution,
    tile_part,
)
from jnrrdz.formats.jpeg2000.tagtree import Band, Bits, packet
from jnrrdz.formats.jpeg2000.tile_parts import SOT_BYTES, TileParts, Walk, listed_parts, walked_parts

SOD_BYTES = 2


class Heads:
    """The heads of the tile-parts that were seen, for each resolution."""

    def __init__(self, header: bytes) -> None:
        """Take the main header; of one that says more than can be counted by, no head is known."""
        self.lengths: dict[int, tuple[int, ...]] = {}
        """For each tile, the bytes of its first tile-part up to and with each resolution, lowest first."""
        try:
            known = coding(header)
        except (UnsupportedError, MalformedError):
            known = None
        self._coding = known if known is not None and is_by_resolution(known.progression, known.layers) else None

    def see(self, tile: int, header: bytes) -> None:
        """Take the marker segments of a tile's first tile-part."""
        if self._coding is None:
            return
        found = list(segments(header, 0))
        plt = [header[one.start + 4 : one.stop] for one in found if one.marker == Marker.PLT]
        if not plt or any(one.marker in set(IN_TILES) for one in found):
            return
        try:
            lengths = plt_lengths(plt)
        except MalformedError:
            return
        counts = resolution_packets(self._coding, tile)
        if sum(counts) != len(lengths):
            return  # a tile-part that does not hold the whole tile, or is not what the header says
        ends = np.concatenate(([0], np.cumsum(lengths)))[np.cumsum(counts)] + (SOT_BYTES + len(header) + SOD_BYTES)
        self.lengths[tile] = tuple(ends.tolist())


def is_by_resolution(progression: int, layers: int) -> bool:
    """Whether all packets of a resolution stand before those of the next one."""
    first = {Progression.RLCP, Progression.RPCL}
    return progression in first or (progression == Progression.LRCP and layers == 1)


def resolution_packets(known: Coding, tile: int) -> list[int]:
    """Return the number of packets of each resolution of a tile, lowest first."""
    box, components = known.tile_box(tile), range(len(known.siz.components))
    return [
        known.layers * sum(resolution(known, box, component, number).count for component in components)
        for number in range(known.levels + 1)
    ]


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


def needed_parts(codestream: Codestream, level: int, grid: ChunkGrid) -> TileParts:
    """Return the tile-parts that a level needs: all of them, unless each holds a resolution or its head is known."""
    parts, resolutions = codestream.parts, codestream.style.levels + 1
    if not level or codestream.levels != codestream.style.levels or not is_countable(codestream.header):
        return parts
    if not is_by_resolution(codestream.style.progression, codestream.style.layers):
        return parts
    if (np.bincount(parts.tile) != resolutions).any():
        return _heads(codestream, resolutions - 1 - level) if grid.is_tiles else parts
    order = np.argsort(parts.tile, kind="stable")
    rank = np.empty(len(parts), np.int64)
    rank[order] = np.arange(len(parts)) % resolutions
    kept = rank < resolutions - level
    return TileParts(parts.tile[kept], parts.offset[kept], parts.length[kept])


def _heads(codestream: Codestream, number: int) -> TileParts:
    """Return the tile-parts up to a resolution, those of which that is not known whole."""
    parts, length = codestream.parts, codestream.parts.length.copy()
    alone = np.bincount(parts.tile)[parts.tile] == 1
    for row in np.flatnonzero(alone).tolist():
        ends = codestream.heads.get(int(parts.tile[row]))
        if ends is not None and ends[-1] == length[row]:
            length[row] = ends[number]
    return TileParts(parts.tile, parts.offset, length)


def is_countable(header: bytes) -> bool:
    """Whether packets can be counted where the main header says this."""
    try:
        coding(header)
    except (UnsupportedError, MalformedError):
        return False
    return True


def check_packets(
    data: bytes | memoryview, parts: Sequence[tuple[int, int]], header: bytes, tile: int, level: int
) -> bytes:
    """Refuse the tile-parts (where they stand in `data`) of a tile that do not hold all packets of a level.

    Return empty packets for those after them: decoders miss the end of a tile, though not its contents.

    What is counted by headers that this cannot read (see `is_countable`) passes, unless a tile-part was cut.
    Lengths in PLT are those of packets that may be cut off then, so packet headers are read.
    """
    is_cut = any(int.from_bytes(data[start + 6 : start + 10], "big") > stop - start for start, stop in parts)
    if not is_countable(header):
        if is_cut:
            raise MalformedError(f"a tile-part of tile {tile} that goes on after the chunk ends", field="Psot")
        return b""
    known = coding(header)
    columns = packet_order(known, known.tile_box(tile))
    # in any progression the last packet that the level needs has all others before it
    wanted = np.flatnonzero(columns[1] <= known.levels - level)
    count = int(wanted[-1]) + 1 if wanted.size else 0
    found = [tile_part(lambda start, stop: bytes(data[start:stop]), *span) for span in parts]
    if not is_cut and all(one.plt or one.start == one.stop for one in found):
        have = sum(len(plt_lengths(one.plt)) for one in found if one.plt)
    else:
        have, stands = _count(data, known, tile, found, count)
        if is_cut and have == count and stands != found[-1].stop:
            raise MalformedError(f"a tile-part of tile {tile} that is not cut off where a packet ends", field="Psot")
    if have < count:
        raise MalformedError(
            f"{have} of {count} packets of resolution level {level} in these tile-parts of tile {tile}", field="SOT"
        )
    return (b"\x00" + b"\xff\x92" * known.eph) * (len(columns[0]) - count)


def _count(data: bytes | memoryview, known: Coding, tile: int, parts: Sequence[TilePart], most: int) -> tuple[int, int]:
    """Return the number of packets up to `most`, by going through their headers, and where the last one ends."""
    box = known.tile_box(tile)
    columns = packet_order(known, box)
    states: dict[tuple[int, int, int], list[Band]] = {}
    queue, bits, stop = iter(parts), None, 0
    rows = zip(*(column[:most].tolist() for column in columns), strict=True)
    for done, (component, number, precinct, layer) in enumerate(rows):
        while bits is None or bits.position >= stop:
            part = next(queue, None)
            if part is None:
                return done, stop
            bits, stop = Bits(lambda start, end: bytes(data[start:end]), part.start, part.stop), part.stop
        state = states.get((component, number, precinct))
        if state is None:
            place = resolution(known, box, component, number)
            state = [Band(*size) for size in blocks_of(known, place, number, precinct)]
            states[component, number, precinct] = state
        if packet(state, layer, known.style, bits) > stop:
            return done, stop
    return most, 0 if bits is None else bits.position
