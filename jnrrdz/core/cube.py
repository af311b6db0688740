"""Images of one archive as a cube: time by band by y by x, every chunk where it stands, those of missing files missing.

Images share an array if they have one CRS, resolution, type and chain of codecs, and lie whole chunks apart: then
neighbours are one mosaic, and nothing is decoded.  Images of several resolutions become a group for each.  What
happens where two images have the same chunk is the caller's choice.  docs/decisions/033-cubes.md says what was
decided, and why.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import Node, SourceRecord, VirtualArray, VirtualGroup
from jnrrdz.core.codecs import LINEAR, RESHAPE, SQUEEZE, TRANSPOSE
from jnrrdz.core.concat import lifted
from jnrrdz.core.configuration import Codec
from jnrrdz.core.coordinate import Coordinate, column, coordinate_of, variable
from jnrrdz.core.refs import ChunkRefs, in_turn
from jnrrdz.core.zarr_json import dumps, json_value
from jnrrdz.errors import UnrepresentableError

TIME, BAND = "time", "band"
VARIABLE, MAPPING = "data", "spatial_ref"
BAND_LISTS = ("scales", "offsets", "band_units", "colorinterp")
"""Attributes with an entry for each band."""

LIMIT = 1 << 28
"""Chunks of a cube, missing ones included: each takes some bytes."""

SHOWN = 5
RESAMPLE = "odc-stac or rioxarray resample them, --group-by-grid gives each grid a group of its own"
CORNER = 6
"""Numbers of a GeoTransform."""


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


@dataclass(frozen=True, eq=False)
class _Part:
    """The references of one scene, and where they stand."""

    name: str
    time: np.datetime64
    bands: tuple[str, ...]
    corner: tuple[int, int]
    """Row and column of its first chunk, in chunks from the grid's zero."""
    shape: tuple[int, int]
    refs: ChunkRefs
    rank: tuple[Any, ...]
    lists: Mapping[str, tuple[Any, ...]]


@dataclass
class _Kind:
    """What images have in common that share an array."""

    template: VirtualArray
    mapping: VirtualArray
    attributes: dict[str, Any]
    group_attributes: dict[str, Any]
    affine: tuple[float, ...]
    """Of the grid's zero: the corner of a chunk."""
    block: int
    """Bands in a chunk."""
    parts: list[_Part] = field(default_factory=list)

    @property
    def chunk(self) -> tuple[int, int]:
        """Rows and columns of a chunk."""
        return self.template.chunks[-2], self.template.chunks[-1]

    @property
    def resolution(self) -> str:
        """The name of a group."""
        size = abs(self.affine[1])
        metric = "PROJCRS" in str(self.mapping.attributes.get("crs_wkt", ""))
        return f"{size:g}{'m' if metric else 'deg'}".replace("/", "_")


@dataclass(frozen=True, eq=False)
class Built:
    """A cube, and what was told of its making."""

    group: VirtualGroup
    names: tuple[str, ...]
    times: int
    bands: tuple[str, ...]
    chunks: int
    missing: int
    twins: tuple[str, ...]
    """Files that share a chunk with another, `a and b`, and lose it."""


