"""Tagged record extensions (TREs): the list of them in a header, and their fields by layouts of a small language.

A damaged extension costs itself and those behind it, never the pixels; one without a layout is kept
as text, or as base64 where it is none.  The words of a layout:

    NAME:5        text of five bytes          NAME:LENGTH   as long as the field LENGTH says
    NAME:5#       a whole number in digits    NAME:12~      a number in digits
    NAME:4u       an unsigned number          NAME:8f       an IEEE number, both big-endian
    NAME:LENGTHx  bytes                       NAME:5[COUNT] a list of COUNT values
    NAME:5i       a whole number              NAME:12r      a real number
    NAME:5a       ASCII text                  NAME:5b       bytes in base64
    NAME*COUNT{ ... }                         a list of COUNT groups of fields; a second one goes on with the first
    *COUNT{ NAME001:5 ... }                   fields that are there COUNT times, the numbers in their names counting up
    ?NAME=TEXT{ ... }                         fields that are there if ...; also != >= and NAME:BIT, joined by & or |

COUNT is a number, a field, `A-1`, `A*B`, or `tri(A)`: 1 + 2 + ... + A.  A field of `#` or `~` that holds
no number stays text; one of `i`, `r` or `a` that does not hold what it should is an error.  `?` behind
a letter makes a blank field None.  Every value takes a part of a budget that the number of bytes sets:
a few bytes that claim a million groups cost nothing.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1, table 5.9), STDI-0002
"""

import base64
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from jnrrdz.errors import MalformedError
from jnrrdz.formats.nitf.tre_tables import STRICT, TRES

type Fields = dict[str, Any]

SPARE = 1 << 10
"""Groups and values that any extension may have, beyond one a byte."""

FLOATS = {4: ">f", 8: ">d"}
PRINTABLE = range(32, 127)

_FIELD = re.compile(r"([^:{}?*]+):([0-9]+|[A-Z][A-Z0-9_]*)([#~ufxirab]?)(\??)(?:\[(.+)\])?")
_NUMBERED = re.compile(r"(.*?)([0-9]+)")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_COUNT = re.compile(r"tri\((\w+)\)|(\w+)-1|(\w+)\*(\w+)|(\w+)")
_TEST = re.compile(r"(\w+?)(!=|>=|=|:)(.*)")


class Value(NamedTuple):
    """One field, or a list of such."""

    name: str
    width: str
    kind: str
    nullable: str
    times: str | None


@dataclass(frozen=True)
class Group:
    """Fields that are there several times."""

    name: str
    """The name of their list; "" where each stands beside the others, with a number in its own name."""

    count: str
    body: "Body"


@dataclass(frozen=True)
class When:
    """Fields that are there under a condition: any of several, each of which wants all of its tests."""

    tests: tuple[tuple[tuple[str, ...], ...], ...]
    body: "Body"


type Body = tuple[Value | Group | When, ...]


@cache
def parse_layout(text: str) -> Body:
    """Return the layout that a text says."""
    return tuple(_items(iter(text.split())))


def _items(words: Iterator[str]) -> Iterator[Value | Group | When]:
    for word in words:
        if word == "}":
            return
        if word.startswith("?"):
            tests = tuple(tuple(_parts(_TEST, test) for test in every.split("&")) for every in word[1:-1].split("|"))
            yield When(tests, tuple(_items(words)))
        elif word.endswith("{"):
            name, _, count = word[:-1].partition("*")
            yield Group(name, count, tuple(_items(words)))
        else:
            yield Value(*_parts(_FIELD, word))


def _parts(pattern: re.Pattern[str], word: str) -> tuple[Any, ...]:
    match = pattern.fullmatch(word)
    if match is None:
        raise ValueError(f"{word!r} is no word of a layout")
    return match.groups()


