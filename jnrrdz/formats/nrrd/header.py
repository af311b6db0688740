"""Headers of NRRD: what those of JNRRD say too, and the classic header's own text.

Type, sizes, encoding, where the data are, what the axes mean; vectors are in the file's order, the fastest axis
first.  A classic header is `field: value` and `key:=value` lines up to a blank line, or to the end of an .nhdr.
Follows http://teem.sourceforge.net/nrrd/format.html.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError

type Read = Callable[[int, int], bytes]
"""`read(start, stop)`: fewer bytes only at the end of the source."""

LARGEST = 1 << 26
"""Bytes that a header may have: names of files, offsets and sizes of a million tiles take 25 MB."""

MOST_AXES = 16
MOST_FILES = 1 << 20
LARGEST_ARRAY = 1 << 62
ENCODINGS = {
    "raw": "raw",
    "gzip": "gzip",
    "gz": "gzip",
    "bzip2": "bzip2",
    "bz2": "bzip2",
}
TEXT_ENCODINGS = {"ascii", "text", "txt", "hex"}
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
    space: str = ""
    """Name of the space as it is written, such as `left-posterior-superior`."""

    frame: tuple[tuple[float, ...] | None, ...] = ()
    """The measurement frame: a vector in space for each axis of space."""

    mins: tuple[float, ...] = ()
    maxs: tuple[float, ...] = ()
    centerings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse vectors of spaces that differ."""
        vectors = [vector for vector in self.directions if vector is not None]
        lengths = {len(vector) for vector in (*vectors, self.origin, self.space_units) if vector}
        if len(lengths) > 1:
            counts = " and ".join(map(str, sorted(lengths)))
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


def checked_encoding(encoding: Any, more: Sequence[str] = ()) -> str:
    """Return raw, gzip, bzip2 or one of `more`; text is refused."""
    name = encoding.lower() if isinstance(encoding, str) else ""
    known = {**ENCODINGS, **{name: name for name in more}}
    if name in known:
        return known[name]
    read = ", ".join(dict.fromkeys(known.values()))
    message = f"{encoding!r:.80}; {read} are read"
    if name in TEXT_ENCODINGS:
        message = (
            f"{encoding!r} stores numbers as text, in which no number has a known byte range; "
            f"write the array again with one of {read}, as pynrrd and `unu save -e raw` do"
        )
    raise UnsupportedError(message, field="encoding")


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


_QUOTED = re.compile(r'\s*"((?:[^"\\]|\\.)*)"')
_VECTOR = re.compile(r"\s*(none\b|\(([^()]*)\))", re.IGNORECASE)
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

    def take(self, line: str) -> str:
        """Take a line, and return the field that it is about, nothing for a pair."""
        name, colon, value = line.partition(":")
        if not colon:
            raise MalformedError(f"{line!r:.80} is no `field: value`", field="header")
        if value.startswith("="):
            self.pairs[_unescaped(name)] = _unescaped(value[1:])
            return ""
        name, value = name.strip().lower(), value.strip()
        name = ALIASES.get(name, name)
        if self.fields.setdefault(name, value) != value:
            raise MalformedError("is there twice, with two values", field=name)
        return name

    def required(self, name: str) -> str:
        """Return a field that has to be there."""
        if name not in self.fields:
            raise MalformedError("is missing", field=name)
        return self.fields[name]

    def integer(self, name: str) -> int:
        """Return a field that is a whole number, 0 where it is not there."""
        text = self.fields.get(name, "0")
        if not re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
            raise MalformedError(f"{text!r:.80} is no whole number", field=name)
        return int(text)

    def words(self, name: str, count: int | None) -> tuple[str, ...]:
        """Return a word for each axis, empty where it is unknown."""
        words = self.fields.get(name)
        if words is None:
            return ()
        return _counted(["" if word.lower() in {"???", "none"} else word for word in words.split()], name, count)

    def quoted(self, name: str, count: int | None) -> tuple[str, ...]:
        """Return a text for each axis; they stand in quotes, in which a backslash makes a quote one of the text."""
        text = self.fields.get(name)
        if text is None:
            return ()
        texts, at = [], 0
        while match := _QUOTED.match(text, at):
            texts.append(re.sub(r"\\(.)", r"\1", match[1]))
            at = match.end()
        if text[at:].strip():
            raise MalformedError(f"{text[at:].strip()!r:.80} does not stand in quotes", field=name)
        return _counted(texts, name, count)

    def numbers(self, name: str, count: int) -> tuple[float, ...]:
        """Return a number for each axis, NaN where there is none."""
        text = self.fields.get(name)
        return () if text is None else _counted([_number(word, name) for word in text.split()], name, count)

    def vectors(self, name: str, count: int, space: int | None) -> tuple[tuple[float, ...] | None, ...]:
        """Return a vector for each axis, None for those that do not lie in space."""
        text = self.fields.get(name)
        if text is None:
            return ()
        if space is None:
            raise MalformedError("a vector without `space` or `space dimension`", field=name)
        vectors: list[tuple[float, ...] | None] = []
        at = 0
        while match := _VECTOR.match(text, at):
            parts = None if match[2] is None else tuple(_number(part, name) for part in match[2].split(","))
            if parts is not None and len(parts) != space:
                raise MalformedError(f"{match[1]:.80} in a space of {space} dimensions", field=name)
            vectors.append(None if parts is None or all(map(math.isnan, parts)) else parts)
            at = match.end()
        if text[at:].strip():
            raise MalformedError(f"{text[at:].strip()!r:.80} is no vector", field=name)
        return _counted(vectors, name, count)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), text)


