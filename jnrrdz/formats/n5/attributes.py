"""N5's own structures: the attributes.json of a dataset, and the header of a block.

Attributes tell shape, blocks, type and compression, in versions 0 (`compressionType`) to 4.  A block's header is
big-endian: its mode and number of dimensions in 16 bits, then each dimension in 32.  Axes are x first, as N5 has
them.  Follows https://github.com/saalfeldlab/n5#file-system-specification.
"""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError

_START = struct.Struct(">HH")
_NUMBER = struct.Struct(">I")
MOST_AXES = 32
"""numpy's and Zarr's readers take no more; N5 in practice has five."""

LARGEST_SIZE = (1 << 32) - 1


class Mode(IntEnum):
    """What a block holds."""

    DEFAULT = 0
    VARLENGTH = 1
    OBJECT = 2


@dataclass(frozen=True)
class BlockHeader:
    """What stands before the compressed elements of a block."""

    mode: Mode
    dimensions: tuple[int, ...]
    """Size along each axis, x first."""

    nbytes: int
    """Length of the header itself."""

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.dimensions)


def header_length(axes: int, mode: Mode = Mode.DEFAULT) -> int:
    """Return the number of bytes of a header."""
    return _START.size + _NUMBER.size * (axes + (mode == Mode.VARLENGTH))


def default_header(dimensions: Sequence[int]) -> bytes:
    """Return the header of a block in default mode."""
    if not 0 < len(dimensions) <= MOST_AXES or not all(0 <= size <= LARGEST_SIZE for size in dimensions):
        raise MalformedError(f"a block of {tuple(dimensions)}; sizes are of 32 bits", field="dimensions")
    return struct.pack(f">HH{len(dimensions)}I", Mode.DEFAULT, len(dimensions), *dimensions)


def block_header(data: bytes | memoryview, axes: int) -> BlockHeader:
    """Return the header that a block of a dataset with so many axes begins with."""
    if len(data) < _START.size:
        raise MalformedError(f"a block of {len(data)} bytes has no header", offset=0, field="block")
    mode, dimensions = _START.unpack_from(data)
    if mode == Mode.OBJECT:
        raise UnsupportedError("a block of serialised objects (mode 2); numbers are read", offset=0, field="mode")
    if mode > Mode.VARLENGTH:
        raise MalformedError(f"block mode {mode}; 0 and 1 are read", offset=0, field="mode")
    if dimensions != axes:
        raise MalformedError(f"a block of {dimensions} dimensions in a dataset of {axes}", offset=2, field="dimensions")
    length = header_length(axes, Mode(mode))
    if len(data) < length:
        raise MalformedError(f"a block of {len(data)} bytes, where its header has {length}", offset=0, field="block")
    header = BlockHeader(Mode(mode), struct.unpack_from(f">{axes}I", data, _START.size), length)
    if mode == Mode.VARLENGTH:
        (elements,) = _NUMBER.unpack_from(data, length - _NUMBER.size)
        if elements != header.elements:  # none of the others has a place
            raise UnsupportedError(
                f"a block of {elements} elements for {header.dimensions}; as many as these have are read",
                offset=length - _NUMBER.size,
                field="numElements",
            )
    return header


DATA_TYPES = {
    name: np.dtype(name)
    for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64")
}
COMPRESSIONS = ("raw", "gzip", "bzip2", "xz", "zstd", "blosc", "lz4")
NEWEST = 4
MOST_ELEMENTS = 1 << 40
_LARGEST_BLOCK = 1 << 31
"""Elements of a block: Java's arrays hold no more."""


@dataclass(frozen=True)
class N5Dataset:
    """One dataset's structure."""

    dimensions: tuple[int, ...]
    block_size: tuple[int, ...]
    dtype: np.dtype[Any]
    compression: str
    options: Mapping[str, Any]
    """The compression's own parameters, as the file has them."""

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of blocks along each axis."""
        return tuple(-(-size // step) for size, step in zip(self.dimensions, self.block_size, strict=True))


def parse_attributes(data: bytes) -> dict[str, Any]:
    """Return the attributes in the bytes of an attributes.json."""
    try:
        # NaN and Infinity are no JSON, but Java's writers write them
        attributes = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"not JSON: {error}", field="attributes.json") from error
    if not isinstance(attributes, dict):
        raise MalformedError(f"attributes that are no object but {type(attributes).__name__}", field="attributes.json")
    return attributes


def is_dataset(attributes: Mapping[str, Any]) -> bool:
    """Whether the attributes are a dataset's, not a group's."""
    # a BDV setup has a dataType, too
    return "dimensions" in attributes and "dataType" in attributes


def check_version(attributes: Mapping[str, Any]) -> None:
    """Refuse a container of a version that is not known yet."""
    text = attributes.get("n5")
    if text is None:
        return
    major = str(text).partition(".")[0]
    if not major.isdecimal() or int(major) > NEWEST:
        raise UnsupportedError(f"N5 version {text!r}; versions up to {NEWEST} are read", field="n5")


def parse_dataset(attributes: Mapping[str, Any]) -> N5Dataset:
    """Return the structure that a dataset's attributes tell."""
    if attributes.get("isLabelMultiset"):
        raise UnsupportedError("a label multiset, whose elements are lists; numbers are read", field="isLabelMultiset")
    dimensions = _sizes(attributes, "dimensions", least=0)
    block = _sizes(attributes, "blockSize", least=1)
    if len(block) != len(dimensions):
        raise MalformedError(f"{len(block)} sizes for {len(dimensions)} dimensions", field="blockSize")
    if math.prod(block) >= _LARGEST_BLOCK:
        raise UnsupportedError(f"blocks of {block}, which have 2^31 elements or more", field="blockSize")
    # version 0 has a name only, in `compressionType`
    compression = attributes.get("compression", attributes.get("compressionType"))
    options = compression if isinstance(compression, Mapping) else {"type": compression}
    name = options.get("type", options.get("id"))
    if name not in COMPRESSIONS:
        raise UnsupportedError(f"{name!r}; {', '.join(COMPRESSIONS)} are read", field="compression")
    data_type = attributes["dataType"]
    dtype = DATA_TYPES.get(data_type) if isinstance(data_type, str) else None
    if dtype is None:
        raise UnsupportedError(f"elements of type {data_type!r}; {', '.join(DATA_TYPES)} are read", field="dataType")
    parameters = {key: value for key, value in options.items() if key != "type"}
    return N5Dataset(dimensions, block, dtype, str(name), parameters)


def _sizes(attributes: Mapping[str, Any], name: str, *, least: int) -> tuple[int, ...]:
    sizes = attributes.get(name)
    if not isinstance(sizes, list) or not 0 < len(sizes) <= MOST_AXES:
        raise MalformedError(f"{sizes!r} is no list of 1 to {MOST_AXES} sizes", field=name)
    if not all(type(size) in {int, float} and least <= size < MOST_ELEMENTS and size == int(size) for size in sizes):
        raise MalformedError(f"{sizes!r}; sizes are whole numbers from {least}", field=name)
    return tuple(map(int, sizes))  # Java reads 64.0 as a whole number, too
