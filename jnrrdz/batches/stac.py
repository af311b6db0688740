"""The assets of STAC items: of a document, of lines of them, of a collection or catalogue, of a search, of a table.

Documents are followed by their links (`item`, `child`, `next`), each once; an asset is taken by its key or its media
type.  Of stac-geoparquet, row groups are read one after another, and of their columns only those needed.
Specs: https://github.com/radiantearth/stac-spec/tree/v1.1.0,
https://github.com/stac-utils/stac-geoparquet/blob/main/spec/stac-geoparquet-spec.md
"""

import importlib.util
import io
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from jnrrdz.batches.item import Found
from jnrrdz.batches.names import NameCount, PageCount
from jnrrdz.batches.stac_bands import BANDS, bands_of
from jnrrdz.core.json_schema import OBJECT, TEXT, Check, list_of, members, nullable, object_of, parse_json
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats import FORMATS
from jnrrdz.lazy import library
from jnrrdz.manifests.trust import check_named
from jnrrdz.records import record
from jnrrdz.sources import faults
from jnrrdz.sources.fsspec import open_source, read_document
from jnrrdz.sources.guard import AddressGuard, guard_of, nearness_of
from jnrrdz.sources.url import is_absolute, local_path, origin

if TYPE_CHECKING:
    import fsspec
    import pyarrow as pa
    from pyarrow import parquet
else:
    # a local file needs none of it, see `sources.filesystems`
    fsspec = library("fsspec")
    # an extra, and slow to import
    pa, parquet = library("pyarrow"), library("pyarrow.parquet")

type Json = Mapping[str, Any]

LARGEST = 256 << 20
"""Bytes of a document: a search with all its items in one is far smaller."""

NOT_DATA = frozenset({"thumbnail", "overview", "metadata", "visual-thumbnail"})
"""Roles of assets that nobody asks for who names none."""


REFERENCES = "references"
"""The key of a manifest among the assets, and its role, as xpystac reads it."""

IMAGE = "image"
"""The key of an image among the assets that a batch writes."""

TOLD = ("datetime", "start_datetime", "created", "updated", "eo:cloud_cover")
"""Properties of an item that put its files into order."""


_LINKS = nullable(list_of(members({}, {"rel": TEXT, "href": TEXT, "method": TEXT})))
_BANDS = nullable(list_of(OBJECT))
_ALTERNATES = nullable(object_of(nullable(members({}, {"href": nullable(TEXT)}))))
"""Of the extension alternate-assets: https://github.com/stac-extensions/alternate-assets."""

_ASSET = members(
    {},
    {
        "alternate": _ALTERNATES,
        "type": nullable(TEXT),
        "roles": nullable(list_of(TEXT)),
        "bands": _BANDS,
        "eo:bands": _BANDS,
        "raster:bands": _BANDS,
    },
)
_ITEM = members(
    {"assets": object_of(_ASSET)},
    {"properties": nullable(OBJECT), "links": _LINKS},
)
_SCHEMAS: Mapping[str, Check] = {
    "Feature": _ITEM,
    "FeatureCollection": members({"features": list_of(_ITEM)}, {"links": _LINKS}),
    "Collection": members({}, {"assets": nullable(object_of(_ASSET)), "links": _LINKS}),
    "Catalog": members({}, {"links": _LINKS}),
}
"""What documents have, by their `type`."""


def _checked(document: Any, check: Check, url: str) -> Json:
    """Return a document that its schema accepts; an error names its URL."""
    try:
        found: Json = check(document)
    except MalformedError as error:
        raise error.at(url=url) from None
    return found


@record
class Assets:
    """Which assets of an item are taken."""

    wanted: Sequence[str] = ()
    """Keys, or media types (which have a slash); without any, all data of a type that jnrrdz reads."""

    alternate: str | None = None
    """The name of the alternate location that is read, such as `s3`; an asset without it is read where it is."""

    def href_of(self, asset: Json) -> Any:
        """Return where an asset is read."""
        alternates = asset.get("alternate") or {}
        other = alternates.get(self.alternate) or {}
        return other.get("href") or asset.get("href")

    def of(self, item: Json, where: str) -> Iterator[tuple[str, Json]]:
        """Yield keys and assets of an item; one that has none of what is wanted is an error."""
        assets = item["assets"]
        found = [(key, asset) for key, asset in assets.items() if self._takes(key, asset)]
        if not found:
            there = ", ".join(f"{key} ({_type(asset) or 'no type'})" for key, asset in assets.items()) or "none"
            said = ", ".join(self.wanted) or "image data that jnrrdz reads"
            raise MalformedError(
                f"no asset {said}; there are {there}; --asset names one", url=where, field=f"item {item.get('id')}"
            )
        yield from found

    def _takes(self, key: str, asset: Json) -> bool:
        if self.wanted:
            return any(_is_type(asset, want) if "/" in want else key == want for want in self.wanted)
        roles = asset.get("roles")
        readable = any(_is_type(asset, want) for fmt in FORMATS for want in fmt.media_types)
        return readable and not NOT_DATA & set(roles or ())


