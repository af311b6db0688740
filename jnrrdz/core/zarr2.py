"""Zarr v2's metadata documents as Zarr v3's: `.zgroup`, `.zarray`, `.zattrs` and `.zmetadata` become `zarr.json`.

kerchunk and osml-imagery-io write version 2 by default.  A manifest's documents are translated when they are read, and
here alone: whatever opens, checks, merges or writes manifests knows version 3.  Follows
https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html, and xarray's convention for the names of dimensions
(`_ARRAY_DIMENSIONS`) and for the fill value, which is a missing value to it in version 2.  An array's type has to be
one of version 3's, its codecs ones whose counterparts are known; an array without one is left out by name.

Tifffile, and kerchunk through it, write the schemes of TIFF as filters of imagecodecs: those become `tiff-tile`.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from jnrrdz.core.codec_table import all_records, codecs_of_foreign, foreign_codec, is_at
from jnrrdz.core.codecs import OSML, bytes_, reversed_axes
from jnrrdz.core.configuration import Codec, CodecRecord, CodecSpec, Stage, Translation, same_members, sizes
from jnrrdz.core.json_schema import (
    ANYTHING,
    OBJECT,
    TEXT,
    Check,
    integer,
    list_of,
    members,
    nullable,
    one_of,
    parse_json,
    shown,
    validate,
)
from jnrrdz.core.zarr_json import (
    ZARR_JSON,
    data_type,
    decode_fill,
    dumps,
    encode_fill,
    is_osml,
    json_value,
    xarray_fill,
)
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.records import record

GROUP, ARRAY, ATTRIBUTES, CONSOLIDATED = ".zgroup", ".zarray", ".zattrs", ".zmetadata"
DIMENSIONS = "_ARRAY_DIMENSIONS"

type Members = Mapping[str, Any]


def is_version_2(key: str) -> bool:
    """Whether a key is one of Zarr v2's documents."""
    return key.rpartition("/")[2] in {GROUP, ARRAY, ATTRIBUTES, CONSOLIDATED}


def is_osml_version_2(head: bytes) -> bool:
    """Whether the first bytes of a file look like references of osml-imagery-io to a Zarr v2 hierarchy.

    Those of others are kerchunk's own to claim; opened by name they are read all the same.
    """
    marks = (OSML.encode(), b"zarr_conventions")
    return head.lstrip().startswith(b"{") and b'.zgroup"' in head and any(mark in head for mark in marks)


def _codec_entry(value: Any) -> Any:
    """Accept a codec of numcodecs, whose configuration is checked where it decides what is decoded."""
    check = _OF_CODECS.get(members({"id": TEXT})(value)["id"])
    return value if check is None else check(value)


_OF_CODECS: Mapping[str, Check] = {
    "shuffle": members({}, {"elementsize": integer(0)}),
    "blosc": members({}, {"shuffle": integer(-1, 2)}),
}
_ARRAY = members(
    {"zarr_format": one_of(2), "shape": sizes(0), "chunks": sizes(1), "dtype": ANYTHING},
    {
        "order": one_of("C", "F"),
        "filters": nullable(list_of(_codec_entry)),
        "compressor": nullable(_codec_entry),
        "dimension_separator": one_of(".", "/"),
    },
)


def _array_document(value: Any) -> Any:
    _ARRAY(value)
    shape, chunks = value["shape"], value["chunks"]
    if len(chunks) != len(shape):
        message = f"chunks of shape {shown(chunks)} for an array of {shown(shape)}"
        raise MalformedError(message, field="chunks")
    return value


_SCHEMAS: Mapping[str, Check] = {
    GROUP: members({"zarr_format": one_of(2)}),
    ARRAY: _array_document,
    ATTRIBUTES: members({}, {DIMENSIONS: nullable(list_of(TEXT))}),
}
_CONSOLIDATED = members({}, {"metadata": OBJECT})


class Translated(NamedTuple):
    """What the documents of version 2 become."""

    documents: dict[str, bytes]
    """Those of version 3, parents before children."""

    left_out: frozenset[str]
    """Paths of arrays that version 3 cannot say."""

    foreign: Mapping[str, str]
    """By the paths of arrays, codecs of others that are read by ours."""


