"""Zarr v2's metadata documents as Zarr v3's: `.zgroup`, `.zarray`, `.zattrs` and `.zmetadata` become `zarr.json`.

kerchunk and osml-imagery-io write version 2 by default.  A manifest's documents are translated when they are read, and
here alone: whatever opens, checks, merges or writes manifests knows version 3.  Follows
https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html, and xarray's convention for the names of dimensions
(`_ARRAY_DIMENSIONS`) and for the fill value, which is a missing value to it in version 2.  An array's type has to be
one of version 3's, its codecs ones whose counterparts are known; what has none is refused by name.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jnrrdz.core import codecs as names
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.configuration import Codec, CodecSpec, shown
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
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.manifests.documents import METADATA, parse_json

GROUP, ARRAY, ATTRIBUTES = ".zgroup", ".zarray", ".zattrs"
DIMENSIONS = "_ARRAY_DIMENSIONS"

type Members = Mapping[str, Any]


def is_version_2(key: str) -> bool:
    """Whether a key is one of Zarr v2's documents."""
    return key.rpartition("/")[2] in {GROUP, ARRAY, ATTRIBUTES, METADATA}


def is_osml_version_2(head: bytes) -> bool:
    """Whether the first bytes of a file look like references of osml-imagery-io to a Zarr v2 hierarchy.

    Those of others are kerchunk's own to claim; opened by name they are read all the same.
    """
    marks = (names.OSML.encode(), b"zarr_conventions")
    return head.lstrip().startswith(b"{") and b'.zgroup"' in head and any(mark in head for mark in marks)


def version_3(texts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the documents of version 3 that say what those of version 2 say, parents before children."""
    documents = {key: parse_json(text, field=key) for key, text in texts.items() if is_version_2(key)}
    consolidated = documents.pop(METADATA, {})
    inside = consolidated.get("metadata", {}) if isinstance(consolidated, dict) else {}
    if isinstance(inside, dict):
        documents = {**inside, **documents}
    told = {key: _object(documents[key], key) for key in documents if key.rpartition("/")[2] in {GROUP, ARRAY}}
    for key, document in told.items():
        if document.get("zarr_format") != 2:  # noqa: PLR2004  the format's number
            raise MalformedError(f"zarr_format {shown(document.get('zarr_format'))} where 2 belongs", field=key)
    nodes = {key.rpartition("/")[0] for key in told}
    if not nodes:
        raise MalformedError("not a reference manifest: it holds no metadata of a Zarr group or array")
    # a group that only the paths of its members tell is one all the same
    for path in list(nodes):
        parts = path.split("/") if path else []
        nodes.update("/".join(parts[:depth]) for depth in range(len(parts)))
    attributes = {path: _object(documents.get(_key(path, ATTRIBUTES), {}), _key(path, ATTRIBUTES)) for path in nodes}
    is_missing = not is_osml({"attributes": attributes[""]})
    made = {}
    for path in sorted(nodes, key=lambda path: (path.count("/") + bool(path), path)):
        array = told.get(_key(path, ARRAY))
        said = json_value(attributes[path], _key(path, ATTRIBUTES))
        node = {"zarr_format": 3, "node_type": "group", "attributes": said}
        if array is not None:
            node = _array(array, said, _key(path, ARRAY), fill_is_missing=is_missing)
        made[_key(path, ZARR_JSON)] = dumps(node).encode()
    return made


def _key(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _object(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedError(f"metadata that is no object but {type(value).__name__}", field=key)
    return value


def _array(array: Members, attributes: Members, key: str, *, fill_is_missing: bool) -> dict[str, Any]:
    """Return the zarr.json of an array."""
    try:
        dtype = _type(array["dtype"])
        shape, chunks = array["shape"], array["chunks"]
        fill, has_fill = array.get("fill_value"), array.get("fill_value") is not None
        separator = array.get("dimension_separator", ".")
        value = decode_fill(_whole(fill, dtype), dtype) if has_fill else dtype.type(0)
        attributes = dict(attributes)
        dimensions = attributes.pop(DIMENSIONS, None)
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
            "codecs": [codec.to_json() for codec in _codecs(array, dtype, len(shape))],
            "attributes": attributes,
            "dimension_names": dimensions if isinstance(dimensions, list) else [None] * len(shape),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedError(f"not an array's metadata: {error!r}", field=key) from error
    except JnrrdzError as error:
        error.field = f"{key}, {error.field}"
        raise


def _type(text: Any) -> np.dtype[Any]:
    if not isinstance(text, str):
        raise UnsupportedError(f"elements of {shown(text)}; numbers are read", field="dtype")
    dtype = np.dtype(text)
    if dtype.kind not in "biufc":
        raise UnsupportedError(f"elements of type {text!r}; numbers are read", field="dtype")
    return dtype


def _whole(fill: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value as version 3 has it: 0 and 1 for booleans, numbers without a fraction for integers."""
    return bool(fill) if dtype.kind == "b" and fill in (0, 1) else fill


# Codecs: filters in their order, then the compressor; numcodecs names each by `id`


def _codecs(array: Members, dtype: np.dtype[Any], axes: int) -> list[Codec]:
    entries = [*(array.get("filters") or ()), *([array["compressor"]] if array.get("compressor") else ())]
    if not all(isinstance(entry, dict) and isinstance(entry.get("id"), str) for entry in entries):
        raise MalformedError(f"{shown(entries)} are no codecs", field="filters")
    steps: list[Codec] = [_codec(entry, dtype) for entry in entries]
    is_reversed = array.get("order", "C") == "F" and axes > 1
    if steps and steps[0].name in _PIXELS:
        if is_reversed:
            raise UnsupportedError(f"order F before {steps[0].name!r}", field="order")
        return steps
    endian = None if dtype.itemsize == 1 else ("big" if dtype.str[0] == ">" else "little")
    return [*([names.reversed_axes(axes)] if is_reversed else ()), bytes_(endian), *steps]


_PIXELS = (names.TIFF_TILE, names.JPEG2000, names.JPEG2000_WINDOW, names.JBP_BLOCK, names.JBP_JPEG, names.NITF_VQ)
"""Codecs of ours from elements to bytes; in version 2 they are filters that take bytes of elements."""

_SHUFFLES = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}


