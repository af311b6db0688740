"""The measure of growth itself: what is linear passes, what is not does not."""

import pytest

from tests.growth import assert_linear, steps


def copies(data):
    """Take the first byte off until none is left: each time the rest is copied."""
    while data:
        data = data[1:]


def test_linear_passes():
    assert_linear(bytes, sum, 100_000)
    assert_linear(range, lambda numbers: [number + 1 for number in numbers], 10_000)


def test_the_square_does_not():
    with pytest.raises(AssertionError, match=r"not linear: 300: .* steps"):
        assert_linear(range, lambda numbers: [a + b for a in numbers for b in numbers], 300)


def test_the_square_within_calls_into_c_does_not():
    with pytest.raises(AssertionError, match=r"not linear: 50000: .* ms"):
        assert_linear(bytes, copies, 50_000)


def test_steps_are_the_same_each_time():
    assert len({steps(sorted, ["b", "a"]) for _ in range(5)}) == 1
