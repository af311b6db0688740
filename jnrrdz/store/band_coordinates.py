"""What single bands mean, as coordinates along `band`: a selection of bands keeps its own.

    scale   (band) float64  0.1 0.5
    unit    (band) <U1      'm' 'K'

Lists in attributes would stay whole, and rioxarray reads them as those of the bands that are left.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jnrrdz.core.bands import BAND, COORDINATES, NAMES, NODATA, Attributes, band_count, entries, with_common
from jnrrdz.store.savable import plain

type Variables = Mapping[Any, xr.Variable]


def with_band_attributes(variables: Variables) -> dict[Any, Attributes]:
    """Return the attributes of each variable: CF's where its bands agree, those of a lone band without lists."""
    attributes = {}
    for name, variable in variables.items():
        bands = band_count(variable.dims, variable.shape)
        attributes[name] = with_common(variable.attrs, bands)
        if BAND not in variable.dims:
            attributes[name] = _of_lone_band(attributes[name])
    return attributes


def _of_lone_band(attributes: Attributes) -> Attributes:
    lone = dict(attributes)
    for name, coordinate in COORDINATES.items():
        values = entries(lone, name, 1)
        if values is not None:
            del lone[name]
            lone[coordinate] = values[0]
    names = entries(lone, NAMES, 1)
    if names is not None:
        del lone[NAMES]
        lone |= {"long_name": names[0]} if names[0] else {}
    return lone


def band_coordinates(variables: Variables, attributes: dict[Any, Attributes]) -> dict[str, xr.Variable]:
    """Return coordinates along `band`, and take what they hold out of the attributes.

    They hold what is the same in all variables with an axis of bands: a coordinate belongs to each of them.
    """
    banded = [name for name, variable in variables.items() if BAND in variable.dims]
    coordinates = {}
    for name, coordinate in COORDINATES.items():
        values = _common_entries(name, [attributes[each] for each in banded], variables)
        if values is None or coordinate in variables:
            continue
        array = np.array(values, float) if name == NODATA else np.array([plain(value) for value in values])
        # checking whether the array is dask's would import dask
        coordinates[coordinate] = xr.Variable((BAND,), array, fastpath=True)
        for each in banded:
            del attributes[each][name]
    return coordinates


def common_names(variables: Variables, attributes: dict[Any, Attributes]) -> list[str] | None:
    """Return the names of bands, taken out of the attributes; None where variables have none, or others."""
    banded = [attributes[name] for name, variable in variables.items() if BAND in variable.dims]
    names = _common_entries(NAMES, banded, variables)
    for each in banded if names is not None else ():
        del each[NAMES]
    return names


def _common_entries(name: str, banded: list[Attributes], variables: Variables) -> list[Any] | None:
    sizes = {band_count(one.dims, one.shape) for one in variables.values() if BAND in one.dims}
    if len(sizes) != 1:
        return None
    (bands,) = sizes
    lists = [entries(attributes, name, bands) for attributes in banded]
    return lists[0] if all(values == lists[0] for values in lists) else None
