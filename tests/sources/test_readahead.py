"""Read-ahead over a source that counts, against slices of the same bytes."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jnrrdz.core.state import Validators
from jnrrdz.errors import DriftError, MalformedError
from jnrrdz.sources.readahead import ReadAhead

KB = 1024


class Counting:
    """A source that remembers every span it was asked."""

    url = "memory://counting"

    def __init__(self, data):
        self.data = data
        self.asked = []
        self.rounds = 0
        self.sizes = 0

    @property
    def validators(self):
        self.sizes += 1
        return Validators(len(self.data))

    def read(self, spans):
        self.asked += spans
        self.rounds += 1
        return [self.data[start:stop] for start, stop in spans]


def pattern(size):
    return (bytes(range(251)) * (size // 251 + 1))[:size]


@settings(deadline=None)
@given(
    st.integers(0, 5000),
    st.lists(st.tuples(st.integers(0, 6000), st.integers(0, 1500)), max_size=30),
    st.integers(1, 300),
    st.integers(300, 1000),
    st.integers(1, 3000),
)
def test_every_read_is_the_slice(size, reads, first, largest, keep):
    source = Counting(pattern(size))
    read = ReadAhead(source, first=first, largest=largest, keep=keep)
    for start, length in reads:
        assert read(start, start + length) == source.data[start : start + length]
    assert read.requests == len(source.asked)
    assert read.bytes_read == sum(len(source.data[start:stop]) for start, stop in source.asked)
    assert all(stop <= size for _, stop in source.asked[1:])


@settings(deadline=None)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=40))
def test_nothing_is_read_twice_while_it_is_kept(steps):
    source = Counting(pattern(20_000))
    read = ReadAhead(source, first=256, largest=2048)
    at = 0
    for step in steps:
        read(max(at - 300, 0), at + step)
        at += step
    spans = sorted(source.asked)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_the_head_is_one_request_and_tells_before_the_size_is_asked():
    source = Counting(pattern(100 * KB))
    read = ReadAhead(source)
    assert read(4, 8) == source.data[4:8]
    assert (source.asked, source.sizes) == ([(0, 32 * KB)], 1)


def test_a_walk_doubles_what_it_holds_with_each_request():
    source = Counting(pattern(1000 * KB))
    read = ReadAhead(source, largest=256 * KB)
    for start in range(0, 1000 * KB, 100):
        read(start, min(start + 100, 1000 * KB))
    edges = [0, 32, 64, 128, 256, 512, 768, 1000]
    assert source.asked == [(a * KB, b * KB) for a, b in itertools.pairwise(edges)]


def test_a_jump_starts_again_with_a_small_block():
    source = Counting(pattern(1000 * KB))
    read = ReadAhead(source)
    for start in (0, 40 * KB, 500 * KB, 900 * KB):
        read(start, start + 10)
    blocks = [0, 32 * KB], [40 * KB, 72 * KB], [500 * KB, 532 * KB], [900 * KB, 932 * KB]
    assert source.asked == [tuple(block) for block in blocks]


def test_a_large_array_is_one_request_of_just_its_bytes():
    source = Counting(pattern(20_000 * KB))
    read = ReadAhead(source)
    read(0, 100)
    start = 30 * KB  # its first bytes are in the head already
    assert read(start, start + 12_000 * KB) == source.data[start : start + 12_000 * KB]
    assert source.asked == [(0, 32 * KB), (32 * KB, 12_030 * KB)]


def test_gaps_between_blocks_are_fetched_together():
    source = Counting(pattern(100 * KB))
    read = ReadAhead(source, first=KB)
    read(50 * KB, 50 * KB + 1)
    source.asked.clear()
    assert read(KB - 5, 90 * KB) == source.data[KB - 5 : 90 * KB]
    assert source.asked == [(KB, 50 * KB), (51 * KB, 90 * KB)]


def test_the_cache_is_bounded_and_forgets_what_was_used_longest_ago():
    source = Counting(pattern(100 * KB))
    read = ReadAhead(source, first=KB, keep=3 * KB)
    for start in (0, 20 * KB, 40 * KB, 0, 60 * KB):
        read(start, start + 1)
    source.asked.clear()
    read(0, 1)
    read(40 * KB, 40 * KB + 1)
    assert source.asked == []
    read(20 * KB, 20 * KB + 1)
    assert source.asked == [(20 * KB, 21 * KB)]


@pytest.mark.parametrize("span", [(-1, 3), (9, 3), (0, 2**64)])
def test_an_absurd_range_says_where(span):
    with pytest.raises(MalformedError, match="a range from byte") as error:
        ReadAhead(Counting(b"abc"))(*span)
    assert (error.value.offset, error.value.url) == (span[0], "memory://counting")


def test_a_source_that_has_shrunk_is_an_error():
    source = Counting(pattern(100 * KB))
    read = ReadAhead(source)
    read(0, 1)
    source.data = source.data[: 50 * KB]
    with pytest.raises(DriftError, match="has changed"):
        read(40 * KB, 90 * KB)


def test_jumps_of_one_stride_are_fetched_together():
    """A thousand directories 100 kB apart: each was a request of its own, after the one before."""
    stride, count = 100 * KB, 1000
    source = Counting(pattern(stride * count + KB))
    read = ReadAhead(source)
    for number in range(count):
        start = number * stride
        assert read(start, start + 300) == source.data[start : start + 300]
    assert source.rounds < 30
    assert len(source.asked) < count + 70


def test_jumps_of_other_strides_fetch_nothing_ahead():
    source = Counting(pattern(2000 * KB))
    read = ReadAhead(source)
    places = [0, 100 * KB, 250 * KB, 420 * KB, 900 * KB, 1000 * KB, 1500 * KB]
    for start in places:
        assert read(start, start + 300) == source.data[start : start + 300]
    assert len(source.asked) == len(places)


@given(
    st.integers(1, 400),
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=40),
    st.integers(1, 64),
    st.integers(1, 3000),
)
def test_strides_change_no_byte(stride, jumps, first, keep):
    source = Counting(pattern(9000))
    read = ReadAhead(source, first=first, largest=500, keep=keep)
    for number, length in jumps:
        start = number * stride
        assert read(start, start + length) == source.data[start : start + length]
