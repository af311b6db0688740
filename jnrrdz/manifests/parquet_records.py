"""Kerchunk references as a directory of Parquet files, laid out as stock fsspec opens it, and how they are read.

Follows
https://fsspec.github.io/kerchunk/spec.html#parquet-references and what fsspec's `LazyReferenceMapper` does:

    .zmetadata            {"metadata": {key: document}, "record_size": n}; chunk keys are of the v2 form, "data/0.0"
    data/refs.N.parq      rows N*n to (N+1)*n of the chunks in C order: path, offset, size, raw, and where they are
                          needed version; range_path, offsets, sizes

- A missing chunk's path is null.  A record of nothing but missing chunks has its file all the same: fsspec goes
  through all of them when it is to find out the sources' protocol.
- A chunk that is a whole file has offset and size 0: fsspec takes that for all of it.
- Where many chunks are whole objects of a tree, `version` tells what is known of each object's state (below 0 63
  bits of a digest of its ETag, above 0 nanoseconds since 1970, 0 nothing).  fsspec takes the columns that it knows.
- An inline chunk's bytes stand in `raw`, after `base64:` and encoded where they begin with that very text.
- A scattered chunk (unless `single_range` made it its span) stands in the columns of osml-imagery-io: its source's URL
  in `range_path`, the ranges that follow each other in the lists `offsets` and `sizes`.  Its path is an empty text,
  where osml-imagery-io writes null: stock fsspec opens no file of that name and says so, and takes null for a missing
  chunk, which zarr would show as the fill value.  offset and size are those of the span.
- Earlier versions wrote SCATTERED and the URL as the path, and the ranges (chunk, offset, size) to `ranges.N.parq`.
- `.zmetadata` holds a stub `.zarray` for every node: fsspec takes the grid from it and knows no zarr.json.

Opening reads `.zmetadata`.  References are read record by record, when a chunk is asked for.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from jnrrdz.caches import BoundedCache
from jnrrdz.core.json_schema import (
    TEXT,
    integer,
    list_of,
    members,
    nullable,
    parse_json,
    refused,
    validate,
)
from jnrrdz.core.limits import LISTED_RECORDS, RECORD_BYTES, RECORD_CHUNKS, RECORDS_AT_ONCE
from jnrrdz.core.refs import (
    ALL,
    SCATTERED,
    WHOLE,
    ByteRange,
    ChunkRefs,
    Ints,
    Ranges,
    References,
    Shard,
    SparseRefs,
    in_turn,
    refuse_many_chunks,
    without_unused,
)
from jnrrdz.core.windows import chunks_along
from jnrrdz.core.zarr2 import is_version_2, version_3
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.manifests import parquet_pages
from jnrrdz.manifests.columns import Columns, Piece
from jnrrdz.manifests.documents import METADATA, ChunkKeys, Documents, is_metadata
from jnrrdz.manifests.json_refs import Templates, inline_bytes
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.ranges import ByteSource
from jnrrdz.sources.url import join_folder, local_path

BASE64 = b"base64:"
LISTS = ("offsets", "sizes")
OWN = "jnrrdz"
"""The member of METADATA that only jnrrdz reads, while a manifest is being written or replaced."""
FOLDER_NAME = re.compile(r"\.jnrrdz-[0-9a-f]{16}")
# fastparquet reads an optional integer as a float where a file has no statistics
REFERENCES = pa.schema(
    [
        pa.field("path", pa.dictionary(pa.int32(), pa.string())),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("raw", pa.binary()),
    ]
)
VERSION = pa.field("version", pa.int64(), nullable=False)
LIST = pa.list_(pa.field("element", pa.int64(), nullable=False))
RANGES = (pa.field("range_path", pa.dictionary(pa.int32(), pa.string())), *(pa.field(name, LIST) for name in LISTS))

_KEPT = 16  # records of one array in memory; a record of 100,000 chunks takes some 3 MB
_MOST_LISTED_THERE = 1 << 16  # groups of rows, columns: what a footer's list may say
_COLUMNS = ("path", "offset", "size", "raw")
_MORE = (VERSION.name, *(field.name for field in RANGES))
_TEXTS = ("path", "raw", "range_path")
_PLACES = ("path", "range_path")
_LISTS_READ = pa.list_(pa.int64())

_FORMS = (_COLUMNS, _COLUMNS[:3], _COLUMNS[3:])  # kerchunk leaves out what a record has none of

type Options = Mapping[str, Any] | None


def read_parquet(
    url: str, source: ByteSource, options: Options, overrides: Mapping[str, str] | None = None
) -> tuple[Documents, dict[str, "ParquetRefs"], "Layout"]:
    """Return the documents, each array's references by its path, and where the files are; reads none of these.

    `overrides` stand for templates in its URLs.  There is no place for their values in this form; without any,
    osml-imagery-io's `base` is the folder of the manifest.
    """
    (text,) = source.read([(0, source.validators.size)])
    return read_metadata(url, parse_json(text, field=METADATA), options, overrides)


def read_metadata(
    url: str, top: Any, options: Options, overrides: Mapping[str, str] | None = None
) -> tuple[Documents, dict[str, "ParquetRefs"], "Layout"]:
    """Return the same of a METADATA that is read and parsed."""
    nodes = top.get("metadata") if isinstance(top, dict) else None
    if not isinstance(nodes, dict):
        if isinstance(top, dict) and "begun" in own_member(top):
            raise MalformedError("its writer was stopped, or is at work; write it again with --overwrite", url=url)
        raise MalformedError("no metadata", field=METADATA)
    layout = laid_out(top)
    every = {key: node for key, node in nodes.items() if is_metadata(key)}
    # next to version 3's they are stubs for fsspec's sake, and mean nothing
    plain = {key: node for key, node in every.items() if not is_version_2(key)}
    documents = Documents(objects=plain)
    if not plain:
        translated = version_3({key: json.dumps(node).encode() for key, node in every.items()})
        documents = Documents(translated.documents)
        documents.foreign |= translated.foreign
    documents.require_v3()
    templates = {"base": "", **(overrides or {})}
    arrays = {}
    for path, keys in documents.array_keys(documents).items():
        place = join_folder(url, f"{layout.folder}{path}".rstrip("/")) if layout.folder or path else url
        moved = {name.removeprefix(f"{path}/"): join_folder(url, layout.where(name)) for name in layout.moved_of(path)}
        arrays[path] = ParquetRefs(keys.chunks, place, layout.record_size, options, templates=templates, moved=moved)
    return documents, arrays, layout


def own_member(top: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what METADATA says to jnrrdz alone."""
    own = top.get(OWN)
    return own if isinstance(own, dict) else {}


