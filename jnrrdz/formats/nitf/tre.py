"""A small language of extensions' fields, and a reader of the bytes that follow such a layout.

May touch errors only.  The words of a layout:

    NAME:5        text of five bytes          NAME:LENGTH   as long as the field LENGTH says
    NAME:5#       a whole number in digits    NAME:12~      a number in digits
    NAME:4u       an unsigned number          NAME:8f       an IEEE number, both big-endian
    NAME:LENGTHx  bytes                       NAME:5[COUNT] a list of COUNT values
    NAME*COUNT{ ... }                         a list of COUNT groups of fields; a second one goes on with the first
    ?NAME=TEXT{ ... }                         fields that are there if ...; also != >= and NAME:BIT, joined by & or |

COUNT is a number, a field, `A-1`, `A*B`, or `tri(A)`: 1 + 2 + ... + A.  A digit field that holds none
stays text.  Every value takes a part of a budget that the number of bytes sets: a few bytes that
claim a million groups cost nothing.

Tagged record extensions (TREs): the list of them, and the fields of those whose layout is known.

May touch errors, jbpy (imported only when called) and the layouts of RPCs.  An extension that is
damaged costs itself and those behind it, never the pixels; one that nobody here knows is kept as
text, or as base64 where it is none.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1, table 5.9), STDI-0002
"""

import base64
import io
import logging
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.nitf.tre_tables import FIXED, VARYING

type Fields = dict[str, Any]

SPARE = 1 << 10
"""Groups and values that any extension may have, beyond one a byte."""

FLOATS = {4: ">f", 8: ">d"}
PRINTABLE = range(32, 127)

