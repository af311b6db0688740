"""A JSON manifest as columns.

May touch read.columns, read.documents, read.references, a `ByteSource` and errors.  Follows
https://fsspec.github.io/kerchunk/spec.html, versions 0 and 1, with Zarr v3 keys; `gen` is refused.
A manifest as jnrrdz writes it has one reference per line, so it is cut at line ends and never held
whole; any other layout is.
"""

import itertools
import reprlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.manifests.columns import ColumnarRefs
from jnrrdz.manifests.documents import parse_json
from jnrrdz.manifests.references import LIMIT, Gatherer, UnknownArrayError
from jnrrdz.sources.base import ByteSource

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
