"""Images of one archive as a cube: time by band by y by x, every chunk where it stands, those of missing files missing.

Images share an array if they have one CRS, resolution, type and chain of codecs, and lie whole chunks apart: then
neighbours are one mosaic, and nothing is decoded.  Images of several resolutions become a group for each.  What
happens where two images have the same chunk is the caller's choice.  docs/decisions/033-cubes.md says what was
decided, and why.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import Node, SourceRecord, VirtualArray, VirtualGroup
from jnrrdz.core.bands import BAND, DEFAULTS, NAMES, OFFSETS, SCALES, UNITS, by_band, with_common
from jnrrdz.core.codec_table import decoding, lifted, lowered, with_sides
from jnrrdz.core.coordinate import Coordinate, column, coordinate_of, variable
from jnrrdz.core.georeference import GEO_TRANSFORM, GeoTransform, geo_transform
from jnrrdz.core.hierarchy import Hierarchy
from jnrrdz.core.json_schema import shown
from jnrrdz.core.markings import SECURITIES, SECURITY, combined
from jnrrdz.core.refs import ChunkRefs, in_turn
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

SHOWN = 5
SHIFTED = "its corner is not whole chunks from the other's"
THOUSANDTH = 1e-3
"""Of a pixel: as far apart places are the same."""

RESAMPLE = "odc-stac or rioxarray resample them, --group-by-grid gives each grid a group of its own"


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
    is_file: bool


@dataclass
class _Kind:
    """What images have in common that share an array."""

    template: VirtualArray
    mapping: VirtualArray
    attributes: dict[str, Any]
    group_attributes: dict[str, Any]
    zero: GeoTransform
    """Of the grid's zero: the corner of a chunk."""
    block: int
    """Bands in a chunk."""
    name: str | None = None
    """The group's name in a cube that is there already."""
    markings: list[Any] = field(default_factory=list)
    """The security markings of all files, each once."""
    parts: list[_Part] = field(default_factory=list)

    @property
    def wkt(self) -> Any:
        """The coordinate system."""
        return self.mapping.attributes.get("crs_wkt")

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
        """The name of a group."""
        size = abs(self.zero.column_x)
        metric = "PROJCRS" in str(self.mapping.attributes.get("crs_wkt", ""))
        return f"{size:g}{'m' if metric else 'deg'}".replace("/", "_")


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
    _kinds: dict[str, _Kind] = field(default_factory=dict)
    _records: dict[str, SourceRecord] = field(default_factory=dict)
    _options: list[Any] = field(default_factory=list)

    def add(self, scene: Scene) -> None:
        """Take a scene."""
        group, array, mapping = _image(scene)
        try:
            transform = geo_transform(mapping.attributes)
        except MalformedError as error:
            raise error.at(url=scene.name) from error.__cause__
        if transform is None:
            raise UnrepresentableError("it does not say where it lies", field=scene.name)
        if transform.is_rotated or not transform.column_x or not transform.row_y:
            raise UnrepresentableError("a rotated image, whose rows are at no one y", field=scene.name)
        bands = _bands(scene, array)
        block = array.chunks[0]
        if block not in {1, len(bands)}:
            raise UnrepresentableError(f"chunks of {block} of {len(bands)} bands", field=scene.name)
        # to a thousandth of a pixel: how far from zero the image begins, in whole chunks and in pixels beyond them
        pixels = [round(transform.y / transform.row_y, 3), round(transform.x / transform.column_x, 3)]
        corner = [int(place // size) for place, size in zip(pixels, array.chunks[-2:], strict=True)]
        beyond = [
            round(place - whole * size, 3) for place, whole, size in zip(pixels, corner, array.chunks[-2:], strict=True)
        ]
        attributes = by_band(array.attributes, len(bands))
        lists = {name: tuple(attributes[name]) for name in BAND_LISTS if name in attributes}
        own = {name: it for name, it in attributes.items() if name not in {*BAND_LISTS, NAMES, "long_name"}}
        wkt = mapping.attributes.get("crs_wkt")
        key = dumps(
            [
                json_value(
                    [wkt, transform.column_x, transform.row_y, beyond, array.chunks[-2:], array.dtype.name, block]
                ),
                json_value(decoding(array.codecs)),
                json_value([str(array.fill_value), own.get("_FillValue"), bands if block > 1 else None]),
            ]
        )
        kind = self._kinds.get(key)
        if kind is None:
            zero = transform._replace(x=beyond[1] * transform.column_x, y=beyond[0] * transform.row_y)
            kind = self._kinds[key] = _Kind(array, mapping, dict(own), dict(group.attributes), zero, block)
            # the root of a cube gets the name that its resolution has
            kind.name = scene.cube_group or None
        _intersect(kind.attributes, own)
        _intersect(kind.group_attributes, group.attributes, keep="spatial:")
        markings = group.attributes.get(SECURITIES, [group.attributes.get(SECURITY)])
        kind.markings += [marking for marking in markings if marking not in kind.markings]
        part = _Part(
            *(scene.name, scene.time, bands, (corner[0], corner[1]), (array.shape[-2], array.shape[-1])),
            *(array.refs.columns(), scene.rank, lists, scene.cube_group is None),
        )
        kind.parts.append(part)
        for record in scene.group.sources:
            require_unchanged(self._records.setdefault(record.url, record), record)
        options = scene.group.origin.get("options")
        if options not in self._options:
            self._options.append(options)

    def finish(self) -> Built:
        """Return the cube of all scenes: the root holds it where there is one grid, else a group for each."""
        if not self._kinds:
            raise UnrepresentableError("no image at all")
        kinds = list(self._kinds.values())
        if not self.group_by_grid:
            _refuse_grids(kinds)
        built = [_Builder(kind, self.resolve).built() for kind in kinds]
        names = _group_names(kinds)
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
            len({part.time for kind in kinds for part in kind.parts}),
            tuple(dict.fromkeys(band for one in built for band in one.bands)),
            sum(one.chunks for one in built),
            sum(one.missing for one in built),
            tuple(twin for one in built for twin in one.twins),
            tuple(_described(number, kinds, built, names) for number in range(len(kinds))),
        )


def _described(number: int, kinds: Sequence[_Kind], built: Sequence[Built], names: Sequence[str]) -> CubeGroup:
    """Return what one group holds, and why it is one beside those before it."""
    kind, own = kinds[number], built[number]
    times = np.unique(column([part.time for part in kind.parts])).astype(str)
    like = next((other for other in range(number) if _is_same_grid(kinds[other], kind)), None)
    reason, split_from = "", None
    if like is not None:
        differences = _differences(kind, kinds[like])
        reason = f"apart from {names[like]}: {'; '.join(differences or [SHIFTED])}"
        is_other_band = kind.template.dtype != kinds[like].template.dtype and not kind.bands & kinds[like].bands
        # what is shifted was put apart because `group_by_grid` asked for it
        split_from = names[like] if differences and not is_other_band else None
    elif number:
        same_system = kind.wkt == kinds[0].wkt
        reason = f"apart from {names[0]}: {'pixels of another size or place' if same_system else 'another CRS'}"
    return CubeGroup(
        name=names[number] if len(kinds) > 1 else "",
        times=len(times),
        first=str(times[0]),
        last=str(times[-1]),
        bands=own.bands,
        files=sum(part.is_file for part in kind.parts),
        chunks=own.chunks,
        missing=own.missing,
        reason=reason,
        split_from=split_from,
    )


def _is_same_grid(one: _Kind, other: _Kind) -> bool:
    """Whether the pixels of two kinds are those of one grid, however they are stored."""
    if (one.wkt, one.zero.column_x, one.zero.row_y) != (other.wkt, other.zero.column_x, other.zero.row_y):
        return False
    apart = ((one.zero.x - other.zero.x) / one.zero.column_x, (one.zero.y - other.zero.y) / one.zero.row_y)
    return all(abs(pixels - round(pixels)) < THOUSANDTH for pixels in apart)


def _differences(one: _Kind, other: _Kind) -> list[str]:
    """Return in what the storage of two kinds of one grid differs."""
    found = []
    for what, mine, theirs in (
        ("", one.template.dtype.name, other.template.dtype.name),
        ("chunks of ", _sides(one.chunk), _sides(other.chunk)),
        ("bands in a chunk: ", one.block, other.block),
        ("nodata ", _nodata(one), _nodata(other)),
        ("bands of a chunk: ", _bands_of_chunk(one), _bands_of_chunk(other)),
        ("", _names_of(one), _names_of(other)),
    ):
        if str(mine) != str(theirs):
            found.append(f"{what}{mine}, not {theirs}")
    if _names_of(one) == _names_of(other):
        for mine, theirs in zip(decoding(one.template.codecs), decoding(other.template.codecs), strict=True):
            left, right = (side.get("configuration", {}) for side in (mine, theirs))
            found += [
                f"{mine['name']} with {name} {shown(left.get(name))}, not {shown(right.get(name))}"
                for name in {**right, **left}
                if left.get(name) != right.get(name)
            ]
    return found


def _nodata(kind: _Kind) -> Any:
    return kind.attributes.get("_FillValue", f"none (missing chunks are {kind.template.fill_value})")


def _bands_of_chunk(kind: _Kind) -> str:
    """Return the names of the bands that chunks hold together, empty where each chunk has one."""
    return ", ".join(kind.parts[0].bands) if kind.block > 1 else ""


def _sides(chunk: Sequence[int]) -> str:
    return " x ".join(map(str, chunk))


def _names_of(kind: _Kind) -> str:
    return ", ".join(codec.name for codec in kind.template.codecs)


def _image(scene: Scene) -> tuple[VirtualGroup, VirtualArray, VirtualArray]:
    """Return the group that holds the image at full resolution, the image, and where it lies."""
    choice = Hierarchy.of_group(scene.group).choice()
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
        place = (kind.zero.column_x, kind.zero.row_y, kind.chunk, kind.template.dtype)
        other = seen.setdefault(place, kind)
        if other is not kind and (other.zero.x, other.zero.y) != (kind.zero.x, kind.zero.y):
            raise UnrepresentableError(
                f"{kind.parts[0].name} lies {(kind.zero.x - other.zero.x) / kind.zero.column_x:g} columns and "
                f"{(kind.zero.y - other.zero.y) / kind.zero.row_y:g} rows beside whole chunks of "
                f"{other.parts[0].name}; {RESAMPLE}"
            )


def _system(kind: _Kind) -> str:
    text = str(kind.group_attributes.get("proj:code") or kind.mapping.attributes.get("projected_crs_name") or "no name")
    return text.replace(":", "_").replace("/", "_")


def _group_names(kinds: Sequence[_Kind]) -> list[str]:
    """Return a name for each grid, which does not change when other grids come after it.

    The first grid of a resolution has the resolution's name.  A later one adds its type, then a number; one in another
    CRS than the first grid's begins with that CRS.  Groups of a cube that is there keep their names.
    """
    taken = {kind.name for kind in kinds if kind.name is not None}
    names = []
    for kind in kinds:
        name = kind.name
        if name is None:
            plain = kind.resolution if kind.wkt == kinds[0].wkt else f"{_system(kind)}_{kind.resolution}"
            typed = f"{plain}_{kind.template.dtype.name}"
            numbered = (f"{typed}_{number}" for number in itertools.count(2))
            name = next(each for each in itertools.chain((plain, typed), numbered) if each not in taken)
            taken.add(name)
        names.append(name)
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
            TIME: variable(TIME, Coordinate(axis, {}), TIMES),
            MAPPING: mapping,
        }
        return Built(VirtualGroup(children, attributes), len(axis), tuple(bands), refs.chunks, _missing(array), twins)

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
                f"{len(twins)} pairs of files have the same pixels: {shown}; --band-from tells "
                "bands apart, --latest or --by says which are taken"
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
            dtype=kind.template.dtype,
            chunks=(1, kind.block, *kind.chunk),
            codecs=lifted(with_sides(kind.template.codecs, shape), len(kind.template.chunks)),
            refs=refs,
            dimension_names=(TIME, BAND, "y", "x"),
            fill_value=kind.template.fill_value,
            attributes={
                **with_common(kind.attributes | lists, len(bands)),
                NAMES: list(bands),
                "grid_mapping": MAPPING,
                "coordinates": MAPPING,
            },
        )

    def _place(self, first: NDArray[np.int64], shape: NDArray[np.int64]) -> tuple[VirtualArray, dict[str, Any]]:
        """Return the grid mapping and the group's attributes of the mosaic."""
        kind = self.kind
        dx, dy = kind.zero.column_x, kind.zero.row_y
        x = kind.zero.x + float(first[1] * kind.chunk[1]) * dx
        y = kind.zero.y + float(first[0] * kind.chunk[0]) * dy
        placed = {GEO_TRANSFORM: kind.zero._replace(x=x, y=y).text}
        mapping = replace(kind.mapping, attributes={**kind.mapping.attributes, **placed})
        attributes = kind.group_attributes | combined(kind.markings)
        if "spatial:transform" in attributes:
            far = (x + dx * float(shape[1]), y + dy * float(shape[0]))
            attributes |= {
                "spatial:shape": shape.tolist(),
                "spatial:transform": [dx, 0.0, x, 0.0, dy, y],
                "spatial:bbox": [min(x, far[0]), min(y, far[1]), max(x, far[0]), max(y, far[1])],
            }
        return mapping, attributes