_FIELD = re.compile(r"([^:{}?*]+):([0-9]+|[A-Z][A-Z0-9_]*)([#~ufx]?)(?:\[(.+)\])?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_COUNT = re.compile(r"tri\((\w+)\)|(\w+)-1|(\w+)\*(\w+)|(\w+)")
_TEST = re.compile(r"(\w+?)(!=|>=|=|:)(.*)")


@dataclass(frozen=True)
class Value:
    """One field, or a list of such."""

    name: str
    width: str
    kind: str
    count: str | None


@dataclass(frozen=True)
class Group:
    """Fields that are there several times."""

    name: str
    count: str
    body: "Body"


@dataclass(frozen=True)
class When:
    """Fields that are there under a condition: any of several, each of which wants all of its tests."""

    tests: tuple[tuple[tuple[str, str, str], ...], ...]
    body: "Body"


type Body = tuple[Value | Group | When, ...]


@cache
def layout_of(text: str) -> Body:
    """Return the layout that a text says."""
    return tuple(_items(iter(text.split())))


def _items(words: Iterator[str]) -> Iterator[Value | Group | When]:
    for word in words:
        if word == "}":
            return
        if word.startswith("?"):
            tests = tuple(tuple(_test(one) for one in each.split("&")) for each in word[1:-1].split("|"))
            yield When(tests, tuple(_items(words)))
        elif word.endswith("{"):
            name, _, count = word[:-1].partition("*")
            yield Group(name, count, tuple(_items(words)))
        else:
            yield Value(*_parts(_FIELD, word))


def _parts(pattern: re.Pattern[str], word: str) -> tuple[Any, ...]:
    found = pattern.fullmatch(word)
    if found is None:
        raise ValueError(f"{word!r} is no word of a layout")
    return found.groups()


def _test(text: str) -> tuple[str, str, str]:
    name, sign, wanted = _parts(_TEST, text)
    return name, sign, wanted


def read_fields(what: str, layout: Body, data: bytes, given: Mapping[str, Any] | None = None) -> Fields:
    """Return the fields of bytes that follow a layout from end to end; blanks may follow.

    Conditions may ask for what is `given` beside them.
    """
    reader = _Reader(what, data, len(data) + SPARE, [dict(given or {})])
    found = reader.fields(layout)
    if data[reader.at :].strip(b" \0"):
        raise MalformedError(f"{len(data)} bytes, its fields take {reader.at}", field=what)
    return found


@dataclass
class _Reader:
    what: str
    data: bytes
    budget: int
    scopes: list[Fields]
    """Fields as stored, those of the innermost group last: what counts and conditions refer to."""

    at: int = 0

    def fields(self, body: Body) -> Fields:
        """Return the values of one group."""
        found: Fields = {}
        self._within({}, found, body)
        return found

    def _within(self, scope: Fields, found: Fields, body: Body) -> None:
        self.scopes.append(scope)
        self._fill(found, body)
        self.scopes.pop()

    def _fill(self, found: Fields, body: Body) -> None:
        for item in body:
            if isinstance(item, When):
                if any(all(self._holds(*test) for test in tests) for tests in item.tests):
                    self._fill(found, item.body)
            elif isinstance(item, Group):
                self._groups(found, item)
            elif item.count is None:
                found[item.name] = self._value(item)
            else:
                found[item.name] = [self._value(item) for _ in self._times(item.count)]

    def _groups(self, found: Fields, group: Group) -> None:
        """Read the groups of a list, or more fields of those that are there."""
        # no field's name has braces
        scopes = self.scopes[-1].setdefault(f"{group.name}{{}}", [])
        groups = found.setdefault(group.name, [])
        for number in self._times(group.count):
            if number == len(groups):
                scopes.append({})
                groups.append({})
            self._within(scopes[number], groups[number], group.body)

    def _times(self, text: str) -> Iterator[int]:
        for number in range(self._count(text)):
            self._spend()
            yield number

    def _spend(self) -> None:
        self.budget -= 1
        if self.budget < 0:
            raise MalformedError(f"more fields than {len(self.data)} bytes can hold", field=self.what)

    def _stored(self, name: str) -> Any:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise MalformedError(f"no field {name}, which others depend on", field=self.what)

    def _number(self, name: str) -> int:
        stored = int(name) if name.isdigit() else self._stored(name)
        if isinstance(stored, int):
            return stored
        text = str(stored).strip()
        if not (text.isascii() and text.isdigit()):
            raise MalformedError(f"{text!r} is no count", field=f"{self.what} {name}")
        return int(text)

    def _count(self, text: str) -> int:
        triangle, less, left, right, plain = _parts(_COUNT, text)
        if triangle:
            size = self._number(triangle)
            return size * (size + 1) // 2
        if less:
            return self._number(less) - 1
        return self._number(plain) if plain else self._number(left) * self._number(right)

    def _holds(self, name: str, sign: str, wanted: str) -> bool:
        if sign == ":":
            return bool(self._number(name) >> int(wanted) & 1)
        if sign == ">=":
            return self._number(name) >= int(wanted)
        stored = str(self._stored(name)).strip()
        digits = all(text.isascii() and text.isdigit() for text in (stored, wanted))
        same = int(stored) == int(wanted) if digits else stored == wanted
        return same is (sign == "=")

    def _value(self, item: Value) -> Any:
        self._spend()
        data = self._taken(item)
        if item.kind == "u":
            number = int.from_bytes(data, "big")
            self.scopes[-1][item.name] = number
            return number
        self.scopes[-1][item.name] = data.decode("latin-1")
        if item.kind == "f":
            return _ieee(data, f"{self.what} {item.name}")
        return _bytes(data) if item.kind == "x" else _digits(data.decode("latin-1").rstrip(" \0"), item.kind)

    def _taken(self, item: Value) -> bytes:
        width = self._number(item.width)
        data = self.data[self.at : self.at + width]
        if len(data) < width:
            left = len(self.data) - self.at
            raise MalformedError(f"{width} bytes where {left} are left", field=f"{self.what} {item.name}")
        self.at += width
        return data


def _digits(text: str, kind: str) -> str | int | float:
    """Return a number of digits; one that is none stays text."""
    if kind == "#" and _INTEGER.fullmatch(text.strip()):
        return int(text)
    if kind != "~":
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) and "_" not in text else text


def _ieee(data: bytes, what: str) -> float | str:
    if len(data) not in FLOATS:
        raise MalformedError(f"a number of {len(data)} bytes", field=what)
    number = float(struct.unpack(FLOATS[len(data)], data)[0])
    return number if math.isfinite(number) else str(number)


