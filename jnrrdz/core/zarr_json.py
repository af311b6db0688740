"""Virtual arrays and groups as Zarr v3 metadata documents, and an array's document back as facts.

Follows https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html and its data types and fill values, and for
consolidated metadata the inline form that zarr-python 3 writes and reads.  `_FillValue`, an attribute, is spelt as
xarray's Zarr backend reads it, which differs.  Documents are strict JSON: a float in attributes that JSON cannot spell
is written as Zarr spells fill values.
"""

import base64
import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite
from numbers import Complex, Integral, Real
from typing import Any, Literal, cast

import numpy as np

from jnrrdz.core.arrays import VirtualArray, grid_of
from jnrrdz.core.configuration import CODEC, EXTENSION, CodecSpec, sizes
from jnrrdz.core.json_schema import (
    ANYTHING,
    OBJECT,
    TEXT,
    Check,
    all_of,
    by_member,
    list_of,
    members,
    nullable,
    one_of,
    shown,
    text_or,
)
from jnrrdz.core.refs import References, SparseRefs
from jnrrdz.errors import MalformedError, UnrepresentableError, UnsupportedError

_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DATA_TYPES = frozenset(["bool", *_INTEGERS, "float16", "float32", "float64", "complex64", "complex128"])


@lru_cache(64)
def data_type(dtype: np.dtype[Any]) -> str:
    """Return Zarr's name for a numpy type; the byte order is the codecs' business."""
    if dtype.name not in DATA_TYPES:
        raise UnrepresentableError(f"Zarr v3 has no core data type for numpy's {dtype}", field="data_type")
    return dtype.name


def spelt(number: float) -> float | str:
    """Return a number as strict JSON can hold it: what is not finite as text."""
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else ("Infinity" if number > 0 else "-Infinity")


def _refused_fill(value: Any, dtype: np.dtype[Any]) -> UnrepresentableError:
    return UnrepresentableError(f"{value!r} is no value of type {dtype.name}", field="fill_value")


def _encode_int(value: Any, dtype: np.dtype[Any]) -> int:
    limits = np.iinfo(dtype)
    whole = isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    if not whole or not limits.min <= int(value) <= limits.max:
        raise _refused_fill(value, dtype)
    return int(value)


def _encode_float(value: Any, dtype: np.dtype[Any]) -> float | str:
    if not isinstance(value, Real):
        raise _refused_fill(value, dtype)
    try:
        number = float(value)
    except OverflowError:
        raise _refused_fill(value, dtype) from None
    with np.errstate(over="ignore"):
        typed = np.asarray(number).astype(dtype.newbyteorder(">"))
    if np.isnan(typed):
        # another NaN than the quiet positive one has to be spelt by its bits
        same = typed.tobytes() == np.array(math.nan, typed.dtype).tobytes()
        return "NaN" if same else f"0x{typed.tobytes().hex()}"
    if np.isinf(typed) and not math.isinf(value):
        raise _refused_fill(value, dtype)
    return spelt(float(typed))


def encode_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value as JSON; a value that the type cannot hold is an error, rounding is not."""
    kind = np.dtype(data_type(dtype)).kind
    if kind in "iu":
        return _encode_int(value, dtype)
    if kind == "f":
        return _encode_float(value, dtype)
    if kind == "b":
        if not isinstance(value, bool | np.bool_ | Integral) or value not in (0, 1):
            raise _refused_fill(value, dtype)
        return bool(value)
    if not isinstance(value, Complex):
        raise _refused_fill(value, dtype)
    part = np.dtype(f"f{dtype.itemsize // 2}")
    return [_encode_float(value.real, part), _encode_float(value.imag, part)]


def decode_fill(value: Any, dtype: np.dtype[Any]) -> np.generic:
    """Return the numpy scalar that a document's fill value stands for."""
    if isinstance(value, bool) != (dtype.kind == "b"):
        raise MalformedError(f"{value!r} is no {dtype.name}", field="fill_value")
    try:
        if dtype.kind == "c":
            real, imag = (decode_fill(part, np.dtype(f"f{dtype.itemsize // 2}")) for part in value)
            scalar: Any = dtype.type  # numpy's stubs know no call of it with a complex number
            return cast("np.generic", scalar(complex(float(real), float(imag))))
        if isinstance(value, str) and dtype.kind == "f":
            return _decode_float(value, dtype)
        return dtype.type(encode_fill(value, dtype))  # type: ignore[no-any-return]
    except (TypeError, ValueError, UnrepresentableError):
        raise MalformedError(f"{value!r} is no {dtype.name}", field="fill_value") from None


