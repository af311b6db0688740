"""Zarr that is there already, of version 2 and 3, as references to its chunks: metadata as they are, keys as listed.

VirtualiZarr's parser lists by obstore's own classes, which our sources cannot stand in for; Zarr's metadata are ours
to read anyway.  A chunk is the whole of its object, a shard too, with `sharding_indexed` in the metadata.  A key that
is not there is a missing chunk, in Zarr's own words.  HTTP has no listing: there the metadata have to be consolidated
or an array's own, and every chunk is taken to be there.

Follows https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html and version 2 as `core/zarr2.py` does.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core import codecs as codec
from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.codec_table import SHARDING
from jnrrdz.core.configuration import Codec, CodecSpec
from jnrrdz.core.json_schema import OBJECT, members, parse_json, validate
from jnrrdz.core.limits import DEEPEST, DOCUMENT_BYTES, GRID_CHUNKS, LIMITS, Budget, Resource
from jnrrdz.core.refs import WHOLE, ChunkRefs, References, refs_of_stored
from jnrrdz.core.state import Validators, modified_text, version_number
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.core.tree_files import GridFiles, NamedFiles
from jnrrdz.core.zarr2 import CONSOLIDATED, is_version_2, version_3
from jnrrdz.core.zarr_json import (
    MARKS,
    NODE,
    ZARR_JSON,
    Encoding,
    Separator,
    array_from_json,
    key_encoding,
    missing_number,
)
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.foreign.groups import READ, Conversion, plain_spelling
from jnrrdz.options import ScanOptions
from jnrrdz.sources.tree import Tree, UnlistedTree

VARIABLE = "data"
"""What an array is called that stands at the root."""

_LATER = {codec.SCALE_OFFSET, codec.CAST_VALUE, codec.RESHAPE}
_NUMBER = r"(?:0|[1-9][0-9]{0,8})"


class Described(NamedTuple):
    """An array as its document describes it, and how its chunks are called."""

    array: VirtualArray
    encoding: Encoding
    separator: Separator


type Ints = NDArray[np.int64]
type Texts = Mapping[str, bytes]


class Page(NamedTuple):
    """Keys that a listing showed, as one text: a million of them are no million objects."""

    keys: str
    sizes: Ints
    versions: Ints


@dataclass
class Keys:
    """What a listing shows of a store."""

    documents: dict[str, Validators] = field(default_factory=dict)
    pages: list[Page] = field(default_factory=list)

    def add(self, keys: Sequence[str], sizes: Sequence[int], marks: Sequence[Any]) -> None:
        """Take a page of keys, with the size of each object and what tells its state."""
        rows = []
        for row, key in enumerate(keys):
            if key.rpartition("/")[2] == ZARR_JSON or is_version_2(key):
                self.documents[key] = Validators.of_listing(sizes[row], marks[row])
            elif "\n" not in key:
                rows.append(row)
        if rows:
            numbers = np.array([(sizes[row], version_number(marks[row])) for row in rows], np.int64)
            self.pages.append(Page("\n".join(keys[row] for row in rows), numbers[:, 0], numbers[:, 1]))


class Chunks(NamedTuple):
    """The chunks of one array that are there: their indices, sizes, and what tells their state."""

    places: Ints
    sizes: Ints
    versions: Ints


def scan_zarr(tree: Tree, options: ScanOptions) -> VirtualGroup:
    """Return the virtual group of a Zarr store, or of an array of one."""
    if isinstance(tree, UnlistedTree):
        texts = _found(tree)
        states = {key: tree.states[key] for key in texts}
        documents = _version_3(texts, consolidated=True)
        found: Mapping[str, Chunks] = {}
    else:
        keys = Keys()
        for page in tree.pages():
            keys.add(*page)
        documents, states = _version_3(_read(tree, keys.documents), consolidated=False), keys.documents
        found = _chunks(keys.pages, {path: each for path, each in _facts(documents).items() if each is not None})
    conversion = Conversion({})
    budget = Budget(tree.bytes_read, tree.url)
    nodes: dict[str, Node] = {}
    for path, facts in _facts(documents, conversion).items():
        if facts is None:
            continue
        try:
            nodes[path] = _array(tree, path, facts, found.get(path), options, budget)
            conversion.kept += 1
        except UnsupportedError as error:
            conversion.leave_out(path or VARIABLE, error.message)
    root = _tree(documents, nodes)
    records = [
        SourceRecord(tree.url + key, state.size, state.etag, state.version, state.modified)
        for key, state in (states.items() if options.object_versions else ())
    ]
    latest = modified_text(math.ceil(tree.latest + 1e-6) * 10**9) if records and tree.latest else None
    sources = (SourceRecord(tree.url, modified=latest), *records)
    return conversion.finish(VirtualGroup(root.children, root.attributes, sources))


# Metadata


def _read(tree: Tree, states: Mapping[str, Validators]) -> dict[str, bytes]:
    """Return the documents of a store that is listed."""
    if not states:
        raise UnsupportedError("the folder holds no metadata of Zarr", url=tree.url)
    # what a group consolidates is what its members' own documents say
    wanted = sorted(key for key in states if key.rpartition("/")[2] != CONSOLIDATED)
    is_many = len(wanted) > LIMITS[Resource.DOCUMENTS].free
    if is_many or any(states[key].size > DOCUMENT_BYTES for key in wanted):
        raise UnsupportedError("metadata too large to read", url=tree.url)
    longest = max((states[key].size for key in wanted), default=1)
    return dict(zip(wanted, tree.read(wanted, max(longest, 1)), strict=True))


def _found(tree: UnlistedTree) -> dict[str, bytes]:
    """Return the documents of a store that cannot be listed: those at its root."""
    names = [ZARR_JSON, CONSOLIDATED, ".zarray", ".zattrs"]
    found = tree.find(names, DOCUMENT_BYTES)
    texts = {name: text for name, text in zip(names, found, strict=True) if text is not None}
    if not {ZARR_JSON, CONSOLIDATED, ".zarray"} & set(texts):
        raise UnsupportedError(
            "no metadata of Zarr at this URL, and HTTP has no listing to find others; name the store or an array of "
            "it, with consolidated metadata, or index it where it can be listed",
            url=tree.url,
        )
    return texts


_CONSOLIDATED = members({"metadata": OBJECT})


def _version_3(texts: Texts, *, consolidated: bool) -> dict[str, dict[str, Any]]:
    """Return the documents of all nodes by their paths, as version 3 says them."""
    older = {key: text for key, text in texts.items() if is_version_2(key)}
    own = {key: text for key, text in texts.items() if not is_version_2(key)}
    if older and not own:
        own = version_3(older).documents
    nodes: dict[str, dict[str, Any]] = {}
    for key, text in own.items():
        path = key[: -len(ZARR_JSON) - 1]
        document = validate(parse_json(text, field=key), NODE, key)
        inner = document.pop("consolidated_metadata", None)
        nodes[path] = document
        if consolidated and not older and inner is not None:
            validate(inner, _CONSOLIDATED, f"{key}: consolidated_metadata")
            for name, node in inner["metadata"].items():
                nodes[name] = validate(node, NODE, f"{key}: consolidated_metadata.metadata.{name}")
    is_alone = list(nodes) == [""] and nodes[""].get("node_type") == "group"
    if consolidated and is_alone:
        raise UnsupportedError(
            "a group without consolidated metadata, and HTTP has no listing; name an array of it, or consolidate it"
        )
    return nodes


def _facts(
    documents: Mapping[str, Mapping[str, Any]], conversion: Conversion | None = None
) -> dict[str, Described | None]:
    """Return what the documents of arrays say; None for one that is left out, and none for groups."""
    facts: dict[str, Described | None] = {}
    for path, document in documents.items():
        if document.get("node_type") != "array":
            continue
        try:
            facts[path] = Described(
                array_from_json(document, name=path.rpartition("/")[2] or VARIABLE), *key_encoding(document)
            )
        except UnsupportedError as error:
            facts[path] = None
            if conversion is not None:
                conversion.leave_out(path or VARIABLE, f"{error.field}: {error.message}")
        except JnrrdzError as error:
            raise error.at(field=f"{path}/{ZARR_JSON}".lstrip("/")) from error.__cause__
    return facts


def _codecs(entries: Sequence[Codec], itemsize: int) -> tuple[CodecSpec, ...]:
    """Return codecs as core Zarr says them; a chain that no bound is known of is refused by its codec's name."""
    codecs = tuple(CodecSpec(each.name, each.configuration) for each in (plain_spelling(e, itemsize) for e in entries))
    unread = sorted({each.name for each in codecs} - READ - _LATER - {SHARDING})
    if unread:
        raise UnsupportedError(f"codec {', '.join(unread)}")
    packers = [each.name for each in codecs if each.name in codec.COMPRESSORS]
    if len(packers) > 1:
        raise UnsupportedError(f"codecs {', '.join(packers)}, where one compressor is read")
    for each in codecs:
        if each.name == SHARDING:
            inner = [CodecSpec.from_json(entry) for entry in each.configuration["codecs"]]
            if len(codecs) > 1 or any(spec.name == SHARDING for spec in inner):
                raise UnsupportedError("shards with other codecs beside them, or shards in shards")
            _codecs(inner, itemsize)
    return codecs


