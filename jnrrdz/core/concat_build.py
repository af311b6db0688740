"""The group that groups of the same form become: their order, their references, what they have in common."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import Node, VirtualArray, VirtualGroup
from jnrrdz.core.codecs import LINEAR, N5_DEFAULT, TIFF_TILE, Codec, CodecSpec, SqueezeConfig
from jnrrdz.core.concat_match import JPEG_TABLES, TRANSPOSE, Facts, Role
from jnrrdz.core.coordinate import Coordinate, Values, is_time, labels_name, variable
from jnrrdz.core.refs import ChunkRefs, Grid, joined
from jnrrdz.errors import UnrepresentableError

type Attributes = dict[str, Any]
type WithTables = Callable[[ChunkRefs, str], ChunkRefs]
"""Puts JPEG tables (base64) from the same file into every chunk, or raises an UnrepresentableError."""

type ReadValues = Callable[[Sequence[Any]], Values]

AXES_ATTRIBUTE = "ome"
"""It lists the axes of the arrays below, and is wrong once they have one more."""

OF_AXES = {"axis", "axes", "order", "shape", "chunk_shape"}
"""Members of a codec's configuration that mean other axes once there is one more in front."""

SHOWN_TWINS = 5


@dataclass(frozen=True, eq=False)
class Member:
    """What stays of one group."""

    name: str
    size: int
    """Its length along the axis."""
    parts: Mapping[str, ChunkRefs]
    """The references of the arrays that grow, by path."""
    tables: Mapping[str, str | None]
    """Their codecs' JPEG tables (base64)."""
    lists: Mapping[str, Mapping[str, list[Any]]]
    """Their attributes with an entry for each place along the axis."""
    given: Any = None
    """Its value along the axis, where one was given."""
    own: Coordinate | None = None
    """The values along the axis that it has itself."""


@dataclass
class Kind:
    """The groups that fit together, and what they have in common."""

    template: VirtualGroup
    roles: Mapping[str, Role]
    facts: Facts
    attributes: dict[str, Attributes]
    members: list[Member] = field(default_factory=list)
    dropped: set[tuple[str, str]] = field(default_factory=set)

    def intersect(self, found: Mapping[str, Attributes]) -> None:
        """Keep the attributes that the next group has too."""
        for path, kept in self.attributes.items():
            others = found[path]
            gone = {name for name in kept if name not in others or others[name] != kept[name]}
            self.dropped |= {(path, name) for name in gone | (others.keys() - kept.keys())}
            for name in gone:
                del kept[name]


def lifted(codecs: Sequence[Codec]) -> tuple[Codec, ...]:
    """Return codecs for chunks with one more axis in front, of length 1."""
    found: list[Codec] = []
    for codec in codecs:
        if codec.name == N5_DEFAULT:  # its blocks have the axes that they have
            found.append(SqueezeConfig())
        found.append(_lifted(codec))
    return tuple(found)


def _lifted(codec: Codec) -> Codec:
    members = codec.configuration
    if codec.name == TRANSPOSE:
        return CodecSpec(TRANSPOSE, {**members, "order": [0, *(axis + 1 for axis in members["order"])]})
    if codec.name == LINEAR and "axis" in members:
        return CodecSpec(LINEAR, {**members, "axis": members["axis"] + 1})
    told = sorted(OF_AXES & members.keys())
    if told:
        raise UnrepresentableError(
            f"{codec.name} tells of axes ({', '.join(told)}), which are one more then", field="codecs"
        )
    return codec


# The order along the axis


@dataclass(frozen=True, eq=False)
class Order:
    """Groups along the axis, and the values there."""

    members: Sequence[Member]
    values: Values | None = None
    turn: NDArray[np.int64] | None = None
    """Which place of the groups in turn comes first, second, ... where groups overlap."""