@dataclass
class Cube:
    """Scenes as they come; `finish` puts them together."""

    group_by_grid: bool = False
    resolve: bool = False
    """Whether the rank says which of two scenes is taken; else they are an error."""
    _kinds: dict[str, _Kind] = field(default_factory=dict)
    _records: dict[str, SourceRecord] = field(default_factory=dict)
    _origins: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, scene: Scene) -> None:
        """Take a scene."""
        group, array, mapping = _image(scene)
        numbers = [float(text) for text in str(mapping.attributes["GeoTransform"]).split()]
        if len(numbers) != CORNER or numbers[2] or numbers[4] or not numbers[1] or not numbers[5]:
            raise UnrepresentableError("a rotated image, whose rows are at no one y", field=scene.name)
        bands = _bands(scene, array)
        block = array.chunks[0]
        if block not in {1, len(bands)}:
            raise UnrepresentableError(f"chunks of {block} of {len(bands)} bands", field=scene.name)
        # to a thousandth of a pixel: how far from zero the image begins, in whole chunks and in pixels beyond them
        pixels = [round(numbers[3] / numbers[5], 3), round(numbers[0] / numbers[1], 3)]
        corner = [int(place // size) for place, size in zip(pixels, array.chunks[-2:], strict=True)]
        beyond = [
            round(place - whole * size, 3) for place, whole, size in zip(pixels, corner, array.chunks[-2:], strict=True)
        ]
        lists = {name: tuple(array.attributes[name]) for name in BAND_LISTS if name in array.attributes}
        own = {
            name: it for name, it in array.attributes.items() if name not in {*BAND_LISTS, "band_names", "long_name"}
        }
        wkt = mapping.attributes.get("crs_wkt")
        key = dumps(
            [
                json_value([wkt, numbers[1], numbers[5], beyond, array.chunks[-2:], array.dtype.name, block]),
                [json_value(codec.to_json()) for codec in array.codecs],
                json_value([str(array.fill_value), own.get("_FillValue"), bands if block > 1 else None]),
            ]
        )
        kind = self._kinds.get(key)
        if kind is None:
            zero = (beyond[1] * numbers[1], numbers[1], 0.0, beyond[0] * numbers[5], 0.0, numbers[5])
            kind = self._kinds[key] = _Kind(array, mapping, dict(own), dict(group.attributes), zero, block)
        _intersect(kind.attributes, own)
        _intersect(kind.group_attributes, group.attributes, keep="spatial:")
        part = _Part(
            *(scene.name, scene.time, bands, (corner[0], corner[1]), (array.shape[-2], array.shape[-1])),
            *(array.refs, scene.rank, lists),
        )
        kind.parts.append(part)
        self._records |= {record.url: record for record in scene.group.sources}
        if not self._origins or scene.group.origin != self._origins[0]:
            self._origins.append(scene.group.origin)

    def finish(self) -> Built:
        """Return the cube of all scenes: the root holds it where there is one grid, else a group for each."""
        if not self._kinds:
            raise UnrepresentableError("no image at all")
        kinds = list(self._kinds.values())
        if not self.group_by_grid:
            _refuse_grids(kinds)
        built = [_Builder(kind, self.resolve).built() for kind in kinds]
        names = _group_names(kinds, with_crs=self.group_by_grid)
        origin: dict[str, Any] = {"cube": True}
        if len(self._origins) == 1 and "options" in self._origins[0]:
            origin["options"] = self._origins[0]["options"]
        records = tuple(self._records.values())
        if len(built) == 1:
            root = VirtualGroup(built[0].group.children, built[0].group.attributes, records, origin)
        else:
            children = {name: one.group for name, one in zip(names, built, strict=True)}
            root = VirtualGroup(children, {}, records, origin)
        return Built(
            root,
            tuple(part.name for kind in kinds for part in kind.parts),
            len({part.time for kind in kinds for part in kind.parts}),
            tuple(dict.fromkeys(band for one in built for band in one.bands)),
            sum(one.chunks for one in built),
            sum(one.missing for one in built),
            tuple(twin for one in built for twin in one.twins),
        )


def _image(scene: Scene) -> tuple[VirtualGroup, VirtualArray, VirtualArray]:
    """Return the group that holds the image at full resolution, the image, and where it lies."""
    group = scene.group
    while not any(isinstance(child, VirtualArray) for child in group.children.values()):
        below = [child for child in group.children.values() if isinstance(child, VirtualGroup)]
        if not below:
            raise UnrepresentableError("no image in it", field=scene.name)
        group = below[0]
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
            codecs=lifted(array.codecs),
        )
    mapping = group.children.get(str(array.attributes.get("grid_mapping")))
    if not isinstance(mapping, VirtualArray) or "GeoTransform" not in mapping.attributes:
        raise UnrepresentableError("it does not say where it lies", field=scene.name)
    return group, array, mapping


def _bands(scene: Scene, array: VirtualArray) -> tuple[str, ...]:
    count = array.shape[0]
    own = array.attributes.get("band_names")
    if scene.bands and len(scene.bands) == count:
        return scene.bands
    if isinstance(own, list | tuple) and len(own) == count and all(own):
        return tuple(map(str, own))
    if scene.bands and count > 1:
        return tuple(f"{scene.bands[0]}_{number}" for number in range(1, count + 1))
    return tuple(map(str, range(1, count + 1)))


def _intersect(kept: dict[str, Any], found: Mapping[str, Any], keep: str = "\0") -> None:
    for name in [
        name for name in kept if not name.startswith(keep) and (name not in found or found[name] != kept[name])
    ]:
        del kept[name]


def _refuse_grids(kinds: Sequence[_Kind]) -> None:
    """Refuse images that no one grid of a resolution holds."""
    systems: dict[Any, _Kind] = {}
    for kind in kinds:
        systems.setdefault(kind.mapping.attributes.get("crs_wkt"), kind)
    if len(systems) > 1:
        shown = " and ".join(f"{_system(kind)} ({kind.parts[0].name})" for kind in list(systems.values())[:SHOWN])
        raise UnrepresentableError(f"images in {len(systems)} coordinate systems, {shown}; {RESAMPLE}")
    seen: dict[tuple[Any, ...], _Kind] = {}
    for kind in kinds:
        place = (kind.affine[1], kind.affine[5], kind.chunk, kind.template.dtype)
        other = seen.setdefault(place, kind)
        if other is not kind and (other.affine[0], other.affine[3]) != (kind.affine[0], kind.affine[3]):
            raise UnrepresentableError(
                f"{kind.parts[0].name} lies {(kind.affine[0] - other.affine[0]) / kind.affine[1]:g} columns and "
                f"{(kind.affine[3] - other.affine[3]) / kind.affine[5]:g} rows beside whole chunks of "
                f"{other.parts[0].name}; {RESAMPLE}"
            )


def _system(kind: _Kind) -> str:
    text = str(kind.group_attributes.get("proj:code") or kind.mapping.attributes.get("projected_crs_name") or "no name")
    return text.replace(":", "_").replace("/", "_")


def _group_names(kinds: Sequence[_Kind], *, with_crs: bool) -> list[str]:
    """Return a name for each grid: its resolution, and what else tells it from others."""
    several = with_crs and len({kind.mapping.attributes.get("crs_wkt") for kind in kinds}) > 1
    names = [f"{_system(kind)}_{kind.resolution}" if several else kind.resolution for kind in kinds]
    for again in range(2):
        twins = {name for name in names if names.count(name) > 1}
        names = [
            (f"{name}_{kind.template.dtype.name}" if again == 0 else f"{name}_{number}") if name in twins else name
            for number, (name, kind) in enumerate(zip(names, kinds, strict=True))
        ]
    return names


# One grid


@dataclass(frozen=True, eq=False)
class _Builder:
    """Puts the parts of one kind together."""

    kind: _Kind
    resolve: bool

    def built(self) -> Built:
        """Return the group of this grid."""
        kind = self.kind
        parts = sorted(kind.parts, key=lambda part: part.rank) if self.resolve else kind.parts
        times = column([part.time for part in parts])
        axis, when = np.unique(times, return_inverse=True)
        bands = sorted({band for part in parts for band in part.bands}) if kind.block == 1 else list(parts[0].bands)
        corners = np.array([part.corner for part in parts], np.int64)
        sizes = np.array([part.shape for part in parts], np.int64)
        chunk = np.array(kind.chunk, np.int64)
        first = corners.min(0)
        shape = ((corners - first) * chunk + sizes).max(0)
        self._check_edges(parts, (corners - first) * chunk + sizes, shape)
        grid = (len(axis), len(bands) // kind.block, *(-(-shape // chunk)).tolist())
        if np.prod(grid, dtype=float) > LIMIT:
            raise UnrepresentableError(f"a cube of {grid} chunks; these images lie far from each other; {RESAMPLE}")
        refs, twins = self._placed(
            parts, when, {band: number for number, band in enumerate(bands)}, corners - first, grid
        )
        array = self._array(parts, refs, (len(axis), len(bands), *shape.tolist()), tuple(bands))
        mapping, attributes = self._place(first, shape)
        children: dict[str, Node] = {
            VARIABLE: array,
            TIME: variable(TIME, Coordinate(axis, {})),
            MAPPING: mapping,
        }
        missing = int((refs.counts == 0).sum()) - len(refs.inline)
        return Built(VirtualGroup(children, attributes), (), len(axis), tuple(bands), refs.chunks, missing, twins)

    def _check_edges(self, parts: Sequence[_Part], ends: NDArray[np.int64], shape: NDArray[np.int64]) -> None:
        inside = ((ends % np.array(self.kind.chunk)) != 0) & (ends != shape)
        if inside.any():
            part = parts[int(np.flatnonzero(inside.any(1))[0])]
            raise UnrepresentableError(
                f"{part.name} of {part.shape} pixels ends within a chunk of {self.kind.chunk} where others go on; "
                f"{RESAMPLE}"
            )

    def _placed(
        self,
        parts: Sequence[_Part],
        when: NDArray[np.int64],
        numbers: Mapping[str, int],
        corners: NDArray[np.int64],
        grid: tuple[int, ...],
    ) -> tuple[ChunkRefs, tuple[str, ...]]:
        """Return the references of the whole grid, and which scenes share a chunk."""
        starts = np.cumsum([0, *(part.refs.chunks for part in parts)])
        nothing = int(starts[-1])  # the chunk behind all others is missing
        order = np.full(grid, nothing, np.int64)
        twins: dict[str, None] = {}
        for number, part in enumerate(parts):
            rows, columns = (-(-size // step) for size, step in zip(part.shape, self.kind.chunk, strict=True))
            row, left = corners[number].tolist()
            planes = [numbers[band] for band in part.bands] if self.kind.block == 1 else [0]
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
            shown = "; ".join(list(twins)[:SHOWN])
            raise UnrepresentableError(
                f"{len(twins)} pairs of files have the same pixels: {shown}; --latest or --by says which are taken"
            )
        return in_turn([*(part.refs for part in parts), ChunkRefs.empty(1)]).take(order.ravel()), tuple(twins)

    def _array(
        self, parts: Sequence[_Part], refs: ChunkRefs, shape: tuple[int, ...], bands: tuple[str, ...]
    ) -> VirtualArray:
        kind = self.kind
        lists = {}
        for name in BAND_LISTS:
            entries: dict[str, Any] = {}
            for part in parts:
                for band, entry in zip(part.bands, part.lists.get(name, ()), strict=False):
                    if entries.setdefault(band, entry) != entry and name in {"scales", "offsets"}:
                        raise UnrepresentableError(
                            f"{name} of band {band} is {entries[band]}, and {entry} in {part.name}", field=name
                        )
            if len(entries) == len(bands):
                lists[name] = [entries[band] for band in bands]
        return VirtualArray(
            shape=shape,
            dtype=kind.template.dtype,
            chunks=(1, kind.block, *kind.chunk),
            codecs=lifted(kind.template.codecs),
            refs=refs,
            dimension_names=(TIME, BAND, "y", "x"),
            fill_value=kind.template.fill_value,
            attributes={
                **kind.attributes,
                **lists,
                "band_names": list(bands),
                "grid_mapping": MAPPING,
                "coordinates": MAPPING,
            },
        )

    def _place(self, first: NDArray[np.int64], shape: NDArray[np.int64]) -> tuple[VirtualArray, dict[str, Any]]:
        """Return the grid mapping and the group's attributes of the mosaic."""
        kind = self.kind
        x, dx, _, y, _, dy = kind.affine
        x, y = x + float(first[1] * kind.chunk[1]) * dx, y + float(first[0] * kind.chunk[0]) * dy
        transform = " ".join(map(repr, (x, dx, 0.0, y, 0.0, dy)))
        mapping = replace(kind.mapping, attributes={**kind.mapping.attributes, "GeoTransform": transform})
        attributes = dict(kind.group_attributes)
        if "spatial:transform" in attributes:
            far = (x + dx * float(shape[1]), y + dy * float(shape[0]))
            attributes |= {
                "spatial:shape": shape.tolist(),
                "spatial:transform": [dx, 0.0, x, 0.0, dy, y],
                "spatial:bbox": [min(x, far[0]), min(y, far[1]), max(x, far[0]), max(y, far[1])],
            }
        return mapping, attributes


# A cube that is there, taken apart


def scenes_of(root: VirtualGroup, name: str) -> Iterable[Scene]:
    """Yield a cube as scenes, one a time and grid, so that more can be added."""
    found = False
    for group in (root, *(node for _, node in root.walk() if isinstance(node, VirtualGroup))):
        array = group.children.get(VARIABLE)
        if not isinstance(array, VirtualArray) or array.dimension_names != (TIME, BAND, "y", "x"):
            continue
        coordinate = coordinate_of(group, TIME)
        if coordinate is None:
            raise UnrepresentableError("a cube without a time coordinate", field=name)
        found = True
        for number, time in enumerate(coordinate.values):
            yield Scene(f"{name} at {time}", time, _slice(root, group, array, number), rank=())
    if not found:
        raise UnrepresentableError("no cube: no array with the axes time, band, y, x", field=name)


def _slice(root: VirtualGroup, group: VirtualGroup, array: VirtualArray, number: int) -> VirtualGroup:
    """Return one time of a cube as an image would be: the time's axis is taken off again."""
    per_time = array.refs.chunks // array.grid[0]
    chunks = np.arange(number * per_time, (number + 1) * per_time)
    image = replace(
        array,
        shape=array.shape[1:],
        chunks=array.chunks[1:],
        dimension_names=array.dimension_names[1:],
        codecs=lowered(array.codecs),
        refs=array.refs.take(chunks),
    )
    children: dict[str, Node] = {**group.children, VARIABLE: image}
    del children[TIME]
    return VirtualGroup(children, group.attributes, root.sources, root.origin)


def lowered(codecs: Sequence[Codec]) -> tuple[Codec, ...]:
    """Return codecs for chunks with one axis less in front; those that count axes are refused."""
    counting = {TRANSPOSE, RESHAPE, SQUEEZE, LINEAR} & {codec.name for codec in codecs}
    if counting:
        raise UnrepresentableError(f"{', '.join(sorted(counting))} counts axes; make the cube anew", field="codecs")
    return tuple(codecs)
