"""Every kind of source through every door: equal to another reader's view, or refused.

docs/matrix.md shows what comes of it; `python -m tests.matrix.page` writes that page.
"""

import json
import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from jnrrdz.errors import JnrrdzError
from tests.matrix.doors import DOORS, FORMS
from tests.matrix.outcomes import line_of
from tests.matrix.page import PAGE, page
from tests.matrix.refusals import REFUSALS
from tests.matrix.rows import ROWS
from tests.matrix.view import differences
from tests.matrix.wrong import KNOWN_WRONG

FAMILY = r"--codecs auto|codecs=.?auto"
"""Advice of what `proposal` and `standard` refuse."""


def cells():
    """Yield each row with each door; those that are known to be wrong have to fail."""
    for row in ROWS:
        for door in DOORS:
            wrong = line_of(KNOWN_WRONG, row, door)
            marks = [pytest.mark.xfail(reason=wrong.fact, strict=True)] if wrong else []
            yield pytest.param(row, door, marks=marks, id=f"{row.name}-{door.name}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("row", "door"), list(cells()))
def test_cell(session, row, door):
    case = session.case(row)
    expected = door.expect(case)
    refused = line_of(REFUSALS, row, door)
    if refused is not None and session.codecs == "auto":
        with pytest.raises(refused.error, match=refused.message):
            door.go(case)
        is_index = door.name in FORMS
        assert not (is_index and case.has_manifest(door.name)), (
            "refused at the first read"
        )
        return
    try:
        seen = door.go(case)
    except Exception as error:
        if session.codecs == "auto" or not may_refuse(error, door):
            raise
        return
    if seen is not None:
        assert differences(seen, expected, door.parts) == []


def may_refuse(error, door):
    """Return whether a family of codecs other than `auto` may refuse a door so."""
    lines = [line for line in REFUSALS if re.fullmatch(line.doors, door.name)]
    listed = any(
        isinstance(error, line.error) and re.search(line.message, str(error))
        for line in lines
    )
    return listed or (isinstance(error, JnrrdzError) and re.search(FAMILY, str(error)))


ELSEWHERE = {
    "https://awslabs.github.io/osml-imagery-io/codecs/dted": "not read, and refused so",
    "offset": "emitted for N5 with chain='offset' only: tests/n5/test_n5.py",
    "jnrrdz.squeeze": "emitted where arrays are joined",
    "reshape": "emitted where arrays are joined",
}
"""Codecs of ours that no row has, and why."""


@pytest.mark.filterwarnings("ignore")
def test_each_codec_of_ours_is_in_a_row(session):
    codecs = set()
    for row in ROWS:
        for family in ({}, {"codecs": "proposal"}, {"physical": True}):
            try:
                manifest = session.case(row).index(**family)
            except (JnrrdzError, TypeError):
                continue  # a manifest of others has no choice
            references = json.loads(manifest.read_text())["refs"]
            documents = [each for each in references.values() if isinstance(each, str)]
            codecs |= set(re.findall(r'"name": ?"([^"]+)"', " ".join(documents)))
    ours = {each.name for each in entry_points(group="zarr.codecs") if is_ours(each)}
    assert ours - codecs == ELSEWHERE.keys()


def is_ours(entry):
    return entry.value.startswith("jnrrdz.")


@pytest.mark.parametrize("table", [REFUSALS, KNOWN_WRONG], ids=["refusals", "wrong"])
def test_each_line_of_a_table_is_about_a_cell(table):
    used = {id(line_of(table, row, door)) for row in ROWS for door in DOORS}
    assert [line for line in table if id(line) not in used] == []


def test_rows_and_doors_have_names_of_their_own():
    assert len(ROWS) >= 60
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert len({door.name for door in DOORS}) == len(DOORS)


def test_the_page_is_what_the_tables_say():
    text = Path(PAGE).read_text(encoding="utf-8")
    assert text == page(), "python -m tests.matrix.page writes it"
