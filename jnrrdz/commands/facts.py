"""What a command's argument leads to, and what its metadata and references say, as facts to print.

A manifest may come from anywhere: its attributes are taken where they have the form that jnrrdz writes, and left out
where they have another.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jnrrdz import api
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.georeference import AFFINE_NUMBERS, geo_transform
from jnrrdz.core.hierarchy import HierarchyNode, paths_above
from jnrrdz.core.refs import WHOLE, ChunkRefs
from jnrrdz.core.standard import ReaderVerdict, of_all, verdicts
from jnrrdz.formats import scanning
from jnrrdz.manifests.manifest import Manifest, from_group, manifest_form
from jnrrdz.options import Access, ScanOptions
from jnrrdz.sources.url import is_chained

type Json = dict[str, Any]

BANDS = ("band", "c")

FORMS = {"json": "JSON manifest", "parquet": "Parquet manifest", "icechunk": "Icechunk repository"}

_WKT_NAME = re.compile(r'\s*\w+\[\s*"((?:[^"]|"")*)"')
_WKT_CODE = re.compile(r'(?:ID|AUTHORITY)\["(\w+)",\s*"?(\w+)"?\]\]\s*\Z')
_LOW = (1 << 32) - 1


@dataclass(frozen=True)
class CrsName:
    """A coordinate reference system by what people call it."""

    code: str | None
    name: str | None


@dataclass(frozen=True)
class StoredChunks:
    """The chunks of an array and their bytes."""

    chunks: int
    missing: int
    nbytes: int | None
    """None where a chunk ends with its source and the manifest does not tell the source's size."""
    is_single: bool = True
    """Whether every chunk is one range."""


def as_object(value: Any) -> Json:
    """Return an object of JSON; an empty one for what is none."""
    return value if isinstance(value, dict) else {}


class Facts:
    """The nodes of a manifest, and what one says of another."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.hierarchy = manifest.hierarchy
        self.nodes = self.hierarchy.nodes
        self._records = manifest.records

    def arrays(self) -> Iterator[HierarchyNode]:
        """Yield the arrays that have axes; scalars (the grid mapping) carry attributes only."""
        yield from (node for node in self.nodes.values() if node.refs is not None and node.shape)

    def level(self, path: str) -> int:
        """Return which level of a pyramid a node is or belongs to, 0 outside of any."""
        return self.hierarchy.level(path)

    def said(self, node: HierarchyNode) -> Json:
        """Return the attributes of a node, and those of the groups above it: the nearest one counts."""
        inherited: Json = {}
        for path in reversed(paths_above(node.parent)):
            if path in self.nodes:
                inherited |= dict(self.nodes[path].attributes)
        return inherited | dict(node.attributes)

    def mapping(self, node: HierarchyNode) -> Json:
        """Return the attributes of an array's grid mapping."""
        named = node.attributes.get("grid_mapping")
        sibling = self.nodes.get(f"{node.parent}/{named}".lstrip("/"))
        return {} if sibling is None else dict(sibling.attributes)

    def beside(self, node: HierarchyNode, name: str) -> str | None:
        """Return the path of an array in the same group, None where there is none."""
        path = f"{node.path.rpartition('/')[0]}/{name}".lstrip("/")
        found = self.nodes.get(path)
        return path if found is not None and found.refs is not None and found is not node else None

    def wkt(self, node: HierarchyNode) -> str:
        """Return the CRS of an array as WKT, nothing where it has none."""
        group, mapping = self._group(node), self.mapping(node)
        texts = [mapping.get("crs_wkt"), mapping.get("spatial_ref"), node.attributes.get("proj:wkt2")]
        return next((text for text in [*texts, group.get("proj:wkt2")] if isinstance(text, str)), "")

    def crs(self, node: HierarchyNode) -> CrsName | None:
        """Return the CRS of an array."""
        wkt = self.wkt(node)
        code = node.attributes.get("proj:code", self._group(node).get("proj:code"))
        if not isinstance(code, str):
            found = _WKT_CODE.search(wkt)
            code = None if found is None else f"{found[1]}:{found[2]}"
        called = _WKT_NAME.match(wkt)
        name = None if called is None else called[1].replace('""', '"')
        return None if code is None and name is None else CrsName(code, name)

    def affine(self, node: HierarchyNode) -> list[float]:
        """Return the affine of an array as rasterio orders it, nothing where it has none."""
        transform = geo_transform(self.mapping(node))
        if transform is not None:
            return list(transform.affine)
        found = self._group(node).get("spatial:transform")
        if not isinstance(found, list) or len(found) != AFFINE_NUMBERS:
            return []
        return found if all(isinstance(one, int | float) for one in found) else []

    def control_points(self, node: HierarchyNode) -> list[Json]:
        """Return the ground control points of an array: row and column from its corner, x, y and z."""
        try:
            found = json.loads(str(self.mapping(node).get("gcps", "{}")))
            return [
                {"row": point["properties"]["row"], "column": point["properties"]["col"]}
                | dict(zip("xyz", point["geometry"]["coordinates"], strict=False))
                for point in found.get("features", [])
            ]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return []  # not as jnrrdz writes them

    def _group(self, node: HierarchyNode) -> Json:
        parent = self.nodes.get(node.parent)
        return {} if parent is None else dict(parent.attributes)

    def stored(self, node: HierarchyNode) -> StoredChunks:
        """Return how many chunks an array has and how large they are together."""
        refs = node.refs
        if refs is None:
            return StoredChunks(0, 0, 0)
        present = 0
        is_single = True
        sizes: list[int | None] = []
        for _, part in refs.parts():
            present += len(part.present)
            is_single = is_single and part.is_single
            sizes.append(self._nbytes(part))
        return StoredChunks(refs.chunks, refs.chunks - present, _sum(0, iter(sizes)), is_single)

    def readers(self) -> list[ReaderVerdict]:
        """Return for each reader whether it reads all arrays."""
        judged = []
        in_archives = any(is_chained(url) for url in self._records)
        for node in self.arrays():
            codecs = [CodecSpec(entry["name"], entry.get("configuration", {})) for entry in node.codecs]
            is_single = self.stored(node).is_single
            foreign = self.manifest.documents.foreign.get(node.path)
            found = verdicts(codecs, node.data_type, is_single=is_single, is_chained=in_archives, foreign=foreign)
            judged.append((node.path, found))
        return of_all(judged)

    def _nbytes(self, refs: ChunkRefs) -> int | None:
        whole = refs.length == WHOLE
        known = refs.length[~whole]
        # in halves: what a manifest claims may add up to more than 64 bits
        total = (int((known >> 32).sum()) << 32) + int((known & _LOW).sum())
        total += sum(map(len, refs.inline.values()))
        rows = np.flatnonzero(whole).tolist()
        return _sum(total, (self._length(refs.sources[refs.source[row]], int(refs.offset[row]), WHOLE) for row in rows))

    def _length(self, url: str, offset: int, length: int) -> int | None:
        if length != WHOLE:
            return length
        record = self._records.get(url)
        return None if record is None or record.size is None else max(record.size - offset, 0)


