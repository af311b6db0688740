import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import UnrepresentableError
from jnrrdz.manifests.written_refs import MISSING, remedy, spans

cell = st.tuples(st.integers(0, 60), st.integers(1, 9))
grid = st.lists(st.lists(cell, max_size=4), max_size=8)


def refs_of(rows, source=0):
    flat = np.array([c for row in rows for c in row], np.int64).reshape(-1, 2)
    indptr = np.cumsum([0, *map(len, rows)])
    return ChunkRefs(("/a", "/b"), indptr, np.full(len(flat), source, np.int32), flat[:, 0], flat[:, 1])


def naive(rows):
    for row in rows:
        if not row:
            yield (MISSING, 0, 0, False)
            continue
        start, stop = min(o for o, _ in row), max(o + n for o, n in row)
        yield (1, start, stop - start, covered(row) != list(range(start, stop)))


def covered(row):
    return [byte for o, n in row for byte in range(o, o + n)]


@given(grid)
def test_spans_are_those_of_each_chunk(rows):
    found = spans(refs_of(rows, source=1), "p", single_range=False)
    scattered = np.isin(np.arange(len(rows)), found.scattered)
    assert list(zip(found.source, found.start, found.length, scattered, strict=True)) == list(naive(rows))
    if any(len(set(covered(row))) < len(covered(row)) for row in rows):
        with pytest.raises(UnrepresentableError, match=r"ranges that overlap.*--precinct-windows never"):
            spans(refs_of(rows, source=1), "p", single_range=True)
        return
    hidden = spans(refs_of(rows, source=1), "p", single_range=True)
    assert len(hidden.scattered) == 0
    np.testing.assert_array_equal(hidden.length, found.length)


def test_what_helps_depends_on_the_ranges():
    assert remedy(refs_of([[(5, 2)], [(10, 2), (20, 2)]])).startswith("--single-range")
    assert remedy(refs_of([[(5, 2)], [(10, 2), (20, 2), (11, 3)]])).startswith("--precinct-windows never")


@given(grid, st.integers(0, 8), st.integers(0, 8))
def test_a_slice_is_the_spans_of_the_slice(rows, first, stop):
    stop = max(first, stop)
    part, alone = (
        spans(refs_of(rows), "p", single_range=False).slice(first, stop),
        spans(refs_of(rows[first:stop]), "p", single_range=False),
    )
    for column in ("source", "start", "length", "scattered"):
        np.testing.assert_array_equal(getattr(part, column), getattr(alone, column))


def test_single_chunks_cost_no_copy():
    refs = ChunkRefs.single("/a", np.arange(5) + 1, np.ones(5))
    assert spans(refs, "p", single_range=False).start is refs.offset


def test_an_empty_chunk_and_a_mixed_one_are_named():
    with pytest.raises(UnrepresentableError, match=r"/a: p, chunk 2: a chunk of no bytes.*byte 7"):
        spans(ChunkRefs.single("/a", [5, 6, 7], [1, 1, 0]), "p", single_range=False)
    mixed = ChunkRefs(("/a", "/b"), np.array([0, 1, 3]), np.array([1, 0, 1], np.int32), np.arange(3), np.ones(3, int))
    with pytest.raises(UnrepresentableError, match=r"/b: p, chunk 1: .*several sources"):
        spans(mixed, "p", single_range=True)
