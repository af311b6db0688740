"""Which tile-parts a resolution level needs, or what part of them, and whether those at hand hold its packets.

May touch numpy, errors and the layouts of JPEG 2000; pure.  Where resolutions come first in the progression,
a level needs the first tile-parts only if a tile has one for each, or the head of a tile's only one if PLT
says where that ends.  Neither is a promise of the format, so who decodes counts the packets.
Spec: ITU-T T.800, B.10 (packet headers), B.12 (progression orders)
"""

from collections.abc import Sequence

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.jpeg2000_chunks import ChunkGrid
from jnrrdz.formats.jpeg2000.jpeg2000_coding import Coding, coding
from jnrrdz.formats.jpeg2000.jpeg2000_header import Codestream
from jnrrdz.formats.jpeg2000.jpeg2000_heads import is_by_resolution
from jnrrdz.formats.jpeg2000.jpeg2000_packets import TilePart, packet_order, plt_lengths, tile_part
from jnrrdz.formats.jpeg2000.jpeg2000_precincts import blocks_of, resolution
from jnrrdz.formats.jpeg2000.tagtree import Band, Bits, packet
from jnrrdz.formats.jpeg2000.tile_parts import TileParts


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
