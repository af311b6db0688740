"""The datasets of a container in the tree that they stand in, levels told as such.

May touch the model only.  Every folder becomes a group with its attributes under `n5`; a dataset is a group that
holds its array, for arrays of one group share their dimensions' sizes, which levels do not.  In place the
datasets are arrays, and attributes stay where they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jnrrdz.core.array import Node, VirtualGroup
from jnrrdz.core.levels import VolumeLevel, level_attributes
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.n5.arrays import VARIABLE, Found, Frame
from jnrrdz.formats.n5.axes import LEVEL, Attributes, cosem_levels

_LEVELS = 2
_BRANCHES = "a dataset in a dataset"


def assembled(found: Sequence[Found], nodes: Mapping[str, dict[str, Any]], url: str, frame: Frame) -> Node:
    """Return the root: a group, or in place a dataset if that is all."""
    by_path = {one.path: one for one in found}
    tree: dict[str, set[str]] = {"": set()}
    for path in by_path:
        parts = path.split("/") if path else []
        for depth, part in enumerate(parts):
            parent = "/".join(parts[:depth])
            tree.setdefault(parent, set()).add(part)
            if parent in by_path:
                raise UnsupportedError(_BRANCHES, url=url + path, field="dimensions")
    return _Assembly(tree, by_path, nodes, frame).node("")


@dataclass(frozen=True)
class _Assembly:
    tree: Mapping[str, set[str]]
    by_path: Mapping[str, Found]
    nodes: Mapping[str, dict[str, Any]]
    frame: Frame

    def node(self, path: str) -> Node:
        """Return what stands at a path."""
        attributes = {"n5": self.nodes[path]} if path in self.nodes and not self.frame.in_place else {}
        if path not in self.by_path:
            return self._group(path, attributes)
        array = self.by_path[path].array
        return array if self.frame.in_place else VirtualGroup({VARIABLE: array}, attributes)

    def _group(self, path: str, attributes: dict[str, Any]) -> VirtualGroup:
        prefix = f"{path}/" if path else ""
        datasets = {name: self.by_path[prefix + name] for name in self.tree[path] if prefix + name in self.by_path}
        levels = levels_of(datasets, self.nodes.get(path, {}))
        names = [one.path.removeprefix(prefix) for one in levels]
        names += sorted(self.tree[path] - set(names))
        children = {name: self.node(prefix + name) for name in names}
        return VirtualGroup(children, attributes | self._multiscales(path.rpartition("/")[2], levels, prefix))

    def _multiscales(self, name: str, found: Sequence[Found], prefix: str) -> dict[str, Any]:
        if not found:
            return {}
        finest, turned = found[0], self.frame.turned
        levels = [self._level(one, finest, prefix) for one in found]
        return level_attributes(name, turned(finest.place.names), turned(finest.place.units), levels)

    def _level(self, one: Found, finest: Found, prefix: str) -> VolumeLevel:
        place, turned = one.place, self.frame.turned
        return VolumeLevel(
            one.path.removeprefix(prefix),
            "" if self.frame.in_place else VARIABLE,
            turned(_factors(one, finest)),
            None if place.scale is None else turned(place.scale),
            turned(place.translation),
        )


def levels_of(children: Mapping[str, Found], attributes: Attributes) -> list[Found]:
    """Return the levels of an image among a folder's datasets, finest first; none where they are no levels."""
    listed = [str(entry.get("path")) for entry in cosem_levels(attributes)]
    names = [name for name in listed if name in children]
    if not names:
        names = sorted(filter(LEVEL.fullmatch, children), key=lambda name: int(name[1:]))
    found = [children[name] for name in names]
    if not found or any(one.array.dimension_names != found[0].array.dimension_names for one in found):
        return []
    marked = bool({"multiScale", "multiscales", "downsamplingFactors", "scales"} & set(attributes))
    return found if marked or len(found) >= _LEVELS else []


def _factors(one: Found, finest: Found) -> tuple[float, ...]:
    """Return how much coarser a level is: as the file says, else as its steps or sizes say."""
    if one.place.factors is not None and finest.place.factors is not None:
        return tuple(a / b for a, b in zip(one.place.factors, finest.place.factors, strict=True))
    if one.place.factors is not None:
        return one.place.factors
    if one.place.scale is not None and finest.place.scale is not None:
        return tuple(a / b for a, b in zip(one.place.scale, finest.place.scale, strict=True))
    sizes = zip(finest.dataset.dimensions, one.dataset.dimensions, strict=True)
    return tuple(full / size if size else 1.0 for full, size in sizes)
