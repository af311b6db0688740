"""The picture of a file whose components differ in size: one array of all of them, on the reference grid.

May touch the layouts of JPEG 2000 and the model.  The components themselves stay in groups of their own.
Spec: docs/formats/jpeg2000.md
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jnrrdz.core.array import VirtualArray
from jnrrdz.core.codec_jpeg2000 import Jpeg2000Config
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats.jpeg2000.codestream_scanned import codestream_array, level_count, sample_dtype
from jnrrdz.formats.jpeg2000.jp2_boxes import Boxes
from jnrrdz.formats.jpeg2000.jp2_colour import Colour, parse_colour
from jnrrdz.formats.jpeg2000.jpeg2000_composite_header import check_composite, is_sycc
from jnrrdz.formats.jpeg2000.jpeg2000_header import Codestream

SYCC = 18
IN_ORDER: tuple[dict[int, tuple[int, int]], ...] = ({}, {0: (0, 1), 1: (0, 2), 2: (0, 3)})
"""What may be said of the channels of a picture whose components are Y, Cb and Cr."""

RGB = {"color_space": "sRGB", "colorinterp": ["red", "green", "blue"], "converted_from": "sYCC"}


def composite_levels(codestream: Codestream) -> int:
    """Return how many levels of all components there are on one grid, 0 where there is no such picture."""
    count = 0
    try:
        while count < 1 + codestream.levels:
            finest = check_composite(codestream.siz, count)
            if count >= level_count(codestream, (finest,)):
                break
            count += 1
    except UnsupportedError:
        pass
    return count


def is_converted(codestream: Codestream, boxes: Boxes | None) -> bool:
    """Whether the file says that its components are those of sYCC, and readers show them as RGB."""
    try:
        colour = Colour() if boxes is None else parse_colour(boxes)
    except JnrrdzError:
        return False
    return colour.space == SYCC and colour.channels in IN_ORDER and is_sycc(codestream.siz.components)


def composite_array(
    codestream: Codestream, url: str, *, level: int, is_rgb: bool, attributes: Mapping[str, Any]
) -> VirtualArray:
    """Return the array of all components at one level, the coarser ones repeated."""
    siz = codestream.siz
    finest = check_composite(siz, level)
    # chunks, and the tile-parts that they need, are those of the finest component
    array = codestream_array(codestream, url, level=level, components=(finest,))
    config = replace(
        Jpeg2000Config.from_json(array.codecs[0].configuration), components=(), upsample=True, sycc_to_rgb=is_rgb
    )
    count = len(siz.components)
    repeated = [number for number, one in enumerate(siz.components) if (one.dx, one.dy) != (1, 1)]
    dtype = sample_dtype(siz.components)
    return replace(
        array,
        shape=(count, *array.shape),
        chunks=(count, *array.chunks),
        dtype=dtype,
        fill_value=dtype.type(0),
        codecs=(config.to_spec(),),
        dimension_names=("band", *array.dimension_names),
        attributes={**attributes, "upsampled_components": repeated, **(RGB if is_rgb else {})},
    )
