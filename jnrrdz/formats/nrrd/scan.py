"""NRRD and JNRRD to a virtual group: an array for each stored level, virtual levels listed.

Vectors are turned here from the file's order to C order, and axes get names, coordinates and OME-Zarr's attributes.
Follows http://teem.sourceforge.net/nrrd/format.html;
docs/formats/jnrrd.md tells what becomes of a JNRRD.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jnrrdz.core import ome
from jnrrdz.core.arrays import Node, VirtualArray, VirtualGroup
from jnrrdz.core.pyramid import (
    LEVEL_OFFSETS,
    LEVEL_QUALITY,
    TILE_CHECKSUMS,
    TILE_COMPRESSION_LEVELS,
    TILE_METADATA,
    VirtualLevel,
    VolumeLevel,
    axis_attributes,
    level_attributes,
    virtual_levels_attribute,
)
from jnrrdz.core.zarr_json import encode_fill
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.nrrd.header import Axes, Header, read_header
from jnrrdz.formats.nrrd.jnrrd import jnrrd_header, read_lines, resolved
from jnrrdz.formats.nrrd.plain import Beside, Folder, plain_array
from jnrrdz.formats.nrrd.tiles import (
    SPATIAL,
    Places,
    chain,
    chunk_refs,
    chunks_of,
    external_places,
    internal_places,
    tile_config,
)
from jnrrdz.formats.nrrd.tiling import TileLevel, Tiling, tiling_of
from jnrrdz.options import ScanOptions
from jnrrdz.sources.base import ReadAhead

type Attributes = dict[str, Any]
type Numbers = tuple[float, ...]

VARIABLE = "data"
SPACE_KINDS = {"domain", "space"}
CHANNEL_KINDS = ("color", "vector", "gradient", "normal", "list", "complex", "matrix", "scalar", "quaternion")
_NAME = re.compile(r"[A-Za-z_][\w .\-]*")
_TABLES = {"offset_table", "size_table", "files", "metadata", "compression_levels", "level_offsets", "level_quality"}
_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")


def axis_names(axes: Axes, count: int) -> tuple[str, ...]:
    """Return a name for each axis: its label, else x, y, z for those in space, else `d` and its number."""
    labels = tuple(label.strip() for label in axes.labels)
    if labels and all(map(_NAME.fullmatch, labels)) and len(set(labels)) == count:
        return labels
    spatial = iter(SPATIAL)
    names: list[str] = []
    for number in range(count):
        kind = axes.kinds[number].lower() if axes.kinds else ""
        outside = bool(axes.directions) and axes.directions[number] is None
        if kind == "time":
            names.append("t")
        elif any(word in kind for word in CHANNEL_KINDS) or (outside and kind not in SPACE_KINDS):
            names.append("c" if "c" not in names else f"d{number}")
        else:
            names.append(next(spatial, f"d{number}"))
    return tuple(names) if len(set(names)) == count else tuple(f"d{number}" for number in range(count))


@dataclass(frozen=True)
class Steps:
    """Where elements lie along each axis."""

    step: tuple[float, ...]
    start: tuple[float, ...]
    units: tuple[str | None, ...]


def steps_of(axes: Axes, count: int) -> Steps | None:
    """Return steps and first positions; None where the header says no step, or where axes lie askew in space."""
    units: list[str | None] = [unit or None for unit in axes.units] or [None] * count
    step, start = [1.0] * count, [0.0] * count
    known = False
    for number in range(count):
        if axes.spacings and _is_step(axes.spacings[number]):
            step[number], known = axes.spacings[number], True
        vector = axes.directions[number] if axes.directions else None
        if vector is None:
            continue
        along = [place for place, part in enumerate(vector) if part]
        if len(along) != 1 or not _is_step(vector[along[0]]):
            return None
        (place,) = along
        step[number], known = vector[place], True
        start[number] = axes.origin[place] if axes.origin and math.isfinite(axes.origin[place]) else 0.0
        if units[number] is None and axes.space_units:
            units[number] = axes.space_units[place] or None
    return Steps(tuple(step), tuple(start), tuple(units)) if known else None


def _is_step(value: float) -> bool:
    return math.isfinite(value) and value != 0


@dataclass(frozen=True)
class Meaning:
    """The axes of one array, in C order."""

    names: tuple[str, ...]
    units: tuple[str | None, ...]
    steps: Steps | None

    @property
    def is_forward(self) -> bool:
        """Whether coordinates grow with indices, which OME-Zarr presumes."""
        return self.steps is None or all(step > 0 for step in self.steps.step)

    def scale(self, factors: Numbers) -> Numbers | None:
        """Return the distance of neighbours at a level, None where the header says none."""
        if self.steps is None:
            return None
        return tuple(step * factor for step, factor in zip(self.steps.step, factors, strict=True))

    def start(self, factors: Numbers) -> Numbers:
        """Return where the first element's centre is at a level."""
        if self.steps is None:
            return ()
        steps = zip(self.steps.start, self.steps.step, factors, strict=True)
        return tuple(start + (factor - 1) / 2 * step for start, step, factor in steps)

    def array_attributes(self, factors: Numbers) -> Attributes:
        """Return the attributes that tell coordinates."""
        return axis_attributes(self.names, self.units, self.scale(factors), self.start(factors))

    def single_attributes(self, shape: tuple[int, ...]) -> Attributes:
        """Return OME-Zarr's attributes of a group with the one array."""
        if not self.is_forward:
            return {}
        known = self.steps or Steps((1.0,) * len(shape), (0.0,) * len(shape), ())
        each = zip(self.names, known.step, self.units, known.start, strict=True)
        axes = [ome.Axis(name, step, unit, start) for name, step, unit, start in each]
        return ome.ome_attributes("", axes, [ome.Dataset(VARIABLE, shape)])


