"""A cube that exists: taken apart into scenes, so that more can be added, and made longer in its place."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.bands import BAND, NAMES
from jnrrdz.core.codec_table import lowered
from jnrrdz.core.coordinate import Coordinate, coordinate_of, variable
from jnrrdz.core.cube import (
    MAPPING,
    TIME,
    TIMES,
    VARIABLE,
    Built,
    CubeGroup,
    Scene,
    missing_chunks,
)
from jnrrdz.core.georeference import geo_transform
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.errors import UnrepresentableError


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


# Made longer


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
        missing = sum(map(missing_chunks, arrays))
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
            missing=missing_chunks(array),
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