def _missing(array: VirtualArray) -> int:
    refs = array.refs.columns()
    return int((refs.counts == 0).sum()) - len(refs.inline)


# A cube that is there, taken apart


def _cubes(root: VirtualGroup, name: str) -> dict[str, tuple[VirtualGroup, VirtualArray, Coordinate]]:
    """Return the groups of a cube by their paths, with their arrays and times."""
    found = {}
    for path, group in (("", root), *root.walk()):
        array = group.children.get(VARIABLE) if isinstance(group, VirtualGroup) else None
        if isinstance(group, VirtualGroup) and isinstance(array, VirtualArray):
            if array.dimension_names != (TIME, BAND, "y", "x"):
                continue
            coordinate = coordinate_of(group, TIME)
            if coordinate is None:
                raise UnrepresentableError("a cube without a time coordinate", field=name)
            found[path] = group, array, coordinate
    if not found:
        raise UnrepresentableError("no cube: no array with the axes time, band, y, x", field=name)
    return found


def scenes_of(root: VirtualGroup, name: str, *, last: bool = False) -> Iterable[Scene]:
    """Yield a cube as scenes, one a time and grid, so that more can be added; the last of each grid only if `last`."""
    for path, (group, array, coordinate) in _cubes(root, name).items():
        for number in range(len(coordinate.values) - 1 if last else 0, len(coordinate.values)):
            time = coordinate.values[number]
            yield Scene(f"{name} at {time}", time, _slice(root, group, array, number), cube_group=path)


