"""What the axes of ImageJ files measure, for every unit, as tifffile and ImageJ write them."""

import numpy as np
import pytest
import tifffile

import jnrrdz
from tests.writers import tiff_pages

SHAPE = (3, 4, 20, 30)
PIXELS = np.arange(np.prod(SHAPE), dtype="u2").reshape(SHAPE)
WIDTH, HEIGHT, SPACING, INTERVAL = 0.25, 0.5, 2.5, 0.125

MICROMETRES = {
    "nm": 1e-3,
    "nanometers": 1e-3,
    "um": 1,
    "µm": 1,
    "micron": 1,
    "microns": 1,
    "mm": 1e3,
    "cm": 1e4,
    "m": 1e6,
    "inch": 25_400,
    "inches": 25_400,
}
WORDS = {
    1e-3: "nanometer",
    1: "micrometer",
    1e3: "millimeter",
    1e4: "centimeter",
    1e6: "meter",
    25_400: "inch",
}
"""OME-Zarr's words, by micrometres."""


def axes_of(path):
    """Return step, start and unit of each axis, as the variable has them."""
    return jnrrdz.scan(path).children["data"].attributes["axes"]


def scale_of(path):
    """Return names, units and scales that OME-Zarr's readers see."""
    (image,) = jnrrdz.scan(path).attributes["ome"]["multiscales"]
    (level,) = image["datasets"]
    scale = level["coordinateTransformations"][0]["scale"]
    return {axis["name"]: (number, axis.get("unit")) for axis, number in zip(image["axes"], scale, strict=True)}


@pytest.mark.parametrize("unit", MICROMETRES)
def test_tifffile_writes_units(tmp_path, unit):
    path = tmp_path / "a.tif"
    escaped = unit.replace("µ", r"\u00B5")
    metadata = {"axes": "TZYX", "unit": escaped, "spacing": SPACING, "finterval": INTERVAL}
    resolution = 1 / WIDTH, 1 / HEIGHT
    tifffile.imwrite(path, PIXELS, imagej=True, metadata=metadata, resolution=resolution)
    word = WORDS[MICROMETRES[unit]]
    assert scale_of(path) == {
        "t": (INTERVAL, "second"),
        "z": (SPACING, word),
        "y": (HEIGHT, word),
        "x": (WIDTH, word),
    }
    axes = axes_of(path)
    assert {axes[name]["unit"] for name in "zyx"} == {unit}
    with tifffile.TiffFile(path) as source:
        series = source.series[0]
        np.testing.assert_array_equal(jnrrdz.open_group(path)["data"][...], series.asarray())
        if not unit.startswith(("inch", "µ")):  # which tifffile does not convert
            expected = series.coord_scales["Z"]
            assert axes["z"]["step"] * MICROMETRES[unit] == pytest.approx(expected)


def by_hand(path, text, *, resolution=(4, 2), resolution_unit=None):
    """Write a description as ImageJ has it."""
    options = {"byteorder": ">", "resolution": resolution}
    if resolution_unit is not None:
        options["resolutionunit"] = resolution_unit
    return tiff_pages(path, PIXELS.reshape(-1, *SHAPE[2:]), description=text, **options)


HEAD = "ImageJ=1.54f\nimages=12\nslices=4\nframes=3\nhyperstack=true\n"


@pytest.mark.parametrize(
    ("text", "axis", "expected"),
    [
        (r"unit=\u00B5m", "x", {"step": 0.25, "start": 0.0, "unit": "µm"}),
        (r"unit=\u00b5m", "y", {"step": 0.5, "start": 0.0, "unit": "µm"}),
        ("unit=nm\nyunit=mm", "y", {"step": 0.5, "start": 0.0, "unit": "mm"}),
        ("unit=nm\nzunit=mm\nspacing=7", "z", {"step": 7.0, "start": 0.0, "unit": "mm"}),
        ("unit=cm\nxorigin=8", "x", {"step": 0.25, "start": -2.0, "unit": "cm"}),
        ("unit=m\nspacing=-0.5", "z", {"step": 0.5, "start": 0.0, "unit": "m"}),
        ("finterval=2\ntunit=min", "t", {"step": 2.0, "start": 0.0, "unit": "min"}),
        ("finterval=2\ntunit=sec", "t", {"step": 2.0, "start": 0.0, "unit": "s"}),
        ("fps=4", "t", {"step": 0.25, "start": 0.0, "unit": "s"}),
        ("unit=pixel", "x", {"step": 0.25, "start": 0.0, "unit": "pixel"}),
        (r"unit=a\tb", "x", {"step": 0.25, "start": 0.0, "unit": "a\tb"}),
    ],
)
def test_descriptions_by_hand(tmp_path, text, axis, expected):
    path = by_hand(tmp_path / "a.tif", f"{HEAD}{text}\n")
    assert axes_of(path)[axis] == expected


@pytest.mark.parametrize(
    ("resolution", "resolution_unit", "unit"),
    [
        ((4, 2), "CENTIMETER", "cm"),
        ((4, 2), "INCH", "inch"),
        ((72, 72), "INCH", "pixel"),
        ((4, 2), "NONE", "pixel"),
    ],
)
def test_a_description_without_unit_has_that_of_the_tags(tmp_path, resolution, resolution_unit, unit):
    path = tmp_path / "a.tif"
    by_hand(path, HEAD, resolution=resolution, resolution_unit=resolution_unit)
    assert axes_of(path)["x"]["unit"] == unit


@pytest.mark.parametrize("spacing", ["nan", "inf", "0", "x", "1e400"])
def test_numbers_that_are_none_are_no_distance(tmp_path, spacing):
    path = by_hand(tmp_path / "a.tif", f"{HEAD}unit=nm\nspacing={spacing}\n")
    assert "z" not in axes_of(path)
