"""One band of an array that stores each band in chunks of its own.

May touch numpy, errors and the model's own modules only.
"""

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.array import VirtualArray
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import UnrepresentableError

BY_AXIS = {"transpose", "reshape", "sharding_indexed"}
"""Codecs that count the axes of a chunk."""


def band_of(array: VirtualArray, axis: int, band: int) -> VirtualArray:
    """Return one index of an axis, without the axis; chunks may hold one index only."""
    counting = BY_AXIS & {codec.name for codec in array.codecs}
    if array.chunks[axis] != 1 or counting:
        found = f"codecs {', '.join(sorted(counting))}" if counting else f"chunks of {array.chunks}"
        raise UnrepresentableError(f"bands differ in scale or offset, and {found} do not let them be read one by one")
    chunks = np.arange(array.refs.chunks).reshape(array.grid).take(band, axis).ravel()
    return VirtualArray(
        shape=_without(array.shape, axis),
        dtype=array.dtype,
        chunks=_without(array.chunks, axis),
        codecs=array.codecs,
        refs=taken(array.refs, chunks),
        dimension_names=_without(array.dimension_names, axis),
        fill_value=array.fill_value,
        attributes=array.attributes,
    )


def _without[T](values: tuple[T, ...], axis: int) -> tuple[T, ...]:
    return (*values[:axis], *values[axis + 1 :])


def taken(refs: ChunkRefs, chunks: NDArray[np.int64]) -> ChunkRefs:
    """Return the references of some chunks, in their order."""
    counts = refs.counts[chunks]
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    rows = np.repeat(refs.indptr[chunks] - indptr[:-1], counts) + np.arange(indptr[-1])
    inline = (
        {new: refs.inline[old] for new, old in enumerate(chunks.tolist()) if old in refs.inline} if refs.inline else {}
    )
    return ChunkRefs(refs.sources, indptr, refs.source[rows], refs.offset[rows], refs.length[rows], inline)
