"""Raw bytes cut into chunks: whatever the shape, each element is in one slab, and slabs are near their target."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.core.slabs import MOST, NEAR, WIDE, cut, step_along

SHAPES = st.lists(st.integers(1, 40), min_size=1, max_size=4).map(tuple)


def covered(slabs):
    """Return how often each element is in a slab, and which chunk of the grid it is in."""
    starts, lengths = slabs.places()
    total = math.prod(slabs.shape)
    times, owner = np.zeros(total, int), np.full(total, -1)
    for number, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        times[start : start + length] += 1
        owner[start : start + length] = number
    return times, owner


def by_grid(slabs):
    """Return the number of the chunk that a regular grid has at each element."""
    grid = [-(-size // step) for size, step in zip(slabs.shape, slabs.chunks, strict=True)]
    places = [axis // step for axis, step in zip(np.indices(slabs.shape), slabs.chunks, strict=True)]
    return np.ravel_multi_index(places, grid).ravel()


@given(shape=SHAPES, itemsize=st.sampled_from([1, 2, 8]), target=st.integers(1, 4000))
def test_each_element_is_in_the_chunk_of_its_place(shape, itemsize, target):
    slabs = cut(shape, itemsize, target)
    times, owner = covered(slabs)
    assert (times == 1).all()
    np.testing.assert_array_equal(owner, by_grid(slabs))
    assert slabs.count == len(slabs.places()[0])


@given(shape=SHAPES, itemsize=st.sampled_from([1, 2, 8]), target=st.integers(16, 4000))
def test_sizes_are_near_the_target(shape, itemsize, target):
    slabs = cut(shape, itemsize, target)
    size, total = math.prod(slabs.chunks) * itemsize, math.prod(shape) * itemsize
    assert size <= WIDE * target
    assert size >= min(total, target / (2 * NEAR))


@given(shape=SHAPES, data=st.data())
def test_no_slab_is_in_two_pieces(shape, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    divisors = [step for step in range(1, shape[axis] + 1) if shape[axis] % step == 0]
    piece = data.draw(st.sampled_from(divisors)) * math.prod(shape[axis + 1 :])
    slabs = cut(shape, 2, data.draw(st.integers(1, 4000)), piece=piece)
    starts, lengths = slabs.places()
    assert ((starts // piece) == ((starts + lengths - 1) // piece)).all()
    assert (covered(slabs)[0] == 1).all()


@given(size=st.integers(1, 10_000), wish=st.integers(1, 10_000))
def test_a_divisor_is_kept_where_one_is_near(size, wish):
    most = min(size, wish)
    near = [step for step in range(1, most + 1) if size % step == 0 and step * NEAR >= most]
    assert step_along(size, wish) == (max(near) if near else most)


@pytest.mark.parametrize(
    ("shape", "itemsize", "target", "chunks"),
    [
        ((2_097_169,), 8, 1 << 24, (2_097_152,)),  # a prime
        ((1, 5_000_011), 8, 1 << 24, (1, 2_097_152)),
        ((1, 1, 4096, 4096), 4, 1 << 24, (1, 1, 1024, 4096)),
        ((365, 720, 1440), 4, 1 << 24, (1, 720, 1440)),
        ((3, 4099, 1000), 4, 1 << 24, (1, 4099, 1000)),
        ((), 8, 1 << 24, ()),
    ],
)
def test_shapes_of_archives(shape, itemsize, target, chunks):
    slabs = cut(shape, itemsize, target)
    assert slabs.chunks == chunks


@pytest.mark.parametrize("shape", [(1 << 50,), (1 << 42, 33), (1 << 40, 1, 1023)])
def test_large_arrays_have_larger_slabs(shape):
    assert cut(shape, 8, 1 << 18).count <= MOST


def test_a_step_after_which_another_file_can_follow_is_preferred_to_a_short_slab():
    months = cut((31, 80, 80), 4, 1 << 19)  # 25.6 kB a day, 20 days are near the target
    assert months.chunks == (1, 80, 80)
    strip = cut((2003, 1009), 2, 1 << 19)  # rows of 2 kB are no chunks
    assert strip.chunks == (2003, 1009)
    prime = cut((2_097_169,), 8, 1 << 19)  # above 16 MB as a whole
    assert prime.count < 64
    assert prime.short
