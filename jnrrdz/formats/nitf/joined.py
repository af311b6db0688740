"""Images that are cut into several segments, as SICD and SIDD do with large ones, as one array.

May touch numpy, the NITF layout and the model.  The segments hold groups of whole rows, one below
the other.  Chunks are groups of rows too: of a height that divides the segments' where there is such
a one of a fit size, so that each is one range; else some chunks take the end of one segment and the
beginning of the next.
Spec: NGA.STND.0024-2 (SICD, file format), NGA.STND.0025-2 (SIDD, file format)
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from jnrrdz.core.array import VirtualArray
from jnrrdz.core.codec_nitf import JbpBlockConfig
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.formats.nitf.arrays import Wanted, expanded, is_complex
from jnrrdz.formats.nitf.blocks import BYTE, PIECE_BYTES, check_data
from jnrrdz.formats.nitf.nitf_image import NitfImage
from jnrrdz.formats.nitf.samples import pair_dtype, sample_dtype

LEAST_BYTES = PIECE_BYTES // 8
"""A chunk's least size, before it is rather put together from two ranges."""

PART_DIGITS = 3
CORNERS, HALF = 60, 30
"""Characters of IGEOLO, and of the two upper ones in it."""

_PART = re.compile(r"(SICD|SIDD[0-9]{3})([0-9]{3})")


def joined_images(images: Sequence[NitfImage]) -> Iterator[tuple[int, list[NitfImage]]]:
    """Yield each image's number, and the segments that are parts of it, in order."""
    groups: dict[tuple[str, object], list[NitfImage]] = {}
    for image in images:
        part = _PART.fullmatch(image.text("IID1"))
        key = (part[1], _kind(image)) if part and _is_plain(image) else ("", image.segment.number)
        groups.setdefault(key, []).append(image)
    found = [members for group in groups.values() for members in _whole(group)]
    found.sort(key=lambda members: members[0].segment.number)
    for number, members in enumerate(found):
        yield number if len(found) < len(images) else members[0].segment.number, members


def _whole(members: list[NitfImage]) -> list[list[NitfImage]]:
    """Return the parts of an image in their order; where one is not there, each as an image of its own."""
    if len(members) == 1:
        return [members]
    parts = {int(image.text("IID1")[-PART_DIGITS:]): image for image in members}
    if sorted(parts) != list(range(1, len(members) + 1)):
        return [[image] for image in members]
    return [[parts[number] for number in sorted(parts)]]


def whole_image(members: Sequence[NitfImage]) -> NitfImage:
    """Return the image that the parts are: with all rows, and the corners of the first and the last."""
    first, last = members[0], members[-1]
    if len(members) == 1:
        return first
    corners = {}
    if first.text("ICORDS") == last.text("ICORDS") and first.text("IGEOLO"):
        corners["IGEOLO"] = first.text("IGEOLO").ljust(CORNERS)[:HALF] + last.text("IGEOLO").ljust(CORNERS)[HALF:]
    rows = sum(image.rows for image in members)
    return replace(first, fields={**first.fields, "NROWS": rows, **corners})


def _kind(image: NitfImage) -> tuple[object, ...]:
    """Return what parts of one image have in common."""
    # a legend has the number of the image that it belongs to
    return (image.text("ICAT"), image.columns, len(image.bands), image.text("PVTYPE"), image.bits, image.mode)


def _is_plain(image: NitfImage) -> bool:
    """Whether the rows stand one after the other, in whole bytes."""
    together = len(image.bands) == 1 or image.mode == "P"
    whole = image.grid == (1, 1) and image.block[1] == image.columns and _row_bits(image) % BYTE == 0
    return image.compression == "NC" and together and whole


def _row_bits(image: NitfImage) -> int:
    return image.columns * len(image.bands) * image.bits


def joined_array(members: Sequence[NitfImage], wanted: Wanted) -> VirtualArray:
    """Return the array of an image of several segments."""
    image, row = members[0], _row_bits(members[0]) // BYTE
    for member in members:
        check_data(member, member.rows * row)
    rows = sum(member.rows for member in members)
    step = chunk_rows([member.rows for member in members], row)
    paired = is_complex(image)
    bands = len(image.bands) // (2 if paired else 1)
    lead = (bands,) if bands > 1 else ()
    dtype = pair_dtype(sample_dtype(image)) if paired else sample_dtype(image)
    config = JbpBlockConfig(image.text("PVTYPE"), image.bits, image.mode, image_rows=rows, complex_pairs=paired)
    array = VirtualArray(
        shape=(*lead, rows, image.columns),
        dtype=dtype,
        chunks=(*lead, step, image.columns),
        codecs=(config.to_spec(),),
        refs=_refs(members, row, step, wanted.url),
        dimension_names=("band", "y", "x") if lead else ("y", "x"),
        fill_value=dtype.type(0),
        attributes=wanted.attributes,
    )
    if wanted.palette is None:
        return array
    return expanded(array, replace(config, palette=wanted.palette.tobytes()).to_spec(), wanted.palette)


def chunk_rows(heights: Sequence[int], row: int) -> int:
    """Return the rows of a chunk for segments of these heights, of so many bytes a row."""
    most = max(PIECE_BYTES // row, 1)
    common = math.gcd(*heights[:-1])
    step = max(size for size in _divisors(common) if size <= most)
    return step if step * row >= LEAST_BYTES or step == most else min(most, sum(heights))


def _divisors(number: int) -> Iterable[int]:
    small = [size for size in range(1, math.isqrt(number) + 1) if number % size == 0]
    return {*small, *(number // size for size in small)}


def _refs(members: Sequence[NitfImage], row: int, step: int, url: str) -> ChunkRefs:
    """Return the references of groups of `step` rows: a range for each segment that they touch."""
    tops = np.cumsum([0, *(member.rows for member in members)])
    starts = np.arange(0, tops[-1], step)
    # a range begins where a chunk does, and where a segment does
    begins = np.union1d(starts, tops[:-1])
    ends = np.append(begins[1:], tops[-1])
    owner = np.searchsorted(tops, begins, side="right") - 1
    data = np.array([member.segment.data for member in members])
    indptr = np.append(np.searchsorted(begins, starts), len(begins))
    offset = data[owner] + (begins - tops[owner]) * row
    source = np.broadcast_to(np.int32(0), len(begins))
    return ChunkRefs(
        (url,), indptr.astype(np.int64), source, offset.astype(np.int64), ((ends - begins) * row).astype(np.int64)
    )