def _sum(total: int | None, lengths: Iterator[int | None]) -> int | None:
    for length in lengths:
        total = None if total is None or length is None else total + length
    return total


def nitf_header(attributes: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the header of a NITF's image segment, None where attributes hold none."""
    header = attributes.get("nitf")
    return header if isinstance(header, dict) and "IDLVL" in header else None


def nitf_places(headers: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Return row and column of a NITF's images on the plane that they share, from the lowest to the topmost.

    ILOC counts from the image that IALVL names (MIL-STD-2500C, 4.4); names are those of the headers.
    """
    by_level = {int(header["IDLVL"]): (name, header) for name, header in headers.items()}
    places = {}
    for level, (name, header) in sorted(by_level.items()):
        row = column = 0
        at: Mapping[str, Any] | None = header
        seen = {level}
        while at is not None:
            digits = str(at.get("ILOC") or "").rjust(10, "0")
            row, column = row + int(digits[:5]), column + int(digits[5:])
            parent = int(at.get("IALVL", 0) or 0)
            at = by_level[parent][1] if parent in by_level and parent not in seen else None
            seen.add(parent)
        places[name] = (row, column)
    return places


@dataclass(frozen=True)
class Inspection:
    """Metadata and references, and what finding them took."""

    name: str
    format: str
    manifest: Manifest
    requests: int | None = None
    """Requests for a source's header; None for a manifest."""
    bytes_read: int | None = None


def opened(name: str, access: Access, options: ScanOptions | None = None) -> Inspection:
    """Return what a path or URL holds."""
    form = manifest_form(name)
    if form is not None:
        store = api.open_stored(name, access=access)
        return Inspection(name, FORMS[store.manifest.form or form], store.manifest)
    found = scanning.scan(name, options or ScanOptions(), access)
    return Inspection(name, found.format, from_group(found.group), found.requests, found.bytes_read)
