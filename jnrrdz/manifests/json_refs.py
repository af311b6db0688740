"""References as a JSON manifest spells them, read and gathered to columns.

Follows https://fsspec.github.io/kerchunk/spec.html: `[url]`, `[url, offset, length]`, inline text (plain or
`base64:`); and `[url, [[offset, length], ...]]` for a scattered chunk, the form that osml-imagery-io reads.

A manifest as `json` writes it is read in pieces.  Version 0 and other layouts are read too, as a whole, and so are
references of Zarr v2 and those that are computed (`gen`).

The chunks of one array in one file make up nearly all of a large manifest.  Their lines differ in nothing but
numbers, and are read without an object for any of them: what they have in common is taken away, and what remains
has to be rows of numbers, character by character.

`templates`, which stand in URLs, and `gen`, references that are computed, are Jinja templates there.  What a manifest
says is never given to Jinja: between `{{` and `}}` may stand a name, whole numbers with `+ - * // %`, a text with a
number put in (`'%03d' % i`), or a template called with values (`f(c='x')`).  Everything else is refused, and so is more
than a bounded number of references or bytes.
"""

import ast
import base64
import binascii
import itertools
import json
import math
import operator
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from jnrrdz.core.json_schema import integer, list_of, members, object_of, parse_json, text_or
from jnrrdz.core.limits import LIMITS, Resource
from jnrrdz.core.refs import WHOLE, Ints, References
from jnrrdz.core.zarr2 import is_version_2, version_3
from jnrrdz.core.zarr_json import ZARR_JSON
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.manifests.columns import Columns, Piece
from jnrrdz.manifests.documents import ChunkKeys, Documents, is_metadata
from jnrrdz.sources.ranges import ByteSource

EXPANDED = 256 << 20
"""Bytes of texts that templates may expand to; a manifest of a few KB could ask for any number."""

MOST_GENERATED = LIMITS[Resource.GENERATED_REFERENCES].free
"""References that may be computed."""

LONGEST = 1000
"""Characters of an expression."""

type Value = int | str
type Values = Mapping[str, Any]

_FIELD = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NAME = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_NUMBERED = re.compile(r"[^%]*%(0?[1-9]?[0-9]?)d[^%]*")
"""Python's old way to put a number into a text, up to 99 characters wide."""

_LARGEST = 1 << 63
_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class Templates:
    """What stands for the names of templates in a manifest's texts."""

    def __init__(self, values: Values, overrides: Mapping[str, str] | None = None) -> None:
        self._values = {**values, **(overrides or {})}
        self._longest = max((len(value) for value in self._values.values() if isinstance(value, str)), default=0)
        self._expanded = 0

    def expand(self, text: str, names: Mapping[str, Value] | None = None) -> str:
        """Return a text with what stands between braces replaced; `names` stand before the templates' own."""
        if "{{" not in text:
            return text
        self._expanded += len(text) + text.count("{{") * max(self._longest, 20)
        if self._expanded > EXPANDED:
            raise MalformedError(f"templates that may expand to more than {EXPANDED} bytes", field="templates")
        expanded = _NAME.sub(lambda match: str(self._named(match[1], names or {})), text)
        if "{{" in expanded:
            expanded = _FIELD.sub(lambda match: str(self._computed(match[1], names or {}, text)), expanded)
        if "{{" in expanded:
            raise _refused(text)
        return expanded

    def _named(self, name: str, names: Mapping[str, Value]) -> Value:
        value = names.get(name, self._values.get(name))
        if not isinstance(value, str | int):
            message = f"no template of the name {name!r:.80}; --template NAME=URL (template_overrides=) gives it"
            raise MalformedError(message, field="templates")
        return value

    def _computed(self, expression: str, names: Mapping[str, Value], text: str) -> Value:
        """Return what an expression stands for."""
        try:
            tree = ast.parse(expression[: LONGEST + 1].strip(), mode="eval") if len(expression) <= LONGEST else None
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            tree = None
        if tree is None:
            raise _refused(text)
        return self._value(tree.body, names, text)

    def _value(self, node: ast.expr, names: Mapping[str, Value], text: str) -> Value:
        match node:
            case ast.Constant(value=int() | str() as value) if not isinstance(value, bool):
                return value
            case ast.Name(id=name):
                return self._named(name, names)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -_number(self._value(operand, names, text), text)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return _combined(self._value(left, names, text), op, self._value(right, names, text), text)
            case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
                given = {str(word.arg): self._value(word.value, names, text) for word in keywords}
                body = self._named(name, {})
                # what is called in it are values alone, so that no template leads to itself
                return Templates(given).expand(str(body))
        raise _refused(text)


