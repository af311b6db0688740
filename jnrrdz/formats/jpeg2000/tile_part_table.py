"""Tables of others that list the tile-parts of many JPEG 2000 files, in Parquet.

A row has the file and what a TLM marker segment of it would be, so that an index needs no
walk from tile-part to tile-part.  The layout is that of Kayrros' table of Sentinel-2.
Its columns are

- `index`: bytes. The file's size (8 bytes), the offset of its first SOT (8), the length of
  what follows (4), TLM marker segments; all numbers big-endian. Empty where the file has
  TLM itself.
- `path`: the file's path in its bucket; or `product_id`, the name of the SAFE folder
  without its ending, and `band_id`, such as `B03`.

What a row claims is compared with the file before it is used: the size, where the first
tile-part begins, and SOT marker segments.
Layout: https://github.com/Kayrros/sentinel-2-jp2-tlm
"""

import importlib.util
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jnrrdz.core.json_schema import shown
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.markers import Marker
from jnrrdz.lazy import library
from jnrrdz.records import record

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet
else:
    # an extra, and slow to import
    pa, parquet = library("pyarrow"), library("pyarrow.parquet")

INDEX, PATH = "index", "path"
PRODUCT_ID, BAND_ID = "product_id", "band_id"
HEAD = struct.Struct(">QQL")
SEGMENT = struct.Struct(">HH")
FIELD = "tile-part table"

MOST_ROWS = 1 << 22
MOST_BYTES = 1 << 30
"""Rows of a table, and bytes of its file; a table of one tile of Sentinel-2 has 5 MB."""

_SAFE = re.compile(r"(?:^|/)([^/]+)\.SAFE/", re.IGNORECASE)
_BAND = re.compile(r"_(B\d[\dA]|TCI|AOT|WVP|SCL)(?:_\d+m)?\.jp2", re.IGNORECASE)


@record
class TilePartList:
    """What a table claims of one file."""

    size: int
    """Bytes of the file."""

    first: int
    """Offset of the first SOT."""

    segments: tuple[bytes, ...]
    """TLM marker segments, without marker and length."""


@dataclass(frozen=True)
class TilePartTable:
    """The rows of a table by the names of files."""

    by_name: Mapping[str, Sequence[tuple[str, bytes]]]
    """Paths and indices, by the last part of the path."""

    by_band: Mapping[tuple[str, str], Sequence[bytes]]
    """Indices by product and band, of a table without paths."""

    def find(self, url: str) -> TilePartList | None:
        """Return what the table claims of a file, None where it does not list it."""
        rows = self._rows(url)
        if len(set(rows)) > 1:
            message = f"{len(rows)} rows of this file differ"
            raise MalformedError(message, url=url, field=FIELD)
        return parse_index(rows[0]) if rows and rows[0] else None

    def _rows(self, url: str) -> list[bytes]:
        named = self.by_name.get(url.rpartition("/")[2], ())
        of_file = [index for path, index in named if _is_same_file(url, path)]
        if of_file:
            return of_file
        product, band = _SAFE.search(url), _BAND.search(url)
        if product is None or band is None:
            return []
        return list(self.by_band.get((product[1], band[1].upper()), ()))


def _is_same_file(url: str, path: str) -> bool:
    """Whether a path in some bucket is that of a file here: from the product's folder on."""
    ours, theirs = _SAFE.search(url), _SAFE.search(path)
    if ours is not None and theirs is not None:
        return url[ours.start(1) :] == path[theirs.start(1) :]
    return url == path or url.endswith(f"/{path.lstrip('/')}")


def parse_index(index: bytes) -> TilePartList:
    """Return what the bytes of a row claim."""
    if len(index) < HEAD.size:
        message = f"an index of {len(index)} bytes, where {HEAD.size} begin it"
        raise MalformedError(message, field=FIELD)
    size, first, length = HEAD.unpack_from(index)
    data = index[HEAD.size :]
    if len(data) != length:
        message = f"{len(data)} bytes of TLM, where the index declares {length}"
        raise MalformedError(message, field=FIELD)
    segments = []
    at = 0
    while at < length:
        if length - at < SEGMENT.size:
            raise MalformedError("TLM is cut off", field=FIELD)
        marker, nbytes = SEGMENT.unpack_from(data, at)
        stop = at + 2 + nbytes
        if marker != Marker.TLM or nbytes < 2 or stop > length:  # noqa: PLR2004  itself
            found = shown(data[at : at + 4].hex(" "))
            raise MalformedError(f"found {found}; a TLM segment is needed", field=FIELD)
        segments.append(data[at + SEGMENT.size : stop])
        at = stop
    return TilePartList(size, first, tuple(segments))


def read_table(path: str) -> TilePartTable:
    """Return a table on this machine."""
    if importlib.util.find_spec("pyarrow") is None:
        message = "pyarrow is not installed; pip install 'jnrrdz[parquet]'"
        raise UnsupportedError(message, url=path, field=FIELD)
    try:
        file = parquet.ParquetFile(path)
        return _table(file)
    except (pa.ArrowException, OSError) as error:
        raise MalformedError(f"no Parquet: {error}", url=path, field=FIELD) from error
    except MalformedError as error:
        raise error.at(url=path) from error.__cause__


def _table(file: Any) -> TilePartTable:
    names = file.schema_arrow.names
    has_bands = PRODUCT_ID in names and BAND_ID in names
    if INDEX not in names or not (PATH in names or has_bands):
        needed = f"{INDEX}, and {PATH} or {PRODUCT_ID} and {BAND_ID}"
        found = shown(", ".join(names))
        raise MalformedError(f"found columns {found}; {needed} are needed", field=FIELD)
    rows = file.metadata.num_rows
    groups = range(file.metadata.num_row_groups)
    nbytes = sum(file.metadata.row_group(number).total_byte_size for number in groups)
    if rows > MOST_ROWS or nbytes > MOST_BYTES:
        message = f"a table of {rows} rows and {nbytes} bytes is too large"
        raise UnsupportedError(message, field=FIELD)
    wanted = [INDEX, PATH] if PATH in names else [INDEX, PRODUCT_ID, BAND_ID]
    by_name: dict[str, list[tuple[str, bytes]]] = {}
    by_band: dict[tuple[str, str], list[bytes]] = {}
    for batch in file.iter_batches(columns=wanted):
        for row in batch.to_pylist():
            index = row[INDEX]
            texts = [row[name] for name in wanted[1:]]
            is_right = all(isinstance(text, str) for text in texts)
            if not isinstance(index, bytes) or not is_right:
                message = f"{', '.join(wanted)} are bytes and texts"
                raise MalformedError(f"found other types; {message}", field=FIELD)
            if PATH in names:
                name = texts[0].rpartition("/")[2]
                by_name.setdefault(name, []).append((texts[0], index))
            else:
                key = texts[0].removesuffix(".SAFE"), texts[1].upper()
                by_band.setdefault(key, []).append(index)
    return TilePartTable(by_name, by_band)