def read_fields(
    what: str, layout: Body, data: bytes, header: Mapping[str, Any] | None = None, *, exact: bool = False
) -> Fields:
    """Return the fields of bytes that follow a layout from end to end.

    Conditions may ask for fields of `header` too.  Blanks may follow the fields, unless `exact`.
    """
    reader = _Reader(what, data, len(data) + SPARE, [dict(header or {})])
    fields: Fields = {}
    reader.fill({}, fields, layout)
    rest = data[reader.at :]
    if rest if exact else rest.strip(b" \0"):
        raise MalformedError(f"{len(data)} bytes, its fields take {reader.at}", field=what)
    return fields


@dataclass
class _Reader:
    what: str
    data: bytes
    budget: int
    scopes: list[Fields]
    """Fields as stored, those of the innermost group last: what counts and conditions refer to."""

    at: int = 0

    def fill(self, scope: Fields, fields: Fields, body: Body) -> None:
        """Add the fields of one group."""
        self.scopes.append(scope)
        self._add(fields, body)
        self.scopes.pop()

    def _add(self, fields: Fields, body: Body) -> None:
        for item in body:
            if isinstance(item, When):
                if any(all(self._holds(*test) for test in tests) for tests in item.tests):
                    self._add(fields, item.body)
            elif isinstance(item, Group) and item.name:
                self._add_groups(fields, item)
            elif isinstance(item, Group):
                for number in self._times(item.count):
                    self._add(fields, _numbered(item.body, number))
            elif item.times is None:
                fields[item.name] = self._value(item)
            else:
                fields[item.name] = [self._value(item) for _ in self._times(item.times)]

    def _add_groups(self, fields: Fields, group: Group) -> None:
        """Add the groups of a list, or more fields of those that are there."""
        # no field's name has braces
        scopes = self.scopes[-1].setdefault(f"{group.name}{{}}", [])
        groups = fields.setdefault(group.name, [])
        for number in self._times(group.count):
            if number == len(groups):
                scopes.append({})
                groups.append({})
            self.fill(scopes[number], groups[number], group.body)

    def _times(self, text: str) -> Iterator[int]:
        """Yield the numbers up to a count, each of which the budget has to pay for."""
        triangle, less, left, right, plain = _parts(_COUNT, text)
        if triangle:
            size = self._number(triangle)
            count = size * (size + 1) // 2
        elif less:
            count = self._number(less) - 1
        else:
            count = self._number(plain) if plain else self._number(left) * self._number(right)
        for number in range(count):
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
        text = str(stored).strip()
        if not (text.isascii() and text.isdigit()):
            raise MalformedError(f"{text!r} is no count", field=f"{self.what} {name}")
        return int(text)

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
        width = self._number(item.width)
        data = self.data[self.at : self.at + width]
        field = f"{self.what} {item.name}"
        if len(data) < width:
            left = len(self.data) - self.at
            raise MalformedError(f"{width} bytes where {left} are left", field=field)
        self.at += width
        try:
            value = None if item.nullable and not data.strip(b" ") else DECODERS[item.kind](data)
        except ValueError as error:
            raise MalformedError(str(error), field=field) from error
        self.scopes[-1][item.name] = value if item.kind in {"u", "i"} else data.decode("latin-1")
        return value


def _numbered(body: Body, number: int) -> Body:
    """Return fields whose names have the first number of a series as those of a later one."""
    values = []
    for item in body:
        if isinstance(item, Value):
            stem, digits = _parts(_NUMBERED, item.name)
            values.append(item._replace(name=f"{stem}{int(digits) + number:0{len(digits)}}"))
    return tuple(values)


def plain_text(data: bytes) -> str:
    """Return a field as text without the blanks at its end."""
    return data.decode("latin-1").rstrip(" \0")


def base64_text(data: bytes) -> str:
    """Return bytes in base64."""
    return base64.b64encode(data).decode("ascii")


def text_or_base64(data: bytes) -> str | Fields:
    """Return bytes as text where they are printable."""
    return data.decode("ascii") if all(byte in PRINTABLE for byte in data) else {"base64": base64_text(data)}


