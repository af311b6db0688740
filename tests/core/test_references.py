"""Every form of references gives what a list of each chunk's ranges gives."""

import io
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jnrrdz.core import large_refs
from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.large_refs import ConcatRefs, Spool, SpooledRefs
from jnrrdz.core.refs import SPARSE_FROM, ChunkRefs, MappedRefs, SparseRefs, refs_of_stored
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import UnsupportedError
from jnrrdz.manifests import parquet
from jnrrdz.manifests.manifest import load
from jnrrdz.manifests.parquet_records import ParquetRefs

URLS = ("a", "b", "c")


@st.composite
def chunks(draw):
    """For each chunk its ranges (all in one source), or its inline bytes."""
    source = st.integers(0, len(URLS) - 1)
    ranges = st.lists(st.tuples(st.integers(0, 99), st.integers(1, 9)), max_size=3)
    chunk = st.tuples(source, ranges) | st.binary(min_size=1, max_size=2)
    return draw(st.lists(chunk, min_size=1, max_size=12))


def meaning(cells):
    """Return what `lookup` gives for each chunk."""
    return [cell if isinstance(cell, bytes) else [(URLS[cell[0]], *pair) for pair in cell[1]] for cell in cells]


def columns(cells, *, versions=False):
    rows = [[] if isinstance(cell, bytes) else cell[1] for cell in cells]
    source = [cell[0] for cell in cells if not isinstance(cell, bytes) for _ in cell[1]]
    pairs = np.array([pair for row in rows for pair in row], np.int64).reshape(-1, 2)
    inline = {number: cell for number, cell in enumerate(cells) if isinstance(cell, bytes)}
    version = 7 * pairs[:, 0] + 1 if versions else None
    indptr = np.cumsum([0, *map(len, rows)])
    return ChunkRefs(URLS, indptr, np.array(source, np.int32), pairs[:, 0], pairs[:, 1], inline, version)


def sparse(cells, **options):
    whole = columns(cells, **options)
    rows = whole.present
    return SparseRefs(whole.take(rows), rows, whole.chunks)


def concatenated(cells, **options):
    half = len(cells) // 2
    parts = [part for part in (cells[:half], cells[half:]) if part]
    refs = [columns(part, **options) for part in parts]
    return ConcatRefs(refs, [(len(part),) for part in parts], 0)


def spooled(cells, **options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_refs, "_FEW", 0)
        refs = Spool(io.BytesIO, 0).keep(columns(cells, **options))
    assert isinstance(refs, SpooledRefs)
    return refs


def mapped(cells, **options):
    return MappedRefs(sparse(cells, **options), lambda part: part, URLS)


FORMS = {
    "columns": columns,
    "sparse": sparse,
    "concatenated": concatenated,
    "spooled": spooled,
    "mapped": mapped,
}


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=60, deadline=None)
@given(cells=chunks(), data=st.data())
def test_each_form_gives_the_same(form, cells, data):
    refs = FORMS[form](cells)
    meant = meaning(cells)
    assert [refs.lookup(chunk) for chunk in range(refs.chunks)] == meant
    whole = refs.columns()
    assert [whole.lookup(chunk) for chunk in range(whole.chunks)] == meant
    assert refs.present.tolist() == [chunk for chunk, cell in enumerate(meant) if cell]
    start, stop = sorted(data.draw(st.tuples(st.integers(0, len(cells)), st.integers(0, len(cells)))))
    part = refs.part(start, stop)
    assert [part.lookup(chunk) for chunk in range(part.chunks)] == meant[start:stop]
    every = [(first + chunk, part.lookup(chunk)) for first, part in refs.parts() for chunk in range(part.chunks)]
    assert [pair for pair in every if pair[1]] == [pair for pair in enumerate(meant) if pair[1]]
    chosen = data.draw(st.lists(st.integers(0, len(cells) - 1), max_size=6))
    taken = refs.take(np.array(chosen, np.int64))
    assert [taken.lookup(chunk) for chunk in range(taken.chunks)] == [meant[chunk] for chunk in chosen]


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=60, deadline=None)
@given(cells=chunks(), data=st.data())
def test_many_chunks_at_once_are_those_one_by_one(form, cells, data):
    refs = FORMS[form](cells)
    chosen = data.draw(st.lists(st.integers(0, len(cells) - 1), max_size=6))
    ranges = refs.ranges_of(np.array(chosen, np.int64))
    for place, chunk in enumerate(chosen):
        cell = meaning(cells)[chunk]
        count = -1 if isinstance(cell, bytes) or len(cell) > 1 else len(cell)
        assert ranges.counts[place] == count
        if count == 1:
            url = ranges.urls[ranges.source[place]]
            assert [(url, ranges.offset[place], ranges.length[place])] == cell


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=30, deadline=None)
@given(cells=chunks())
def test_moved_pickled_and_without_versions(form, cells):
    refs = FORMS[form](cells, versions=True)
    versions = [0 if isinstance(cell, bytes) or not cell[1] else 7 * cell[1][0][0] + 1 for cell in cells]
    assert [refs.chunk_version(chunk) for chunk in range(refs.chunks)] == versions
    # a reader compares the state of each object, so that it asks for them one by one
    assert (refs.ranges_of(refs.present).counts == -1).all()
    assert not any(refs.without_versions().chunk_version(chunk) for chunk in range(refs.chunks))
    again = pickle.loads(pickle.dumps(refs))
    assert again == refs
    assert again != refs.without_versions() or not any(versions)
    moved = refs.moved({url: f"m/{url}" for url in refs.named})
    meant = [
        cell if isinstance(cell, bytes) else [(f"m/{url}", *pair) for url, *pair in cell] for cell in meaning(cells)
    ]
    assert [moved.lookup(chunk) for chunk in range(moved.chunks)] == meant


