"""Kerchunk references, version 1, as a JSON file with Zarr v3 keys: written and read.

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

Version 0 and other layouts are read too, as a whole, and so are references of Zarr v2 and those that are computed
(`gen`).
"""

import base64
import itertools
import reprlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from json import dumps as quoted
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import VirtualArray, VirtualGroup
from jnrrdz.core.refs import WHOLE, ChunkRefs
from jnrrdz.core.zarr_json import MEMBERS_END, ZARR_JSON, consolidating, dumps, nodes_json, parse_json, tree_json
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.manifests.atomic import new_file
from jnrrdz.manifests.columns import ColumnarRefs, Ints
from jnrrdz.manifests.documents import Documents, is_manifest
from jnrrdz.manifests.json_refs import Gatherer, OtherLayoutError, Templates, UnknownArrayError, generated
from jnrrdz.manifests.written_refs import MISSING, Spans, placed, spans
from jnrrdz.options import WriteOptions
from jnrrdz.sources.base import ByteSource

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
    several = any(len(array.refs.source) > np.count_nonzero(array.refs.counts) for _, array in root.arrays())
    for key, document in _documents(root, each=several and not single_range):
        stream.write(f"{separator}{quoted(key)}:{document}".encode())
        separator = ",\n"
    versions: dict[str, Ints] = {}
    for path, array in list(root.arrays()):
        if len(array.refs.source) or array.refs.inline:  # all of a grid mapping, say, is in its metadata
            found = spans(array.refs, path, single_range=single_range)
            stream.writelines(_lines(path, array, found))
            if found.version is not None:
                versions[path] = found.version[found.source != MISSING]
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


def _lines(path: str, array: VirtualArray, found: Spans) -> Iterator[bytes]:
    """Yield the lines of an array's chunks in blocks, each line with the comma that ends the one before it."""
    refs, grid = array.refs, array.grid
    axes = len(grid)
    opening = f",\n{quoted(f'{path}/c')[:-1]}".encode()
    inline = np.sort(np.fromiter(refs.inline, np.int64))
    for first in range(0, refs.chunks, BLOCK):
        part = found.slice(first, min(first + BLOCK, refs.chunks))
        held = inline[slice(*np.searchsorted(inline, (first, first + BLOCK)))]
        present = part.source != MISSING
        present[held - first] = True
        rows = np.flatnonzero(present)
        if not len(rows):
            continue
        index = np.unravel_index(rows + first, grid) if axes else ()
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
        return (b"%d".join(between) * rows) % tuple(np.column_stack(columns).ravel().tolist())
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

_PIECE = 1 << 19  # bytes decoded at once: the Python objects of one piece take some 5 MB
_FIRST_PIECE = 1 << 16  # the one that holds the documents is read reference by reference
_AT_ONCE = 8  # pieces fetched together, for the sake of remote manifests
_HEADER = 1 << 20  # bytes within which the first line has to end
_LONGEST_LINE = 32 << 20  # bytes; gathering a longer one from pieces would cost the square of its length
_SLICE = 50_000  # references of a manifest held whole that are turned to columns at once

_BESIDE = b'\n},"object_versions":{'

type Contents = tuple[Documents, dict[str, ColumnarRefs]]
"""What a manifest holds: its documents, and each array's references by its path."""


def read_json(source: ByteSource, overrides: Mapping[str, str] | None = None) -> Contents:
    """Return the documents and the references of a JSON manifest; `overrides` stand for its templates' values."""
    try:
        return _read_lines(source, overrides)
    except (OtherLayoutError, UnknownArrayError):
        # really broken or only laid out in another way: the whole text tells
        return _read_whole(source, overrides)


def _read_lines(source: ByteSource, overrides: Mapping[str, str] | None) -> Contents:
    (head,) = source.read([(0, min(_HEADER, source.validators.size))])
    line, end, rest = head.partition(b"\n")
    opening = line.rstrip()
    if not end or not opening.endswith(b"{") or opening == b"{":
        raise OtherLayoutError("not the first line of references")
    try:
        top = _top(parse_json(opening + b"}}"))
    except MalformedError as error:
        raise OtherLayoutError("not the first line of references") from error
    if top.get("gen"):
        raise OtherLayoutError("references that are computed, which other lines may replace")
    gatherer = Gatherer(Templates(top.get("templates", {}), overrides))
    beside: list[bytes] | None = None
    for lines in _pieces(source, rest, len(head)):
        if beside is None:
            lines, mark, after = lines.partition(_BESIDE)  # noqa: PLW2901  what is left of it
            gatherer.add_lines(lines)
            beside = [after] if mark else None
        else:
            beside.append(lines)
    return gatherer.finish(parse_json(b"{%b}" % b"".join(beside or ())))


def _pieces(source: ByteSource, head: bytes, start: int) -> Iterator[bytes]:
    """Yield whole lines in large pieces, without the two braces at the end: `head`, and the source from `start` on."""
    cuts = itertools.pairwise([0, *range(_FIRST_PIECE, len(head), _PIECE), len(head)])
    size = source.validators.size
    groups = itertools.batched(itertools.pairwise([*range(start, size, _PIECE), size]), _AT_ONCE)
    heads = (head[first:stop] for first, stop in cuts)
    rest = b""
    for some in itertools.chain(heads, itertools.chain.from_iterable(map(source.read, groups))):
        lines, end, rest = (rest + some).rpartition(b"\n")
        # the last line may be the braces: it waits for what follows
        cut = max(lines.rfind(b"\n"), 0)
        yield lines[:cut]
        rest = lines[cut:] + end + rest
        if len(rest) > _LONGEST_LINE:
            raise OtherLayoutError("not a reference per line")
    for _ in "}}":
        rest = rest.rstrip()
        if not rest.endswith(b"}"):
            raise OtherLayoutError("the text ends early")
        rest = rest[:-1]
    yield rest


def _read_whole(source: ByteSource, overrides: Mapping[str, str] | None) -> Contents:
    (data,) = source.read([(0, source.validators.size)])
    top = _top(parse_json(data))
    del data
    templates = Templates(top.get("templates", {}), overrides)
    gatherer = Gatherer(templates, is_whole=True)
    references = top["refs"]
    if top.get("gen"):
        references = {**references, **dict(generated(top["gen"], templates))}  # in fsspec's order
    gatherer.add_metadata(references)
    gatherer.documents.require_v3()
    if gatherer.is_version_2 and any(key.endswith("/") for key in references):
        # VirtualiZarr's name of the one chunk of an array without axes
        references = {f"{key}0" if key.endswith("/") else key: value for key, value in references.items()}
    if gatherer.left_out:
        inside = tuple(f"{path}/" for path in gatherer.left_out)
        references = {key: value for key, value in references.items() if not key.startswith(inside)}
    entries = iter(references.items())
    while part := dict(itertools.islice(entries, _SLICE)):
        gatherer.add(part)
    return gatherer.finish(top.get("object_versions", {}))


def _top(document: Any) -> dict[str, Any]:
    """Return the outermost object in the form of version 1."""
    if not isinstance(document, dict):
        raise MalformedError(f"not a reference manifest but a JSON {type(document).__name__}")
    if "refs" not in document:
        return {"refs": document}
    if document.get("version", 1) != 1:
        raise UnsupportedError(f"version {reprlib.repr(document['version'])}; 0 and 1 are read", field="version")
    for name in ("refs", "templates"):
        if not isinstance(document.get(name, {}), dict):
            raise MalformedError(f"no object but {type(document[name]).__name__}", field=name)
    return document