def _bytes(data: bytes) -> str | Fields:
    """Return bytes as text where they are, else in base64."""
    if all(byte in PRINTABLE for byte in data):
        return data.decode("ascii")
    return {"base64": base64.b64encode(data).decode("ascii")}


TAG = 6
LENGTH = 5
MAX_TRES = 1 << 12
SHOWN = 40
FAULTS = (ValueError, TypeError, KeyError, IndexError, AssertionError, UnicodeDecodeError, ArithmeticError)
"""What jbpy raises at fields that are none."""


@dataclass(frozen=True)
class Tre:
    """One extension: its tag and its bytes."""

    tag: str
    data: bytes


def split_tres(data: bytes, problems: list[str]) -> list[Tre]:
    """Return the extensions that follow each other in a header; what breaks off is noted."""
    return list(_walk(data, problems))


def _walk(data: bytes, problems: list[str]) -> Iterator[Tre]:
    at = 0
    for _ in range(MAX_TRES):
        rest = data[at:]
        if not rest.strip(b" \0"):
            return
        tag, digits = rest[:TAG], rest[TAG : TAG + LENGTH]
        if not (digits.isdigit() and len(digits) == LENGTH and tag.isascii()):
            problems.append(f"{rest[:SHOWN]!r} is no extension")
            return
        body = rest[TAG + LENGTH : TAG + LENGTH + int(digits)]
        if len(body) < int(digits):
            problems.append(f"{tag.decode()}: {int(digits)} bytes where {len(body)} are left")
            return
        yield Tre(tag.decode("ascii").rstrip(), body)
        at += TAG + LENGTH + int(digits)
    problems.append(f"more than {MAX_TRES} extensions")


def described(tre: Tre, problems: list[str]) -> Fields:
    """Return an extension for attributes: its tag, and its fields, text or bytes."""
    try:
        fields = _fields(tre)
    except JnrrdzError as error:
        problems.append(str(error))
        fields = None
    if fields is not None:
        return {"tag": tre.tag, "fields": fields}
    if all(32 <= byte < 127 or byte in b"\r\n\t" for byte in tre.data):  # noqa: PLR2004  printable ASCII
        return {"tag": tre.tag, "text": tre.data.decode("ascii").rstrip()}
    return {"tag": tre.tag, "base64": base64.b64encode(tre.data).decode("ascii")}


def _fields(tre: Tre) -> Fields | None:
    """Return the fields of an extension whose layout is known, None of any other."""
    layout = FIXED.get(tre.tag) or VARYING.get(tre.tag)
    if layout is not None:
        return read_fields(tre.tag, layout_of(layout), tre.data)
    maker = _known().get(tre.tag)
    if maker is None:
        return None
    return _by_jbpy(tre, maker)


@cache
def _known() -> dict[str, Callable[[], Any]]:
    """Return the extensions that jbpy knows; it looks them up among installed packages, which takes a while."""
    import jbpy.core  # noqa: PLC0415  a library that most scans have no use for

    logging.getLogger("jbpy").addHandler(logging.NullHandler())
    logging.getLogger("jbpy").propagate = False
    return jbpy.core.available_tres()


def _by_jbpy(tre: Tre, maker: Callable[[], Any]) -> Fields:
    whole = tre.tag.ljust(TAG).encode() + f"{len(tre.data):0{LENGTH}}".encode() + tre.data
    try:
        group = maker().load(io.BytesIO(whole))
        found = _plain(group)
    except FAULTS as error:
        raise MalformedError(f"{error}", field=tre.tag) from error
    if group.get_size() != len(whole):
        raise MalformedError(f"{len(tre.data)} bytes, its fields take {group.get_size()}", field=tre.tag)
    tag, length = list(group)[:2]
    return {name: value for name, value in found.items() if name not in {tag, length}}


def _plain(group: Any) -> Fields:
    """Return a jbpy group's values as JSON has them."""
    return {name: _value(group[name]) for name in group}


def _value(field: Any) -> Any:
    if not hasattr(field, "encoded_value"):
        return _plain(field)
    value = field.value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return field.encoded_value.decode("latin-1").strip()
    return list(value) if isinstance(value, tuple) else value
