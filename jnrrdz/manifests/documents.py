"""The metadata documents of a manifest: chunk keys and sources, as they say them.

Follows the Zarr v3 core specification (https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html).  Only what
finding chunks needs is checked here; data types and codecs are zarr's business, so arrays that jnrrdz could not
write open too.  A manifest holds millions of chunk keys, so they are read in bulk from their bytes.
"""

import json
import math
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import SourceRecord, grid_of
from jnrrdz.core.codec_table import entries_of_foreign, foreign_codec, renamed
from jnrrdz.core.json_schema import TEXT, inside, integer, members, nullable, parse_json, validate
from jnrrdz.core.limits import AXES
from jnrrdz.core.zarr_json import NODE, ZARR_JSON, key_encoding, regular_chunks
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.records import record

METADATA = ".zmetadata"
"""The file of a Parquet manifest that holds its documents."""

_DIGITS = b"0123456789"
_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,18})", re.ASCII)
_LONGEST = 18  # digits that every int64 can hold
_MOST_CHUNKS = 2**62  # so that a chunk's number is always an int64
_MOST_ELEMENTS = 2**44  # of a chunk: no machine holds more, and numpy fails in ways of its own


_COMPACT = json.JSONEncoder(separators=(",", ":")).encode
"""Spells objects of others too, which may have numbers that JSON itself has not."""

_V3_KEY = re.compile(rb'[{,]\s*"(?:[^"\\]*/)?zarr\.json"\s*:')


def is_manifest(head: bytes) -> bool:
    """Whether the first bytes of a file look like references to a Zarr v3 hierarchy."""
    return head.lstrip().startswith(b"{") and _V3_KEY.search(head) is not None


def is_metadata(key: str) -> bool:
    """Whether a key is one of Zarr's metadata documents, of either version."""
    name = key.rpartition("/")[2]
    return name == ZARR_JSON or name.startswith(".z")


