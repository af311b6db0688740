"""Messages between a process and the workers that run parsers of other libraries.

A message is a JSON document and bytes: `{"read": 0, "spans": [[0, 512]]}` without
bytes, `{"lengths": [512]}` with 512.  Neither side reads more than the frame declares,
and nothing is unpickled.  A virtual group is a tree of documents, as zarr.json has
them; its references are columns in the bytes, in the order of the documents.
"""

import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codec_table import find
from jnrrdz.core.json_schema import parse_json, validate
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.core.zarr_json import (
    NODE,
    array_from_json,
    array_json,
    axis_names,
    dumps,
    json_value,
    scanned_attributes,
)
from jnrrdz.errors import (
    JnrrdzError,
    MalformedError,
    NoImageError,
    UnrepresentableError,
    UnsupportedError,
)
from jnrrdz.records import record

_FRAME = struct.Struct("<IQ")
"""The lengths of a message's document and of its bytes."""

MOST_DOCUMENT = 1 << 28
MOST_BYTES = 1 << 30
"""Bytes of a message: the columns of 35 million chunks."""

DEEPEST = 80
"""Groups in groups; scanners refuse files of more than 64."""

COLUMNS = {"indptr": "<i8", "source": "<i4", "offset": "<i8", "length": "<i8"}
"""The columns of an array's references, in the order of their bytes."""

ERRORS: Mapping[str, type[JnrrdzError]] = {
    each.__name__: each
    for each in (
        JnrrdzError,
        MalformedError,
        NoImageError,
        UnrepresentableError,
        UnsupportedError,
    )
}
"""Errors that a parser may end with; others arrive as `JnrrdzError`."""

FIELD = "answer of the worker"

type Document = Mapping[str, Any]
type Check = Callable[[], None]
"""Raises to stop waiting."""

TOGETHER = 1 << 16
"""Bytes of a message that are received at once."""


# Frames


def no_limit() -> None:
    """Wait for the other side as long as it takes."""


class Channel:
    """One end of a connection; each side sends a message when the other one waits."""

    def __init__(self, end: socket.socket, look: float | None) -> None:
        """Take an end of a connection; `look` are the seconds between two checks."""
        self._socket = end
        self._socket.settimeout(look)

    def send(
        self,
        document: Document,
        data: bytes,
        check: Check,
        descriptors: Sequence[int] = (),
    ) -> None:
        """Send a message, with open files."""
        text = dumps(document).encode()
        frame = _FRAME.pack(len(text), len(data))
        for part in (frame + text, data):
            rest = memoryview(part)
            while rest:
                try:
                    count = socket.send_fds(self._socket, [rest], descriptors)
                except TimeoutError:
                    check()
                    continue
                rest = rest[count:]
                descriptors = ()

    def receive(self, check: Check) -> tuple[dict[str, Any], bytes]:
        """Return the next message; EOFError where the other side has ended."""
        return self._message(self._received(check), check)

    def receive_files(self) -> tuple[dict[str, Any], bytes, list[int]]:
        """Return the next message and the descriptors that came with it."""
        start, descriptors, _, _ = socket.recv_fds(self._socket, TOGETHER, 1)
        return *self._message(start, no_limit), descriptors

    def _message(self, start: bytes, check: Check) -> tuple[dict[str, Any], bytes]:
        """Return the message that begins with some bytes."""
        start += self._exactly(_FRAME.size - len(start), check)
        text_length, data_length = _FRAME.unpack_from(start)
        if text_length > MOST_DOCUMENT or data_length > MOST_BYTES:
            text = f"{text_length + data_length} bytes, too large to read"
            raise MalformedError(text, field=FIELD)
        text_stop = _FRAME.size + text_length
        start += self._exactly(text_stop - len(start), check)
        document = parse_json(start[_FRAME.size : text_stop], field=FIELD)
        if not isinstance(document, dict):
            raise MalformedError("not a JSON object", field=FIELD)
        data = start[text_stop:]
        if len(data) > data_length:
            raise MalformedError("bytes behind the message", field=FIELD)
        rest = self._exactly(data_length - len(data), check)
        return document, data + rest if rest else data

    def _received(self, check: Check) -> bytes:
        """Return the bytes that come next."""
        while True:
            try:
                data = self._socket.recv(TOGETHER)
            except TimeoutError:
                check()
                continue
            if not data:
                raise EOFError
            return data

    def _exactly(self, count: int, check: Check) -> bytes:
        data = bytearray(max(count, 0))
        rest = memoryview(data)
        while rest:
            try:
                received = self._socket.recv_into(rest)
            except TimeoutError:
                check()
                continue
            if not received:
                raise EOFError
            rest = rest[received:]
        return bytes(data)

    def close(self) -> None:
        """Close this end; the other side reads the end of the stream."""
        self._socket.close()


