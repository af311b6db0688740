"""The measure of growth itself: what is linear passes, what is not does not."""

import pytest

from tests.growth import assert_linear


def test_linear_passes():
    assert_linear(bytes, sum, 100_000)


def test_the_square_does_not():
    with pytest.raises(AssertionError, match="not linear: 300: "):
        assert_linear(range, lambda numbers: [a + b for a in numbers for b in numbers], 300)
