"""A stack or cube without the sources that are gone.

Of a cube the chunks of such a source become missing, and a time of which no chunk is left is taken out.  Of a stack
the members in such a source are taken out, whole or not at all: what is left of one would read as fill.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.concat_match import is_per_band
from jnrrdz.core.coordinate import Coordinate, coordinate_of, labels_name, variable
from jnrrdz.core.large_refs import LARGE, put_together
from jnrrdz.core.refs import ChunkRefs, MappedRefs, References, row_pointers, without_unused
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.errors import UnrepresentableError

type Mask = NDArray[np.bool_]

AGAIN = "make the manifest anew without it"


def pruned(root: VirtualGroup, gone: Iterable[str], dim: str, *, is_cube: bool) -> VirtualGroup:
    """Return a stack or cube along `dim` without the chunks of some sources, by their URLs."""
    pruning = _Pruning(frozenset(gone), dim, is_cube=is_cube)
    # the groups of a cube have a time axis each, those of a stack share one
    lost = None if is_cube else pruning.lost_places([array for _, array in root.arrays()])
    records = tuple(record for record in root.sources if record.url not in pruning.gone)
    return replace(pruning.group(root, lost), sources=records)


@dataclass(frozen=True)
class _Pruning:
    gone: frozenset[str]
    dim: str
    is_cube: bool

    def group(self, group: VirtualGroup, lost: Mask | None, prefix: str = "") -> VirtualGroup:
        """Return a group with everything below it."""
        if self.is_cube:
            lost = self.lost_places([node for node in group.children.values() if isinstance(node, VirtualArray)])
        children: dict[str, Node] = {}
        for name, child in group.children.items():
            path = f"{prefix}{name}"
            if isinstance(child, VirtualGroup):
                children[name] = self.group(child, lost, f"{path}/")
            elif name == self.dim and child.dimension_names == (name,) and not child.refs.sources:
                children[name] = self._coordinate(group, child, lost, path)
            else:
                children[name] = self._array(child, lost, path)
        attributes = dict(group.attributes)
        labels = attributes.get(labels_name(self.dim))
        if lost is not None and isinstance(labels, list) and len(labels) == len(lost):
            attributes[labels_name(self.dim)] = [
                label for label, is_lost in zip(labels, lost, strict=True) if not is_lost
            ]
        return replace(group, children=children, attributes=attributes)

    def lost_places(self, arrays: Iterable[VirtualArray]) -> Mask | None:
        """Return which places along the axis lose all that they have; None where no array has the axis."""
        along = [array for array in arrays if self.dim in array.dimension_names and array.refs.sources]
        sizes = {array.shape[array.dimension_names.index(self.dim)] for array in along}
        if not along:
            return None
        if len(sizes) > 1:
            raise UnrepresentableError(f"arrays of {sorted(sizes)} places along {self.dim!r}; {AGAIN}", field=self.dim)
        places = [self._places(array) for array in along]
        touched = np.logical_or.reduce([is_touched for is_touched, _ in places])
        left = np.logical_or.reduce([is_left for _, is_left in places])
        lost: Mask = touched & ~left
        if lost.all():
            raise UnrepresentableError(
                "none of its sources is there; remove the manifest, or make the sources reachable", field=self.dim
            )
        return lost

    def _places(self, array: VirtualArray) -> tuple[Mask, Mask]:
        """Return at which places along the axis chunks are gone, and at which some are left."""
        axis = array.dimension_names.index(self.dim)
        inner, count = math.prod(array.grid[axis + 1 :]), array.grid[axis]
        touched, left = np.zeros(count, bool), np.zeros(count, bool)
        for first, part in array.refs.parts():
            place = np.arange(first, first + part.chunks) // inner % count
            is_gone, is_there = self._gone_chunks(part), np.zeros(part.chunks, bool)
            is_there[part.present] = True
            touched[place[is_gone]] = True
            left[place[is_there & ~is_gone]] = True
        step, size = array.chunks[axis], array.shape[axis]
        return np.repeat(touched, step)[:size], np.repeat(left, step)[:size]

    def _gone_chunks(self, refs: ChunkRefs) -> Mask:
        """Return which chunks have a range in a source that is gone."""
        numbers = [number for number, url in enumerate(refs.sources) if url in self.gone]
        is_gone = np.zeros(refs.chunks, bool)
        if numbers:
            is_gone[refs.owner[np.isin(refs.source, numbers)]] = True
        return is_gone

    def _without_gone(self, refs: ChunkRefs) -> ChunkRefs:
        """Return the references with the chunks missing that are in sources that are gone."""
        is_gone = self._gone_chunks(refs)
        if not is_gone.any():
            return without_unused(refs)
        kept = ~np.repeat(is_gone, refs.counts)
        version = None if refs.version is None else refs.version[kept]
        columns = (refs.source[kept], refs.offset[kept], refs.length[kept])
        pointers = row_pointers(np.where(is_gone, 0, refs.counts))
        inline = {chunk: data for chunk, data in refs.inline.items() if not is_gone[chunk]}
        return without_unused(ChunkRefs(refs.sources, pointers, *columns, inline, version))

    def _array(self, array: VirtualArray, lost: Mask | None, path: str) -> VirtualArray:
        """Return an array of the group."""
        is_along = self.dim in array.dimension_names
        if not self.gone.isdisjoint(array.refs.sources):
            self._check(array, lost if is_along else None, path)
        if array.refs.chunks > LARGE:
            sources = tuple(url for url in array.refs.sources if url not in self.gone)
            refs: References = MappedRefs(array.refs, self._without_gone, sources)
        else:
            refs = self._without_gone(array.refs.columns())
        if not is_along or lost is None or not lost.any():
            return replace(array, refs=refs)
        axis = array.dimension_names.index(self.dim)
        turn = np.flatnonzero(~self._lost_chunks(array, lost, axis, path))
        attributes = {
            name: [entry for entry, is_lost in zip(value, lost, strict=True) if not is_lost]
            if is_per_band(name, array, self.dim)
            else value
            for name, value in array.attributes.items()
        }
        return replace(
            array,
            shape=(*array.shape[:axis], int((~lost).sum()), *array.shape[axis + 1 :]),
            refs=put_together([refs], [array.grid], axis, turn),
            attributes=attributes,
        )

    def _check(self, array: VirtualArray, lost: Mask | None, path: str) -> None:
        """Refuse an array that would read as fill where a stack's member was, or where all members share it."""
        if self.is_cube and lost is not None:
            return
        if lost is None:
            is_wrong = any(self._gone_chunks(part).any() for _, part in array.refs.parts())
        else:
            is_wrong = bool((self._places(array)[0] & ~lost).any())
        if is_wrong:
            raise UnrepresentableError(f"a source that is gone holds a part of what stays; {AGAIN}", field=path)

    def _lost_chunks(self, array: VirtualArray, lost: Mask, axis: int, path: str) -> Mask:
        """Return which chunks along the axis are taken out."""
        step, count = array.chunks[axis], array.grid[axis]
        padded = np.concatenate([lost, np.repeat(lost[-1:], count * step - len(lost))]).reshape(count, step)
        is_lost: Mask = padded.all(1)
        if (padded.any(1) & ~is_lost).any():
            message = f"chunks of {step} along {self.dim!r} hold more than what is gone; {AGAIN}"
            raise UnrepresentableError(message, field=path)
        return is_lost

    def _coordinate(self, group: VirtualGroup, array: VirtualArray, lost: Mask | None, path: str) -> VirtualArray:
        """Return the coordinate of the axis without the places that are taken out."""
        if lost is None or not lost.any():
            return array
        coordinate = coordinate_of(group, self.dim)
        if coordinate is None or len(coordinate.values) != len(lost):
            raise UnrepresentableError(f"a coordinate that cannot be cut; {AGAIN}", field=path)
        step = array.chunks[0] if array.chunks != array.shape else None
        return variable(self.dim, Coordinate(coordinate.values[~lost], coordinate.attributes), step)
