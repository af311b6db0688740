"""Arrays without tiles: raw data as slabs of whole rows, compressed data as a chunk a file.

May touch numpy, errors, the layout and the model.  Axes are in C order here: the file's first one is the last.
"""

import warnings

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core import codec, codec_n5
from jnrrdz.core.array import VirtualArray
from jnrrdz.core.codec import CodecSpec
from jnrrdz.core.codec_tile import TileConfig, can_hold
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nrrd.axes import Meaning
from jnrrdz.formats.nrrd.common_header import Header
from jnrrdz.formats.nrrd.files import Beside, DataFile, data_files
from jnrrdz.formats.nrrd.slabs import Slabs, file_slabs, slabs_of

COMPRESSORS = {
    "gzip": CodecSpec(codec_n5.GZIP, {"level": 6}),
    "bzip2": CodecSpec(codec_n5.BZ2, {"level": 9}),
    "zstd": CodecSpec(codec_n5.ZSTD, {"level": 3, "checksum": False}),
}
"""Zarr's names; levels matter to writers alone."""

type Integers = NDArray[np.int64]


def plain_array(header: Header, beside: Beside, meaning: Meaning) -> VirtualArray:
    """Return the array of a header."""
    if header.encoding not in {"raw", "gzip", "bzip2"}:
        raise UnsupportedError(f"{header.encoding} without tiles; raw, gzip and bzip2 are read", field="encoding")
    per_file = _per_file(header)
    files = data_files(header, beside, per_file * header.dtype.itemsize)
    shape = header.sizes[::-1]
    if header.encoding == "raw":
        slabs = slabs_of(shape, header.dtype.itemsize, per_file)
        codecs, refs = _raw_codecs(header, slabs), _raw_refs(header, slabs, files, per_file)
    else:
        slabs = _whole_files(header, per_file)
        codecs, refs = _packed_codecs(header), _packed_refs(header, files, per_file)
    attributes = meaning.array_attributes((1.0,) * len(shape))
    return VirtualArray(shape, header.dtype, slabs.chunks, codecs, refs, meaning.names, 0, attributes)


def _per_file(header: Header) -> int:
    """Return how many elements a file has."""
    total = header.nbytes // header.dtype.itemsize
    count = 1 if header.files is None else len(header.files.names)
    if total % count:
        assert header.files is not None  # noqa: S101  one file divides everything
        raise MalformedError(f"{count} files for {total} elements", field=header.files.field)
    if count > 1 and header.files is not None:
        _check_subdim(header, total // count, header.files.subdim)
    return total // count


def _check_subdim(header: Header, per_file: int, subdim: int | None) -> None:
    """Refuse files that are not what `subdim` says: one slice each, or slabs of the slowest axis."""
    axes = len(header.sizes)
    along = axes - 1 if subdim is None else subdim
    if along > axes:
        raise MalformedError(f"files of {along} axes for an array of {axes}", field="subdim")
    inner = 1
    for size in header.sizes[: min(along, axes - 1)]:
        inner *= size
    expected = per_file % inner == 0 if along == axes else per_file == inner
    if not expected:
        raise MalformedError(
            f"files of {per_file} elements, where {inner} are in {along} axes; `subdim` says how many a file has",
            field=header.files.field if header.files else "subdim",
        )


def _whole_files(header: Header, per_file: int) -> Slabs:
    slabs = file_slabs(header.sizes[::-1], per_file)
    if slabs is None:
        raise UnsupportedError(f"files of {per_file} elements, which are no slabs of the array", field="data file")
    costs = "the whole" if per_file * header.dtype.itemsize == header.nbytes else "whole files"
    warnings.warn(f"encoding {header.encoding}: any window of it costs reading and inflating {costs}", stacklevel=2)
    return slabs


def _check_inflation(header: Header, file: DataFile, per_file: int) -> None:
    stored, size = file.stop - file.start, per_file * header.dtype.itemsize
    if not can_hold(header.encoding, stored, size):
        message = f"{size} bytes are declared, which {stored} bytes of {header.encoding} cannot become"
        raise MalformedError(message, url=file.url, offset=file.start, field="sizes")


def _raw_codecs(header: Header, slabs: Slabs) -> tuple[CodecSpec, ...]:
    if not slabs.short:
        return (codec.bytes_(header.endian),)
    axes: list[tuple[tuple[int, int], ...]] = [((size, 0),) for size in slabs.chunks]
    axes[slabs.axis] = ((slabs.step, 0), (slabs.short, 0))
    return (TileConfig(tuple(axes), header.endian).to_spec(),)


def _packed_codecs(header: Header) -> tuple[CodecSpec, ...]:
    skipped = (codec.offset(header.byte_skip),) if header.byte_skip else ()
    return (codec.bytes_(header.endian), *skipped, COMPRESSORS[header.encoding])


def _packed_refs(header: Header, files: list[DataFile], per_file: int) -> ChunkRefs:
    for file in files:
        _check_inflation(header, file, per_file)
    starts = np.array([file.start for file in files], np.int64)
    stops = np.array([file.stop for file in files], np.int64)
    return _refs(files, np.arange(len(files)), starts, stops - starts)


def _raw_refs(header: Header, slabs: Slabs, files: list[DataFile], per_file: int) -> ChunkRefs:
    starts, lengths = slabs.places()
    number = starts // per_file
    base = np.array([file.start for file in files], np.int64)
    itemsize = header.dtype.itemsize
    return _refs(files, number, base[number] + starts % per_file * itemsize, lengths * itemsize)


def _refs(files: list[DataFile], number: Integers, offset: Integers, length: Integers) -> ChunkRefs:
    """Return references of one range each; a file that is named twice is one source."""
    urls = list(dict.fromkeys(file.url for file in files))
    place = {url: index for index, url in enumerate(urls)}
    source = np.array([place[file.url] for file in files], np.int32)[number]
    indptr = np.arange(len(number) + 1, dtype=np.int64)
    return ChunkRefs(tuple(urls), indptr, source, offset, length)
