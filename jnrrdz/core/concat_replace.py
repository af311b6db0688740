"""One member of a stack taken out and put in anew, as another scan of its source has it.

May touch numpy, errors and the model's own modules.  What the stack says of all its members has to
hold for the new one too; where it does not, the stack has to be made anew.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.array import Node, VirtualArray, VirtualGroup
from jnrrdz.core.bands import taken
from jnrrdz.core.concat_match import is_per_band
from jnrrdz.core.concat_refs import joined
from jnrrdz.core.fill_value import encode_fill
from jnrrdz.core.zarr_json import json_value
from jnrrdz.errors import UnrepresentableError

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
        elif _uses(old, url):
            raise UnrepresentableError("the file as it is now has no such node; merge again", field=here)
        else:
            children[name] = old
    return replace(stack, children=children)


def _uses(node: Node, url: str) -> bool:
    arrays = [node] if isinstance(node, VirtualArray) else [array for _, array in node.arrays()]
    return any(url in array.refs.sources for array in arrays)


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
    return replace(old, refs=taken(both, order))


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
