"""Classic NRRD headers: `field: value` and `key:=value` lines up to a blank line, or to the end of an .nhdr.

May touch numpy and errors; opens nothing.  Follows http://teem.sourceforge.net/nrrd/format.html.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nrrd.common_header import (
    MOST_FILES,
    Axes,
    DataFiles,
    Header,
    checked_encoding,
    checked_endian,
    checked_sizes,
    checked_skip,
    numbered_names,
)
from jnrrdz.formats.nrrd.nrrd_fields import AXIS_TEXTS, numbers, quoted, vectors

type Read = Callable[[int, int], bytes]
"""`read(start, stop)`: fewer bytes only at the end of the source."""

LARGEST = 1 << 26
"""Bytes that a header may have, the names of its files included."""

_MAGIC = re.compile(rb"NRRD000[1-9](?=\r?\n)")
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


def is_nrrd(head: bytes) -> bool:
    """Whether a file begins as NRRD does."""
    return _MAGIC.match(head) is not None


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