# Errors


def error_json(error: JnrrdzError) -> dict[str, Any]:
    """Return an error with its place."""
    return {
        "type": type(error).__name__,
        "message": error.message,
        "url": error.url,
        "offset": error.offset,
        "field": error.field,
    }


def error_from_json(value: Any) -> JnrrdzError:
    """Return the error that a worker describes."""
    members = _object(value, "error")
    kind = ERRORS.get(_text(members.get("type"), "error.type"), JnrrdzError)
    place: dict[str, Any] = {}
    for name in ("url", "field"):
        if members.get(name) is not None:
            place[name] = _text(members[name], f"error.{name}")
    if members.get("offset") is not None:
        place["offset"] = _integer(members["offset"], "error.offset")
    return kind(_text(members.get("message"), "error.message"), **place)


# Trees


def tree_message(root: VirtualGroup) -> tuple[dict[str, Any], bytes]:
    """Return a virtual group as a document, and the bytes of its references."""
    parts: list[bytes] = []
    document = _group_json(root, parts)
    return document, b"".join(parts)


def _group_json(group: VirtualGroup, parts: list[bytes]) -> dict[str, Any]:
    children: dict[str, Any] = {}
    for name, child in group.children.items():
        if isinstance(child, VirtualGroup):
            children[name] = _group_json(child, parts)
        else:
            children[name] = _array_json(child, parts)
    return {"attributes": json_value(group.attributes), "children": children}


def _array_json(array: VirtualArray, parts: list[bytes]) -> dict[str, Any]:
    refs = array.refs.columns()
    for name, dtype in COLUMNS.items():
        parts.append(np.asarray(getattr(refs, name), dtype).tobytes())
    inline = [[chunk, len(data)] for chunk, data in refs.inline.items()]
    parts.extend(refs.inline.values())
    return {
        "array": array_json(array),
        "sources": list(refs.sources),
        "ranges": len(refs.source),
        "chunks": refs.chunks,
        "inline": inline,
    }


@record
class _Columns:
    """The bytes of all references of a message, handed out in their order."""

    parts: Iterator[bytes]

    @classmethod
    def of(cls, data: bytes, sizes: Sequence[int]) -> "_Columns":
        if sum(sizes) != len(data):
            text = f"{len(data)} bytes of references, {sum(sizes)} are declared"
            raise MalformedError(text, field=FIELD)
        stops = accumulate(sizes, initial=0)
        return cls(iter([data[start:stop] for start, stop in pairwise(stops)]))


def group_from_message(document: Any, data: bytes, sources: frozenset[str]) -> VirtualGroup:
    """Return the checked virtual group of a message.

    `sources` are the URLs that references may name.
    """
    root = _object(document, "tree")
    columns = _Columns.of(data, _sizes(root, 0))
    return _group(root, "", columns, sources)


def _sizes(node: Document, depth: int) -> list[int]:
    """Return the lengths of the columns and inline chunks of a tree, in their order."""
    if depth > DEEPEST:
        raise MalformedError(f"groups more than {DEEPEST} deep", field=FIELD)
    if "array" in node:
        ranges = _integer(node.get("ranges"), "ranges")
        chunks = _integer(node.get("chunks"), "chunks")
        counts = {"indptr": chunks + 1}
        sizes = [counts.get(name, ranges) * np.dtype(dtype).itemsize for name, dtype in COLUMNS.items()]
        return sizes + [length for _, length in _inline(node)]
    sizes = []
    for name, child in _object(node.get("children"), "children").items():
        sizes += _sizes(_object(child, name), depth + 1)
    return sizes


