"""`tile` keeps where a volume is: ITK and pynrrd see the same points in what it writes.

Neither reads JNRRD, so the header's keys are written out as a classic NRRD, key by key.
"""

import itertools
import json
from pathlib import Path

import nrrd
import numpy as np
import pytest
import SimpleITK

import jnrrdz
from tests.commands.jnrrd_reader import header_of, means, read

PIXELS = np.random.default_rng(7).integers(0, 200, (8, 10, 12)).astype("<i2")

pytestmark = [
    pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:encoding .*any window of it costs:UserWarning"),
]


def vector(parts):
    return "none" if parts is None else f"({','.join(map(repr, parts))})"


def vectors(listed):
    return " ".join(map(vector, listed))


def words(listed):
    return " ".join("???" if word is None else word for word in listed)


def numbers(listed):
    return " ".join("NaN" if number is None else repr(number) for number in listed)


def quoted(listed):
    return " ".join(f'"{text}"' for text in listed)


SPELLED = {
    "labels": quoted,
    "kinds": words,
    "centerings": words,
    "spacings": numbers,
    "axis_mins": numbers,
    "thicknesses": numbers,
    "units": quoted,
    "space": str,
    "space_dimension": str,
    "space_directions": vectors,
    "space_origin": vector,
    "space_units": quoted,
    "measurement_frame": vectors,
    "content": str,
    "sample_units": str,
}
"""Keys of JNRRD in the words of NRRD, by the two specifications."""

TYPES = {"float32": "float", "float64": "double"}


def classic(path, to):
    """Write the finest level of a JNRRD as a NRRD with the same description."""
    header, levels = read(path)
    pixels = levels[0]
    lines = [
        "NRRD0005",
        f"type: {TYPES.get(pixels.dtype.name, pixels.dtype.name)}",
        f"dimension: {pixels.ndim}",
        f"sizes: {' '.join(map(str, header['sizes']))}",
        "encoding: raw",
        "endian: little",
    ]
    for key, spell in SPELLED.items():
        if header.get(key):
            lines.append(f"{key.replace('_', ' ')}: {spell(header[key])}")
    lines += [f"{name}:={value}" for name, value in header.get("key_values", {}).items()]
    Path(to).write_bytes("\n".join([*lines, "", ""]).encode() + pixels.tobytes())
    return str(to)


def turned(seed):
    """Return a rotation that leaves no axis alone."""
    rotation = SimpleITK.VersorTransform([0.3, -0.5, 0.8], 0.4 + seed)
    return rotation.GetMatrix()


DIRECTIONS = {
    "axial": (1, 0, 0, 0, 1, 0, 0, 0, 1),
    "sagittal": (0, 0, 1, 1, 0, 0, 0, 1, 0),
    "coronal, mirrored": (1, 0, 0, 0, 0, 1, 0, -1, 0),
    "oblique": turned(0),
    "far from any axis": turned(0.9),
}


@pytest.fixture(params=DIRECTIONS)
def volume(request, tmp_path):
    image = SimpleITK.GetImageFromArray(PIXELS)
    image.SetSpacing((0.5, 0.7, 2.1))
    image.SetOrigin((-10.3, 20.1, 30.7))
    image.SetDirection(DIRECTIONS[request.param])
    SimpleITK.WriteImage(image, str(tmp_path / "v.nrrd"))
    return tmp_path / "v.nrrd"


def corners(shape):
    return itertools.product(*((0, size - 1) for size in shape[::-1]))


def same_points(found, expected, shape):
    for corner in corners(shape):
        index = list(map(int, corner))
        points = [image.TransformIndexToPhysicalPoint(index) for image in (found, expected)]
        np.testing.assert_allclose(*points, rtol=0, atol=1e-9)


@pytest.mark.parametrize("external", [False, True], ids=["internal", "external"])
def test_points_are_those_of_the_source(volume, tmp_path, external):
    out = tmp_path / "o.jnrrd"
    jnrrdz.tile(volume, out, tile=(5, 4, 3), levels=2, external=external)
    again = classic(out, tmp_path / "again.nrrd")
    image = SimpleITK.ReadImage(again)
    same_points(image, SimpleITK.ReadImage(volume), PIXELS.shape)
    np.testing.assert_array_equal(SimpleITK.GetArrayFromImage(image), PIXELS)
    _, before = nrrd.read(str(volume))
    _, after = nrrd.read(again)
    assert after["space"] == before["space"] == "left-posterior-superior"
    assert after["kinds"] == before["kinds"]
    for field in ("space directions", "space origin"):  # to the bit
        np.testing.assert_array_equal(after[field], before[field])


