"""What comes of each cell: equal, refused for a reason, or known to be wrong today.

A cell for which neither table has a line has to be equal.  A line of a table names
doors and rows by regular expressions that fit the whole name, and rows by traits that
they have, or are without.
"""

import re
from dataclasses import dataclass

from jnrrdz.errors import JnrrdzError


@dataclass(frozen=True)
class Refusal:
    """Cells that are refused, how, and why that is right."""

    doors: str
    rows: str
    message: str
    """A regular expression that is in the message."""

    reason: str
    """The footnote of the page."""

    error: type[Exception] = JnrrdzError
    traits: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wrong:
    """Cells that are wrong today, and the fact that says so."""

    doors: str
    rows: str
    fact: str
    traits: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def line_of(table, row, door):
    """Return the first line of a table that is about a cell, or None."""
    return next((line for line in table if is_about(line, row, door)), None)


def is_about(line, row, door):
    if re.fullmatch(line.doors, door.name) is None:
        return False
    if re.fullmatch(line.rows, row.name) is None:
        return False
    has = [trait in row.traits for trait in line.traits]
    lacks = [trait not in row.traits for trait in line.without]
    return all((*has, *lacks))
