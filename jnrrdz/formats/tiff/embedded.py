"""Whole documents that a TIFF carries: colour profile, XMP, EXIF.

May touch the TIFF layout and tifffile's names of EXIF tags.  They are read only on request: they
can be larger than all other metadata together, and few readers want them.
Spec: https://www.color.org/icc_specs2.xalter, https://developer.adobe.com/xmp/docs/xmp-specifications/,
https://www.cipa.jp/e/std/std-sec.html (EXIF)
"""

import base64
from typing import Any

import numpy as np

from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.tiff.description import bounded_text, check_length
from jnrrdz.formats.tiff.structure import Entry, Ifd, TiffLayout
from jnrrdz.formats.tiff.tags import FieldType, Tag

GPS_IFD = 34853
MAX_VALUES = 4096
"""A tag of more values than this is no fact about the image: maker notes, thumbnails."""


def icc_profile(layout: TiffLayout, ifd: Ifd) -> str | None:
    """Return the colour profile in base64."""
    check_length(layout, ifd, Tag.ICCProfile)
    data = layout.raw(ifd, Tag.ICCProfile)
    return base64.b64encode(data).decode("ascii") if data else None


def xmp(layout: TiffLayout, ifd: Ifd) -> str | None:
    """Return the XMP packet as it stands."""
    return bounded_text(layout, ifd, Tag.XMP)


def exif(layout: TiffLayout, ifd: Ifd) -> dict[str, Any] | None:
    """Return the EXIF tags by name; positions (`GPS...`) among them."""
    from tifffile import TIFF  # noqa: PLC0415  needs tens of milliseconds that other scans need not pay

    found: dict[str, Any] = {}
    for pointer, names in ((Tag.ExifIFD, TIFF.EXIF_TAGS), (GPS_IFD, TIFF.GPS_TAGS)):
        start = layout.integer(ifd, pointer, 0)
        if start:
            found |= _named(layout, layout.ifd(start), names)
    return found or None


def _named(layout: TiffLayout, ifd: Ifd, names: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in ifd.entries.values():
        if entry.count > MAX_VALUES:
            continue
        try:
            value = _value(layout, ifd, entry)
        except JnrrdzError:
            continue  # one tag that points outside the file says nothing about the others
        if value is not None:
            found[str(names.get(entry.tag, entry.tag))] = value
    return found


def _value(layout: TiffLayout, ifd: Ifd, entry: Entry) -> Any:
    if entry.type == FieldType.ASCII:
        return layout.text(ifd, entry.tag)
    if entry.type == FieldType.UNDEFINED:
        data = layout.raw(ifd, entry.tag) or b""
        text = data.rstrip(b"\0")
        return text.decode() if text.isascii() and text.decode().isprintable() else base64.b64encode(data).decode()
    if entry.type in {FieldType.RATIONAL, FieldType.SRATIONAL}:
        numbers: list[Any] = [number if np.isfinite(number) else None for number in layout.floats(ifd, entry.tag)]
    else:
        values = layout.array(ifd, entry.tag)
        numbers = [] if values is None else [number if np.isfinite(number) else None for number in values.tolist()]
    return numbers[0] if len(numbers) == 1 else numbers
