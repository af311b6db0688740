"""What has to be the same in groups that are put together, and in words what is not.

A group's facts are plain JSON, so that groups that fit have the same text; what a fact is called is what the user
reads.
"""

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.bands import ADD_OFFSET, BAND, CF_UNITS, NAMES, OFFSETS, PER_BAND, SCALE_FACTOR, SCALES, UNITS
from jnrrdz.core.codec_table import member_in_chunks
from jnrrdz.core.coordinate import is_time
from jnrrdz.core.georeference import (
    CRS_WKT,
    GEO_TRANSFORM,
    MAPPING_ATTRIBUTES,
    WKT,
    WKT2,
    crs_name,
    geo_transform,
    wkt_of,
)
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.core.zarr_json import array_json, json_value
from jnrrdz.errors import UnrepresentableError

type Facts = dict[str, dict[str, Any]]
"""By the path of a node, what has to be the same."""

MEANING = {
    *("_FillValue", "missing_value", SCALE_FACTOR, ADD_OFFSET, SCALES, OFFSETS, "_Unsigned"),
    *(CF_UNITS, UNITS, "calendar", "grid_mapping"),
    *("flag_values", "flag_masks", "flag_meanings", "color_table"),
    *("photometric", "colorinterp", "alpha_premultiplied", NAMES),
}
"""Attributes of an array without which its numbers mean something else."""

PLACE = {"multiscales", "AREA_OR_POINT"}
PLACE_PREFIXES = ("proj:", "spatial:")
"""Attributes that say where a group lies."""


ATTRIBUTE = "attribute "
"""What the labels of facts begin with that are attributes."""


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
    documents = {path: array_json(node) for path, node in nodes if isinstance(node, VirtualArray)}
    seen = Sketch(facts={"": _group_facts(group)}, size=next(iter(lengths), 1))
    for path, node in nodes:
        if isinstance(node, VirtualGroup):
            _refuse_twin(path, dim)
            seen.facts[path] = _group_facts(node)
            continue
        role = _role(path, node, dim, mappings, is_old=bool(lengths))
        seen.roles[path] = role
        seen.facts[path] = _array_facts(node, documents[path], role, dim)
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
    if not array.shape and (name in mappings or not MAPPING_ATTRIBUTES.isdisjoint(array.attributes)):
        return Role.MAPPING
    return Role.KEPT if is_old or array.dimension_names == (name,) else Role.STACKED


def _array_facts(array: VirtualArray, document: Mapping[str, Any], role: Role, dim: str) -> dict[str, Any]:
    attributes = document["attributes"]
    facts: dict[str, Any] = {"dimensions": document["dimension_names"]}
    if role is Role.COORDINATE:
        # times are put in one unit, whatever theirs are
        names = () if is_time(array.attributes) else ("units", "calendar")
        given = {name: attributes[name] for name in names if name in attributes}
        return facts | {f"{ATTRIBUTE}{name}": value for name, value in given.items()}
    along = array.dimension_names.index(dim) if role is Role.JOINED else None
    facts["shape"] = [size for axis, size in enumerate(document["shape"]) if axis != along]
    facts["type"] = document["data_type"]
    facts["chunks"] = list(array.chunks)
    facts["fill value"] = document["fill_value"]
    facts |= _codec_facts(document["codecs"])
    if attributes.get(WKT) == attributes.get(CRS_WKT):
        attributes.pop(WKT, None)  # manifests of the first version say it twice
    for name, value in sorted(attributes.items()):
        if role is Role.JOINED and is_per_band(name, array, dim):
            # these have as many entries as bands, and are joined as the bands are
            if name in MEANING:
                facts[f"{ATTRIBUTE}{name}"] = "an entry a band"
        elif _has_to_agree(name, value, role):
            facts[f"{ATTRIBUTE}{name}"] = value
    if role is Role.KEPT:
        refs = array.refs.columns()
        inline = {str(chunk): data.hex() for chunk, data in sorted(refs.inline.items())}
        ranges = [refs.ranges(chunk) for chunk in range(refs.chunks)]
        facts["values"] = [inline, *ranges]
    return facts


def _has_to_agree(name: str, value: Any, role: Role) -> bool:
    """Whether arrays with another value of an attribute are not put together."""
    if role in {Role.KEPT, Role.MAPPING} or name.startswith(PLACE_PREFIXES):
        return True
    # a single band's description is of that image alone
    return name in MEANING and not (name == NAMES and _is_of_one(value))


