"""URLs spelt from places in a grid: the same as a tuple of texts, to every writer."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree_files import GridFiles

ROWS = np.array([[0, 3, 1], [1, 0, 20], [0, 0, 0]], np.int32)
FILES = GridFiles("s3://b/v/", ("s3://b/v/a/", "s3://b/v/c/"), ROWS)
TEXTS = ["s3://b/v/a/3/1", "s3://b/v/c/0/20", "s3://b/v/a/0/0"]


def test_it_is_a_sequence_of_texts():
    assert list(FILES) == TEXTS
    assert FILES[-1] == TEXTS[-1]
    assert FILES[1:] == tuple(TEXTS[1:])
    assert len(FILES) == 3


def test_it_moves_with_its_tree():
    assert list(FILES.moved("v/")) == [text.removeprefix("s3://b/") for text in TEXTS]


def test_parts_keep_their_folders():
    assert list(GridFiles.joined([FILES, FILES])) == TEXTS * 2
    assert list(FILES) == TEXTS


def refs_of(sources):
    count = len(sources)
    numbers = np.arange(count, dtype=np.int32)
    return ChunkRefs(sources, np.arange(count + 1), numbers, np.zeros(count, np.int64), np.ones(count, np.int64))


def test_a_table_of_sources_names_the_tree():
    assert tuple(refs_of(FILES).named) == ("s3://b/v/",)
    assert tuple(refs_of(tuple(TEXTS)).named) == tuple(TEXTS)


@given(numbers=st.lists(st.integers(-1, 199), max_size=50), grid=st.booleans())
def test_spelt_gives_each_number_its_url(numbers, grid):
    rows = np.column_stack((np.zeros(200, np.int32), np.arange(200, dtype=np.int32)))
    files = GridFiles("t/", ("t/",), rows)
    urls, places = refs_of(files if grid else tuple(files)).spelt(np.array(numbers, np.int32))
    found = [None if place < 0 else urls[place] for place in places.tolist()]
    assert found == [None if number < 0 else f"t/{number}" for number in numbers]
    assert len(urls) <= len(set(numbers))