def meaning_of(axes: Axes, count: int) -> Meaning:
    """Return what so many axes mean."""
    steps = steps_of(axes, count)
    units = steps.units if steps else tuple(unit or None for unit in axes.units) or (None,) * count
    turned = None if steps is None else Steps(steps.step[::-1], steps.start[::-1], steps.units[::-1])
    return Meaning(axis_names(axes, count)[::-1], units[::-1], turned)


def kept(value: Any) -> Any:
    """Return a value of a header as an attribute: in plain lists and objects, numbers that JSON has not as texts."""
    if isinstance(value, dict):
        return {str(name): kept(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [kept(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def scan_jnrrd(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:
    """Return the virtual group of a JNRRD, tiled or not."""
    try:
        lines = read_lines(read)
        document = resolved(lines.items)
        header = jnrrd_header(document, lines.data_start)
        tile = document.tile
        tiling = None if tile is None else tiling_of(*tile, header)
        beside = Beside(read, url, neighbours, Folder(url, neighbours.allow))
        if tiling is None:
            return _plain_group(header, beside, "jnrrd")
        padding = fill_value(tiling, header.dtype)
        if tiling.keys["storage"] == "external":
            places = external_places(
                tiling, header, beside, allow_missing=options.allow_missing, versions=options.object_versions
            )
        else:
            places = internal_places(tiling, header, beside)
        return tiled_group(header, tiling, places, padding, overviews=options.overviews)
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__


def scan_nrrd(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:  # noqa: ARG001  the signature of every scan
    """Return the virtual group of a classic NRRD, its data behind the header or in files beside it."""
    try:
        return _plain_group(read_header(read), Beside(read, url, neighbours, Folder(url, neighbours.allow)), "nrrd")
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__


def _plain_group(header: Header, beside: Beside, name: str) -> VirtualGroup:
    meaning = meaning_of(header.axes, len(header.sizes))
    array = plain_array(header, beside, meaning.names, meaning.array_attributes((1.0,) * len(header.sizes)))
    return VirtualGroup({VARIABLE: array}, {name: kept(header.attributes), **meaning.single_attributes(array.shape)})


def tiled_group(header: Header, tiling: Tiling, places: Places, padding: Any, *, overviews: bool) -> VirtualGroup:
    """Return the group of a tiled header whose tiles are at these places."""
    meaning = meaning_of(header.axes, len(header.sizes))
    keys = {name: value for name, value in tiling.keys.items() if name not in _TABLES}
    attributes = {"jnrrd": kept(header.attributes), "jnrrd_tiling": kept(keys), **_by_level(tiling)}
    if not overviews or tiling.total == 1:
        array = _level_array(header, tiling, tiling.stored[0], places, meaning, padding)
        return VirtualGroup({VARIABLE: array}, {**attributes, **meaning.single_attributes(array.shape)})
    children: dict[str, Node] = {
        str(level.number): VirtualGroup({VARIABLE: _level_array(header, tiling, level, places, meaning, padding)})
        for level in tiling.stored
    }
    virtual = virtual_levels_attribute(
        VirtualLevel(
            str(level.number),
            str(level.source),
            VARIABLE,
            level.factors[::-1],
            level.sizes[::-1],
            level.tile[::-1],
            tiling.method,
        )
        for level in tiling.virtual
    )
    return VirtualGroup(children, {**attributes, **_multiscales(tiling, meaning), **virtual})


def fill_value(tiling: Tiling, dtype: np.dtype[Any]) -> Any:
    """Return the padding value, which elements have to be able to hold."""
    padding = tiling.keys.get("padding_value")
    if padding is None:
        return 0
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if padding == padding // 1 and limits.min <= padding <= limits.max:
            return int(padding)
        raise tiling.error(f"{padding}, which no {dtype.name} is", "padding_value")
    try:
        value = complex(padding) if dtype.kind == "c" else float(padding)
        encode_fill(value, dtype)
    except (OverflowError, UnrepresentableError):
        raise tiling.error(f"a number larger than any {dtype.name}", "padding_value") from None
    return value


def _level_array(  # noqa: PLR0913, PLR0917  one level of a header, and what all levels share
    header: Header, tiling: Tiling, level: TileLevel, places: Places, meaning: Meaning, padding: Any
) -> VirtualArray:
    """Return the array of a stored level."""
    tiles = slice(level.first, level.first + level.tiles)
    chunks = chunks_of(level, tiling)
    config = tile_config(level, tiling, header, is_guessed=places.is_guessed)
    attributes = meaning.array_attributes(_floats(level.scale))
    metadata = tiling.keys.get("metadata", [])[tiles]
    if metadata:
        attributes[TILE_METADATA] = kept(metadata)
        texts = [entry.get("checksum") if isinstance(entry, dict) else None for entry in metadata]
        # shorter ones are of no known kind
        checksums = [text.lower() if isinstance(text, str) and _SHA256.fullmatch(text) else None for text in texts]
        attributes |= {TILE_CHECKSUMS: checksums} if any(checksums) else {}
    if "compression_levels" in tiling.keys:
        attributes[TILE_COMPRESSION_LEVELS] = tiling.keys["compression_levels"][tiles]
    return VirtualArray(
        level.sizes[::-1],
        header.dtype,
        chunks,
        chain(config, chunks),
        chunk_refs(level, places.part(tiles), config, header.dtype.itemsize),
        meaning.names,
        padding,
        attributes,
    )


def _by_level(tiling: Tiling) -> Attributes:
    """Return the header's values for levels by the levels' names."""
    by_level: Attributes = {}
    for name in (LEVEL_OFFSETS, LEVEL_QUALITY):
        values = tiling.keys.get(name)
        is_idle = name == LEVEL_OFFSETS and tiling.keys["storage"] == "external"
        if values is not None and not is_idle:
            is_whole = len(values) == tiling.total
            numbers = range(tiling.total) if is_whole else [level.number for level in tiling.stored]
            by_level[name] = kept({str(number): value for number, value in zip(numbers, values, strict=True)})
    return by_level


def _floats(scale: Sequence[int]) -> tuple[float, ...]:
    return tuple(float(factor) for factor in reversed(scale))


def _multiscales(tiling: Tiling, meaning: Meaning) -> Attributes:
    finest = _floats(tiling.stored[0].scale)
    levels = []
    for level in tiling.stored:
        own = _floats(level.scale)
        factors = tuple(coarse / fine for coarse, fine in zip(own, finest, strict=True))
        levels.append(VolumeLevel(str(level.number), VARIABLE, factors, meaning.scale(own), meaning.start(own)))
    attributes = level_attributes("", meaning.names, meaning.units, levels)
    if not meaning.is_forward:
        attributes.pop("ome", None)
    return attributes