def test_levels_are_between_the_points_of_the_finest(volume, tmp_path):
    jnrrdz.tile(volume, tmp_path / "o.jnrrd", tile=(5, 4, 3), levels=3, factors=(2, 2, 1))
    source = SimpleITK.ReadImage(volume)
    for number, level in enumerate(means(PIXELS, 3, (1, 2, 2))):
        own = tmp_path / f"{number}.jnrrd"
        jnrrdz.tile(tmp_path / "o.jnrrd", own, tile=(5, 4, 3), group=str(number))
        image = SimpleITK.ReadImage(classic(own, tmp_path / f"{number}.nrrd"))
        np.testing.assert_array_equal(SimpleITK.GetArrayFromImage(image), level)
        factor = 2**number
        for x, y, z in corners(level.shape):
            middle = [factor * at + (factor - 1) / 2 for at in (x, y)]
            expected = source.TransformContinuousIndexToPhysicalPoint([*middle, z])
            found = image.TransformIndexToPhysicalPoint([int(x), int(y), int(z)])
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_what_else_a_header_says(tmp_path):
    header = {
        "encoding": "raw",
        "space": "right-anterior-superior",
        "space directions": np.array([[np.nan] * 3, [0.5, 0.1, 0], [-0.1, 0.5, 0], [0, 0, 2]]),
        "space origin": np.array([1.5, 2, 3]),
        "space units": ["mm", "mm", "mm"],
        "kinds": ["vector", "space", "space", "space"],
        "centerings": ["???", "cell", "cell", "node"],
        "measurement frame": np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]]),
        "thicknesses": [np.nan, np.nan, np.nan, 2.2],
        "sample units": "HU",
        "content": "a phantom",
        "DWMRI_b-value": "1000",
        "modality": "DWMRI",
    }
    pixels = np.random.default_rng(1).random((3, 6, 5, 4)).astype("<f4")
    nrrd.write(str(tmp_path / "v.nrrd"), pixels, header)
    jnrrdz.tile(tmp_path / "v.nrrd", tmp_path / "o.jnrrd", tile=(3, 4, 4, 2))
    found, after = nrrd.read(classic(tmp_path / "o.jnrrd", tmp_path / "again.nrrd"))
    expected, before = nrrd.read(str(tmp_path / "v.nrrd"))
    np.testing.assert_array_equal(found, expected)
    moved = {"labels", "type", "endian", "encoding"}
    assert set(before) - moved <= set(after)
    for field in set(before) - moved:
        np.testing.assert_array_equal(after[field], before[field], err_msg=field)
    # and once more, from a JNRRD
    jnrrdz.tile(tmp_path / "o.jnrrd", tmp_path / "p.jnrrd", tile=(3, 4, 4, 2))
    first, second = (header_of(tmp_path / f"{name}.jnrrd")[0] for name in "op")
    assert {k: v for k, v in first.items() if ":" not in k} == {k: v for k, v in second.items() if ":" not in k}


def test_starts_and_units_of_axes_outside_of_space(tmp_path):
    lines = ["NRRD0005", "type: uint8", "dimension: 3", "sizes: 4 3 5", "encoding: raw"]
    lines += ["kinds: space space time", "spacings: 0.5 2 0.25", "axis mins: 10 20 7"]
    lines += ["centerings: node node node", 'units: "mm" "mm" "s"']
    (tmp_path / "v.nrrd").write_bytes("\n".join([*lines, "", ""]).encode() + bytes(60))
    jnrrdz.tile(tmp_path / "v.nrrd", tmp_path / "o.jnrrd", tile=(4, 3, 2))
    header, _ = header_of(tmp_path / "o.jnrrd")
    assert header["space_directions"] == [[0.5, 0], [0, 2], None]
    assert (header["space_origin"], header["space_units"]) == ([10, 20], ["mm", "mm"])
    assert (header["spacings"], header["units"]) == ([None, None, 0.25], ["", "", "s"])
    assert (header["axis_mins"][2], header["centerings"][2]) == (7, "node")
    opened = jnrrdz.open_dataset(tmp_path / "o.jnrrd")
    np.testing.assert_array_equal(opened["t"], 7 + 0.25 * np.arange(5))


def test_no_direction_is_made_up(tmp_path):
    """An axis whose step nobody knows has none, where the others' steps are known."""
    lines = [
        {"jnrrd": "0004"},
        {"type": "uint8"},
        {"dimension": 3},
        {"sizes": [4, 3, 5]},
        {"labels": ["x", "y", "z"]},
        {"spacings": [0.5, 0.5, None]},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "v.jnrrd").write_bytes(text.encode() + b"\n" + bytes(60))
    jnrrdz.tile(tmp_path / "v.jnrrd", tmp_path / "o.jnrrd", tile=(4, 3, 2))
    header, _ = header_of(tmp_path / "o.jnrrd")
    assert header["space_directions"] == [[0.5, 0], [0, 0.5], None]
    assert "step" not in json.dumps(jnrrdz.open_group(tmp_path / "o.jnrrd")["data"].attrs["axes"].get("z", {}))


def test_a_virtual_level_has_its_own_space(volume, tmp_path):
    jnrrdz.tile(volume, tmp_path / "o.jnrrd", tile=(12, 10, 8), levels=2, compression="raw")
    head, start = header_of(tmp_path / "o.jnrrd")
    data = (tmp_path / "o.jnrrd").read_bytes()[start:]
    for name in ("size_table", "offset_table", "metadata", "level_offsets", "level_tile_sizes"):
        del head[f"tile:{name}"]
    head["tile:levels_virtual"] = [1]
    text = "".join(json.dumps({name: value}) + "\n" for name, value in head.items())
    (tmp_path / "v.jnrrd").write_bytes(text.encode() + b"\n" + data[: PIXELS.nbytes])
    spaces = [jnrrdz.open_group(tmp_path / f"{name}.jnrrd")["1/data"].attrs["jnrrdz:space"] for name in ("o", "v")]
    assert spaces[0] == spaces[1]
