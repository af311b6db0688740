"""Kerchunk references, version 1, as a JSON file with Zarr v3 keys: its form, and how it is written.

Follows https://fsspec.github.io/kerchunk/spec.html.  One reference stands on each line, the metadata first and
then the chunks in C order, so that a reader may take the file in pieces:

    {"version":1,"refs":{
    "zarr.json":"{...}",
    "data/c/0/0":["url",offset,length],
    "data/c/0/1":["url",[[offset,length],[offset,length]]],
    "data/c/0/2":"base64:...",
    "data/c/0/3":["url"]
    }}

The second form, a chunk of several ranges, is that of osml-imagery-io.  Stock fsspec opens the manifest all the same:
its error is about that chunk, and about listings (docs/decisions/025-chunks-of-several-ranges-for-other-readers.md).
The last form is a whole file whose length nobody knows.  A missing chunk has no line.

Where chunks are whole objects of a tree, a member beside `refs` tells what is known of each object's state, for each
array its chunks that have a reference, in C order, 8 bytes each, little-endian, in base64 (below 0 63 bits of a
digest of the ETag, above 0 nanoseconds since 1970, 0 nothing).  Other readers take `refs` alone:

    },"object_versions":{
    "s0/data":["...",
    "..."]
    }}

`json_refs` reads it, and other layouts.
"""

import base64
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from json.encoder import encode_basestring_ascii as quoted
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.refs import WHOLE, ChunkRefs, Grid, Ints, SparseRefs
from jnrrdz.core.tree import MEMBERS_END, VirtualGroup, consolidating, nodes_json, tree_json
from jnrrdz.core.zarr_json import ZARR_JSON, dumps
from jnrrdz.manifests.atomic import new_file
from jnrrdz.manifests.documents import is_manifest
from jnrrdz.manifests.written_refs import MISSING, Spans, placed, spans
from jnrrdz.options import WriteOptions

BLOCK = 1 << 14
"""Chunks that are made into text at once; it bounds the memory."""

FEW = 128
"""Rows of numbers up to which Python's own formatting is faster than numpy's arithmetic."""

_OPENING, _MIDDLE = b"\1", b"\2"
"""Stand for what all lines of an array, and all lines of a source, have in common.  JSON's text has neither."""


def write(root: VirtualGroup, target: str, options: WriteOptions | None = None) -> None:
    """Write the references of a tree to the file or URL `target`, whole or not at all."""
    wanted = options or WriteOptions()
    spelt = placed(root, target if wanted.relative else None, wanted.keep_query)
    replaces = is_manifest if wanted.overwrite else None
    with new_file(target, replaces=replaces, storage_options=wanted.target_options) as stream:
        _write_lines(spelt, stream, single_range=wanted.single_range)


def dump(root: VirtualGroup, stream: BinaryIO, *, single_range: bool = False, keep_query: Collection[str] = ()) -> None:
    """Write the references of a tree to an open stream, in blocks."""
    _write_lines(placed(root, None, keep_query), stream, single_range=single_range)


def _write_lines(root: VirtualGroup, stream: BinaryIO, *, single_range: bool) -> None:
    separator = '{"version":1,"refs":{\n'
    arrays = []
    several = False
    for path, array in root.arrays():  # those without a chunk, as a grid mapping, are in the metadata alone
        refs = array.refs if isinstance(array.refs, SparseRefs) else array.refs.gathered()
        stored = refs.stored()
        if len(stored.source) or stored.inline:
            arrays.append((path, array.grid, refs))
            if not stored.is_plain and len(stored.source) > np.count_nonzero(stored.counts):
                several = True
    for key, document in _documents(root, each=several and not single_range):
        stream.write(f"{separator}{quoted(key)}:{document}".encode())
        separator = ",\n"
    versions: dict[str, Ints] = {}
    for path, grid, refs in arrays:
        columns = []
        for first, part in refs.parts() if isinstance(refs, SparseRefs) else [(0, refs)]:
            found = spans(part, path, single_range=single_range, before=first)
            stream.writelines(_lines(path, grid, part, found, first))
            if found.version is not None:
                columns.append(found.version[found.source != MISSING])
        if columns:
            versions[path] = np.concatenate(columns)
    separator = '\n},"object_versions":{\n'
    for path, column in versions.items():
        parts = (column[first : first + BLOCK].astype("<i8") for first in range(0, len(column), BLOCK))
        lines = ",\n".join(f'"{base64.b64encode(part.tobytes()).decode()}"' for part in parts)
        stream.write(f"{separator}{quoted(path)}:[{lines}]".encode())
        separator = ",\n"
    stream.write(b"\n}}\n")


def _documents(root: VirtualGroup, *, each: bool) -> Iterator[tuple[str, str]]:
    """Yield every key with its document, quoted: each is spelt once, though the root consolidates them all.

    `each` asks that every group consolidates what is below it: stock fsspec lists nothing of a manifest with chunks
    of several ranges.
    """
    if each:
        yield from ((key, quoted(dumps(node))) for key, node in tree_json(root, consolidated="each").items())
        return
    nodes = nodes_json(root)
    texts = {path: quoted(dumps(document)) for path, document in nodes.items() if path}
    members = (
        f"{_member(path)}:{text[1:-2] + _NO_MEMBERS if nodes[path]['node_type'] == 'group' else text[1:-1]}"
        for path, text in texts.items()
    )
    top = quoted(dumps(consolidating(nodes[""], {}))).removesuffix(_END)
    yield ZARR_JSON, f"{top}{','.join(members)}{_END}"
    yield from ((f"{path}/{ZARR_JSON}", text) for path, text in texts.items())


