"""What NRRD and JNRRD headers say alike: type, sizes, encoding, where the data are, what the axes mean.

May touch numpy and errors; opens nothing.  Follows http://teem.sourceforge.net/nrrd/format.html; vectors are in
the file's order, the fastest axis first.

Values of NRRD's fields for each axis: words, quoted texts, numbers, vectors.

May touch errors only.  Follows http://teem.sourceforge.net/nrrd/format.html#general.3.

Classic NRRD headers: `field: value` and `key:=value` lines up to a blank line, or to the end of an .nhdr.

May touch numpy and errors; opens nothing.  Follows http://teem.sourceforge.net/nrrd/format.html.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
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


_QUOTED = re.compile(r'\s*"((?:[^"\\]|\\.)*)"')
_VECTOR = re.compile(r"\s*(none\b|\(([^()]*)\))", re.IGNORECASE)
_UNKNOWN = {"???", "none"}


def words(text: str | None, name: str, count: int | None) -> tuple[str, ...]:
    """Return a word for each axis, empty where it is unknown."""
    if text is None:
        return ()
    found = tuple("" if word.lower() in _UNKNOWN else word for word in text.split())
    return _counted(found, name, count)


def quoted(text: str | None, name: str, count: int | None) -> tuple[str, ...]:
    """Return a text for each axis; they stand in quotes, in which a backslash makes a quote one of the text."""
    if text is None:
        return ()
    found, at = [], 0
    while match := _QUOTED.match(text, at):
        found.append(re.sub(r"\\(.)", r"\1", match[1]))
        at = match.end()
    if text[at:].strip():
        raise MalformedError(f"{text[at:].strip()!r:.80} does not stand in quotes", field=name)
    return _counted(tuple(found), name, count)


def numbers(text: str | None, name: str, count: int | None) -> tuple[float, ...]:
    """Return a number for each axis, NaN where there is none."""
    return () if text is None else _counted(tuple(_number(word, name) for word in text.split()), name, count)


def vectors(text: str | None, name: str, count: int, space: int | None) -> tuple[tuple[float, ...] | None, ...]:
    """Return a vector for each axis, None for those that do not lie in space."""
    if text is None:
        return ()
    if space is None:
        raise MalformedError("a vector without `space` or `space dimension`", field=name)
    found: list[tuple[float, ...] | None] = []
    at = 0
    while match := _VECTOR.match(text, at):
        parts = None if match[2] is None else tuple(_number(part, name) for part in match[2].split(","))
        if parts is not None and len(parts) != space:
            raise MalformedError(f"{match[1]:.80} in a space of {space} dimensions", field=name)
        found.append(None if parts is None or all(map(math.isnan, parts)) else parts)
        at = match.end()
    if text[at:].strip():
        raise MalformedError(f"{text[at:].strip()!r:.80} is no vector", field=name)
    return _counted(tuple(found), name, count)


AXIS_TEXTS: Mapping[str, Callable[[str | None, str, int | None], tuple[str, ...]]] = {
    "labels": quoted,
    "units": quoted,
    "kinds": words,
}
"""Texts for each axis, by how they are written."""


def _counted[T](found: tuple[T, ...], name: str, count: int | None) -> tuple[T, ...]:
    if count is not None and len(found) != count:
        raise MalformedError(f"{len(found)} values, where {count} belong", field=name)
    return found


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise MalformedError(f"{text.strip()!r:.80} is no number", field=name) from None


type Read = Callable[[int, int], bytes]
"""`read(start, stop)`: fewer bytes only at the end of the source."""

LARGEST = 1 << 26
"""Bytes that a header may have, the names of its files included."""

_END = re.compile(rb"\r?\n\r?\n")
_FIRST_BLOCK = 1 << 13

TYPES: Mapping[str, str] = {
    **dict.fromkeys(("signed char", "int8", "int8_t"), "i1"),
    **dict.fromkeys(("uchar", "unsigned char", "uint8", "uint8_t"), "u1"),
    **dict.fromkeys(("short", "short int", "signed short", "signed short int", "int16", "int16_t"), "i2"),
    **dict.fromkeys(("ushort", "unsigned short", "unsigned short int", "uint16", "uint16_t"), "u2"),
    **dict.fromkeys(("int", "signed int", "int32", "int32_t"), "i4"),
    **dict.fromkeys(("uint", "unsigned int", "uint32", "uint32_t"), "u4"),
    **dict.fromkeys(
        ("longlong", "long long", "long long int", "signed long long", "signed long long int", "int64", "int64_t"), "i8"
    ),
    **dict.fromkeys(("ulonglong", "unsigned long long", "unsigned long long int", "uint64", "uint64_t"), "u8"),
    "float": "f4",
    "double": "f8",
}
"""The format's names for types, each with numpy's."""

ALIASES = {
    "datafile": "data file",
    "lineskip": "line skip",
    "byteskip": "byte skip",
    "axismins": "axis mins",
    "axismaxs": "axis maxs",
    "centers": "centerings",
    "sampleunits": "sample units",
    "oldmin": "old min",
    "oldmax": "old max",
    "blocksize": "block size",
}
"""Fields that have two names."""

SPACES = {
    3: (
        "right-anterior-superior", "ras", "left-anterior-superior", "las", "left-posterior-superior", "lps",
        "scanner-xyz", "3d-right-handed", "3d-left-handed",
    ),
    4: (
        "right-anterior-superior-time", "rast", "left-anterior-superior-time", "last", "left-posterior-superior-time",
        "lpst", "scanner-xyz-time", "3d-right-handed-time", "3d-left-handed-time",
    ),
}  # fmt: skip
"""Named spaces by how many dimensions they have."""


@dataclass
class Fields:
    """What the lines of a header say."""

    fields: dict[str, str] = field(default_factory=dict)
    pairs: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    """The lines behind `data file: LIST`."""

    def required(self, name: str) -> str:
        """Return a field that has to be there."""
        if name not in self.fields:
            raise MalformedError("is missing", field=name)
        return self.fields[name]

    def whole(self, name: str, usual: int = 0) -> int:
        """Return a field that is a whole number."""
        text = self.fields.get(name)
        if text is None:
            return usual
        if not re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
            raise MalformedError(f"{text!r:.80} is no whole number", field=name)
        return int(text)


def read_header(read: Read) -> Header:
    """Return what the header at the start of a file says."""
    text, stop = _text(read)
    found = _fields(text)
    dtype = _dtype(found)
    endian = checked_endian(found.fields.get("endian"), dtype.itemsize)
    sizes = _sizes(found, dtype.itemsize)
    encoding = checked_encoding(found.required("encoding"))
    files = _files(found, len(sizes))
    if files is None and stop is None:
        raise MalformedError(
            "no blank line ends the header, and no file is named that holds the data", field="data file"
        )
    return Header(
        dtype,
        sizes,
        encoding,
        endian,
        stop or 0,
        files,
        checked_skip(found.whole("line skip"), "line skip", 0),
        checked_skip(found.whole("byte skip"), "byte skip", -1),
        _axes(found, len(sizes)),
        _attributes(found),
    )


def _text(read: Read) -> tuple[str, int | None]:
    """Return the header's text, and the first byte behind the blank line; None where the file has none."""
    data, size = b"", _FIRST_BLOCK
    while True:
        data = read(0, size)
        end = _END.search(data)
        if end is not None or len(data) < size:
            break
        if size >= LARGEST:
            raise MalformedError(f"no blank line within {LARGEST} bytes", field="header")
        size *= 8
    raw = data if end is None else data[: end.start()]
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # the format knows ASCII only, and its writers do not
    return text, None if end is None else end.end()


