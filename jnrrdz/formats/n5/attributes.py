"""N5's own structures: the attributes.json of a dataset, the header of a block, and where a dataset lies.

Attributes tell shape, blocks, type and compression, in versions 0 (`compressionType`) to 4.  A block's header is
big-endian: its mode and number of dimensions in 16 bits, then each dimension in 32.  Axes are x first, as N5 has
them.  Follows https://github.com/saalfeldlab/n5#file-system-specification.

Names of axes, steps, positions and units come from five conventions.  Vectors there are x first too, but for
COSEM's, which say their order.  What each convention writes:

- neuroglancer: `axes`, `units`, `resolution`, inherited from any folder above.
- n5-viewer: `pixelResolution` (a list, or `{unit, dimensions}`), `downsamplingFactors` of a level, or
  `downsamplingFactors`/`scales` of all levels on the folder above.
- BigDataViewer: `downsamplingFactors` on `setupN`, `resolution` on `timepointN`.
- Paintera: `resolution` and `offset` on `data`, `downsamplingFactors` on each `sN`.
- COSEM: `transform` on a dataset, or `multiscales[].datasets[].transform` above it.
"""

import math
import re
import struct
import warnings
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from jnrrdz.core.json_schema import OBJECT, parse_json, validate
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.records import record

ATTRIBUTES = "attributes.json"
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


@record
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


def check_place(dimensions: tuple[int, ...], block_size: tuple[int, ...], rest: tuple[int, ...] | None) -> None:
    """Refuse a block that contradicts its data set's `blockSize`.

    A block has that size; where the grid ends beyond the data set it may have what is left of the data set
    in its place: `rest`.  Where that is not known, a smaller block may be one of these.
    """
    sides = zip(dimensions, block_size, block_size if rest is None else rest, strict=True)
    if all(own == size or (own < size and (rest is None or own == left)) for own, size, left in sides):
        return
    inside = block_size if rest is None else tuple(map(min, block_size, rest))
    there = "" if inside == block_size else f" and {inside} of that are in the data set"
    raise MalformedError(
        f"a block of {dimensions}, where blockSize is {block_size}{there}; if the attributes are right, "
        "index with --allow-odd-blocks (allow_odd_blocks=True), which cuts it off or fills it up",
        offset=4,
        field="blockSize",
    )


DATA_TYPES = {
    name: np.dtype(name)
    for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64")
}
COMPRESSIONS = ("raw", "gzip", "bzip2", "xz", "zstd", "blosc", "lz4")
NEWEST = 4
MOST_ELEMENTS = 1 << 40
_LARGEST_BLOCK = 1 << 31
"""Elements of a block: Java's arrays hold no more."""


@record
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
    # NaN and Infinity are no JSON, but Java's writers write them
    found: dict[str, Any] = validate(parse_json(data, field=ATTRIBUTES), OBJECT, ATTRIBUTES)
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


# Where a dataset lies

type Attributes = Mapping[str, Any]
type Numbers = tuple[float, ...]

NAMES = ("x", "y", "z")
LEVEL = re.compile(r"s(\d+)")
LEVEL_LISTS = ("downsamplingFactors", "scales")
"""Attributes of a folder that list the factors of all levels."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@record
class Place:
    """What is known of a dataset's axes, x first."""

    names: tuple[str, ...]
    units: tuple[str | None, ...]
    scale: Numbers | None = None
    """Distance of two neighbours along each axis; None where the file does not say it."""

    translation: Numbers = ()
    """Position of the first element's centre."""

    factors: Numbers | None = None
    """How many elements of the full size one spans."""


def place_of(path: str, axes: int, nodes: Mapping[str, Attributes], transforms: Mapping[tuple[str, str], Any]) -> Place:
    """Return the place of a dataset.

    `nodes` are the attributes of all folders by their paths, `transforms` what `cosem_transforms` finds in them.
    """
    parts = path.split("/") if path else []
    lineage = [nodes.get("/".join(parts[:depth]), {}) for depth in range(len(parts), -1, -1)]
    parent, _, name = path.rpartition("/")
    for transform in (lineage[0].get("transform"), transforms.get((parent, name))):
        place = _cosem_place(transform, axes, path) if isinstance(transform, Mapping) else None
        if place is not None:
            return place

    def inherited[T](read: Callable[[Attributes, int], T | None], default: T) -> T:
        return next(filter(None, (read(node, axes) for node in lineage)), default)

    names = inherited(lambda node, axes: _names(node.get("axes"), axes), _default_names(axes))
    units: tuple[str | None, ...] = inherited(_units, ()) or (None,) * axes
    factors = _factors(name, axes, lineage)
    resolution: Numbers = inherited(_resolution, ())
    if not resolution:
        return Place(names, units, None, (), factors)
    offset = inherited(lambda node, axes: _numbers(node.get("offset"), axes), (0.0,) * axes)
    known = factors or (1.0,) * axes
    scale = tuple(step * factor for step, factor in zip(resolution, known, strict=True))
    centre = tuple(at + (f - 1) / 2 * step for at, f, step in zip(offset, known, resolution, strict=True))
    return Place(names, units, scale, centre, factors)