def _type(asset: Any) -> str:
    found = asset.get("type") if isinstance(asset, dict) else None
    return found if isinstance(found, str) else ""


def _is_type(asset: Json, want: str) -> bool:
    """Whether an asset has a media type; parameters count where the wanted one has some."""
    have, wanted = ([part.strip().lower() for part in text.split(";")] for text in (_type(asset), want))
    return have[0] == wanted[0] and set(wanted[1:]) <= set(have[1:])


def found_in(item: Json, where: str, assets: Assets) -> Iterator[Found]:
    """Yield the sources of one item, whose relative URLs are relative to where it was read."""
    collection = item.get("collection")
    properties = item.get("properties")
    told = {**item, **properties} if isinstance(properties, dict) else item  # a table's rows have them as columns
    for key, asset in assets.of(item, where):
        href = assets.href_of(asset)
        if not isinstance(href, str) or not href:
            raise MalformedError(f"asset {key!r} without an href", url=where, field="assets")
        names = {"id": item.get("id"), "collection": collection, "asset": key}
        size = asset.get("file:size")
        yield Found(
            resolved(href, _self_of(item) or where),
            size if type(size) is int else None,
            names=tuple((name, str(value)) for name, value in names.items() if value is not None),
            told=(
                *((name, told[name]) for name in TOLD if told.get(name) is not None),
                *([(BANDS, bands)] if (bands := bands_of(asset)) else []),
            ),
            **named_by(where),
        )


def named_by(document: str) -> dict[str, Any]:
    """Return what the sources have in common that a document names; what is on this machine is your own word."""
    if local_path(document) is not None:
        return {}
    return {"named_by": document, "nearness": int(nearness_of(origin(document)))}


def _self_of(item: Json) -> str | None:
    """Return an item's own URL, to which the URLs of an item of a search are relative."""
    links = item.get("links")
    found = next((link for link in links or () if link.get("rel") == "self"), None)
    href = None if found is None else found.get("href")
    return href if isinstance(href, str) and is_absolute(href) and item.get("_own") is None else None


def resolved(href: str, base: str) -> str:
    """Return a URL as seen from a document."""
    if is_absolute(href):
        return href
    if base.lower().startswith(("http://", "https://")):
        return urljoin(base, href)
    path = local_path(base)
    if path is not None:
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), href))
    parts = urlsplit(base)
    key = posixpath.normpath(posixpath.join(posixpath.dirname(parts.path) or "/", href))
    return f"{parts.scheme}://{parts.netloc}{key}"


@dataclass
class Reader:
    """Documents read one after another; what was read already is not read again."""

    assets: Assets
    storage_options: Mapping[str, Any] | None = None
    allow: Sequence[str] = ()
    seen: set[int] = field(default_factory=set)
    names: NameCount = field(default_factory=NameCount)
    pages: PageCount = field(default_factory=PageCount)

    def found(self, url: str, by: str = "") -> Iterator[Found]:
        """Yield the sources that a document and those that it links to name; `by` is the document that names it.

        What comes from afar links only to what is afar.
        """
        waiting = [(url, guard_of(url, by, self.allow))]
        while waiting:
            here, guard = waiting.pop()
            if hash(here) in self.seen:
                continue
            self.seen.add(hash(here))
            document = self._read(here, guard)
            digest = None
            for found in self._items(document, here):
                digest = hash((digest, found.url))
                yield found
            self.pages.add(here, digest)
            links = [check_named(here, link, self.allow) for link in _links(document, here)]
            self.names.add(here, len(links))
            waiting += [(link, guard_of(link, here, self.allow)) for link in reversed(links)]

    def _items(self, document: Json, here: str) -> Iterator[Found]:
        kind = document.get("type")
        if kind == "Collection":
            yield from _cube_of(document, here)
        elif kind == "Feature":
            yield from found_in({**document, "_own": True}, here, self.assets)
        elif kind == "FeatureCollection":
            for item in document["features"]:
                yield from found_in(item, here, self.assets)
        elif kind != "Catalog":
            raise UnsupportedError(
                f"a document of type {kind!r} where STAC has Feature, FeatureCollection, Collection or Catalog",
                url=here,
                field="type",
            )

    def _read(self, url: str, guard: AddressGuard) -> Json:
        data = read_document(url, LARGEST, storage_options=self.storage_options, guard=guard)
        try:
            document = OBJECT(parse_json(data))
            check = _SCHEMAS.get(str(document.get("type")), OBJECT)
            return _checked(document, check, url)
        except MalformedError as error:
            raise error.at(url=url) from error.__cause__