def _inline(node: Document) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for pair in _list(node.get("inline"), "inline"):
        chunk, length = _list(pair, "inline", 2)
        pairs.append((_integer(chunk, "inline"), _integer(length, "inline")))
    return pairs


def _group(node: Document, path: str, columns: _Columns, sources: frozenset[str]) -> VirtualGroup:
    children: dict[str, Node] = {}
    for name, child in node["children"].items():
        inner = f"{path}/{name}".lstrip("/")
        if "array" in child:
            children[name] = _array(child, inner, columns, sources)
        else:
            children[name] = _group(child, inner, columns, sources)
    return VirtualGroup(children, _object(node.get("attributes"), "attributes"))


def _array(node: Document, path: str, columns: _Columns, sources: frozenset[str]) -> VirtualArray:
    place = f"{FIELD}: {path}"
    document = validate(node["array"], NODE, place)
    if document["node_type"] != "array":
        raise MalformedError("a group where an array is needed", field=place)
    try:
        facts = array_from_json(document)
        codecs = {each.name for each in facts.codecs}
        unlisted = sorted(name for name in codecs if find(name) is None)
        if unlisted:
            raise MalformedError(f"codec {', '.join(unlisted)}", field="codecs")
        names = [_text(name, "dimension_names") for name in axis_names(document)]
        return VirtualArray(
            facts.shape,
            facts.dtype,
            facts.chunks,
            facts.codecs,
            _refs(node, columns, sources),
            tuple(names),
            facts.fill_value,
            scanned_attributes(facts.attributes, facts.dtype),
        )
    except JnrrdzError as error:
        if error.field:
            place = f"{place}: {error.field}"
        raise MalformedError(error.message, field=place) from error


def _refs(node: Document, columns: _Columns, sources: frozenset[str]) -> ChunkRefs:
    urls = [_text(url, "sources") for url in _list(node.get("sources"), "sources")]
    others = set(urls) - sources
    if others:
        raise MalformedError("a reference into another file", field="sources")
    indptr, source, offset, length = (np.frombuffer(next(columns.parts), kind) for kind in COLUMNS.values())
    inline = {chunk: next(columns.parts) for chunk, _ in _inline(node)}
    refs = ChunkRefs(tuple(urls), indptr, source, offset, length, inline)
    if inline and max(inline) >= refs.chunks:
        raise MalformedError("inline bytes of a chunk beyond the grid", field="inline")
    return refs


# Members


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedError(f"{name} is no object", field=FIELD)
    return value


def _list(value: Any, name: str, count: int | None = None) -> list[Any]:
    if not isinstance(value, list) or (count is not None and len(value) != count):
        raise MalformedError(f"{name} is no list of its length", field=FIELD)
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise MalformedError(f"{name} is no text", field=FIELD)
    return value


def _integer(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise MalformedError(f"{name} is no number of a count or place", field=FIELD)
    return value


def spans_from_json(value: Any) -> list[tuple[int, int]]:
    """Return the spans that a worker asks for."""
    spans: list[tuple[int, int]] = []
    for pair in _list(value, "spans"):
        start, stop = _list(pair, "spans", 2)
        spans.append((_integer(start, "spans"), _integer(stop, "spans")))
    return spans


def reader_number(value: Any, count: int) -> int:
    """Return the number of one of the readers that a worker may use."""
    number = _integer(value, "read")
    if number >= count:
        raise MalformedError(f"reader {number} of {count}", field=FIELD)
    return number


def url_from_json(value: Any) -> str:
    """Return the URL of a neighbour that a worker asks for."""
    return _text(value, "open")


def warnings_from_json(value: Any) -> list[str]:
    """Return the texts of warnings."""
    return [_text(text, "warnings") for text in _list(value, "warnings")]
