"""The keys of a JNRRD header: prefixes resolved by their URIs, nested and flattened keys made one document.

May touch errors; opens nothing.  Rules in docs/formats/jnrrd.md: `p:a.b[1].c` is the same as
`{"p:a": {"b": [.., {"c": ..}]}}`, the more specific path wins whatever the order, and an index one past the
end appends.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jnrrdz.errors import MalformedError, UnsupportedError

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
    found: dict[str, str] = {}
    for key, value in items:
        if key != "extensions":
            continue
        if not isinstance(value, dict):
            raise MalformedError(f"{value!r:.80}; an object of prefixes and URIs is needed", field=key)
        for prefix, uri in value.items():
            _declare(found, prefix, uri)
    return found


def _declare(found: dict[str, str], prefix: str, uri: Any) -> None:
    if not isinstance(uri, str) or not uri:
        raise MalformedError(f"prefix {prefix!r} stands for {uri!r:.80}, no URI", field="extensions")
    if found.setdefault(prefix, uri) != uri:
        raise MalformedError(f"prefix {prefix!r} stands for {found[prefix]} and for {uri}", field="extensions")
    if _TILE_ANY.fullmatch(uri) and not _TILE_VERSION.fullmatch(uri):
        raise UnsupportedError(f"tiling extension {uri!r}; version 1 is read: {TILE}v1.0.0", field="extensions")


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
        found = _STEP.match(text, at)
        if found is None or (found[1] and (at == 0) == text[at].startswith(".")) or (not steps and found[2]):
            raise MalformedError("no path; names with dots between them and indices in brackets are", field=key[:80])
        steps.append(found[1] or int(found[2]))
        at = found.end()
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


def _merge(holder: dict[Any, Any], given: Mapping[Any, Any]) -> None:
    """Put members into an object; objects in both become one, since nested is the same as flattened."""
    for name, value in given.items():
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
