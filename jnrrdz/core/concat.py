"""Groups of the same form put together along one axis, many files of one grid as one dataset; a member put in anew.

Groups are taken one at a time and only their references stay; what has to be equal is written down once for all that
have it in common.  A member that is put in anew, as another scan of its source has it, has to fit what the stack says
of all members; where it does not, the stack has to be made anew.  docs/decisions/004-merge.md says what was decided,
and why.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import Node, SourceRecord, VirtualArray, VirtualGroup
from jnrrdz.core.concat_build import (
    Assembly,
    Kind,
    Member,
    ReadValues,
    WithTables,
    lifted,
    ordered,
    tables_of,
    without_axes,
)
from jnrrdz.core.concat_match import Role, differences, is_per_band, sketch
from jnrrdz.core.coordinate import Coordinate, column, coordinate_of
from jnrrdz.core.refs import joined
from jnrrdz.core.zarr_json import dumps, encode_fill, json_value
from jnrrdz.errors import UnrepresentableError

SHOWN = 20
"""Groups that do not fit that an error tells of."""

SHOWN_DIFFERENCES = 6


@dataclass(frozen=True)
class Mismatch:
    """A group that does not fit, and why."""

    name: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        """Return the first few reasons on one line."""
        more = len(self.reasons) - SHOWN_DIFFERENCES
        shown = "; ".join(self.reasons[:SHOWN_DIFFERENCES])
        return f"{self.name}: {shown}{f'; and {more} more' if more > 0 else ''}"


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
    _kinds: dict[str, Kind] = field(default_factory=dict)
    _records: dict[str, SourceRecord] = field(default_factory=dict)
    _problems: list[Mismatch] = field(default_factory=list)
    _count: int = 0

    def add(self, group: VirtualGroup, name: str, coordinate: Any = None) -> None:
        """Take a group; `coordinate` is its value along the new axis."""
        self._count += 1
        try:
            seen = sketch(group, self.dim)
            member = self._member(group, name, coordinate, seen.roles, seen.size)
            self._record(group.sources)
        except UnrepresentableError as error:
            self._problems.append(Mismatch(name, (str(error),)))
            return
        # as JSON has them, so that they compare
        nodes = (("", group), *group.walk())
        attributes = {path: {name: json_value(it) for name, it in node.attributes.items()} for path, node in nodes}
        bare = VirtualGroup(group.children, group.attributes)  # the records are kept for all groups together
        kind = self._kinds.setdefault(dumps(seen.facts), Kind(bare, seen.roles, seen.facts, attributes))
        kind.intersect(attributes)
        kind.members.append(member)

    def refuse(self, name: str, reason: str) -> None:
        """Count a group that cannot be taken at all among those that do not fit."""
        self._count += 1
        self._problems.append(Mismatch(name, (reason,)))

    def _member(self, group: VirtualGroup, name: str, coordinate: Any, roles: Mapping[str, Role], size: int) -> Member:
        arrays = dict(group.arrays())
        growing = {path: arrays[path] for path, role in roles.items() if role in {Role.STACKED, Role.JOINED}}
        for path, array in growing.items():
            if roles[path] is Role.STACKED:
                lifted(array.codecs)
            elif "grid_mapping" in array.attributes and self.dim in {"y", "x"}:
                raise UnrepresentableError(
                    f"images of one place are not continued along {self.dim}: they would lie over each other",
                    field=path,
                )
        own = _own_coordinate(group, self.dim, coordinate)
        if own is None and Role.COORDINATE in roles.values():
            raise UnrepresentableError("coordinates that are not numbers in the manifest itself", field=self.dim)
        if size < 1 or (own is not None and len(own.values) != size):
            raise UnrepresentableError(f"a length of {size} that its coordinates do not have", field=self.dim)
        parts = {path: array.refs for path, array in growing.items()}
        tables = {path: tables_of(array) for path, array in growing.items()}
        lists = {path: _lists(array, self.dim) for path, array in growing.items()}
        return Member(name, size, parts, tables, lists, coordinate, own)

    def _record(self, records: Iterable[SourceRecord]) -> None:
        """Note the sources as they were scanned; one that was seen in two states fits nothing."""
        for record in records:
            known = self._records.setdefault(record.url, record)
            if (known.size, known.etag) != (record.size, record.etag):
                raise UnrepresentableError("scanned in two states (size or ETag); index it again", url=record.url)

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
                left_out += [Mismatch(member.name, reasons) for member in kind.members]
        if left_out and not skip_mismatched:
            raise _refusal(left_out, self._count)
        return self._assembled(best, tuple(left_out), keep_order=keep_order, with_tables=with_tables)

    def _assembled(
        self, kind: Kind, left_out: tuple[Mismatch, ...], *, keep_order: bool, with_tables: WithTables | None
    ) -> Concatenated:
        if not {Role.STACKED, Role.JOINED} & set(kind.roles.values()):
            raise UnrepresentableError(f"no array in {kind.members[0].name} that could grow along {self.dim!r}")
        without_axes(kind)
        order = ordered(kind.members, self.read_values, keep_order=keep_order)
        assembly = Assembly(self.dim, kind, order, with_tables)
        group = assembly.group()
        used = dict.fromkeys(url for _, array in group.arrays() for url in array.refs.sources)
        records = (*(self._records[url] for url in used if url in self._records), *self._trees(used))
        names = tuple(member.name for member in order.members)
        return Concatenated(
            VirtualGroup(group.children, group.attributes, records), names, left_out, tuple(assembly.dropped())
        )

    def _trees(self, used: Iterable[str]) -> list[SourceRecord]:
        """Return the containers that some of the files are in: these stand in the table, not each file."""
        trees = [record for url, record in self._records.items() if url.endswith("/")]
        files = sorted(used) if trees else []
        first = [bisect_left(files, record.url) for record in trees]
        return [
            tree for tree, at in zip(trees, first, strict=True) if at < len(files) and files[at].startswith(tree.url)
        ]


def concat(  # noqa: PLR0913 - the groups, and what may be said of them
    groups: Sequence[VirtualGroup],
    dim: str,
    coordinate: Sequence[Any] | None = None,
    *,
    names: Sequence[str] | None = None,
    keep_order: bool = False,
    skip_mismatched: bool = False,
) -> VirtualGroup:
    """Return groups of the same form as one, with `coordinate`'s values (one a group) along the axis `dim`."""
    found = Concatenation(dim)
    values = coordinate if coordinate is not None else [None] * len(groups)
    labels = names if names is not None else [f"group {number}" for number in range(len(groups))]
    for group, name, value in zip(groups, labels, values, strict=True):
        found.add(group, name, value)
    return found.finish(keep_order=keep_order, skip_mismatched=skip_mismatched).group


