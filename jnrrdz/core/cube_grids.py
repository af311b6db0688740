"""Grids of a cube: what images have in common that share an array, and how two grids differ.

Images are of one grid where CRS, pixel size, type and chain of codecs are the same, and
where the corners of their chunks coincide.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codec_table import decoding
from jnrrdz.core.georeference import GeoTransform
from jnrrdz.core.json_schema import shown
from jnrrdz.core.markings import SECURITIES, SECURITY
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import UnrepresentableError

SHOWN = 5
FLAGS = "flag_meanings"
"""An attribute that holds for one band alone, of classes or bits."""

SHIFTED = "its corner is not whole chunks from the other's"
THOUSANDTH = 1e-3
"""Of a pixel: as far apart places are the same."""

RESAMPLE = "odc-stac or rioxarray resample them, --group-by-grid gives each grid a group of its own"


@dataclass(frozen=True, eq=False)
class GridImage:
    """The references of one scene, and where they are on its grid."""

    name: str
    time: np.datetime64
    bands: tuple[str, ...]
    corner: tuple[int, int]
    """Row and column of its first chunk, in chunks from the grid's zero."""
    shape: tuple[int, int]
    refs: ChunkRefs
    rank: tuple[Any, ...]
    lists: Mapping[str, tuple[Any, ...]]
    is_file: bool


@dataclass
class Grid:
    """What images have in common that share an array."""

    template: VirtualArray
    mapping: VirtualArray
    wkt: str
    """The coordinate system."""
    attributes: dict[str, Any]
    group_attributes: dict[str, Any]
    zero: GeoTransform
    """Of the grid's zero: the corner of a chunk."""
    block: int
    """Bands in a chunk."""
    name: str | None = None
    """The group's name in a cube that exists."""
    markings: list[Any] = field(default_factory=list)
    """The security markings of all files, each once."""
    parts: list[GridImage] = field(default_factory=list)

    @property
    def bands(self) -> frozenset[str]:
        """The names of the bands of all parts."""
        return frozenset(band for part in self.parts for band in part.bands)

    @property
    def chunk(self) -> tuple[int, int]:
        """Rows and columns of a chunk."""
        return self.template.chunks[-2], self.template.chunks[-1]

    @property
    def resolution(self) -> str:
        """The size of a pixel, by which its group is named: `10m`."""
        size = abs(self.zero.column_x)
        unit = "m" if "PROJCRS" in self.wkt else "deg"
        return f"{size:g}{unit}"

    @property
    def system(self) -> str:
        """The CRS as a part of a group's name."""
        code = self.group_attributes.get("proj:code")
        text = str(code or self.mapping.attributes.get("projected_crs_name") or "no name")
        return text.replace(":", "_").replace("/", "_")

    def add(
        self,
        part: GridImage,
        attributes: Mapping[str, Any],
        group_attributes: Mapping[str, Any],
    ) -> None:
        """Take an image: of the attributes those stay that all images have."""
        _keep_common(self.attributes, attributes)
        _keep_common(self.group_attributes, group_attributes, but="spatial:")
        single = group_attributes.get(SECURITY)
        for marking in group_attributes.get(SECURITIES, [single]):
            if marking not in self.markings:
                self.markings.append(marking)
        self.parts.append(part)


def _keep_common(common: dict[str, Any], other: Mapping[str, Any], but: str | None = None) -> None:
    """Take out what another image does not have, or has otherwise; names that begin with `but` stay."""
    for name in list(common):
        is_kept = but is not None and name.startswith(but)
        if not is_kept and (name not in other or other[name] != common[name]):
            del common[name]


def separation(number: int, grids: Sequence[Grid], names: Sequence[str]) -> tuple[str, str | None]:
    """Return why a grid is none of those before it, and the name of the one that looks like it."""
    grid = grids[number]
    like = next((other for other in range(number) if _has_pixels_of(grids[other], grid)), None)
    if like is None:
        reason = "another CRS"
        if grid.wkt == grids[0].wkt:
            reason = "pixels of another size or place"
        return (f"apart from {names[0]}: {reason}", None) if number else ("", None)
    other = grids[like]
    stored_otherwise = _differences(grid, other)
    reason = f"apart from {names[like]}: {'; '.join(stored_otherwise or [SHIFTED])}"
    is_other_kind = grid.template.dtype != other.template.dtype or FLAGS in grid.attributes or FLAGS in other.attributes
    is_other_band = is_other_kind and not grid.bands & other.bands
    # what is shifted was put apart because `group_by_grid` asked for it
    is_split = bool(stored_otherwise) and not is_other_band
    return reason, names[like] if is_split else None


