"""Every method against formulas of its own: Python's integers, scipy, scikit-image; and in any chunks."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.ndimage
import skimage.measure
from hypothesis import given, settings
from hypothesis import strategies as st

from jnrrdz.downsample import Downsampling
from jnrrdz.errors import JnrrdzError, UnsupportedError

METHODS = ["average", "max", "min", "mode", "gaussian", "lanczos"]
DRAW = np.random.default_rng(7)


def whole(shape):
    return tuple(slice(0, size) for size in shape)


def made(source, factors, method, shape=None, missing=None):
    how = Downsampling(method, factors, source.shape, source.dtype, missing)
    region = whole(shape or how.shapes()[0])
    return how.apply(source[how.window(region)], region)


def in_chunks(source, factors, method, grid, missing=None):
    shape, chunks = grid
    how = Downsampling(method, factors, source.shape, source.dtype, missing)
    level = np.empty(shape, source.dtype)
    starts = itertools.product(*[range(0, size, step) for size, step in zip(shape, chunks, strict=True)])
    for start in starts:
        region = tuple(slice(a, min(a + c, s)) for a, c, s in zip(start, chunks, shape, strict=True))
        level[region] = how.apply(source[how.window(region)].copy(), region)
    return level


def blocks(source, factors, shape):
    """Yield the index and the elements of each block as Python has them."""
    for index in np.ndindex(*shape):
        part = source[tuple(slice(i * f, (i + 1) * f) for i, f in zip(index, factors, strict=True))]
        yield index, part.ravel().tolist()


def half_even(number):
    return round(Fraction(number))


def python_block(method, values):
    if method == "average":
        return half_even(Fraction(sum(values), len(values)))
    if method == "mode":
        return min(values, key=lambda value: (-values.count(value), value))
    return {"max": max, "min": min}[method](values)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
@pytest.mark.parametrize("method", ["average", "max", "min", "mode"])
@pytest.mark.parametrize(
    ("shape", "factors"), [((9, 10), (2, 2)), ((7, 11), (3, 4)), ((5, 6, 7), (2, 1, 3)), ((3,), (8,))]
)
@pytest.mark.parametrize("kept", [0, 1])
def test_blocks_of_integers_are_what_pythons_integers_say(dtype, method, shape, factors, kept):
    limits = np.iinfo(dtype)
    source = DRAW.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if method == "mode":
        source = limits.max - DRAW.integers(0, 3, shape).astype(dtype)
    level = Downsampling(method, factors, shape, np.dtype(dtype)).shapes()[kept]
    got = made(source, factors, method, level)
    assert got.dtype == dtype
    for index, values in blocks(source, factors, level):
        assert int(got[index]) == python_block(method, values), index


def test_halves_go_to_the_even_number():
    source = np.array([[0, 1], [1, 2], [2, 3], [-1, 0], [-2, -1]], np.int16)
    assert made(source, (1, 2), "average").ravel().tolist() == [0, 2, 2, 0, -2]
    assert made(np.array([1, 1, 0, 0, 1, 0], bool), (2,), "average").tolist() == [True, False, False]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_the_average_of_floats_is_scikit_images(dtype):
    source = DRAW.normal(size=(12, 18)).astype(dtype)
    wide = source.astype("c16" if dtype[0] == "c" else "f8")
    expected = skimage.measure.block_reduce(wide, (3, 2), np.mean).astype(dtype)
    np.testing.assert_allclose(made(source, (3, 2), "average"), expected, rtol=1e-3 if dtype == "f2" else 1e-6)


@pytest.mark.parametrize("method", ["max", "min"])
def test_extremes_are_scikit_images(method):
    source = DRAW.normal(size=(12, 18)).astype("f4")
    expected = skimage.measure.block_reduce(source, (3, 2), getattr(np, method))
    assert np.array_equal(made(source, (3, 2), method), expected)


def weights_of(method, factor):
    """Return distances and weights at the middle of blocks, by the formulas of the documentation."""
    reach = {"gaussian": factor, "lanczos": 3 * factor}[method]
    distance = np.arange(-4 * factor, 5 * factor) - (factor - 1) / 2
    x = distance / factor
    weight = np.exp(-((distance / (factor / 3)) ** 2) / 2) if method == "gaussian" else np.sinc(x) * np.sinc(x / 3)
    return np.where(np.abs(distance) < reach, weight, 0)


def by_scipy(source, factors, method, shape):
    """Return weighted sums at every element, divided by the sum of weights there, then every f-th of them."""
    sums, norms = source.astype("c16" if source.dtype.kind == "c" else "f8"), np.ones(source.shape)
    for axis, factor in enumerate(factors):
        if factor == 1:
            continue
        weight = weights_of(method, factor)
        # the weights stand from 4 f before a block's first element; scipy has its origin in their middle
        options = {"axis": axis, "mode": "constant", "cval": 0.0, "origin": len(weight) // 2 - 4 * factor}
        options["origin"] = -options["origin"]
        parts = [scipy.ndimage.correlate1d(part, weight, **options) for part in (sums.real, sums.imag)]
        sums = parts[0] + 1j * parts[1] if sums.dtype.kind == "c" else parts[0]
        norms = scipy.ndimage.correlate1d(norms, weight, **options)
    places = np.ix_(*[np.arange(size) * factor for size, factor in zip(shape, factors, strict=True)])
    return (sums / norms)[places]


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c8", "i8"])
@pytest.mark.parametrize("method", ["gaussian", "lanczos"])
@pytest.mark.parametrize("factors", [(2, 2), (3, 1), (4, 5)])
def test_weighted_means_are_scipys(dtype, method, factors):
    source = (DRAW.normal(size=(61, 47)) * 60 + 128).clip(0, 255).astype(dtype)
    shape = Downsampling(method, factors, source.shape, source.dtype).shapes()[0]
    expected = by_scipy(source, factors, method, shape)
    got = made(source, factors, method)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        assert np.array_equal(got, np.rint(expected).clip(limits.min, limits.max).astype(dtype))
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-6 if dtype in {"f4", "c8"} else 1e-12)


def test_the_gaussian_has_the_width_of_scikit_images_pyramids():
    source = DRAW.normal(size=(90, 90))
    sigma = 2 * 3 / 6.0  # skimage.transform.pyramid_reduce's own, for a factor of 3
    smooth = scipy.ndimage.gaussian_filter(source, sigma, truncate=2.0)
    np.testing.assert_allclose(made(source, (3, 3), "gaussian")[2:-2, 2:-2], smooth[1::3, 1::3][2:-2, 2:-2], rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["u1", "i4", "u8", "f2", "f4", "f8"])
def test_a_plane_of_one_value_keeps_it(method, dtype):
    value = np.array(100, dtype)
    got = made(np.full((13, 9), value), (4, 2), method, (4, 5))
    np.testing.assert_allclose(got, value, rtol=1e-15)


CASES = st.tuples(
    st.sampled_from(METHODS),
    st.sampled_from(["u1", "i2", "i8", "f4", "f8", "c8", "?"]),
    st.lists(st.tuples(st.integers(1, 23), st.integers(1, 5), st.integers(1, 6)), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)


@given(CASES)
@settings(max_examples=300, deadline=None)
def test_the_result_does_not_depend_on_chunks(case):
    method, dtype, axes, kept, holes, seed = case
    kind = np.dtype(dtype)
    if kind.kind == "c" and method in {"max", "min", "mode"}:
        return
    shape, factors, chunks = (tuple(axis[part] for axis in axes) for part in range(3))
    source = (np.random.default_rng(seed).normal(size=shape) * 40 + 60).astype(dtype)
    if holes and kind.kind in "fc":
        source[np.random.default_rng(seed + 1).random(shape) < 0.3] = np.nan
    missing = source.flat[0] if holes and kind.kind in "iu" else None
    level = Downsampling(method, factors, shape, kind).shapes()[kept]
    once = made(source, factors, method, level, missing)
    parts = in_chunks(source, factors, method, (level, chunks), missing)
    assert once.tobytes() == parts.tobytes()


# What is missing


@pytest.mark.parametrize("method", ["average", "max", "min", "mode"])
def test_nan_is_left_out_of_blocks_and_stays_where_there_is_nothing_else(method):
    source = np.array([[1, np.nan, np.nan, np.nan], [3, 3, np.nan, np.nan]], "f4")
    expected = {"average": np.float32(7 / 3), "max": 3, "min": 1, "mode": 3}[method]
    got = made(source, (2, 2), method)
    assert got[0, 0] == expected
    assert np.isnan(got[0, 1])


@pytest.mark.parametrize("method", ["average", "max", "min", "mode"])
def test_the_missing_value_is_left_out_as_nan_is(method):
    source = np.array([[1, 9, 9, 9], [3, 3, 9, 9]], "u1")
    expected = {"average": 2, "max": 3, "min": 1, "mode": 3}[method]
    assert made(source, (2, 2), method, missing=9).tolist() == [[expected, 9]]


def test_an_average_that_is_the_missing_value_by_chance_moves_beside_it():
    assert made(np.array([4, 6, 255, 255], "u1"), (2,), "average", missing=5).tolist() == [6, 255]
    assert made(np.array([255, 255], "u1"), (2,), "average", missing=255).tolist() == [255]


@pytest.mark.parametrize("missing", [-9999, 300, 0.5, float("nan")])
def test_a_missing_value_that_the_type_does_not_hold_is_none(missing):
    assert made(np.array([4, 6], "u1"), (2,), "average", missing=missing).tolist() == [5]


@pytest.mark.parametrize("method", ["gaussian", "lanczos"])
def test_weights_of_what_is_missing_go_to_the_rest_if_that_is_half(method):
    source = DRAW.normal(size=(40,)) + 10
    source[20:] = np.nan
    got = made(source, (2,), method)
    assert np.isfinite(got[:10]).all()
    assert np.isnan(got[10:]).all()
    expected = by_scipy(source[:20], (2,), method, (10,))
    np.testing.assert_allclose(got[:10], expected, rtol=1e-12)


# What is refused


@pytest.mark.parametrize("method", ["max", "min", "mode"])
def test_complex_numbers_have_no_order(method):
    with pytest.raises(UnsupportedError, match=f"the {method} of complex64"):
        made(np.ones(4, "c8"), (2,), method)


@pytest.mark.parametrize("method", ["gaussian", "lanczos"])
def test_integers_that_floats_do_not_hold_are_refused_not_rounded(method):
    with pytest.raises(UnsupportedError, match="average is exact"):
        made(np.full(8, 2**48 + 1, "i8"), (2,), method)
    assert made(np.full(8, 2**48 - 1, "i8"), (2,), method).tolist() == [2**48 - 1] * 4


@pytest.mark.parametrize(
    ("method", "factors", "said"),
    [
        ("median", (2,), "average, gaussian"),
        ("max", (0,), "factors"),
        ("max", (2, 2), "factors"),
        ("max", (1 << 31,), "too many"),
    ],
)
def test_what_has_no_meaning_is_refused(method, factors, said):
    with pytest.raises(JnrrdzError, match=said):
        Downsampling(method, factors, (4,), np.dtype("u1"))


def test_a_level_has_one_of_two_shapes():
    how = Downsampling("max", (2, 4, 8), (7, 8, 3), np.dtype("u1"))
    assert how.shapes() == ((3, 2, 1), (4, 2, 1))
    how.check_shape((3, 2, 1))
    how.check_shape((4, 2, 1))
    for shape in [(2, 2, 1), (3, 2, 0), (3, 2)]:
        with pytest.raises(JnrrdzError, match="it would be"):
            how.check_shape(shape)


def test_the_window_is_the_blocks_and_the_margin_of_the_filter():
    for method, margin in [("average", 0), ("gaussian", 2), ("lanczos", 10)]:
        how = Downsampling(method, (4, 1), (100, 100), np.dtype("u1"))
        assert how.window((slice(5, 7), slice(3, 9))) == (slice(20 - margin, 28 + margin), slice(3, 9))
        assert how.window((slice(0, 25), slice(0, 100))) == (slice(0, 100), slice(0, 100))
    assert math.prod(how.factors) == 4