def _blosc(entry: Members, dtype: np.dtype[Any]) -> Members:
    shuffle = entry.get("shuffle", 1)
    if shuffle == -1:  # numcodecs' own choice, by the size of an element
        shuffle = 2 if dtype.itemsize == 1 else 1
    name = _SHUFFLES[shuffle]
    given = {"cname": entry.get("cname", "lz4"), "clevel": entry.get("clevel", 5), "shuffle": name}
    return {**given, "typesize": dtype.itemsize, "blocksize": entry.get("blocksize", 0)}


def _level(default: int) -> Callable[[Members, np.dtype[Any]], Members]:
    return lambda entry, _: {"level": entry.get("level", default)}


_KNOWN: Mapping[str, tuple[str, Callable[[Members, np.dtype[Any]], Members]]] = {
    "zlib": (names.ZLIB, _level(1)),
    "gzip": (names.GZIP, _level(1)),
    "bz2": (names.BZ2, _level(1)),
    "lzma": (names.LZMA, lambda entry, _: {name: entry[name] for name in entry if name != "id"}),
    "zstd": (names.ZSTD, lambda entry, _: {"level": entry.get("level", 0), "checksum": entry.get("checksum", False)}),
    "blosc": (names.BLOSC, _blosc),
    "lz4": (names.LZ4, lambda *_: {"framing": "frame"}),
}
"""numcodecs' compressors by `id`: the codec of version 3, and its configuration."""

_SAME = (*_PIXELS, names.OFFSET, names.PAD)
"""Codecs that have their name and configuration in both versions."""


def _codec(entry: Members, dtype: np.dtype[Any]) -> CodecSpec:
    name = entry["id"]
    if name in _KNOWN:
        known, configuration = _KNOWN[name]
        return CodecSpec(known, configuration(entry, dtype))
    if name in _SAME or name.startswith(names.OSML):
        return CodecSpec(name, {member: entry[member] for member in entry if member != "id"})
    known_ids = ", ".join([*_KNOWN, *_SAME])
    message = f"codec {name!r} of Zarr v2; read are {known_ids} and those of osml-imagery-io"
    raise UnsupportedError(message[:1000], field="filters")
