"""A Parquet manifest's table of sources in files of its own, so that opening reads none of it.

A table of few sources stands in the root's attribute `jnrrdz`, as a list.  In place of a longer one `sources` is an
object that says which files it is in:

    {"count": n, "first": {a source}, "trees": [urls that end in a slash], "local": whether all are local files,
     "files": [[name, rows, first url], ...]}

    __sources__/NAME.parq   url, size, etag, version_id, last_modified; ascending by url, and from file to file

- `first` stands before the others: it is the file that was named, where there was one.
- NAME is a digest of the file's bytes.  So whoever has read an older `.zmetadata` finds its own table or none, never
  that of a newer manifest, whose sources would fit references of the older one by their state alone.
- A source is looked up in one file.  `__sources__` is a name that Zarr reserves, so no node has it.
"""

import re
import reprlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import batched, pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jnrrdz.caches import BoundedCache
from jnrrdz.core.arrays import SourceRecord
from jnrrdz.core.limits import FILE_SOURCES, SOURCE_FILE_BYTES
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.manifests import parquet_pages
from jnrrdz.manifests.documents import source_record
from jnrrdz.manifests.parquet_records import Layout, Options, integers, texts
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.url import join_folder, local_path

MANY = 256
"""Sources up to which the table is a list in the root's attribute."""

ROWS = 4096
"""Sources of a file."""

FOLDER = "__sources__"
FILE_NAME = re.compile(rf"{FOLDER}/[0-9a-f]{{16}}\.parq")

_FIELD = "jnrrdz.sources"
_KEPT = 16
_TEXTS = ("url", "etag", "version_id", "last_modified")
_SCHEMA = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("size", pa.int64()),
        *(pa.field(name, pa.string()) for name in _TEXTS[1:]),
    ]
)


# Writing


def put_into_files(work: Path, root: dict[str, Any]) -> None:
    """Move a long table out of the document of a root into files in a manifest's folder."""
    own = root["attributes"]["jnrrdz"]
    table = own["sources"]
    if len(table) <= MANY:
        return
    by_url = {record["url"]: record for record in table}
    first = by_url.pop(table[0]["url"])
    others = [by_url[url] for url in sorted(by_url)]
    (work / FOLDER).mkdir()
    own["sources"] = {
        "count": 1 + len(others),
        "first": first,
        "trees": [record["url"] for record in table if record["url"].endswith("/")],
        "local": all(local_path(record["url"]) is not None for record in table),
        "files": [_put_file(work, some) for some in batched(others, ROWS)],
    }


def _put_file(work: Path, records: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Write some records to a file, and return what the table's object says of it."""
    columns = {name: [record.get(name) for record in records] for name in _SCHEMA.names}
    size, has_size = columns["size"], np.array([value is not None for value in columns["size"]])
    arrays = {name: texts(columns[name]) for name in _TEXTS}
    arrays["size"] = integers(np.array([value or 0 for value in size], np.int64), has_size)
    table = pa.Table.from_arrays([arrays[name] for name in _SCHEMA.names], schema=_SCHEMA)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=False, store_schema=False)
    data = sink.getvalue().to_pybytes()
    name = _digest(data)
    (work / FOLDER / f"{name}.parq").write_bytes(data)
    return [name, len(records), records[0]["url"]]


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


# Reading


def names_of(own: Mapping[str, Any]) -> list[str]:
    """Return the names of the files that the table of a root's attribute `jnrrdz` is in, none where it is a list."""
    table = own.get("sources")
    return [f"{FOLDER}/{name}.parq" for name, _, _ in _entries(table)] if isinstance(table, dict) else []


def _entries(table: Mapping[str, Any]) -> list[tuple[str, int, str]]:
    files = table.get("files")
    entries = [_entry(file) for file in (files if isinstance(files, list) else [files])]
    if any(left[2] >= right[2] for left, right in pairwise(entries)):
        raise MalformedError("files that are not in their order", field=f"{_FIELD}.files")
    return entries


def _entry(file: Any) -> tuple[str, int, str]:
    if isinstance(file, list) and list(map(type, file)) == [str, int, str]:
        name, rows, begin = file
        if FILE_NAME.fullmatch(f"{FOLDER}/{name}.parq") and 0 < rows <= FILE_SOURCES:
            return name, rows, begin
    raise MalformedError(f"{reprlib.repr(file)} is no file of a table", field=f"{_FIELD}.files")