def version_3(texts: Mapping[str, bytes]) -> Translated:
    """Return the documents of version 3 that say what those of version 2 say.

    An array that they cannot say is left out, with a warning that says why; where that leaves none, it is an error.
    """
    documents = {key: parse_json(text, field=key) for key, text in texts.items() if is_version_2(key)}
    if CONSOLIDATED in documents:
        consolidated = validate(documents.pop(CONSOLIDATED), _CONSOLIDATED, CONSOLIDATED)
        documents = {**consolidated.get("metadata", {}), **documents}
    for key, document in documents.items():
        check = _SCHEMAS.get(key.rpartition("/")[2])
        if check is not None:
            validate(document, check, key)
    told = {key: documents[key] for key in documents if key.rpartition("/")[2] in {GROUP, ARRAY}}
    nodes = {key.rpartition("/")[0] for key in told}
    if not nodes:
        raise MalformedError("not a reference manifest: it holds no metadata of a Zarr group or array")
    # a group that only the paths of its members tell is one all the same
    for path in list(nodes):
        parts = path.split("/") if path else []
        nodes.update("/".join(parts[:depth]) for depth in range(len(parts)))
    keys = {path: _key(path, ATTRIBUTES) for path in nodes}
    attributes = {path: documents.get(key, {}) for path, key in keys.items()}
    is_missing = not is_osml({"attributes": attributes[""]})
    made = {}
    foreign: dict[str, str] = {}
    refused: dict[str, JnrrdzError] = {}
    for path in sorted(nodes, key=lambda path: (path.count("/") + bool(path), path)):
        array = told.get(_key(path, ARRAY))
        said = json_value(attributes[path], _key(path, ATTRIBUTES))
        node = {"zarr_format": 3, "node_type": "group", "attributes": said}
        if array is not None:
            try:
                node = _array(array, said, _key(path, ARRAY), fill_is_missing=is_missing)
                entries = [*(array.get("filters") or ()), array.get("compressor")]
                name = foreign_codec(entries)
                foreign |= {} if name is None else {path: name}
            except (UnsupportedError, UnrepresentableError) as error:
                refused[path] = error
                continue
        made[_key(path, ZARR_JSON)] = dumps(node).encode()
    _tell(refused, sum(_key(path, ARRAY) in told for path in nodes))
    return Translated(made, frozenset(refused), foreign)


_SHOWN = 8


def _tell(refused: Mapping[str, JnrrdzError], arrays: int) -> None:
    """Warn of arrays that are left out; all of them are an error."""
    reasons = [f"{error.field}: {error.message}" for error in refused.values()]
    if refused and len(refused) == arrays:
        raise next(iter(refused.values()))
    if refused:
        more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
        warnings.warn(f"left out: {'; '.join(reasons[:_SHOWN])}{more}", stacklevel=2)


def _key(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _array(array: Members, attributes: Members, key: str, *, fill_is_missing: bool) -> dict[str, Any]:
    """Return the zarr.json of an array."""
    try:
        dtype = _type(array["dtype"])
        shape, chunks = array["shape"], array["chunks"]
        fill, has_fill = array.get("fill_value"), array.get("fill_value") is not None
        separator = array.get("dimension_separator", ".")
        if dtype.kind == "b" and fill in (0, 1):
            fill = bool(fill)
        value = decode_fill(fill, dtype) if has_fill else dtype.type(0)
        attributes = dict(attributes)
        dimensions = attributes.pop(DIMENSIONS, None)
        if "_FillValue" in attributes and dtype.kind == "f":
            attributes["_FillValue"] = _missing(attributes["_FillValue"], dtype)
        if fill_is_missing and has_fill and "_FillValue" not in attributes:
            attributes["_FillValue"] = json_value(xarray_fill(value.item(), dtype))
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": data_type(dtype),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
            "chunk_key_encoding": {"name": "v2", "configuration": {"separator": separator}},
            "fill_value": encode_fill(value, dtype),
            "codecs": [codec.to_json() for codec in _codecs(array, dtype, dimensions)],
            "attributes": attributes,
            "dimension_names": dimensions or [None] * len(shape),
        }
    except JnrrdzError as error:
        error.field = f"{key}: {error.field}"
        raise


