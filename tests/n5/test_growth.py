"""Many data sets, blocks and folders: time grows with their number and no faster, depth is bounded."""

import json

import numpy as np
import pytest

import jnrrdz
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.n5.attributes import cosem_transforms, default_header, place_of
from jnrrdz.formats.n5.blocks import TreeKeys
from jnrrdz.formats.n5.scan import scan_n5
from jnrrdz.options import ScanOptions
from tests.growth import assert_linear
from tests.writers import n5_block, n5_document

DATASET = n5_document([4, 4], [4, 4])
BLOCK = n5_block(np.zeros((4, 4), "u1"))


class Container:
    """A tree in memory that is listed as an object store is."""

    def __init__(self, files):
        self.files = files
        self.url = "s3://bucket/v.n5/"
        self.requests = self.bytes_read = 0
        self.latest = 0.0

    def pages(self):
        keys = list(self.files)
        for first in range(0, len(keys), 1000):
            some = keys[first : first + 1000]
            yield some, [len(self.files[key]) for key in some], ['"etag"'] * len(some)

    def read(self, keys, stop):
        return [self.files[key][:stop] for key in keys]


CONTAINERS = {
    "beside each other": lambda number: {f"d{n}": DATASET for n in range(number)},
    "called by numbers": lambda number: {str(n): DATASET for n in range(number)},
    "in folders of their own": lambda number: {f"{n}a/b/c": DATASET for n in range(number)},
}


def container(made):
    files = {}
    for path, attributes in made.items():
        files[path if "." in path else f"{path}/attributes.json"] = json.dumps(attributes).encode()
        if "." not in path:
            files[f"{path}/0/0"] = BLOCK
    return Container(files)


@pytest.mark.parametrize("name", CONTAINERS)
def test_data_sets(name):
    assert_linear(lambda size: container(CONTAINERS[name](size)), lambda tree: scan_n5(tree, ScanOptions()), 30)


def test_blocks():
    def make(size):
        side = int(np.sqrt(size))
        about = {**DATASET, "dimensions": [4 * side, 4 * -(-size // side)]}
        block = BLOCK
        blocks = {f"v/{n % side}/{n // side}": block for n in range(size)}
        return Container({"v/attributes.json": json.dumps(about).encode(), **blocks})

    assert_linear(make, lambda tree: scan_n5(tree, ScanOptions(chain="n5_default")), 1000)


def test_levels_that_a_folder_lists():
    def make(size):
        levels = [{"path": f"s{number}", "transform": {"scale": [1, 1], "order": "C"}} for number in range(size)]
        return {"": {"multiscales": [{"datasets": levels}]}, **{f"s{number}": DATASET for number in range(size)}}

    def run(nodes):
        transforms = cosem_transforms(nodes)
        assert all(place_of(path, 2, nodes, transforms).scale == (1.0, 1.0) for path in nodes if path)

    assert_linear(make, run, 200)


def test_keys_of_data_sets_that_are_called_by_numbers():
    def make(size):
        return [f"{number}/0/{at}" for number in range(size) for at in range(4)]

    def run(keys):
        found = TreeKeys()
        for first in range(0, len(keys), 1000):
            some = keys[first : first + 1000]
            found.add(some, [20] * len(some), ['"etag"'] * len(some))
        for number in range(len(keys) // 4):
            index, sizes, _ = found.blocks(str(number), 2)
            assert index.tolist() == [[0, at] for at in range(4)]
            assert sizes.tolist() == [20] * 4

    assert_linear(make, run, 1500)


@pytest.mark.parametrize("depth", [65, 800])
def test_folders_without_end_are_refused_by_name(tmp_path, depth):
    path = "/".join("d" * depth)
    folder = tmp_path / "v.n5" / path
    folder.mkdir(parents=True)
    (folder / "attributes.json").write_text(json.dumps(DATASET))
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=rf"v\.n5/{path}/attributes\.json: path: a data set {depth} folders"):
            jnrrdz.scan(tmp_path / "v.n5")
        if depth == 800:
            with pytest.raises(UnsupportedError, match=f"a data set {depth} folders deep; 64 are read"):
                jnrrdz.index(tmp_path / "v.n5", tmp_path / "r.json")


def test_a_data_set_as_deep_as_is_read(tmp_path):
    path = "/".join("d" * 64)
    folder = tmp_path / "v.n5" / path
    (folder / "0").mkdir(parents=True)
    (folder / "attributes.json").write_text(json.dumps(DATASET))
    (folder / "0/0").write_bytes(default_header((4, 4)) + bytes(range(16)))
    jnrrdz.index(tmp_path / "v.n5", tmp_path / "r.json")
    found = jnrrdz.open_group(tmp_path / "r.json")[f"{path}/data"]
    np.testing.assert_array_equal(found[...].ravel(), range(16))