def _decode_float(text: str, dtype: np.dtype[Any]) -> np.generic:
    if text.startswith("0x"):
        (bits,) = np.frombuffer(bytes.fromhex(text[2:]), dtype.newbyteorder(">"))
        return dtype.type(bits)  # type: ignore[no-any-return]
    if text not in ("NaN", "Infinity", "-Infinity"):
        raise ValueError(text)
    return dtype.type(float(text))  # type: ignore[no-any-return]


def xarray_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return `_FillValue` as xarray reads it from Zarr v3: base64 of a little-endian double for floats."""
    if dtype.kind == "f" and isinstance(value, Real):
        return base64.b64encode(struct.pack("<d", float(value))).decode("ascii")
    if dtype.kind == "c" and isinstance(value, Complex):
        return [xarray_fill(part, np.dtype("f8")) for part in (value.real, value.imag)]
    if dtype.kind in "iu" and isinstance(value, Real):
        return _encode_int(value, dtype)
    return value


MARKS = ("_FillValue", "missing_value")
"""Attributes whose number marks elements that hold nothing; the second is CF's older name."""


def missing_value(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> Any:
    """Return the value of elements that hold nothing, None where no element can have it.

    `_FillValue` is a number in what was scanned, and in documents as xarray spells it;
    `missing_value` is CF's older name.  The document's own `fill_value` is no such mark:
    it is what chunks that are absent read as.
    """
    for name in MARKS:
        value = attributes.get(name)
        if value is not None:
            return missing_number(value, dtype, name)
    return None


def missing_number(value: Any, dtype: np.dtype[Any], name: str) -> Any:
    """Return the number that an attribute of `MARKS` means, None where no element can have it."""
    if isinstance(value, list | tuple) and len(value) == 1:
        (value,) = value
    try:
        return _decoded_missing(value, dtype)
    except OverflowError:
        return None
    except (TypeError, ValueError, struct.error):
        message = f"{shown(value)} is no {dtype.name}"
        raise MalformedError(message, field=name) from None


def _decoded_missing(value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "c" and isinstance(value, list | tuple):
        real, imag = (_decoded_missing(part, np.dtype("f8")) for part in value)
        return dtype.type(complex(real, imag))
    if isinstance(value, str) and dtype.kind == "f":
        return np.float64(double_of(value)).astype(dtype)
    is_flag = isinstance(value, bool | np.bool_)
    if is_flag != (dtype.kind == "b") or not isinstance(value, Complex | np.bool_):
        raise TypeError(value)
    if dtype.kind in "iu":
        whole: Any = value
        return dtype.type(whole) if whole == int(whole) else None
    return dtype.type(value)


def double_of(text: str) -> float:
    """Return the number of a text, which Zarr or xarray spelled."""
    if text in {"NaN", "Infinity", "-Infinity"}:
        return float(text)
    (number,) = struct.unpack("<d", base64.b64decode(text, validate=True))
    return float(number)


def scanned_attributes(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return attributes of a document with `_FillValue` as the number that `xarray_fill` writes as text."""
    if not isinstance(attributes, Mapping):
        raise MalformedError("no object", field="attributes")
    numbers = dict(attributes)
    value = numbers.get("_FillValue")
    try:
        if dtype.kind == "f" and isinstance(value, str):
            numbers["_FillValue"] = double_of(value)
        elif dtype.kind == "c" and isinstance(value, list):
            real, imag = value
            numbers["_FillValue"] = complex(double_of(real), double_of(imag))
    except (TypeError, ValueError, struct.error):
        message = f"{value!r:.100} is no {dtype.name}"
        raise MalformedError(message, field="_FillValue") from None
    return numbers


type Separator = Literal["/", "."]
type Where = str | tuple["Where", str | int]
"""A place in a document, spelt when an error names it."""
type Encoding = Literal["default", "v2"]

ZARR_JSON = "zarr.json"

SEPARATORS: Mapping[str, Separator] = {"default": "/", "v2": "."}
"""The separators of chunk keys where a document names none, by the encoding of the keys."""

REFERENCES = re.compile(
    rb"""(?x) "refs"\s*: | "(?:[^"\\]*/)?(?:zarr\.json|\.zgroup|\.zarray|\.zmetadata)"\s*:
    | "[^"\\]*[./0-9]"\s*:\s*\["[^"\\]*",\s*[0-9]+,\s*[0-9]+\]"""
)
"""What the first bytes of references in JSON have of which version ever: their member, a document's key, or a chunk."""


