"""What the metadata documents of a manifest say about its chunk keys and its sources.

May touch the model, read.keys and errors.  Follows the Zarr v3 core specification
(https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html).  Only what finding chunks needs is
read here; data types and codecs are zarr's business, so arrays that jnrrdz could not write open too.
"""

import json
import reprlib
from collections.abc import Mapping
from typing import Any

from jnrrdz.core.arrays import SourceRecord
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.manifests.keys import ChunkKeys

ZARR_JSON = "zarr.json"

_SEPARATORS = {"default": "/", "v2": "."}


def parse_json(data: str | bytes, *, field: str | None = None) -> Any:
    """Return what a JSON text says; text that is not JSON is an error."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"not JSON: {error}", field=field) from error


def is_metadata(key: str) -> bool:
    """Whether a key is one of Zarr's metadata documents, of either version."""
    name = key.rpartition("/")[2]
    return name == ZARR_JSON or name.startswith(".z")


def refuse_without_v3(documents: Mapping[str, bytes]) -> None:
    """Raise where no document is Zarr v3's."""
    if any(key.rpartition("/")[2] == ZARR_JSON for key in documents):
        return
    if any(map(is_metadata, documents)):
        raise UnsupportedError("references with Zarr v2 metadata; open them with xarray's engine 'kerchunk'")
    raise MalformedError("not a reference manifest: it holds no zarr.json")


def array_keys(key: str, data: bytes) -> tuple[str, ChunkKeys] | None:
    """Return an array's path and its chunk keys, None for a document that is no array's."""
    path, _, name = key.rpartition("/")
    if name != ZARR_JSON:
        return None
    document = parse_json(data, field=key)
    if not isinstance(document, dict):
        raise MalformedError(f"metadata that is no object but {type(document).__name__}", field=key)
    if document.get("node_type") != "array":
        return None
    if path and not all(map(_is_name, path.split("/"))):
        raise MalformedError("no path of a Zarr node", field=key)
    try:
        return path, _chunk_keys(path, document)
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedError(f"not an array's metadata: {error!r}", field=key) from error
    except (MalformedError, UnsupportedError) as error:
        error.field = f"{key}, {error.field}"
        raise


def _is_name(part: str) -> bool:
    """Whether a part of a path is more than dots, which would lead out of the manifest's directory."""
    return bool(part.strip("."))


def _chunk_keys(path: str, document: Mapping[str, Any]) -> ChunkKeys:
    name, grid = _named(document["chunk_grid"])
    if name != "regular":
        raise UnsupportedError(f"a chunk grid {name!r}; only regular ones are read", field="chunk_grid")
    shape, chunks = _sizes(document["shape"], 0), _sizes(grid["chunk_shape"], 1)
    if len(shape) != len(chunks):
        raise MalformedError(f"chunks of shape {chunks} for an array of {shape}", field="chunk_grid")
    encoding, configuration = _named(document["chunk_key_encoding"])
    separator = configuration.get("separator", _SEPARATORS.get(encoding, "/"))
    counts = tuple(-(-size // step) for size, step in zip(shape, chunks, strict=True))
    return ChunkKeys.encoded(path, counts, encoding, separator)


def _sizes(values: Any, least: int) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(value) is int and value >= least for value in values):
        raise MalformedError(f"{reprlib.repr(values)} where sizes of at least {least} belong", field="shape")
    return tuple(values)


def _named(entry: Any) -> tuple[str, Mapping[str, Any]]:
    """Return name and configuration of an extension point, which may be a bare name."""
    if isinstance(entry, str):
        return entry, {}
    name, configuration = entry["name"], entry.get("configuration", {})
    if not isinstance(name, str) or not isinstance(configuration, dict):
        raise TypeError(f"{reprlib.repr(entry)} is no name with a configuration")
    return name, configuration


def source_records(documents: Mapping[str, bytes]) -> tuple[SourceRecord, ...]:
    """Return the sources as they were scanned, from the root's attribute `jnrrdz`; none where it has none."""
    root = parse_json(documents.get(ZARR_JSON, b"{}"), field=ZARR_JSON)
    attributes = root.get("attributes") if isinstance(root, dict) else None
    own = attributes.get("jnrrdz") if isinstance(attributes, dict) else None
    table = own.get("sources", []) if isinstance(own, dict) else []
    if not isinstance(table, list):
        raise MalformedError("the table of sources is no list", field="jnrrdz.sources")
    return tuple(_record(entry, f"jnrrdz.sources[{place}]") for place, entry in enumerate(table))


def _record(entry: Any, field: str) -> SourceRecord:
    if not isinstance(entry, dict) or not isinstance(entry.get("url"), str):
        raise MalformedError(f"{reprlib.repr(entry)} is no source with a url", field=field)
    size = entry.get("size")
    if size is not None and (type(size) is not int or size < 0):
        raise MalformedError(f"a source of {reprlib.repr(size)} bytes", field=f"{field}.size")
    texts = {name: entry.get(key) for name, key in _RECORD_TEXTS.items()}
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise MalformedError(f"{reprlib.repr(text)} is no text", field=f"{field}.{_RECORD_TEXTS[name]}")
    return SourceRecord(entry["url"], size, **texts)


_RECORD_TEXTS = {"etag": "etag", "version": "version_id", "modified": "last_modified"}
