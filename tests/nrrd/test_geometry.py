"""Names, coordinates and directions of NRRD's axes, as ITK and pynrrd have them."""

import itertools
import json
import math

import nrrd
import numpy as np
import pytest
import SimpleITK
import xarray as xr

import jnrrdz
from tests.writers import nrrd_header

SHAPE = (4, 5, 6)
SPACING, ORIGIN = (0.5, 0.75, 2.0), (-10.0, 20.0, 30.5)

pytestmark = pytest.mark.filterwarnings("ignore:encoding .*any window of it costs:UserWarning")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def header(**fields):
    base = {"type": "uint8", "dimension": "3", "sizes": "6 5 4", "encoding": "raw"}
    return nrrd_header(version=5, **base | fields)


def written(name="a.nrrd", **fields):
    data = np.arange(120, dtype="u1").tobytes()
    with open(name, "wb") as file:  # noqa: PTH123
        file.write(header(**fields) + data)
    return name


def names(name="a.nrrd"):
    return jnrrdz.open_group(name)["data"].metadata.dimension_names


def scale_and_translation(name="a.nrrd"):
    (multiscale,) = jnrrdz.open_group(name).attrs["ome"]["multiscales"]
    found = {"scale": None, "translation": None}
    for transform in multiscale["datasets"][0]["coordinateTransformations"]:
        found[transform["type"]] = transform[transform["type"]]
    axes = [axis["name"] for axis in multiscale["axes"]]
    return axes, found["scale"], found["translation"]


def same_points(name, opened):
    """Check each coordinate against ITK's point of the same element."""
    image = SimpleITK.ReadImage(name)
    columns = opened["data"].dims[::-1]
    for corner in itertools.product(*((0, size - 1) for size in image.GetSize())):
        point = dict(zip("xyz", image.TransformIndexToPhysicalPoint(corner), strict=False))
        for dim, index in zip(columns, corner, strict=True):
            assert math.isclose(opened[dim].values[index], point[dim], abs_tol=1e-9)


PERMUTED = [(order, signs) for order in itertools.permutations(range(3)) for signs in ((1, 1, 1), (-1, 1, -1))]


@pytest.mark.parametrize(("order", "signs"), PERMUTED)
def test_axes_are_named_by_the_direction_they_run_along(order, signs):
    matrix = np.zeros((3, 3))
    matrix[list(order), range(3)] = signs
    image = SimpleITK.GetImageFromArray(np.arange(120, dtype="u1").reshape(SHAPE))
    image.SetSpacing(SPACING)
    image.SetOrigin(ORIGIN)
    image.SetDirection(matrix.ravel().tolist())
    SimpleITK.WriteImage(image, "a.nrrd")
    assert names() == tuple("xyz"[place] for place in order[::-1])
    jnrrdz.index("a.nrrd", "a.json")
    opened = xr.open_dataset("a.json")
    same_points("a.nrrd", opened)
    np.testing.assert_array_equal(opened["data"], SimpleITK.GetArrayFromImage(image))
    attributes = jnrrdz.open_group("a.nrrd").attrs
    if min(signs) < 0:
        assert "ome" not in attributes
        return
    axes, scale, translation = scale_and_translation()
    assert tuple(axes) == names()
    assert scale == [2.0, 0.75, 0.5]
    assert translation == [ORIGIN["xyz".index(axis)] for axis in axes]


def test_a_sagittal_volume_as_slicer_writes_it():
    """Slices run from left to right, rows from front to back, columns upwards."""
    written(
        space="left-posterior-superior",
        kinds="domain domain domain",
        space_directions="(0,0.5,0) (0,0,0.75) (2,0,0)",
        space_origin="(-60,-100,-90)",
    )
    assert names() == ("x", "z", "y")
    same_points("a.nrrd", jnrrdz.open_dataset("a.nrrd"))
    assert scale_and_translation() == (["x", "z", "y"], [2, 0.75, 0.5], [-60, -90, -100])


@pytest.mark.parametrize("rounding", ["6.123233995736766e-17", "-1e-15"])
def test_rounding_errors_are_no_rotation(rounding):
    written(
        space="left-posterior-superior",
        space_directions=f"(0,0.5,{rounding}) ({rounding},0,0.75) (2,0,0)",
        space_origin="(1,2,3)",
    )
    assert names() == ("x", "z", "y")
    same_points("a.nrrd", jnrrdz.open_dataset("a.nrrd"))


