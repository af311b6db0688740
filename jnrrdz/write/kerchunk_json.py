"""Kerchunk references, version 1, as a JSON file with Zarr v3 keys.

May touch the model, pyarrow's string kernels and the writers' shared modules.  Follows
https://fsspec.github.io/kerchunk/spec.html.  One reference stands on each line, the metadata first and
then the chunks in C order, so that a reader may take the file in blocks:

    {"version":1,"refs":{
    "zarr.json":"{...}",
    "data/c/0/0":["url",offset,length],
    "data/c/0/1":["url",[[offset,length],[offset,length]]],
    "data/c/0/2":"base64:...",
    "data/c/0/3":["url"]
    }}

The second form, a chunk of several ranges, is that of osml-imagery-io; stock fsspec refuses it.  The
last one is a whole file whose length nobody knows.  A missing chunk has no line.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from json import dumps as quoted
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jnrrdz.model.array import VirtualArray, VirtualGroup
from jnrrdz.model.refs import WHOLE, ChunkRefs
from jnrrdz.model.zarr_json import MEMBERS_END, ZARR_JSON, below, dumps, nodes_json
from jnrrdz.write.arrow import booleans, integers, joined, text, texts
from jnrrdz.write.atomic import new_file
from jnrrdz.write.place import relocate, shareable
from jnrrdz.write.spans import MISSING, Spans, spans

BLOCK = 1 << 14
"""Chunks that are made into text at once; it bounds the memory."""

FEW = 128
"""Chunks of an array that are spelt one by one: calling Arrow's kernels takes longer."""


def write(  # noqa: PLR0913 - the writers' common signature
    root: VirtualGroup,
    target: str,
    *,
    single_range: bool = False,
    relative: bool = False,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write the references of a tree to the file or URL `target`, whole or not at all."""
    placed = relocate(root, target) if relative else root
    with new_file(target, overwrite=overwrite, storage_options=storage_options) as stream:
        dump(placed, stream, single_range=single_range)


def dump(root: VirtualGroup, stream: BinaryIO, *, single_range: bool = False) -> None:
    """Write the references of a tree to an open stream, in blocks."""
    root = shareable(root)
    separator = '{"version":1,"refs":{\n'
    for key, document in _documents(root):
        stream.write(f"{separator}{quoted(key)}:{document}".encode())
        separator = ",\n"
    for path, array in root.arrays():
        stream.writelines(_blocks(path, array, single_range=single_range))
    stream.write(b"\n}}\n")


def _documents(root: VirtualGroup) -> Iterator[tuple[str, str]]:
    """Yield every key with its document, quoted: each is spelt once, however many groups consolidate it."""
    nodes = nodes_json(root)
    texts = {path: quoted(dumps(document)) for path, document in nodes.items()}
    for path, members in below(nodes).items():
        text = texts[path]
        if members:
            inside = ",".join(f"{_member(name)}:{texts[member][1:-1]}" for name, member in members)
            text = f"{text.removesuffix(_END)}{inside}{_END}"
        yield f"{path}/{ZARR_JSON}".lstrip("/"), text


@lru_cache(1024)
def _member(name: str) -> str:
    """Return a member's name as JSON in a JSON text; a batch writes the same names again and again."""
    return quoted(dumps(name))[1:-1]


_END = f'{MEMBERS_END}"'


def _blocks(path: str, array: VirtualArray, *, single_range: bool) -> Iterator[pa.Buffer | bytes]:
    """Yield the lines of an array's chunks, each with the comma that ends the line before it."""
    if not len(array.refs.source) and not array.refs.inline:  # a grid mapping, say: all is in its metadata
        return
    found = spans(array.refs, path, single_range=single_range)
    if array.refs.chunks <= FEW and not array.refs.inline and not len(found.scattered):
        yield _few(path, array, found)
        return
    keys = _keys(path, array.grid)
    inline = np.sort(np.fromiter(array.refs.inline, np.int64))
    for first in range(0, array.refs.chunks, BLOCK):
        part = found.slice(first, min(first + BLOCK, array.refs.chunks))
        held = inline[slice(*np.searchsorted(inline, (first, first + BLOCK)))]
        present = part.source != MISSING
        present[held - first] = True
        if not present.any():
            continue
        chunks = np.flatnonzero(present) + first
        values = _values(array.refs, part, first, held).filter(booleans(present))
        yield _buffer(joined(*keys(chunks), values))


def _few(path: str, array: VirtualArray, found: Spans) -> bytes:
    """Return the lines of the chunks of a small array, each one range or none."""
    spelt, source = array.refs.spelt(found.source)
    urls = [quoted(url) for url in spelt]
    start = quoted(f"{path}/c")[:-1]
    keys = ("".join(f"/{index}" for index in place) for place in product(*map(range, array.grid)))
    rows = zip(keys, source.tolist(), found.start.tolist(), found.length.tolist(), strict=True)
    lines = (f',\n{start}{key}":[{urls[at]}{_range(first, size)}]' for key, at, first, size in rows if at != MISSING)
    return "".join(lines).encode()


def _range(first: int, size: int) -> str:
    return "" if size == WHOLE else f",{first},{size}"


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