def _combined(left: Value, op: ast.operator, right: Value, text: str) -> Value:
    """Return what an operator makes of two values."""
    if isinstance(left, str):
        if isinstance(op, ast.Mod) and isinstance(right, int) and _NUMBERED.fullmatch(left):
            return left % right
        raise _refused(text)
    try:
        found = _ARITHMETIC[type(op)](left, _number(right, text))
    except ZeroDivisionError:
        raise MalformedError("a division by zero", field=text[:200]) from None
    return _number(found, text)


def _number(value: Value, text: str) -> int:
    if not isinstance(value, int) or abs(value) >= _LARGEST:
        raise _refused(text)
    return value


def _refused(text: str) -> UnsupportedError:
    message = "a template that is more than names, whole numbers and a call with values"
    return UnsupportedError(message, field=text[:200])


_WHOLE = integer(1 - _LARGEST, _LARGEST - 1)
_SCALAR = text_or(_WHOLE)
_VALUES = list_of(_SCALAR)
_SPAN = members({"stop": _WHOLE}, {"start": _WHOLE, "step": _WHOLE})


def _dimension(value: Any) -> Any:
    """Accept a list of values, or start, stop and step."""
    return _VALUES(value) if isinstance(value, list) else _SPAN(value)


_ENTRY = members(
    {"key": _SCALAR, "url": _SCALAR, "dimensions": object_of(_dimension)},
    {"offset": _SCALAR, "length": _SCALAR},
)
_GENERATED = members({"gen": list_of(_ENTRY)})


def generated(entries: Any, templates: Templates) -> Iterator[tuple[str, list[Any]]]:
    """Yield the references that a manifest's `gen` stands for: each key with its URL, and its range if it has one."""
    _GENERATED({"gen": entries})
    count = 0
    for number, entry in enumerate(entries):
        where = f"gen[{number}]"
        texts = {name: entry[name] for name in ("key", "url", "offset", "length") if name in entry}
        if ("offset" in texts) != ("length" in texts):
            raise MalformedError("both or none of offset and length are needed", field=where)
        axes = _axes(entry["dimensions"], where)
        count += math.prod(map(len, axes.values()))
        if count > MOST_GENERATED:
            raise UnsupportedError(f"more than {MOST_GENERATED} references to compute", field=where)
        for values in itertools.product(*axes.values()):
            names = dict(zip(axes, values, strict=True))
            made = {name: templates.expand(str(text), names) for name, text in texts.items()}
            place = [_whole(made[name], f"{where}.{name}") for name in ("offset", "length") if name in made]
            yield made["key"], [made["url"], *place]


def _axes(dimensions: Mapping[str, Any], where: str) -> dict[str, Sequence[Value]]:
    """Return the values that each name of a generated reference takes."""
    axes: dict[str, Sequence[Value]] = {}
    for name, entry in dimensions.items():
        if isinstance(entry, list):
            axes[name] = entry
            continue
        start, step = entry.get("start", 0), entry.get("step", 1)
        if step == 0:
            raise MalformedError("a step of 0", field=f"{where}.dimensions.{name}")
        axes[name] = range(start, entry["stop"], step)
        if len(axes[name]) > MOST_GENERATED:
            raise UnsupportedError(f"more than {MOST_GENERATED} references to compute", field=where)
    if not axes:
        raise MalformedError("no dimensions", field=where)
    return axes


def _whole(text: str, where: str) -> int:
    if not re.fullmatch(r"\s*[0-9]{1,19}\s*", text, re.ASCII):
        raise MalformedError(f"{text!r:.80} is no whole number", field=where)
    return int(text)


LIMIT = 2**62 - 1
"""The largest offset or length; the sum of two is an int64."""

