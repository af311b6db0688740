"""Which bytes of a tile a resolution level needs, and whether a chunk has all of its packets.

Where resolutions come first in the progression, a level needs the first tile-parts only if a tile has one for each,
or the head of a tile's only one.  Where that ends follows from the packet lengths in its header (PLT) or, in a file
far away, from packet headers, as far as the first bytes of the tile-part reach.  None of them is a promise of the
format: tile-parts are looked at when they are found, and decoders read the packet headers and count.
Spec: ITU-T T.800 (https://www.itu.int/rec/T-REC-T.800), A.7.3 (PLT), B.10 (packet headers), B.12 (progression orders)
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.codecs import Jpeg2000Config
from jnrrdz.formats.jpeg2000.grid import ChunkGrid
from jnrrdz.formats.jpeg2000.markers import Marker, Progression, Siz, levels_of, parse_siz, segments
from jnrrdz.formats.jpeg2000.packets import (
    IN_TILES,
    Coding,
    TilePart,
    coding,
    packet_counts,
    packet_order,
    plt_lengths,
    resolution,
    tile_part,
    walk_packets,
)
from jnrrdz.formats.jpeg2000.tile_parts import MARK, SOT, SOT_BYTES, TileParts, Walk

SOD_BYTES = 2
FEW_PACKETS = 1 << 12
"""Packets of a tile whose headers are read to see where its resolutions end: some tenths of a second."""

MOST_PACKETS = 50_000
"""Packets of all tiles whose headers are read for that: some ten seconds."""

LOOK_AHEAD = 6
"""Bytes after a packet header that may belong to it: SOP of the next packet is the longest."""


class TileHeaders:
    """What the headers of tiles add to the main header: how many levels they have, and where their resolutions end."""

    def __init__(self, header: bytes, siz: Siz) -> None:
        """Take the main header; no head is recorded where its packets cannot be counted."""
        self.levels = levels_of(header, 2, siz) or 0
        """The levels that every tile has of those seen so far."""
        self.heads: dict[int, tuple[int, ...]] = {}
        """For each tile, the bytes of its first tile-part up to and with each resolution, lowest first."""
        self._siz = siz
        self.coding: Coding | None
        """How packets are counted, where resolutions come first in the progression."""
        self._parsed = 0
        """Packets whose headers were read."""
        coded = countable(header)
        if coded is not None and not is_by_resolution(coded.progression, coded.layers):
            coded = None
        self.coding = coded

    def see(self, tile: int, header: bytes, head: bytes = b"", length: int = 0) -> None:
        """Take a tile's first tile-part into account: its marker segments, its first bytes, and its length."""
        own = list(segments(header, 0)) if header else []
        if own:
            self.levels = min(self.levels, levels_of(header, 0, self._siz, self.levels) or 0)
        if self.coding is None or any(segment.marker in IN_TILES for segment in own):
            return
        plt = [segment.body for segment in own if segment.marker == Marker.PLT]
        if plt:
            self._see_lengths(self.coding, tile, plt, SOT_BYTES + len(header) + SOD_BYTES)
        elif head:
            self._see_packets(self.coding, tile, TilePart(SOT_BYTES + len(header) + SOD_BYTES, length), head)

    def _see_lengths(self, coded: Coding, tile: int, plt: list[bytes], start: int) -> None:
        """Record where a tile's resolutions end by the lengths of its packets, which begin at `start`."""
        try:
            lengths = plt_lengths(plt)
        except MalformedError:
            return
        ends = np.cumsum(packet_counts(coded, coded.tile_box(tile)))
        if ends[-1] == len(lengths):  # else the tile-part does not hold the whole tile, or is not what the header says
            self.heads[tile] = tuple((np.concatenate(([0], np.cumsum(lengths)))[ends] + start).tolist())

    def _see_packets(self, coded: Coding, tile: int, part: TilePart, head: bytes) -> None:
        """Record the same by packet headers, as far as the first bytes of the tile-part reach."""
        box = coded.tile_box(tile)
        bounds = np.cumsum(packet_counts(coded, box)).tolist()
        if bounds[-1] > FEW_PACKETS or self._parsed > MOST_PACKETS:
            return

        def read(start: int, stop: int) -> bytes:
            if start + LOOK_AHEAD > len(head) < part.stop:
                raise MalformedError("a packet header after the first bytes", offset=start, field="packet header")
            return head[start:stop]

        ends: list[int] = []
        packets = walk_packets(read, coded, packet_order(coded, box), [part], partial(resolution, coded, box))
        with suppress(MalformedError):
            for number, (_, end, stop) in enumerate(packets, 1):
                if end > stop:
                    return
                self._parsed += 1
                ends += [end] * (bisect_right(bounds, number) - len(ends))
        if ends:
            self.heads[tile] = (*ends, *[part.stop] * (len(bounds) - len(ends)))


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