def ordered(members: Sequence[Member], read: ReadValues, *, keep_order: bool) -> Order:
    """Return the groups by their first coordinate, and all coordinates, ascending unless `keep_order`."""
    values = _values(members, read)
    if values is None or keep_order:
        return Order(members, values)
    _refuse_twins(members, values)
    starts = np.cumsum([0, *(member.size for member in members)])[:-1]
    order = np.argsort(values[starts], kind="stable")
    values = values[np.concatenate([np.arange(starts[place], starts[place] + members[place].size) for place in order])]
    sorted_members = [members[place] for place in order.tolist()]
    if (values[1:] >= values[:-1]).all():
        return Order(sorted_members, values)
    turn = np.argsort(values, kind="stable")
    return Order(sorted_members, values[turn], turn)


def _values(members: Sequence[Member], read: ReadValues) -> Values | None:
    without = [member.name for member in members if member.own is None and member.given is None]
    if len(without) == len(members):
        return None
    if without:
        raise UnrepresentableError(f"some have coordinates and {', '.join(without[:SHOWN_TWINS])} has none")
    if all(member.own is None for member in members):
        wide = [member.name for member in members if member.size != 1]
        if wide:
            raise UnrepresentableError(f"one coordinate for an axis of {members[0].size}", field=wide[0])
        return read([member.given for member in members])
    columns = [read([member.given]) if member.own is None else member.own.values for member in members]
    if len({"n" if part.dtype.kind in "if" else part.dtype.kind for part in columns}) > 1:
        raise UnrepresentableError("coordinates have to be all numbers, all times or all texts", field="coordinate")
    return np.concatenate(columns)


def _refuse_twins(members: Sequence[Member], values: Values) -> None:
    order = np.argsort(values, kind="stable")
    twins = order[1:][values[order][1:] == values[order][:-1]]
    if not len(twins):
        return
    names = np.repeat(np.arange(len(members)), [member.size for member in members])
    shown = []
    for place in twins[:SHOWN_TWINS].tolist():
        same = dict.fromkeys(members[number].name for number in names[values == values[place]].tolist())
        shown.append(f"{values[place]} of {' and '.join(same)}")
    raise UnrepresentableError(
        f"{len(twins)} coordinates are there twice: {'; '.join(shown)}; --keep-order takes them as they come",
        field="coordinate",
    )


# The tree