def _slice(root: VirtualGroup, group: VirtualGroup, array: VirtualArray, number: int) -> VirtualGroup:
    """Return one time of a cube as an image would be: the time's axis is taken off again."""
    per_time = array.refs.chunks // array.grid[0]
    chunks = np.arange(number * per_time, (number + 1) * per_time)
    image = replace(
        array,
        shape=array.shape[1:],
        chunks=array.chunks[1:],
        dimension_names=array.dimension_names[1:],
        codecs=lowered(array.codecs, len(array.chunks) - 1),
        refs=array.refs.take(chunks),
    )
    children: dict[str, Node] = {**group.children, VARIABLE: image}
    del children[TIME]
    return VirtualGroup(children, group.attributes, () if number else root.sources, root.origin)


# A cube that is there, made longer


@dataclass(frozen=True, eq=False)
class Extension:
    """Times behind the last one of a cube; nothing that it holds changes."""

    group: VirtualGroup
    """The cube with its whole time axis; the arrays in `before` have their new times only."""
    before: Mapping[str, int]
    """By the paths of its arrays: how many times there are of them already."""

    def whole(self, group: VirtualGroup, prefix: str = "") -> VirtualGroup:
        """Return the group with all its times, and without references to images."""
        children: dict[str, Node] = {}
        for name, child in group.children.items():
            path = f"{prefix}{name}"
            if isinstance(child, VirtualGroup):
                children[name] = self.whole(child, f"{path}/")
            elif path in self.before:
                times = child.shape[0] + self.before[path]
                missing = ChunkRefs.empty(child.refs.chunks // child.grid[0] * times)
                children[name] = replace(child, shape=(times, *child.shape[1:]), refs=missing)
            else:
                children[name] = child
        return replace(group, children=children)

    def counted(self, built: Built) -> Built:
        """Return what was built with the counts of what is new."""
        arrays = [array for path, array in self.group.arrays() if path in self.before]
        missing = sum(map(_missing, arrays))
        chunks = sum(array.refs.chunks for array in arrays)
        groups = tuple(map(self._counted_group, built.groups))
        times = max(array.shape[0] for array in arrays)
        return replace(built, times=times, chunks=chunks, missing=missing, groups=groups)

    def _counted_group(self, group: CubeGroup) -> CubeGroup:
        node = self.group.at(group.name)
        array = node.children[VARIABLE] if isinstance(node, VirtualGroup) else None
        coordinate = coordinate_of(node, TIME) if isinstance(node, VirtualGroup) else None
        if not isinstance(array, VirtualArray) or coordinate is None:
            return group
        new = coordinate.values[-array.shape[0] :].astype(str)
        return replace(
            group,
            times=array.shape[0],
            first=str(new[0]) if len(new) else "",
            last=str(new[-1]) if len(new) else "",
            chunks=array.refs.chunks,
            missing=_missing(array),
        )


def extension(old: VirtualGroup, new: VirtualGroup, name: str) -> Extension | str:
    """Return what makes a cube longer, or why more than that is asked for.

    `old` is the cube without references to images, `new` the cube of its last times, without them as well, and of
    what is added.
    """
    there, wanted, before = _cubes(old, name), _cubes(new, name), {}
    if there.keys() != wanted.keys():
        return "a file needs a group of its own"
    children = dict(new.children)
    for path, (group, array, coordinate) in there.items():
        grown, more, times = wanted[path]
        reason = _obstacle((group, array, coordinate), (grown, more, times))
        if reason is not None:
            return f"{path}: {reason}" if path else reason
        every = np.concatenate([coordinate.values[:-1], times.values.astype(coordinate.values.dtype)])
        per_time = more.refs.chunks // more.grid[0]
        tail = more.refs.take(np.arange(per_time, more.refs.chunks))
        longer = {
            **grown.children,
            VARIABLE: replace(more, shape=(len(times.values) - 1, *more.shape[1:]), refs=tail),
            TIME: variable(TIME, Coordinate(every, {}), TIMES),
        }
        before[f"{path}/{VARIABLE}".lstrip("/")] = len(coordinate.values)
        children = {**children, path: replace(grown, children=longer)} if path else longer
    return Extension(replace(new, children=children), before)


type _Cube = tuple[VirtualGroup, VirtualArray, Coordinate]


def _obstacle(old: _Cube, new: _Cube) -> str | None:
    """Return why a cube is no beginning of another, whose first time is its last; None where it is."""
    (group, array, times), (grown, more, later) = old, new
    first = more.refs.take(np.arange(more.refs.chunks // more.grid[0]))
    if later.values[0] != times.values[-1] or first.counts.any() or first.inline:
        return "a file is not later than the last time"
    if array.attributes.get(NAMES) != more.attributes[NAMES]:
        return "a file has a new band"
    if array.shape[1:] != more.shape[1:] or _lies(group) != _lies(grown):
        return "a file lies beyond its edges"
    kept = group.children[TIME]
    if not isinstance(kept, VirtualArray) or (kept.chunks, kept.attributes) != (
        (TIMES,),
        variable(TIME, times).attributes,
    ):
        return "an earlier version made it"
    if np.promote_types(later.values.dtype, times.values.dtype) != times.values.dtype:
        return "a time needs a finer unit"
    return None


def _lies(group: VirtualGroup) -> Any:
    return geo_transform(group.children[MAPPING].attributes)
