"""The value that marks missing pixels, as GDAL writes it into a TIFF.

May touch the TIFF layout and numpy.
"""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jnrrdz.layout.tiff import TiffLayout
from jnrrdz.layout.tiff_image import TiffImage
from jnrrdz.layout.tiff_tags import Tag


@dataclass(frozen=True)
class Nodata:
    """A fill value of the array's type, where there is one, and what the file says of it."""

    value: Any = None
    attributes: dict[str, Any] = field(default_factory=dict)


def nodata_value(layout: TiffLayout, image: TiffImage, dtype: np.dtype[Any]) -> Nodata:
    """Return GDAL_NODATA in the array's type; one that the type cannot hold is an attribute and a warning."""
    text = layout.text(image.ifd, Tag.GDAL_NODATA)
    if text is None or not text.strip():
        return Nodata()
    value = _in_type(text.strip(), dtype)
    if value is None:
        warnings.warn(f"nodata {text!r} is no value of {dtype}: kept as an attribute only", stacklevel=2)
        return Nodata(None, {"nodata": text.strip()})
    return Nodata(value)


def _in_type(text: str, dtype: np.dtype[Any]) -> Any:
    """Return the number in the type, None where it is not one of the type's values."""
    try:
        number = float(text)
        whole = int(text) if text.lstrip("+-").isdigit() else None
    except ValueError:
        return None
    if dtype.kind in "iu":
        if whole is None and number.is_integer():
            whole = int(number)
        limits = np.iinfo(dtype)
        return dtype.type(whole) if whole is not None and limits.min <= whole <= limits.max else None
    if dtype.kind == "f":
        return _in_float(number, dtype)
    return dtype.type(number)


def _in_float(number: float, dtype: np.dtype[Any]) -> Any:
    """Return the nearest float; one just beyond the largest is the largest, as GDAL takes it."""
    largest = float(np.finfo(dtype).max)
    if np.isfinite(number) and abs(number) > largest:
        rounded = largest if number > 0 else -largest
        return dtype.type(rounded) if np.isclose(number, rounded, rtol=1e-6) else None
    return dtype.type(number)