# Chunks


def _pattern(facts: Described) -> re.Pattern[str]:
    """Return what the keys of an array's chunks are, below its own path."""
    separator, axes = re.escape(facts.separator), len(facts.array.shape)
    places = separator.join([_NUMBER] * axes)
    if facts.encoding == "v2":
        return re.compile(places or "0")
    return re.compile(f"c{separator}({places})" if axes else "c")


def _chunks(pages: list[Page], arrays: Mapping[str, Described]) -> dict[str, Chunks]:
    """Return the chunks of each array among listed keys; what is no chunk's key is passed over."""
    patterns = {path: _pattern(facts) for path, facts in arrays.items()}
    parts: dict[str, list[Chunks]] = defaultdict(list)
    while pages:
        keys, sizes, versions = pages.pop()
        rows: dict[str, list[int]] = defaultdict(list)
        texts: dict[str, list[str]] = defaultdict(list)
        for row, key in enumerate(keys.split("\n")):
            path = _array_of(key, patterns)
            match = None if path is None else patterns[path].fullmatch(key[len(path) + 1 if path else 0 :])
            if path is not None and match is not None:
                rows[path].append(row)
                texts[path].append(match[match.re.groups])
        for path, own in rows.items():
            axes, separator = len(arrays[path].array.shape), arrays[path].separator
            numbers = np.fromstring(separator.join(texts[path]), np.int64, sep=separator) if axes else np.empty(0)
            index = numbers.astype(np.int64).reshape(len(own), axes)
            parts[path].append(Chunks(index, sizes[own], versions[own]))
    return {path: Chunks(*map(np.concatenate, zip(*own, strict=True))) for path, own in parts.items()}