@pytest.mark.parametrize("form", FORMS)
def test_parts_with_a_source_have_all_of_its_ranges(form, monkeypatch):
    monkeypatch.setattr("jnrrdz.core.refs.TOGETHER", 2)
    cells = [(number % 3, [(number, 1)]) for number in range(9)]
    refs = FORMS[form](cells)
    seen = {
        first + chunk
        for first, part in refs.parts_with(frozenset("b"))
        for chunk in range(part.chunks)
        if any(url == "b" for url, _, _ in part.lookup(chunk))
    }
    assert seen == {1, 4, 7}
    assert list(refs.parts_with(frozenset("x"))) == []
    shards = [first for shard in (1, 2, 3) for first, _ in refs.parts((shard, 3))]
    assert shards == [first for first, _ in refs.parts()] == [0, 2, 4, 6, 8]


def test_references_in_parquet_files_give_the_same(tmp_path):
    cells = [(0, [(5, 2)]), (1, []), b"in", (2, [(1, 1), (9, 3)]), (1, [(7, 7)])]
    array = VirtualArray((5,), np.dtype("u1"), (1,), (bytes_(None),), columns(cells), ("x",))
    target = str(tmp_path / "a.parquet")
    parquet.write(VirtualGroup({"data": array}), target, record_size=2)
    refs = load(target).arrays["data"]
    assert isinstance(refs, ParquetRefs)
    assert [refs.lookup(chunk) for chunk in range(5)] == meaning(cells)
    assert pickle.loads(pickle.dumps(refs)) == refs
    assert refs.present.tolist() == [0, 2, 3, 4]
    assert sorted(refs.sources) == list(URLS)


def test_a_sparse_grid_that_no_memory_holds():
    """Chunks that are present are found at once, and the whole grid is refused."""
    rows = np.array([3, 1 << 40], np.int64)
    refs = SparseRefs(columns([(0, [(1, 1)]), (1, [(2, 2)])]), rows, 1 << 41)
    assert refs.lookup(1 << 40) == [("b", 2, 2)]
    assert refs.lookup(4) == []
    assert [first + part.present.tolist()[0] for first, part in refs.parts()] == rows.tolist()
    with pytest.raises(UnsupportedError, match="chunks are taken at once"):
        refs.columns()


def rows_of_chunks(count):
    return ChunkRefs.single("a", np.arange(count), np.ones(count, np.int64))


@pytest.mark.parametrize(("count", "is_sparse"), [(SPARSE_FROM // 4 - 1, True), (SPARSE_FROM // 4, False)])
def test_a_grid_is_sparse_where_few_chunks_are_stored(count, is_sparse):
    numbers = 3 * np.arange(count, dtype=np.int64)
    refs = refs_of_stored(SPARSE_FROM, numbers, rows_of_chunks(count))
    assert isinstance(refs, SparseRefs) == is_sparse
    assert refs.present.tolist() == numbers.tolist()
    assert refs.lookup(3) == [("a", 1, 1)]
    assert refs.lookup(4) == []


def test_a_small_grid_has_a_row_for_each_chunk():
    rows = ChunkRefs(("a",), np.array([0, 2, 2]), np.zeros(2, np.int32), np.arange(2), np.arange(2), {1: b"x"})
    refs = refs_of_stored(9, np.array([4, 7]), rows)
    assert isinstance(refs, ChunkRefs)
    assert refs.counts.tolist() == [0, 0, 0, 0, 2, 0, 0, 0, 0]
    assert dict(refs.inline) == {7: b"x"}


@pytest.mark.parametrize("chunks", [40, 1 << 20])
def test_references_that_are_gathered_are_the_same(chunks):
    numbers = np.array([3, 17, chunks - 1])
    refs = MappedRefs(SparseRefs(rows_of_chunks(3), numbers, chunks), lambda part: part, ("a",))
    found = refs.gathered()
    assert isinstance(found, SparseRefs) == (chunks > 40)
    assert found.present.tolist() == numbers.tolist()
    assert [found.lookup(number) for number in (3, 17, 18, chunks - 1)] == [
        [("a", 0, 1)],
        [("a", 1, 1)],
        [],
        [("a", 2, 1)],
    ]
    assert found.stored().length.sum() == 3
    assert refs.columns() == found.columns()


def test_whether_a_part_has_any():
    refs = SparseRefs(rows_of_chunks(2), np.array([3, 17]), 40)
    parts = [(0, 3), (0, 4), (4, 17), (4, 18), (18, 40)]
    assert [refs.has_any(*part) for part in parts] == [False, True, False, True, False]