def dumps(document: Any) -> str:
    """Return a document as compact JSON text of one line, ASCII only."""
    return _COMPACT(document)


_COMPACT = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode

# Attributes

_WHOLE = frozenset({int, bool})
_LISTS = frozenset({list, tuple})


def json_value(value: Any, where: Where = "attributes") -> Any:
    """Return a value in JSON's own types; numpy's scalars and arrays are converted."""
    kind = type(value)  # most values by far are of these types, and the checks below are slow
    if kind in _WHOLE or (kind is str and value.isascii()) or (kind is float and isfinite(value)):
        return value
    if kind is dict or (kind not in _LISTS and isinstance(value, Mapping)):
        return {
            name if type(name) is str and name.isascii() else _text(name, where): item
            if type(item) in _WHOLE or (type(item) is str and item.isascii())
            else json_value(item, (where, name))
            for name, item in value.items()
        }
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        kinds = set(map(type, value))
        if kinds <= _WHOLE or (kinds == {float} and all(map(isfinite, value))):
            return list(value)
        return [json_value(item, (where, i)) for i, item in enumerate(value)]
    return _scalar(value, where)


def _scalar(value: Any, where: Where) -> Any:
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return spelt(float(value))
    raise UnrepresentableError(f"JSON has no {type(value).__name__}", field=_place(where))


def _text(value: Any, where: Where) -> str:
    if type(value) is str and value.isascii():
        return value
    if not isinstance(value, str):
        raise UnrepresentableError(f"a name of type {type(value).__name__}; JSON needs text", field=_place(where))
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnrepresentableError(f"{value!r} is no Unicode text", field=_place(where)) from None
    return str.__str__(value)


def _place(where: Where) -> str:
    if isinstance(where, str):
        return where
    outer, name = where
    return f"{_place(outer)}[{name}]" if isinstance(name, int) else f"{_place(outer)}.{name}"


# Documents


def array_json(array: VirtualArray, *, separator: Separator = "/", encoding: Encoding = "default") -> dict[str, Any]:
    """Return the zarr.json of an array."""
    attributes = dict(array.attributes)
    if "_FillValue" in attributes:
        attributes["_FillValue"] = xarray_fill(attributes["_FillValue"], array.dtype)
    codecs = [codec.to_json() for codec in array.codecs]
    return {
        "shape": [int(size) for size in array.shape],
        "data_type": data_type(array.dtype),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [int(size) for size in array.chunks]}},
        "chunk_key_encoding": {"name": encoding, "configuration": {"separator": separator}},
        "fill_value": encode_fill(array.fill_value, array.dtype),
        "codecs": json_value(codecs, "codecs"),
        "attributes": json_value(attributes),
        "dimension_names": list(array.dimension_names),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


# Documents of others

_GRID = members({}, {"chunk_shape": sizes(1)})
_KEYS = members({}, {"separator": one_of("/", ".")})
_ARRAY = members(
    {
        "shape": sizes(0),
        "data_type": EXTENSION,
        "chunk_grid": all_of(EXTENSION, text_or(members({}, {"configuration": _GRID}))),
        "chunk_key_encoding": all_of(EXTENSION, text_or(members({}, {"configuration": _KEYS}))),
        "fill_value": ANYTHING,
        "codecs": list_of(CODEC, fewest=1),
    },
    {
        "dimension_names": nullable(list_of(nullable(TEXT))),
        "storage_transformers": nullable(list_of(OBJECT)),
    },
)


