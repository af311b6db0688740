"""A DICOM file as a virtual array: a plane, or a stack of frames, each a chunk or cut into slabs."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from jnrrdz.core import ome
from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codec_table import lifted
from jnrrdz.core.configuration import Codec, CodecSpec
from jnrrdz.core.pyramid import axis_attributes
from jnrrdz.core.refs import ChunkRefs, in_turn
from jnrrdz.core.slabs import cut
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.format import DecoderState
from jnrrdz.formats.jpeg2000.scan import codestream_array, read_codestream
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.nitf.codecs import JbpJpegConfig
from jnrrdz.formats.nitf.decode import decoder_of
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead
from tests.sketch_dicom.codecs import DicomRleConfig
from tests.sketch_dicom.elements import UNDEFINED, Header, Syntax, Tag, parse_header
from tests.sketch_dicom.frames import frame_refs

VARIABLE = "data"
TARGET = 1 << 18
"""Bytes of a slab of plain pixels, about."""

NAMES = ("frame", "band", "y", "x")
COLOURS = {"RGB", "YBR_FULL", "YBR_FULL_422", "YBR_RCT", "YBR_ICT"}


def scan_dicom(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:  # noqa: ARG001  the signature of every scan
    """Return the array of a file."""
    header = parse_header(read, read.size)
    check_samples(header)
    reader = {
        Syntax.RLE: run_lengths,
        Syntax.JPEG_BASELINE: jpeg_frames,
        Syntax.JPEG2000: codestreams,
        Syntax.JPEG2000_LOSSLESS: codestreams,
    }.get(header.syntax, plain_pixels)
    array = reader(read, header, url, options)
    names = array.dimension_names
    steps = steps_of(header)
    units = dict.fromkeys(steps, "mm")
    axes = [ome.Axis(name, steps.get(name), units.get(name)) for name in names]
    coordinates = axis_attributes(
        names,
        [axis.unit for axis in axes],
        [axis.step for axis in axes],
        [axis.start for axis in axes],
    )
    levels = ome.ome_attributes("", axes, [ome.Dataset(VARIABLE, array.shape)])
    array = replace(array, attributes={**array.attributes, **coordinates})
    return VirtualGroup({VARIABLE: array}, levels)


def check_samples(header: Header) -> None:
    """Refuse pixels that nothing here reads right."""
    photometric = header.text(Tag.PHOTOMETRIC)
    is_grey = photometric.startswith("MONOCHROME")
    samples = header.number(Tag.SAMPLES, 1)
    if samples != (1 if is_grey else 3) or not (is_grey or photometric in COLOURS):
        raise UnsupportedError(f"{photometric!r} of {samples} samples", field=Tag.PHOTOMETRIC.name)
    compressed = {Syntax.JPEG_BASELINE, Syntax.JPEG2000, Syntax.JPEG2000_LOSSLESS}
    if photometric.startswith("YBR") and header.syntax not in compressed:
        raise UnsupportedError(f"{photometric} in plain samples", field=Tag.PHOTOMETRIC.name)
    if header.number(Tag.BITS_ALLOCATED) not in {8, 16, 32}:
        bits = header.number(Tag.BITS_ALLOCATED)
        raise UnsupportedError(f"samples of {bits} bits", field=Tag.BITS_ALLOCATED.name)
    if min(frame_shape(header)) < 1 or header.number(Tag.FRAMES, 1) < 1:
        raise MalformedError("an image without pixels", field=Tag.ROWS.name)


def frame_shape(header: Header) -> tuple[int, ...]:
    """Return the shape of one frame: bands first, where there are several."""
    sides = header.number(Tag.ROWS), header.number(Tag.COLUMNS)
    samples = header.number(Tag.SAMPLES, 1)
    return (samples, *sides) if samples > 1 else sides


def sample_dtype(header: Header) -> np.dtype[Any]:
    """Return the type of a sample as it is stored."""
    kind = "i" if header.number(Tag.IS_SIGNED, 0) else "u"
    return np.dtype(f"{kind}{header.number(Tag.BITS_ALLOCATED) // 8}")


def array_of(
    header: Header, codecs: tuple[Codec, ...], refs: ChunkRefs, chunk: tuple[int, ...] | None = None
) -> VirtualArray:
    """Return the array of all frames; a chunk is a frame where no other is given."""
    frames, frame = header.number(Tag.FRAMES, 1), frame_shape(header)
    names = [name for name in NAMES if name != "band" or len(frame) > 2]
    shape, chunks = frame, chunk or frame
    if frames > 1:
        shape, chunks, codecs = (frames, *shape), (1, *chunks), lifted(codecs, len(frame))
    dtype = sample_dtype(header)
    return VirtualArray(
        shape, dtype, chunks, codecs, refs, tuple(names[-len(shape) :]), dtype.type(0), meaning_of(header)
    )


def meaning_of(header: Header) -> dict[str, Any]:
    """Return what the numbers mean, in the attributes of CF."""
    attributes: dict[str, Any] = {}
    if slope := header.numbers(Tag.SLOPE):
        attributes["scale_factor"] = slope[0]
    if intercept := header.numbers(Tag.INTERCEPT):
        attributes["add_offset"] = intercept[0]
    if header.text(Tag.UNIT):
        attributes["units"] = header.text(Tag.UNIT)
    return attributes


def steps_of(header: Header) -> dict[str, float]:
    """Return the distances of rows and columns in millimetres, where they are known."""
    spacing = header.numbers(Tag.SPACING)
    return dict(zip("yx", spacing, strict=True)) if len(spacing) == 2 else {}


def plain_pixels(read: ReadAhead, header: Header, url: str, _: ScanOptions) -> VirtualArray:  # noqa: ARG001
    """Return frames without compression, cut into slabs."""
    frames, (*bands, rows, columns) = header.number(Tag.FRAMES, 1), frame_shape(header)
    is_chunky = bool(bands) and header.number(Tag.PLANAR, 0) == 0
    dtype = sample_dtype(header)
    if (dtype.itemsize, header.syntax.order, header.pixels.representation) == (1, ">", "OW"):
        raise UnsupportedError("bytes in words of the other order", field=Tag.PIXELS.name)
    frame = (rows, columns, *bands) if is_chunky else (*bands, rows, columns)
    slabs = cut(frame, dtype.itemsize, TARGET)
    starts, counts = slabs.places()
    total = frames * int(counts.sum()) * dtype.itemsize
    if header.pixels.length == UNDEFINED or header.pixels.length < total:
        message = f"{header.pixels.length} bytes where {frames} frames have {total}"
        raise MalformedError(message, offset=header.pixels.start, field=Tag.PIXELS.name)
    firsts = np.arange(frames)[:, np.newaxis] * int(counts.sum()) + starts
    offsets = header.pixels.start + firsts * dtype.itemsize
    refs = ChunkRefs.single(url, offsets, np.tile(counts, frames) * dtype.itemsize)
    endian = None if dtype.itemsize == 1 else {"<": "little", ">": "big"}[header.syntax.order]
    codecs, chunk = slabs.codecs(endian), slabs.chunks
    if is_chunky:
        # rows, columns and bands as they are stored
        codecs = (CodecSpec("transpose", {"order": [1, 2, 0]}), *codecs)
        chunk = (chunk[2], *chunk[:2])
    return array_of(header, codecs, refs, chunk)


def run_lengths(read: ReadAhead, header: Header, url: str, _: ScanOptions) -> VirtualArray:
    """Return frames of run lengths."""
    return array_of(header, (DicomRleConfig(),), frame_refs(read, header, url, read.size))


def jpeg_frames(read: ReadAhead, header: Header, url: str, _: ScanOptions) -> VirtualArray:
    """Return frames of baseline JPEG."""
    config = JbpJpegConfig(stored_as_rgb=header.text(Tag.PHOTOMETRIC) == "RGB")
    return array_of(header, (config,), frame_refs(read, header, url, read.size))


def codestreams(read: ReadAhead, header: Header, url: str, options: ScanOptions) -> VirtualArray:
    """Return frames of JPEG 2000, each a codestream with the same main header."""
    frames = frame_refs(read, header, url, read.size)
    if not frames.is_single:
        raise UnsupportedError("a codestream in several fragments", field=Tag.PIXELS.name)
    arrays = []
    for start, length in zip(frames.offset.tolist(), frames.length.tolist(), strict=True):
        windows = read_codestream(read, start, start + length, url, options)
        arrays.append(codestream_array(windows))
    first = arrays[0]
    if any((array.codecs, array.shape, array.dtype) != (first.codecs, first.shape, first.dtype) for array in arrays):
        raise UnsupportedError("frames that differ in their main headers", field=Tag.PIXELS.name)
    if (first.shape, first.dtype.kind) != (frame_shape(header), sample_dtype(header).kind):
        message = (
            f"a codestream of {first.dtype} {first.shape} in an image of {sample_dtype(header)} {frame_shape(header)}"
        )
        raise MalformedError(message, field=Tag.PIXELS.name)
    refs = in_turn([array.refs.columns() for array in arrays])
    array = array_of(header, first.codecs, refs, first.chunks)
    # eight bits in words of sixteen are bytes in the codestream
    return replace(array, dtype=first.dtype, fill_value=first.fill_value)


LIBRARY = {
    Syntax.RLE: "DICOMRLE",
    Syntax.JPEG_BASELINE: "JPEG8",
    Syntax.JPEG2000: "JPEG2K",
    Syntax.JPEG2000_LOSSLESS: "JPEG2K",
}
"""Decoders of imagecodecs."""


def decoders() -> Iterator[DecoderState]:
    """Yield for every transfer syntax what decodes it in this environment."""
    for syntax in Syntax:
        by, reason = decoder_of(LIBRARY.get(syntax, ""))
        yield DecoderState(syntax.name, by, reason, meaning=syntax.value)