def turned(degrees):
    """Return directions and origin of a volume that is turned about z."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    vectors = [(0.5 * cosine, 0.5 * sine, 0), (-0.75 * sine, 0.75 * cosine, 0), (0, 0, 2)]
    text = " ".join(f"({','.join(map(repr, vector))})" for vector in vectors)
    return {"space_directions": text, "space_origin": "(-10,20,30.5)"}


@pytest.mark.parametrize("space", ["left-posterior-superior", "RAS", "scanner-xyz"])
@pytest.mark.parametrize(
    ("degrees", "expected"),
    [(10, "xyz"), (44, "xyz"), (80, "yxz"), (-100, "yxz"), (45, "ijk"), (135, "ijk")],
)
def test_oblique_volumes(degrees, expected, space):
    written(space=space, **turned(degrees))
    assert names() == tuple(expected[::-1])
    attributes = jnrrdz.open_group("a.nrrd")["data"].attrs
    assert "ome" not in jnrrdz.open_group("a.nrrd").attrs
    # only the axis that no other one leans to has coordinates
    assert list(attributes["axes"]) == (["z"] if expected != "ijk" else ["k"])
    assert attributes["axes"][expected[2]] == {"step": 2.0, "start": 30.5}
    _, own = nrrd.read("a.nrrd")
    found = attributes["jnrrdz:space"]
    assert (found["name"], found["origin"]) == (space, own["space origin"].tolist())
    directions = [found["directions"][name] for name in expected]
    assert directions == own["space directions"].tolist()


def test_directions_of_a_space_without_a_name():
    written(space_dimension="3", space_directions="(0,0,2) (0,3,0) (4,0,0)")
    assert names() == ("x", "y", "z")
    same_points("a.nrrd", jnrrdz.open_dataset("a.nrrd"))
    written("b.nrrd", space_dimension="4", space_directions="(0,0,0,2) (0,3,0,0) (4,0,0,0)")
    assert names("b.nrrd") == ("k", "j", "i")


def test_a_space_with_time():
    written(
        space="left-posterior-superior-time",
        space_directions="(0,3,0,0) (4,0,0,0) (0,0,0,0.5)",
        space_origin="(1,2,3,7)",
    )
    assert names() == ("t", "x", "y")
    assert scale_and_translation() == (["t", "x", "y"], [0.5, 4, 3], [7, 1, 2])


def test_two_axes_along_one():
    written(space="LPS", space_directions="(1,0,0) (2,0,0) (0,0,1)")
    assert names() == ("k", "j", "i")
    assert jnrrdz.open_group("a.nrrd")["data"].attrs["axes"] == {"k": {"step": 1.0, "start": 0.0}}


def test_labels_come_first_and_files_without_directions_stay_as_they_were():
    written(space="LPS", space_directions="(0,1,0) (2,0,0) (0,0,1)", labels='"R" "A" "S"')
    assert names() == ("S", "A", "R")
    written("b.nrrd", space="LPS", spacings="1 2 3")
    assert names("b.nrrd") == ("z", "y", "x")


@pytest.mark.parametrize("kind", ["vector", "RGB-color", "3-color", "3D-vector", "covariant-vector"])
def test_components_have_no_step(kind):
    written(
        sizes="3 10 4",
        kinds=f"{kind} domain domain",
        space="LPS",
        space_directions="none (0.5,0,0) (0,0.75,0)",
        space_origin="(1,2,3)",
        space_units='"mm" "mm" "mm"',
    )
    assert names() == ("y", "x", "c")
    axes = jnrrdz.open_group("a.nrrd")["data"].attrs["axes"]
    assert axes == {
        "x": {"step": 0.5, "start": 1.0, "unit": "mm"},
        "y": {"step": 0.75, "start": 2.0, "unit": "mm"},
    }
    assert "c" not in jnrrdz.open_dataset("a.nrrd").coords


def test_steps_that_are_unknown_are_not_made_up():
    written(spacings="0.5 NaN 2", units='"mm" "mm" "mm"')
    attributes = jnrrdz.open_group("a.nrrd")["data"].attrs
    assert list(attributes["axes"]) == ["z", "x"]
    assert "ome" not in jnrrdz.open_group("a.nrrd").attrs
    # without any step elements are counted, in no unit
    written("b.nrrd", units='"mm" "mm" "mm"')
    (multiscale,) = jnrrdz.open_group("b.nrrd").attrs["ome"]["multiscales"]
    assert not any("unit" in axis for axis in multiscale["axes"])


MINS = {
    "spacing": {"spacings": "2 3 4", "axis_mins": "10 20 30"},
    "nodes": {"spacings": "2 3 4", "axis_mins": "10 20 30", "centerings": "node node node"},
    "cells": {"spacings": "2 3 4", "axis_mins": "10 20 30", "centers": "cell cell cell"},
    "mixed": {"spacings": "2 3 4", "axis_mins": "10 20 30", "centers": "cell node ???"},
    "maxs": {"spacings": "2 3 4", "axis_mins": "10 20 30", "axis_maxs": "99 99 99"},
}


@pytest.mark.parametrize("case", MINS)
def test_axis_mins_are_where_itk_has_them(case):
    written(**MINS[case])
    same_points("a.nrrd", jnrrdz.open_dataset("a.nrrd"))
    _, scale, translation = scale_and_translation()
    image = SimpleITK.ReadImage("a.nrrd")
    assert (scale, translation) == (list(image.GetSpacing()[::-1]), list(image.GetOrigin()[::-1]))


def test_steps_between_axis_mins_and_axis_maxs():
    """The format's own arithmetic: ITK takes the origin of these, and no step."""
    limits = {"axis_mins": "10 20 30", "axis_maxs": "22 32 42"}
    for centers, steps in (("cell cell cell", [2, 2.4, 3]), ("node node node", [2.4, 3, 4])):
        written(**limits, centers=centers)
        opened = jnrrdz.open_dataset("a.nrrd")
        origin = SimpleITK.ReadImage("a.nrrd").GetOrigin()
        for axis, step, start in zip("xyz", steps, origin, strict=True):
            count = opened.sizes[axis]
            np.testing.assert_allclose(opened[axis], start + step * np.arange(count))
            edge = 0 if "node" in centers else step / 2
            highest = float(limits["axis_maxs"].split()["xyz".index(axis)])
            assert math.isclose(opened[axis].values[-1] + edge, highest)


