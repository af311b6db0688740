"""Write docs/matrix.md from the tables: `python -m tests.matrix.page`."""

from pathlib import Path

from tests.matrix.doors import COMBINE, DOORS, OPEN, SAVE, SHOW
from tests.matrix.outcomes import line_of
from tests.matrix.refusals import REFUSALS
from tests.matrix.rows import ROWS
from tests.matrix.wrong import KNOWN_WRONG

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"

EQUAL, WRONG = "=", "wrong"

HEAD = """\
<!-- `python -m tests.matrix.page` writes this page; `pytest tests/matrix` tries it. -->
# The matrix

Each kind of source goes through each door: ways to index, open, combine, show and \
save. The sources are written by other software. A cell is `=` where pixels, place, \
nodata and names equal what a reader sees that shares no code with jnrrdz. A number is \
a refusal: an error in words, whose reason is in the [list below](#refusals).

| rows | doors | cells tried | equal | refused | wrong |
|---|---|---|---|---|---|
| {rows} | {doors} | {cells} | {equal} | {refused} | {wrong} |

`tests/matrix` has the tables: `rows.py` has the sources, `doors.py` the doors and \
`refusals.py` the refusals. A new format, codec or command joins by one line. \
`JNRRDZ_MATRIX=all` tries each cell with `--codecs auto`, `proposal` and `standard`.
"""

SECTIONS = {"Open": OPEN, "Combine": COMBINE, "Show": SHOW, "Save": SAVE}


def page() -> str:
    """Return the text of the page."""
    reasons: list[str] = []
    tables = [table(name, doors, reasons) for name, doors in SECTIONS.items()]
    outcomes = [outcome(row, door, []) for row in ROWS for door in DOORS]
    equal, wrong = outcomes.count(EQUAL), outcomes.count(WRONG)
    counts = {"rows": len(ROWS), "doors": len(DOORS), "cells": len(outcomes)}
    counts |= {"equal": equal, "wrong": wrong}
    head = HEAD.format(**counts, refused=len(outcomes) - equal - wrong)
    return "\n".join([head, *tables, refusals(reasons), sources()])


def outcome(row, door, reasons):
    """Return the text of a cell; a reason that is new gets the next number."""
    if line_of(KNOWN_WRONG, row, door) is not None:
        return WRONG
    line = line_of(REFUSALS, row, door)
    if line is None:
        return EQUAL
    if line.reason not in reasons:
        reasons.append(line.reason)
    return str(reasons.index(line.reason) + 1)


def table(name, doors, reasons):
    """Return a table of all rows and some doors."""
    lines = [f"## {name}", ""]
    lines += [line_with(["", *(f"`{door.name}`" for door in doors)])]
    lines += ["|" + "---|" * (len(doors) + 1)]
    for row in ROWS:
        lines += [
            line_with([row.name, *(outcome(row, door, reasons) for door in doors)])
        ]
    return "\n".join([*lines, ""])


def refusals(reasons):
    lines = [f"{number}. {reason}." for number, reason in enumerate(reasons, 1)]
    return "\n".join(["## Refusals", "", *lines, ""])


def sources():
    """Return the table of who writes and who reads each source."""
    lines = ["## Who writes and reads them", ""]
    lines += [line_with(["source", "written by", "compared with"]), "|---|---|---|"]
    lines += [line_with([row.name, row.by, row.reader]) for row in ROWS]
    return "\n".join([*lines, ""])


def line_with(cells):
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