def _fields(text: str) -> Fields:
    found = Fields()
    lines = re.split(r"\r?\n", text)[1:]
    for number, line in enumerate(lines):
        if line.startswith("#") or not line.strip():
            continue
        if _take(found, line) == "data file" and found.fields["data file"].split()[:1] == ["LIST"]:
            found.files = [name for name in lines[number + 1 :] if name.strip()]
            break
    return found


def _take(found: Fields, line: str) -> str:
    """Take a line, and return the field that it is about."""
    name, colon, value = line.partition(":")
    if not colon:
        raise MalformedError(f"{line!r:.80} is no `field: value`", field="header")
    if value.startswith("="):
        found.pairs[_unescaped(name)] = _unescaped(value[1:])
        return ""
    field_name = name.strip().lower()
    field_name = ALIASES.get(field_name, field_name)
    if found.fields.setdefault(field_name, value.strip()) != value.strip():
        raise MalformedError("is there twice, with two values", field=field_name)
    return field_name


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), text)


def _dtype(found: Fields) -> np.dtype[Any]:
    name = " ".join(found.required("type").lower().split())
    if name == "block":
        raise UnsupportedError("block: elements without a type; numbers are read", field="type")
    if name not in TYPES:
        raise MalformedError(f"{name!r:.80} is no type of the format", field="type")
    return np.dtype(TYPES[name])


