"""Images of one archive as a cube: time by band by y by x, every chunk where it stands, those of missing files missing.

Images share an array if they have one CRS, resolution, type and chain of codecs, and lie whole chunks apart: then
neighbours are one mosaic, and nothing is decoded.  Images of several resolutions become a group for each.  What
happens where two images have the same chunk is the caller's choice.  docs/decisions/033-cubes.md says what was
decided, and why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.bands import BAND, DEFAULTS, NAMES, OFFSETS, SCALES, UNITS, by_band, with_common
from jnrrdz.core.codec_table import decoding, lifted, with_sides
from jnrrdz.core.coordinate import Coordinate, column, variable
from jnrrdz.core.cube_grids import (
    FLAGS,
    RESAMPLE,
    SHOWN,
    Grid,
    GridImage,
    group_names,
    refuse_grids,
    separation,
)
from jnrrdz.core.georeference import (
    GEO_TRANSFORM,
    GeoTransform,
    geo_transform,
    spatial_extent,
    wkt_of,
)
from jnrrdz.core.markings import combined
from jnrrdz.core.refs import ChunkRefs, in_turn
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.core.zarr_json import dumps, json_value
from jnrrdz.errors import MalformedError, UnrepresentableError

TIME = "time"
VARIABLE, MAPPING = "data", "spatial_ref"
BAND_LISTS = (SCALES, OFFSETS, UNITS, "colorinterp")
"""Attributes with an entry for each band that a cube keeps."""

LIMIT = 1 << 28
"""Chunks of a cube, missing ones included: each takes some bytes."""

TIMES = 32
"""Times in a chunk of their axis, so few that Icechunk keeps them with the references (below 512 bytes).  The last
chunk is filled up, so that who has opened a cube of fewer times finds them where they were."""


@dataclass(frozen=True, eq=False)
class Scene:
    """One file: which time and bands it is, and what it holds."""

    name: str
    time: np.datetime64
    group: VirtualGroup
    bands: tuple[str, ...] = ()
    """Names of its bands; its own where none are given."""
    rank: tuple[Any, ...] = ()
    """Which of two that have the same chunk is taken: the higher one."""
    cube_group: str | None = None
    """The group of a cube that is there already, of which this is one time; None for a file."""


@dataclass(frozen=True)
class CubeGroup:
    """One group of a cube: what it holds, and why its files are in no other."""

    name: str
    """Empty text is the root."""
    times: int
    first: str
    """The first time, in ISO 8601."""
    last: str
    bands: tuple[str, ...]
    files: int
    chunks: int
    missing: int
    """Chunks that no file has."""
    reason: str = ""
    """Why it is a group of its own; empty for the first one."""
    split_from: str | None = None
    """The group that looks like the same grid, if there is one."""

    def __str__(self) -> str:
        """Return one line for people."""
        first, last = (time.removesuffix("T00:00:00") for time in (self.first, self.last))
        dates = first if self.times == 1 else f"{first} to {last}"
        held = f"{self.name or '/'}: {_counted(self.times, 'time')} ({dates}), {_counted(len(self.bands), 'band')}"
        files = f"{_counted(self.files, 'file')}, {self.missing} of {_counted(self.chunks, 'chunk')} missing"
        return f"{held}, {files}{f'; {self.reason}' if self.reason else ''}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


@dataclass(frozen=True, eq=False)
class Built:
    """A cube, and what was told of its making."""

    group: VirtualGroup
    times: int
    bands: tuple[str, ...]
    chunks: int
    missing: int
    twins: tuple[str, ...]
    """Files that share a chunk with another, `a and b`, and lose it."""
    groups: tuple[CubeGroup, ...] = ()


@dataclass
class Cube:
    """Scenes as they come; `finish` puts them together."""

    group_by_grid: bool = False
    resolve: bool = False
    """Whether the rank says which of two scenes is taken; else they are an error."""
    _grids: dict[tuple[Any, ...], Grid] = field(default_factory=dict)
    _records: dict[str, SourceRecord] = field(default_factory=dict)
    _options: list[Any] = field(default_factory=list)

    def add(self, scene: Scene) -> None:
        """Take a scene."""
        group, array, mapping = _image(scene)
        transform = _transform(scene, mapping)
        bands = _bands(scene, array)
        block = array.chunks[0]
        if block not in {1, len(bands)}:
            raise UnrepresentableError(f"chunks of {block} of {len(bands)} bands", field=scene.name)
        corner, beyond = _corner(transform, array.chunks[-2:])
        attributes = by_band(array.attributes, len(bands))
        lists = {name: tuple(attributes[name]) for name in BAND_LISTS if name in attributes}
        for name in (*BAND_LISTS, NAMES, "long_name"):
            attributes.pop(name, None)
        wkt = wkt_of(mapping.attributes)
        key = (
            wkt,
            *(transform.column_x, transform.row_y, beyond),
            *(array.chunks[-2:], array.dtype.name, block),
            str(array.fill_value),
            bands if block > 1 or FLAGS in attributes else None,
            # a manifest has these as JSON, a scan as numbers of numpy
            dumps(json_value([decoding(array.codecs), attributes.get("_FillValue")])),
        )
        grid = self._grids.get(key)
        if grid is None:
            zero = transform._replace(x=beyond[1] * transform.column_x, y=beyond[0] * transform.row_y)
            grid = Grid(array, mapping, wkt, dict(attributes), dict(group.attributes), zero, block)
            # the root of a cube gets the name that its resolution has
            grid.name = scene.cube_group or None
            self._grids[key] = grid
        part = GridImage(
            name=scene.name,
            time=scene.time,
            bands=bands,
            corner=corner,
            shape=(array.shape[-2], array.shape[-1]),
            refs=array.refs.columns(),
            rank=scene.rank,
            lists=lists,
            is_file=scene.cube_group is None,
        )
        grid.add(part, attributes, group.attributes)
        for record in scene.group.sources:
            require_unchanged(self._records.setdefault(record.url, record), record)
        options = scene.group.origin.get("options")
        if options not in self._options:
            self._options.append(options)

    def finish(self) -> Built:
        """Return the cube of all scenes: the root holds it where there is one grid, else a group for each."""
        if not self._grids:
            raise UnrepresentableError("no image at all")
        grids = list(self._grids.values())
        if not self.group_by_grid:
            refuse_grids(grids)
        built = [_Builder(grid, self.resolve).built() for grid in grids]
        names = group_names(grids)
        origin: dict[str, Any] = {"cube": True}
        if len(self._options) == 1 and self._options[0] is not None:
            origin["options"] = self._options[0]
        records = tuple(self._records.values())
        if len(built) == 1:
            root = VirtualGroup(built[0].group.children, built[0].group.attributes, records, origin)
        else:
            children = {name: one.group for name, one in zip(names, built, strict=True)}
            root = VirtualGroup(children, {}, records, origin)
        return Built(
            root,
            len({part.time for grid in grids for part in grid.parts}),
            tuple(dict.fromkeys(band for one in built for band in one.bands)),
            sum(one.chunks for one in built),
            sum(one.missing for one in built),
            tuple(twin for one in built for twin in one.twins),
            tuple(_described(number, grids, built, names) for number in range(len(grids))),
        )


def _described(number: int, grids: Sequence[Grid], built: Sequence[Built], names: Sequence[str]) -> CubeGroup:
    """Return what one group holds, and why it is none of those before it."""
    grid, group = grids[number], built[number]
    times = np.unique(column([part.time for part in grid.parts])).astype(str)
    reason, split_from = separation(number, grids, names)
    return CubeGroup(
        name=names[number] if len(grids) > 1 else "",
        times=len(times),
        first=str(times[0]),
        last=str(times[-1]),
        bands=group.bands,
        files=sum(part.is_file for part in grid.parts),
        chunks=group.chunks,
        missing=group.missing,
        reason=reason,
        split_from=split_from,
    )


def _image(scene: Scene) -> tuple[VirtualGroup, VirtualArray, VirtualArray]:
    """Return the group that holds the image at full resolution, the image, and where it lies."""
    choice = scene.group.choice()
    group = scene.group.at(choice.path)
    if choice.is_empty or not isinstance(group, VirtualGroup):
        raise UnrepresentableError("no image in it", field=scene.name)
    arrays = [
        child
        for child in group.children.values()
        if isinstance(child, VirtualArray) and child.dimension_names in {("y", "x"), (BAND, "y", "x")}
    ]
    if len(arrays) != 1:
        raise UnrepresentableError(
            f"{len(arrays)} images with the axes y, x or band, y, x; one is read", field=scene.name
        )
    (array,) = arrays
    if array.dimension_names[0] != BAND:
        array = replace(
            array,
            shape=(1, *array.shape),
            chunks=(1, *array.chunks),
            dimension_names=(BAND, *array.dimension_names),
            codecs=lifted(array.codecs, len(array.chunks)),
        )
    mapping = group.children.get(str(array.attributes.get("grid_mapping")))
    if not isinstance(mapping, VirtualArray):
        raise UnrepresentableError("it does not say where it lies", field=scene.name)
    return group, array, mapping


def _bands(scene: Scene, array: VirtualArray) -> tuple[str, ...]:
    count = array.shape[0]
    own = array.attributes.get(NAMES)
    if scene.bands and len(scene.bands) == count:
        return scene.bands
    if isinstance(own, list | tuple) and len(own) == count and all(own):
        return tuple(map(str, own))
    if scene.bands and count > 1:
        return tuple(f"{scene.bands[0]}_{number}" for number in range(1, count + 1))
    return tuple(map(str, range(1, count + 1)))


def require_unchanged(then: SourceRecord, now: SourceRecord) -> None:
    """Refuse a source of a cube that is not what it was when the cube was made."""
    change = then.contradiction(now)
    if change is not None:
        message = f"changed since the cube was made of it; make the cube anew ({change})"
        raise UnrepresentableError(message, url=now.url)


def _transform(scene: Scene, mapping: VirtualArray) -> GeoTransform:
    """Return where an image is; an error where its rows are at no one y."""
    try:
        transform = geo_transform(mapping.attributes)
    except MalformedError as error:
        raise error.at(url=scene.name) from error.__cause__
    if transform is None:
        raise UnrepresentableError("it does not say where it lies", field=scene.name)
    if transform.is_rotated or not transform.column_x or not transform.row_y:
        raise UnrepresentableError("a rotated image, whose rows are at no one y", field=scene.name)
    return transform


def _corner(
    transform: GeoTransform,
    chunk: Sequence[int],
) -> tuple[tuple[int, int], tuple[float, float]]:
    """Return how far from zero an image begins: in whole chunks, and in pixels beyond them.

    To a thousandth of a pixel; rows come first.
    """
    row = round(transform.y / transform.row_y, 3)
    left = round(transform.x / transform.column_x, 3)
    rows, columns = chunk
    corner = int(row // rows), int(left // columns)
    beyond = round(row - corner[0] * rows, 3), round(left - corner[1] * columns, 3)
    return corner, beyond


# One grid


@dataclass(frozen=True, eq=False)
class _Builder:
    """Puts the parts of one grid together."""

    grid: Grid
    resolve: bool

    def built(self) -> Built:
        """Return the group of this grid."""
        parts = self.grid.parts
        if self.resolve:
            parts = sorted(parts, key=lambda part: part.rank)
        times = column([part.time for part in parts])
        axis, when = np.unique(times, return_inverse=True)
        block, bands = self.grid.block, list(parts[0].bands)
        if block == 1:
            bands = sorted({band for part in parts for band in part.bands})
        corners = np.array([part.corner for part in parts], np.int64)
        sizes = np.array([part.shape for part in parts], np.int64)
        chunk = np.array(self.grid.chunk, np.int64)
        first = corners.min(0)
        ends = (corners - first) * chunk + sizes
        shape = ends.max(0)
        self._check_edges(parts, ends, shape)
        chunk_counts = (len(axis), len(bands) // block, *(-(-shape // chunk)).tolist())
        if np.prod(chunk_counts, dtype=float) > LIMIT:
            raise UnrepresentableError(
                f"a cube of {chunk_counts} chunks; these images lie far from each other; {RESAMPLE}"
            )
        numbers = {band: number for number, band in enumerate(bands)}
        refs, twins = self._placed(parts, when, numbers, corners - first, chunk_counts)
        array = self._array(parts, refs, (len(axis), len(bands), *shape.tolist()), tuple(bands))
        mapping, attributes = self._place(first, shape)
        children: dict[str, Node] = {
            VARIABLE: array,
            TIME: variable(TIME, Coordinate(axis, {}), TIMES),
            MAPPING: mapping,
        }
        group = VirtualGroup(children, attributes)
        return Built(group, len(axis), tuple(bands), refs.chunks, missing_chunks(array), twins)

    def _check_edges(self, parts: Sequence[GridImage], ends: NDArray[np.int64], shape: NDArray[np.int64]) -> None:
        inside = ((ends % np.array(self.grid.chunk)) != 0) & (ends != shape)
        if inside.any():
            part = parts[int(np.flatnonzero(inside.any(1))[0])]
            raise UnrepresentableError(
                f"{part.name} of {part.shape} pixels ends within a chunk of {self.grid.chunk} where others go on; "
                f"{RESAMPLE}"
            )

    def _placed(
        self,
        parts: Sequence[GridImage],
        when: NDArray[np.int64],
        numbers: Mapping[str, int],
        corners: NDArray[np.int64],
        chunk_counts: tuple[int, ...],
    ) -> tuple[ChunkRefs, tuple[str, ...]]:
        """Return the references of the whole grid, and which scenes share a chunk."""
        starts = np.cumsum([0, *(part.refs.chunks for part in parts)])
        nothing = int(starts[-1])  # the chunk behind all others is missing
        order = np.full(chunk_counts, nothing, np.int64)
        twins: dict[str, None] = {}
        height, width = self.grid.chunk
        for number, part in enumerate(parts):
            rows, columns = -(-part.shape[0] // height), -(-part.shape[1] // width)
            row, left = corners[number].tolist()
            planes = [numbers[band] for band in part.bands] if self.grid.block == 1 else [0]
            chunks = np.arange(starts[number], starts[number + 1]).reshape(len(planes), rows, columns)
            there = part.refs.counts > 0
            there[list(part.refs.inline)] = True
            there = there.reshape(chunks.shape)
            for plane, band in enumerate(planes):
                view = order[when[number], band, row : row + rows, left : left + columns]
                shared = view[there[plane] & (view != nothing)]
                for other in np.unique(np.searchsorted(starts, shared, "right") - 1).tolist():
                    twins[f"{parts[other].name} and {part.name}"] = None
                view[there[plane]] = chunks[plane][there[plane]]
        if twins and not self.resolve:
            text = "; ".join(list(twins)[:SHOWN])
            raise UnrepresentableError(
                f"{len(twins)} pairs of files have the same pixels: {text}; --band-from tells "
                "bands apart, --latest or --by says which are taken"
            )
        return in_turn([*(part.refs for part in parts), ChunkRefs.empty(1)]).take(order.ravel()), tuple(twins)

    def _array(
        self, parts: Sequence[GridImage], refs: ChunkRefs, shape: tuple[int, ...], bands: tuple[str, ...]
    ) -> VirtualArray:
        grid = self.grid
        lists = {}
        for name in BAND_LISTS:
            entries: dict[str, Any] = {}
            for part in parts:
                missing = (DEFAULTS[name],) * len(part.bands) if name in DEFAULTS else ()
                for band, entry in zip(part.bands, part.lists.get(name, missing), strict=False):
                    if entries.setdefault(band, entry) != entry and name in {SCALES, OFFSETS}:
                        raise UnrepresentableError(
                            f"{name} of band {band} is {entries[band]}, and {entry} in {part.name}", field=name
                        )
            if len(entries) == len(bands):
                lists[name] = [entries[band] for band in bands]
        return VirtualArray(
            shape=shape,
            dtype=grid.template.dtype,
            chunks=(1, grid.block, *grid.chunk),
            codecs=lifted(with_sides(grid.template.codecs, shape), len(grid.template.chunks)),
            refs=refs,
            dimension_names=(TIME, BAND, "y", "x"),
            fill_value=grid.template.fill_value,
            attributes={
                **with_common(grid.attributes | lists, len(bands)),
                NAMES: list(bands),
                "grid_mapping": MAPPING,
                "coordinates": MAPPING,
            },
        )

    def _place(self, first: NDArray[np.int64], shape: NDArray[np.int64]) -> tuple[VirtualArray, dict[str, Any]]:
        """Return the grid mapping and the group's attributes of the mosaic."""
        grid, zero = self.grid, self.grid.zero
        height, width = grid.chunk
        x = zero.x + float(first[1] * width) * zero.column_x
        y = zero.y + float(first[0] * height) * zero.row_y
        transform = zero._replace(x=x, y=y)
        mapping = replace(
            grid.mapping,
            attributes={**grid.mapping.attributes, GEO_TRANSFORM: transform.text},
        )
        attributes = grid.group_attributes | combined(grid.markings)
        if "spatial:transform" in attributes:
            rows, columns = shape.tolist()
            attributes |= spatial_extent((rows, columns), transform.affine)
        return mapping, attributes


def missing_chunks(array: VirtualArray) -> int:
    """Return how many chunks of an array no file has."""
    refs = array.refs.columns()
    return int((refs.counts == 0).sum()) - len(refs.inline)
