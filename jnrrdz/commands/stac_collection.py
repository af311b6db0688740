"""STAC collections: of the items that a batch makes, written one by one, and of a cube.

What a collection tells of its items (extents, summaries, what their assets have in common) is kept as they come; of
each item stays its name.  A collection comes after its items, so that one that is there is whole.
Spec: https://github.com/radiantearth/stac-spec/tree/v1.1.0/collection-spec
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, BinaryIO, Self

from jnrrdz.batches.stac import LINES, REFERENCES
from jnrrdz.commands.facts import Json
from jnrrdz.commands.stac import (
    VERSION,
    cube_fields,
    ground_of,
    image_bands,
    manifest_asset,
    projection,
    span_of,
    with_extensions,
)
from jnrrdz.core.footprint import Bounds
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from jnrrdz.manifests.atomic import DURABLE, check_replaceable, locate, new_file
from jnrrdz.manifests.written_refs import relative
from jnrrdz.options import StorageOptions, WriteOptions
from jnrrdz.sources.url import join_folder, local_path

COLLECTION, ITEMS = "collection.json", "items"
GEOJSON = "application/geo+json"
WORLD = [-180.0, -90.0, 180.0, 90.0]
LICENSE = "other"
"""What STAC has for a licence that is not known here."""

OWN = frozenset({"href", "file:size", "updated", "statistics"})
"""Fields that are each file's own."""

RANGES = ("gsd", "eo:cloud_cover")
MOST = 64
"""Codes of CRS that a summary lists."""


@dataclass
class Summary:
    """What many items have in common, and how far they reach."""

    count: int = 0
    bounds: Bounds = field(default_factory=Bounds)
    has_bounds: bool = False
    times: list[str] = field(default_factory=list)
    """The first and the last."""
    codes: dict[str, None] = field(default_factory=dict)
    ranges: dict[str, list[float]] = field(default_factory=dict)
    assets: dict[str, Json] = field(default_factory=dict)

    def add(self, item: Json) -> None:
        """Take an item."""
        self.count += 1
        properties = item["properties"]
        self.add_times(properties)
        if "bbox" in item:
            self.bounds.add(item["bbox"])
            self.has_bounds = True
        if (code := properties.get("proj:code")) is not None and len(self.codes) < MOST:
            self.codes[code] = None
        for name in RANGES:
            if name in properties:
                low, high = self.ranges.get(name, (properties[name], properties[name]))
                self.ranges[name] = [min(low, properties[name]), max(high, properties[name])]
        for key, asset in item["assets"].items():
            own = {name: value for name, value in asset.items() if name not in OWN}
            if "bands" in own:
                own["bands"] = [
                    {name: value for name, value in band.items() if name not in OWN} for band in own["bands"]
                ]
            kept = self.assets.setdefault(key, own)
            self.assets[key] = {name: value for name, value in kept.items() if own.get(name) == value}

    def add_times(self, properties: Mapping[str, Any]) -> None:
        """Take the times of an item."""
        names = ("datetime", "start_datetime", "end_datetime")
        every = [*self.times, *(properties[name] for name in names if properties.get(name))]
        if every:
            self.times = [min(every, key=datetime.fromisoformat), max(every, key=datetime.fromisoformat)]

    def extent(self) -> Json:
        """Return how far the items reach; the whole world where none says where it lies."""
        bbox = self.bounds.bbox() if self.has_bounds else WORLD
        return {"spatial": {"bbox": [bbox]}, "temporal": {"interval": [self.times or [None, None]]}}

    def summaries(self) -> Json:
        """Return what the items' properties are."""
        found: Json = {name: {"minimum": low, "maximum": high} for name, (low, high) in self.ranges.items()}
        return found | ({"proj:code": list(self.codes)} if self.codes else {})


def collection_of(name: str, description: str, summary: Summary, links: Sequence[Json], **others: Json) -> Json:
    """Return a collection."""
    members = {"summaries": summary.summaries(), "item_assets": summary.assets, **others}
    return with_extensions(
        {
            "type": "Collection",
            "stac_version": VERSION,
            "stac_extensions": [],
            "id": name,
            "description": description,
            "license": LICENSE,
            "extent": summary.extent(),
            **{member: value for member, value in members.items() if value},
            "links": list(links),
        }
    )


def is_ours(head: bytes) -> bool:
    """Whether a file that starts so is STAC that jnrrdz wrote: a manifest is among what it tells of."""
    return b'"stac_version"' in head and b'"engine": "jnrrdz"' in head