def _missing(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return `_FillValue` of floats as xarray reads it from version 3, which is how some spell it in version 2 too."""
    try:
        return xarray_fill(decode_fill(value, dtype).item(), dtype)
    except MalformedError:
        return value


def _type(text: Any) -> np.dtype[Any]:
    if not isinstance(text, str):
        raise UnsupportedError(f"elements of {shown(text)}; numbers are read", field="dtype")
    try:
        dtype = np.dtype(text)
    except (TypeError, ValueError, SyntaxError) as error:
        raise MalformedError(f"found {shown(text)}; a type of numpy is needed", field="dtype") from error
    if dtype.kind not in "biufc":
        raise UnsupportedError(f"elements of type {text!r}; numbers are read", field="dtype")
    return dtype


# Codecs: filters in their order, then the compressor; numcodecs names each by `id`


def _codecs(array: Members, dtype: np.dtype[Any], dimensions: Any) -> list[Codec]:
    axes = len(array["shape"])
    entries = [*(array.get("filters") or ()), *([array["compressor"]] if array.get("compressor") else ())]
    is_reversed = array.get("order", "C") == "F" and axes > 1
    tile = _foreign_codecs(entries, array, dtype, dimensions)
    if tile is not None:
        if is_reversed:
            raise UnsupportedError("order F before TIFF's predictors", field="order")
        return list(tile)
    steps: list[Codec] = [_codec(entry, dtype) for entry in entries if not _is_lost(entry, dtype)]
    if steps and is_at(Stage.PIXELS, steps[0].name):
        if is_reversed:
            raise UnsupportedError(f"order F before {steps[0].name!r}", field="order")
        return steps
    endian = None if dtype.itemsize == 1 else ("big" if dtype.str[0] == ">" else "little")
    return [*([reversed_axes(axes)] if is_reversed else ()), bytes_(endian), *steps]


def _is_lost(entry: Members, dtype: np.dtype[Any]) -> bool:
    """Whether a filter changes numbers before they are written, and nothing when they are read."""
    kept = entry.get("dtype"), entry.get("astype") or entry.get("dtype")
    is_same = entry["id"] == "quantize" and kept == (dtype.str, dtype.str)
    return is_same or entry["id"] == "bitround"


@record
class ChunkLayout:
    """The chunks of an array, and how its elements are stored."""

    shape: Sequence[int]
    chunks: Sequence[int]
    dtype: np.dtype[Any]
    endian: str
    axes: Sequence[Any]
    """Names of the dimensions; empty or of None where nothing names them."""


def _foreign_codecs(entries: list[Any], array: Members, dtype: np.dtype[Any], axes: Any) -> Sequence[Codec] | None:
    """Return the codecs of a format that filters of imagecodecs mean, None for other filters."""
    ids = [entry["id"] for entry in entries]
    if len(ids) == 1 and ids[0] in _translations():
        return None
    specs = []
    for entry in entries:
        members = {name: entry[name] for name in entry if name not in {"id", "dtype"}}
        specs.append(CodecSpec(entry["id"], members))
    endian = "big" if dtype.str[0] == ">" else "little"
    named = axes if isinstance(axes, list) else ()
    return codecs_of_foreign(specs, ChunkLayout(array["shape"], array["chunks"], dtype, endian, named))


@cache
def _translations() -> Mapping[str, tuple[CodecRecord, Translation]]:
    """Return by ids of Zarr v2 the codecs of version 3, and what makes their configurations."""
    translations = {}
    for known in all_records().values():
        for name, translation in known.version_2.items():
            translations[name] = known, translation
    return translations


def _codec(entry: Members, dtype: np.dtype[Any]) -> CodecSpec:
    name = entry["id"]
    translations = _translations()
    if name in translations:
        known, translation = translations[name]
        return CodecSpec(known.name, translation(entry, dtype))
    if name.startswith(OSML):
        return CodecSpec(name, same_members(entry, dtype))
    message = f"codec {name!r} of Zarr v2; read are {', '.join(translations)} and those of osml-imagery-io"
    raise UnsupportedError(message[:1000], field="filters")
