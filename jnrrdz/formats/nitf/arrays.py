"""Image segments to virtual arrays: type, codec and references, by the way a segment is compressed.

Large images are cut into several segments, as SICD and SIDD do, and are one array: the segments hold
groups of whole rows, one below the other.  Chunks are groups of rows too: of a height that divides the
segments' where there is such a one of a fit size, so that each is one range; else some chunks take the end
of one segment and the beginning of the next.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1, IC), NGA.STND.0024-2 (SICD, file format),
NGA.STND.0025-2 (SIDD, file format)
"""

import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.slabs import NEAR, step_along
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.colours import CHANNELS
from jnrrdz.formats.nitf.blocks import (
    DOWNSAMPLED,
    PIECE_BYTES,
    block_count,
    check_data,
    jpeg_chunks,
    uncompressed_chunks,
    vq_chunks,
    whole_block_chunks,
    with_frame_size,
)
from jnrrdz.formats.nitf.codecs import JbpBlockConfig, JbpJpegConfig, NitfVqConfig
from jnrrdz.formats.nitf.header import BYTE, pair_dtype
from jnrrdz.formats.nitf.image import (
    Mask,
    NitfImage,
    missing_index,
    pad_value,
    parse_colours,
    parse_mask,
    sample_dtype,
)
from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.sources.readahead import ReadAhead

type Config = JbpBlockConfig | JbpJpegConfig | NitfVqConfig | TiffTileConfig
type Palette = np.ndarray[Any, np.dtype[np.uint8]]

CODESTREAMS = {"C8", "M8", "CD", "MD"}
"""JPEG 2000, part 1 and part 15."""

CCITT_T4 = 3
FAX_OPTIONS = {"1D": 4, "2DS": 1, "2DH": 1}
"""COMRAT to T4Options: end-of-line codes on byte boundaries, two-dimensional coding."""


@dataclass(frozen=True)
class Presentation:
    """What an array has beside its pixels: their source, its attributes, and the colours of indices."""

    url: str
    attributes: Mapping[str, Any]
    palette: Palette | None = None
    """The colours to read in place of the indices."""


@dataclass(frozen=True, eq=False)
class Stored:
    """What a way of compression makes of a segment."""

    chunk: tuple[int, int, int]
    """Bands, rows and columns of a chunk."""

    refs: ChunkRefs
    config: Config
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)


def read_mask(read: ReadAhead, image: NitfImage) -> Mask | None:
    """Return the mask of a segment, None where it has none."""
    if not image.is_masked:
        return None
    return parse_mask(read, image.segment.data, image.segment.stop, block_count(image))


def is_complex(image: NitfImage) -> bool:
    """Whether the bands are real and imaginary parts in turn, as SICD has them."""
    names = [band.fields.get("ISUBCAT") for band in image.bands]
    pairs = len(names) // 2
    return pairs > 0 and names == ["I", "Q"] * pairs and image.mode in {"P", "R"} and image.text("PVTYPE") != "C"


def segment_array(read: ReadAhead, image: NitfImage, presentation: Presentation) -> VirtualArray:
    """Return the array of a segment that is no codestream."""
    reader = READERS.get(image.compression)
    if reader is None:
        known = ", ".join([*READERS, *sorted(CODESTREAMS)])
        raise UnsupportedError(
            f"{image.compression!r}; {known} are read", offset=image.segment.start, field=f"{image.what} IC"
        )
    mask = read_mask(read, image)
    stored = reader(read, image, mask, presentation.url)
    refs, dtype = stored.refs, stored.dtype
    end = int((refs.offset + refs.length).max(initial=0))
    if end > image.segment.stop:
        raise MalformedError(
            f"a block would end at {end}, the data end at {image.segment.stop}",
            offset=image.segment.data,
            field=f"{image.what} blocks",
        )
    pad = pad_value(mask, image, dtype)
    index = missing_index(image, parse_colours(image))
    if pad is None and index is not None and (refs.counts == 0).any():
        pad = dtype.type(index)
    return _array(image, stored, presentation, pad)


