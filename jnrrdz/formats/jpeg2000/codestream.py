"""The structure of a codestream: its main header, its tile-parts, and how much of them a resolution level needs.

A codestream may be any window of a source, as in JP2 or in a segment of NITF.  Tile-parts are found by TLM where the
main header has it and is right, else by walking from SOT to SOT.

Where resolutions come first in the progression, a level needs the first tile-parts only if a tile has one for each,
or the head of a tile's only one if the packet lengths in its header (PLT) say where that ends.  Neither is a promise
of the format: tile-parts are looked at when they are found, and who decodes reads the packet headers, and
counts (`check_packets`).
Spec: ITU-T T.800 (https://www.itu.int/rec/T-REC-T.800), annex A, B.10 (packet headers), B.12 (progression orders);
T.814 (HTJ2K)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.boxes import SIGNATURE, Boxes, ReadRange, parse_boxes
from jnrrdz.formats.jpeg2000.grid import ChunkGrid
from jnrrdz.formats.jpeg2000.markers import (
    Marker,
    Progression,
    Segment,
    Siz,
    Style,
    levels_of,
    parse_cod,
    parse_siz,
    segments,
    steps,
)
from jnrrdz.formats.jpeg2000.packets import (
    IN_TILES,
    Coding,
    coding,
    packet_counts,
    packet_order,
    plt_lengths,
    resolution,
    tile_part,
    walk_packets,
)
from jnrrdz.formats.jpeg2000.tile_parts import SOT_BYTES, TileParts, Walk, listed_parts, walked_parts

SOD_BYTES = 2
MAGIC = b"\xff\x4f\xff\x51"
MAX_HEADER = 16 << 20
FEW_PACKETS = 1 << 12
"""Packets of a tile whose headers are read to see where its resolutions end: some tenths of a second."""

PSOT = 6
"""Where Psot stands in a tile-part, counted from SOT."""

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

    parts: TileParts

    heads: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """For some tiles, the bytes of the first tile-part up to and with each resolution, lowest first."""

    is_split: bool = False
    """Whether each tile has a tile-part for each resolution, lowest first."""

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The main header's segments."""
        return tuple(segments(self.header))

    @property
    def component_groups(self) -> list[tuple[int, ...]]:
        """The components that can share an array, those of equal subsampling, in order."""
        groups: dict[tuple[int, int], list[int]] = {}
        for number, component in enumerate(self.siz.components):
            groups.setdefault(component.sampling, []).append(number)
        return [tuple(numbers) for numbers in groups.values()]

    def bodies(self, marker: Marker) -> list[bytes]:
        """Return the contents of all segments of one kind, without marker and length."""
        return [segment.body for segment in self.segments if segment.marker == marker]


def find_codestream(read: ReadRange, start: int, stop: int) -> tuple[int, int, Boxes | None]:
    """Return where a window's codestream is, and the boxes around it (None where it stands bare)."""
    head = read(start, min(start + len(SIGNATURE), stop))
    if head.startswith(MAGIC):
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
    main = list(segments(header))
    siz, style = _described(main, start)
    walk, tiles = Walk(read, stop, far=far), TileHeaders(header, siz)
    tlm = [segment.body for segment in main if segment.marker == Marker.TLM]
    parts = None if far and heads else listed_parts(walk, tlm, start + len(header), siz)
    if parts is None:
        parts = walked_parts(walk, start + len(header), siz, tiles.see)
    elif not far:
        _, firsts = np.unique(parts.tile, return_index=True)
        for first in firsts.tolist():
            place = int(parts.offset[first]), int(parts.length[first])
            tiles.see(int(parts.tile[first]), walk.tile_header(*place))
    last = int(np.argmax(parts.offset))
    tile, offset = int(parts.tile[last]), int(parts.offset[last])
    # of a tile-part that leaves its length open no head can be told; a look back, for which no block is read
    if tile in tiles.heads and walk.exactly(offset + PSOT, offset + PSOT + 4) == bytes(4):
        del tiles.heads[tile]
    end = int((parts.offset + parts.length).max())
    is_split = tiles.levels == style.levels and _holds_resolutions(walk, parts, countable(header), far=far)
    return Codestream(start, min(end + 2, stop), header, siz, style, tiles.levels, parts, tiles.heads, is_split)


def _main_header(read: ReadRange, start: int, stop: int) -> bytes:
    """Return the bytes from SOC to before the first SOT."""

    def head(at: int) -> bytes:
        return read(at, min(at + 4, stop)) if at < stop else b""

    for step in steps(head, start + 2):
        if step.marker == Marker.SOT:
            return read(start, step.at)
        if len(step.head) < 4 or step.marker >> 8 != 0xFF or step.is_end:  # noqa: PLR2004
            raise step.refusal("where the main header goes on", "main header")
        if step.stop - start > MAX_HEADER:
            break
    raise UnsupportedError(f"a main header of more than {MAX_HEADER} bytes", offset=start, field="main header")


