"""OME-Zarr metadata: what the version's own models accept, and where a coarser pixel lies."""

import numpy as np
import pytest

from jnrrdz.core.ome import Axis, Channel, Dataset, is_expressible, ome_attributes, unit_name

FULL = Dataset("0/data", (3, 2, 5, 64, 96))
HALF = Dataset("1/data", (3, 2, 5, 32, 48))
AXES = [
    Axis("t", 0.5, "s"),
    Axis("c"),
    Axis("z", 2.0, "µm", start=10.0),
    Axis("y", 0.25, "um"),
    Axis("x", 250.0, "nm"),
]
CHANNELS = [Channel("DAPI", "0000ff"), Channel("GFP")]


def test_whole_image():
    found = ome_attributes("cells", AXES, [FULL, HALF], CHANNELS, np.dtype("u2"))
    assert found == {
        "ome": {
            "version": "0.5",
            "multiscales": [
                {
                    "name": "cells",
                    "axes": [
                        {"name": "t", "type": "time", "unit": "second"},
                        {"name": "c", "type": "channel"},
                        {"name": "z", "type": "space", "unit": "micrometer"},
                        {"name": "y", "type": "space", "unit": "micrometer"},
                        {"name": "x", "type": "space", "unit": "nanometer"},
                    ],
                    "datasets": [
                        {
                            "path": "0/data",
                            "coordinateTransformations": [
                                {"type": "scale", "scale": [0.5, 1.0, 2.0, 0.25, 250.0]},
                                {"type": "translation", "translation": [0.0, 0.0, 10.0, 0.0, 0.0]},
                            ],
                        },
                        {
                            "path": "1/data",
                            "coordinateTransformations": [
                                {"type": "scale", "scale": [0.5, 1.0, 2.0, 0.5, 500.0]},
                                {"type": "translation", "translation": [0.0, 0.0, 10.0, 0.125, 125.0]},
                            ],
                        },
                    ],
                }
            ],
            "omero": {
                "channels": [
                    {
                        "label": label,
                        "color": color,
                        "active": True,
                        "window": {"min": 0, "max": 65535, "start": 0, "end": 65535},
                    }
                    for label, color in [("DAPI", "0000FF"), ("GFP", "FFFFFF")]
                ]
            },
        }
    }


def test_published_models_accept_it():
    models = pytest.importorskip("ome_zarr_models.v05.image")
    found = ome_attributes("cells", AXES, [FULL, HALF], CHANNELS, np.dtype("i2"))
    parsed = models.ImageAttrs.model_validate(found["ome"])
    assert [axis.name for axis in parsed.multiscales[0].axes] == ["t", "c", "z", "y", "x"]


@pytest.mark.parametrize(
    ("names", "allowed"),
    [
        ("y x", True),
        ("t c z y x", True),
        ("band z y x", True),
        ("page y x", True),
        ("t page y x", True),
        ("x", False),
        ("z c y x", False),
        ("c t y x", False),
        ("c band y x", False),
        ("page other y x", False),
        ("page t y x", False),
        ("t c page z y x", False),
        ("y y", False),
    ],
)
def test_axes_that_the_version_allows(names, allowed):
    """The rules of 0.5, and the same answer from its published models where it has one."""
    names = names.split()
    assert is_expressible(names) is allowed
    found = ome_attributes("", [Axis(name) for name in names], [Dataset("0", (2,) * len(names))])
    assert bool(found) is allowed


@pytest.mark.parametrize(
    ("unit", "kind", "word"),
    [
        ("µm", "space", "micrometer"),
        ("\u03bcm", "space", "micrometer"),
        ("Micrometers", "space", "micrometer"),
        ("nm", "space", "nanometer"),
        ("ms", "time", "millisecond"),
        ("s", "time", "second"),
        ("seconds", "time", "second"),
        ("pixel", "space", None),
        ("s", "space", None),
        ("m", "channel", None),
        (None, "space", None),
    ],
)
def test_units(unit, kind, word):
    assert unit_name(unit, kind) == word


@pytest.mark.parametrize("step", [None, 0.0, -1.0, float("nan"), float("inf")])
def test_step_that_is_none_is_an_index(step):
    found = ome_attributes("", [Axis("y", step, "m"), Axis("x", step)], [Dataset("0", (4, 4))])
    (level,) = found["ome"]["multiscales"][0]["datasets"]
    assert level["coordinateTransformations"] == [{"type": "scale", "scale": [1.0, 1.0]}]


@pytest.mark.parametrize(
    ("channels", "dtype"),
    [((), "u1"), (CHANNELS, "f4"), (CHANNELS[:1], "u1"), (CHANNELS, None)],
)
def test_channels_without_a_window_or_not_as_many_are_left_out(channels, dtype):
    found = ome_attributes("", AXES, [FULL], channels, None if dtype is None else np.dtype(dtype))
    assert "omero" not in found["ome"]