def _is_of_one(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 1


def is_per_band(name: str, array: VirtualArray, dim: str) -> bool:
    """Whether an attribute has an entry for each place along the axis."""
    value = array.attributes.get(name)
    bands = array.shape[array.dimension_names.index(dim)]
    return dim == BAND and name in PER_BAND and isinstance(value, list | tuple) and len(value) == bands


def _codec_facts(codecs: list[dict[str, Any]]) -> dict[str, Any]:
    names = [codec["name"] for codec in codecs]
    facts: dict[str, Any] = {"codecs": names}
    compared_apart = [member_in_chunks(name) for name in names]
    for place, codec in enumerate(codecs):
        label = names[place] if place == 0 else f"{names[place]} ({place + 1})"
        for member, value in codec.get("configuration", {}).items():
            if member != compared_apart[place]:
                facts[f"codec {label}, {member}"] = value
    return facts


def _group_facts(group: VirtualGroup) -> dict[str, Any]:
    arrays = [child for child in group.children.values() if isinstance(child, VirtualArray)]
    said = [array.attributes.get(CRS_WKT) for array in arrays]  # of any type in others' manifests
    return {"kind": "group"} | {
        f"attribute {name}": json_value(value)
        for name, value in group.attributes.items()
        if name in PLACE or name.startswith(PLACE_PREFIXES)
        # its grid mapping says it, and in a pyramid the group of all levels
        if name != WKT2 or value not in said
    }


# In words


def differences(theirs: Facts, ours: Facts) -> list[str]:
    """Return in what the first differs, a text for each thing: what a file `has`, `is in`, `lies` at.

    What only follows from something that is told (the chunks of another shape, the bounding box of another place,
    the same at a coarser level) is not told again.
    """
    if theirs.keys() != ours.keys():
        return [_tree(theirs, ours)]
    told: dict[tuple[str, str], str] = {}
    place: list[str] = []
    for path in sorted(ours, key=lambda path: "kind" in ours[path]):  # arrays first
        mine, others = theirs[path], ours[path]
        if "kind" in others:
            rows = {} if place or told else _rows(path or "the group", mine, others)
        elif not MAPPING_ATTRIBUTES.isdisjoint(label.removeprefix(ATTRIBUTE) for label in {**mine, **others}):
            rows, place = {}, place or _place(path, mine, others)
        else:
            rows = _array(path, mine, others)
        for label, text in rows.items():
            told.setdefault((path.rpartition("/")[2], label), text)
    return [*place, *told.values()]


FOLLOWS = {
    "dimensions": ("shape", "chunks", "type", "fill value", "codec", "values", ATTRIBUTE),
    "shape": ("chunks", "codec "),
    "type": ("fill value", "codec "),
    "chunks": ("codec ",),
    "codecs": ("codec ",),
}
"""Facts of an array that are different where another one is."""


def _tree(theirs: Facts, ours: Facts) -> str:
    """Return what other arrays there are: grid mappings and groups come and go with them."""
    arrays = [[path for path, facts in side.items() if facts.get("shape")] for side in (theirs, ours)]
    if arrays[0] == arrays[1]:
        arrays = [sorted(theirs.keys() - ours.keys()), sorted(ours.keys() - theirs.keys())]
    return f"holds {', '.join(arrays[0]) or 'nothing'}, not {', '.join(arrays[1]) or 'nothing'}"


def _array(path: str, mine: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, str]:
    """Return the differences of an array that do not follow from each other."""
    hidden: tuple[str, ...] = ()
    for label, followers in FOLLOWS.items():
        if mine.get(label) != others.get(label) and not label.startswith(hidden or ("\0",)):
            hidden += followers
    rows = _rows(path, mine, others)
    return {label: text for label, text in rows.items() if not label.startswith(hidden or ("\0",))}


def _rows(path: str, mine: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, str]:
    """Return a text for each fact that differs, by its label."""
    return {
        label: _row(path, label, mine.get(label), others.get(label))
        for label in {**others, **mine}
        if label not in mine or label not in others or mine[label] != others[label]
    }


def _row(path: str, label: str, mine: Any, others: Any) -> str:
    if label == "values":
        return f"has other values in {path}"
    if label in SAID:
        lead, spelt = SAID[label]
        return f"has {lead}{spelt(mine)} in {path}, not {spelt(others)}"
    name = label.removeprefix(ATTRIBUTE)
    usual = "none" if others is None else _shortener.repr(others)
    return f"has {f'no {name}' if mine is None else f'the {name} {_shortener.repr(mine)}'} in {path}, not {usual}"


def _sides(shape: Any) -> str:
    return " x ".join(map(str, shape)) or "single"


SAID: dict[str, tuple[str, Callable[[Any], str]]] = {
    "dimensions": ("the dimensions ", ", ".join),
    "shape": ("the shape ", _sides),
    "type": ("", str),
    "chunks": ("chunks of ", _sides),
    "codecs": ("the codecs ", ", ".join),
}
"""How facts that every array has are said."""


def _place(path: str, mine: Mapping[str, Any], others: Mapping[str, Any]) -> list[str]:
    """Return how two grid mappings differ: CRS, size of pixels, place."""
    said = [{label.removeprefix(ATTRIBUTE): value for label, value in side.items()} for side in (mine, others)]
    wkt = [wkt_of(side) for side in said]
    if wkt[0] != wkt[1]:
        names = [crs_name(text) or text[:40] or "no CRS" for text in wkt]
        if names[0] == names[1]:
            names[0] = f"another {names[0]}"
        return [f"is in {names[0]}, not {names[1]}"]
    transforms = [geo_transform(side) for side in said]
    mine_at, others_at = transforms
    if mine_at == others_at:
        return list(_rows(path, mine, others).values())
    if mine_at is None or others_at is None:
        return [_row(path, GEO_TRANSFORM, *(side.get(GEO_TRANSFORM) for side in said))]
    steps = [[at.column_x, at.row_x, at.column_y, at.row_y] for at in (mine_at, others_at)]
    if steps[0] != steps[1]:
        if mine_at.is_rotated or others_at.is_rotated:
            return [f"is turned otherwise: steps {_shortener.repr(steps[0])}, not {_shortener.repr(steps[1])}"]
        sizes = [f"{abs(at.column_x):.15g} x {abs(at.row_y):.15g}" for at in (mine_at, others_at)]
        return [f"has pixels of {sizes[0]}, not {sizes[1]}"] if sizes[0] != sizes[1] else ["is mirrored"]
    origins = [("x", mine_at.x, others_at.x), ("y", mine_at.y, others_at.y)]
    moved = (f"{name} origin {at:.15g}, not {other:.15g}" for name, at, other in origins if at != other)
    return [f"lies elsewhere: {', '.join(moved)}"]


_shortener = reprlib.Repr(maxstring=80, maxother=80, maxlist=8, maxdict=2, maxlevel=2)
