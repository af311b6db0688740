"""Levels, the order of tiles, and bands."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.nrrd.write import band, levels


@pytest.mark.parametrize(
    ("shape", "tile", "chunks", "most", "wanted"),
    [
        ((512, 2048, 2048), (64, 256, 256), (64, 64, 64), 1 << 30, (1, 1, 1)),
        ((1000, 1000), (256, 256), (512, 512), 1 << 30, (2, 4)),
        ((1000, 1000), (256, 256), (1, 1000), 1 << 30, (1, 4)),  # strips of one row
        ((1000, 1000), (256, 256), (8, 1000), 1 << 30, (1, 4)),
        ((512, 2048, 2048), (64, 256, 256), (1, 2048, 2048), 1 << 30, (1, 8, 8)),  # planes
        ((512, 2048, 2048), (64, 256, 256), (1, 2048, 2048), 1 << 27, (1, 4, 8)),  # no more than 128 MiB of them
        ((512, 2048, 2048), (64, 256, 256), (1, 2048, 2048), 1, (1, 1, 1)),
        ((3, 1000, 1000), (1, 256, 256), (3, 512, 512), 1 << 30, (3, 4, 4)),
        ((100, 100), (200, 200), (7, 7), 1 << 30, (1, 1)),
    ],
)
def test_bands(shape, tile, chunks, most, wanted):
    assert band(levels(shape, tile, 1, (2,) * len(shape))[0], chunks, 1, most) == wanted


SIZES = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=4)


@given(SIZES, st.integers(1, 400))
def test_bands_follow_the_order_of_tiles_and_cover_all_once(axes, most):
    shape, tile, chunks = zip(*axes, strict=True)
    (level,) = levels(shape, tile, 1, (2,) * len(shape))
    size = band(level, chunks, 1, most)
    seen = []
    for region, tiles in level.bands(size):
        for index in tiles:
            seen.append(index)
            inside = zip(level.region(index), region, strict=True)
            assert all(within.start <= at.start < at.stop <= within.stop for at, within in inside)
    assert seen == list(product(*map(range, level.grid)))
    assert [level.number_of(index) for index in seen] == list(range(level.tiles))
    elements = math.prod(count * side for count, side in zip(size, level.tile, strict=True))
    assert elements <= most or math.prod(size) == 1


@given(SIZES)
def test_a_band_without_a_limit_cuts_no_chunk_between_bands(axes):
    shape, tile, chunks = zip(*axes, strict=True)
    (level,) = levels(shape, tile, 1, (2,) * len(shape))
    size = band(level, chunks, 1, 1 << 40)
    taken = {}
    for number, (region, _) in enumerate(level.bands(size)):
        spans = [range(at.start // c, -(-at.stop // c)) for at, c in zip(region, chunks, strict=True)]
        for chunk in product(*spans):
            assert taken.setdefault(chunk, number) == number


@given(st.lists(st.integers(1, 300), min_size=1, max_size=3), st.integers(1, 4))
def test_sizes_of_levels_are_those_of_the_extension(shape, count):
    try:
        found = levels(tuple(shape), (16,) * len(shape), count, (2,) * len(shape))
    except UnsupportedError as error:
        assert "ask for" in str(error)  # noqa: PT017 - which it is, depends on the sizes
        assert max(shape) < 2 ** (count - 1)
        return
    for number, level in enumerate(found):
        assert level.shape == tuple(max(1, size // 2**number) for size in shape)
        assert level.tile == tuple(min(16, size) for size in level.shape)


@pytest.mark.parametrize("count", [0, 33])
def test_numbers_of_levels(count):
    with pytest.raises(UnsupportedError, match="1 to 32"):
        levels((4, 4), (2, 2), count, (2, 2))
