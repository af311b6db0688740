"""Datasets from a reference store: which group is meant, and coordinates from the affine.

May touch xarray, zarr and read's own modules.  x and y are computed from the grid mapping's
GeoTransform, as 1-D coordinates with an ordinary index, so that `sel` works by slices; no manifest
holds them.  A band's coordinate is its name.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import StoreBackendEntrypoint
from xarray.backends.zarr import ZarrStore

from jnrrdz.errors import JnrrdzError
from jnrrdz.store.group import reference_group
from jnrrdz.store.store import ReferenceStore

ROOT = "zarr.json"
BAND = "band"
GEO_TRANSFORM = 6


def _document(store: ReferenceStore, path: str) -> dict[str, Any]:
    found = store.manifest.documents.node(path)
    if not found:
        raise JnrrdzError("no such group", url=str(store), field=path or "/")
    return found


def _children(store: ReferenceStore, path: str) -> list[str]:
    """Return the names of the nodes right below a group, in the manifest's order."""
    prefix = f"{path}/" if path else ""
    names = (key[len(prefix) :].split("/") for key in store.manifest.documents if key.startswith(prefix))
    return [parts[0] for parts in names if parts[1:] == [ROOT]]


def default_group(store: ReferenceStore) -> str:
    """Return the path of the group that holds the full-resolution image of a store."""
    path = ""
    while True:
        children = _children(store, path)
        below = [f"{path}/{name}" if path else name for name in children]
        kinds = {child: _document(store, child) for child in below}
        if any(doc.get("node_type") == "array" and len(doc.get("shape", ())) > 1 for doc in kinds.values()):
            return path
        groups = [child for child, doc in kinds.items() if doc.get("node_type") == "group"]
        if not groups:
            return path
        path = _finest(_document(store, path), path, groups)


def _finest(document: Mapping[str, Any], path: str, groups: list[str]) -> str:
    """Return the first level that the multiscales name, else the first group."""
    layout = document.get("attributes", {}).get("multiscales", {})
    levels = layout.get("layout", []) if isinstance(layout, dict) else []
    named = [f"{path}/{level['asset']}" if path else level["asset"] for level in levels if "asset" in level]
    return next((name for name in named if name in groups), groups[0])


def dataset(
    store: ReferenceStore,
    *,
    group: str | None = None,
    drop_variables: str | Iterable[str] | None = None,
    **decoding: Any,
) -> xr.Dataset:
    """Return the dataset of one group, the full-resolution image where none is named."""
    path = default_group(store) if group is None else group.strip("/")
    _document(store, path)
    backing = ZarrStore(reference_group(store, path), mode="r")
    found: xr.Dataset = StoreBackendEntrypoint().open_dataset(backing, drop_variables=drop_variables, **decoding)
    return _with_coordinates(found)


def _with_coordinates(found: xr.Dataset) -> xr.Dataset:
    """Return the dataset with the grid mapping as a coordinate, and with x and y where rows are straight."""
    mappings = {name for name in found.variables if "GeoTransform" in found[name].attrs}
    mappings |= {name for name in found.variables if "crs_wkt" in found[name].attrs}
    result = found.set_coords([name for name in mappings if name in found.data_vars])
    for name in mappings:
        result = result.assign_coords(_axes(result, result[name].attrs))
    result = result.assign_coords(_bands(result))
    for variable in found.data_vars.values():
        result = result.assign_coords(_steps(result, variable.attrs.get("axes")))
    return result


def _steps(found: xr.Dataset, axes: Any) -> dict[str, xr.Variable]:
    """Return the coordinates that a variable's `axes` attribute tells: labels, or a start and a step with a unit."""
    known = axes if isinstance(axes, dict) else {}
    made = {name: _step(found.sizes[name], name, meaning) for name, meaning in known.items() if name in found.sizes}
    return {name: axis for name, axis in made.items() if axis is not None and name not in found.coords}


def _step(size: int, name: str, meaning: Any) -> xr.Variable | None:
    if not isinstance(meaning, dict):
        return None
    labels, step = meaning.get("labels"), meaning.get("step")
    if isinstance(labels, list) and len(labels) == size and all(isinstance(label, str) for label in labels):
        return xr.Variable((name,), labels)
    if not isinstance(step, int | float):
        return None
    start, unit = meaning.get("start", 0.0), meaning.get("unit")
    # xarray would take some units of time for a calendar's; `unit` is what pint and OME say too
    return xr.Variable((name,), start + step * np.arange(size), {} if unit is None else {"unit": unit})


def _bands(found: xr.Dataset) -> dict[str, xr.Variable]:
    """Return the names of bands, numbers from 1 where a dataset names none."""
    if BAND not in found.sizes or BAND in found.coords:
        return {}
    count = found.sizes[BAND]
    known = (variable.attrs.get("band_names") for variable in found.data_vars.values() if BAND in variable.dims)
    names = next((names for names in known if isinstance(names, list) and len(names) == count), None)
    if names is None:
        return {BAND: xr.Variable((BAND,), np.arange(1, count + 1))}
    return {BAND: xr.Variable((BAND,), [name or str(number) for number, name in enumerate(names, 1)])}


def _axes(found: xr.Dataset, mapping: Mapping[str, Any]) -> dict[str, xr.Variable]:
    """Return the coordinates of pixel centres; none for a rotated image, whose rows are at no one y."""
    numbers = [float(text) for text in str(mapping.get("GeoTransform", "")).split()]
    if len(numbers) != GEO_TRANSFORM or numbers[2] or numbers[4]:
        return {}
    starts = {"x": (numbers[0], numbers[1]), "y": (numbers[3], numbers[5])}
    return {
        axis: xr.Variable((axis,), start + step * (np.arange(found.sizes[axis]) + 0.5), _meaning(axis, mapping))
        for axis, (start, step) in starts.items()
        if axis in found.sizes and axis not in found.coords
    }


def _meaning(axis: str, mapping: Mapping[str, Any]) -> dict[str, str]:
    """Return CF attributes of an axis."""
    geographic = mapping.get("grid_mapping_name") == "latitude_longitude"
    names = (
        {"x": "longitude", "y": "latitude"}
        if geographic
        else {
            "x": "projection_x_coordinate",
            "y": "projection_y_coordinate",
        }
    )
    return {"axis": axis.upper(), "standard_name": names[axis]}


def datasets(store: ReferenceStore, *, group: str | None = None, **options: Any) -> dict[str, xr.Dataset]:
    """Return the datasets of all groups at and below one, by path."""
    top = (group or "").strip("/")
    found: dict[str, xr.Dataset] = {}
    waiting = [top]
    while waiting:
        path = waiting.pop()
        below = [f"{path}/{name}" if path else name for name in _children(store, path)]
        waiting += [child for child in below if _document(store, child).get("node_type") == "group"]
        relative = path[len(top) :].strip("/")
        found[f"/{relative}"] = dataset(store, group=path, **options)
    return dict(sorted(found.items(), key=lambda item: (item[0].count("/"), len(item[0]), item[0])))
