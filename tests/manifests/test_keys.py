import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zarr.core.chunk_key_encodings import DefaultChunkKeyEncoding, V2ChunkKeyEncoding

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.manifests.documents import ChunkKeys

ZARR = {"default": DefaultChunkKeyEncoding, "v2": V2ChunkKeyEncoding}
grids = st.lists(st.integers(1, 4), max_size=4).map(tuple)
paths = st.sampled_from(["", "data", "a/b", "c", "c/0", "0"])
encodings = st.tuples(st.sampled_from(sorted(ZARR)), st.sampled_from("/."))


def zarr_key(path, encoding, index):
    """What zarr itself calls the chunk: the oracle."""
    name, separator = encoding
    return f"{path}/{ZARR[name](separator=separator).encode_chunk_key(index)}".lstrip("/")


@given(paths, grids, encodings)
def test_every_chunk_is_called_as_zarr_calls_it_and_found_again(path, grid, encoding):
    keys = ChunkKeys.encoded(path, grid, *encoding)
    names = [zarr_key(path, encoding, index) for index in itertools.product(*map(range, grid))]
    assert [keys.key(number) for number in range(math.prod(grid))] == names
    assert [keys.number(name) for name in names] == list(range(len(names)))
    assert keys.numbers(names).tolist() == list(range(len(names)))
    assert keys.numbers(names[::-1]).tolist() == list(range(len(names)))[::-1]


@given(st.lists(st.integers(0, 10**9), min_size=1), st.integers(1, 3))
def test_large_indices_are_read_in_bulk(numbers, axes):
    grid = (1000,) * (axes - 1) + (10**9 + 1,)
    keys = ChunkKeys.encoded("data", grid, "default", "/")
    names = [keys.key(number) for number in numbers]
    expected = [np.ravel_multi_index([int(part) for part in name.split("/")[2:]], grid) for name in names]
    assert keys.numbers_of_all(names).tolist() == expected == numbers


@given(
    st.lists(st.text("c/.01\n ad\u0663", max_size=9), min_size=1, max_size=4),
    grids.filter(bool),
    encodings,
    st.sampled_from(["", "data"]),
)
def test_the_bulk_reader_takes_what_the_single_one_takes(names, grid, encoding, path):
    keys = ChunkKeys.encoded(path, grid, *encoding)
    names = [f"{path}/{name}" if path else name for name in names]
    single = [keys.number(name) for name in names]
    if None in single:
        assert keys.numbers_of_all(names) is None
        with pytest.raises(MalformedError):
            keys.numbers(names)
    else:
        assert keys.numbers_of_all(names).tolist() == single


@pytest.mark.parametrize(
    "key",
    [
        "data/c/2/0", "data/c/0/3", "data/c/00/1", "data/c/0", "data/c/0/1/0", "data/c/-1/0", "data/c/0.1", "data/c/0/",
        "data/c//1", "data/c/+1/0", "data/c/1_0/0", "data/c/\u0660/0", "data/c/0/0\n", "data/d/0/0", "data/c", "c/0/0",
        "data/c/99999999999999999999/0", "",
    ],
)  # fmt: skip
def test_what_names_no_chunk_is_no_chunk(key):
    keys = ChunkKeys.encoded("data", (2, 3), "default", "/")
    assert keys.number(key) is None
    with pytest.raises(MalformedError) as caught:
        keys.numbers(["data/c/0/0", key])
    assert caught.value.field == key


@pytest.mark.parametrize(
    ("grid", "encoding", "separator", "error"),
    [
        ((1,), "default", "-", MalformedError),
        ((1,), "sharded", "/", UnsupportedError),
        ((2**40, 2**40), "default", "/", UnsupportedError),
        ((1,) * 65, "default", "/", UnsupportedError),
    ],
)
def test_encodings_that_cannot_be_read_are_refused(grid, encoding, separator, error):
    with pytest.raises(error):
        ChunkKeys.encoded("data", grid, encoding, separator)
