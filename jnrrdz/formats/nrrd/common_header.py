"""What NRRD and JNRRD headers say alike: type, sizes, encoding, where the data are, what the axes mean.

May touch numpy and errors; opens nothing.  Follows http://teem.sourceforge.net/nrrd/format.html; vectors are in
the file's order, the fastest axis first.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError

MOST_AXES = 16
MOST_FILES = 1 << 20
LARGEST_ARRAY = 1 << 62
SPACE_KINDS = {"domain", "space"}
CHANNEL_KINDS = ("color", "vector", "gradient", "normal", "list", "complex", "matrix", "scalar", "quaternion")
ENCODINGS = {
    "raw": "raw",
    "gzip": "gzip",
    "gz": "gzip",
    "bzip2": "bzip2",
    "bz2": "bzip2",
}
TEXT_ENCODINGS = {"ascii", "text", "txt", "hex"}
_SPATIAL = ("x", "y", "z")
_NAME = re.compile(r"[A-Za-z_][\w .\-]*")
_NUMBERED = re.compile(r"%0?(\d{0,2})[du]")


@dataclass(frozen=True)
class Axes:
    """What the axes mean; every member is empty, or has an entry for each axis."""

    labels: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    spacings: tuple[float, ...] = ()
    directions: tuple[tuple[float, ...] | None, ...] = ()
    """A vector in space for each axis that lies there."""

    origin: tuple[float, ...] = ()
    space_units: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse vectors of spaces that differ."""
        vectors = [vector for vector in self.directions if vector is not None]
        found = {len(one) for one in (*vectors, self.origin, self.space_units) if one}
        if len(found) > 1:
            counts = " and ".join(map(str, sorted(found)))
            raise MalformedError(f"vectors of {counts} dimensions in one space", field="space directions")


@dataclass(frozen=True)
class DataFiles:
    """The files beside the header that hold the data, in their order."""

    names: tuple[str, ...]
    subdim: int | None = None
    """How many axes each file has; one less than the array where several files do not say."""

    field: str = "data file"


@dataclass(frozen=True)
class Header:
    """A header, read."""

    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    encoding: str
    endian: str | None
    """None where elements have one byte."""

    data_start: int
    """The first byte behind the header."""

    files: DataFiles | None = None
    line_skip: int = 0
    byte_skip: int = 0
    axes: Axes = field(default_factory=Axes)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    line_field: str = "line skip"
    byte_field: str = "byte skip"

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array."""
        return math.prod(self.sizes) * self.dtype.itemsize


def checked_sizes(sizes: Sequence[Any], dimension: Any, itemsize: int) -> tuple[int, ...]:
    """Return the sizes of an array that can be."""
    if not isinstance(dimension, int) or isinstance(dimension, bool) or not 1 <= dimension <= MOST_AXES:
        raise MalformedError(f"{dimension!r}; 1 to {MOST_AXES} axes are read", field="dimension")
    if len(sizes) != dimension:
        raise MalformedError(f"{len(sizes)} sizes of {dimension} dimensions", field="sizes")
    for size in sizes:
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise MalformedError(f"{size!r} is no size; whole numbers from 1 are", field="sizes")
    if math.prod(sizes) * itemsize > LARGEST_ARRAY:
        raise MalformedError(f"{'x'.join(map(str, sizes))} elements, more than any file holds", field="sizes")
    return tuple(sizes)


def checked_endian(endian: Any, itemsize: int) -> str | None:
    """Return the byte order, which elements of several bytes need."""
    if itemsize == 1:
        return None
    if endian is None:
        raise MalformedError(f"missing, for elements of {itemsize} bytes; little or big", field="endian")
    if not isinstance(endian, str) or endian.lower() not in {"little", "big"}:
        raise MalformedError(f"{endian!r}; little or big", field="endian")
    return endian.lower()


def checked_encoding(encoding: Any) -> str:
    """Return raw, gzip or bzip2; text is refused."""
    name = encoding.lower() if isinstance(encoding, str) else ""
    if name in ENCODINGS:
        return ENCODINGS[name]
    if name in TEXT_ENCODINGS:
        raise UnsupportedError(
            f"{encoding}: numbers as text have no places of their own; raw, gzip and bzip2 are read", field="encoding"
        )
    raise UnsupportedError(f"{encoding!r}; raw, gzip and bzip2 are read", field="encoding")


def checked_skip(value: Any, name: str, least: int) -> int:
    """Return the number of lines or bytes to skip."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise MalformedError(f"{value!r}; a whole number from {least} on", field=name)
    return value


def numbered_names(pattern: str, first: int, last: int, step: int, name: str) -> tuple[str, ...]:
    """Return the names that a printf pattern gives from the first to the last number, both included."""
    if len(_NUMBERED.findall(pattern)) != 1 or pattern.count("%") != 1:
        raise MalformedError(f"{pattern!r:.200}; one number such as %03d is needed", field=name)
    if step == 0 or (last - first) * step < 0:
        raise MalformedError(f"from {first} to {last} by {step}", field=name)
    count = (last - first) // step + 1
    if count > MOST_FILES:
        raise MalformedError(f"{count} files; {MOST_FILES} are the most", field=name)
    return tuple(pattern % number for number in range(first, first + count * step, step))


def axis_names(axes: Axes, count: int) -> tuple[str, ...]:
    """Return a name for each axis: its label, else x, y, z for those in space, else `d` and its number."""
    labels = tuple(label.strip() for label in axes.labels)
    if labels and all(map(_NAME.fullmatch, labels)) and len(set(labels)) == count:
        return labels
    found = _names_by_meaning(axes, count)
    return found if len(set(found)) == count else tuple(f"d{number}" for number in range(count))


def _names_by_meaning(axes: Axes, count: int) -> tuple[str, ...]:
    spatial = iter(_SPATIAL)
    found = []
    for number in range(count):
        kind = axes.kinds[number].lower() if axes.kinds else ""
        outside = bool(axes.directions) and axes.directions[number] is None
        if kind == "time":
            found.append("t")
        elif any(word in kind for word in CHANNEL_KINDS) or (outside and kind not in SPACE_KINDS):
            found.append("c" if "c" not in found else f"d{number}")
        else:
            found.append(next(spatial, f"d{number}"))
    return tuple(found)


@dataclass(frozen=True)
class Steps:
    """Where elements lie along each axis."""

    step: tuple[float, ...]
    start: tuple[float, ...]
    units: tuple[str | None, ...]


def steps_of(axes: Axes, count: int) -> Steps | None:
    """Return steps and first positions; None where the header says no step, or where axes lie askew in space."""
    units: list[str | None] = [unit or None for unit in axes.units] or [None] * count
    step, start = [1.0] * count, [0.0] * count
    known = False
    for number in range(count):
        if axes.spacings and _is_step(axes.spacings[number]):
            step[number], known = axes.spacings[number], True
        vector = axes.directions[number] if axes.directions else None
        if vector is None:
            continue
        along = [place for place, part in enumerate(vector) if part]
        if len(along) != 1 or not _is_step(vector[along[0]]):
            return None
        (place,) = along
        step[number], known = vector[place], True
        start[number] = axes.origin[place] if axes.origin and math.isfinite(axes.origin[place]) else 0.0
        if units[number] is None and axes.space_units:
            units[number] = axes.space_units[place] or None
    return Steps(tuple(step), tuple(start), tuple(units)) if known else None


def _is_step(value: float) -> bool:
    return math.isfinite(value) and value != 0
