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
"""

from collections.abc import Buffer, Iterator, Mapping
from functools import lru_cache
from itertools import product
from json import dumps as quoted
from typing import Any, BinaryIO

from jnrrdz.core.array import VirtualArray, VirtualGroup
from jnrrdz.core.refs import WHOLE
from jnrrdz.core.zarr_json import MEMBERS_END, ZARR_JSON, below, dumps, nodes_json
from jnrrdz.manifests.atomic import new_file
from jnrrdz.manifests.place import relocate, shareable
from jnrrdz.manifests.spans import MISSING, Spans, spans

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
    # imported here: Arrow takes longer than many a small manifest
    from jnrrdz.manifests.kerchunk_blocks import lines  # noqa: PLC0415

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
