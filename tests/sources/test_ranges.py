"""Coalescing against the naive reading of every span by itself."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.errors import MalformedError
from jnrrdz.sources import ranges
from jnrrdz.sources.ranges import MergedRequest, coalesce, split

SPANS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60)).map(lambda s: (s[0], s[0] + s[1])), max_size=20)
DATA = bytes(range(256)) * 2

CASES = {
    "nothing": ([], 0, 100, []),
    "an empty span asks for nothing": ([(5, 5)], 0, 100, []),
    "touching spans": ([(0, 10), (10, 20)], 0, 100, [MergedRequest(0, 20, (0, 1))]),
    "a gap too wide": ([(0, 10), (12, 20)], 1, 100, [MergedRequest(0, 10, (0,)), MergedRequest(12, 20, (1,))]),
    "a gap just narrow enough": ([(0, 10), (12, 20)], 2, 100, [MergedRequest(0, 20, (0, 1))]),
    "out of order": ([(10, 20), (0, 10)], 0, 100, [MergedRequest(0, 20, (1, 0))]),
    "the limit divides": (
        [(0, 10), (10, 20), (20, 30)],
        0,
        20,
        [MergedRequest(0, 20, (0, 1)), MergedRequest(20, 30, (2,))],
    ),
    "one span may pass the limit": ([(0, 50)], 0, 20, [MergedRequest(0, 50, (0,))]),
    "what lies inside joins beyond the limit": ([(0, 50), (10, 20)], 0, 20, [MergedRequest(0, 50, (0, 1))]),
    "the same twice": ([(3, 9), (3, 9)], 0, 100, [MergedRequest(3, 9, (0, 1))]),
}


@pytest.mark.parametrize(("spans", "gap", "limit", "expected"), CASES.values(), ids=CASES)
def test_coalesce(spans, gap, limit, expected):
    assert coalesce(spans, gap=gap, limit=limit) == expected


@given(SPANS, st.integers(0, 40), st.integers(1, 200))
def test_merged_requests_serve_every_span_as_if_read_alone(spans, gap, limit):
    merged = coalesce(spans, gap=gap, limit=limit)
    pieces = [b""] * len(spans)
    for request in merged:
        for index, piece in split(request, DATA[request.start : request.stop], spans):
            pieces[index] = piece
    assert pieces == [DATA[start:stop] for start, stop in spans]


@given(SPANS, st.integers(0, 40), st.integers(1, 200))
def test_merged_requests_hold_what_was_promised(spans, gap, limit):
    merged = coalesce(spans, gap=gap, limit=limit)
    longest = max((stop - start for start, stop in spans), default=0)
    wanted = {byte for start, stop in spans for byte in range(start, stop)}
    assert all(request.stop - request.start <= max(limit, longest) for request in merged)
    for request in merged:
        unasked = [byte not in wanted for byte in range(request.start, request.stop)]
        runs = "".join("x" if u else " " for u in unasked).split()
        assert not unasked[0]
        assert not unasked[-1]
        assert all(len(run) <= gap for run in runs)


@given(SPANS)
def test_without_a_limit_no_two_requests_could_be_one(spans):
    merged = coalesce(spans, gap=5, limit=10**9)
    assert all(after.start - before.stop > 5 for before, after in itertools.pairwise(merged))


def test_data_that_ends_early_gives_short_pieces():
    spans = [(0, 4), (2, 8), (6, 9)]
    (merged,) = coalesce(spans)
    assert dict(split(merged, b"abcde", spans)) == {0: b"abcd", 1: b"cde", 2: b""}


@pytest.mark.parametrize("span", [(-1, 5), (5, 4), (0, 2**63), (-5, -1)])
def test_a_span_that_no_file_can_have(span):
    with pytest.raises(MalformedError) as error:
        ranges.check([(0, 1), span])
    assert error.value.offset == span[0]
