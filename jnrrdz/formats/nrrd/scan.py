"""NRRD and JNRRD to a virtual group: an array for each stored level, virtual levels listed.

Vectors are turned here from the file's order to C order, and axes get names, coordinates and OME-Zarr's attributes.
Follows http://teem.sourceforge.net/nrrd/format.html;
docs/formats/jnrrd.md tells what becomes of a JNRRD.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.limits import Budget
from jnrrdz.core.pyramid import (
    LEVEL_OFFSETS,
    LEVEL_QUALITY,
    TILE_CHECKSUMS,
    TILE_COMPRESSION_LEVELS,
    TILE_METADATA,
    VirtualLevel,
    VolumeLevel,
    level_attributes,
    virtual_levels_attribute,
)
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.core.zarr_json import encode_fill
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.nrrd.geometry import Geometry, geometry_of
from jnrrdz.formats.nrrd.header import Header, read_header
from jnrrdz.formats.nrrd.jnrrd import jnrrd_header, read_lines, resolved
from jnrrdz.formats.nrrd.plain import Beside, Folder, plain_array
from jnrrdz.formats.nrrd.tiles import (
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
from jnrrdz.sources.readahead import ReadAhead

type Attributes = dict[str, Any]

VARIABLE = "data"
_TABLES = {"offset_table", "size_table", "files", "metadata", "compression_levels", "level_offsets", "level_quality"}
_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")


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
        budget = Budget(read.size, url)
        tiling = None if tile is None else tiling_of(*tile, header, budget)
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
    geometry = geometry_of(header.axes, header.sizes)
    attributes = geometry.array_attributes((1.0,) * len(header.sizes))
    array = plain_array(header, beside, geometry.names, attributes)
    described = geometry.single_attributes(VARIABLE, array.shape)
    return VirtualGroup({VARIABLE: array}, {name: kept(header.attributes), **described})


def tiled_group(header: Header, tiling: Tiling, places: Places, padding: Any, *, overviews: bool) -> VirtualGroup:
    """Return the group of a tiled header whose tiles are at these places."""
    geometry = geometry_of(header.axes, header.sizes)
    keys = {name: value for name, value in tiling.keys.items() if name not in _TABLES}
    attributes = {"jnrrd": kept(header.attributes), "jnrrd_tiling": kept(keys), **_by_level(tiling)}
    if not overviews or tiling.total == 1:
        array = _level_array(header, tiling, tiling.stored[0], places, geometry, padding)
        return VirtualGroup({VARIABLE: array}, {**attributes, **geometry.single_attributes(VARIABLE, array.shape)})
    children: dict[str, Node] = {
        str(level.number): VirtualGroup({VARIABLE: _level_array(header, tiling, level, places, geometry, padding)})
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
    return VirtualGroup(children, {**attributes, **_multiscales(tiling, geometry), **virtual})


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
    header: Header, tiling: Tiling, level: TileLevel, places: Places, geometry: Geometry, padding: Any
) -> VirtualArray:
    """Return the array of a stored level."""
    tiles = slice(level.first, level.first + level.tiles)
    chunks = chunks_of(level, tiling)
    config = tile_config(level, tiling, header, is_guessed=places.is_guessed)
    attributes = geometry.array_attributes(_floats(level.scale))
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
        geometry.names,
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


def _multiscales(tiling: Tiling, geometry: Geometry) -> Attributes:
    finest = _floats(tiling.stored[0].scale)
    levels = []
    for level in tiling.stored:
        own = _floats(level.scale)
        factors = tuple(coarse / fine for coarse, fine in zip(own, finest, strict=True))
        levels.append(VolumeLevel(str(level.number), VARIABLE, factors, *geometry.ome_level(own)))
    attributes = level_attributes("", geometry.names, geometry.ome_units, levels)
    if not geometry.has_ome:
        attributes.pop("ome", None)
    return attributes