def _described(main: list[Segment], start: int) -> tuple[Siz, Style]:
    """Return what SIZ and COD say; refuse extensions that are not read."""
    if not main or main[0].marker != Marker.SIZ:
        raise MalformedError("a main header that does not begin with SIZ", offset=start + 2, field="SIZ")
    cod = next((segment for segment in main if segment.marker == Marker.COD), None)
    if cod is None:
        raise MalformedError("a main header without COD", offset=start, field="COD")
    try:
        siz, style = parse_siz(main[0].data), parse_cod(cod.data)
    except MalformedError as error:
        raise error.at(offset=start) from None
    if siz.capabilities & UNSUPPORTED_BITS and siz.capabilities & ~UNSUPPORTED_BITS:
        raise UnsupportedError(
            f"extensions of part 2 (Rsiz {siz.capabilities:#06x}); parts 1 and 15 are read", offset=start, field="SIZ"
        )
    return siz, style


class TileHeaders:
    """What the headers of tiles add to the main header: how many levels they have, and where their resolutions end."""

    def __init__(self, header: bytes, siz: Siz) -> None:
        """Take the main header; of one that says more than can be counted by, no head is known."""
        self.levels = levels_of(header, 2, siz) or 0
        """The levels that every tile has of those seen so far."""
        self.heads: dict[int, tuple[int, ...]] = {}
        """For each tile, the bytes of its first tile-part up to and with each resolution, lowest first."""
        self._siz = siz
        coded = countable(header)
        self._coding = coded if coded is not None and is_by_resolution(coded.progression, coded.layers) else None

    def see(self, tile: int, header: bytes) -> None:
        """Take the marker segments of a tile's first tile-part into account."""
        if not header:
            return
        self.levels = min(self.levels, levels_of(header, 0, self._siz, self.levels) or 0)
        own = list(segments(header, 0))
        plt = [segment.body for segment in own if segment.marker == Marker.PLT]
        if self._coding is None or not plt or any(segment.marker in IN_TILES for segment in own):
            return
        try:
            lengths = plt_lengths(plt)
        except MalformedError:
            return
        ends = np.cumsum(packet_counts(self._coding, self._coding.tile_box(tile)))
        if ends[-1] == len(lengths):  # else the tile-part does not hold the whole tile, or is not what the header says
            before = SOT_BYTES + len(header) + SOD_BYTES
            self.heads[tile] = tuple((np.concatenate(([0], np.cumsum(lengths)))[ends] + before).tolist())


def countable(header: bytes) -> Coding | None:
    """Return what the packets of a main header's tiles are counted by; None where it says more than that."""
    try:
        return coding(header)
    except (UnsupportedError, MalformedError):
        return None


def is_by_resolution(progression: int, layers: int) -> bool:
    """Whether all packets of a resolution stand before those of the next one."""
    first = {Progression.RLCP, Progression.RPCL}
    return progression in first or (progression == Progression.LRCP and layers == 1)


def _holds_resolutions(walk: Walk, parts: TileParts, coded: Coding | None, *, far: bool) -> bool:
    """Whether the first tile-parts of each tile hold its first resolutions, a tile-part for each.

    Their headers have to be whole, and to list as many packets (PLT).  Where they list none, those of the first tile
    are counted, if they are few.  In a `far` file each look would be a request: there only the first tile's header
    is read, since a tile with a coding of its own cannot be counted by the decoder either.
    """
    if coded is None or not coded.levels or not is_by_resolution(coded.progression, coded.layers):
        return False
    if (np.bincount(parts.tile)[parts.tile] != coded.levels + 1).any():
        return False
    tiles = np.argsort(parts.tile, kind="stable").reshape(-1, coded.levels + 1)
    spans = np.stack([parts.offset, parts.offset + parts.length], axis=1)
    try:
        if far:
            tile_part(walk.exactly, *spans[tiles[0, 0]].tolist())
            return True
        return all(
            _is_split(walk, coded, int(parts.tile[rows[0]]), spans[rows].tolist(), count=number == 0)
            for number, rows in enumerate(tiles)
        )
    except (MalformedError, UnsupportedError):
        return False


def _is_split(walk: Walk, coded: Coding, tile: int, spans: list[list[int]], *, count: bool) -> bool:
    """Whether the tile-parts of one tile hold its resolutions, as far as they say it or packets are to be counted."""
    bodies = [tile_part(walk.exactly, start, stop) for start, stop in spans]
    box = coded.tile_box(tile)
    if all(body.plt or body.start == body.stop for body in bodies):
        have = [len(plt_lengths(body.plt)) if body.plt else 0 for body in bodies]
        needed = packet_counts(coded, box)
    elif count and sum(needed := packet_counts(coded, box)) <= FEW_PACKETS:
        packets = walk_packets(walk.exactly, coded, packet_order(coded, box), bodies, partial(resolution, coded, box))
        begins = [begin for begin, end, stop in packets if end <= stop]
        have = [sum(body.start <= begin < body.stop for begin in begins) for body in bodies]
    else:
        return True
    return bool((np.cumsum(have) >= np.cumsum(needed))[:-1].all())


