"""What the attributes.json of an N5 dataset says: shape, blocks, type, compression.

May touch numpy and errors only; opens nothing.  Follows
https://github.com/saalfeldlab/n5#file-system-specification, versions 0 (`compressionType`) to 4.  Axes are
x first, as N5 has them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.n5.n5_block import MOST_AXES

DATA_TYPES = {
    name: np.dtype(name)
    for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64")
}
COMPRESSIONS = ("raw", "gzip", "bzip2", "xz", "zstd", "blosc", "lz4")
NEWEST = 4
STRUCTURE = ("dimensions", "blockSize", "dataType")
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

    @property
    def aligned(self) -> bool:
        """Whether blocks fill the array, so that none needs to be short."""
        return all(size % step == 0 for size, step in zip(self.dimensions, self.block_size, strict=True))


def parse(data: bytes) -> dict[str, Any]:
    """Return the attributes in the bytes of an attributes.json."""
    try:
        # NaN and Infinity are no JSON, but Java's writers write them
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"not JSON: {error}", field="attributes.json") from error
    if not isinstance(found, dict):
        raise MalformedError(f"attributes that are no object but {type(found).__name__}", field="attributes.json")
    return found


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


def dataset(attributes: Mapping[str, Any]) -> N5Dataset:
    """Return the structure that a dataset's attributes tell."""
    if attributes.get("isLabelMultiset"):
        raise UnsupportedError("a label multiset, whose elements are lists; numbers are read", field="isLabelMultiset")
    dimensions = _sizes(attributes, "dimensions", least=0)
    block = _sizes(attributes, "blockSize", least=1)
    if len(block) != len(dimensions):
        raise MalformedError(f"{len(block)} sizes for {len(dimensions)} dimensions", field="blockSize")
    if np.prod(np.array(block, object)) >= _LARGEST_BLOCK:
        raise UnsupportedError(f"blocks of {block}, which have 2^31 elements or more", field="blockSize")
    compression, options = _compression(attributes)
    return N5Dataset(dimensions, block, _data_type(attributes["dataType"]), compression, options)


def _sizes(attributes: Mapping[str, Any], name: str, *, least: int) -> tuple[int, ...]:
    found = attributes.get(name)
    if not isinstance(found, list) or not 0 < len(found) <= MOST_AXES:
        raise MalformedError(f"{found!r} is no list of 1 to {MOST_AXES} sizes", field=name)
    if not all(type(size) in {int, float} and least <= size < MOST_ELEMENTS and size == int(size) for size in found):
        raise MalformedError(f"{found!r}; sizes are whole numbers from {least}", field=name)
    return tuple(map(int, found))  # Java reads 64.0 as a whole number, too


def _data_type(name: object) -> np.dtype[Any]:
    found = DATA_TYPES.get(name) if isinstance(name, str) else None
    if found is None:
        raise UnsupportedError(f"elements of type {name!r}; {', '.join(DATA_TYPES)} are read", field="dataType")
    return found


def _compression(attributes: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the compression's name and parameters; version 0 has a name only."""
    found = attributes.get("compression", attributes.get("compressionType"))
    options = found if isinstance(found, Mapping) else {"type": found}
    name = options.get("type", options.get("id"))
    if name not in COMPRESSIONS:
        raise UnsupportedError(f"{name!r}; {', '.join(COMPRESSIONS)} are read", field="compression")
    return str(name), {key: value for key, value in options.items() if key != "type"}
