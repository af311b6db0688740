"""Blocks of a tree that a manifest spells one by one, as columns again."""

import numpy as np
import pytest

import jnrrdz
from jnrrdz.core.refs import FEW
from jnrrdz.core.tree_files import GridFiles
from jnrrdz.manifests.groups import common_folder, group_from_manifest, indices
from jnrrdz.manifests.manifest import load
from tests import writers

ROWS = [(x, y) for x in range(12) for y in range(11)]


@pytest.fixture
def container(tmp_path):
    """Return a tree of many one-byte blocks, and its values x first."""
    folder = writers.n5_attributes(tmp_path / "c.n5/a", **writers.n5_document([12, 11], [1, 1]))
    for x, y in ROWS:
        (folder / str(x)).mkdir(parents=True, exist_ok=True)
        (folder / f"{x}/{y}").write_bytes(writers.n5_block(np.full((1, 1), x * 11 + y, "u1")))
    return tmp_path / "c.n5"


@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.parametrize("relative", [False, True])
def test_many_files_of_a_tree_are_columns(container, tmp_path, form, relative):
    assert len(ROWS) > FEW
    jnrrdz.index(container, tmp_path / f"r.{form}", relative=relative)
    group = group_from_manifest(load(str(tmp_path / f"r.{form}")))
    refs = group.children["a"].children["data"].refs
    assert isinstance(refs.sources, GridFiles)
    assert list(refs.sources) == [refs.sources[number] for number in range(len(ROWS))]
    assert [url for chunk in range(refs.chunks) for url, _, _ in refs.ranges(chunk)] == [
        f"{tmp_path}/c.n5/a/{x}/{y}" for y in range(11) for x in range(12)
    ]
    assert [record.url for record in group.sources] == [f"{tmp_path}/c.n5/{name}" for name in ("", "a/attributes.json")]
    found = jnrrdz.open_group(group)["a/data"][...]
    np.testing.assert_array_equal(found, np.arange(132, dtype="u1").reshape(12, 11).T)


@pytest.mark.parametrize("link", ["3/4", "5", "folder"])
def test_links_are_looked_at_one_by_one(container, tmp_path, link):
    jnrrdz.index(container, tmp_path / "r.json")
    place = container / "a" / link if link != "folder" else container / "a"
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(jnrrdz.UntrustedSourceError, match="may not reach it"):
        group_from_manifest(load(str(tmp_path / "r.json")))


def test_a_folder_outside_of_the_tree_is_refused(container, tmp_path):
    jnrrdz.index(container, tmp_path / "r.json", relative=True)
    text = (tmp_path / "r.json").read_text()
    (tmp_path / "other.json").write_text(text.replace('["c.n5/a/', '["c.n5/../d/a/'))
    with pytest.raises(jnrrdz.UntrustedSourceError):
        group_from_manifest(load(str(tmp_path / "other.json")))


@pytest.mark.parametrize(
    ("urls", "folder", "rows"),
    [
        (["t/a/0/1", "t/a/0/2"], "t/a/0/", [[1], [2]]),
        (["t/a/9/1", "t/a/10/2"], "t/a/", [[9, 1], [10, 2]]),
        (["t/a/0/1", "t/b/0/2"], "t/", None),
        (["t/a/01", "t/a/2"], "t/a/", None),
        (["t/a/1", "t/a/2/3"], "t/a/", None),
        (["t/a/1", "t/a/-2"], "t/a/", None),
        (["t/a/1", "t/a/2\n3"], "t/a/", None),
        (["t/a/1", "t/a/3000000000"], "t/a/", None),
        (["t/a/1", "t/a/.."], "t/a/", None),
        (["t/a/1", "t/a/"], "t/a/", None),
    ],
)
def test_indices(urls, folder, rows):
    assert common_folder(urls) == folder
    found = indices(urls, folder)
    assert (None if found is None else found.tolist()) == rows
