"""Hostile values of JSON, and documents with one of them in place of each value."""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

type Path = tuple[str | int, ...]

DEPTH = 2000
"""Lists in lists: more than Python's parser takes."""

_MARK = "a value that the text of a document gets last"


class Removed:
    """Stands for a key or an item that is taken out."""


HOSTILE: dict[str, Any] = {
    "null": None,
    "true": True,
    "NaN": math.nan,
    "Infinity": math.inf,
    "-1": -1,
    "0": 0,
    "1.5": 1.5,
    "2**70": 1 << 70,
    "empty text": "",
    "text": "a/../b",
    "long text": "x" * 5000,
    "surrogate": "\ud800",
    "[]": [],
    "[null]": [None],
    "{}": {},
    "{a: 1}": {"a": 1},
    "1,000 digits": "1" * 1000,
    "deep": _MARK,
    "removed": Removed,
}


def paths_of(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each value in a document, its own first."""
    yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from paths_of(inner, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from paths_of(inner, (*path, number))


def replaced(document: Any, path: Path, value: Any) -> Any:
    """Return a copy of a document with another value at a path."""
    if not path:
        return value
    name, *rest = path
    made = dict(document) if isinstance(document, dict) else list(document)
    if not rest and value is Removed:
        del made[name]
    else:
        made[name] = replaced(document[name], tuple(rest), value)
    return made


def text_of(document: Any) -> str:
    """Return a document as JSON, with NaN and what is nested too deeply."""
    if document is Removed:
        return ""
    text = json.dumps(document)
    deep = "[" * DEPTH + "]" * DEPTH
    return text.replace(json.dumps(_MARK), deep)


def spelled(path: Sequence[str | int]) -> str:
    """Return a path as an error shows it."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