def _array_of(key: str, paths: Mapping[str, Any]) -> str | None:
    """Return the path of the array that a key is in, None where it is in none."""
    if "" in paths:
        return ""
    end = key.rfind("/")
    while end >= 0:
        if key[:end] in paths:
            return key[:end]
        end = key.rfind("/", 0, end)
    return None


def _array(  # noqa: PLR0913, PLR0917  one array of a store, and what all arrays share
    tree: Tree, path: str, facts: Described, chunks: Chunks | None, options: ScanOptions, budget: Budget
) -> VirtualArray:
    array = facts.array
    codecs = _codecs(array.codecs, array.dtype.itemsize)
    grid, total = array.grid, array.refs.chunks
    is_listed = not isinstance(tree, UnlistedTree)
    if total > GRID_CHUNKS:
        raise UnsupportedError(f"a grid of {total} chunks, there or not; {GRID_CHUNKS} are taken")
    if is_listed:
        refs = ChunkRefs.empty(total) if chunks is None else _refs(tree.url, path, facts, grid, chunks)
        if not options.object_versions:
            refs = refs.without_versions()
    else:
        budget.charge(Resource.MISSING_CHUNKS, total)
        every = np.arange(total)
        index = np.column_stack(np.unravel_index(every, grid)) if grid else np.empty((total, 0), np.int64)
        nothing = np.zeros(total, np.int64)
        refs = _refs(tree.url, path, facts, grid, Chunks(index, np.full(total, WHOLE), nothing))
    attributes = _attributes(array, path)
    return replace(array, codecs=codecs, refs=refs, attributes=attributes)


