"""Fixed-width fields of a NITF header: tables of names and widths, and a cursor that reads them.

May touch errors only.  A header is read whole (its length field has six digits at most) and then
walked; every value keeps its name, so that an error can say which field is wrong.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1), MIL-STD-2500A, MIL-STD-2500C
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from jnrrdz.errors import MalformedError

type Value = str | int
type Fields = dict[str, Value]


class Field(NamedTuple):
    """One field: its name in the standard, its width in bytes, and whether it holds digits."""

    name: str
    width: int
    is_number: bool = False


def table(text: str) -> tuple[Field, ...]:
    """Return the fields of a text of `NAME:width` words; `NAME:width#` is a number."""
    words = (word.rpartition(":") for word in text.split())
    return tuple(Field(name, int(width.rstrip("#")), width.endswith("#")) for name, _, width in words)


@dataclass
class Cursor:
    """The bytes of one header, and how far they have been read."""

    data: bytes
    base: int
    """Where the first byte stands in the source."""

    what: str
    """Which header it is, for messages."""

    at: int = 0
    found: Fields = field(default_factory=dict)

    @property
    def offset(self) -> int:
        """Where the next byte stands in the source."""
        return self.base + self.at

    def raw(self, name: str, width: int) -> bytes:
        """Return the bytes of the next field."""
        data = self.data[self.at : self.at + width]
        if len(data) < width:
            left = len(self.data) - self.at
            raise MalformedError(f"{width} bytes where {left} are left", offset=self.offset, field=self._named(name))
        self.at += width
        return data

    def text(self, name: str, width: int) -> str:
        """Return the next field as text without the blanks at its end, and keep it."""
        found = self.raw(name, width).decode("latin-1").rstrip(" \0")
        self.found[name] = found
        return found

    def number(self, name: str, width: int) -> int:
        """Return the next field as a whole number, and keep it."""
        here, text = self.offset, self.raw(name, width)
        try:
            found = int(text)
        except ValueError:
            raise MalformedError(f"{text!r} is no number", offset=here, field=self._named(name)) from None
        if found < 0 or b"_" in text:
            raise MalformedError(f"{text!r} is no count", offset=here, field=self._named(name))
        self.found[name] = found
        return found

    def take(self, fields: Iterable[Field]) -> None:
        """Keep the next fields; a number that is none stays text."""
        for one in fields:
            text = self.text(one.name, one.width)
            digits = text.strip()
            if one.is_number and digits.isascii() and digits.isdigit():
                self.found[one.name] = int(digits)

    def _named(self, name: str) -> str:
        return f"{self.what} {name}"


def integer(fields: Mapping[str, Value], name: str, what: str) -> int:
    """Return a field that has to be a number."""
    value = fields.get(name)
    if not isinstance(value, int):
        raise MalformedError(f"{value!r} is no number", field=f"{what} {name}")
    return value