def needed_parts(codestream: Codestream, level: int, grid: ChunkGrid) -> TileParts:
    """Return the tile-parts that a level needs: all of them, unless each holds a resolution or its head is known."""
    parts, resolutions = codestream.parts, codestream.style.levels + 1
    if not level or codestream.levels != codestream.style.levels:
        return parts
    if codestream.is_split:
        order = np.argsort(parts.tile, kind="stable")
        rank = np.empty(len(parts), np.int64)
        rank[order] = np.arange(len(parts)) % resolutions
        kept = rank < resolutions - level
        return TileParts(parts.tile[kept], parts.offset[kept], parts.length[kept])
    if not codestream.heads or not grid.is_tiles:
        return parts
    counts, length = np.bincount(parts.tile), parts.length.copy()
    for row in np.flatnonzero(counts[parts.tile] == 1).tolist():
        ends = codestream.heads.get(int(parts.tile[row]))
        if ends is not None and ends[-1] == length[row]:
            length[row] = ends[resolutions - 1 - level]
    return TileParts(parts.tile, parts.offset, length)


def check_packets(
    data: bytes | memoryview, parts: Sequence[tuple[int, int]], header: bytes, tile: int, level: int
) -> bytes:
    """Refuse the tile-parts (where they stand in `data`) of a tile that do not hold all packets of a level.

    Return empty packets for those after them: decoders miss the end of a tile, though not its contents.

    What is counted by headers that this cannot read (see `countable`) passes, unless a tile-part was cut
    or there is exactly one tile-part for each resolution of the level.
    Lengths in PLT are those of packets that may be cut off then, so packet headers are read.
    """
    is_cut = any(int.from_bytes(data[start + 6 : start + 10], "big") > stop - start for start, stop in parts)
    coded = countable(header)
    own = _own_coding(data, parts)
    if coded is None or own is not None:
        if is_cut:
            raise MalformedError(f"a tile-part of tile {tile} that goes on after the chunk ends", field="Psot")
        if coded is not None and len(parts) == coded.levels - level + 1:
            raise UnsupportedError(
                f"packets of tile {tile} with {own}: they cannot be counted, and tile-parts may be missing",
                field="SOT",
            )
        return b""

    def read(start: int, stop: int) -> bytes:
        return bytes(data[start:stop])

    box = coded.tile_box(tile)
    counts = packet_counts(coded, box)
    nbytes, least = sum(stop - start for start, stop in parts), sum(counts[: coded.levels - level + 1])
    if least > nbytes:  # each takes a byte, even if it is empty
        raise MalformedError(
            f"{least} packets of resolution level {level} in {nbytes} bytes of tile {tile}", field="SOT"
        )
    columns = packet_order(coded, box)
    # in any progression the last packet that the level needs has all others before it
    most = np.array([component.levels - level for component in coded.components])
    needed = np.flatnonzero(columns[1] <= most[columns[0]])
    count = int(needed[-1]) + 1 if needed.size else 0
    bodies = [tile_part(read, *span) for span in parts]
    if not is_cut and all(body.plt or body.start == body.stop for body in bodies):
        have = sum(len(plt_lengths(body.plt)) for body in bodies if body.plt)
    else:
        walk = walk_packets(read, coded, columns, bodies, partial(resolution, coded, box))
        have, end = _counted(walk, count, bodies[-1].stop, is_cut=is_cut)
        if is_cut and have == count and end != bodies[-1].stop:
            raise MalformedError(f"a tile-part of tile {tile} that is not cut off where a packet ends", field="Psot")
    if have < count:
        raise MalformedError(
            f"{have} of {count} packets of resolution level {level} in these tile-parts of tile {tile}", field="SOT"
        )
    return (b"\x00" + b"\xff\x92" * coded.eph) * (len(columns[0]) - have)


def _counted(walk: Iterator[tuple[int, int, int]], needed: int, stop: int, *, is_cut: bool) -> tuple[int, int]:
    """Return how many packets are whole, and where the last of them ends.

    After the needed ones the rest is counted only where there are more, and no packet is cut.
    """
    have, end = 0, 0
    for _, end, part_stop in walk:
        if end > part_stop:
            break
        have += 1
        if have == needed and (is_cut or end == stop):
            break
    return have, end


def _own_coding(data: bytes | memoryview, parts: Sequence[tuple[int, int]]) -> str | None:
    """Return what a tile's headers change of the main header's coding, None where they change nothing."""
    for start, _ in parts:
        for segment in segments(data, start + SOT_BYTES):
            for marker, meaning in IN_TILES.items():
                if segment.marker == marker:
                    return meaning
    return None
