"""What has to be the same in groups that are put together, and in words what is not.

A group's facts are plain JSON, so that groups that fit have the same text; what a fact is called is what the user
reads.
"""

import re
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from jnrrdz.core.arrays import VirtualArray, VirtualGroup
from jnrrdz.core.codecs import TIFF_TILE
from jnrrdz.core.coordinate import is_time
from jnrrdz.core.georeference import WKT2
from jnrrdz.core.zarr_json import array_json, json_value
from jnrrdz.errors import UnrepresentableError

type Facts = dict[str, dict[str, Any]]
"""By the path of a node, what has to be the same."""

JPEG_TABLES = "jpeg_tables"

MEANING = {
    *("_FillValue", "missing_value", "scale_factor", "add_offset", "scales", "offsets", "_Unsigned"),
    *("units", "band_units", "calendar", "grid_mapping"),
    *("flag_values", "flag_masks", "flag_meanings", "color_table"),
    *("photometric", "colorinterp", "alpha_premultiplied", "band_names"),
}
"""Attributes of an array without which its numbers mean something else."""

BAND = "band"
PER_BAND = {
    *("band_names", "scales", "offsets", "band_units", "colorinterp"),
    *("statistics", "band_metadata"),
}
"""Attributes with an entry for each band: those of arrays that are joined along `BAND` are joined too."""

PLACE = {"multiscales", "AREA_OR_POINT"}
PLACE_PREFIXES = ("proj:", "spatial:")
"""Attributes that say where a group lies."""

WKT = "spatial_ref"
"""GDAL's name for `crs_wkt`."""

GRID_MAPPINGS = {"grid_mapping_name", "crs_wkt", WKT, "GeoTransform"}

_WKT_NAME = re.compile(r'\s*\w+\s*\[\s*"([^"]*)"')


class Role(Enum):
    """What becomes of an array."""

    STACKED = "gets a new axis"
    JOINED = "is continued along an axis that it has"
    KEPT = "has the same values in all and is kept once"
    MAPPING = "is a CF grid mapping, kept once: its attributes count, its value means nothing"
    COORDINATE = "holds the values along the axis"


@dataclass
class Sketch:
    """A group as far as it matters to those that it is put together with."""

    roles: dict[str, Role] = field(default_factory=dict)
    """What becomes of each array, by its path."""
    facts: Facts = field(default_factory=dict)
    size: int = 1
    """The length along the axis."""


def sketch(group: VirtualGroup, dim: str) -> Sketch:
    """Return what becomes of a group's arrays along the axis `dim`, and what has to be equal."""
    nodes = group.walk()
    arrays = [node for _, node in nodes if isinstance(node, VirtualArray)]
    lengths = {array.shape[array.dimension_names.index(dim)] for array in arrays if dim in array.dimension_names}
    if len(lengths) > 1:
        raise UnrepresentableError(f"arrays of different lengths {sorted(lengths)} along {dim!r}", field=dim)
    mappings = {str(array.attributes.get("grid_mapping")) for array in arrays}
    seen = Sketch(facts={"": _group_facts(group)}, size=next(iter(lengths), 1))
    for path, node in nodes:
        if isinstance(node, VirtualGroup):
            _refuse_twin(path, dim)
            seen.facts[path] = _group_facts(node)
            continue
        role = _role(path, node, dim, mappings, is_old=bool(lengths))
        seen.roles[path] = role
        seen.facts[path] = dict(_array_facts(node, role, dim))
    return seen


def _refuse_twin(path: str, dim: str) -> None:
    if path.rpartition("/")[2] == dim:
        raise UnrepresentableError(f"stands where the coordinate of {dim!r} belongs", field=path)


def _role(path: str, array: VirtualArray, dim: str, mappings: set[str], *, is_old: bool) -> Role:
    name = path.rpartition("/")[2]
    if array.dimension_names == (dim,) and name == dim:
        return Role.COORDINATE
    _refuse_twin(path, dim)
    if dim in array.dimension_names:
        return Role.JOINED
    if not array.shape and (name in mappings or not GRID_MAPPINGS.isdisjoint(array.attributes)):
        return Role.MAPPING
    return Role.KEPT if is_old or array.dimension_names == (name,) else Role.STACKED