def test_a_jnrrd_in_a_space_has_its_names_and_its_levels_theirs(tmp_path):
    """Levels have longer directions, and centres between those of the finest level."""
    core = {
        "jnrrd": "0004",
        "type": "uint8",
        "dimension": 2,
        "sizes": [6, 4],
        "space": "left-posterior-superior",
        "space_directions": [[0.3, 0.4, 0], [0, 0, 2]],
        "space_origin": [1, 2, 3],
        "extensions": {"tile": "https://jnrrd.org/extensions/tile/v1.0.0"},
        "tile:enabled": True,
        "tile:dimensions": [0, 1],
        "tile:sizes": [6, 4],
        "tile:storage": "internal",
        "tile:format": "contiguous",
        "tile:levels": 3,
        "tile:level_scales": [1, 2, [2, 4]],
        "tile:level_tile_sizes": [[6, 4], [3, 2], [3, 1]],
        "tile:levels_virtual": [2],
    }
    lines = "".join(json.dumps({name: value}) + "\n" for name, value in core.items())
    (tmp_path / "a.jnrrd").write_bytes(lines.encode() + b"\n" + bytes(30))
    group = jnrrdz.open_group(tmp_path / "a.jnrrd")
    assert group["0/data"].metadata.dimension_names == ("z", "y")
    first = np.array([1, 2, 3])
    fast, slow = np.array([0.3, 0.4, 0]), np.array([0, 0, 2])
    for level, (along, across) in enumerate([(1, 1), (2, 2), (2, 4)]):
        space = group[f"{level}/data"].attrs["jnrrdz:space"]
        np.testing.assert_allclose(space["directions"]["y"], along * fast)
        np.testing.assert_allclose(space["directions"]["z"], across * slow)
        # numpy's mean of the centres that the first element spans
        centres = [first + i * fast + j * slow for i in range(along) for j in range(across)]
        np.testing.assert_allclose(space["origin"], np.mean(centres, axis=0))
