"""Variables and attributes of an opened dataset as any writer of xarray's takes them.

A variable's encoding says how a file is to be written.  The codecs of a manifest read archives and write nothing, so
that chunks and the fill value alone remain in it.  Attributes are what netCDF holds: texts, numbers, and lists of one
kind; anything else is its JSON text.  A manifest's documents keep nested attributes, as Zarr's conventions have them.
docs/decisions/042-what-is-opened-can-be-saved.md has the reasons.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jnrrdz.core.zarr_json import dumps, json_value

WRITABLE = frozenset({"chunks", "preferred_chunks", "fill_value"})
"""Members of an encoding that any writer can follow."""

TYPED = frozenset({"_FillValue", "missing_value"})
"""Attributes of the array's own type."""

SMALLEST, LARGEST = -(1 << 63), (1 << 64) - 1
"""The integers that netCDF has."""

NO_NAME = re.compile(r"[/\x00-\x1f\x7f]|^[^\w]|\s$")
"""Characters, and the first and last ones, that names in netCDF do not have."""


def savable_variable(variable: xr.Variable, attributes: Mapping[str, Any]) -> xr.Variable:
    """Return a variable, read as lazily as before, with attributes and an encoding that can be written."""
    changed = variable.copy(deep=False)
    changed.attrs = savable_attributes(attributes)
    changed.encoding = {name: value for name, value in variable.encoding.items() if name in WRITABLE}
    return changed


def use_native_order(encoding: dict[str, Any]) -> None:
    """Name the stored type as numpy names it here: netCDF4 warns at `<i2` where it is the machine's own `int16`."""
    dtype = encoding.get("dtype")
    if isinstance(dtype, np.dtype):
        encoding["dtype"] = np.dtype(dtype.str)


def savable_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as netCDF holds them, `{"rpc": {"LINE_OFF": 5.0}}` as `{"rpc": '{"LINE_OFF":5.0}'}`."""
    return {NO_NAME.sub("_", name): value if name in TYPED else plain(value) for name, value in attributes.items()}


def plain(value: Any) -> Any:
    """Return a text, a number or a list of them as it is, anything else as its JSON text."""
    is_kept = _is_text(value) or _is_number(value)
    if isinstance(value, list | tuple) and value:
        is_kept = all(map(_is_text, value)) or all(map(_is_number, value))
    return value if is_kept else dumps(json_value(value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, int):
        return SMALLEST <= value <= LARGEST
    return isinstance(value, float | np.number)
