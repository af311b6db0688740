"""A Parquet manifest, whose references are read record by record when a chunk is asked for.

May touch pyarrow, numpy, read.columns, read.documents, sources and errors.  Follows
https://fsspec.github.io/kerchunk/spec.html#parquet-references as fsspec's `LazyReferenceMapper` reads
it: `.zmetadata` with the documents and the record size, `ARRAY/refs.N.parq` with the columns path,
offset, size, raw.  Beside it stands `ARRAY/ranges.N.parq` (chunk, offset, size) for chunks of several
ranges, whose path begins with `SCATTERED`.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from jnrrdz.core.refs import SCATTERED, WHOLE, ByteRange
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.manifests.arrow_read import numbers, valid
from jnrrdz.manifests.columns import ColumnarRefs, Columns, Ints, Piece
from jnrrdz.manifests.documents import array_keys, is_metadata, parse_json, refuse_without_v3
from jnrrdz.manifests.keys import ChunkKeys
from jnrrdz.manifests.references import inline_bytes
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.url import local_path

METADATA = ".zmetadata"
_KEPT = 16  # records of one array in memory; a record of 100,000 chunks takes some 3 MB
_MOST_ROWS = 1 << 24  # of a record: columns of one value cost a file next to nothing, whatever their length
_MOST_BYTES = 1 << 30  # of a record, decoded
_MOST_RECORDS = 1 << 20  # of an array, where all have to be read
_COLUMNS = ("path", "offset", "size", "raw")

_FORMS = (_COLUMNS, _COLUMNS[:3], _COLUMNS[3:])  # kerchunk leaves out what a record has none of

type Options = Mapping[str, Any] | None


def read_parquet(url: str, metadata: bytes, options: Options) -> tuple[dict[str, bytes], dict[str, "ParquetRefs"]]:
    """Return the documents, and each array's references by its path; reads no record."""
    top = parse_json(metadata, field=METADATA)
    found = top.get("metadata") if isinstance(top, dict) else None
    size = top.get("record_size") if isinstance(top, dict) else None
    if not isinstance(found, dict) or type(size) is not int or not 0 < size <= _MOST_ROWS:
        raise MalformedError(f"no metadata with a record size of 1 to {_MOST_ROWS}", field=METADATA)
    documents = {key: json.dumps(document).encode() for key, document in found.items() if is_metadata(key)}
    refuse_without_v3(documents)
    arrays = {}
    for array in filter(None, map(array_keys, documents, documents.values())):
        path, keys = array
        arrays[path] = ParquetRefs(keys, "/".join(filter(None, (url.rstrip("/"), path))), size, options)
    # the others are stubs for fsspec's sake, and Zarr v2's documents beside v3's mean nothing
    return {key: data for key, data in documents.items() if not key.rpartition("/")[2].startswith(".z")}, arrays