def _counted[T](values: list[T], name: str, count: int | None) -> tuple[T, ...]:
    if count is not None and len(values) != count:
        raise MalformedError(f"{len(values)} values, where {count} belong", field=name)
    return tuple(values)


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise MalformedError(f"{text.strip()!r:.80} is no number", field=name) from None


def read_header(read: Read) -> Header:
    """Return what the header at the start of a file says."""
    text, stop = _text(read)
    header = Fields()
    lines = re.split(r"\r?\n", text)[1:]
    for number, line in enumerate(lines):
        if line.startswith("#") or not line.strip():
            continue
        if header.take(line) == "data file" and header.fields["data file"].split()[:1] == ["LIST"]:
            header.files = [name for name in lines[number + 1 :] if name.strip()]
            break
    dtype = _dtype(header)
    # first the encoding: numbers as text have no byte order
    encoding = checked_encoding(header.required("encoding"))
    endian = checked_endian(header.fields.get("endian"), dtype.itemsize)
    sizes = _sizes(header, dtype.itemsize)
    files = _files(header, len(sizes))
    if files is None and stop is None:
        raise MalformedError(
            "no blank line ends the header, and no file is named that holds the data", field="data file"
        )
    attributes: dict[str, Any] = {name: value for name, value in header.fields.items() if name != "data file"}
    return Header(
        dtype,
        sizes,
        encoding,
        endian,
        stop or 0,
        files,
        checked_skip(header.integer("line skip"), "line skip", 0),
        checked_skip(header.integer("byte skip"), "byte skip", -1),
        _axes(header, len(sizes)),
        {**attributes, **({"key_values": header.pairs} if header.pairs else {})},
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


def _dtype(header: Fields) -> np.dtype[Any]:
    name = " ".join(header.required("type").lower().split())
    if name == "block":
        raise UnsupportedError("block: elements without a type; numbers are read", field="type")
    if name not in TYPES:
        raise MalformedError(f"{name!r:.80} is no type of the format", field="type")
    return np.dtype(TYPES[name])


def _sizes(header: Fields, itemsize: int) -> tuple[int, ...]:
    header.required("dimension")
    words = header.required("sizes").split()
    if not all(re.fullmatch(r"\+?\d{1,18}", word, re.ASCII) for word in words):
        raise MalformedError(f"{' '.join(words)!r:.80}; whole numbers from 1 are sizes", field="sizes")
    return checked_sizes([int(word) for word in words], header.integer("dimension"), itemsize)


def _files(header: Fields, axes: int) -> DataFiles | None:
    value = header.fields.get("data file")
    if value is None:
        return None
    words = value.split()
    if words[:1] == ["LIST"]:
        if not header.files or len(header.files) > MOST_FILES:
            raise MalformedError(
                f"{len(header.files)} names behind LIST; 1 to {MOST_FILES} are read", field="data file"
            )
        return DataFiles(tuple(name.strip() for name in header.files), _subdim(words[1:], axes), "data file")
    match = re.fullmatch(r"(.*%\S*)\s+(-?\d+)\s+(-?\d+)\s+(-?\d+)(?:\s+(\d+))?", value, re.ASCII)
    if match is not None:
        first, last, step = (int(number) for number in match.groups()[1:4])
        names = numbered_names(match[1], first, last, step, "data file")
        return DataFiles(names, _subdim([match[5]] if match[5] else [], axes), "data file")
    if not value:
        raise MalformedError("names no file", field="data file")
    return DataFiles((value,), None, "data file")


def _subdim(words: list[str], axes: int) -> int | None:
    if not words:
        return None
    if len(words) > 1 or not re.fullmatch(r"\d{1,3}", words[0], re.ASCII) or not 1 <= int(words[0]) <= axes:
        raise MalformedError(f"{' '.join(words)!r:.80}; how many axes a file has is 1 to {axes}", field="data file")
    return int(words[0])


def _axes(header: Fields, count: int) -> Axes:
    space: int | None = None
    name = header.fields.get("space")
    if "space dimension" in header.fields:
        space = header.integer("space dimension")
        if space < 1:
            raise MalformedError(f"{space}; a space has at least one", field="space dimension")
    elif name is not None:
        space = next((number for number, names in SPACES.items() if name.lower().replace(" ", "-") in names), None)
        if space is None:
            raise MalformedError(f"{name!r:.80} is no space of the format", field="space")
    directions = header.vectors("space directions", count, space)
    frame = header.vectors("measurement frame", space or 0, space)
    (origin,) = header.vectors("space origin", 1, space) or (None,)
    return Axes(
        labels=header.quoted("labels", count),
        units=header.quoted("units", count),
        kinds=header.words("kinds", count),
        spacings=header.numbers("spacings", count),
        directions=directions,
        origin=origin or (),
        space_units=header.quoted("space units", space),
        space=name or "",
        frame=frame,
        mins=header.numbers("axis mins", count),
        maxs=header.numbers("axis maxs", count),
        centerings=header.words("centerings", count),
    )
