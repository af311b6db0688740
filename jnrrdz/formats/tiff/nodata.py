"""The value that marks missing pixels, as GDAL writes it into a TIFF or beside it.

May touch the TIFF layout and numpy.  A number that the type cannot hold marks no pixel: it is kept
as an attribute, with a warning, and never costs the pixels.
Spec: https://gdal.org/en/stable/drivers/raster/gtiff.html#nodata-value
"""

import re
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Tag
from jnrrdz.formats.tiff.tiff_image import TiffImage

WINDOWS_NAN = re.compile(r"[+-]?1\.#(QNAN|SNAN|IND|NAN)\d*", re.IGNORECASE)
WINDOWS_INF = re.compile(r"([+-]?)1\.#INF\d*", re.IGNORECASE)
"""How old C libraries on Windows spell what is not finite."""


@dataclass(frozen=True)
class Nodata:
    """A fill value of the array's type, where there is one, and what the file says of it."""

    value: Any = None
    attributes: dict[str, Any] = field(default_factory=dict)


def nodata_text(layout: TiffLayout, image: TiffImage) -> str | None:
    """Return GDAL_NODATA of an image, None where there is none or it cannot be read (with a warning)."""
    try:
        return nodata_tag(layout, image)
    except JnrrdzError as error:
        warnings.warn(f"no nodata: {error}", stacklevel=2)
        return None


def nodata_tag(layout: TiffLayout, image: TiffImage) -> str | None:
    """Return GDAL_NODATA, None where it is absent or blank; a mask has none."""
    if image.is_mask:
        return None
    text = layout.text(image.ifd, Tag.GDAL_NODATA)
    return text if text is not None and text.strip() else None


def nodata_value(text: str | None, dtype: np.dtype[Any]) -> Nodata:
    """Return a nodata text in the array's type; one that the type cannot hold is an attribute and a warning."""
    if text is None or not text.strip():
        return Nodata()
    value = _in_type(text.strip(), dtype)
    if value is None:
        warnings.warn(f"nodata {text!r} is no value of {dtype}: kept as an attribute only", stacklevel=2)
        return Nodata(None, {"nodata": text.strip()})
    return Nodata(value)


def _in_type(text: str, dtype: np.dtype[Any]) -> Any:
    """Return the number in the type, None where it is not one of the type's values."""
    if dtype.kind in "iu":
        return _in_integer(text, dtype)
    try:
        number = complex(_spelt(text)) if dtype.kind == "c" else float(_spelt(text))
    except ValueError:
        return None
    if isinstance(number, complex):
        part = np.dtype(f"f{dtype.itemsize // 2}")
        parts = [_in_float(value, part) for value in (number.real, number.imag)]
        return None if None in parts else np.array(complex(*map(float, parts)), dtype)[()]
    return _in_float(number, dtype)


def _spelt(text: str) -> str:
    """Return a number as Python spells it: no decimal comma, NaN and infinity by their names."""
    text = WINDOWS_INF.sub(r"\1inf", WINDOWS_NAN.sub("nan", text))
    return text if "." in text else text.replace(",", ".")


def _in_integer(text: str, dtype: np.dtype[Any]) -> Any:
    """Return the whole number, exactly even where a double could not hold it."""
    try:
        whole = int(text) if re.fullmatch(r"[+-]?\d{1,40}", text) else None
        number = float(_spelt(text))
    except ValueError:
        return None
    if whole is None and number.is_integer():
        whole = int(number)
    limits = np.iinfo(dtype)
    return dtype.type(whole) if whole is not None and limits.min <= whole <= limits.max else None


def _in_float(number: float, dtype: np.dtype[Any]) -> Any:
    """Return the nearest float; one just beyond the largest is the largest, as GDAL takes it."""
    largest = float(np.finfo(dtype).max)
    if np.isfinite(number) and abs(number) > largest:
        rounded = largest if number > 0 else -largest
        return dtype.type(rounded) if np.isclose(number, rounded, rtol=1e-6) else None
    return dtype.type(number)
