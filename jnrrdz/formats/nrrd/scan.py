"""A tiled JNRRD to a virtual group: an array for each stored level, virtual levels listed.

May touch numpy, errors, the layout and the model.  Vectors are turned here from the file's order to C order.

NRRD and JNRRD to a virtual group.

May touch errors, sources, the layout and the model.  Follows http://teem.sourceforge.net/nrrd/format.html and
docs/formats/jnrrd.md for what becomes of a JNRRD.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jnrrdz.core.arrays import Node, VirtualArray, VirtualGroup
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
from jnrrdz.core.zarr_json import encode_fill
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.nrrd.axes import VARIABLE, Attributes, Meaning, kept, meaning_of
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
from jnrrdz.formats.nrrd.tiling import ComputedLevel, TileLevel, Tiling, tiling_of
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead

_TABLES = {"offset_table", "size_table", "files", "metadata", "compression_levels", "level_offsets", "level_quality"}
_SHA256 = 64


def tiled_group(header: Header, tiling: Tiling, places: Places, *, overviews: bool) -> VirtualGroup:
    """Return the group of a tiled header whose tiles are at these places."""
    meaning = meaning_of(header)
    made = _Levels(header, tiling, places, meaning, fill_value(tiling, header.dtype))
    attributes = {"jnrrd": kept(header.attributes), "jnrrd_tiling": kept(_told(tiling)), **_by_level(tiling)}
    finest, *coarser = tiling.stored
    if not overviews or tiling.total == 1:
        array = made.array(finest)
        return VirtualGroup({VARIABLE: array}, {**attributes, **meaning.single_attributes(array.shape)})
    children: dict[str, Node] = {
        str(level.number): VirtualGroup({VARIABLE: made.array(level)}) for level in (finest, *coarser)
    }
    return VirtualGroup(children, {**attributes, **_multiscales(tiling, meaning), **_virtual(tiling)})


def fill_value(tiling: Tiling, dtype: np.dtype[Any]) -> Any:
    """Return the padding value, which elements have to be able to hold."""
    given = tiling.keys.get("padding_value")
    if given is None:
        return 0
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if given == given // 1 and limits.min <= given <= limits.max:
            return int(given)
        raise tiling.error(f"{given}, which no {dtype.name} is", "padding_value")
    try:
        value = complex(given) if dtype.kind == "c" else float(given)
        encode_fill(value, dtype)
    except (OverflowError, UnrepresentableError):
        raise tiling.error(f"a number larger than any {dtype.name}", "padding_value") from None
    return value


@dataclass(frozen=True)
class _Levels:
    header: Header
    tiling: Tiling
    places: Places
    meaning: Meaning
    fill_value: Any

    def array(self, level: TileLevel) -> VirtualArray:
        """Return the array of a stored level."""
        first = 0
        for other in self.tiling.stored:
            if other is level:
                break
            first += other.tiles
        chunks = chunks_of(level, self.tiling)
        config = tile_config(level, self.tiling, self.header, is_guessed=self.places.is_guessed)
        places = self.places.part(first, first + level.tiles)
        attributes = self.meaning.array_attributes(_floats(level.scale)) | self._per_tile(first, first + level.tiles)
        return VirtualArray(
            level.sizes[::-1],
            self.header.dtype,
            chunks,
            chain(config, chunks),
            chunk_refs(level, places, config, self.header.dtype.itemsize),
            self.meaning.names,
            self.fill_value,
            attributes,
        )

    def _per_tile(self, first: int, stop: int) -> Attributes:
        """Return what the header tells of each tile."""
        found: Attributes = {}
        metadata = self.tiling.keys.get("metadata", [])[first:stop]
        if metadata:
            found[TILE_METADATA] = kept({"": metadata})[""]
            checksums = [_checksum(one) for one in metadata]
            found |= {TILE_CHECKSUMS: checksums} if any(checksums) else {}
        if "compression_levels" in self.tiling.keys:
            found[TILE_COMPRESSION_LEVELS] = self.tiling.keys["compression_levels"][first:stop]
        return found


def _checksum(metadata: Any) -> str | None:
    """Return the SHA-256 among a tile's metadata, None where there is none: shorter ones are of no known kind."""
    found = metadata.get("checksum") if isinstance(metadata, dict) else None
    if not isinstance(found, str) or len(found) != _SHA256:
        return None
    lower = found.lower()
    return lower if not lower.strip("0123456789abcdef") else None


def _told(tiling: Tiling) -> Attributes:
    """Return the extension's keys without what has a value for each tile or level."""
    return {name: value for name, value in tiling.keys.items() if name not in _TABLES}


def _by_level(tiling: Tiling) -> Attributes:
    """Return the header's values for levels by the levels' names."""
    found: Attributes = {}
    for name in (LEVEL_OFFSETS, LEVEL_QUALITY):
        values = tiling.keys.get(name)
        is_idle = name == LEVEL_OFFSETS and tiling.keys["storage"] == "external"
        if values is not None and not is_idle:
            is_whole = len(values) == tiling.total
            numbers = range(tiling.total) if is_whole else [level.number for level in tiling.stored]
            found[name] = kept({str(number): value for number, value in zip(numbers, values, strict=True)})
    return found


def _floats(scale: Sequence[int]) -> tuple[float, ...]:
    return tuple(float(factor) for factor in reversed(scale))


def _multiscales(tiling: Tiling, meaning: Meaning) -> Attributes:
    finest = tiling.stored[0].scale
    levels = [_volume(level, finest, meaning) for level in tiling.stored]
    found = level_attributes("", meaning.names, meaning.units, levels)
    return found if meaning.is_forward else {name: value for name, value in found.items() if name != "ome"}


def _volume(level: TileLevel, finest: Sequence[int], meaning: Meaning) -> VolumeLevel:
    own = _floats(level.scale)
    factors = tuple(one / base for one, base in zip(own, _floats(finest), strict=True))
    return VolumeLevel(str(level.number), VARIABLE, factors, meaning.scale(own), meaning.start(own))


def _virtual(tiling: Tiling) -> Attributes:
    return virtual_levels_attribute(_virtual_level(level, tiling.method) for level in tiling.virtual)


def _virtual_level(level: ComputedLevel, method: Any) -> VirtualLevel:
    return VirtualLevel(
        str(level.number),
        str(level.source),
        VARIABLE,
        level.factors[::-1],
        level.sizes[::-1],
        level.tile[::-1],
        method,
    )


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
        if tiling.keys["storage"] == "external":
            places = external_places(tiling, header, beside, allow_missing=options.allow_missing)
        else:
            places = internal_places(tiling, header, beside)
        return tiled_group(header, tiling, places, overviews=options.overviews)
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__


def scan_nrrd(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:  # noqa: ARG001  the signature of every scan
    """Return the virtual group of a classic NRRD, its data behind the header or in files beside it."""
    try:
        header = read_header(read)
        beside = Beside(read, url, neighbours, Folder(url, neighbours.allow))
        return _plain_group(header, beside, "nrrd")
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__


def _plain_group(header: Header, beside: Beside, name: str) -> VirtualGroup:
    meaning = meaning_of(header)
    array = plain_array(header, beside, meaning)
    return VirtualGroup({VARIABLE: array}, {name: kept(header.attributes), **meaning.single_attributes(array.shape)})