class Layout(NamedTuple):
    """Where the files of a manifest are."""

    record_size: int
    folder: str = ""
    """What stands before the names of all files while they replace others, with a slash at its end."""
    over: str = ""
    """The same of `moved`."""
    moved: frozenset[str] = frozenset()
    """The files that replace others while the rest stays."""

    def where(self, name: str) -> str:
        """Return the name of a file below the manifest's folder."""
        return f"{self.over if name in self.moved else self.folder}{name}"

    def moved_of(self, path: str) -> list[str]:
        """Return those of the moved files that are in the folder of an array."""
        return [name for name in self.moved if name.rpartition("/")[0] == path]


def _folder(value: Any) -> str:
    """Accept the name of a folder of records."""
    if not isinstance(value, str) or not FOLDER_NAME.fullmatch(value):
        raise refused(value, "a name of a folder of records")
    return value


_SIZE = integer(1, RECORD_CHUNKS)
_PLACE = {"record_size": _SIZE, "folder": nullable(_folder)}
_OVER = members({}, {**_PLACE, "files": list_of(TEXT)})
_LAYOUT = members({}, {"record_size": _SIZE, OWN: nullable(members({}, {**_PLACE, "over": nullable(_OVER)}))})


def laid_out(top: Mapping[str, Any]) -> Layout:
    """Return the record size, and the folders that files are in while they replace others."""
    validate(top, _LAYOUT, METADATA)
    own = own_member(top)
    over = own.get("over") or {}
    size = over.get("record_size", own.get("record_size", top.get("record_size")))
    if size is None:
        raise MalformedError("is missing", field=f"{METADATA}: record_size")
    every, some = (f"{place['folder']}/" if place.get("folder") else "" for place in (own, over))
    return Layout(size, every, some, frozenset(over.get("files", ()) if some else ()))