def _sizes(found: Fields, itemsize: int) -> tuple[int, ...]:
    found.required("dimension")
    words = found.required("sizes").split()
    if not all(re.fullmatch(r"\+?\d{1,18}", word, re.ASCII) for word in words):
        raise MalformedError(f"{' '.join(words)!r:.80}; whole numbers from 1 are sizes", field="sizes")
    return checked_sizes([int(word) for word in words], found.whole("dimension"), itemsize)


def _files(found: Fields, axes: int) -> DataFiles | None:
    value = found.fields.get("data file")
    if value is None:
        return None
    words = value.split()
    if words[:1] == ["LIST"]:
        return DataFiles(_listed(found), _subdim(words[1:], axes), "data file")
    match = re.fullmatch(r"(.*%\S*)\s+(-?\d+)\s+(-?\d+)\s+(-?\d+)(?:\s+(\d+))?", value, re.ASCII)
    if match is not None:
        first, last, step = (int(number) for number in match.groups()[1:4])
        names = numbered_names(match[1], first, last, step, "data file")
        return DataFiles(names, _subdim([match[5]] if match[5] else [], axes), "data file")
    if not value:
        raise MalformedError("names no file", field="data file")
    return DataFiles((value,), None, "data file")


def _listed(found: Fields) -> tuple[str, ...]:
    if not found.files or len(found.files) > MOST_FILES:
        raise MalformedError(f"{len(found.files)} names behind LIST; 1 to {MOST_FILES} are read", field="data file")
    return tuple(name.strip() for name in found.files)


def _subdim(words: list[str], axes: int) -> int | None:
    if not words:
        return None
    if len(words) > 1 or not re.fullmatch(r"\d{1,3}", words[0], re.ASCII) or not 1 <= int(words[0]) <= axes:
        raise MalformedError(f"{' '.join(words)!r:.80}; how many axes a file has is 1 to {axes}", field="data file")
    return int(words[0])


def _axes(found: Fields, count: int) -> Axes:
    space = _space_dimension(found)
    directions = vectors(found.fields.get("space directions"), "space directions", count, space)
    (origin,) = vectors(found.fields.get("space origin"), "space origin", 1, space) or (None,)
    texts = {name: read(found.fields.get(name), name, count) for name, read in AXIS_TEXTS.items()}
    units = quoted(found.fields.get("space units"), "space units", space)
    return Axes(
        labels=texts["labels"],
        units=texts["units"],
        kinds=texts["kinds"],
        spacings=numbers(found.fields.get("spacings"), "spacings", count),
        directions=directions,
        origin=origin or (),
        space_units=units,
    )


def _space_dimension(found: Fields) -> int | None:
    """Return how many dimensions the space has in which the axes lie; None where there is none."""
    if "space dimension" in found.fields:
        number = found.whole("space dimension")
        if number < 1:
            raise MalformedError(f"{number}; a space has at least one", field="space dimension")
        return number
    name = found.fields.get("space")
    if name is None:
        return None
    known = next((number for number, names in SPACES.items() if name.lower().replace(" ", "-") in names), None)
    if known is None:
        raise MalformedError(f"{name!r:.80} is no space of the format", field="space")
    return known


def _attributes(found: Fields) -> dict[str, Any]:
    """Return the fields as they are written, and the pairs of the file's own."""
    plain = {name: value for name, value in found.fields.items() if name != "data file"}
    return {**plain, **({"key_values": found.pairs} if found.pairs else {})}