def _cube_of(collection: Json, here: str) -> Iterator[Found]:
    """Yield the manifests that are assets of a collection itself, each once: `cube --stac-out` writes such ones."""
    assets = collection.get("assets") or {}
    hrefs = [
        asset["href"]
        for asset in assets.values()
        if isinstance(asset.get("href"), str) and REFERENCES in (asset.get("roles") or ())
    ]
    for href in dict.fromkeys(hrefs):
        yield Found(resolved(href, here), **named_by(here))


def _links(document: Json, here: str) -> Iterator[str]:
    """Yield the documents that a collection, a catalogue or a page of a search goes on in."""
    kind = document.get("type")
    rels = {"Collection": {"item", "child"}, "Catalog": {"item", "child"}, "FeatureCollection": {"next"}}.get(
        str(kind), set()
    )
    for link in document.get("links") or ():
        if link.get("rel") in rels and "href" in link:
            if str(link.get("method", "GET")).upper() != "GET":
                raise UnsupportedError("the next page is asked for by POST; search by GET", url=here, field="links")
            yield resolved(link["href"], here)


LINES = (".ndjson", ".jsonl")
"""Endings of a file with an item on each line."""

_LONGEST = 16 << 20
"""Bytes of an item."""


def found_in_lines(
    url: str, assets: Assets, storage_options: Mapping[str, Any] | None = None, guard: AddressGuard | None = None
) -> Iterator[Found]:
    """Yield the sources of the item on every line."""
    with ExitStack() as stack:
        if origin(url) is not None:
            stream: Any = io.BytesIO(read_document(url, LARGEST, storage_options=storage_options, guard=guard))
        else:
            stack.enter_context(faults.translate_errors(url, "reading STAC items"))
            stream = stack.enter_context(fsspec.open(url, "rb", **(storage_options or {})))
        number = 0
        while line := stream.readline(_LONGEST):
            number += 1
            if line.strip():
                try:
                    item = _ITEM(parse_json(line))
                except MalformedError as error:
                    error.field = f"line {number}: {error.field or ''}".rstrip(": ")
                    raise error.at(url=url) from error.__cause__
                yield from found_in(item, url, assets)


_COLUMNS = ("id", "collection", "assets", "links", *TOLD)
_ROWS = 256


def found_in_rows(
    url: str, assets: Assets, storage_options: Mapping[str, Any] | None = None, guard: AddressGuard | None = None
) -> Iterator[Found]:
    """Yield the sources of every row."""
    if importlib.util.find_spec("pyarrow") is None:
        raise UnsupportedError("pyarrow is not installed; pip install 'jnrrdz[parquet]'", url=url)
    if origin(url) is not None:
        _ = open_source(url, storage_options=storage_options, guard=guard).validators  # and how near its server is
    with faults.translate_errors(url, "reading stac-geoparquet"):
        fs, path = fsspec.core.url_to_fs(url, **(storage_options or {}))
        with fs.open(path, "rb") as stream:
            for row in _rows(stream, url):
                yield from found_in(row, url, assets)


def _rows(stream: Any, url: str) -> Iterator[Json]:
    try:
        table = parquet.ParquetFile(stream)
        columns = [name for name in _COLUMNS if name in table.schema_arrow.names]
        if "assets" not in columns:
            raise MalformedError("no column assets; stac-geoparquet has one", url=url, field="assets")
        for batch in table.iter_batches(_ROWS, columns=columns):
            for row in batch.to_pylist():
                yield _checked({**row, "assets": _assets(row["assets"], url)}, _ITEM, url)
    except pa.ArrowException as error:
        raise MalformedError(f"no Parquet: {error}", url=url) from error


def _assets(value: Any, url: str) -> dict[str, Any]:
    """Return the assets of a row; members of the struct that only other rows have are null here."""
    if isinstance(value, str | bytes):
        try:
            value = parse_json(value, field="assets")
        except MalformedError as error:
            raise error.at(url=url) from error.__cause__
    if isinstance(value, list):  # a map column
        value = dict(value)
    if not isinstance(value, dict):
        raise MalformedError("a row without assets", url=url, field="assets")
    return {key: asset for key, asset in value.items() if asset is not None}
