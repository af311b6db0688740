"""Which tile-parts a resolution level needs, and whether those at hand hold all of its packets.

May touch numpy, errors and the layouts of JPEG 2000; pure.  Where a tile has one tile-part for each
resolution, and resolutions come first in the progression, a level needs the first ones only.  That
the encoder cut there is no promise of the format, so who decodes counts the packets.
Spec: ITU-T T.800, B.10 (packet headers), B.12 (progression orders)
"""

from collections.abc import Sequence

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.layout.jpeg2000 import Codestream
from jnrrdz.layout.jpeg2000_coding import Coding, coding
from jnrrdz.layout.jpeg2000_markers import Progression
from jnrrdz.layout.jpeg2000_packets import TilePart, packet_order, plt_lengths, tile_part
from jnrrdz.layout.jpeg2000_precincts import blocks_of, resolution
from jnrrdz.layout.jpeg2000_tagtree import Band, Bits, packet
from jnrrdz.layout.jpeg2000_walk import TileParts

RESOLUTION_FIRST = {Progression.RLCP, Progression.RPCL}


def needed_parts(codestream: Codestream, level: int) -> TileParts:
    """Return the tile-parts that a level needs: all of them, unless each holds a resolution."""
    parts, resolutions = codestream.parts, codestream.style.levels + 1
    if not level or codestream.levels != codestream.style.levels or not is_countable(codestream.header):
        return parts
    if codestream.style.progression not in RESOLUTION_FIRST or (np.bincount(parts.tile) != resolutions).any():
        return parts
    order = np.argsort(parts.tile, kind="stable")
    rank = np.empty(len(parts), np.int64)
    rank[order] = np.arange(len(parts)) % resolutions
    kept = rank < resolutions - level
    return TileParts(parts.tile[kept], parts.offset[kept], parts.length[kept])


def is_countable(header: bytes) -> bool:
    """Whether packets can be counted where the main header says this."""
    try:
        coding(header)
    except (UnsupportedError, MalformedError):
        return False
    return True


def check_packets(
    data: bytes | memoryview, parts: Sequence[tuple[int, int]], header: bytes, tile: int, level: int
) -> None:
    """Refuse the tile-parts (where they stand in `data`) of a tile that do not hold all packets of a level.

    What is counted by headers that this cannot read (see `is_countable`) passes.
    """
    if not is_countable(header):
        return
    known = coding(header)
    columns = packet_order(known, known.tile_box(tile))
    # in any progression the last packet that the level needs has all others before it
    wanted = np.flatnonzero(columns[1] <= known.levels - level)
    count = int(wanted[-1]) + 1 if wanted.size else 0
    found = [tile_part(lambda start, stop: bytes(data[start:stop]), *span) for span in parts]
    if all(one.plt or one.start == one.stop for one in found):
        have = sum(len(plt_lengths(one.plt)) for one in found if one.plt)
    else:
        have = _count(data, known, tile, found, count)
    if have < count:
        raise MalformedError(
            f"{have} of {count} packets of resolution level {level} in these tile-parts of tile {tile}", field="SOT"
        )


def _count(data: bytes | memoryview, known: Coding, tile: int, parts: Sequence[TilePart], most: int) -> int:
    """Return the number of packets up to `most`, by going through their headers."""
    box = known.tile_box(tile)
    columns = packet_order(known, box)
    states: dict[tuple[int, int, int], list[Band]] = {}
    queue, bits, stop = iter(parts), None, 0
    rows = zip(*(column[:most].tolist() for column in columns), strict=True)
    for done, (component, number, precinct, layer) in enumerate(rows):
        while bits is None or bits.position >= stop:
            part = next(queue, None)
            if part is None:
                return done
            bits, stop = Bits(lambda start, end: bytes(data[start:end]), part.start, part.stop), part.stop
        state = states.get((component, number, precinct))
        if state is None:
            place = resolution(known, box, component, number)
            state = [Band(*size) for size in blocks_of(known, place, number, precinct)]
            states[component, number, precinct] = state
        if packet(state, layer, known.style, bits) > stop:
            return done
    return most