_LINE = re.compile(rb'"([^"\\\x00-\x1f]+)":\["([^"\\\x00-\x1f]+)",[0-9]+,[0-9]+\],?')
_DIGITS = b"0123456789"
_COMMAS = bytes.maketrans(b"/.;\n", b",,,,")


class Line(NamedTuple):
    """A line `"key":["url",offset,length]`, as far as it is the same in others."""

    key: str
    url: str
    middle: bytes
    """From the key's last quote to the comma before the offset."""


class Rows(NamedTuple):
    """The numbers of some lines."""

    chunks: Ints
    offset: Ints
    length: Ints


def first_line(text: bytes) -> Line | None:
    """Return the first line, None where it is of another form."""
    found = _LINE.fullmatch(text.partition(b"\n")[0])
    if found is None:
        return None
    try:
        key, url = found[1].decode(), found[2].decode()
    except UnicodeDecodeError:
        return None
    return Line(key, url, b'":["' + found[2] + b'",')


def read_rows(text: bytes, line: Line, keys: ChunkKeys, limit: int) -> Rows | None:
    """Return the numbers of lines like the first one; None where any is of another form or above `limit`."""
    opening = b'"' + keys.prefix.encode()
    if not keys.grid or not text.startswith(opening) or not text.endswith(b"]"):
        return None
    rest, count = _replaced(text[len(opening) : -1], line.middle, b";")
    rest, joints = _replaced(rest, b"],\n" + opening, b"\n")
    # a mark for each replacement, and none that was there before
    marks = (keys.separator * (len(keys.grid) - 1) + ";,\n").encode() * count
    if joints != count - 1 or rest.translate(None, _DIGITS) + b"\n" != marks:
        return None
    table = _table(rest.translate(_COMMAS), (count, len(keys.grid) + 2))
    if table is None or table[:, -2:].max() > limit:
        return None
    chunks = keys.numbers_at(table[:, :-2])
    return None if chunks is None else Rows(chunks, table[:, -2].copy(), table[:, -1].copy())


def _replaced(text: bytes, old: bytes, new: bytes) -> tuple[bytes, int]:
    """Return the text with replacements, and how many there were."""
    result = text.replace(old, new)
    return result, (len(text) - len(result)) // (len(old) - len(new))


def _table(text: bytes, shape: tuple[int, int]) -> Ints | None:
    """Return a table of decimal numbers with commas between; None where one is missing or begins with zeros."""
    padded = b"," + text + b","
    if b",," in padded:
        return None
    found = np.fromstring(text, np.int64, sep=",").reshape(shape)  # a number too large becomes the largest
    leading = padded.count(b",0")
    if leading and (leading != np.count_nonzero(found == 0) or b",00" in padded):
        return None
    return found


type _Range = tuple[int, int]
type _Place = Annotated[int, msgspec.Meta(ge=0, le=LIMIT)]
type _Simple = dict[str, tuple[str, _Place, _Place]]

_simple_lines = msgspec.json.Decoder(_Simple)


class OtherLayoutError(MalformedError):
    """The text is not one reference per line."""


class UnknownArrayError(MalformedError):
    """A reference is in no array, or its array's document comes after it."""


@dataclass
class _ReferenceRows:
    """References of one array, still as lists."""

    keys: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    source: list[int] = field(default_factory=list)
    ranges: list[_Range] = field(default_factory=list)


