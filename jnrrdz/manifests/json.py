"""Kerchunk references, version 1, as a JSON file with Zarr v3 keys.

May touch the model and the writers' shared modules.  Follows
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

Lines of Kerchunk references for the chunks of one array, made by Arrow's string kernels in blocks.

May touch the model, pyarrow and the writers' shared modules.  What the lines look like is told in `kerchunk_json`.

A JSON manifest as columns.

May touch read.columns, read.documents, read.references, a `ByteSource` and errors.  Follows
https://fsspec.github.io/kerchunk/spec.html, versions 0 and 1, with Zarr v3 keys; `gen` is refused.
A manifest as jnrrdz writes it has one reference per line, so it is cut at line ends and never held
whole; any other layout is.
"""

import base64
import itertools
import reprlib
from collections.abc import Buffer, Callable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from json import dumps as quoted
from typing import Annotated, Any, BinaryIO, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jnrrdz.core.arrays import VirtualArray, VirtualGroup
from jnrrdz.core.refs import WHOLE, ChunkRefs
from jnrrdz.core.zarr_json import MEMBERS_END, ZARR_JSON, below, dumps, nodes_json
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.manifests.atomic import new_file
from jnrrdz.manifests.columns import ColumnarRefs, booleans, integers, joined, text, texts
from jnrrdz.manifests.documents import parse_json
from jnrrdz.manifests.json_refs import LIMIT, Gatherer, UnknownArrayError
from jnrrdz.manifests.place import relocate, shareable
from jnrrdz.manifests.spans import MISSING, Spans, spans
from jnrrdz.sources.base import ByteSource

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


def _blocks(path: str, array: VirtualArray, *, single_range: bool) -> Iterator[Buffer]:
    """Yield the lines of an array's chunks, each with the comma that ends the line before it."""
    if not len(array.refs.source) and not array.refs.inline:  # a grid mapping, say: all is in its metadata
        return
    found = spans(array.refs, path, single_range=single_range)
    if array.refs.chunks <= FEW and not array.refs.inline and not len(found.scattered):
        yield _few(path, array, found)
        return
    yield from lines(path, array, found, BLOCK)


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


_PIECE = 1 << 19  # bytes decoded at once: the Python objects of one piece take some 5 MB
_FIRST_PIECE = 1 << 16  # the one that holds the documents is read reference by reference
_AT_ONCE = 8  # pieces fetched together, for the sake of remote manifests
_HEADER = 1 << 20  # bytes within which the first line has to end
_LONGEST_LINE = 32 << 20  # bytes; gathering a longer one from pieces would cost the square of its length
_SLICE = 50_000  # references of a manifest held whole that are turned to columns at once

type _Simple = dict[str, tuple[str, _Place, _Place]]
type _Place = Annotated[int, msgspec.Meta(ge=0, le=LIMIT)]

_simple_lines = msgspec.json.Decoder(_Simple)


class _OtherLayoutError(MalformedError):
    """The text is not one reference per line."""


class Contents(NamedTuple):
    """What a manifest holds."""

    documents: dict[str, bytes]
    arrays: Mapping[str, ColumnarRefs]


def read_json(source: ByteSource) -> Contents:
    """Return the documents and the references of a JSON manifest."""
    try:
        return _read_lines(source)
    except (_OtherLayoutError, UnknownArrayError):
        # really broken or only laid out in another way: the whole text tells
        return _read_whole(source)


def _read_lines(source: ByteSource) -> Contents:
    (head,) = source.read([(0, min(_HEADER, source.validators.size))])
    line, end, _ = head.partition(b"\n")
    gatherer = Gatherer(_header(line).get("templates", {}))
    if not end:
        raise _OtherLayoutError("all on one line")
    for piece in _pieces(source, len(line) + 1):
        _add_lines(gatherer, piece)
    return Contents(*gatherer.finish())


def _header(line: bytes) -> dict[str, Any]:
    """Return what stands before the references if the line ends where they begin."""
    text = line.rstrip()
    if not text.endswith(b"{") or text == b"{":
        raise _OtherLayoutError("not the first line of references")
    try:
        return _top(parse_json(text + b"}}"))
    except MalformedError as error:
        raise _OtherLayoutError("not the first line of references") from error


def _pieces(source: ByteSource, start: int) -> Iterator[bytes]:
    """Yield the lines from `start` on in large pieces, without the two braces at the end."""
    rest = b""
    size = source.validators.size
    cuts = [start, *range(start + _FIRST_PIECE, size, _PIECE), size]
    spans = list(itertools.pairwise(cuts))
    for group in itertools.batched(spans, _AT_ONCE):
        for data in source.read(group):
            lines, end, rest = (rest + data).rpartition(b"\n")
            # the last line may be the braces: it waits for what follows
            cut = lines.rfind(b"\n")
            yield lines[: max(cut, 0)]
            rest = lines[max(cut, 0) :] + end + rest
            if len(rest) > _LONGEST_LINE:
                raise _OtherLayoutError("not a reference per line")
    last = rest.rstrip()
    if not last.endswith(b"}"):
        raise _OtherLayoutError("the text ends early")
    last = last[:-1].rstrip()
    if not last.endswith(b"}"):
        raise _OtherLayoutError("the text ends early")
    yield last[:-1]


def _add_lines(gatherer: Gatherer, piece: bytes) -> None:
    lines = piece.strip().removeprefix(b",").removesuffix(b",").strip()
    if not lines or gatherer.add_uniform(lines):
        return
    text = b"{" + lines + b"}"
    try:
        gatherer.add_simple(_simple_lines.decode(text))
    except msgspec.ValidationError:
        gatherer.add(_decoded(text))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _OtherLayoutError(f"not JSON: {error}") from error


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = parse_json(text)  # an object: it has the braces of one
    except MalformedError as error:
        raise _OtherLayoutError("not a reference per line") from error
    return found


def _read_whole(source: ByteSource) -> Contents:
    (data,) = source.read([(0, source.validators.size)])
    top = _top(parse_json(data))
    del data
    gatherer = Gatherer(top.get("templates", {}))
    references = top["refs"]
    gatherer.add_metadata(references)
    gatherer.require_metadata()
    entries = iter(references.items())
    while part := dict(itertools.islice(entries, _SLICE)):
        try:
            gatherer.add_simple(msgspec.convert(part, _Simple))
        except msgspec.ValidationError:
            gatherer.add(part)
    return Contents(*gatherer.finish())


def _top(document: Any) -> dict[str, Any]:
    """Return the outermost object in the form of version 1."""
    if not isinstance(document, dict):
        raise MalformedError(f"not a reference manifest but a JSON {type(document).__name__}")
    if "refs" not in document:
        return {"refs": document}
    if document.get("version", 1) != 1:
        raise UnsupportedError(f"version {reprlib.repr(document['version'])}; 0 and 1 are read", field="version")
    if document.get("gen"):
        raise UnsupportedError("references that have to be computed; have kerchunk write them out", field="gen")
    for name in ("refs", "templates"):
        if not isinstance(document.get(name, {}), dict):
            raise MalformedError(f"no object but {type(document[name]).__name__}", field=name)
    return document