class Documents(MutableMapping[str, bytes]):
    """Metadata documents by key, and other inline values outside of arrays.

    A document is a text, an object, or both: a text is parsed when its object is first
    needed, and an object is spelled when its text is, each once.
    """

    def __init__(
        self,
        texts: Mapping[str, bytes] | None = None,
        objects: Mapping[str, Any] | None = None,
    ) -> None:
        """Take texts, and documents that are objects already, consolidated members included."""
        self._texts: dict[str, bytes | None] = {}
        self._objects: dict[str, Any] = {}
        self._parsed: dict[str, dict[str, Any]] = {}
        self._consolidated: dict[str, list[str]] = {}
        self._chunk_keys: dict[str, ChunkKeys] = {}
        self.foreign: dict[str, str] = {}
        """By the paths of arrays, codecs of others that are read by ours."""
        if isinstance(texts, Documents):
            self._texts |= texts._texts  # noqa: SLF001  the same class
            self._objects |= texts._objects  # noqa: SLF001  the same class
        else:
            self._texts |= texts or {}
        for key, document in (objects or {}).items():
            self.put(key, document)

    def __getitem__(self, key: str) -> bytes:
        """Return the text of a document."""
        text = self._texts[key]
        if text is None:
            text = self._texts[key] = _COMPACT(self._objects[key]).encode()
        return text

    def __setitem__(self, key: str, text: bytes) -> None:
        self._texts[key] = text
        self._objects.pop(key, None)
        self._forget(key)

    def __delitem__(self, key: str) -> None:
        del self._texts[key]
        self._objects.pop(key, None)
        self._forget(key)

    def put(self, key: str, document: dict[str, Any]) -> None:
        """Take a document that is an object."""
        self._texts[key] = None
        self._objects[key] = document
        self._forget(key)

    def _forget(self, key: str) -> None:
        """Drop what was made of an older document."""
        self._parsed.pop(key, None)
        self._consolidated.pop(key, None)
        self._chunk_keys.pop(key, None)

    def rename(self, old: str, new: str) -> None:
        """Give a document another key, behind all others."""
        self._texts[new] = self._texts.pop(old)
        self._forget(old)
        if old in self._objects:
            self._objects[new] = self._objects.pop(old)

    def __contains__(self, key: object) -> bool:
        return key in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"Documents({list(self)})"

    def add(self, texts: Mapping[str, bytes]) -> dict[str, "ChunkKeys"]:
        """Take documents, and return the chunk keys of the arrays among those that are new, by the arrays' paths."""
        new = {key: text for key, text in texts.items() if self.get(key) != text}
        self.update(new)
        return self.array_keys(new)

    def whole(self, key: str) -> dict[str, Any]:
        """Return a document as it stands, members that a group consolidates included; empty where there is none."""
        document = self._objects.get(key)
        if document is None:
            document = parse_json(self.get(key, b"{}"), field=key)
        if not isinstance(document, dict):
            raise MalformedError(f"metadata that is no object but {type(document).__name__}", field=key)
        return document

    def parsed(self, key: str) -> dict[str, Any]:
        """Return what a document says, which is an object; an empty one where there is no such document.

        Members that groups consolidate are left out: they have documents of their own.  Codecs that manifests of
        ours once called otherwise have their present names.
        """
        found = self._parsed.get(key)
        if found is None:
            found = {}
            if key in self:
                found = dict(validate(self.whole(key), NODE, key))
                found["attributes"] = found.get("attributes") or {}
            listed = found.pop("consolidated_metadata", None)
            if listed is not None:
                nodes = listed.get("metadata") if isinstance(listed, dict) else None
                self._consolidated[key] = list(nodes) if isinstance(nodes, dict) else []
            self._parsed[key] = found
            if "codecs" in found:
                self._name_codecs(found, key)
        return found

    def _name_codecs(self, document: dict[str, Any], key: str) -> None:
        """Give the codecs of an array the names by which they are read now."""
        if self.own():
            document["codecs"] = [renamed(entry) for entry in document["codecs"]]
        foreign = foreign_codec(document["codecs"])
        if foreign is None:
            return
        document["codecs"] = entries_of_foreign(document)
        if foreign_codec(document["codecs"]) is None:
            self.foreign[key.removesuffix(ZARR_JSON).rstrip("/")] = foreign

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Return what the documents of all groups and arrays say, by their paths; the root's is an empty text."""
        keys = [key for key in self if key.rpartition("/")[2] == ZARR_JSON]
        return {key[: -len(ZARR_JSON) - 1]: self.parsed(key) for key in keys}

    def node(self, path: str) -> dict[str, Any]:
        """Return what the document of a group or array says; an empty object where there is none."""
        return self.parsed(f"{path}/{ZARR_JSON}" if path else ZARR_JSON)

    def consolidated(self, path: str) -> list[str] | None:
        """Return the names of the nodes whose documents a group consolidates, None where it consolidates none."""
        key = f"{path}/{ZARR_JSON}" if path else ZARR_JSON
        self.parsed(key)
        return self._consolidated.get(key)

    def own(self) -> dict[str, Any]:
        """Return the root's attribute `jnrrdz`; an empty object where it has none."""
        attributes = self.parsed(ZARR_JSON).get("attributes")
        own = attributes.get("jnrrdz") if isinstance(attributes, dict) else None
        return own if isinstance(own, dict) else {}

    def sources(self, *, first: bool = False) -> tuple[SourceRecord, ...]:
        """Return the sources as they were when they were scanned, from the root's attribute `jnrrdz`.

        Of a table that is in files (`manifests.source_files`) nothing but the `first` stands there.
        """
        table = self.own().get("sources", [])
        if first and isinstance(table, dict):
            return (source_record(table.get("first"), "jnrrdz.sources.first"),)
        if not isinstance(table, list):
            raise MalformedError("the table of sources is no list", field="jnrrdz.sources")
        return tuple(source_record(entry, f"jnrrdz.sources[{number}]") for number, entry in enumerate(table))

    def require_v3(self) -> None:
        """Raise where no document is Zarr v3's."""
        if any(key.rpartition("/")[2] == ZARR_JSON for key in self):
            return
        if any(map(is_metadata, self)):
            raise MalformedError("Zarr v2 metadata without a group or an array")
        raise MalformedError("not a reference manifest: it holds no zarr.json")

    def array_keys(self, keys: Iterable[str]) -> dict[str, "ChunkKeys"]:
        """Return the chunk keys of the arrays that some documents describe, by the arrays' paths."""
        arrays = {}
        for key in keys:
            path, _, name = key.rpartition("/")
            if name != ZARR_JSON or self.parsed(key).get("node_type") != "array":
                continue
            # more than dots: those would lead out of the manifest's directory
            if path and not all(part.strip(".") for part in path.split("/")):
                raise MalformedError("no path of a Zarr node", field=key)
            try:
                if key not in self._chunk_keys:
                    self._chunk_keys[key] = _chunk_keys(path, self.parsed(key))
                arrays[path] = self._chunk_keys[key]
            except (MalformedError, UnsupportedError) as error:
                error.field = f"{key}: {error.field}"
                raise
        return arrays


_RECORD_TEXTS = {"etag": "etag", "version": "version_id", "modified": "last_modified"}
_SOURCE = members(
    {"url": TEXT},
    {"size": nullable(integer()), **dict.fromkeys(_RECORD_TEXTS.values(), nullable(TEXT))},
)


def source_record(entry: Any, field: str) -> SourceRecord:
    """Return what an entry of a table of sources says."""
    try:
        _SOURCE(entry)
    except MalformedError as error:
        raise inside(error, field) from None
    texts = {name: entry.get(key) for name, key in _RECORD_TEXTS.items()}
    return SourceRecord(entry["url"], entry.get("size"), **texts)


