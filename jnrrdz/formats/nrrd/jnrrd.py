"""The lines of a JNRRD header: one JSON object of one key each, and where the data begin behind them.

May touch errors; opens nothing.  Rules in docs/formats/jnrrd.md: lines end with LF or CRLF; a blank line ends
the header and is skipped; a line that is no JSON object is the first bytes of the data.  White space around a
line is nothing: https://github.com/mhalle/jnrrd/blob/main/spec/JNRRD-SPECIFICATION.md (2.3).
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jnrrdz.errors import MalformedError

type Read = Callable[[int, int], bytes]
"""`read(start, stop)`: fewer bytes only at the end of the source."""

LARGEST = 1 << 26
"""Bytes that a header may have: offsets and sizes of a million tiles take 25 MB."""

DEEPEST = 32
"""Levels of lists and objects in one value; the extension needs four."""

VERSIONS = ("0004",)
_FIRST = re.compile(rb'\s*\{\s*"jnrrd"\s*:')
_OPENING = re.compile(rb"[ \t]*\{[ \t]*[\"}]")
_BLANK = re.compile(rb"[ \t]*\r?\n")
_KEY = re.compile(rb'[ \t]*\{[ \t]*"([^"\\]{1,80})"')
_BLOCK = 1 << 15
_LONGEST_OPENING = 64


@dataclass(frozen=True)
class Lines:
    """What the lines say, in their order, and the first byte behind the header."""

    items: tuple[tuple[str, Any], ...]
    data_start: int


def is_jnrrd(head: bytes) -> bool:
    """Whether a file begins as JNRRD does."""
    return _FIRST.match(head) is not None


def read_lines(read: Read) -> Lines:
    """Return the lines of the header at the start of a file."""
    buffer, at = _Buffer(read), 0
    items: list[tuple[str, Any]] = []
    while True:
        line = buffer.line(at)
        if line is None:
            return Lines(_checked(items), at)
        if _BLANK.fullmatch(line):
            return Lines(_checked(items), at + len(line))
        item = _item(line, at)
        if item is None:
            return Lines(_checked(items), at)
        items.append(item)
        at += len(line)


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
            found = self._read(have, wish)
            self._data += found
            self._ended = len(found) < wish - have


def _item(line: bytes, offset: int) -> tuple[str, Any] | None:
    """Return the key and the value of a line, None where it is no JSON object."""
    try:
        found = json.loads(line.decode("utf-8"))
    except RecursionError:
        raise _too_deep(line, offset) from None
    except (json.JSONDecodeError, UnicodeDecodeError):  # the first bytes of the data
        return None
    except ValueError as error:  # an integer of thousands of digits
        raise MalformedError(f"a line that is not read: {error}", offset=offset, field="header") from None
    if not isinstance(found, dict):
        return None
    if len(found) != 1:
        keys = ", ".join(list(found)[:4]) or "none"
        raise MalformedError(
            f"a header line of {len(found)} keys ({keys}); each has one", offset=offset, field="header"
        )
    (key, value), *_ = found.items()
    if _depth(value) > DEEPEST:
        raise _too_deep(line, offset)
    return key, value


def _too_deep(line: bytes, offset: int) -> MalformedError:
    key = _KEY.match(line)
    name = key[1].decode("utf-8", "replace") if key else "header"
    return MalformedError(f"lists and objects nested deeper than {DEEPEST}", offset=offset, field=name)


def _depth(value: Any) -> int:
    """Return how deep lists and objects are nested, without descending further than is allowed."""
    depth, level = 0, [value]
    while level and depth <= DEEPEST:
        level = [child for one in level if isinstance(one, list | dict) for child in _containers(one)]
        depth += bool(level)
    return depth


def _containers(value: list[Any] | dict[str, Any]) -> list[Any]:
    """Return the lists and objects in a value; one more stands for the value itself where it has none."""
    children = value.values() if isinstance(value, dict) else value
    return [child for child in children if isinstance(child, list | dict)]


def _checked(items: list[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    """Return the items; the first says the version."""
    if not items or items[0][0] != "jnrrd":
        raise MalformedError('the first line is not {"jnrrd": "0004"}', offset=0, field="jnrrd")
    if items[0][1] not in VERSIONS:
        raise MalformedError(f"version {items[0][1]!r}; {', '.join(VERSIONS)} is read", offset=0, field="jnrrd")
    return tuple(items)
