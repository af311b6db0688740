"""Datasets from a reference store: which group is meant, and coordinates from the affine.

x and y are computed from the grid mapping's GeoTransform, as 1-D coordinates with an ordinary index, so that `sel`
works by slices; no manifest holds them.  A side that is longer than any picture's has a RangeIndex instead, which is
three numbers: a header of a hundred bytes can claim any length.  A band's coordinate is its name.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import StoreBackendEntrypoint
from xarray.backends.zarr import ZarrStore
from xarray.indexes import PandasIndex, RangeIndex

from jnrrdz.core.configuration import shown
from jnrrdz.core.ome import unit_name
from jnrrdz.errors import MalformedError
from jnrrdz.store.group import below, choice, no_such_group, reference_group
from jnrrdz.store.store import ReferenceStore

BAND = "band"
LONGEST = 1 << 24
"""Places of an axis up to which its coordinate is in memory, 128 MB: `RangeIndex` finds slices by `nearest` only."""

GEO_TRANSFORM = 6
MAPPING_ATTRIBUTES = {"GeoTransform", "crs_wkt"}
"""What a grid mapping is known by where no variable names it."""

SYSTEM = re.compile(r"\bCS\[")
UNIT = re.compile(r'\b(LENGTH|ANGLE)UNIT\["([^"]{1,80})",(\d{1,20}(?:\.\d{1,20})?)\b')
"""The coordinate system of a WKT 2, and the first unit in it: that of the axes."""

CALLED = (str(Path(xr.__file__).parent), str(Path(__file__).parents[1]))
"""Folders of code between a user's line and a warning."""


def dataset(
    store: ReferenceStore,
    *,
    group: str | None = None,
    drop_variables: str | Iterable[str] | None = None,
    is_tree: bool = False,
    **decoding: Any,
) -> xr.Dataset:
    """Return the dataset of one group, or of the full-resolution image in it where it holds groups only.

    In a tree each group is what it is.
    """
    path = "" if group is None else group.strip("/")
    if not store.manifest.documents.node(path):
        raise no_such_group(store, path)
    if not is_tree:
        opened = choice(store, path)
        opened.warn(store, CALLED)
        path = opened.path
    backing = ZarrStore(reference_group(store, path), mode="r")
    found: xr.Dataset = StoreBackendEntrypoint().open_dataset(backing, drop_variables=drop_variables, **decoding)
    return _with_coordinates(found)


def _with_coordinates(found: xr.Dataset) -> xr.Dataset:
    """Return the dataset with the grid mapping as a coordinate, and with x and y where rows are straight."""
    named = {one.attrs.get("grid_mapping", one.encoding.get("grid_mapping")) for one in found.variables.values()}
    mappings = {
        name for name, one in found.variables.items() if name in named or not MAPPING_ATTRIBUTES.isdisjoint(one.attrs)
    }
    result = found.set_coords([name for name in mappings if name in found.data_vars])
    for name in mappings:
        for axis in _axes(result, result[name].attrs):
            result = result.assign_coords(axis)
    result = result.assign_coords(_bands(result))
    for variable in found.data_vars.values():
        axes = variable.attrs.get("axes")
        for name, meaning in axes.items() if isinstance(axes, dict) else ():
            step = _step(result.sizes[name], name, meaning) if name in result.sizes else None
            if step is not None and name not in result.coords:
                result = result.assign_coords(step)
    return result


def _listed(name: str, values: Sequence[Any] | NDArray[Any]) -> xr.Coordinates:
    """Return the coordinate of places, or of names, in memory.

    xarray makes an index of a pandas index as it is; of numpy's values it asks first whether they are dask's, which
    imports `dask.array`, and with it scipy.
    """
    array = np.asarray(values)
    return xr.Coordinates.from_xindex(PandasIndex(pd.Index(array), name, array.dtype))


def _even(name: str, size: int, line: tuple[float, float, float], attrs: Mapping[str, str]) -> xr.Coordinates:
    """Return the coordinate of evenly spaced places, from a start, a step and a part of it before the first."""
    start, step, shift = line
    if size <= LONGEST:
        even = _listed(name, start + step * (np.arange(size) + shift))
    else:
        first = start + step * shift
        index = RangeIndex.linspace(first, first + step * size, size, endpoint=False, dim=name)
        even = xr.Coordinates.from_xindex(index)
    even.variables[name].attrs.update(attrs)
    return even