@dataclass
class Gatherer:
    """Documents and columns, filled piece by piece; an array's document comes before its chunks."""

    templates: Templates
    is_whole: bool = False
    """Whether all documents are taken before the references."""
    is_version_2: bool = False
    """Whether the documents were Zarr v2's."""
    left_out: frozenset[str] = frozenset()
    """Paths of arrays of Zarr v2 that version 3 cannot say; their references are nobody's."""
    documents: Documents = field(default_factory=Documents)
    columns: dict[str, Columns] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    """The number of each URL, templates expanded."""
    spelt: dict[str, int] = field(default_factory=dict)
    """The number of each URL as it is spelt."""

    def add_lines(self, lines: bytes) -> None:
        """Take references and documents, one on each line, with commas between them."""
        lines = lines.strip().removeprefix(b",").removesuffix(b",").strip()
        if not lines or self._add_uniform(lines):
            return
        text = b"{" + lines + b"}"
        try:
            self._add_simple(_simple_lines.decode(text))
        except msgspec.ValidationError:
            try:
                items = parse_json(text, is_document=False)  # an object: it has the braces of one
            except MalformedError as error:
                raise OtherLayoutError("not a reference per line") from error
            self._add_any(items)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise OtherLayoutError(f"not JSON: {error}") from error

    def add(self, items: dict[str, Any]) -> None:
        """Take references and documents, parsed."""
        try:
            self._add_simple(msgspec.convert(items, _Simple))
        except msgspec.ValidationError:
            self._add_any(items)

    def add_metadata(self, items: Mapping[str, Any]) -> None:
        """Take the metadata documents only."""
        texts = {}
        for key in list(filter(is_metadata, items)):
            if self.is_version_2 and is_version_2(key):
                continue
            text = inline_bytes(items[key], key)
            if text is None:
                raise UnsupportedError("metadata by reference; only inline metadata is read", field=key)
            texts[key] = text
        if texts and all(map(is_version_2, texts)) and ZARR_JSON not in self.documents:
            if not self.is_whole:
                raise OtherLayoutError("Zarr v2's documents, of which those of one array may stand apart")
            translated = version_3(texts)
            texts, self.left_out, self.is_version_2 = translated.documents, translated.left_out, True
            self.documents.foreign |= translated.foreign
        self.columns |= {path: Columns(keys) for path, keys in self.documents.add(texts).items()}

    def _add_uniform(self, lines: bytes) -> bool:
        """Take lines that differ in nothing but numbers; return whether they were such."""
        line = first_line(lines)
        path = None if line is None else self._path(line.key)
        if line is None or path is None:
            return False
        columns = self.columns[path]
        rows = read_rows(lines, line, columns.keys, LIMIT)
        if rows is None:
            return False
        source = np.broadcast_to(np.int32(self._numbers([line.url])[0]), len(rows.chunks))
        columns.pieces.append(Piece(rows.chunks, source, rows.offset, rows.length))
        return True

    def _add_simple(self, items: Mapping[str, tuple[str, int, int]]) -> None:
        """Take references of one range each, whose types and signs are checked."""
        if not items:
            return
        keys, (urls, offsets, lengths) = list(items), zip(*items.values(), strict=True)
        source = np.array(self._numbers(urls), np.int32)
        offset, length = np.array(offsets, np.int64), np.array(lengths, np.int64)
        whole = self.columns[self._array_path(keys[0])]
        chunks = whole.keys.numbers_of_all(keys)
        if chunks is not None:
            whole.pieces.append(Piece(chunks, source, offset, length))
            return
        stop = 0
        for path, run in groupby(map(self._array_path, keys)):  # the stretches of keys that belong to one array
            part = slice(stop, stop := stop + sum(1 for _ in run))
            columns = self.columns[path]
            columns.pieces.append(Piece(columns.keys.numbers(keys[part]), source[part], offset[part], length[part]))

    def _add_any(self, items: Mapping[str, Any]) -> None:
        """Take references and documents of any form."""
        self.add_metadata(items)
        rows: dict[str, _ReferenceRows] = {}
        for key in [key for key in items if not is_metadata(key)]:
            self._add_one(key, items[key], rows)
        for path, gathered in rows.items():
            columns = self.columns[path]
            place = np.array(gathered.ranges, np.int64).reshape(-1, 2)
            source = np.array(gathered.source, np.int32)
            counts = np.array(gathered.counts, np.int64) if set(gathered.counts) != {1} else None
            chunks = columns.keys.numbers(gathered.keys)
            columns.pieces.append(Piece(chunks, source, place[:, 0].copy(), place[:, 1].copy(), counts))

    def _add_one(self, key: str, value: Any, rows: dict[str, _ReferenceRows]) -> None:
        data = inline_bytes(value, key)
        if data is None:
            gathered = rows.setdefault(self._array_path(key), _ReferenceRows())
            url, ranges = _ranges(value, key)
            gathered.keys.append(key)
            gathered.counts.append(len(ranges))
            gathered.source.extend(self._numbers([url]) * len(ranges))
            gathered.ranges.extend(ranges)
            return
        path = self._path(key)
        if path is None:
            self.documents[key] = data
        else:
            columns = self.columns[path]
            columns.add_inline(columns.keys.strict_number(key), data)

    def _path(self, key: str) -> str | None:
        """Return the path of the array that a key is inside, None where it is in none."""
        end = 0 if "" in self.columns else key.find("/")
        while end >= 0:
            if key[:end] in self.columns:
                return key[:end]
            end = key.find("/", end + 1)
        return None

    def _array_path(self, key: str) -> str:
        path = self._path(key)
        if path is None:
            raise UnknownArrayError("a reference that is in no array of the manifest", field=key)
        return path

    def _numbers(self, urls: Sequence[str]) -> list[int]:
        """Return the numbers of sources."""
        different = set(urls)
        for url in different.difference(self.spelt):
            self.spelt[url] = self.sources.setdefault(self.templates.expand(url), len(self.sources))
        return [self.spelt[url] for url in urls] if len(different) > 1 else [self.spelt[urls[0]]] * len(urls)

    def finish(self, versions: Any) -> tuple[Documents, dict[str, References]]:
        """Return the documents, and each array's references by its path, with the versions of their objects."""
        self.documents.require_v3()
        sources = tuple(self.sources)
        if not isinstance(versions, dict):
            raise MalformedError(f"no object but {type(versions).__name__}", field="object_versions")
        refs = {path: columns.build(sources) for path, columns in self.columns.items()}
        for path, texts in versions.items():
            if path not in refs:
                raise MalformedError("versions of an array that is not there", field=f"object_versions, {path:.200}")
            refs[path] = refs[path].with_chunk_versions(_versions(texts, path))
        return self.documents, {**refs}