def _array_facts(array: VirtualArray, role: Role, dim: str) -> Iterator[tuple[str, Any]]:
    document = array_json(array)
    yield "dimensions", document["dimension_names"]
    if role is Role.COORDINATE:
        # times are put in one unit, whatever theirs are
        own = {} if is_time(array.attributes) else document["attributes"]
        yield from ((f"attribute {name}", own[name]) for name in ("units", "calendar") if name in own)
        return
    along = array.dimension_names.index(dim) if role is Role.JOINED else None
    yield "shape", [size for axis, size in enumerate(document["shape"]) if axis != along]
    yield "type", document["data_type"]
    yield "chunks", list(array.chunks)
    yield "fill value", document["fill_value"]
    yield from _codec_facts(document["codecs"])
    attributes = document["attributes"]
    if attributes.get(WKT) == attributes.get("crs_wkt"):
        attributes.pop(WKT, None)  # manifests of the first version say it twice
    for name, value in attributes.items():
        if role is Role.JOINED and is_per_band(name, array, dim):
            # these have as many entries as bands, and are joined as the bands are
            yield from [(f"attribute {name}", "an entry a band")] if name in MEANING else []
        elif (
            role in {Role.KEPT, Role.MAPPING}
            or name.startswith(PLACE_PREFIXES)
            # a single band's description is of that image alone
            or (name in MEANING and (name != "band_names" or len(value) > 1))
        ):
            yield f"attribute {name}", value
    if role is Role.KEPT:
        refs = array.refs
        inline = {str(chunk): data.hex() for chunk, data in sorted(refs.inline.items())}
        yield "values", [inline, *(refs.ranges(chunk) for chunk in range(refs.chunks))]


def is_per_band(name: str, array: VirtualArray, dim: str) -> bool:
    """Whether an attribute has an entry for each place along the axis."""
    value = array.attributes.get(name)
    bands = array.shape[array.dimension_names.index(dim)]
    return dim == BAND and name in PER_BAND and isinstance(value, list | tuple) and len(value) == bands


def _codec_facts(codecs: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    yield "codecs", [codec["name"] for codec in codecs]
    for place, codec in enumerate(codecs):
        label = codec["name"] if place == 0 else f"{codec['name']} ({place + 1})"
        for member, value in codec.get("configuration", {}).items():
            if (codec["name"], member) != (TIFF_TILE, JPEG_TABLES):  # compared apart: they can stand in the chunks
                yield f"codec {label}, {member}", value


def _group_facts(group: VirtualGroup) -> dict[str, Any]:
    said = {child.attributes.get("crs_wkt") for child in group.children.values() if isinstance(child, VirtualArray)}
    return {"kind": "group"} | {
        f"attribute {name}": json_value(value)
        for name, value in group.attributes.items()
        if name in PLACE or name.startswith(PLACE_PREFIXES)
        # its grid mapping says it, and in a pyramid the group of all levels
        if name != WKT2 or value not in said
    }


# In words


def differences(theirs: Facts, ours: Facts) -> list[str]:
    """Return what is different in the first, a text for each fact."""
    texts = [f"has no {path}" for path in ours if path not in theirs]
    texts += [f"has a {path}, the others do not" for path in theirs if path not in ours]
    # the arrays' first: what groups say of place and levels follows from them
    for path in sorted(ours, key=lambda path: "kind" in ours[path]):
        mine, others = theirs.get(path, ours[path]), ours[path]
        texts += [
            f"{path or '/'}: {label} is {_shown(label, mine, others)}, not {_shown(label, others, mine)}"
            for label in {**others, **mine}
            if label not in mine or label not in others or mine[label] != others[label]
        ]
    return texts


def _shown(label: str, facts: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    """Return a fact in short; of a CRS its name, where that tells the two apart."""
    if label not in facts:
        return "absent"
    value = facts[label]
    own, other = (_WKT_NAME.match(str(side.get(label, ""))) for side in (facts, others))
    if own is not None and (other is None or own[1] != other[1]):
        return own[1]
    return _shortener.repr(value)


_shortener = reprlib.Repr(maxstring=160, maxother=160, maxlist=8, maxdict=4)
