"""The metadata of a manifest completed by levels that are computed: pure, bytes to bytes.

May touch the model.  A level has its source's type, names and attributes, with its own place; its chunks
are plain bytes.  A grid mapping comes along with its own affine; other scalars and
coordinates beside the source are not repeated.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from jnrrdz.core.tile_attributes import PER_TILE
from jnrrdz.core.virtual_level import VirtualLevel
from jnrrdz.core.zarr_json import ZARR_JSON, dumps
from jnrrdz.errors import JnrrdzError

type Document = dict[str, Any]

AFFINE = 6
"""Numbers of an affine, in rasterio's order."""


def level_documents(
    documents: Mapping[str, bytes], listed: Mapping[str, tuple[VirtualLevel, ...]]
) -> Mapping[str, bytes]:
    """Return the documents with those of the levels that groups list; groups' paths end in a slash."""
    nodes = {key: json.loads(text) for key, text in documents.items() if key.rpartition("/")[2] == ZARR_JSON}
    for path, levels in listed.items():
        for level in levels:
            _add(nodes, path, level)
        _complete(nodes, path, levels)
    for node in nodes.values():
        node.pop("consolidated_metadata", None)
    _consolidate(nodes)
    return dict(documents) | {key: dumps(node).encode() for key, node in nodes.items()}


def _add(nodes: dict[str, Document], path: str, level: VirtualLevel) -> None:
    group, array = f"{path}{level.name}/{ZARR_JSON}", f"{path}{level.name}/{level.variable}/{ZARR_JSON}"
    source = nodes.get(f"{path}{level.source}/{level.variable}/{ZARR_JSON}")
    if group in nodes or array in nodes:
        raise JnrrdzError(f"the level {level.name!r} is both stored and virtual", field=f"{path}{ZARR_JSON}")
    if source is None:
        raise JnrrdzError(f"no stored level {level.source!r} for {level.name!r}", field=f"{path}{ZARR_JSON}")
    nodes[group] = {"attributes": {}, "zarr_format": 3, "node_type": "group"}
    nodes[array] = source | {
        "shape": list(level.shape),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(level.chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": _placed(source.get("attributes") or {}, source.get("dimension_names") or [], level),
    }
    _add_mapping(nodes, path, level, source)


def _add_mapping(nodes: dict[str, Document], path: str, level: VirtualLevel, source: Document) -> None:
    """Add the grid mapping of the source, whose affine is that of the level's larger elements."""
    name = (source.get("attributes") or {}).get("grid_mapping")
    mapping = nodes.get(f"{path}{level.source}/{name}/{ZARR_JSON}")
    affine = _numbers((mapping or {}).get("attributes", {}).get("GeoTransform"))
    if mapping is None or mapping.get("shape") or (source.get("dimension_names") or [])[-2:] != ["y", "x"]:
        return
    attributes = dict(mapping["attributes"])
    if affine is not None:
        c, a, b, f, d, e = affine
        rows, columns = level.factors[-2:]
        attributes["GeoTransform"] = " ".join(map(repr, (c, a * columns, b * rows, f, d * columns, e * rows)))
    nodes[f"{path}{level.name}/{name}/{ZARR_JSON}"] = mapping | {"attributes": attributes}
    nodes[f"{path}{level.name}/{level.variable}/{ZARR_JSON}"]["attributes"]["grid_mapping"] = name


def _numbers(text: Any) -> list[float] | None:
    """Return the six numbers of an affine in GDAL's order."""
    try:
        found = [float(word) for word in str(text).split()]
    except ValueError:
        return None
    return found if len(found) == AFFINE else None


def _placed(attributes: Document, names: list[str], level: VirtualLevel) -> Document:
    """Return attributes with the level's place: the same origin, larger elements; what is per pixel goes."""
    gone = {"grid_mapping", "rpc", "spatial:bbox", *PER_TILE}
    found = {name: value for name, value in attributes.items() if name not in gone}
    if isinstance(found.get("axes"), dict):
        factors = dict(zip(names, level.factors, strict=False))
        found["axes"] = {name: _axis(axis, factors.get(name, 1)) for name, axis in found["axes"].items()}
    affine = found.pop("spatial:transform", None)
    found.pop("spatial:shape", None)
    if names[-2:] == ["y", "x"] and isinstance(affine, list) and len(affine) == AFFINE:
        a, b, c, d, e, f = affine
        rows, columns = level.factors[-2:]
        found["spatial:shape"] = list(level.shape[-2:])
        found["spatial:transform"] = [a * columns, b * rows, c, d * columns, e * rows, f]
    return found


def _axis(axis: Any, factor: int) -> Any:
    """Return an axis whose elements span several: the first one's middle lies between theirs."""
    if not isinstance(axis, dict) or factor == 1:
        return axis
    found = {name: value for name, value in axis.items() if name != "labels"}
    step = axis.get("step")
    if isinstance(step, int | float):
        found |= {"step": step * factor, "start": axis.get("start", 0.0) + (factor - 1) / 2 * step}
    return found


def _complete(nodes: dict[str, Document], path: str, levels: tuple[VirtualLevel, ...]) -> None:
    """Add the levels to the multiscales of their group, by size."""
    scales = nodes[f"{path}{ZARR_JSON}"].get("attributes", {}).get("multiscales")
    layout = scales.get("layout") if isinstance(scales, dict) else None
    if not isinstance(layout, list):
        return
    for level in levels:
        transform = {"scale": [float(f) for f in level.factors], "translation": [0.0] * len(level.factors)}
        layout.append({"asset": level.name, "derived_from": level.source, "transform": transform})
    variable = levels[0].variable

    def size(entry: Document) -> int:
        found = nodes.get(f"{path}{entry.get('asset')}/{variable}/{ZARR_JSON}", {})
        return -math.prod(found.get("shape", ()))

    layout.sort(key=size)


def _consolidate(nodes: dict[str, Document]) -> None:
    """Put into every group's document those of all nodes below it."""
    plain = dict(nodes)
    for key, node in plain.items():
        if node.get("node_type") != "group":
            continue
        prefix = key[: -len(ZARR_JSON)]
        below = {
            other[len(prefix) : -len(ZARR_JSON) - 1]: document
            for other, document in plain.items()
            if other.startswith(prefix) and other != key
        }
        inline = {"kind": "inline", "must_understand": False, "metadata": below}
        nodes[key] = node | {"consolidated_metadata": inline}