def _array(image: NitfImage, stored: Stored, presentation: Presentation, pad: Any = None) -> VirtualArray:
    """Return the array of an image; its pad pixels are what is missing."""
    dtype, palette = stored.dtype, presentation.palette
    bands = len(image.bands) // (2 if dtype.kind == "c" and is_complex(image) else 1)
    attributes = {**presentation.attributes, **stored.attributes}
    if pad is not None:
        attributes["_FillValue"] = pad
    many = bands > 1
    array = VirtualArray(
        shape=(*((bands,) if many else ()), image.rows, image.columns),
        dtype=dtype,
        chunks=(*((stored.chunk[0] * bands // len(image.bands) or 1,) if many else ()), *stored.chunk[1:]),
        codecs=(stored.config,),
        refs=stored.refs,
        dimension_names=("band", "y", "x") if many else ("y", "x"),
        fill_value=dtype.type(0) if pad is None else pad,
        attributes=attributes,
    )
    if palette is None:
        return array
    return expand_palette(array, replace(stored.config, palette=palette.tobytes()), palette)


def expand_palette(array: VirtualArray, codec: Config, palette: Palette) -> VirtualArray:
    """Return an array of indices as one of colours: bands red, green and blue; the codec has the palette."""
    attributes = {name: value for name, value in array.attributes.items() if name != "_FillValue"}
    if "_FillValue" in array.attributes:
        attributes["nodata"] = str(int(array.fill_value))
    fill = np.uint8(0)
    if (array.refs.columns().counts == 0).any():
        red, green, blue = palette[int(array.fill_value)].tolist() if int(array.fill_value) < len(palette) else [0] * 3
        if not red == green == blue:
            raise UnsupportedError(
                f"missing blocks of colour {(red, green, blue)}: Zarr's fill value is one number for all bands; "
                "read the indices instead",
                field="LUTD",
            )
        fill = np.uint8(red)
    return replace(
        array,
        shape=(CHANNELS, *array.shape),
        dtype=np.dtype("u1"),
        chunks=(CHANNELS, *array.chunks),
        codecs=(codec,),
        dimension_names=("band", *array.dimension_names),
        fill_value=fill,
        attributes=attributes,
    )


def _uncompressed(_read: ReadAhead, image: NitfImage, mask: Mask | None, url: str) -> Stored:
    config, dtype = _block_codec(image)
    chunks = uncompressed_chunks(image, mask)
    return Stored(chunks.shape, chunks.refs(url), replace(config, image_rows=chunks.image_rows), dtype)


def _block_codec(image: NitfImage) -> tuple[JbpBlockConfig, np.dtype[Any]]:
    """Return the codec of uncompressed blocks, and the type that they are read as."""
    dtype, paired = sample_dtype(image), is_complex(image)
    config = JbpBlockConfig(image.text("PVTYPE"), image.bits, image.mode, complex_pairs=paired)
    return config, pair_dtype(dtype) if paired else dtype


def _jpeg(read: ReadAhead, image: NitfImage, mask: Mask | None, url: str) -> Stored:
    rate = image.text("COMRAT").rpartition(".")[2]
    quality = int(rate) if rate in set("12345") else 0
    # IREP YCbCr601 alone says that a stream holds luma and chroma (MIL-STD-2500C, table A-3)
    has_rgb = len(image.bands) == CHANNELS and image.mode == "P" and image.text("IREP").upper() != "YCBCR601"
    config = JbpJpegConfig(quality, stored_as_rgb=has_rgb)
    chunks = jpeg_chunks(read, image, mask)
    attributes = {}
    if block_count(image) == (len(image.bands) if image.mode == "S" else 1) and not (chunks.offset < 0).any():
        chunks, size = with_frame_size(read, image, chunks)
        if image.compression == DOWNSAMPLED:
            # what makes them larger again is a filter of the reader's
            attributes["stored_shape"] = list(size)
    return Stored(chunks.shape, chunks.refs(url), config, sample_dtype(image), attributes)


def _vq(read: ReadAhead, image: NitfImage, mask: Mask | None, url: str) -> Stored:
    chunks, books = vq_chunks(read, image, mask)
    return Stored(chunks.shape, chunks.refs(url), NitfVqConfig(zlib.compress(books, 9)), np.dtype("u1"))


def _bilevel(_read: ReadAhead, image: NitfImage, mask: Mask | None, url: str) -> Stored:
    rate = image.text("COMRAT")
    if rate not in FAX_OPTIONS or image.bits != 1:
        raise UnsupportedError(
            f"{rate!r} of {image.bits} bits; {', '.join(FAX_OPTIONS)} of 1 are read",
            offset=image.segment.start,
            field=f"{image.what} COMRAT",
        )
    rows, columns = image.block
    config = TiffTileConfig(
        tile_width=columns,
        tile_height=rows,
        image_width=columns,
        image_height=rows,
        byte_order="big",
        compression=CCITT_T4,
        photometric=0,
        t4_options=FAX_OPTIONS[rate],
    )
    chunks = whole_block_chunks(image, mask)
    return Stored(chunks.shape, chunks.refs(url), config, np.dtype("u1"))


READERS = {
    "NC": _uncompressed,
    "NM": _uncompressed,
    "C1": _bilevel,
    "M1": _bilevel,
    "C3": _jpeg,
    "M3": _jpeg,
    "C5": _jpeg,
    "M5": _jpeg,
    "I1": _jpeg,
    "C4": _vq,
    "M4": _vq,
}
"""By IC."""

PART_DIGITS = 3
CORNERS, HALF = 60, 30
"""Characters of IGEOLO, and of the two upper ones in it."""

_PART = re.compile(r"(SICD|SIDD[0-9]{3})([0-9]{3})")


def join_images(images: Sequence[NitfImage]) -> Iterator[tuple[int, list[NitfImage]]]:
    """Yield each image's number, and the segments that are parts of it, in order."""
    groups: dict[tuple[object, ...], list[NitfImage]] = {}
    for image in images:
        part = _PART.fullmatch(image.text("IID1"))
        key: tuple[object, ...] = ("", image.segment.number)
        in_rows = image.compression == "NC" and (len(image.bands) == 1 or image.mode == "P")
        bytewise = image.grid == (1, 1) and image.block[1] == image.columns and _row_bits(image) % BYTE == 0
        if part and in_rows and bytewise:
            # a legend has the number of the image that it belongs to, but not all of this in common
            kind = image.text("ICAT"), image.columns, len(image.bands), image.text("PVTYPE"), image.bits, image.mode
            key = (part[1], *kind)
        groups.setdefault(key, []).append(image)
    whole: list[list[NitfImage]] = []
    for group in groups.values():
        parts = {int(image.text("IID1")[-PART_DIGITS:]): image for image in group} if len(group) > 1 else {}
        if sorted(parts) == list(range(1, len(group) + 1)):
            whole.append([parts[number] for number in sorted(parts)])
        else:
            whole.extend([image] for image in group)
    whole.sort(key=lambda members: members[0].segment.number)
    for number, members in enumerate(whole):
        yield number if len(whole) < len(images) else members[0].segment.number, members


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


def _row_bits(image: NitfImage) -> int:
    return image.columns * len(image.bands) * image.bits


def joined_array(members: Sequence[NitfImage], presentation: Presentation) -> VirtualArray:
    """Return the array of an image of several segments."""
    image, row = whole_image(members), _row_bits(members[0]) // BYTE
    for member in members:
        check_data(member, member.rows * row)
    most = max(PIECE_BYTES // row, 1)
    common = math.gcd(*(member.rows for member in members[:-1]))
    step = step_along(common, most)
    if common % step or step * NEAR < most:  # some chunks are of two segments
        step = min(most, sum(member.rows for member in members))
    refs = _refs(members, row, step, presentation.url)
    config, dtype = _block_codec(image)
    chunk = (len(image.bands), step, image.columns)
    return _array(image, Stored(chunk, refs, replace(config, image_rows=image.rows), dtype), presentation)


def _refs(members: Sequence[NitfImage], row: int, step: int, url: str) -> ChunkRefs:
    """Return the references of groups of `step` rows: a range for each segment that they touch."""
    tops = np.cumsum([0, *(member.rows for member in members)])
    # a range begins where a chunk does, and where a segment does
    begins = np.union1d(np.arange(0, tops[-1], step), tops[:-1])
    ends = np.append(begins[1:], tops[-1])
    segment = np.searchsorted(tops, begins, side="right") - 1
    data = np.array([member.segment.data for member in members])
    offset = data[segment] + (begins - tops[segment]) * row
    return ChunkRefs.grouped((url,), -(-int(tops[-1]) // step), begins // step, offset, (ends - begins) * row)
