"""Lines of references that differ in nothing but numbers, as columns.

May touch numpy and read.keys.  The chunks of one array in one file make up nearly
all of a large manifest.  Such lines are read without an object for any of them: what they have in
common is taken away, and what remains has to be rows of numbers, character by character.

References as a JSON manifest spells them, gathered to columns.

May touch numpy, read.columns, read.documents and errors.  Follows
https://fsspec.github.io/kerchunk/spec.html: `[url]`, `[url, offset, length]`, inline text (plain or
`base64:`), templates by plain substitution; and `[url, [[offset, length], ...]]` for a scattered
chunk, the form that osml-imagery-io reads.  Nothing that a manifest says is evaluated.

The URLs of a container's blocks as columns, where a manifest spells each of them.

May touch numpy, the model, read.keys and the file system.  A million URLs below one tree that differ in indices only
are one folder and a row of numbers each; which of them may be reached is then told for the folder.  Links between
the blocks would lead elsewhere, so where there is one, each file is looked at by itself.
"""

import base64
import binascii
import json
import os
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import batched, groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.refs import WHOLE, GridFiles
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.manifests.columns import ColumnarRefs, Columns, Ints, Piece
from jnrrdz.manifests.documents import array_keys, is_metadata, refuse_without_v3
from jnrrdz.manifests.keys import ChunkKeys, read_indices
from jnrrdz.sources.url import local_path

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


LIMIT = 2**62 - 1
"""The largest offset or length; the sum of two is an int64."""

_EXPANDED = 256 << 20  # bytes of URLs that templates may expand to; a manifest of a few KB could ask for any number
_TEMPLATE = re.compile(r"\{\{\s*(\w+)\s*\}\}")

type _Range = tuple[int, int]


class UnknownArrayError(MalformedError):
    """A reference is in no array, or its array's document comes after it."""


@dataclass
class _Rows:
    """References of one array, still as lists."""

    keys: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    source: list[int] = field(default_factory=list)
    ranges: list[_Range] = field(default_factory=list)


