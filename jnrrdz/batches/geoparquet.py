"""The assets of items in stac-geoparquet: a row for each item, `assets` as a struct or as JSON.

May touch pyarrow and fsspec.  Row groups are read one after another, and of their columns only those needed.
Spec: https://github.com/stac-utils/stac-geoparquet/blob/main/spec/stac-geoparquet-spec.md
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import fsspec.core
import pyarrow as pa
import pyarrow.parquet as pq

from jnrrdz.batches.item import Found
from jnrrdz.batches.stac import Assets, found_in
from jnrrdz.errors import MalformedError
from jnrrdz.sources import faults

_COLUMNS = ("id", "collection", "assets", "links")
_ROWS = 256


def found_in_rows(url: str, assets: Assets, storage_options: Mapping[str, Any] | None = None) -> Iterator[Found]:
    """Yield the sources of every row."""
    with faults.told(url, "reading stac-geoparquet"):
        fs, path = fsspec.core.url_to_fs(url, **(storage_options or {}))
        with fs.open(path, "rb") as stream:
            for row in _rows(stream, url):
                yield from found_in(row, url, assets)


def _rows(stream: Any, url: str) -> Iterator[dict[str, Any]]:
    try:
        table = pq.ParquetFile(stream)
        columns = [name for name in _COLUMNS if name in table.schema_arrow.names]
        if "assets" not in columns:
            raise MalformedError("no column assets; stac-geoparquet has one", url=url, field="assets")
        for batch in table.iter_batches(_ROWS, columns=columns):
            for row in batch.to_pylist():
                yield {**row, "assets": _assets(row["assets"], url)}
    except pa.ArrowException as error:
        raise MalformedError(f"no Parquet: {error}", url=url) from error


def _assets(value: Any, url: str) -> dict[str, Any]:
    """Return the assets of a row; members of the struct that only other rows have are null here."""
    if isinstance(value, str | bytes):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise MalformedError(f"assets that are no JSON: {error}", url=url, field="assets") from error
    if isinstance(value, list):  # a map column
        value = dict(value)
    if not isinstance(value, dict):
        raise MalformedError("a row without assets", url=url, field="assets")
    return {key: asset for key, asset in value.items() if asset is not None}
