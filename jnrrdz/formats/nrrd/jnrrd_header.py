"""The core keys of a JNRRD header as a `Header`.

May touch numpy and errors; opens nothing.  Rules in docs/formats/jnrrd.md.
"""

import math
import re
from collections.abc import Callable, Mapping
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
from jnrrdz.formats.nrrd.jnrrd_keys import Document

TYPES: Mapping[str, np.dtype[Any]] = {
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "complex64": np.dtype("complex64"),
    "complex128": np.dtype("complex128"),
}
REQUIRED = ("type", "dimension", "sizes")
_UNREAD = {
    "bfloat16": "Zarr has no such type",
    "block": "elements of opaque bytes have no type in Zarr",
}
_PATTERN = ("format", "min", "max")
_OF_TILES = {"zstd", "lz4"}


def jnrrd_header(document: Document, data_start: int) -> Header:
    """Return the header that the core keys make."""
    core = document.core
    missing = [name for name in REQUIRED if core.get(name) is None]
    if missing:
        raise MalformedError("missing", field=", ".join(missing))
    dtype = _dtype(core["type"])
    if not isinstance(core["sizes"], list):
        raise MalformedError(f"{core['sizes']!r:.80} is no list", field="sizes")
    sizes = checked_sizes(core["sizes"], core["dimension"], dtype.itemsize)
    return Header(
        dtype,
        sizes,
        _encoding(core.get("encoding")),
        checked_endian(core.get("endian"), dtype.itemsize),
        data_start,
        _files(core),
        checked_skip(core.get("line_skip") or 0, "line_skip", 0),
        checked_skip(core.get("byte_skip") or 0, "byte_skip", -1),
        _axes(core, len(sizes)),
        {name: value for name, value in core.items() if name != "data_files"},
        "line_skip",
        "byte_skip",
    )


def _encoding(name: Any) -> str:
    """Return the encoding; those that only tiles have may stand here too, where it says what tiles are packed with."""
    if isinstance(name, str) and name.lower() in _OF_TILES:
        return name.lower()
    return checked_encoding("raw" if name is None else name)


def _dtype(name: Any) -> np.dtype[Any]:
    if isinstance(name, str) and name in TYPES:
        return TYPES[name]
    if isinstance(name, str) and name in _UNREAD:
        raise UnsupportedError(f"{name}: {_UNREAD[name]}; {', '.join(TYPES)} are read", field="type")
    raise MalformedError(f"{name!r:.80}; {', '.join(TYPES)} are read", field="type")


def _files(core: Mapping[str, Any]) -> DataFiles | None:
    given = [name for name in ("data_file", "data_files", "data_file_pattern") if core.get(name) is not None]
    if not given:
        return None
    if len(given) > 1:
        raise MalformedError("only one of them can say where the data are", field=", ".join(given))
    (name,) = given
    value, subdim = core[name], core.get("subdim")
    if subdim is not None:
        checked_skip(subdim, "subdim", 1)
    return DataFiles(_NAMES[name](value, name), subdim, name)


def _one(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, str) or not value:
        raise MalformedError(f"{value!r:.80} is no name of a file", field=name)
    return (value,)


def _several(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or len(value) > MOST_FILES:
        raise MalformedError(f"{value!r:.80} is no list of files", field=name)
    return tuple(_one(item, name)[0] for item in value)


def _numbered(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, dict) or any(part not in value for part in _PATTERN):
        raise MalformedError(f"{value!r:.80}; format, min, max and step are needed", field=name)
    first, last, step = value["min"], value["max"], value.get("step", 1)
    if not isinstance(value["format"], str) or any(type(number) is not int for number in (first, last, step)):
        raise MalformedError(f"{value!r:.80}; format is text, the others whole numbers", field=name)
    pattern = re.sub(r"\{(?:\w*:)?(0?\d{0,2})d?\}", r"%\1d", value["format"])  # `{:03d}` as Python has it
    return numbered_names(pattern, first, last, step, name)


_NAMES: Mapping[str, Callable[[Any, str], tuple[str, ...]]] = {
    "data_file": _one,
    "data_files": _several,
    "data_file_pattern": _numbered,
}


def _axes(core: Mapping[str, Any], count: int) -> Axes:
    return Axes(
        labels=_texts(core, "labels", count),
        units=_texts(core, "units", count),
        kinds=_texts(core, "kinds", count),
        spacings=tuple(_number(value, "spacings") for value in _list(core, "spacings", count)),
        directions=tuple(_vector(value) for value in _list(core, "space_directions", count)),
        origin=tuple(_number(value, "space_origin") for value in _list(core, "space_origin", None)),
        space_units=_texts(core, "space_units", None),
    )


def _list(core: Mapping[str, Any], name: str, count: int | None) -> list[Any]:
    value = core.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or (count is not None and len(value) != count):
        wanted = "a list" if count is None else f"a list of {count}"
        raise MalformedError(f"{value!r:.80}; {wanted} is needed", field=name)
    return value


def _texts(core: Mapping[str, Any], name: str, count: int | None) -> tuple[str, ...]:
    values = _list(core, name, count)
    if any(value is not None and not isinstance(value, str) for value in values):
        raise MalformedError(f"{values!r:.80}; texts are needed", field=name)
    return tuple(value or "" for value in values)


def _number(value: Any, name: str) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedError(f"{value!r:.80} is no number", field=name)
    try:
        return float(value)
    except OverflowError:
        raise MalformedError("a number larger than any float", field=name) from None


def _vector(value: Any) -> tuple[float, ...] | None:
    """Return the direction of an axis; `null` or "none" of one that does not lie in space."""
    if value is None or value == "none":
        return None
    if not isinstance(value, list):
        raise MalformedError(f"{value!r:.80} is no vector", field="space_directions")
    found = tuple(_number(part, "space_directions") for part in value)
    return None if all(map(math.isnan, found)) else found
