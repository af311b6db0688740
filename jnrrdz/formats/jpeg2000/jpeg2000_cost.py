"""What a decoder keeps beside the samples of a tile: something for every code-block and for every precinct.

May touch errors, the markers and the SIZ segment; pure.  OpenJPEG makes room for all of them before it decodes,
at reduced resolutions too.  Blocks of 4 x 4 samples, which a header of a hundred bytes can ask for, cost
25 bytes a sample: more than the samples.
Spec: ITU-T T.800, A.6.1 (COD), A.6.2 (COC), B.6 and B.7 (precincts, code-blocks)
"""

from collections.abc import Iterator
from functools import lru_cache

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.jpeg2000_markers import MAX_LEVELS, SHORT_INDEX, Marker, coc_levels, parse_cod, segments
from jnrrdz.formats.jpeg2000.jpeg2000_siz import Axis, Siz

MAX_PIECES = 1 << 23
"""Of a tile: some 400 bytes each in OpenJPEG, 3.4 GB, where the samples may take 4."""

WHOLE = 15
"""Exponent of a precinct's sides where no sizes are given."""

COD_STYLE = 9
"""Where SPcod stands in COD, counted from its marker."""

FIXED = 5
"""Bytes of SPcod and SPcoc before the precincts."""


def check_pieces(siz: Siz, header: bytes | memoryview, start: int = 2) -> None:
    """Refuse tiles of more code-blocks and precincts than a decoder has room for, by the COD and COC of a header."""
    sides = [_longest(siz.x), _longest(siz.y)]
    count = len(siz.components)
    styles = list(_styles(header, start, count))
    own = {component for component, _ in styles if component is not None}
    pieces = 0
    for named, style in styles:
        for number in range(count) if named is None else (named,):
            if number < count and (named is not None or number not in own):
                one = siz.components[number]
                pieces += _pieces(style, -(-sides[0] // one.dx), -(-sides[1] // one.dy))
    if pieces > MAX_PIECES:
        raise UnsupportedError(
            f"tiles of {sides[1]} x {sides[0]} in {pieces} code-blocks and precincts: "
            f"no more than {MAX_PIECES} are decoded at once",
            field="COD",
        )


def _longest(axis: Axis) -> int:
    return min(axis.tile, axis.stop - axis.start)


def _styles(header: bytes | memoryview, start: int, count: int) -> Iterator[tuple[int | None, bytes]]:
    """Yield component (None for all others) and SPcod or SPcoc of each style in a header."""
    width = 1 if count < SHORT_INDEX else 2
    for one in segments(header, start):
        body = bytes(header[one.start : one.stop])
        if one.marker == Marker.COD:
            parse_cod(body)
            yield None, body[COD_STYLE:] if body[4] & 1 else body[COD_STYLE : COD_STYLE + FIXED]
        elif one.marker == Marker.COC:
            number, _ = coc_levels(body, count)
            at = 5 + width
            yield number, body[at:] if body[at - 1] & 1 else body[at : at + FIXED]


@lru_cache(maxsize=64)
def _pieces(style: bytes, wide: int, high: int) -> int:
    """Return the code-blocks and precincts of one component of a tile."""
    if len(style) < FIXED:
        raise MalformedError(f"{len(style)} bytes of a coding style, of which {FIXED} are needed", field="COC")
    levels = min(style[0], MAX_LEVELS)
    block = (style[1] & 15) + 2, (style[2] & 15) + 2
    total = 0
    for number in range(levels + 1):
        size = style[FIXED + number] if len(style) > FIXED + number else WHOLE << 4 | WHOLE
        precinct = size & 15, size >> 4
        scale, less = levels - number, min(number, 1)
        across, down = -(-wide >> scale), -(-high >> scale)
        blocks, precincts = (3 if number else 1), 1
        for side, most, exponent in zip((across, down), precinct, block, strict=True):
            length = min(exponent, max(most - less, 0))
            band = -(-side >> less)
            blocks *= -(-band >> length)
            precincts *= -(-side >> most)
        total += blocks + precincts
    return total