def is_overview(path: str) -> bool:
    """Whether a dataset is called like a coarser level, `s1` or further."""
    level = LEVEL.fullmatch(path.rpartition("/")[2])
    return level is not None and int(level[1]) > 0


def _default_names(axes: int) -> tuple[str, ...]:
    return (*NAMES[:axes], *(f"dim_{axis}" for axis in range(len(NAMES), axes)))


def _names(value: Any, axes: int) -> tuple[str, ...] | None:
    """Return names of axes that can be names of dimensions."""
    if not isinstance(value, list) or len(value) != axes or len({str(name).lower() for name in value}) != axes:
        return None
    names = [str(name).rstrip("'^") for name in value]
    if not all(_NAME.fullmatch(name) for name in names):
        return None
    return tuple(name.lower() if len(name) == 1 else name for name in names)


def _numbers(value: Any, axes: int) -> Numbers | None:
    """Return a vector of finite numbers, one for each axis."""
    if not isinstance(value, list) or len(value) != axes:
        return None
    if not all(isinstance(n, int | float) and not isinstance(n, bool) and abs(n) < math.inf for n in value):
        return None
    return tuple(float(number) for number in value)


def _positive(value: Any, axes: int) -> Numbers | None:
    numbers = _numbers(value, axes)
    return numbers if numbers is not None and all(number > 0 for number in numbers) else None


def _resolution(node: Attributes, axes: int) -> Numbers | None:
    """Return the step of the full size, as n5-viewer, Paintera, BigDataViewer or neuroglancer have it."""
    viewer = node.get("pixelResolution")
    dimensions = viewer.get("dimensions") if isinstance(viewer, Mapping) else viewer
    return _positive(dimensions, axes) or _positive(node.get("resolution"), axes)


def _units(node: Attributes, axes: int) -> tuple[str | None, ...] | None:
    viewer = node.get("pixelResolution")
    unit = viewer.get("unit") if isinstance(viewer, Mapping) else None
    if isinstance(unit, str):
        return (unit,) * axes
    units = node.get("units")
    if isinstance(units, list) and len(units) == axes and all(isinstance(unit, str) for unit in units):
        return tuple(unit or None for unit in units)
    return None


def _factors(name: str, axes: int, lineage: Sequence[Attributes]) -> Numbers | None:
    """Return a level's factors: its own, or those that a folder above lists for all levels."""
    own = _positive(lineage[0].get("downsamplingFactors"), axes)
    level = LEVEL.fullmatch(name)
    if own is not None or level is None:
        return own
    for node in lineage[1:]:
        for listed in map(node.get, LEVEL_LISTS):
            if isinstance(listed, list) and int(level[1]) < len(listed):
                factors = _positive(listed[int(level[1])], axes)
                if factors is not None:
                    return factors
    return None


def cosem_levels(node: Attributes) -> Sequence[Attributes]:
    """Return the entries of `multiscales[0].datasets`."""
    multiscales = node.get("multiscales")
    first = multiscales[0] if isinstance(multiscales, list) and multiscales else None
    datasets = first.get("datasets") if isinstance(first, Mapping) else None
    return [entry for entry in datasets if isinstance(entry, Mapping)] if isinstance(datasets, list) else []


def cosem_transforms(nodes: Mapping[str, Attributes]) -> dict[tuple[str, str], Any]:
    """Return the transforms that folders list for their levels, by the folder's path and the level's name."""
    return {
        (path, str(level.get("path"))): level.get("transform")
        for path, attributes in nodes.items()
        for level in cosem_levels(attributes)
    }


def _cosem_place(transform: Attributes, axes: int, path: str) -> Place | None:
    """Return what a transform says; without `order` it is taken for C, as COSEM's own files have it."""
    scale = _positive(transform.get("scale"), axes)
    if scale is None:
        return None
    order = transform.get("order")
    if order not in ("C", "F"):
        warnings.warn(f"{path or '/'}: a transform without order; taken for C, last axis fastest", stacklevel=2)
    turn = slice(None) if order == "F" else slice(None, None, -1)
    names = _names(transform.get("axes"), axes)
    units = _units(transform, axes) or (None,) * axes
    shift = _numbers(transform.get("translate"), axes) or (0.0,) * axes
    return Place(names[turn] if names else _default_names(axes), units[turn], scale[turn], shift[turn])