def _has_pixels_of(one: Grid, other: Grid) -> bool:
    """Whether two grids have the same pixels, however they are stored."""
    if (one.wkt, one.zero.column_x, one.zero.row_y) != (other.wkt, other.zero.column_x, other.zero.row_y):
        return False
    apart = ((one.zero.x - other.zero.x) / one.zero.column_x, (one.zero.y - other.zero.y) / one.zero.row_y)
    return all(abs(pixels - round(pixels)) < THOUSANDTH for pixels in apart)


def _differences(one: Grid, other: Grid) -> list[str]:
    """Return how two grids of the same pixels are stored otherwise."""
    texts = []
    for what, mine, theirs in (
        ("", one.template.dtype.name, other.template.dtype.name),
        ("chunks of ", _sides(one.chunk), _sides(other.chunk)),
        ("bands in a chunk: ", one.block, other.block),
        ("nodata ", _nodata(one), _nodata(other)),
        ("bands of a chunk: ", _bands_of_chunk(one), _bands_of_chunk(other)),
        ("", _names_of(one), _names_of(other)),
    ):
        if str(mine) != str(theirs):
            texts.append(f"{what}{mine}, not {theirs}")
    if _names_of(one) == _names_of(other):
        for mine, theirs in zip(decoding(one.template.codecs), decoding(other.template.codecs), strict=True):
            left, right = (side.get("configuration", {}) for side in (mine, theirs))
            texts += [
                f"{mine['name']} with {name} {shown(left.get(name))}, not {shown(right.get(name))}"
                for name in {**right, **left}
                if left.get(name) != right.get(name)
            ]
    return texts


def _nodata(grid: Grid) -> Any:
    return grid.attributes.get("_FillValue", f"none (missing chunks are {grid.template.fill_value})")


def _bands_of_chunk(grid: Grid) -> str:
    """Return the names of the bands that chunks hold together, empty where each chunk has one."""
    return ", ".join(grid.parts[0].bands) if grid.block > 1 else ""


def _sides(chunk: Sequence[int]) -> str:
    return " x ".join(map(str, chunk))


def _names_of(grid: Grid) -> str:
    return ", ".join(codec.name for codec in grid.template.codecs)


def refuse_grids(grids: Sequence[Grid]) -> None:
    """Refuse images that no one grid of a resolution holds."""
    systems: dict[Any, Grid] = {}
    for grid in grids:
        systems.setdefault(grid.wkt, grid)
    if len(systems) > 1:
        named = [f"{grid.system} ({grid.parts[0].name})" for grid in systems.values()]
        text = " and ".join(named[:SHOWN])
        raise UnrepresentableError(f"images in {len(systems)} coordinate systems, {text}; {RESAMPLE}")
    by_place: dict[tuple[Any, ...], Grid] = {}
    for grid in grids:
        place = (grid.zero.column_x, grid.zero.row_y, grid.chunk, grid.template.dtype)
        other = by_place.setdefault(place, grid)
        if other is not grid and (other.zero.x, other.zero.y) != (grid.zero.x, grid.zero.y):
            columns = (grid.zero.x - other.zero.x) / grid.zero.column_x
            rows = (grid.zero.y - other.zero.y) / grid.zero.row_y
            raise UnrepresentableError(
                f"{grid.parts[0].name} lies {columns:g} columns and {rows:g} rows beside "
                f"whole chunks of {other.parts[0].name}; {RESAMPLE}"
            )


def group_names(grids: Sequence[Grid]) -> list[str]:
    """Return a name for each grid, which does not change when other grids come after it.

    The first grid of a resolution has the resolution's name.  A later one adds its type, then a number; one in another
    CRS than the first grid's begins with that CRS.  Groups of a cube that is there keep their names.
    """
    taken = {grid.name for grid in grids if grid.name is not None}
    names = []
    for grid in grids:
        name = grid.name
        if name is None:
            plain = grid.resolution if grid.wkt == grids[0].wkt else f"{grid.system}_{grid.resolution}"
            typed = f"{plain}_{grid.template.dtype.name}"
            numbered = (f"{typed}_{number}" for number in itertools.count(2))
            name = next(each for each in itertools.chain((plain, typed), numbered) if each not in taken)
            taken.add(name)
        names.append(name)
    return names