@dataclass
class Gatherer:
    """Documents and columns, filled piece by piece; an array's document comes before its chunks."""

    templates: Mapping[str, Any]
    documents: dict[str, bytes] = field(default_factory=dict)
    columns: dict[str, Columns] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    """The number of each URL, templates expanded."""
    spelt: dict[str, int] = field(default_factory=dict)
    """The number of each URL as it is spelt."""
    expanded: int = 0

    def add_simple(self, items: Mapping[str, tuple[str, int, int]]) -> None:
        """Take references of one range each, whose types and signs are checked."""
        if not items:
            return
        keys, (urls, offsets, lengths) = list(items), zip(*items.values(), strict=True)
        source = np.array(self._numbers(urls), np.int32)
        offset, length = np.array(offsets, np.int64), np.array(lengths, np.int64)
        whole = self._columns(keys[0])
        chunks = whole.keys.numbers_of_all(keys)
        if chunks is not None:
            whole.add(Piece(chunks, source, offset, length))
            return
        for columns, start, stop in self._runs(keys):
            chunks = columns.keys.numbers(keys[start:stop])
            columns.add(Piece(chunks, source[start:stop], offset[start:stop], length[start:stop]))

    def add_uniform(self, lines: bytes) -> bool:
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
        columns.add(Piece(rows.chunks, source, rows.offset, rows.length))
        return True

    def _runs(self, keys: Sequence[str]) -> Iterator[tuple[Columns, int, int]]:
        """Yield the stretches of keys that belong to one array."""
        at = 0
        for path, run in groupby(map(self._required_path, keys)):
            start, at = at, at + sum(1 for _ in run)
            yield self.columns[path], start, at

    def add(self, items: Mapping[str, Any]) -> None:
        """Take references and documents of any form."""
        self.add_metadata(items)
        rows: dict[str, _Rows] = {}
        for key, value in items.items():
            if not is_metadata(key):
                self._add_one(key, value, rows)
        for path, found in rows.items():
            columns = self.columns[path]
            place = np.array(found.ranges, np.int64).reshape(-1, 2)
            source = np.array(found.source, np.int32)
            counts = np.array(found.counts, np.int64) if set(found.counts) != {1} else None
            chunks = columns.keys.numbers(found.keys)
            columns.add(Piece(chunks, source, place[:, 0].copy(), place[:, 1].copy(), counts))

    def add_metadata(self, items: Mapping[str, Any]) -> None:
        """Take the metadata documents only."""
        for key in filter(is_metadata, items):
            data = inline_bytes(items[key], key)
            if data is None:
                raise UnsupportedError("metadata by reference; only inline metadata is read", field=key)
            if self.documents.get(key) == data:
                continue
            self.documents[key] = data
            array = array_keys(key, data)
            if array is not None:
                self.columns[array[0]] = Columns(array[1])

    def require_metadata(self) -> None:
        """Refuse what has no Zarr v3 metadata, before its references are looked at."""
        refuse_without_v3(self.documents)

    def _add_one(self, key: str, value: Any, rows: dict[str, _Rows]) -> None:
        path, data = self._path(key), inline_bytes(value, key)
        if data is not None and path is None:
            self.documents[key] = data
        elif data is not None:
            columns = self._columns(key)
            columns.add_inline(columns.keys.strict_number(key), data)
        else:
            found = rows.setdefault(self._required_path(key), _Rows())
            url, ranges = _ranges(value, key)
            found.keys.append(key)
            found.counts.append(len(ranges))
            found.source.extend(self._numbers([url]) * len(ranges))
            found.ranges.extend(ranges)

    def _path(self, key: str) -> str | None:
        """Return the path of the array that a key is inside, None where it is in none."""
        end = 0 if "" in self.columns else key.find("/")
        while end >= 0:
            if key[:end] in self.columns:
                return key[:end]
            end = key.find("/", end + 1)
        return None

    def _required_path(self, key: str) -> str:
        path = self._path(key)
        if path is None:
            raise UnknownArrayError("a reference that is in no array of the manifest", field=key)
        return path

    def _columns(self, key: str) -> Columns:
        return self.columns[self._required_path(key)]

    def _numbers(self, urls: Sequence[str]) -> list[int]:
        """Return the numbers of sources."""
        different = set(urls)
        for url in different.difference(self.spelt):
            self.spelt[url] = self.sources.setdefault(self._expand(url), len(self.sources))
        return [self.spelt[url] for url in urls] if len(different) > 1 else [self.spelt[urls[0]]] * len(urls)

    def _expand(self, url: str) -> str:
        if "{{" not in url:
            return url
        longest = max((len(value) for value in self.templates.values() if isinstance(value, str)), default=0)
        self.expanded += len(url) + url.count("{{") * longest
        if self.expanded > _EXPANDED:
            raise MalformedError(f"templates that may expand to more than {_EXPANDED} bytes", field="templates")
        found = _TEMPLATE.sub(self._template, url)
        if "{{" in found:
            raise UnsupportedError("a template that is more than a name; only names are replaced", field=url[:200])
        return found

    def _template(self, match: re.Match[str]) -> str:
        value = self.templates.get(match[1])
        if not isinstance(value, str):
            raise MalformedError(f"no template of the name {match[1]!r:.80}", field="templates")
        return value

    def finish(self) -> tuple[dict[str, bytes], dict[str, ColumnarRefs]]:
        """Return the documents, and each array's references by its path."""
        self.require_metadata()
        sources = tuple(self.sources)
        return self.documents, {path: columns.build(sources) for path, columns in self.columns.items()}


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


_MOST = np.iinfo(np.int32).max
_TOGETHER = 1 << 16


def common_folder(urls: Sequence[str]) -> str:
    """Return what all URLs begin with, up to a slash."""
    first, last = min(urls), max(urls)
    return os.path.commonprefix([first, last]).rpartition("/")[0] + "/"  # noqa: RUF071  cut at a slash behind it


def indices(urls: Sequence[str], folder: str) -> NDArray[np.int32] | None:
    """Return a row of indices for each URL below a folder; None where anything else stands there."""
    axes, rows = urls[0].count("/", len(folder)) + 1, []
    for some in batched(urls, _TOGETHER):
        text = "\n".join(("", *(url[len(folder) :] for url in some), ""))
        found = read_indices(text.encode(), len(some), axes, b"/")
        if found is None or (found > _MOST).any():
            return None
        rows.append(found.astype(np.int32))
    return np.concatenate(rows)


def tree_files(tree: str, folder: str, index: NDArray[np.int32]) -> GridFiles | None:
    """Return the files of a folder in a tree, both where they really are; None where there are links among them."""
    if not folder.startswith(tree) or not _is_plain(folder, index):
        return None
    return GridFiles(tree, (folder,), np.column_stack((np.zeros(len(index), np.int32), index)))


def _is_plain(folder: str, index: NDArray[np.int32]) -> bool:
    """Whether no local file or directory in a folder is a link."""
    place = local_path(folder)
    if place is None:
        return True
    place = place.rstrip("/")
    if os.path.realpath(place) != place:
        return False
    known = {
        row[:depth] for row in map(tuple, np.unique(index[:, :-1], axis=0).tolist()) for depth in range(len(row) + 1)
    }
    return not any(_has_links("/".join([place, *map(str, row)])) for row in known)


def _has_links(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_symlink() for entry in entries)
    except OSError:  # what is not there is no link, and is told when it is read
        return False