def _attributes(array: VirtualArray, path: str) -> dict[str, Any]:
    """Return attributes as scans have them: marks of missing values are numbers."""
    attributes = dict(array.attributes)
    for name in MARKS:
        value = attributes.pop(name, None)
        if value is None:
            continue
        try:
            number = missing_number(value, array.dtype, name)
        except MalformedError as error:
            error.field = f"{path}/{ZARR_JSON}: attributes.{error.field}".lstrip("/")
            raise
        if number is not None:
            attributes[name] = number.item()
    return attributes


def _refs(url: str, path: str, facts: Described, grid: tuple[int, ...], chunks: Chunks) -> References:
    """Return each chunk that is there as the whole of its object."""
    index, sizes, versions = chunks
    inside = (index < np.array(grid, np.int64)).all(axis=1)
    number = np.ravel_multi_index(tuple(index[inside].T), grid) if grid else np.zeros(len(index), np.int64)
    order = np.argsort(number)
    rows = np.flatnonzero(inside)[order]
    lead = "" if facts.encoding == "v2" else f"c{facts.separator}"
    folder = f"{url}{path}/" if path else url
    if grid:
        names = np.column_stack((np.zeros(len(rows), np.int32), index[rows].astype(np.int32)))
        files: GridFiles | NamedFiles = GridFiles(url, (folder + lead,), names, facts.separator)
    else:
        files = NamedFiles(url, (folder + ("0" if facts.encoding == "v2" else "c"),) * len(rows))
    known = versions[rows] if versions[rows].any() else None
    stored = ChunkRefs(
        files,
        np.arange(len(rows) + 1, dtype=np.int64),
        np.arange(len(rows), dtype=np.int32),
        np.zeros(len(rows), np.int64),
        sizes[rows],
        version=known,
    )
    return refs_of_stored(math.prod(grid), number[order], stored)


# The tree of groups


def _tree(documents: Mapping[str, Mapping[str, Any]], arrays: Mapping[str, Node]) -> VirtualGroup:
    """Return the groups with their arrays; an array at the root stands in a group of its own."""
    if "" in arrays:
        return VirtualGroup({VARIABLE: arrays[""]})
    below: dict[str, set[str]] = defaultdict(set)
    for path in filter(None, (*documents, *arrays)):
        parts = path.split("/")
        if len(parts) > DEEPEST:
            raise UnsupportedError(f"a node {len(parts)} groups deep; {DEEPEST} are read", field="path")
        for depth, name in enumerate(parts):
            below["/".join(parts[:depth])].add(name)

    def group(path: str) -> VirtualGroup:
        prefix = f"{path}/" if path else ""
        children: dict[str, Node] = {}
        for name in sorted(below[path]):
            inner = f"{prefix}{name}"
            if inner in arrays:
                children[name] = arrays[inner]
            elif documents.get(inner, {}).get("node_type") != "array":
                children[name] = group(inner)
        return VirtualGroup(children, dict(documents.get(path, {}).get("attributes") or {}))

    return group("")
