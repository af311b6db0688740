"""Kerchunk references as a directory of Parquet files, laid out as stock fsspec opens it.

May touch the model, pyarrow and the writers' shared modules.  Follows
https://fsspec.github.io/kerchunk/spec.html#parquet-references and what fsspec's `LazyReferenceMapper` does:

    .zmetadata            {"metadata": {key: document}, "record_size": n}; chunk keys are of the v2 form, "data/0.0"
    data/refs.N.parq      rows N*n to (N+1)*n of the chunks in C order: path, offset, size, raw
    data/ranges.N.parq    the ranges of scattered chunks of that record: chunk (its row in the record), offset, size

- A missing chunk's path is null.  A record of nothing but missing chunks has its file all the same: fsspec goes
  through all of them when it is to find out the sources' protocol.
- A chunk that is a whole file has offset and size 0: fsspec takes that for all of it.
- An inline chunk's bytes stand in `raw`, after `base64:` and encoded where they begin with that very text.
- A scattered chunk (unless `single_range` made it its span) has a path that no file system opens, SCATTERED
  and the source's URL, so that a reader without `ranges` fails and never sees wrong bytes; offset and size
  are those of the span.  Its ranges follow each other in `ranges.N.parq`, which is absent where none is needed.
- `.zmetadata` holds a stub `.zarray` for every node: fsspec takes the grid from it and knows no zarr.json.
"""

import base64
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from jnrrdz.core.array import VirtualArray, VirtualGroup
from jnrrdz.core.refs import SCATTERED, WHOLE, ChunkRefs
from jnrrdz.core.zarr_json import ZARR_JSON, dumps, tree_json
from jnrrdz.manifests.arrow_written import integers, texts
from jnrrdz.manifests.atomic import new_directory
from jnrrdz.manifests.place import relocate
from jnrrdz.manifests.spans import MISSING, Spans, spans

METADATA = ".zmetadata"
RECORD_SIZE = 100_000
_BASE64 = b"base64:"
_NOTHING = {"shape": [0], "chunks": [1]}
# fastparquet reads an optional integer as a float where a file has no statistics
_REFERENCES = pa.schema(
    [
        pa.field("path", pa.dictionary(pa.int32(), pa.string())),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("raw", pa.binary()),
    ]
)
_RANGES = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("chunk", "offset", "size")])


def write(  # noqa: PLR0913 - the writers' common signature and the record size
    root: VirtualGroup,
    target: str,
    *,
    single_range: bool = False,
    relative: bool = False,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    record_size: int = RECORD_SIZE,
) -> None:
    """Write the references of a tree to the directory or URL `target`, whole or not at all."""
    placed = relocate(root, target) if relative else root
    metadata = _metadata(placed)
    with new_directory(target, last=METADATA, overwrite=overwrite, storage_options=storage_options) as work:
        for path, array in placed.arrays():
            found = spans(array.refs, path, single_range=single_range)
            _write_array(work / path, array, found, record_size)
        text = dumps({"metadata": metadata, "record_size": record_size})
        (work / METADATA).write_text(text, encoding="ascii")


def _metadata(root: VirtualGroup) -> dict[str, Any]:
    documents = tree_json(root, encoding="v2", separator=".")
    # the root's own document is taken for a directory of that name
    stubs = {f"{ZARR_JSON}/.zarray": _NOTHING}
    for path, node in root.walk():
        if isinstance(node, VirtualArray):
            stubs[f"{path}/.zarray"] = {"shape": list(node.shape), "chunks": list(node.chunks)}
        else:
            stubs[f"{path}/.zarray"] = _NOTHING
    return documents | stubs


def _write_array(folder: Path, array: VirtualArray, found: Spans, record_size: int) -> None:
    folder.mkdir(parents=True)
    inline = np.sort(np.fromiter(array.refs.inline, np.int64))
    for record in range(math.ceil(array.refs.chunks / record_size)):
        first, stop = record * record_size, min((record + 1) * record_size, array.refs.chunks)
        part = found.slice(first, stop)
        held = inline[slice(*np.searchsorted(inline, (first, stop)))]
        raw = {chunk - first: array.refs.inline[chunk] for chunk in held.tolist()}
        _write_table(_references(array.refs, part, raw), folder / f"refs.{record}.parq")
        if len(part.scattered):
            _write_table(_ranges(array.refs, part.scattered, first), folder / f"ranges.{record}.parq")


def _references(refs: ChunkRefs, part: Spans, raw: Mapping[int, bytes]) -> pa.Table:
    spelt, source = refs.spelt(part.source)
    urls = [*spelt, *(SCATTERED + url for url in spelt)] if len(part.scattered) else spelt
    index = np.array(source, np.int32)
    index[part.scattered] += len(spelt)
    path = pa.DictionaryArray.from_arrays(integers(index, index != MISSING), texts(urls))
    columns = [path, integers(part.start), integers(np.where(part.length == WHOLE, 0, part.length))]
    return pa.Table.from_arrays([*columns, _raw(raw, len(index))], schema=_REFERENCES)


def _raw(raw: Mapping[int, bytes], rows: int) -> pa.Array:
    if not raw:
        return pa.nulls(rows, pa.binary())
    return pa.array([_literal(raw[row]) if row in raw else None for row in range(rows)], pa.binary())


def _literal(data: bytes) -> bytes:
    """Return bytes such that fsspec, which decodes what begins like base64, gives them back."""
    return _BASE64 + base64.b64encode(data) if data.startswith(_BASE64) else data


def _ranges(refs: ChunkRefs, scattered: NDArray[np.int64], first: int) -> pa.Table:
    counts = refs.counts[scattered + first]
    begins = np.cumsum(counts) - counts
    rows = np.arange(counts.sum()) + np.repeat(refs.indptr[scattered + first] - begins, counts)
    columns = [np.repeat(scattered, counts), refs.offset[rows], refs.length[rows]]
    return pa.Table.from_arrays([integers(column) for column in columns], schema=_RANGES)


def _write_table(table: pa.Table, file: Path) -> None:
    dictionary = [name for name in ("path",) if name in table.column_names]
    pq.write_table(table, file, compression="zstd", use_dictionary=dictionary, store_schema=False)
