"""The header of a JNRRD: its lines, the document that they make, and its core keys as a `Header`.

A line is one JSON object of one key, and ends with LF or CRLF; a blank line ends the header and is skipped; a line
that is no JSON object is the first bytes of the data.  White space around a line is nothing:
https://github.com/mhalle/jnrrd/blob/main/spec/JNRRD-SPECIFICATION.md (2.3).  Prefixes are resolved by their URIs:
`p:a.b[1].c` is the same as `{"p:a": {"b": [.., {"c": ..}]}}`, the more specific path wins whatever the order, and
an index one past the end appends.  Rules in docs/formats/jnrrd.md.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nrrd.header import (
    LARGEST,
    MOST_FILES,
    Axes,
    DataFiles,
    Header,
    Read,
    checked_encoding,
    checked_endian,
    checked_sizes,
    checked_skip,
    numbered_names,
)

DEEPEST = 32
"""Levels of lists and objects in one value; the extension needs four."""

VERSIONS = ("0004",)
_OPENING = re.compile(rb"[ \t]*\{[ \t]*[\"}]")
_BLANK = re.compile(rb"[ \t]*\r?\n")
_KEY = re.compile(rb'[ \t]*\{[ \t]*"([^"\\]{1,80})"')
_BEGUN = re.compile(rb'[ \t]*\{[ \t]*"(?:[^"\\]{1,80}"[ \t]*:|[ -~]*\r?\n?\Z)')
"""How a header line begins that is cut: a key and its colon, or text alone.  Data that begin so are rare."""

_BLOCK = 1 << 15
_LONGEST_OPENING = 64


@dataclass(frozen=True)
class Lines:
    """What the lines say, in their order, and the first byte behind the header."""

    items: tuple[tuple[str, Any], ...]
    data_start: int


def read_lines(read: Read) -> Lines:
    """Return the lines of the header at the start of a file."""
    buffer, at = _Buffer(read), 0
    items: list[tuple[str, Any]] = []
    while (line := buffer.line(at)) is not None:
        if _BLANK.fullmatch(line):
            at += len(line)
            break
        item = _item(line, at)
        if item is None:
            break
        items.append(item)
        at += len(line)
    if not items or items[0][0] != "jnrrd":
        raise MalformedError('the first line is not {"jnrrd": "0004"}', offset=0, field="jnrrd")
    if items[0][1] not in VERSIONS:
        raise MalformedError(f"version {items[0][1]!r}; {', '.join(VERSIONS)} is read", offset=0, field="jnrrd")
    return Lines(tuple(items), at)


class _Buffer:
    """The head of a file, read as far as lines go on."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._data = bytearray()
        self._ended = False

    def line(self, start: int) -> bytes | None:
        """Return the line that begins at an offset with its end; None where no object and no blank line begins."""
        self._grow(start + _LONGEST_OPENING)
        head = bytes(self._data[start : start + _LONGEST_OPENING])
        blank = _BLANK.match(head)
        if blank is not None:
            return blank[0]
        if _OPENING.match(head) is None:
            return None
        searched = start
        while True:
            end = self._data.find(b"\n", searched)
            if end >= 0:
                return bytes(self._data[start : end + 1])
            if self._ended:
                return bytes(self._data[start:])
            searched = len(self._data)
            self._grow(2 * len(self._data))

    def _grow(self, stop: int) -> None:
        while len(self._data) < stop and not self._ended:
            have = len(self._data)
            if have >= LARGEST:
                raise MalformedError(f"a header of more than {LARGEST} bytes", offset=0, field="header")
            wish = min(max(stop, have + _BLOCK), LARGEST)
            block = self._read(have, wish)
            self._data += block
            self._ended = len(block) < wish - have


def _item(line: bytes, offset: int) -> tuple[str, Any] | None:
    """Return the key and the value of a line, None where it is no JSON object."""
    try:
        entry = json.loads(line.decode("utf-8"))
    except RecursionError:
        raise _too_deep(line, offset) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        if _BEGUN.match(line) is None:  # the first bytes of the data
            return None
        raise MalformedError(
            f"a header line that is no JSON object ({error}); where it is data, a blank line before it says so",
            offset=offset,
            field=_key(line),
        ) from error
    except ValueError as error:  # an integer of thousands of digits
        raise MalformedError(f"a line that is not read: {error}", offset=offset, field="header") from None
    if not isinstance(entry, dict):
        return None
    if len(entry) != 1:
        keys = ", ".join(list(entry)[:4]) or "none"
        raise MalformedError(
            f"a header line of {len(entry)} keys ({keys}); each has one", offset=offset, field="header"
        )
    ((key, value),) = entry.items()
    if _is_too_deep(value):
        raise _too_deep(line, offset)
    return key, value