def _check_axes(document: Mapping[str, Any]) -> None:
    """Refuse an array whose shape, chunks and names of dimensions differ in number."""
    shape = document["shape"]
    grid, names = named(document["chunk_grid"])[1], document.get("dimension_names")
    chunks = grid.get("chunk_shape", shape)
    if len(chunks) != len(shape):
        raise MalformedError(f"chunks of shape {shown(chunks)} for an array of {shown(shape)}", field="chunk_grid")
    if names is not None and len(names) != len(shape):
        message = f"shape and dimension names differ in length: {len(shape)} and {len(names)}"
        raise MalformedError(message, field="dimension_names")


NODE: Check = all_of(
    members(
        {"zarr_format": one_of(3), "node_type": one_of("group", "array")},
        {"attributes": nullable(OBJECT)},
    ),
    by_member("node_type", {"array": all_of(_ARRAY, _check_axes)}),
)
"""The document of a group or an array, whose members are of Zarr's types."""


def array_from_json(document: Mapping[str, Any], refs: References | None = None, name: str = "axis") -> VirtualArray:
    """Return the array of a checked document; all its chunks are missing without `refs`.

    What a virtual array cannot be is refused by its field.  Axes without names are called
    `axis_0`, `axis_1`, or what `name` has in place of `axis`.
    """
    chunks = regular_chunks(document)
    if not isinstance(document["data_type"], str) or document["data_type"] not in DATA_TYPES:
        raise UnsupportedError(f"data type {document['data_type']!r}", field="data_type")
    key_encoding(document)
    dtype = np.dtype(document["data_type"])
    shape = tuple(document["shape"])
    array = VirtualArray(
        shape=shape,
        dtype=dtype,
        chunks=chunks,
        codecs=tuple(CodecSpec(*named(entry)) for entry in document["codecs"]),
        refs=SparseRefs.missing(math.prod(grid_of(shape, chunks))) if refs is None else refs,
        dimension_names=tuple(
            f"{name}_{axis}" if given is None else given for axis, given in enumerate(axis_names(document))
        ),
        fill_value=decode_fill(document["fill_value"], dtype),
        attributes=document.get("attributes") or {},
    )
    if document.get("storage_transformers"):
        raise UnsupportedError("storage transformers", field="storage_transformers")
    return array


def axis_names(document: Mapping[str, Any]) -> Sequence[str | None]:
    """Return the names that a checked document gives axes, None for each without one."""
    return document.get("dimension_names") or (None,) * len(document["shape"])


def key_encoding(document: Mapping[str, Any]) -> tuple[Encoding, Separator]:
    """Return how the chunk keys of an array are spelled, and their separator."""
    encoding, keys = named(document["chunk_key_encoding"])
    if encoding not in SEPARATORS:
        message = f"chunk keys {encoding!r}; default and v2 are read"
        raise UnsupportedError(message, field="chunk_key_encoding")
    return cast("Encoding", encoding), keys.get("separator", SEPARATORS[encoding])


def regular_chunks(document: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of the chunks of an array, whose grid has to be regular."""
    name, grid = named(document["chunk_grid"])
    if name != "regular":
        raise UnsupportedError(f"a chunk grid {name!r}; only regular ones are read", field="chunk_grid")
    if "chunk_shape" not in grid:
        raise MalformedError("is missing", field="chunk_grid.configuration.chunk_shape")
    return tuple(grid["chunk_shape"])


def named(entry: Any) -> tuple[str, Mapping[str, Any]]:
    """Return name and configuration of an extension point, which may be a bare name."""
    return (entry, {}) if isinstance(entry, str) else (entry["name"], entry.get("configuration", {}))


# Manifests of osml-imagery-io

UNREAD_SOURCES = "osml"
"""The member of the root's attribute `jnrrdz` that says: what osml-imagery-io leaves out has still to be read from the
sources."""


def is_osml(root: Mapping[str, Any]) -> bool:
    """Whether a manifest's root zarr.json is osml-imagery-io's, or says that `convert` took it over as it is."""
    attributes = root.get("attributes")
    if not isinstance(attributes, Mapping) or not {"source", "multiscales", "zarr_conventions"} <= set(attributes):
        return False
    own = attributes.get("jnrrdz", {UNREAD_SOURCES: True})
    return isinstance(own, Mapping) and own.get(UNREAD_SOURCES) is True
