"""What the axes of an ImageJ file measure: its description, with the resolution of the first IFD.

The description is a Java properties text.  `unit` holds for x, y and z, `yunit` and
`zunit` for one axis; pixels are 1/XResolution and 1/YResolution of it wide and high,
whatever ResolutionUnit says, planes `spacing`, frames `finterval` (in `tunit`).
Spec: https://imagej.net/ij/source/ij/io/FileOpener.java (decodeDescription),
https://docs.oracle.com/javase/8/docs/api/java/util/Properties.html#load-java.io.Reader-
"""

import re
from math import isfinite

from jnrrdz.core.ome import Axis
from jnrrdz.formats.tiff.gdal_metadata import finite_number
from jnrrdz.formats.tiff.structure import Ifd, TiffLayout
from jnrrdz.formats.tiff.tags import Tag

PIXEL, SECOND = "pixel", "s"
SECONDS = {"", "sec", "second", "seconds"}
RESOLUTION_UNITS = {2: "inch", 3: "cm"}
SCREEN = 72.0
"""Pixels for an inch that mean nothing: what programs write by default."""

ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def imagej_properties(text: str) -> dict[str, str]:
    """Return the properties of a description, for example `{"unit": "µm"}`."""
    properties = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            properties[key.strip()] = ESCAPE.sub(_unescaped, value.strip())
    return properties


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return CONTROLS.get(code, code)


def imagej_axes(layout: TiffLayout, ifd: Ifd) -> dict[str, Axis]:
    """Return the axes that have a step, by name, in the units that the file names."""
    properties = imagej_properties(layout.text(ifd, Tag.ImageDescription) or "")
    unit = properties.get("unit", "").strip() or _resolution_unit(layout, ifd)
    steps = {
        "x": (_pixel_size(layout, ifd, Tag.XResolution), unit, "xorigin"),
        "y": (
            _pixel_size(layout, ifd, Tag.YResolution),
            properties.get("yunit", unit),
            "yorigin",
        ),
        "z": (
            finite_number(properties.get("spacing")),
            properties.get("zunit", unit),
            "zorigin",
        ),
        "t": (_frame_interval(properties), _time_unit(properties), ""),
    }
    axes = {}
    for name, (step, own_unit, origin) in steps.items():
        if step is None or step == 0:
            continue
        distance = abs(step)  # ImageJ has negative spacings where planes run downwards
        first = -(finite_number(properties.get(origin)) or 0.0) * distance
        axes[name] = Axis(name, distance, own_unit, first + 0.0)
    return axes


def _resolution_unit(layout: TiffLayout, ifd: Ifd) -> str:
    """Return the unit of a file whose description has none."""
    unit = RESOLUTION_UNITS.get(layout.integer(ifd, Tag.ResolutionUnit, 1), PIXEL)
    resolution = layout.floats(ifd, Tag.XResolution)
    is_screen = unit == "inch" and resolution[:1] == (SCREEN,)
    return PIXEL if is_screen else unit


def _pixel_size(layout: TiffLayout, ifd: Ifd, tag: Tag) -> float | None:
    """Return the width or height of a pixel, None where the file has none."""
    values = layout.floats(ifd, tag)
    if not values or not isfinite(values[0]) or values[0] <= 0:
        return None
    return 1 / values[0]


def _frame_interval(properties: dict[str, str]) -> float | None:
    interval = finite_number(properties.get("finterval"))
    if interval is not None and interval > 0:
        return interval
    rate = finite_number(properties.get("fps"))
    return 1 / rate if rate is not None and rate > 0 else None


def _time_unit(properties: dict[str, str]) -> str:
    """Return the unit of `finterval`; frames a second (`fps`) are what their name is."""
    unit = properties.get("tunit", "").strip()
    return SECOND if unit in SECONDS or "finterval" not in properties else unit