def _refusal(problems: Sequence[Mismatch], count: int) -> UnrepresentableError:
    if not problems:
        return UnrepresentableError("nothing to put together")
    more = len(problems) - SHOWN
    shown = " | ".join(map(str, problems[:SHOWN]))
    return UnrepresentableError(
        f"{len(problems)} of {count} do not fit the others: {shown}{f' | and {more} more' if more > 0 else ''}"
    )


def _own_coordinate(group: VirtualGroup, dim: str, given: Any) -> Coordinate | None:
    """Return the values along the axis that the group has itself; those of all its levels are the same."""
    groups = [group, *(node for _, node in group.walk() if isinstance(node, VirtualGroup))]
    found = [own for own in (coordinate_of(each, dim) for each in groups) if own is not None]
    if found and given is not None:
        raise UnrepresentableError(f"has coordinates along {dim!r} already", field=dim)
    if any(not np.array_equal(own.values, found[0].values) for own in found):
        raise UnrepresentableError("different coordinates in its groups", field=dim)
    return found[0] if found else None


def _lists(array: VirtualArray, dim: str) -> Mapping[str, list[Any]]:
    """Return the attributes that have an entry for each place along an axis that the array has."""
    if dim not in array.dimension_names:
        return {}
    return {name: json_value(value) for name, value in array.attributes.items() if is_per_band(name, array, dim)}


type Ints = NDArray[np.int64]


