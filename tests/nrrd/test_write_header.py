"""A header has room for its tables, and every line of it is one JSON object."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.errors import UnrepresentableError
from jnrrdz.formats.nrrd.jnrrd import read_lines
from jnrrdz.formats.nrrd.write import Table, TiledHeader


@given(st.lists(st.integers(0, 10**12 - 1), min_size=1, max_size=50), st.text(max_size=20))
def test_tables_fit_into_the_room(numbers, text):
    header = TiledHeader([("jnrrd", "0004"), ("content", text)], [Table("offset_table", len(numbers), 12)])
    found = header.text({"offset_table": numbers})
    assert len(found) == header.length
    *lines, blank, rest = found.split(b"\n")
    assert (blank, rest) == (b"", b"")
    assert [json.loads(line) for line in lines] == [
        {"jnrrd": "0004"}, {"content": text}, {"tile:offset_table": numbers}
    ]  # fmt: skip
    read = read_lines(lambda start, stop: (found + b"{\xff")[start:stop])
    assert read.data_start == header.length
    assert dict(read.items)["tile:offset_table"] == numbers


def test_too_many_tiles_are_refused_before_anything_is_written():
    with pytest.raises(UnrepresentableError, match="make tiles larger"):
        TiledHeader([("jnrrd", "0004")], [Table("metadata", 1 << 20, 150)])