def _too_deep(line: bytes, offset: int) -> MalformedError:
    return MalformedError(f"lists and objects nested deeper than {DEEPEST}", offset=offset, field=_key(line))


def _key(line: bytes) -> str:
    """Return the key that a line begins with."""
    key = _KEY.match(line)
    return key[1].decode("utf-8", "replace") if key else "header"


def _is_too_deep(value: Any) -> bool:
    """Whether lists and objects are nested deeper than is allowed; nothing is descended further."""
    level = [value] if isinstance(value, list | dict) else []
    for _ in range(DEEPEST + 1):
        level = [
            child
            for holder in level
            for child in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(child, list | dict)
        ]
    return bool(level)


TILE = "https://jnrrd.org/extensions/tile/"
_TILE_VERSION = re.compile(r"https?://jnrrd\.org/extensions/tile/v1(\.\d+)*/?", re.IGNORECASE)
_TILE_ANY = re.compile(r"https?://jnrrd\.org/extensions/tile(/.*)?", re.DOTALL | re.IGNORECASE)
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d{1,9})\]")

type Step = str | int
type Path = tuple[Step, ...]


@dataclass
class Document:
    """A header, resolved."""

    core: dict[str, Any] = field(default_factory=dict)
    """The keys without a prefix, and those whose prefix nothing declares."""

    extensions: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The keys of each extension, by its URI."""

    prefixes: dict[str, str] = field(default_factory=dict)
    """The URI of each prefix."""

    @property
    def tile(self) -> tuple[str, Mapping[str, Any]] | None:
        """The prefix of the tiling extension as it is written here, and its keys; None where it is not declared."""
        for prefix, uri in self.prefixes.items():
            if _TILE_VERSION.fullmatch(uri):
                return prefix, self.extensions.get(uri, {})
        return None


def resolved(items: Sequence[tuple[str, Any]]) -> Document:
    """Return the document that the lines of a header make."""
    document = Document(prefixes=_prefixes(items))
    entries = [_entry(key, value, document.prefixes) for key, value in items if key != "extensions"]
    # the more specific path wins, whatever the order; and an index comes after those before it
    entries.sort(key=lambda entry: (len(entry.path), [(isinstance(step, str), step) for step in entry.path]))
    seen: dict[tuple[str, Path], _Entry] = {}
    for entry in entries:
        twin = seen.setdefault((entry.uri, entry.path), entry)
        if twin is entry:
            space = document.extensions.setdefault(entry.uri, {}) if entry.uri else document.core
            _put(space, entry)
        elif twin.value != entry.value:
            raise MalformedError("given twice, with different values", field=entry.key)
    return document


@dataclass(frozen=True)
class _Entry:
    key: str
    uri: str
    path: Path
    value: Any


def _prefixes(items: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """Return the union of all declarations."""
    prefixes: dict[str, str] = {}
    for declared in (value for key, value in items if key == "extensions"):
        if not isinstance(declared, dict):
            raise MalformedError(f"{declared!r:.80}; an object of prefixes and URIs is needed", field="extensions")
        for prefix, uri in declared.items():
            if not isinstance(uri, str) or not uri:
                raise MalformedError(f"prefix {prefix!r} stands for {uri!r:.80}, no URI", field="extensions")
            known = prefixes.setdefault(prefix, uri)
            if known != uri:
                raise MalformedError(f"prefix {prefix!r} stands for {known} and for {uri}", field="extensions")
            if _TILE_ANY.fullmatch(uri) and not _TILE_VERSION.fullmatch(uri):
                text = f"tiling extension {uri!r}; version 1 is read: {TILE}v1.0.0"
                raise UnsupportedError(text, field="extensions")
    return prefixes


def _entry(key: str, value: Any, prefixes: Mapping[str, str]) -> _Entry:
    prefix, colon, rest = key.partition(":")
    if colon and prefix in prefixes:
        return _Entry(key, prefixes[prefix], _path(rest, key), value)
    if key in prefixes and isinstance(value, dict):
        return _Entry(key, prefixes[key], (), value)
    if colon and prefix == "tile":
        raise MalformedError(f"a prefix that `extensions` does not declare; {TILE}v1.0.0 is its URI", field=key)
    return _Entry(key, "", (key,) if colon else _path(key, key), value)


def _path(text: str, key: str) -> Path:
    steps: list[Step] = []
    at = 0
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None or (step[1] and (at == 0) == text[at].startswith(".")) or (not steps and step[2]):
            raise MalformedError("no path; names with dots between them and indices in brackets are", field=key[:80])
        steps.append(step[1] or int(step[2]))
        at = step.end()
    if len(steps) > DEEPEST:
        raise MalformedError(f"a path of {len(steps)} parts; {DEEPEST} are the most", field=key[:80])
    if not steps:
        raise MalformedError("a key without a name", field=key[:80])
    return tuple(steps)


def _put(space: dict[str, Any], entry: _Entry) -> None:
    """Put a value at its path, making what leads there."""
    if not entry.path:
        _merge(space, entry.value)
        return
    holder: Any = space
    for step, following in zip(entry.path, entry.path[1:], strict=False):
        holder = _below(holder, step, [] if isinstance(following, int) else {}, entry.key)
    last = entry.path[-1]
    if isinstance(last, str) and isinstance(holder, dict):
        _merge(holder, {last: entry.value})
    elif isinstance(last, int) and isinstance(holder, list) and last < len(holder):
        both = {last: holder[last]}
        _merge(both, {last: entry.value})
        holder[last] = both[last]
    else:
        _added(holder, last, entry.value, entry.key)


def _merge(holder: dict[Any, Any], members: Mapping[Any, Any]) -> None:
    """Put members into an object; objects in both become one, since nested is the same as flattened."""
    for name, value in members.items():
        old = holder.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            _merge(old, value)
        else:
            holder[name] = value


def _below(holder: Any, step: Step, empty: Any, key: str) -> Any:
    """Return what stands at a step, made empty where there is nothing."""
    if isinstance(step, int) and isinstance(holder, list) and step < len(holder):
        return holder[step]
    if isinstance(step, str) and isinstance(holder, dict) and step in holder:
        return holder[step]
    _added(holder, step, empty, key)
    return empty


def _added(holder: Any, step: Step, value: Any, key: str) -> None:
    if isinstance(step, str) and isinstance(holder, dict):
        holder[step] = value
    elif isinstance(step, int) and isinstance(holder, list) and step == len(holder):
        holder.append(value)
    elif isinstance(step, int) and isinstance(holder, list):
        raise MalformedError(f"index {step} of a list of {len(holder)}; one past the end appends", field=key)
    else:
        kind = "an index" if isinstance(step, int) else "a name"
        raise MalformedError(f"{kind} into {holder!r:.40}", field=key)


TYPES: Mapping[str, np.dtype[Any]] = {
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "complex64": np.dtype("complex64"),
    "complex128": np.dtype("complex128"),
}
REQUIRED = ("type", "dimension", "sizes")
_UNREAD = {
    "bfloat16": "Zarr has no such type",
    "block": "elements of opaque bytes have no type in Zarr",
}


def jnrrd_header(document: Document, data_start: int) -> Header:
    """Return the header that the core keys make."""
    core = document.core
    missing = [name for name in REQUIRED if core.get(name) is None]
    if missing:
        raise MalformedError("missing", field=", ".join(missing))
    name = core["type"]
    if isinstance(name, str) and name in _UNREAD:
        raise UnsupportedError(f"{name}: {_UNREAD[name]}; {', '.join(TYPES)} are read", field="type")
    if not isinstance(name, str) or name not in TYPES:
        raise MalformedError(f"{name!r:.80}; {', '.join(TYPES)} are read", field="type")
    dtype = TYPES[name]
    if not isinstance(core["sizes"], list):
        raise MalformedError(f"{core['sizes']!r:.80} is no list", field="sizes")
    sizes = checked_sizes(core["sizes"], core["dimension"], dtype.itemsize)
    named = "raw" if core.get("encoding") is None else core["encoding"]
    # first the encoding: numbers as text have no byte order
    encoding = checked_encoding(named, ("zstd", "lz4"))
    return Header(
        dtype,
        sizes,
        encoding,
        checked_endian(core.get("endian"), dtype.itemsize),
        data_start,
        _files(core),
        checked_skip(core.get("line_skip") or 0, "line_skip", 0),
        checked_skip(core.get("byte_skip") or 0, "byte_skip", -1),
        _axes(core, len(sizes)),
        {name: value for name, value in core.items() if name != "data_files"},
        "line_skip",
        "byte_skip",
    )


def _files(core: Mapping[str, Any]) -> DataFiles | None:
    present = [name for name in ("data_file", "data_files", "data_file_pattern") if core.get(name) is not None]
    if not present:
        return None
    if len(present) > 1:
        raise MalformedError("only one of them can say where the data are", field=", ".join(present))
    (name,) = present
    value, subdim = core[name], core.get("subdim")
    if subdim is not None:
        checked_skip(subdim, "subdim", 1)
    if name == "data_file_pattern":
        return DataFiles(_numbered(value, name), subdim, name)
    if name == "data_files" and (not isinstance(value, list) or not value or len(value) > MOST_FILES):
        raise MalformedError(f"{value!r:.80} is no list of files", field=name)
    names = value if name == "data_files" else [value]
    for item in names:
        if not isinstance(item, str) or not item:
            raise MalformedError(f"{item!r:.80} is no name of a file", field=name)
    return DataFiles(tuple(names), subdim, name)


def _numbered(value: Any, name: str) -> tuple[str, ...]:
    """Return the names of a printf pattern, which may be one of Python's too (`{:03d}`)."""
    if not isinstance(value, dict) or any(part not in value for part in ("format", "min", "max")):
        raise MalformedError(f"{value!r:.80}; format, min, max and step are needed", field=name)
    first, last, step = value["min"], value["max"], value.get("step", 1)
    if not isinstance(value["format"], str) or any(type(number) is not int for number in (first, last, step)):
        raise MalformedError(f"{value!r:.80}; format is text, the others whole numbers", field=name)
    pattern = re.sub(r"\{(?:\w*:)?(0?\d{0,2})d?\}", r"%\1d", value["format"])
    return numbered_names(pattern, first, last, step, name)