def with_member(stack: VirtualGroup, member: VirtualGroup, url: str, dim: str) -> VirtualGroup:
    """Return the stack along `dim` with the chunks of the source `url` as `member` has them."""
    fresh = {record.url: record for record in member.sources}
    records = tuple(fresh.get(record.url, record) for record in stack.sources)
    return replace(_replaced(stack, member, "", url, dim), sources=records)


def _replaced(stack: VirtualGroup, member: VirtualGroup, path: str, url: str, dim: str) -> VirtualGroup:
    _require_same_attributes(stack, member, path, dim)
    children: dict[str, Node] = {}
    for name, old in stack.children.items():
        here = f"{path}/{name}".lstrip("/")
        new = member.children.get(name)
        if isinstance(old, VirtualGroup) and isinstance(new, VirtualGroup):
            children[name] = _replaced(old, new, here, url, dim)
        elif isinstance(old, VirtualArray) and isinstance(new, VirtualArray):
            children[name] = _array(old, new, here, url, dim)
        elif any(url in array.refs.sources for _, array in VirtualGroup({"": old}).arrays()):
            raise UnrepresentableError("the file as it is now has no such node; merge again", field=here)
        else:
            children[name] = old
    return replace(stack, children=children)


def _array(old: VirtualArray, new: VirtualArray, path: str, url: str, dim: str) -> VirtualArray:
    _require_same_attributes(old, new, path, dim)
    if url not in old.refs.sources:
        return old
    for what, mine, own in _forms(old, new, dim):
        if mine != own:
            raise UnrepresentableError(f"{what} was {mine}, is {own}; merge again", field=path)
    slab = _slab(old, new, path, url, dim)
    both = joined([old.refs, new.refs], [(old.refs.chunks,), (new.refs.chunks,)], 0)
    order = np.arange(old.refs.chunks)
    order[slab] = old.refs.chunks + np.arange(new.refs.chunks)
    return replace(old, refs=both.take(order))


def _forms(old: VirtualArray, new: VirtualArray, dim: str) -> Iterator[tuple[str, object, object]]:
    """Yield what must be the same in both, with its name."""
    axis = old.dimension_names.index(dim)
    others = [at for at in range(len(old.shape)) if at != axis]
    grown = len(new.shape) < len(old.shape)
    mine = range(len(new.shape)) if grown else others
    yield "the data type", old.dtype, new.dtype
    yield "the fill value", encode_fill(old.fill_value, old.dtype), encode_fill(new.fill_value, new.dtype)
    yield "the codecs", [codec.to_json() for codec in old.codecs], [codec.to_json() for codec in new.codecs]
    yield "the shape", [old.shape[at] for at in others], [new.shape[at] for at in mine]
    yield "the chunk shape", [old.chunks[at] for at in others], [new.chunks[at] for at in mine]


def _slab(old: VirtualArray, new: VirtualArray, path: str, url: str, dim: str) -> Ints:
    """Return the numbers of the chunks that are the member's, in the order in which it has them."""
    axis = old.dimension_names.index(dim)
    thick = 1 if len(new.shape) < len(old.shape) else new.grid[axis]
    rows = np.flatnonzero(old.refs.source == old.refs.sources.index(url))
    chunks = np.searchsorted(old.refs.indptr, rows, side="right") - 1
    places = np.unravel_index(chunks, old.grid)[axis]
    first = int(places.min())
    if int(places.max()) - first + 1 != thick:
        raise UnrepresentableError(f"its place along {dim!r} cannot be told; merge again", url=url, field=path)
    return np.arange(old.refs.chunks).reshape(old.grid).take(np.arange(first, first + thick), axis).ravel()


def _require_same_attributes(old: Node, new: Node, path: str, dim: str) -> None:
    """Refuse a member that contradicts what the stack says of all its members: where it lies, say."""
    for name, value in old.attributes.items():
        per_place = isinstance(old, VirtualArray) and dim in old.dimension_names and is_per_band(name, old, dim)
        if per_place or name not in new.attributes:
            continue
        if json_value(new.attributes[name]) != json_value(value):
            raise UnrepresentableError(f"attribute {name!r} is another one now; merge again", field=path or "/")