def _chunk_keys(path: str, document: Mapping[str, Any]) -> "ChunkKeys":
    shape, chunks = tuple(document["shape"]), regular_chunks(document)
    if math.prod(chunks) > _MOST_ELEMENTS:
        raise UnsupportedError(
            f"chunks of {reprlib.repr(chunks)}, more than {_MOST_ELEMENTS} elements", field="chunk_grid"
        )
    encoding, separator = key_encoding(document)
    return ChunkKeys.encoded(path, grid_of(shape, chunks), encoding, separator)


@record
class ChunkKeys:
    """The chunk keys of one array: a prefix, then one index per axis.

    Follows https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#chunk-key-encoding.
    """

    grid: tuple[int, ...]
    prefix: str
    """Everything before the first index, the array's path included."""
    separator: str

    @classmethod
    def encoded(cls, path: str, grid: tuple[int, ...], encoding: str, separator: str) -> "ChunkKeys":
        """Return the keys of the array at `path` under one of Zarr's chunk key encodings."""
        folder = f"{path}/" if path else ""
        if separator not in {"/", "."}:
            raise MalformedError(f"a chunk key separator {separator!r}; Zarr has '/' and '.'", field="separator")
        match encoding:
            case "default":
                keys = cls(grid, f"{folder}c{separator}" if grid else f"{folder}c", separator)
            case "v2":
                keys = cls(grid, folder if grid else f"{folder}0", separator)
            case _:
                message = f"chunk key encoding {encoding!r}; known are default and v2"
                raise UnsupportedError(message, field="chunk_key_encoding")
        if keys.chunks >= _MOST_CHUNKS or len(grid) > AXES:
            raise UnsupportedError(f"a chunk grid of {grid}; the chunks are numbered in 62 bits", field="shape")
        return keys

    @cached_property
    def chunks(self) -> int:
        """Number of chunks of the grid."""
        return math.prod(self.grid)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """What one step along each axis adds to a chunk's number."""
        return tuple(math.prod(self.grid[axis + 1 :]) for axis in range(len(self.grid)))

    def number(self, key: str) -> int | None:
        """Return the C-order number of the chunk that a key names, None where it names none."""
        if not self.grid:
            return 0 if key == self.prefix else None
        if not key.startswith(self.prefix):
            return None
        parts = key[len(self.prefix) :].split(self.separator)
        if len(parts) != len(self.grid) or not all(map(_INDEX.fullmatch, parts)):
            return None
        index = [int(part) for part in parts]
        if any(at >= size for at, size in zip(index, self.grid, strict=True)):
            return None
        return sum(at * stride for at, stride in zip(index, self.strides, strict=True))

    def numbers(self, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return the C-order numbers of many chunks; a key that names none is an error that quotes it."""
        numbers = self.numbers_of_all(keys)
        return np.array([self.strict_number(key) for key in keys], np.int64) if numbers is None else numbers

    def strict_number(self, key: str) -> int:
        """Return the C-order number of the chunk that a key names; a key that names none is an error."""
        number = self.number(key)
        if number is None:
            raise MalformedError(f"not a chunk of a grid of {self.grid} with keys like {self.key(0)}", field=key)
        return number

    def numbers_of_all(self, keys: Sequence[str]) -> NDArray[np.int64] | None:
        """Return the C-order numbers of many chunks; None where any of the keys names none."""
        if not self.grid:
            return None
        text = "\n" + "\n".join(keys) + "\n"
        lead = f"\n{self.prefix}"
        if text.count(lead) < len(keys):
            return None
        index = read_indices(text.replace(lead, "\n").encode(), len(keys), len(self.grid), self.separator.encode())
        return None if index is None else self.numbers_at(index)

    def numbers_at(self, index: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the C-order numbers of chunks from a row of indices each; None where one is outside the grid."""
        if (index >= np.array(self.grid, np.int64)).any():
            return None
        return index @ np.array(self.strides, np.int64)

    def key(self, number: int) -> str:
        """Return the key of one chunk."""
        index = []
        for size in reversed(self.grid):
            number, at = divmod(number, size) if size else (0, 0)
            index.append(str(at))
        return self.prefix + self.separator.join(reversed(index))


def read_indices(text: bytes, rows: int, axes: int, separator: bytes) -> NDArray[np.int64] | None:
    """Read lines of indices with separators between them, or return None where the text is anything else."""
    if text.translate(None, _DIGITS + separator + b"\n"):
        return None
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data < ord("0"))
    if len(ends) != rows * axes + 1:
        return None
    marks = data[ends[1:]].reshape(rows, axes)
    if (marks[:, -1] != ord("\n")).any() or (marks[:, :-1] != ord(separator)).any():
        return None
    starts, lengths = ends[:-1] + 1, np.diff(ends) - 1
    if not rows or lengths.min() < 1 or lengths.max() > _LONGEST or ((data[starts] == ord("0")) & (lengths > 1)).any():
        return None
    value = np.zeros(len(starts), np.int64)
    for place in range(int(lengths.max())):
        inside = lengths > place
        value[inside] = value[inside] * 10 + (data[starts[inside] + place] - ord("0"))
    return value.reshape(rows, axes)
