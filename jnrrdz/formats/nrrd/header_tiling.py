"""The header of a tiled JNRRD, written before the data with room for the tables that come to be known behind it.

May touch errors; pure.  Every line is one JSON object, filled up with spaces inside its braces, so that the
header is as long with its tables as it was without.  A blank line ends it.
Follows docs/formats/jnrrd.md.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jnrrdz.errors import UnrepresentableError
from jnrrdz.formats.nrrd.jnrrd import LARGEST
from jnrrdz.formats.nrrd.jnrrd_keys import TILE

VERSION = "0004"
EXTENSION = f"{TILE}v1.0.0"
PREFIX = "tile"


@dataclass(frozen=True)
class Table:
    """One list of the header, and the most characters of one of its entries."""

    name: str
    entries: int
    widest: int

    @property
    def line_length(self) -> int:
        """Characters of the line, its end included."""
        return len(_line(self.name, "")) + len("[]") + self.entries * (self.widest + len(", "))


def _line(name: str, value: str) -> str:
    return f'{{"{PREFIX}:{name}": {value}}}\n'


class Header:
    """The lines of a header: those that are known, then tables."""

    def __init__(self, known: Sequence[tuple[str, Any]], tables: Sequence[Table]) -> None:
        lines = [json.dumps({key: value}, ensure_ascii=False, allow_nan=False) for key, value in known]
        self._known = "".join(f"{line}\n" for line in lines).encode()
        self._tables = tables
        self.length = len(self._known) + sum(table.line_length for table in tables) + len("\n")
        if self.length > LARGEST:
            raise UnrepresentableError(
                f"a header of {self.length} bytes for {max(table.entries for table in tables)} tiles; "
                f"{LARGEST} are the most, so make tiles larger",
                field=PREFIX,
            )

    def text(self, tables: Mapping[str, Sequence[Any]]) -> bytes:
        """Return the header with its tables, entries as JSON."""
        found = [self._known]
        for table in self._tables:
            value = f"[{', '.join(map(str, tables[table.name]))}]"
            line = _line(table.name, value)
            found.append(_line(table.name, value + " " * (table.line_length - len(line))).encode())
        text = b"".join([*found, b"\n"])
        if len(text) != self.length:
            raise ValueError(f"a header of {len(text)} bytes where room is for {self.length}")
        return text
