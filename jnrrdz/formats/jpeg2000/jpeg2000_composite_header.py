"""Components of several sizes on one grid: where the sample of a coarser one that belongs to a pixel is beyond doubt.

May touch errors and the SIZ segment; pure.  A component with one sample every d points of the reference
grid is repeated d times, from the point of each sample on.  That is certain only where the image and its
tiles begin at points that have a sample: else the first pixels belong to a sample that the image, or the
tile, has not.
Spec: ITU-T T.800, B.2; docs/codecs/jpeg2000/README.md
"""

from collections.abc import Sequence

from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.jpeg2000.jpeg2000_siz import Axis, Component, Siz

STEPS = {1, 2, 4}
"""The subsamplings of the standard's own profiles; what is coarser than that is no picture's colour."""

COLOURS = 3
SYCC_BITS = 16


def finest(siz: Siz) -> int:
    """Return the first component with a sample at every point of the reference grid."""
    number = next((number for number, one in enumerate(siz.components) if one.dx == one.dy == 1), None)
    if number is None:
        raise UnsupportedError("no component has a sample at every point of the reference grid", field="SIZ")
    return number


def check_composite(siz: Siz, level: int) -> int:
    """Return the finest component where all can be brought to its grid at a level; say why not elsewhere."""
    number = finest(siz)
    steps = {one.dx for one in siz.components} | {one.dy for one in siz.components}
    if not steps <= STEPS:
        raise UnsupportedError(f"a sample every {max(steps)} points: up to {max(STEPS)} are repeated", field="SIZ")
    for axis, most in ((siz.x, max(one.dx for one in siz.components)), (siz.y, max(one.dy for one in siz.components))):
        _check_axis(axis, most << level)
    return number


def _check_axis(axis: Axis, factor: int) -> None:
    starts = [axis.start]
    if axis.tiles > 1:
        starts += [axis.tile_start, axis.tile]
    if any(start % factor for start in starts):
        raise UnsupportedError(
            f"an image from {axis.start} in tiles of {axis.tile}: they do not begin at every {factor}th point",
            field="SIZ",
        )


def is_sycc(components: Sequence[Component]) -> bool:
    """Whether components are those of an sYCC picture as all readers take it: 4:2:2 or 4:2:0, without sign."""
    if len(components) != COLOURS or any(one.signed for one in components):
        return False
    luma, *chroma = components
    steps = {(one.dx, one.dy) for one in chroma}
    bits = {one.bits for one in components}
    is_alike = len(bits) == len(steps) == 1 and max(bits) <= SYCC_BITS
    return is_alike and (luma.dx, luma.dy) == (1, 1) and steps <= {(2, 1), (2, 2)}
