"""What the boxes of a JP2 file say of its samples, as attributes.

May touch the layouts and the options.  Names are those that GDAL and rasterio have.  What cannot be
understood is named in `metadata_refused` and in a warning; it never costs the pixels.
Spec: docs/formats/jpeg2000.md
"""

import base64
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.jpeg2000.jp2_boxes import Boxes
from jnrrdz.formats.jpeg2000.jp2_colour import COLOUR_SPACES, Colour, parse_colour
from jnrrdz.formats.jpeg2000.jpeg2000_header import Codestream
from jnrrdz.formats.jpeg2000.jpeg2000_markers import Marker
from jnrrdz.options import ScanOptions

XMP = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")
LATIN = 1
OPAQUE = 255
MAX_FLAGS = 256
MAX_TEXT = 1 << 20


@dataclass
class Meaning:
    """What is known of an image beyond its pixels."""

    array: dict[str, Any] = field(default_factory=dict)
    """Attributes of the variable."""

    group: dict[str, Any] = field(default_factory=dict)
    """Attributes of its group."""

    palette: bytes | None = None
    """The colours that `expand_palette` asked to read."""


def meaning_of(codestream: Codestream, boxes: Boxes | None, names: Sequence[int], options: ScanOptions) -> Meaning:
    """Return what a file says of some components."""
    found = Meaning()
    refused = list(boxes.problems) if boxes is not None else []
    components = [codestream.siz.components[one] for one in names]
    width = 8 * (1 << (max(one.bits for one in components) - 1) // 8)
    if any(one.bits != width for one in components):
        found.array["bits_per_sample"] = [one.bits for one in components]
    try:
        colour = Colour() if boxes is None else parse_colour(boxes)
    except JnrrdzError as error:
        colour = Colour()
        refused.append(str(error))
    _add_colour(found, colour, names, options)
    comments = [_comment(body) for body in codestream.bodies(Marker.COM)]
    found.group |= {"comments": [text for text in comments if text]} if any(comments) else {}
    if options.embedded and boxes is not None:
        found.group |= _embedded(boxes, colour)
    for problem in refused:
        warnings.warn(f"metadata are left out: {problem}", stacklevel=2)
    found.group |= {"metadata_refused": refused} if refused else {}
    return found


def _add_colour(found: Meaning, colour: Colour, names: Sequence[int], options: ScanOptions) -> None:
    table = None if colour.palette is None or len(names) != 1 else colour.palette.colours
    if table is not None and options.expand_palette:
        found.palette = table[:, :3].tobytes()
        found.array["colorinterp"] = ["red", "green", "blue"]
    elif table is not None:
        entries = [[*row, OPAQUE][:4] for row in table.tolist()]
        found.array |= {"colorinterp": ["palette"], "color_table": entries}
        if len(entries) <= MAX_FLAGS:
            colours = " ".join(f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue, _ in entries)
            found.array |= {"flag_values": list(range(len(entries))), "flag_colors": colours}
    elif colour.space is not None or colour.channels:
        every = colour.names(max(names) + 1)
        found.array["colorinterp"] = [every[one] for one in names]
    if colour.is_premultiplied:
        found.array["alpha_premultiplied"] = True
    if colour.space is not None:
        found.array["color_space"] = COLOUR_SPACES.get(colour.space, f"EnumCS {colour.space}")
    for name, (down, across) in colour.resolution.items():
        found.group[f"{name}_resolution"] = {"y": down, "x": across, "unit": "samples per metre"}


def _comment(body: bytes) -> str:
    """Return a comment of the codestream that is text."""
    if int.from_bytes(body[:2], "big") != LATIN:
        return ""
    return body[2:].rstrip(b"\0").decode("latin-1")


def _embedded(boxes: Boxes, colour: Colour) -> dict[str, Any]:
    """Return whole documents: colour profile, XMP, and XML of other kinds."""
    found: dict[str, Any] = {}
    if colour.profile:
        found["icc_profile"] = base64.b64encode(colour.profile).decode("ascii")
    xmp = next(iter(boxes.uuid(XMP)), None)
    if xmp:
        found["xmp"] = xmp.decode(errors="replace")
    documents = [boxes.body(box) for box in boxes.all(b"xml ") if box.stop - box.start <= MAX_TEXT]
    if documents:
        found["xml"] = [one.rstrip(b"\0").decode(errors="replace") for one in documents]
    return found
