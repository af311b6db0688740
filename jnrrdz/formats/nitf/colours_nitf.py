"""What the values of an image segment look like: interpretations of bands, and lookup tables.

May touch numpy and the NITF layout.  A table of red, green and blue is GDAL's colour table; one of a
single band is a list of grey values.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.formats.nitf.nitf_image import NitfImage

type Table = NDArray[np.uint8]
"""Entries by red, green and blue."""

CHANNELS = 3
OPAQUE = 255
MAX_FLAGS = 256
BYTE = 8
CADRG_ENTRIES = 217

BANDS = {"R": "red", "G": "green", "B": "blue", "M": "gray", "Y": "Y", "Cb": "Cb", "Cr": "Cr"}
"""IREPBAND to the names that rasterio gives to interpretations."""


def table_of(image: NitfImage) -> Table | None:
    """Return the colours of an image of one band, None where it has none."""
    if len(image.bands) != 1:
        return None
    luts = image.bands[0].luts
    if len(luts) not in {1, CHANNELS} or not luts[0]:
        return None
    columns = [np.frombuffer(lut, np.uint8) for lut in (luts * CHANNELS if len(luts) == 1 else luts)]
    return np.stack(columns, axis=1)


def missing_index(image: NitfImage, table: Table | None) -> int | None:
    """Return the value of pixels that are not stored where no pad pixel says it: one without a colour, as GDAL has it.

    None where there is no table, or no such value.  The last of 217 entries means no colour if it is black (CADRG).
    """
    if table is None or image.bits != BYTE or len(table) >= MAX_FLAGS - 1:
        return None
    is_cadrg = len(table) == CADRG_ENTRIES and not table[-1].any()
    return len(table) - 1 if is_cadrg else len(table)


def colour_attributes(image: NitfImage, table: Table | None) -> dict[str, Any]:
    """Return the interpretation of each band, and a table's colours."""
    if table is None:
        return {"colorinterp": [_name(image, number) for number in range(len(image.bands))]}
    found: dict[str, Any] = {"colorinterp": ["palette" if len(image.bands[0].luts) == CHANNELS else "gray"]}
    found["color_table"] = [[*(int(channel) for channel in entry), OPAQUE] for entry in table]
    if len(table) <= MAX_FLAGS:
        colours = ["#" + bytes(entry).hex() for entry in table]
        found |= {"flag_values": list(range(len(table))), "flag_colors": " ".join(colours)}
    return found


def _name(image: NitfImage, number: int) -> str:
    said = str(image.bands[number].fields.get("IREPBAND", "")).strip()
    if said in BANDS:
        # libjpeg gives red, green and blue for what is stored as YCbCr
        colours = ("red", "green", "blue")
        is_jpeg = image.compression in {"C3", "M3"} and image.mode == "P" and len(image.bands) == CHANNELS
        return colours[number] if is_jpeg and said in {"Y", "Cb", "Cr"} else BANDS[said]
    return "gray" if len(image.bands) == 1 and image.text("IREP") == "MONO" else "undefined"