class ParquetRefs:
    """References in Parquet files, the last used of which stay in memory."""

    def __init__(self, keys: ChunkKeys, folder: str, record_size: int, options: Options) -> None:
        self.keys = keys
        self._folder = folder
        self._record_size = record_size
        self._options = options
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._records: OrderedDict[int, ColumnarRefs] = OrderedDict()

    def ready(self, chunk: int) -> bool:
        """Whether `lookup` answers without waiting for a network."""
        return chunk // self._record_size in self._records or local_path(self._folder) is not None

    def lookup(self, chunk: int) -> list[ByteRange] | bytes:
        """Return a chunk's ranges, or its inline bytes; an empty list where it is missing."""
        record, row = divmod(chunk, self._record_size)
        return self._record(record).lookup(row)

    def present(self) -> Ints:
        """Return the numbers of the chunks that are not missing, ascending; reads every record."""
        records = -(-self.keys.chunks // self._record_size)
        if records > _MOST_RECORDS:
            raise UnsupportedError(f"{records} records to list", url=self._folder)
        found = [self._record(record).present() + record * self._record_size for record in range(records)]
        chunks = np.concatenate([np.empty(0, np.int64), *found])
        return chunks[chunks < self.keys.chunks]

    def _record(self, record: int) -> ColumnarRefs:
        with self._lock:  # held while reading, so that chunks asked for together read their record once
            found = self._records.pop(record, None)
            if found is None:
                found = self._load(record)
                if len(self._records) >= _KEPT:
                    self._records.popitem(last=False)
            self._records[record] = found
            return found

    def _load(self, record: int) -> ColumnarRefs:
        columns = Columns(ChunkKeys((self._record_size,), "", "."))
        url = f"{self._folder}/refs.{record}.parq"
        try:
            table = self._table(url, _COLUMNS)
            if table is None:  # a record of missing chunks is not written
                return columns.build(())
            if table.num_rows > self._record_size:
                raise MalformedError(f"{table.num_rows} rows in a record of {self._record_size}")
            if tuple(table.column_names) not in _FORMS:
                raise MalformedError(f"the columns {table.column_names}; {_COLUMNS} are a record's")
            return self._filled(columns, table, record)
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            # OSError is what a damaged page is to Arrow, ValueError a path that is no text
            raise MalformedError(f"not a record of references: {error}", url=url) from error
        except JnrrdzError as error:
            raise error.at(url=url) from None

    def _filled(self, columns: Columns, table: pa.Table, record: int) -> ColumnarRefs:
        """Return the record's rows as columns; each rule is one of fsspec's."""
        code, urls = _paths(table)
        held = _inline(table)
        for row, data in held.items():
            columns.add_inline(row, data)
        offset, size = _integers(table, "offset"), _integers(table, "size")
        size = np.where((offset == 0) & (size == 0), WHOLE, size)
        there = code >= 0
        there[list(held)] = False
        scattered = np.array([url.startswith(SCATTERED) for url in urls] + [False])[code] & there
        plain = np.flatnonzero(there & ~scattered)
        columns.add(Piece(plain, code[plain], offset[plain], size[plain]))
        if scattered.any():
            columns.add(self._scattered(np.flatnonzero(scattered), code, record))
        return columns.build(tuple(url.removeprefix(SCATTERED) for url in urls))

    def _scattered(self, rows: Ints, code: NDArray[np.int32], record: int) -> Piece:
        url = f"{self._folder}/ranges.{record}.parq"
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
        try:
            source = open_source(url, storage_options=self._options)
            (data,) = source.read([(0, source.validators.size)])
        except JnrrdzError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        metadata = pq.read_metadata(pa.BufferReader(data))
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        if metadata.num_rows > _MOST_ROWS or sum(group.total_byte_size for group in groups) > _MOST_BYTES:
            raise UnsupportedError(f"a record of {metadata.num_rows} rows is too large", url=url)
        there = [name for name in names if name in metadata.schema.names]
        file = pq.ParquetFile(pa.BufferReader(data), metadata=metadata, read_dictionary=there[:1])
        return file.read(there)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in {"_lock", "_records"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def __eq__(self, other: object) -> bool:
        """Whether both read the same files."""
        return isinstance(other, ParquetRefs) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash((self.keys, self._folder))


def _paths(table: pa.Table) -> tuple[NDArray[np.int32], list[str]]:
    """Return the number of each row's URL, -1 where it has none, and the URLs."""
    if "path" not in table.column_names:
        return np.full(table.num_rows, -1, np.int32), []
    column = table["path"]
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    column = column.unify_dictionaries().combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        return np.empty(0, np.int32), []
    indices = column.indices.cast(pa.int32())
    code = np.where(valid(indices), numbers(indices, np.int32), np.int32(-1))
    return code, column.dictionary.cast(pa.string()).to_pylist()


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
    column = table["raw"].cast(pa.binary()).combine_chunks()
    rows = np.flatnonzero(valid(column)).tolist()
    return {row: _plain(column[row].as_py(), row) for row in rows}


def _plain(value: bytes, row: int) -> bytes:
    if not value.startswith(b"base64:"):
        return value
    return inline_bytes(value.decode("ascii", "replace"), f"row {row}") or b""