@dataclass(frozen=True, eq=False)
class Assembly:
    """How groups of one form become one."""

    dim: str
    kind: Kind
    order: Order
    with_tables: WithTables | None = None

    def group(self, node: VirtualGroup | None = None, prefix: str = "") -> VirtualGroup:
        """Return the group at a path with everything below it, the coordinate beside every array that has the axis."""
        here = self.kind.template if node is None else node
        children: dict[str, Node] = {}
        for name, child in here.children.items():
            path = f"{prefix}{name}"
            if isinstance(child, VirtualGroup):
                children[name] = self.group(child, f"{path}/")
            elif self.kind.roles[path] is not Role.COORDINATE:
                children[name] = self._array(path, child)
        attributes = self.kind.attributes[prefix.rstrip("/")] | self._labels(children)
        return VirtualGroup(children | self._coordinate(prefix, children), attributes)

    def dropped(self) -> Iterator[str]:
        """Yield the attributes that are not in the result, as `path: name`."""
        gone = sorted(self.kind.dropped)
        for path, name in gone:
            is_own = self.kind.roles.get(path) is Role.COORDINATE
            if not is_own and name not in self._lists(path):
                yield f"{path or '/'}: {name}"

    def _has_axis(self, children: Mapping[str, Node]) -> bool:
        return any(isinstance(child, VirtualArray) and self.dim in child.dimension_names for child in children.values())

    def _labels(self, children: Mapping[str, Node]) -> Attributes:
        if self.order.values is None or self.order.values.dtype.kind != "U" or not self._has_axis(children):
            return {}
        return {labels_name(self.dim): self.order.values.tolist()}

    def _coordinate(self, prefix: str, children: Mapping[str, Node]) -> dict[str, Node]:
        if self.order.values is None or self.order.values.dtype.kind == "U" or not self._has_axis(children):
            return {}
        common = self.kind.attributes.get(f"{prefix}{self.dim}", {})
        own = {
            name: value for name, value in common.items() if not is_time(common) or name not in {"units", "calendar"}
        }
        return {self.dim: variable(self.dim, Coordinate(self.order.values, own))}

    def _array(self, path: str, array: VirtualArray) -> VirtualArray:
        common = replace(array, attributes=self.kind.attributes[path] | self._lists(path))
        role = self.kind.roles[path]
        if role is Role.STACKED:
            return self._stacked(path, common)
        return self._joined(path, common) if role is Role.JOINED else common

    def _lists(self, path: str) -> Attributes:
        """Return the attributes with an entry for each place along the axis that every group has."""
        lists = [member.lists.get(path, {}) for member in self.order.members]
        found: Attributes = {}
        for name in lists[0]:
            if all(name in own for own in lists):
                entries = [entry for own in lists for entry in own[name]]
                found[name] = entries if self.order.turn is None else [entries[place] for place in self.order.turn]
        return found

    def _stacked(self, path: str, array: VirtualArray) -> VirtualArray:
        codecs, parts = self._parts(path, array)
        count = len(self.order.members)
        return replace(
            array,
            shape=(count, *array.shape),
            chunks=(1, *array.chunks),
            dimension_names=(self.dim, *array.dimension_names),
            codecs=lifted(codecs),
            refs=joined(parts, [(1, *array.grid)] * count, 0, self.order.turn),
        )

    def _joined(self, path: str, array: VirtualArray) -> VirtualArray:
        axis = array.dimension_names.index(self.dim)
        step = array.chunks[axis]
        self._refuse_uneven(path, step)
        grids = [_with_axis(array.grid, axis, -(-member.size // step)) for member in self.order.members]
        codecs, parts = self._parts(path, array)
        whole = _with_axis(array.shape, axis, sum(member.size for member in self.order.members))
        return replace(array, shape=whole, codecs=codecs, refs=joined(parts, grids, axis, self.order.turn))

    def _refuse_uneven(self, path: str, step: int) -> None:
        if step > 1 and self.order.turn is not None:
            raise UnrepresentableError(f"chunks of {step} along {self.dim!r}, whose coordinates overlap", field=path)
        uneven = [member.name for member in self.order.members[:-1] if member.size % step]
        if uneven:
            raise UnrepresentableError(
                f"chunks of {step} along {self.dim!r} do not divide the length of "
                f"{', '.join(uneven[:SHOWN_TWINS])}; only the last one may end within a chunk",
                field=path,
            )

    def _parts(self, path: str, array: VirtualArray) -> tuple[tuple[Codec, ...], list[ChunkRefs]]:
        """Return the codecs and every group's references; JPEG tables that differ go into the chunks."""
        parts = [member.parts[path] for member in self.order.members]
        tables = [member.tables[path] for member in self.order.members]
        if len(set(tables)) == 1:
            return array.codecs, parts
        if self.with_tables is None:
            raise UnrepresentableError(
                "the files' JPEG tables differ, an array has room for one, and where they stand is not known",
                field=path,
            )
        moved = [part if own is None else self.with_tables(part, own) for part, own in zip(parts, tables, strict=True)]
        return tuple(map(_without_tables, array.codecs)), moved


def tables_of(array: VirtualArray) -> str | None:
    """Return the JPEG tables (base64) that stand in an array's codec."""
    found = (codec.configuration.get(JPEG_TABLES) for codec in array.codecs if codec.name == TIFF_TILE)
    return next(found, None)


def _without_tables(codec: Codec) -> Codec:
    if codec.name != TIFF_TILE:
        return codec
    return CodecSpec(TIFF_TILE, {name: value for name, value in codec.configuration.items() if name != JPEG_TABLES})


def _with_axis(sizes: Grid, axis: int, size: int) -> Grid:
    return (*sizes[:axis], size, *sizes[axis + 1 :])


def without_axes(kind: Kind) -> None:
    """Drop the attributes that list the axes of arrays, where these get a new one."""
    if Role.STACKED not in kind.roles.values():
        return
    for path, attributes in kind.attributes.items():
        if attributes.pop(AXES_ATTRIBUTE, None) is not None:
            kind.dropped.add((path, AXES_ATTRIBUTE))
