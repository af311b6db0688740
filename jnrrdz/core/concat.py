"""Groups of the same form put together along one axis, many files of one grid as one dataset; a member put in anew.

Groups are taken one at a time and only their references stay; what has to be equal is written down once for all that
have it in common.  A member that is put in anew, as another scan of its source has it, has to fit what the stack says
of all members; where it does not, the stack has to be made anew.  docs/decisions/004-merge.md says what was decided,
and why.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.bands import BAND, SPREAD, band_count, by_band, with_common
from jnrrdz.core.codec_table import bytes_in_chunks, lifted, without_bytes_in_chunks
from jnrrdz.core.concat_match import Facts, Role, Sketch, differences, is_per_band, sketch
from jnrrdz.core.configuration import Codec
from jnrrdz.core.coordinate import Coordinate, Values, column, coordinate_of, is_time, labels_name, variable
from jnrrdz.core.large_refs import put_together
from jnrrdz.core.markings import SECURITIES, SECURITY, combined
from jnrrdz.core.pyramid import VIRTUAL_LEVELS, VirtualLevel, virtual_levels_attribute, virtual_levels_of
from jnrrdz.core.refs import ChunkRefs, Grid, References, without_unused
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.core.zarr_json import dumps, encode_fill, json_value
from jnrrdz.errors import UnrepresentableError

type Attributes = dict[str, Any]
type WithTables = Callable[[References, str], References]
"""Puts JPEG tables (base64) from the same file into every chunk, or raises an UnrepresentableError."""

type ReadValues = Callable[[Sequence[Any]], Values]

AXES_ATTRIBUTE = "ome"
"""It lists the axes of the arrays below, and is wrong once they have one more."""

SHOWN = 20
"""Groups that do not fit that an error tells of."""

SHOWN_DIFFERENCES = 6
SHOWN_TWINS = 5


@dataclass(frozen=True, eq=False)
class Member:
    """What stays of one group."""

    name: str
    size: int
    """Its length along the axis."""
    parts: Mapping[str, References]
    """The references of the arrays that grow, by path."""
    tables: Mapping[str, str | None]
    """Their codecs' JPEG tables (base64)."""
    lists: Mapping[str, Mapping[str, list[Any]]]
    """Their attributes with an entry for each place along the axis."""
    given: Any = None
    """Its value along the axis, where one was given."""
    own: Coordinate | None = None
    """The values along the axis that it has itself."""
    markings: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """The security markings of its files, by the path of the group that has them."""


@dataclass
class JoinableGroups:
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
    turn = np.argsort(values, kind="stable")
    ascending = values[turn]
    twins = turn[1:][ascending[1:] == ascending[:-1]]
    if len(twins):
        names = np.repeat([member.name for member in members], [member.size for member in members])
        shown = [
            f"{values[place]} of {' and '.join(dict.fromkeys(names[values == values[place]].tolist()))}"
            for place in twins[:SHOWN_TWINS].tolist()
        ]
        raise UnrepresentableError(
            f"several images have the same coordinate: {'; '.join(shown)}; --keep-order keeps them all, in their order",
            field="coordinate",
        )
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


# The tree