class ParquetRefs(References):
    """References in Parquet files, the last used of which stay in memory."""

    def __init__(  # noqa: PLR0913  what the references are of, and where their files are
        self,
        chunks: int,
        folder: str,
        record_size: int,
        options: Options,
        *,
        templates: Mapping[str, str] | None = None,
        moved: Mapping[str, str] | None = None,
    ) -> None:
        """Take the folder of the records; `moved` has URLs of files that are elsewhere while they replace others."""
        self.chunks = chunks
        self._folder = folder
        self._record_size = record_size
        self._options = options
        self._templates = dict(templates or {})
        self._moved = dict(moved or {})
        self._start()

    def _start(self) -> None:
        self._records = BoundedCache[int, ChunkRefs | SparseRefs](most=_KEPT)
        self._blank: tuple[bytes, ChunkRefs | SparseRefs] | None = None

    @cached_property
    def sources(self) -> Sequence[str]:  # type: ignore[override]  # mypy forgets that it can be set
        """URLs of the sources of all records, which are read for them."""
        parts = (without_unused(part) for _, part in self.parts())
        return tuple(dict.fromkeys(url for part in parts for url in part.sources))

    def ready(self, chunk: int) -> bool:
        """Whether `lookup` answers without waiting for a network."""
        return chunk // self._record_size in self._records or local_path(self._folder) is not None

    def lookup(self, chunk: int) -> list[ByteRange] | bytes:
        """Return a chunk's ranges, or its inline bytes; an empty list where it is missing."""
        record, row = divmod(chunk, self._record_size)
        return self._record(record).lookup(row)

    def ranges_of(self, chunks: Ints) -> Ranges:
        """Return the ranges of many chunks at once; each record is read once."""
        records = chunks // self._record_size
        numbers = np.unique(records).tolist()
        places = [np.flatnonzero(records == number) for number in numbers]
        parts = [
            self._record(number).ranges_of(chunks[place] % self._record_size)
            for number, place in zip(numbers, places, strict=True)
        ]
        return Ranges.joined(parts, places)

    def chunk_version(self, chunk: int) -> int:
        """Return the recorded state of a chunk that is a whole object, 0 where none is recorded."""
        record, row = divmod(chunk, self._record_size)
        return self._record(record).chunk_version(row)

    @property
    def present(self) -> Ints:
        """Return the numbers of the chunks that are not missing, ascending; reads every record."""
        records = -(-self.chunks // self._record_size)
        if records > LISTED_RECORDS:
            raise UnsupportedError(f"{records} records to list", url=self._folder)
        size = self._record_size
        numbers = self._with_files(range(records))
        chunks = [number * size + self._record(number).present for number in numbers]
        present = np.concatenate([np.empty(0, np.int64), *chunks])
        return present[present < self.chunks]

    def parts(self, shard: Shard = ALL) -> Iterator[tuple[int, ChunkRefs]]:
        """Yield records, each with the number of its first chunk; those without a reference are left out."""
        for number in self._part_numbers(shard):
            if not _is_blank(self._record(number)):
                yield self._part(number)

    def _part_numbers(self, shard: Shard = ALL) -> Sequence[int]:
        return self._with_files(super()._part_numbers(shard))

    def _with_files(self, records: Sequence[int]) -> Sequence[int]:
        """Return the records that may have a file; a local folder is listed for that."""
        folder = local_path(self._folder)
        if folder is None:
            return records
        try:
            names = {*os.listdir(folder), *self._moved}  # noqa: PTH208
        except FileNotFoundError:
            names = set(self._moved)
        except OSError:
            return records
        return [number for number in records if f"refs.{number}.parq" in names]

    def columns(self) -> ChunkRefs:
        """Return all records in memory, the last one cut where the grid ends."""
        refuse_many_chunks(self.chunks)
        records = -(-self.chunks // self._record_size)
        if records > RECORDS_AT_ONCE:
            raise UnsupportedError(f"{records} records; no more than {RECORDS_AT_ONCE} are read at once")
        return self.gathered().columns()

    def stored(self) -> ChunkRefs:
        """Return all references in memory; missing chunks may have no row."""
        return self.gathered().stored()

    def record(self, record: int) -> ChunkRefs:
        """Return the references of one record."""
        return self._record(record).columns()

    @property
    def together(self) -> int:
        """Chunks whose references are best read together: those of a record."""
        return self._record_size

    def part(self, start: int, stop: int) -> ChunkRefs:
        """Return those of the chunks from `start` to before `stop` in memory; reads the records that they are in."""
        size = self._record_size
        begins = {number: number * size for number in chunks_along(start, stop, size)}
        parts = [
            self._record(number).part(max(start - begin, 0), min(stop - begin, size))
            for number, begin in begins.items()
        ]
        return parts[0] if len(parts) == 1 else in_turn(parts)

    @property
    def url(self) -> str:
        """Where the records are."""
        return self._folder

    def _record(self, record: int) -> ChunkRefs | SparseRefs:
        return self._records.made(record, lambda: self._load(record))

    def parts_with(self, urls: frozenset[str]) -> Iterator[tuple[int, ChunkRefs]]:
        """Yield the records that may refer to some sources, each with the number of its first chunk.

        Of other records no more is read than their URLs.
        """
        records = range(-(-self.chunks // self._record_size))
        for number in self._with_files(records):
            if self._may_hold(number, urls):
                yield self._part(number)

    def _may_hold(self, record: int, urls: frozenset[str]) -> bool:
        url, templates = self._place(f"refs.{record}.parq"), Templates(self._templates)
        try:
            table = self._table(url, _PLACES)
            found = [] if table is None else [_dictionary_of(table, name)[1] for name in _PLACES]
            return any(templates.expand(text.removeprefix(SCATTERED)) in urls for texts in found for text in texts)
        except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
            raise MalformedError(f"not a record of references: {error}", url=url) from error
        except JnrrdzError as error:
            raise error.at(url=url) from None

    def _place(self, name: str) -> str:
        return self._moved.get(name) or join_folder(self._folder, name)

    def _load(self, record: int) -> ChunkRefs | SparseRefs:
        columns = Columns(ChunkKeys((self._record_size,), "", "."))
        url = self._place(f"refs.{record}.parq")
        try:
            data = self._data(url)
            if data is None:  # other writers leave out records of missing chunks
                return SparseRefs(ChunkRefs.empty(0), np.empty(0, np.int64), self._record_size)
            if self._blank is not None and self._blank[0] == data:
                return self._blank[1]
            table = _table_of(data, (*_COLUMNS, *_MORE))
            if table.num_rows > self._record_size:
                raise MalformedError(f"{table.num_rows} rows in a record of {self._record_size}")
            if tuple(name for name in table.column_names if name not in _MORE) not in _FORMS:
                raise MalformedError(f"the columns {table.column_names}; {_COLUMNS} are a record's")
            refs = self._filled(columns, table, record)
        except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
            # OSError is what a damaged page is to Arrow, ValueError a path that is no text
            raise MalformedError(f"not a record of references: {error}", url=url) from error
        except JnrrdzError as error:
            raise error.at(url=url) from None
        if _is_blank(refs):  # records of missing chunks have the same bytes
            self._blank = data, refs
        return refs

    def _filled(self, columns: Columns, table: pa.Table, record: int) -> ChunkRefs | SparseRefs:
        """Return the record's rows as columns; each rule is one of fsspec's."""
        code, several, urls = _places(table)
        held = _inline(table)
        for row, data in held.items():
            columns.add_inline(row, data)
        offset, size = _integers(table, "offset"), _integers(table, "size")
        size = np.where((offset == 0) & (size == 0), WHOLE, size)
        there = code >= 0
        there[list(held)] = False
        scattered = np.array([url.startswith(SCATTERED) for url in urls] + [False])[code] & there
        plain = np.flatnonzero(there & ~scattered)
        columns.pieces.append(Piece(plain, code[plain], offset[plain], size[plain]))
        if scattered.any():
            columns.pieces.append(self._scattered(np.flatnonzero(scattered), code, record))
        if several is not None:
            columns.pieces.append(several)
            there[several.chunks] = True
        templates = Templates(self._templates)
        refs = columns.build(tuple(templates.expand(url.removeprefix(SCATTERED)) for url in urls))
        is_versioned = VERSION.name in table.column_names
        if not is_versioned:
            return refs
        return refs.with_chunk_versions(_integers(table, VERSION.name)[there])

    def _scattered(self, rows: Ints, code: NDArray[np.int32], record: int) -> Piece:
        """Return the ranges of some rows as earlier versions wrote them."""
        url = self._place(f"ranges.{record}.parq")
        table = self._table(url, ("chunk", "offset", "size"))
        if table is None:
            raise MalformedError("missing, although chunks of several ranges need it", url=url)
        chunk = _integers(table, "chunk")
        needed, counts = np.unique(chunk, return_counts=True)
        if (np.diff(chunk) < 0).any() or not np.array_equal(needed, rows):
            raise MalformedError("ranges of other chunks than those that need them", url=url, field="chunk")
        source = code[chunk]
        return Piece(rows, source, _integers(table, "offset"), _integers(table, "size"), counts)

    def _table(self, url: str, names: tuple[str, ...]) -> pa.Table | None:
        """Return those of the columns that a file has, None where there is no such file."""
        data = self._data(url)
        return None if data is None else _table_of(data, names)

    def _data(self, url: str) -> bytes | None:
        """Return the bytes of a file of references, None where there is no such file."""
        try:
            source = open_source(url, storage_options=self._options)
            size = source.validators.size
            if size > RECORD_BYTES:
                raise UnsupportedError(f"a record of {size} bytes; {RECORD_BYTES} are read", url=url)
            (data,) = source.read([(0, size)])
        except JnrrdzError as error:
            cause = error.__cause__
            if not isinstance(cause, FileNotFoundError):
                raise
            # the frames of both refer to them, and to the columns of all callers
            error.__traceback__ = cause.__traceback__ = None
            return None
        return data

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.__getstate__(),)

    def __getstate__(self) -> dict[str, Any]:
        caches = {"_records", "_blank", "sources"}
        return {name: value for name, value in self.__dict__.items() if name not in caches}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def __eq__(self, other: object) -> bool:
        """Whether both read the same files."""
        return isinstance(other, ParquetRefs) and self.__getstate__() == other.__getstate__()

    __hash__ = None  # equal by value, as the other forms are


def _reopened(state: dict[str, Any]) -> ParquetRefs:
    refs = ParquetRefs.__new__(ParquetRefs)
    refs.__setstate__(state)
    return refs


def _is_blank(refs: ChunkRefs | SparseRefs) -> bool:
    """Whether a record has no reference."""
    stored = refs.stored()
    return not len(stored.source) and not stored.inline


def _table_of(data: bytes, names: tuple[str, ...]) -> pa.Table:
    """Return those of the columns that a file has."""
    parquet_pages.check(data)
    footer = pq.ParquetFile(pa.BufferReader(data), thrift_container_size_limit=_MOST_LISTED_THERE)
    metadata = footer.metadata
    columns = {metadata.schema.column(at).path.partition(".")[0] for at in range(metadata.num_columns)}
    present = [name for name in names if name in columns]
    # a value of a dictionary is in memory once, however many rows have it
    texts = [name for name in present if name in _TEXTS]
    file = pq.ParquetFile(pa.BufferReader(data), metadata=metadata, read_dictionary=texts)
    return file.read(present)


def _dictionary_of(table: pa.Table, name: str) -> tuple[NDArray[np.int32], list[str]]:
    """Return the number of each row's URL, -1 where it has none, and the URLs."""
    if name not in table.column_names:
        return np.full(table.num_rows, -1, np.int32), []
    return _dictionary(table[name], pa.string())


def _places(table: pa.Table) -> tuple[NDArray[np.int32], Piece | None, list[str]]:
    """Return each row's number of a URL, -1 where it has no single range, the rows of several, and the URLs."""
    code, paths = _dictionary_of(table, "path")
    if LISTS[0] not in table.column_names:
        return code, None, paths
    range_code, range_paths = _dictionary_of(table, "range_path")
    (counts, offset), (others, size) = (_lists(table, name) for name in LISTS)
    rows = np.flatnonzero(counts)
    if not np.array_equal(counts, others) or (range_code[rows] < 0).any():
        raise MalformedError("ranges without a URL, or not as many sizes as offsets", field="offsets")
    code[rows] = -1  # what stands there is for readers that do not know the lists
    urls = list(dict.fromkeys([*(paths[number] for number in np.unique(code[code >= 0])), *range_paths]))
    number = {url: at for at, url in enumerate(urls)}
    code = np.array([number.get(url, -1) for url in paths] + [-1], np.int32)[code]
    range_code = np.array([number[url] for url in range_paths], np.int32)[range_code[rows]]
    return code, Piece(rows, np.repeat(range_code, counts[rows]), offset, size, counts[rows]), urls


def _lists(table: pa.Table, name: str) -> tuple[Ints, Ints]:
    """Return how many numbers each row's list has, and the numbers of all of them."""
    if name not in table.column_names:
        return np.zeros(table.num_rows, np.int64), np.empty(0, np.int64)
    column = table[name].cast(_LISTS_READ).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    values = column.flatten()  # without what may stand behind a null
    if values.null_count:
        raise MalformedError("a list without a number", field=name)
    lengths = column.value_lengths().cast(pa.int64())
    return np.where(valid(lengths), numbers(lengths, np.int64), 0), numbers(values, np.int64)


def _dictionary(column: pa.ChunkedArray, kind: pa.DataType) -> tuple[NDArray[np.int32], list[Any]]:
    """Return the number of each row's value, -1 where it has none, and the values."""
    if not pa.types.is_dictionary(column.type):
        column = column.cast(kind).dictionary_encode()
    column = column.unify_dictionaries().combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        return np.empty(0, np.int32), []
    indices = column.indices.cast(pa.int32())
    code = np.where(valid(indices), numbers(indices, np.int32), np.int32(-1))
    values = column.dictionary.cast(kind).to_pylist()
    if code.max(initial=-1) >= len(values) or code.min(initial=-1) < -1:
        raise MalformedError("a row of another value than its dictionary has", field="path")
    return code, values


def _integers(table: pa.Table, name: str) -> Ints:
    if name not in table.column_names:
        return np.zeros(table.num_rows, np.int64)
    column = table[name].cast(pa.int64()).combine_chunks()
    if column.null_count:
        raise MalformedError("a row without a number", field=name)
    return numbers(column, np.int64)


def _inline(table: pa.Table) -> dict[int, bytes]:
    """Return the bytes that stand in the record itself, by row."""
    if "raw" not in table.column_names or table["raw"].null_count == table.num_rows:
        return {}
    code, values = _dictionary(table["raw"], pa.binary())
    held = [
        (inline_bytes(data.decode("ascii", "replace"), f"value {number} of raw") or b"")
        if data.startswith(BASE64)
        else data
        for number, data in enumerate(values)
    ]
    return {row: held[code[row]] for row in np.flatnonzero(code >= 0).tolist()}


# numpy's columns as Arrow's and back; `pa.array`, `to_numpy` and `fill_null` import pandas when they are called first,
# which takes longer than a million references


_TYPES = {np.dtype(np.int32): pa.int32(), np.dtype(np.int64): pa.int64()}


def integers(column: NDArray[np.integer], present: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return a column of 32 or 64 bit integers, null where it is not `present`."""
    data = pa.py_buffer(np.ascontiguousarray(column))
    bits = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(_TYPES[column.dtype], len(column), [bits, data])


def texts(values: Iterable[str | None]) -> pa.Array:
    """Return a column of texts, null where there is none, of at most 2 GB together."""
    encoded = [None if value is None else value.encode() for value in values]
    offsets = np.cumsum([0, *(len(text or b"") for text in encoded)]).astype(np.int32)
    present = np.array([text is not None for text in encoded], bool)
    bits = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    data = pa.py_buffer(b"".join(text or b"" for text in encoded))
    return pa.Array.from_buffers(pa.string(), len(encoded), [bits, pa.py_buffer(offsets), data])


def numbers[Kind: np.generic](column: pa.Array, kind: type[Kind]) -> NDArray[Kind]:
    """Return a copy of a column of numbers; what stands for nulls has no meaning."""
    values = np.frombuffer(column.buffers()[1], kind) if len(column) else np.empty(0, kind)
    return values[column.offset : column.offset + len(column)].copy()


def valid(column: pa.Array) -> NDArray[np.bool_]:
    """Return which values are not null."""
    return numbers(column.is_valid().cast(pa.uint8()), np.uint8).astype(bool)