@lru_cache(1024)
def _member(name: str) -> str:
    """Return a member's name as JSON in a JSON text; a batch writes the same names again and again."""
    return quoted(dumps(name))[1:-1]


_END = f'{MEMBERS_END}"'
_NO_MEMBERS = quoted("," + dumps(consolidating({}, {}))[1:])[1:-1]
"""How the text of a group ends that says that its members are elsewhere."""


def _lines(path: str, grid: Grid, refs: ChunkRefs, found: Spans, before: int) -> Iterator[bytes]:
    """Yield the lines of some chunks in blocks, each line with the comma that ends the one before it.

    `before` is the number of the first chunk.
    """
    axes = len(grid)
    opening = f",\n{quoted(f'{path}/c')[:-1]}".encode()
    inline = refs.inline_numbers
    for first in range(0, refs.chunks, BLOCK):
        part = found.slice(first, min(first + BLOCK, refs.chunks))
        held = inline[slice(*np.searchsorted(inline, (first, first + BLOCK)))] if len(inline) else inline
        present = part.source != MISSING
        present[held - first] = True
        rows = np.flatnonzero(present)
        if not len(rows):
            continue
        index = np.unravel_index(rows + first + before, grid) if axes else ()
        source, start, length = part.source[rows], part.start[rows], part.length[rows]
        if len(held) or len(part.scattered) or (source != source[0]).any() or (length == WHOLE).any():
            keys = decimals(index, [b"/", *[b"/"] * (axes - 1), b"\n"]).split(b"\n") if axes else [b""]
            values = _values(refs, part, first, held)
            yield b"".join([opening + keys[at] + b'":' + values[row] for at, row in enumerate(rows.tolist())])
        else:
            keys_between = [_OPENING + b"/", *[b"/"] * (axes - 1), _MIDDLE] if axes else [_OPENING + _MIDDLE]
            text = decimals([*index, start, length], [*keys_between, b",", b"]"])
            middle = f'":[{quoted(refs.sources[source[0]])},'.encode()
            yield text.replace(_OPENING, opening).replace(_MIDDLE, middle)


def _values(refs: ChunkRefs, part: Spans, first: int, inline: Ints) -> list[bytes]:
    """Return the value of every chunk of a block as JSON text; what stands for a missing one has no meaning."""
    spelt, source = refs.spelt(part.source)
    urls = [*(f"[{quoted(url)}".encode() for url in spelt), b""]
    numbers = source.tolist()
    values = [b""] * len(numbers)
    if len(part.scattered) < len(numbers):
        ranges = decimals([part.start, part.length], [b",", b",", b"]\n"]).split(b"\n")
        values = [urls[number] + text for number, text in zip(numbers, ranges, strict=False)]
    for row in np.flatnonzero((part.length == WHOLE) & (part.source != MISSING)).tolist():
        values[row] = urls[numbers[row]] + b"]"
    if len(part.scattered):
        chunks = part.scattered + first
        begins = refs.indptr[chunks]
        counts = refs.indptr[chunks + 1] - begins  # of these only: `refs.counts` would count all chunks for each block
        ends = np.cumsum(counts)
        rows = np.arange(ends[-1]) + np.repeat(begins - (ends - counts), counts)
        text = decimals([refs.offset[rows], refs.length[rows]], [b"[", b",", b"]\n"])
        pairs = np.frombuffer(text, np.uint8).copy()
        stops = np.flatnonzero(pairs == ord("\n"))
        pairs[stops] = ord(",")
        pairs[stops[ends - 1]] = ord("\n")  # only the last range of a chunk ends its line
        for row, several in zip(part.scattered.tolist(), pairs.tobytes().split(b"\n"), strict=False):
            values[row] = urls[numbers[row]] + b",[" + several + b"]]"
    for chunk in inline.tolist():
        values[chunk - first] = b'"base64:%b"' % base64.b64encode(refs.inline[chunk])
    return values


def decimals(columns: Sequence[NDArray[np.integer]], between: Sequence[bytes]) -> bytes:
    """Return rows of decimal numbers (none below 0), with `between[n]` before column n and the last one at the end."""
    rows = len(columns[0])
    if rows <= FEW:
        numbers = zip(*[column.tolist() for column in columns], strict=True)
        return (b"%d".join(between) * rows) % tuple(chain.from_iterable(numbers))
    widths = [len(str(column.max())) for column in columns]
    # a row of this table is one place in all lines; what stands for leading zeros goes at the end
    text = np.empty((sum(widths) + sum(map(len, between)), rows), np.uint8)
    place = 0
    for constant, column, width in zip(between, columns, widths, strict=False):
        text[place : place + len(constant)] = np.frombuffer(constant, np.uint8)[:, np.newaxis]
        place += len(constant) + width
        digits = column.astype(np.uint32) if width < _UINT32 else column
        for at in range(1, width + 1):
            rest = digits // 10
            text[place - at] = digits - rest * 10 + ord("0")
            if at > 1:
                text[place - at][digits == 0] = 0
            digits = rest
    text[place:] = np.frombuffer(between[-1], np.uint8)[:, np.newaxis]
    return text.T.tobytes().translate(None, b"\0")


_UINT32 = 10
"""Digits of numbers that need more than 32 bits, which take several times as long to divide."""