def is_split(tiles: TileHeaders, walk: Walk, parts: TileParts) -> bool:
    """Whether the first tile-parts of each tile hold its first resolutions, a tile-part for each.

    Their headers have to be whole, and to list as many packets (PLT).  Where they list none, those of the first tile
    are counted, if they are few.  In a `far` file each look would be a request: there only the first tile's header
    is read, since a tile with a coding of its own cannot be counted by the decoder either.
    """
    coded = tiles.coding
    if coded is None or not coded.levels or tiles.levels != coded.levels:
        return False
    if (np.bincount(parts.tile)[parts.tile] != coded.levels + 1).any():
        return False
    rows_of_tiles = np.argsort(parts.tile, kind="stable").reshape(-1, coded.levels + 1)
    spans = np.stack([parts.offset, parts.offset + parts.length], axis=1)
    try:
        if walk.far:
            tile_part(walk.exactly, *spans[rows_of_tiles[0, 0]].tolist())
            return True
        return all(
            _is_split(walk, coded, int(parts.tile[rows[0]]), spans[rows].tolist(), count=number == 0)
            for number, rows in enumerate(rows_of_tiles)
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


LOW = 2
"""The first level whose packets are looked up while it is read; finer ones are a quarter of the file and more."""

LONGEST_MARKERS = 500
"""Bytes of a tile-part's marker segments and of packet headers, as a rule."""

DENSER = 2.5
"""A sample of a low resolution takes as many bytes as this many of the full one, at most as a rule."""


class LevelHeads:
    """How much of the only tile-part of each chunk's tile a level needs, by the first bytes of it."""

    def __init__(self, main_header: bytes, siz: Siz, level: int) -> None:
        self._header = main_header
        self._siz = siz
        self._level = level

    def guess(self, length: int) -> int:
        """Return how many of so many bytes show where the level ends, as a rule."""
        return min(LONGEST_MARKERS + int(length * DENSER / 4**self._level), length)

    def end(self, head: bytes, length: int) -> int | None:
        """Return where the level ends in `length` bytes: at their end where it cannot be told; None for too few."""
        if len(head) < SOT_BYTES or not head.startswith(MARK):
            return length
        _, _, tile, psot, *_ = SOT.unpack_from(head)
        if psot != length or tile >= self._siz.tiles:
            return length
        own = Walk(lambda start, stop: head[start:stop], len(head), far=False).tile_header(0, len(head))
        if SOT_BYTES + len(own) + SOD_BYTES > len(head):
            return None
        tiles = TileHeaders(self._header, self._siz)
        if tiles.coding is None or self._level > tiles.levels:
            return length
        tiles.see(tile, own, head, length)
        ends = tiles.heads.get(tile)
        if ends is None:
            return None
        end = ends[tiles.coding.levels - self._level]
        return end if end < length else None


def level_heads(config: Jpeg2000Config) -> LevelHeads | None:
    """Return what finds the ends of a level's chunks; None where all of each chunk is needed, or may be."""
    level = config.resolution_level
    if level < LOW or config.tile_parts:
        return None
    main = next(segments(config.main_header), None)
    if main is None or main.marker != Marker.SIZ:
        return None
    siz = parse_siz(main.data)
    coded = countable(config.main_header)
    if coded is None or not is_by_resolution(coded.progression, coded.layers):
        return None
    is_even = all(ChunkGrid(siz, component, level).is_tiles for component in set(siz.components))
    levels = {component.levels for component in coded.components}
    return LevelHeads(config.main_header, siz, level) if is_even and len(levels) == 1 else None