def whole_or_text(data: bytes) -> int | str:
    """Return a whole number; what is none stays text."""
    text = plain_text(data)
    return int(text) if _INTEGER.fullmatch(text.strip()) else text


def decimal_or_text(data: bytes) -> float | str:
    """Return a number; what is none, or not finite, stays text."""
    text = plain_text(data)
    with suppress(ValueError):
        number = float(text)
        if math.isfinite(number) and "_" not in text:
            return number
    return text


def real(data: bytes) -> float | str:
    """Return a number, as text where it is not finite; ValueError where it is none."""
    number = float(data)
    return number if math.isfinite(number) else data.decode("latin-1").strip()


def ieee(data: bytes) -> float | str:
    """Return an IEEE number, as text where it is not finite; ValueError where there is none of its width."""
    if len(data) not in FLOATS:
        raise ValueError(f"a number of {len(data)} bytes")
    number = float(struct.unpack(FLOATS[len(data)], data)[0])
    return number if math.isfinite(number) else str(number)


DECODERS: dict[str, Callable[[bytes], Any]] = {
    "": plain_text,
    "#": whole_or_text,
    "~": decimal_or_text,
    "u": lambda data: int.from_bytes(data, "big"),
    "f": ieee,
    "x": text_or_base64,
    "i": int,
    "r": real,
    "a": lambda data: data.decode("ascii").rstrip(" "),
    "b": base64_text,
}
"""The value of a field by the letter that its layout gives."""


def field_bytes(layout: str, data: bytes) -> dict[str, bytes]:
    """Return the bytes of each field by its name, up to the first field that is not always there."""
    fields, at = {}, 0
    for item in parse_layout(layout):
        if not isinstance(item, Value):
            break
        fields[item.name] = data[at : at + int(item.width)]
        at += int(item.width)
    return fields


TAG = 6
LENGTH = 5
MAX_TRES = 1 << 12
SHOWN = 40


@dataclass(frozen=True)
class Tre:
    """One extension: its tag and its bytes."""

    tag: str
    data: bytes


def split_tres(data: bytes, problems: list[str]) -> list[Tre]:
    """Return the extensions that follow each other in a header; what breaks off is noted."""
    tres: list[Tre] = []
    at, end = 0, len(data.rstrip(b" \0"))
    while at < end:
        if len(tres) == MAX_TRES:
            problems.append(f"more than {MAX_TRES} extensions")
            break
        begin = at + TAG + LENGTH
        tag, digits = data[at : at + TAG], data[at + TAG : begin]
        if not (digits.isdigit() and len(digits) == LENGTH and tag.isascii()):
            problems.append(f"{data[at : at + SHOWN]!r} is no extension")
            break
        body = data[begin : begin + int(digits)]
        if len(body) < int(digits):
            problems.append(f"{tag.decode()}: {int(digits)} bytes where {len(body)} are left")
            break
        tres.append(Tre(tag.decode("ascii").rstrip(), body))
        at = begin + int(digits)
    return tres


def find_tre(tres: Iterable[Tre], tag: str) -> bytes | None:
    """Return the bytes of the first extension of a tag, None without one."""
    return next((tre.data for tre in tres if tre.tag == tag), None)


def describe_tre(tre: Tre, problems: list[str]) -> Fields:
    """Return an extension for attributes: its tag, and its fields, text or bytes."""
    layout = STRICT.get(tre.tag) or TRES.get(tre.tag)
    if layout is not None:
        try:
            fields = read_fields(tre.tag, parse_layout(layout), tre.data, exact=tre.tag in STRICT)
        except MalformedError as error:
            problems.append(str(error))
        else:
            return {"tag": tre.tag, "fields": fields}
    if all(byte in PRINTABLE or byte in b"\r\n\t" for byte in tre.data):
        return {"tag": tre.tag, "text": tre.data.decode("ascii").rstrip()}
    return {"tag": tre.tag, "base64": base64_text(tre.data)}
