"""Values of NRRD's fields for each axis: words, quoted texts, numbers, vectors.

May touch errors only.  Follows http://teem.sourceforge.net/nrrd/format.html#general.3.
"""

import math
import re
from collections.abc import Callable, Mapping

from jnrrdz.errors import MalformedError

_QUOTED = re.compile(r'\s*"((?:[^"\\]|\\.)*)"')
_VECTOR = re.compile(r"\s*(none\b|\(([^()]*)\))", re.IGNORECASE)
_UNKNOWN = {"???", "none"}


def words(text: str | None, name: str, count: int | None) -> tuple[str, ...]:
    """Return a word for each axis, empty where it is unknown."""
    if text is None:
        return ()
    found = tuple("" if word.lower() in _UNKNOWN else word for word in text.split())
    return _counted(found, name, count)


def quoted(text: str | None, name: str, count: int | None) -> tuple[str, ...]:
    """Return a text for each axis; they stand in quotes, in which a backslash makes a quote one of the text."""
    if text is None:
        return ()
    found, at = [], 0
    while match := _QUOTED.match(text, at):
        found.append(re.sub(r"\\(.)", r"\1", match[1]))
        at = match.end()
    if text[at:].strip():
        raise MalformedError(f"{text[at:].strip()!r:.80} does not stand in quotes", field=name)
    return _counted(tuple(found), name, count)


def numbers(text: str | None, name: str, count: int | None) -> tuple[float, ...]:
    """Return a number for each axis, NaN where there is none."""
    return () if text is None else _counted(tuple(_number(word, name) for word in text.split()), name, count)


def vectors(text: str | None, name: str, count: int, space: int | None) -> tuple[tuple[float, ...] | None, ...]:
    """Return a vector for each axis, None for those that do not lie in space."""
    if text is None:
        return ()
    if space is None:
        raise MalformedError("a vector without `space` or `space dimension`", field=name)
    found: list[tuple[float, ...] | None] = []
    at = 0
    while match := _VECTOR.match(text, at):
        parts = None if match[2] is None else tuple(_number(part, name) for part in match[2].split(","))
        if parts is not None and len(parts) != space:
            raise MalformedError(f"{match[1]:.80} in a space of {space} dimensions", field=name)
        found.append(None if parts is None or all(map(math.isnan, parts)) else parts)
        at = match.end()
    if text[at:].strip():
        raise MalformedError(f"{text[at:].strip()!r:.80} is no vector", field=name)
    return _counted(tuple(found), name, count)


AXIS_TEXTS: Mapping[str, Callable[[str | None, str, int | None], tuple[str, ...]]] = {
    "labels": quoted,
    "units": quoted,
    "kinds": words,
}
"""Texts for each axis, by how they are written."""


def _counted[T](found: tuple[T, ...], name: str, count: int | None) -> tuple[T, ...]:
    if count is not None and len(found) != count:
        raise MalformedError(f"{len(found)} values, where {count} belong", field=name)
    return found


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise MalformedError(f"{text.strip()!r:.80} is no number", field=name) from None