@dataclass
class CollectionWriter:
    """Writes the items of a batch as they come, and their collection at the end."""

    out: str
    """A folder, or a file of lines."""
    name: str = ""
    overwrite: bool = False
    relative: bool = False
    """Whether the URLs of assets are relative to the items."""
    options: Callable[[str], StorageOptions] = lambda _: None
    summary: Summary = field(default_factory=Summary)
    _names: list[tuple[int, str]] = field(default_factory=list)
    _open: ExitStack = field(default_factory=ExitStack)
    _lines: BinaryIO | None = None

    def __post_init__(self) -> None:
        """Tell a folder from a file."""
        ending = self.out[self.out.rfind(".") :].lower() if "." in self.out.rpartition("/")[2] else ""
        self.is_lines = ending in LINES
        if ending in {".json", ".parquet", ".geojson"}:
            raise UnrepresentableError(
                f"items go into a folder, or into a file that ends in {LINES[0]}, of which other tools make tables",
                url=self.out,
                field="--stac-out",
            )
        stem = self.out.rstrip("/").rpartition("/")[2]
        self.name = self.name or (stem.rpartition(".")[0] if self.is_lines else stem) or "collection"

    @property
    def collection(self) -> str:
        """Where the collection goes: into the folder, or beside the file."""
        if self.is_lines:
            return f"{self.out[: self.out.rfind('.')]}.{COLLECTION}"
        return join_folder(f"{self.out.rstrip('/')}/", COLLECTION)

    def check(self) -> None:
        """Refuse what may not be replaced, before anything is read."""
        if not self.is_lines and local_path(self.out) is not None:
            os.makedirs(f"{local_path(self.out)}/{ITEMS}", exist_ok=True)  # noqa: PTH103  the path is literal
        for place in (self.collection, *([self.out] if self.is_lines else [])):
            check_replaceable(locate(place, self.options(place)), is_ours if self.overwrite else None)

    def add(self, number: int, item: Json) -> None:
        """Write an item; the number says where it stands in the collection."""
        place = self.out if self.is_lines else f"{self.out.rstrip('/')}/{ITEMS}/{item['id']}.json"
        if self.relative:
            for asset in item["assets"].values():
                asset["href"] = relative(asset["href"], place)
        here = f"./{self.collection.rpartition('/')[2]}" if self.is_lines else f"../{COLLECTION}"
        rels = ("collection",) if self.is_lines else ("root", "parent", "collection")
        links = [{"rel": rel, "href": here, "type": "application/json"} for rel in rels]
        whole = item | {"collection": self.name, "links": links}
        self.summary.add(whole)
        self._names.append((number, item["id"]))
        if self.is_lines:
            if self._lines is None:
                self._lines = self._open.enter_context(self._file(place))
            self._lines.write(json.dumps(whole).encode() + b"\n")
            return
        durable = DURABLE.set(False)
        try:
            with self._file(place) as stream:
                stream.write(json.dumps(whole, indent=1).encode())
        finally:
            DURABLE.reset(durable)

    def _file(self, place: str) -> Any:
        return new_file(place, replaces=is_ours if self.overwrite else None, storage_options=self.options(place))

    def finish(self) -> None:
        """Write the collection of all items; of none there is nothing to tell."""
        self._open.close()
        if not self._names:
            return
        here = self.collection.rpartition("/")[2]
        links = [{"rel": "root", "href": f"./{here}", "type": "application/json"}]
        if self.is_lines:
            lines = {"rel": "items", "href": f"./{self.out.rpartition('/')[2]}", "type": "application/x-ndjson"}
            links.append(lines)
        else:
            names = (name for _, name in sorted(self._names))
            links += [{"rel": "item", "href": f"./{ITEMS}/{name}.json", "type": GEOJSON} for name in names]
        images = f"{self.summary.count:,} image{'' if self.summary.count == 1 else 's'}"
        about = f"{images}, each beside a manifest by which it reads as Zarr"
        whole = collection_of(self.name, about, self.summary, links)
        with self._file(self.collection) as stream:
            stream.write(json.dumps(whole, indent=1).encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave nothing of lines that are not all there."""
        self._open.__exit__(kind, error, traceback)


def cube_collection(root: VirtualGroup, out: str, form: str, *, files: int, name: str = "") -> Json:
    """Return a cube as a collection: each of its grids is an asset, which is the manifest and a group in it."""
    images = root.images()
    if not images:
        raise JnrrdzError("no image in the cube, so there is nothing to tell", url=out)
    summary, assets = Summary(count=1), {}
    for image in images:
        path = image.finest.parent
        summary.add_times(span_of(image) or {})
        ground = ground_of([image])
        if ground is not None:
            summary.bounds.add(ground.bbox)
            summary.has_bounds = True
        projected = projection(image)
        summary.codes |= {code: None for code in (projected.get("proj:code"),) if code}
        asset = manifest_asset(out, form, group=path)
        asset["roles"] = ["data", *asset["roles"]]
        assets[path or REFERENCES] = asset | projected | image_bands(image) | cube_fields(image)
    stem = out.rstrip("/").rpartition("/")[2]
    called = name or stem.rpartition(".")[0] or stem
    about = f"A cube of {files:,} file{'' if files == 1 else 's'}, read as Zarr by reference"
    return collection_of(called, about, summary, [], assets=assets)


def write_collection(collection: Json, out: str, form: WriteOptions) -> None:
    """Write a collection, whole or not at all; with `overwrite` in place of an older one."""
    replaces = is_ours if form.overwrite else None
    with new_file(out, replaces=replaces, storage_options=form.target_options) as stream:
        stream.write(json.dumps(collection, indent=1).encode())