@dataclass(frozen=True, eq=False)
class Assembly:
    """How groups of one form become one."""

    dim: str
    kind: JoinableGroups
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
        attributes, values = self.kind.attributes[prefix.rstrip("/")], self.order.values
        arrays = (child for child in children.values() if isinstance(child, VirtualArray))
        if values is not None and any(self.dim in array.dimension_names for array in arrays):
            if values.dtype.kind == "U":
                attributes = attributes | {labels_name(self.dim): values.tolist()}
            else:
                common = self.kind.attributes.get(f"{prefix}{self.dim}", {})
                computed = {"units", "calendar", "_FillValue"} if values.dtype.kind == "M" else set()
                given = here.children.get(self.dim)
                is_counted = isinstance(given, VirtualArray) and is_time(given.attributes)
                if is_counted and not computed and "units" not in common:
                    # numbers that are no exact times (0.1 days) stay what they are
                    raise UnrepresentableError("they count it in different units", field=f"{prefix}{self.dim}")
                own = {name: value for name, value in common.items() if name not in computed}
                children[self.dim] = variable(self.dim, Coordinate(values, own))
        return VirtualGroup(children, attributes | self._levels(here, attributes, prefix))

    def _levels(self, group: VirtualGroup, attributes: Attributes, prefix: str) -> Attributes:
        """Return the attribute of computed levels, in the lengths of the joined arrays."""
        levels = virtual_levels_of(attributes)
        return virtual_levels_attribute(self._level(each, group, prefix) for each in levels)

    def _level(self, level: VirtualLevel, group: VirtualGroup, prefix: str) -> VirtualLevel:
        path = f"{level.source}/{level.variable}"
        source = dict(group.arrays()).get(path)
        role = self.kind.roles.get(f"{prefix}{path}")
        if role is Role.STACKED:
            return level.stacked(len(self.order.members))
        if role is not Role.JOINED or source is None:
            return level
        axis = source.dimension_names.index(self.dim)
        after = sum(member.size for member in self.order.members)
        return level.joined(axis, source.shape[axis], after)

    def dropped(self) -> Iterator[str]:
        """Yield the attributes that are not in the result, as `path: name`."""
        for path, name in sorted(self.kind.dropped):
            if self.kind.roles.get(path) is not Role.COORDINATE and name not in self._lists(path):
                yield f"{path or '/'}: {name}"

    def _array(self, path: str, template: VirtualArray) -> VirtualArray:
        array = replace(template, attributes=self.kind.attributes[path] | self._lists(path))
        role = self.kind.roles[path]
        if role is Role.JOINED:
            return self._joined(path, array)
        if role is not Role.STACKED:
            return array
        codecs, parts = self._parts(path, array)
        count = len(self.order.members)
        return replace(
            array,
            shape=(count, *array.shape),
            chunks=(1, *array.chunks),
            dimension_names=(self.dim, *array.dimension_names),
            codecs=lifted(codecs, len(array.chunks)),
            refs=put_together(parts, [(1, *array.grid)] * count, 0, self.order.turn),
        )

    def _lists(self, path: str) -> Attributes:
        """Return the attributes with an entry for each place along the axis that every group has."""
        lists = [member.lists.get(path, {}) for member in self.order.members]
        found: Attributes = {}
        for name in lists[0]:
            if all(name in own for own in lists):
                entries = [entry for own in lists for entry in own[name]]
                found[name] = entries if self.order.turn is None else [entries[place] for place in self.order.turn]
        return found

    def _joined(self, path: str, array: VirtualArray) -> VirtualArray:
        axis = array.dimension_names.index(self.dim)
        step = array.chunks[axis]
        members = self.order.members
        if step > 1 and self.order.turn is not None:
            raise UnrepresentableError(f"chunks of {step} along {self.dim!r}, whose coordinates overlap", field=path)
        uneven = [member.name for member in members[:-1] if member.size % step]
        if uneven:
            raise UnrepresentableError(
                f"chunks of {step} along {self.dim!r} do not divide the length of "
                f"{', '.join(uneven[:SHOWN_TWINS])}; only the last one may end within a chunk",
                field=path,
            )
        grids = [_with_axis(array.grid, axis, -(-member.size // step)) for member in members]
        codecs, parts = self._parts(path, array)
        whole = _with_axis(array.shape, axis, sum(member.size for member in members))
        attributes = with_common(array.attributes, band_count(array.dimension_names, whole))
        refs = put_together(parts, grids, axis, self.order.turn)
        return replace(array, shape=whole, codecs=codecs, refs=refs, attributes=attributes)

    def _parts(self, path: str, array: VirtualArray) -> tuple[tuple[Codec, ...], list[References]]:
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
        return without_bytes_in_chunks(array.codecs), moved


def _with_axis(sizes: Grid, axis: int, size: int) -> Grid:
    return (*sizes[:axis], size, *sizes[axis + 1 :])


# Groups as they come


@dataclass(frozen=True)
class Mismatch:
    """A group that does not fit, and why."""

    name: str
    reasons: tuple[str, ...]
    between: str = ": "
    """What stands between the name and the reasons: reasons that begin with a verb go on from the name."""

    def __str__(self) -> str:
        """Return the first few reasons on one line."""
        more = len(self.reasons) - SHOWN_DIFFERENCES
        shown = "; ".join(self.reasons[:SHOWN_DIFFERENCES])
        return f"{self.name}{self.between}{shown}{f'; and {more} more' if more > 0 else ''}"


@dataclass(frozen=True, eq=False)
class Concatenated:
    """What came of it."""

    group: VirtualGroup
    names: tuple[str, ...]
    """The groups that are in it, in their order."""
    left_out: tuple[Mismatch, ...]
    dropped: tuple[str, ...]
    """Attributes that were not the same everywhere, as `path: name`."""


@dataclass
class Concatenation:
    """Groups as they come; `finish` puts together those that fit."""

    dim: str
    read_values: ReadValues = column
    """Turns what was given as coordinates, all together, into values."""
    _kinds: dict[str, JoinableGroups] = field(default_factory=dict)
    _records: dict[str, SourceRecord] = field(default_factory=dict)
    _problems: list[Mismatch] = field(default_factory=list)
    _count: int = 0

    def add(self, group: VirtualGroup, name: str, coordinate: Any = None) -> None:
        """Take a group; `coordinate` is its value along the new axis."""
        self._count += 1
        group = group.with_arrays(self._comparable)
        try:
            seen = sketch(group, self.dim)
            member = self._member(group, name, coordinate, seen)
        except UnrepresentableError as error:
            self._problems.append(Mismatch(name, (str(error),)))
            return
        # as JSON has them, so that they compare
        nodes = (("", group), *group.walk())
        attributes = {path: {name: json_value(it) for name, it in node.attributes.items()} for path, node in nodes}
        bare = VirtualGroup(group.children, group.attributes)  # the records are kept for all groups together
        kind = self._kinds.setdefault(dumps(seen.facts), JoinableGroups(bare, seen.roles, seen.facts, attributes))
        kind.intersect(attributes)
        groups = {path: own for path, own in attributes.items() if path not in seen.roles}
        markings = {path: own.get(SECURITIES, [own.get(SECURITY)]) for path, own in groups.items()}
        kind.members.append(replace(member, markings=markings))

    def _comparable(self, _path: str, array: VirtualArray) -> VirtualArray:
        """Return an array whose bands have lists where bands are joined, else what all agree on once."""
        if SPREAD.isdisjoint(array.attributes):
            return array
        is_joined = self.dim == BAND and BAND in array.dimension_names
        change = by_band if is_joined else with_common
        bands = band_count(array.dimension_names, array.shape)
        return replace(array, attributes=change(array.attributes, bands))

    def refuse(self, name: str, reason: str) -> None:
        """Count a group that cannot be taken at all among those that do not fit."""
        self._count += 1
        self._problems.append(Mismatch(name, (reason,)))

    def _member(self, group: VirtualGroup, name: str, coordinate: Any, seen: Sketch) -> Member:
        roles, size = seen.roles, seen.size
        growing = {path: it for path, it in group.arrays() if roles[path] in {Role.STACKED, Role.JOINED}}
        for path, array in growing.items():
            if roles[path] is Role.STACKED:
                lifted(array.codecs, len(array.chunks))
            elif "grid_mapping" in array.attributes and self.dim in {"y", "x"}:
                raise UnrepresentableError(
                    f"images of the same place cannot be joined along {self.dim}: they would lie over each other",
                    field=path,
                )
        own = _own_coordinate(group, self.dim, coordinate)
        if own is None and Role.COORDINATE in roles.values():
            raise UnrepresentableError("coordinates that are not numbers in the manifest itself", field=self.dim)
        if size < 1 or (own is not None and len(own.values) != size):
            raise UnrepresentableError(f"a length of {size} that its coordinates do not have", field=self.dim)
        for record in group.sources:
            known = self._records.setdefault(record.url, record)
            change = known.contradiction(record)
            if change is not None:
                message = f"scanned in two states, or two files of one name: {change}; index it again"
                raise UnrepresentableError(message, url=record.url)
        tables, lists = {}, {}
        for path, array in growing.items():
            tables[path] = bytes_in_chunks(array.codecs)
            along = array.attributes.items() if self.dim in array.dimension_names else ()
            lists[path] = {name: json_value(value) for name, value in along if is_per_band(name, array, self.dim)}
        return Member(name, size, {path: it.refs for path, it in growing.items()}, tables, lists, coordinate, own)

    def finish(
        self, *, keep_order: bool = False, skip_mismatched: bool = False, with_tables: WithTables | None = None
    ) -> Concatenated:
        """Return the groups as one, ordered by coordinate unless `keep_order`.

        The form that most groups have is the one to fit; an error names all that do not, or
        `skip_mismatched` leaves them out.
        """
        if not self._kinds:
            raise _refusal(self._problems, self._count)
        best = max(self._kinds.values(), key=lambda kind: len(kind.members))
        left_out = [*self._problems]
        for kind in self._kinds.values():
            if kind is not best:
                reasons = tuple(differences(kind.facts, best.facts))
                left_out += [Mismatch(member.name, reasons, " ") for member in kind.members]
        if left_out and not skip_mismatched:
            raise _refusal(left_out, self._count)
        return self._assembled(best, tuple(left_out), keep_order=keep_order, with_tables=with_tables)

    def _assembled(
        self, kind: JoinableGroups, left_out: tuple[Mismatch, ...], *, keep_order: bool, with_tables: WithTables | None
    ) -> Concatenated:
        if not {Role.STACKED, Role.JOINED} & set(kind.roles.values()):
            raise UnrepresentableError(f"no array in {kind.members[0].name} that could grow along {self.dim!r}")
        if Role.STACKED in kind.roles.values():
            for path, attributes in kind.attributes.items():
                if attributes.pop(AXES_ATTRIBUTE, None) is not None:
                    kind.dropped.add((path, AXES_ATTRIBUTE))
        order = ordered(kind.members, self.read_values, keep_order=keep_order)
        for path in kind.members[0].markings:
            markings = [marking for member in order.members for marking in member.markings[path]]
            kind.attributes[path] |= combined(markings)
            kind.dropped -= {(path, SECURITY), (path, SECURITIES)}
        assembly = Assembly(self.dim, kind, order, with_tables)
        group = assembly.group()
        used = dict.fromkeys(url for _, array in group.arrays() for url in array.refs.sources)
        # a container that some of the files are in stands in the table, not each file
        trees = [record for url, record in self._records.items() if url.endswith("/")]
        files = sorted(used) if trees else []
        first = [bisect_left(files, tree.url) for tree in trees]
        records = (
            *(self._records[url] for url in used if url in self._records),
            *(
                tree
                for tree, at in zip(trees, first, strict=True)
                if at < len(files) and files[at].startswith(tree.url)
            ),
        )
        found = {record.url for record in records}
        documents = (record for url, record in self._records.items() if url not in found and _is_below(url, found))
        names = tuple(member.name for member in order.members)
        return Concatenated(
            VirtualGroup(group.children, group.attributes, (*records, *documents)),
            names,
            left_out,
            tuple(assembly.dropped()),
        )


def _refusal(problems: Sequence[Mismatch], count: int) -> UnrepresentableError:
    if not problems:
        return UnrepresentableError("nothing to put together")
    more = len(problems) - SHOWN
    shown = " | ".join(map(str, problems[:SHOWN]))
    fit = "does not fit the others" if len(problems) == 1 else "do not fit the others"
    return UnrepresentableError(f"{len(problems)} of {count} {fit}: {shown}{f' | and {more} more' if more > 0 else ''}")


def _is_below(url: str, trees: Container[str]) -> bool:
    """Whether a file is in one of some trees, whose URLs end in a slash."""
    at = url.rfind("/")
    while at > 0 and url[: at + 1] not in trees:
        at = url.rfind("/", 0, at)
    return at > 0


def _own_coordinate(group: VirtualGroup, dim: str, given: Any) -> Coordinate | None:
    """Return the values along the axis that the group has itself; those of all its levels are the same."""
    groups = [group, *(node for _, node in group.walk() if isinstance(node, VirtualGroup))]
    levels = [own for own in (coordinate_of(each, dim) for each in groups) if own is not None]
    if levels and given is not None:
        raise UnrepresentableError(f"has coordinates along {dim!r} already", field=dim)
    if any(not np.array_equal(own.values, levels[0].values) for own in levels):
        raise UnrepresentableError("different coordinates in its groups", field=dim)
    return levels[0] if levels else None


# A member put in anew


@dataclass(frozen=True)
class Renewed:
    """A stack with members put in anew."""

    group: VirtualGroup
    runs: Mapping[str, NDArray[np.int64]]
    """For each array that has other references now its runs of such chunks: the first one, and the one behind."""


def with_members(stack: VirtualGroup, members: Mapping[str, VirtualGroup], dim: str) -> Renewed:
    """Return the stack along `dim` with the chunks of some sources, by their URLs, as `members` have them."""
    fresh = {record.url: record for member in members.values() for record in member.sources}
    trees = {url for url in members if url.endswith("/")}
    known = {record.url for record in stack.sources}
    kept = (record for record in stack.sources if record.url in fresh or not _is_below(record.url, trees))
    new = (record for url, record in fresh.items() if url not in known and _is_below(url, trees))
    records = (*(fresh.get(record.url, record) for record in kept), *new)
    runs: dict[str, NDArray[np.int64]] = {}
    return Renewed(replace(_replaced(stack, members, "", dim, runs), sources=records), runs)


def _replaced(
    stack: VirtualGroup, members: Mapping[str, VirtualGroup], path: str, dim: str, runs: dict[str, NDArray[np.int64]]
) -> VirtualGroup:
    for member in members.values():
        _require_same_attributes(stack, member, path, dim)
    children: dict[str, Node] = {}
    for name, old in stack.children.items():
        here = f"{path}/{name}".lstrip("/")
        new = {url: member.children.get(name) for url, member in members.items()}
        groups = {url: node for url, node in new.items() if isinstance(node, VirtualGroup)}
        arrays = {url: node for url, node in new.items() if isinstance(node, VirtualArray)}
        alike = groups if isinstance(old, VirtualGroup) else arrays
        lacking = set(new) - set(alike)
        if lacking and any(_holds(array.refs, frozenset(lacking)) for _, array in VirtualGroup({"": old}).arrays()):
            raise UnrepresentableError("the file as it is now has no such node; merge again", field=here)
        if isinstance(old, VirtualGroup):
            children[name] = _replaced(old, groups, here, dim, runs)
        else:
            children[name] = _with_chunks(old, arrays, here, dim, runs)
    return replace(stack, children=children)


def _holds(refs: References, urls: frozenset[str]) -> bool:
    return any(not urls.isdisjoint(without_unused(part).sources) for _, part in refs.parts_with(urls))


def _with_chunks(
    old: VirtualArray, members: Mapping[str, VirtualArray], path: str, dim: str, runs: dict[str, NDArray[np.int64]]
) -> VirtualArray:
    """Return an array of the stack with the members' chunks in place of those that are in their sources."""
    for new in members.values():
        _require_same_attributes(old, new, path, dim)
    places = _places_of(old, members, dim)
    if not places:
        return old
    axis = old.dimension_names.index(dim)
    turn, grids, firsts = np.arange(old.grid[axis]), [old.grid], []
    for url, found in places.items():
        thick = _thickness(old, members[url], path, axis)
        first = int(found.min())
        if int(found.max()) - first + 1 != thick:
            raise UnrepresentableError(f"its place along {dim!r} cannot be told; merge again", url=url, field=path)
        turn[first : first + thick] = sum(grid[axis] for grid in grids) + np.arange(thick)
        grids.append(_with_axis(old.grid, axis, thick))
        firsts.append((first, first + thick))
    outer, inner = math.prod(old.grid[:axis]), math.prod(old.grid[axis + 1 :])
    starts = np.arange(outer, dtype=np.int64)[:, None, None] * old.grid[axis]
    runs[path] = ((starts + np.array(firsts, np.int64)) * inner).reshape(-1, 2)
    refs = put_together([old.refs, *(members[url].refs for url in places)], grids, axis, turn)
    return replace(old, refs=refs)


def _thickness(old: VirtualArray, new: VirtualArray, path: str, axis: int) -> int:
    """Return how many places along the axis a member takes; one that is not like the stack is refused."""
    others = [at for at in range(len(old.shape)) if at != axis]
    has_grown = len(new.shape) < len(old.shape)
    mine = range(len(new.shape)) if has_grown else others
    codecs = lifted(new.codecs, len(new.chunks)) if has_grown else new.codecs
    for what, stacked, own in (
        ("the data type", old.dtype, new.dtype),
        ("the fill value", encode_fill(old.fill_value, old.dtype), encode_fill(new.fill_value, new.dtype)),
        ("the codecs", [codec.to_json() for codec in old.codecs], [codec.to_json() for codec in codecs]),
        ("the shape", [old.shape[at] for at in others], [new.shape[at] for at in mine]),
        ("the chunk shape", [old.chunks[at] for at in others], [new.chunks[at] for at in mine]),
    ):
        if stacked != own:
            raise UnrepresentableError(f"{what} was {stacked}, is {own}; merge again", field=path)
    return 1 if has_grown else new.grid[axis]


def _places_of(old: VirtualArray, urls: Collection[str], dim: str) -> dict[str, NDArray[np.int64]]:
    """Return where along an axis the chunks of some sources are; of those that have any."""
    trees = tuple(url for url in urls if url.endswith("/"))
    named = {url for url in old.refs.sources if url.startswith(trees)} if trees else set()
    found: dict[str, list[NDArray[np.int64]]] = {}
    for first, part in old.refs.parts_with(frozenset((*named, *urls))):
        own: dict[str, list[str]] = {}
        for name in part.sources:
            url = name if name in urls else next((tree for tree in trees if name.startswith(tree)), None)
            if url is not None:
                own.setdefault(url, []).append(name)
        for url, names in own.items():
            places = _places(part, first, old.grid, old.dimension_names.index(dim), names)
            if len(places):
                found.setdefault(url, []).append(places)
    return {url: np.concatenate(places) for url, places in found.items()}


def _places(part: ChunkRefs, first: int, grid: Grid, axis: int, urls: Container[str]) -> NDArray[np.int64]:
    """Return where along an axis the chunks are that are in some sources; `first` is the number of the part's first."""
    numbers = [number for number, url in enumerate(part.sources) if url in urls]
    rows = np.flatnonzero(np.isin(part.source, numbers))
    chunks = np.unique(np.searchsorted(part.indptr, rows, side="right") - 1 + first)
    return np.unique(np.unravel_index(chunks, grid)[axis])


def _require_same_attributes(old: Node, new: Node, path: str, dim: str) -> None:
    """Refuse a member that contradicts what the stack says of all its members: where it lies, say."""
    for name, value in old.attributes.items():
        per_place = isinstance(old, VirtualArray) and dim in old.dimension_names and is_per_band(name, old, dim)
        if per_place or name not in new.attributes:
            continue
        if name == VIRTUAL_LEVELS and _are_alike(old, new):
            continue
        if json_value(new.attributes[name]) != json_value(value):
            raise UnrepresentableError(f"attribute {name!r} is another one now; merge again", field=path or "/")


def _are_alike(old: Node, new: Node) -> bool:
    """Return whether two groups list the same computed levels, whatever their lengths."""
    pairs = [virtual_levels_of(each.attributes) for each in (old, new)]
    same_count = len(pairs[0]) == len(pairs[1])
    return same_count and all(a.is_kind_of(b) for a, b in zip(*pairs, strict=True))
