"""Security markings of NITFs that are put together: each is kept, and the highest holds for all."""

import jbpy
import numpy as np
import pytest

import jnrrdz
from jnrrdz.core.markings import combined
from tests.commands import stack_kinds

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


@pytest.fixture
def marked(tmp_path):
    """Return three NITFs with other classifications, in the order of their dates."""
    files = []
    for day, letter in enumerate("USC", start=1):
        path = tmp_path / f"{letter}_2024010{day}.ntf"
        stack_kinds.nitf(FSCLAS=letter, ISCLAS=letter)(path, day)
        with path.open("rb") as file:  # what an independent reader sees
            read = jbpy.Jbp().load(file)
        assert read["ImageSegments"][0]["subheader"]["ISCLAS"].value == letter
        files.append(path)
    return files


def attributes(refs, path):
    group = jnrrdz.open_group(refs)
    return dict((group[path] if path else group).attrs)


def test_merge_keeps_each_marking_and_the_highest(marked, tmp_path):
    made = jnrrdz.merge(marked, tmp_path / "m.json", concat_dim="time", coord_from=r"_(\d{8})")
    image, file = (attributes(tmp_path / "m.json", path) for path in ("image_0", ""))
    assert (image["security"]["ISCLAS"], file["security"]["FSCLAS"]) == ("S", "S")
    assert [one["ISCLAS"] for one in image["securities"]] == ["U", "S", "C"]
    assert [one["FSCLAS"] for one in file["securities"]] == ["U", "S", "C"]
    assert not [name for name in made.dropped if "secur" in name]
    jnrrdz.merge([tmp_path / "m.json"] * 2, tmp_path / "twice.json", concat_dim="time", keep_order=True, check=False)
    assert [one["ISCLAS"] for one in attributes(tmp_path / "twice.json", "image_0")["securities"]] == [*"USCUSC"]


def test_one_marking_for_all_stays_as_it_is(marked, tmp_path):
    jnrrdz.merge([marked[1]] * 2, tmp_path / "m.json", concat_dim="n")
    image = attributes(tmp_path / "m.json", "image_0")
    assert image["security"]["ISCLAS"] == "S"
    assert "securities" not in image


def test_cube_keeps_each_marking_and_the_highest_as_it_grows(marked, tmp_path):
    when = {"time_from": r"_(\d{8})"}
    jnrrdz.cube(marked[:1], tmp_path / "c.json", **when)
    assert attributes(tmp_path / "c.json", "")["security"]["ISCLAS"] == "U"
    for file in marked[1:]:
        jnrrdz.cube([file], tmp_path / "c.json", **when, append=True)
    found = attributes(tmp_path / "c.json", "")
    assert found["security"]["ISCLAS"] == "S"
    assert [one["ISCLAS"] for one in found["securities"]] == ["U", "S", "C"]
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "c.json")["data"].shape[0], 3)


@pytest.mark.parametrize(("letters", "highest"), [("UR", "R"), ("CR", "C"), ("TS", "T"), ("UX", "X"), ("U", "U")])
def test_the_highest_classification_counts(letters, highest):
    assert combined([{"ISCLAS": letter} for letter in letters])["security"]["ISCLAS"] == highest


def test_a_file_without_a_marking_does_not_hide_those_of_others():
    found = combined([None, {"ISCLAS": "S", "ISCLSY": "US"}])
    assert found == {"security": {"ISCLAS": "S", "ISCLSY": "US"}, "securities": [None, {"ISCLAS": "S", "ISCLSY": "US"}]}
