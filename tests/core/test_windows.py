"""Which chunks a window overlaps is what numpy's own indexing says."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.core.windows import chunks_along, chunks_under, overlaps, overlaps_along


@st.composite
def windows(draw):
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    shape = [draw(st.integers(1, 20)) for _ in sizes]
    spans = [sorted(draw(st.tuples(st.integers(0, size), st.integers(0, size)))) for size in shape]
    return shape, sizes, tuple(slice(*span) for span in spans)


@given(windows())
def test_the_parts_of_chunks_make_up_the_window(case):
    shape, sizes, window = case
    elements = np.arange(np.prod(shape)).reshape(shape)
    found = np.full(elements[window].shape, -1)
    chunks = []
    for chunk, within, place in overlaps(window, sizes):
        corner = tuple(slice(at * size, (at + 1) * size) for at, size in zip(chunk, sizes, strict=True))
        found[place] = elements[corner][within]
        chunks.append(chunk)
    np.testing.assert_array_equal(found, elements[window])
    assert chunks == sorted(set(chunks)) == list(chunks_under(window, sizes))


def test_one_axis():
    assert chunks_along(5, 21, 10) == range(3)
    assert chunks_along(10, 20, 10) == range(1, 2)
    assert overlaps_along(5, 12, 10) == [(0, slice(5, 10), slice(0, 5)), (1, slice(0, 2), slice(5, 7))]