def _axes(core: Mapping[str, Any], count: int) -> Axes:
    space = core.get("space")
    return Axes(
        labels=_texts(core, "labels", count),
        units=_texts(core, "units", count),
        kinds=_texts(core, "kinds", count),
        spacings=tuple(_number(value, "spacings") for value in _list(core, "spacings", count)),
        directions=tuple(_vector(value) for value in _list(core, "space_directions", count)),
        origin=tuple(_number(value, "space_origin") for value in _list(core, "space_origin", None)),
        space_units=_texts(core, "space_units", None),
        space=space if isinstance(space, str) else "",
        frame=tuple(_vector(value) for value in _list(core, "measurement_frame", None)),
        mins=tuple(_number(value, "axis_mins") for value in _list(core, "axis_mins", count)),
        maxs=tuple(_number(value, "axis_maxs") for value in _list(core, "axis_maxs", count)),
        centerings=_texts(core, "centerings", count),
    )


def _list(core: Mapping[str, Any], name: str, count: int | None) -> list[Any]:
    value = core.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or (count is not None and len(value) != count):
        wanted = "a list" if count is None else f"a list of {count}"
        raise MalformedError(f"{value!r:.80}; {wanted} is needed", field=name)
    return value


def _texts(core: Mapping[str, Any], name: str, count: int | None) -> tuple[str, ...]:
    values = _list(core, name, count)
    if any(value is not None and not isinstance(value, str) for value in values):
        raise MalformedError(f"{values!r:.80}; texts are needed", field=name)
    return tuple(value or "" for value in values)


def _number(value: Any, name: str) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedError(f"{value!r:.80} is no number", field=name)
    try:
        return float(value)
    except OverflowError:
        raise MalformedError("a number larger than any float", field=name) from None


def _vector(value: Any) -> tuple[float, ...] | None:
    """Return the direction of an axis; `null` or "none" of one that does not lie in space."""
    if value is None or value == "none":
        return None
    if not isinstance(value, list):
        raise MalformedError(f"{value!r:.80} is no vector", field="space_directions")
    parts = tuple(_number(part, "space_directions") for part in value)
    return None if all(map(math.isnan, parts)) else parts
