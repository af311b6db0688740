"""Lines of Kerchunk references for the chunks of one array, made by Arrow's string kernels in blocks.

May touch the model, pyarrow and the writers' shared modules.  What the lines look like is told in `kerchunk_json`.
"""

import base64
from collections.abc import Callable, Iterator
from json import dumps as quoted

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jnrrdz.core.array import VirtualArray
from jnrrdz.core.refs import WHOLE, ChunkRefs
from jnrrdz.manifests.arrow_written import booleans, integers, joined, text, texts
from jnrrdz.manifests.spans import MISSING, Spans


def lines(path: str, array: VirtualArray, found: Spans, block: int) -> Iterator[pa.Buffer]:
    """Yield the lines of an array's chunks, so many at once, each with the comma that ends the line before it."""
    keys = _keys(path, array.grid)
    inline = np.sort(np.fromiter(array.refs.inline, np.int64))
    for first in range(0, array.refs.chunks, block):
        part = found.slice(first, min(first + block, array.refs.chunks))
        held = inline[slice(*np.searchsorted(inline, (first, first + block)))]
        present = part.source != MISSING
        present[held - first] = True
        if not present.any():
            continue
        chunks = np.flatnonzero(present) + first
        values = _values(array.refs, part, first, held).filter(booleans(present))
        yield _buffer(joined(*keys(chunks), values))


def _keys(path: str, grid: tuple[int, ...]) -> Callable[[NDArray[np.int64]], list[pa.Array | str]]:
    """Return what gives, for some chunks, the parts of the text from the line's start to its value."""
    start = f",\n{quoted(f'{path}/c')[:-1]}"
    parts = [texts(f"/{index}" for index in range(size)) for size in grid]

    def opening(chunks: NDArray[np.int64]) -> list[pa.Array | str]:
        indices = np.unravel_index(chunks, grid) if grid else ()
        columns = [part.take(integers(index)) for part, index in zip(parts, indices, strict=True)]
        return [start, *columns, '":']

    return opening


def _values(refs: ChunkRefs, part: Spans, first: int, inline: NDArray[np.int64]) -> pa.Array:
    """Return the value of every chunk of a block as JSON text; what stands for a missing one has no meaning."""
    spelt, source = refs.spelt(part.source)
    urls = texts(f"[{quoted(url)}," for url in (*spelt, ""))
    url = urls.take(integers(source % len(urls)))
    values = joined(url, _decimal(part.start), ",", _decimal(part.length), "]")
    whole = np.flatnonzero((part.length == WHOLE) & (part.source != MISSING))
    if len(whole):
        named = texts(f"[{quoted(url)}]" for url in (*spelt, ""))
        values = _replaced(values, whole, named.take(integers(source[whole])))
    if len(part.scattered):
        lists = _range_lists(refs, part.scattered + first)
        several = joined(url.take(integers(part.scattered)), lists, "]")
        values = _replaced(values, part.scattered, several)
    if len(inline):
        encoded = [f'"base64:{base64.b64encode(refs.inline[chunk]).decode("ascii")}"' for chunk in inline.tolist()]
        values = _replaced(values, inline - first, pa.array(encoded))
    return values


def _range_lists(refs: ChunkRefs, chunks: NDArray[np.int64]) -> pa.Array:
    """Return `[[offset,length],...]` of each of some chunks."""
    counts = refs.counts[chunks]
    ends = np.cumsum(counts)
    rows = np.arange(ends[-1]) + np.repeat(refs.indptr[chunks] - (ends - counts), counts)
    pairs = joined("[", _decimal(refs.offset[rows]), ",", _decimal(refs.length[rows]), "]")
    grouped = pa.ListArray.from_arrays(integers(np.concatenate(([0], ends)).astype(np.int32)), pairs)
    return joined("[", pc.binary_join(grouped, text(",")), "]")


def _replaced(values: pa.Array, where: NDArray[np.int64], others: pa.Array) -> pa.Array:
    mask = np.zeros(len(values), bool)
    mask[where] = True
    return pc.replace_with_mask(values, booleans(mask), others)


def _decimal(numbers: NDArray[np.int64]) -> pa.Array:
    return integers(numbers).cast(pa.string())


def _buffer(lines: pa.Array) -> pa.Buffer:
    """Return the lines one after another: that is how Arrow keeps them."""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return lines.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0])) if len(lines) else pa.py_buffer(b"")