def _versions(texts: Any, path: str) -> Ints:
    """Return the numbers of 64 bits that some texts hold in base64."""
    try:
        data = b"".join([base64.b64decode(text, validate=True) for text in texts])
        return np.frombuffer(data, "<i8").astype(np.int64, copy=False)
    except (TypeError, ValueError) as error:
        raise MalformedError(f"no versions: {error}", field=f"object_versions, {path}") from error


def inline_bytes(value: Any, key: str) -> bytes | None:
    """Return the bytes that stand in the manifest itself, None for a reference."""
    if not isinstance(value, str | dict):
        return None
    try:
        if isinstance(value, dict):
            return json.dumps(value).encode()
        data = value.encode()
        return base64.b64decode(data[7:], validate=True) if data.startswith(b"base64:") else data
    except (binascii.Error, UnicodeEncodeError, RecursionError) as error:
        raise MalformedError(f"inline bytes that cannot be decoded: {error}", field=key) from error


def _ranges(value: Any, key: str) -> tuple[str, list[_Range]]:
    """Return the URL and the ranges of a reference."""
    match value:
        case [str(url)]:
            return url, [(0, WHOLE)]
        case [str(url), offset, length] if _is_place(offset) and _is_place(length):
            return url, [(offset, length)]
        case [str(url), [_, *_] as pairs] if all(map(_is_pair, pairs)):
            return url, [(offset, length) for offset, length in pairs]
    raise MalformedError(
        f"{reprlib.repr(value)} is no reference; [url], [url, offset, length] and [url, [[offset, length], ...]] are",
        field=key,
    )


def _is_place(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LIMIT


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == len(("offset", "length")) and all(map(_is_place, value))


# The text, in pieces or whole

_PIECE = 1 << 19  # bytes decoded at once: the Python objects of one piece take some 5 MB
_FIRST_PIECE = 1 << 16  # the one that holds the documents is read reference by reference
_AT_ONCE = 8  # pieces fetched together, for the sake of remote manifests
_HEADER = 1 << 20  # bytes within which the first line has to end
_LONGEST_LINE = 32 << 20  # bytes; gathering a longer one from pieces would cost the square of its length
_SLICE = 50_000  # references of a manifest held whole that are turned to columns at once

_BESIDE = b'\n},"object_versions":{'

type Contents = tuple[Documents, dict[str, References]]
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
    top = _top(parse_json(data, is_document=False))
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
