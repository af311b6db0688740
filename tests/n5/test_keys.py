"""Keys of a container, sorted into metadata and blocks."""

import numpy as np
import pytest

from jnrrdz.core.state import Validators
from jnrrdz.formats.n5.blocks import TreeKeys


def sorted_keys(*keys):
    found = TreeKeys()
    found.add(list(keys), list(range(len(keys))), [0] * len(keys))
    return found


@pytest.mark.parametrize(
    ("keys", "dataset", "axes", "expected"),
    [
        (["0/1", "2/3"], "", 2, [[0, 1], [2, 3]]),
        (["a/0/1"], "a", 2, [[0, 1]]),
        (["a/b/5"], "a/b", 1, [[5]]),
        (["a/7/0/1", "a/8/0/1"], "a/8", 2, [[0, 1]]),
        (["7/0/1", "7/1/1"], "7", 2, [[0, 1], [1, 1]]),
        (["a/0"], "a", 2, []),
        (["a/0/1/2"], "a", 2, []),
        (["ab/0/1"], "a", 2, []),
        (["a/00/1", "a/0/.1", "a/0/1.tmp", "a/-1/0", "a/1234567890/1"], "a", 2, []),
    ],
)
def test_blocks_of_a_dataset(keys, dataset, axes, expected):
    index, sizes, _ = sorted_keys(*keys).blocks(dataset, axes)
    assert index.tolist() == expected
    assert len(sizes) == len(expected)


def test_datasets_called_by_numbers_in_the_order_of_a_store():
    places = [(dataset, at) for dataset in range(12) for at in range(12)]
    found = sorted_keys(*sorted(f"v/{dataset}/{at}" for dataset, at in places))  # one page: 10 comes before 2
    flat = found.blocks("v", 2)  # the same keys, taken as blocks of the folder
    assert sorted(map(tuple, flat.places.tolist())) == places
    for dataset in range(12):
        assert sorted(found.blocks(f"v/{dataset}", 1).places.tolist()) == [[at] for at in range(12)]


def test_pages_add_up_and_sizes_stay_with_their_blocks():
    found = TreeKeys()
    found.add(["v/0/0", "attributes.json"], [10, 3], [5, '"a"'])
    found.add(["v/attributes.json", "v/1/0"], [4, 20], [0, 6])
    index, sizes, versions = found.blocks("v", 2)
    assert dict(zip(map(tuple, index.tolist()), sizes.tolist(), strict=True)) == {(0, 0): 10, (1, 0): 20}
    assert dict(zip(map(tuple, index.tolist()), versions.tolist(), strict=True)) == {(0, 0): 5, (1, 0): 6}
    assert found.documents == {"": Validators(3, '"a"'), "v": Validators(4)}
    assert index.dtype == np.int32