class SourceFiles(Sequence[SourceRecord]):
    """The sources of a manifest whose table is in files, which are read when a source in them is asked for."""

    def __init__(self, url: str, table: Mapping[str, Any], layout: Layout, options: Options) -> None:
        """Take the manifest's URL, the object that says which files there are, and where these are."""
        self._url, self._layout, self._options = url, layout, options
        self.first = source_record(table.get("first"), f"{_FIELD}.first")
        self._files = _entries(table)
        self._begins = [begin for _, _, begin in self._files]
        self._stops = np.cumsum([1, *(rows for _, rows, _ in self._files)]).tolist()
        trees = table.get("trees")
        if not isinstance(trees, list) or not all(type(tree) is str and tree.endswith("/") for tree in trees):
            raise MalformedError(f"{reprlib.repr(trees)} are no trees", field=f"{_FIELD}.trees")
        self.trees = tuple(trees)
        self.all_local = table.get("local") is True
        self._start()

    def _start(self) -> None:
        self._files_read = BoundedCache[int, _RecordRows](most=_KEPT)

    @property
    def records(self) -> "FiledRecords":
        """The same by their URLs."""
        return FiledRecords(self)

    def find(self, url: str) -> SourceRecord | None:
        """Return what is recorded of a source, None where nothing is; reads the file that it would be in."""
        if url == self.first.url:
            return self.first
        number = bisect_right(self._begins, url) - 1
        return None if number < 0 else self._rows(number).find(url)

    def __len__(self) -> int:
        return int(self._stops[-1])

    @overload
    def __getitem__(self, number: int) -> SourceRecord: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[SourceRecord, ...]: ...
    def __getitem__(self, number: int | slice) -> SourceRecord | tuple[SourceRecord, ...]:
        """Return one source or some; reads the files that they are in."""
        places = range(len(self))[number]
        return self._at(places) if isinstance(places, int) else tuple(map(self._at, places))

    def _at(self, place: int) -> SourceRecord:
        if place == 0:
            return self.first
        number = bisect_right(self._stops, place) - 1
        return self._rows(number).record(place - self._stops[number])

    def _rows(self, number: int) -> "_RecordRows":
        return self._files_read.made(number, lambda: self._load(number))

    def _load(self, number: int) -> "_RecordRows":
        name, rows, begin = self._files[number]
        url = join_folder(self._url, self._layout.where(f"{FOLDER}/{name}.parq"))
        try:
            found = _RecordRows(_read(url, name, self._options))
            if len(found) != rows or found.urls[0] != begin or any(map(str.__ge__, found.urls, found.urls[1:])):
                raise MalformedError("other sources than .zmetadata tells, or in another order")
        except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
            raise MalformedError(f"not a table of sources: {error}", url=url) from error
        except JnrrdzError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                message = "is not there; where the manifest was written anew since it was opened, open it again"
                raise JnrrdzError(message, url=url) from error.__cause__
            raise error.at(url=url) from error.__cause__
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_files_read"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()


def _read(url: str, name: str, options: Options) -> pa.Table:
    source = open_source(url, storage_options=options)
    if source.validators.size > SOURCE_FILE_BYTES:
        raise UnsupportedError(f"a table of {source.validators.size} bytes; {SOURCE_FILE_BYTES} are read", url=url)
    (data,) = source.read([(0, source.validators.size)])
    if _digest(data) != name:
        raise MalformedError("its bytes are not those that were written")
    parquet_pages.check(data, most_decoded=SOURCE_FILE_BYTES)
    return pq.ParquetFile(pa.BufferReader(data)).read(_SCHEMA.names).cast(_SCHEMA)


class _RecordRows:
    """The rows of one file."""

    def __init__(self, table: pa.Table) -> None:
        self.urls: list[str] = table["url"].to_pylist()
        self._columns = [(name, table[name].to_pylist()) for name in _SCHEMA.names[1:]]

    def __len__(self) -> int:
        return len(self.urls)

    def find(self, url: str) -> SourceRecord | None:
        row = bisect_right(self.urls, url) - 1
        return self.record(row) if row >= 0 and self.urls[row] == url else None

    def record(self, row: int) -> SourceRecord:
        entry = {"url": self.urls[row]} | {name: values[row] for name, values in self._columns}
        return source_record(entry, f"source {self.urls[row]}")


class FiledRecords(Mapping[str, SourceRecord]):
    """The sources of a table in files, by their URLs."""

    def __init__(self, files: SourceFiles) -> None:
        self._files = files

    def __getitem__(self, url: str) -> SourceRecord:
        """Return what is recorded of a source."""
        found = self._files.find(url)
        if found is None:
            raise KeyError(url)
        return found

    def __iter__(self) -> Iterator[str]:
        return (record.url for record in self._files)

    def __len__(self) -> int:
        return len(self._files)