def _step(size: int, name: str, meaning: Any) -> xr.Coordinates | None:
    if not isinstance(meaning, dict):
        return None
    labels, step = meaning.get("labels"), meaning.get("step")
    if isinstance(labels, list) and len(labels) == size and all(isinstance(label, str) for label in labels):
        return _listed(name, labels)
    start, unit = meaning.get("start", 0.0), meaning.get("unit")
    if not isinstance(step, int | float) or not isinstance(start, int | float):
        return None
    # xarray would take units of time for a calendar's when a copy of the dataset is opened again
    is_time = unit_name(str(unit), "time") is not None
    attributes = {} if unit is None else {"unit": unit} if is_time else {"unit": unit, "units": unit}
    return _even(name, size, (start, step, 0), attributes)


def _bands(found: xr.Dataset) -> xr.Coordinates | None:
    """Return the names of bands, numbers from 1 where a dataset names none."""
    if BAND not in found.sizes or BAND in found.coords:
        return None
    count = found.sizes[BAND]
    known = (variable.attrs.get("band_names") for variable in found.data_vars.values() if BAND in variable.dims)
    names = next((names for names in known if isinstance(names, list) and len(names) == count), None)
    if names is None:
        return None if count > LONGEST else _listed(BAND, np.arange(1, count + 1))
    return _listed(BAND, [name or str(number) for number, name in enumerate(names, 1)])


def _axes(found: xr.Dataset, mapping: Mapping[str, Any]) -> list[xr.Coordinates]:
    """Return the coordinates of pixel centres; none for a rotated image, whose rows are at no one y."""
    told = str(mapping.get("GeoTransform", ""))
    try:
        numbers = [float(text) for text in told.split()]
    except ValueError as error:
        raise MalformedError(f"{shown(told)} where six numbers belong", field="GeoTransform") from error
    if len(numbers) != GEO_TRANSFORM or not np.isfinite(numbers).all() or numbers[2] or numbers[4]:
        return []
    starts = {"x": (numbers[0], numbers[1]), "y": (numbers[3], numbers[5])}
    return [
        _even(axis, found.sizes[axis], (start, step, 0.5), _meaning(axis, mapping))
        for axis, (start, step) in starts.items()
        if axis in found.sizes and axis not in found.coords
    ]


def _meaning(axis: str, mapping: Mapping[str, Any]) -> dict[str, str]:
    """Return CF attributes of an axis; units are spelt as pyproj spells them."""
    if mapping.get("grid_mapping_name") == "latitude_longitude":
        name, degrees = {"x": ("longitude", "degrees_east"), "y": ("latitude", "degrees_north")}[axis]
        return {"axis": axis.upper(), "standard_name": name, "units": degrees}
    wkt = str(mapping.get("crs_wkt", ""))
    system = SYSTEM.search(wkt)
    unit = None if system is None else UNIT.search(wkt, system.end())
    is_named = unit is not None and (unit[1] == "ANGLE" or float(unit[3]) == 1)
    units = {} if unit is None else {"units": unit[2] if is_named else f"{unit[3]} metre"}
    return {"axis": axis.upper(), "standard_name": f"projection_{axis}_coordinate"} | units


def datasets(store: ReferenceStore, *, group: str | None = None, **options: Any) -> dict[str, xr.Dataset]:
    """Return the datasets of all groups at and below one, by path."""
    top = (group or "").strip("/")
    found: dict[str, xr.Dataset] = {}
    waiting = [top]
    while waiting:
        path = waiting.pop()
        waiting += [
            child for child, node in below(store.manifest.documents, path).items() if node.get("node_type") == "group"
        ]
        relative = path[len(top) :].strip("/")
        found[f"/{relative}"] = dataset(store, group=path, is_tree=True, **options)
    return dict(sorted(found.items(), key=lambda item: (item[0].count("/"), len(item[0]), item[0])))
