"""Which image is opened where none is named, what is said of the others, and what a missing group's error names."""

import inspect
import warnings

import numpy as np
import pytest
import tifffile
import xarray as xr

import jnrrdz
from jnrrdz.errors import GIVEN_WARNINGS
from tests.nitf.conftest import nitf_bytes
from tests.writers import n5_dataset

pytestmark = pytest.mark.filterwarnings("error::jnrrdz.ImageChoiceWarning")


@pytest.fixture(autouse=True)
def _nothing_said_yet():
    GIVEN_WARNINGS.clear()


@pytest.fixture
def five(tmp_path):
    """Return a NITF of five images, each of one value."""
    header = {"NROWS": 8, "NCOLS": 8, "NPPBH": 8, "NPPBV": 8}
    path = tmp_path / "five.ntf"
    path.write_bytes(nitf_bytes(*[(bytes([number]) * 64, header) for number in range(5)]))
    return path


def test_what_was_not_opened_is_named_where_the_user_called(five):
    with pytest.warns(jnrrdz.ImageChoiceWarning) as told:
        found, line = xr.open_dataset(five, engine="jnrrdz"), inspect.currentframe().f_lineno
    (warning,) = told
    assert str(warning.message) == (
        "image_0 is opened, one image of 5; the others are image_1, image_2, image_3, image_4. "
        "group='image_1' opens another, open_datatree opens all"
    )
    assert (warning.filename, warning.lineno) == (__file__, line)
    assert found["data"].values.max() == 0


def test_it_is_said_once_in_a_program(five):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            jnrrdz.open_dataset(five)
    assert len(told) == 1


def test_a_named_group_and_a_tree_say_nothing(five):
    assert jnrrdz.open_dataset(five, group="image_3")["data"].values.min() == 3
    assert sorted(jnrrdz.open_datatree(five).children) == [f"image_{number}" for number in range(5)]


def test_levels_of_a_pyramid_are_no_other_images(tmp_path):
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as writer:
        writer.write(np.ones((64, 64), "u1"), subifds=1)
        writer.write(np.ones((32, 32), "u1"), subfiletype=1)
    assert jnrrdz.open_dataset(path)["data"].shape == (64, 64)


@pytest.fixture
def container(tmp_path):
    """Return a function that writes a container of datasets, each of one value."""

    def write(**datasets):
        for name, value in datasets.items():
            n5_dataset(tmp_path / "c.n5" / name.replace("_in_", "/"), np.full((6, 4), value, "u1"), (6, 4))
        return tmp_path / "c.n5"

    return write


def only(dataset):
    """Return the one value of a dataset."""
    (values,) = (set(np.unique(variable).tolist()) for variable in dataset.data_vars.values())
    return values


def test_an_n5_tree_opens_the_image_and_not_its_labels(container):
    found = container(labels=1, raw=2)
    with pytest.warns(jnrrdz.ImageChoiceWarning, match="raw is opened, one image of 2; the others are labels"):
        assert only(jnrrdz.open_dataset(found)) == {2}


def test_a_group_that_holds_groups_opens_the_image_in_it(container):
    found = container(volumes_in_labels=1, volumes_in_raw=2)
    with pytest.warns(jnrrdz.ImageChoiceWarning, match="volumes/raw is opened"):
        assert only(jnrrdz.open_dataset(found, group="volumes")) == {2}


def test_a_group_without_an_image_is_not_given_without_a_word():
    group = jnrrdz.VirtualGroup({"a": jnrrdz.VirtualGroup()}, {"title": "nothing"})
    with pytest.warns(jnrrdz.ImageChoiceWarning, match="the group / holds no image"):
        jnrrdz.open_dataset(group)


def test_a_missing_group_names_those_that_are_there(five, tmp_path):
    with pytest.raises(jnrrdz.JnrrdzError) as caught:
        jnrrdz.open_dataset(five, group="9")
    assert str(caught.value) == (f"{five}: 9: no such group; there are image_0, image_1, image_2, image_3, image_4")
    with pytest.raises(jnrrdz.JnrrdzError, match="image9: no such group; there are image_"):
        jnrrdz.preview(five, group="image9")
    plain = tmp_path / "a.tif"
    tifffile.imwrite(plain, np.ones((4, 4), "u1"))
    with pytest.raises(jnrrdz.JnrrdzError, match="no such group; the file has no groups, so name none"):
        jnrrdz.open_dataset(plain, group="1")


def test_a_scan_is_named_by_its_source(five):
    store = jnrrdz.open_store(jnrrdz.scan(five))
    assert str(store) == str(five)
    assert str(jnrrdz.open_store(jnrrdz.VirtualGroup())) == "a group in memory"
