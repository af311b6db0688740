"""Datasets of a manifest: which group is meant, its variables, and coordinates from the affine.

Opening needs what documents say and no chunk, so that zarr, which takes a third of the time that xarray does, is
imported where the first chunk is read: docs/decisions/034-imports-where-they-are-met.md.

x and y are computed from the grid mapping's GeoTransform, as 1-D coordinates with an ordinary index, so that `sel`
works by slices; no manifest holds them.  A side that is longer than any picture's has a RangeIndex instead, which is
three numbers: a header of a hundred bytes can claim any length.  A band's coordinate is its name.
"""

import copy
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import AbstractDataStore, StoreBackendEntrypoint
from xarray.backends.zarr import ZarrArrayWrapper, ZarrStore
from xarray.core.indexing import LazilyIndexedArray
from xarray.indexes import PandasIndex, RangeIndex

from jnrrdz.core.bands import BAND, NODATA, band_count, differ_in_scale
from jnrrdz.core.codec_table import SHARDING
from jnrrdz.core.georeference import CRS_WKT, GEO_TRANSFORM, geo_transform, wkt_of
from jnrrdz.core.json_schema import NUMBER, TEXT, is_number, members, nullable, validate
from jnrrdz.core.ome import Axis, stated_axes, unit_name
from jnrrdz.core.standard import chain_parts
from jnrrdz.core.zarr_json import DATA_TYPES, MARKS, ZARR_JSON, axis_names, double_of, missing_number
from jnrrdz.errors import JnrrdzError, MalformedError, ScaleWarning, UnsupportedError, warn_once
from jnrrdz.lazy import library
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.store.band_coordinates import band_coordinates, common_names, with_band_attributes
from jnrrdz.store.opened import ManifestAccess
from jnrrdz.store.savable import savable_attributes, savable_variable, use_native_order

if TYPE_CHECKING:
    import zarr

    from jnrrdz.store import group as group_store
    from jnrrdz.store.store import ReferenceStore
else:
    # zarr, which opening does not need
    group_store = library("jnrrdz.store.group")

LONGEST = 1 << 24
"""Places of an axis up to which its coordinate is in memory, 128 MB: `RangeIndex` finds slices by `nearest` only."""

PLACE_ATTRIBUTES = frozenset({CRS_WKT, GEO_TRANSFORM})
"""Attributes that make a variable a coordinate though no array names it as its grid mapping.

`grid_mapping_name` alone does not: readers of netCDF leave such a variable among the data.
"""

SYSTEM = re.compile(r"\bCS\[")
UNIT = re.compile(r'\b(LENGTH|ANGLE)UNIT\["([^"]{1,80})",(\d{1,20}(?:\.\d{1,20})?)\b')
"""The coordinate system of a WKT 2, and the first unit in it: that of the axes."""

CALLED = (str(Path(xr.__file__).parent), str(Path(__file__).parents[1]))
"""Folders of code between a user's line and a warning."""


def dataset(
    opened: "ManifestAccess | ReferenceStore",
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
    manifest = opened.manifest
    hierarchy = manifest.hierarchy
    if path not in hierarchy.nodes:
        raise hierarchy.no_such_group(path, str(manifest))
    if not is_tree:
        chosen = hierarchy.choice(path)
        chosen.warn(CALLED)
        path = chosen.path
    dropped = {drop_variables} if isinstance(drop_variables, str) else {*(drop_variables or ())}
    checked = {}
    for node in hierarchy.members(path):
        if node.is_array and node.name not in dropped:
            key = f"{node.path}/{ZARR_JSON}"
            checked[key] = manifest.documents.parsed(key)
    for key, document in checked.items():
        _check_array(document, key)
    backing: Any = _backing(opened, manifest, path)
    try:
        found_variables = backing.get_variables()
    except (ValueError, TypeError, KeyError, struct.error) as error:
        raise MalformedError(f"metadata that xarray refuses: {error}", url=str(manifest), field=path) from error
    variables = {name: variable for name, variable in found_variables.items() if name not in dropped}
    attributes = with_band_attributes(variables)
    if decoding.get("mask_and_scale") is not False:
        _warn_of_scales(variables, attributes)
        attributes = {name: _with_float_scale(own) for name, own in attributes.items()}
    names, of_bands = common_names(variables, attributes), band_coordinates(variables, attributes)
    savable = {name: savable_variable(variable, attributes[name]) for name, variable in variables.items()}
    decoded = _Documents(savable_attributes(backing.get_attrs()), savable)
    try:
        found: xr.Dataset = StoreBackendEntrypoint().open_dataset(decoded, **decoding)
    except (ValueError, OverflowError) as error:
        message = f"xarray cannot decode it: {error}"
        raise MalformedError(message, url=str(manifest), field=path or "/") from error
    for variable in found.variables.values():
        use_native_order(variable.encoding)
    axes = [stated_axes(attributes[name]) for name in found.data_vars]
    # without indexes, for which xarray would import dask
    facts = xr.Coordinates(of_bands, indexes={})
    return _with_coordinates(found, axes, names).assign_coords(facts)


def _one_number(value: Any) -> Any:
    """Accept a number, or a list of one: netCDF's attributes are lists."""
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    return NUMBER(value)


def _with_float_scale(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with scale and offset as floats, which CF has alone.

    xarray gives decoded pixels the type of their scale: by an integer it would take the
    integer part of pixels that are floats, and find no NaN for those that are missing.
    """
    changed = dict(attributes)
    for name in ("scale_factor", "add_offset"):
        value: Any = changed.get(name)
        if isinstance(value, list) and len(value) == 1:
            (value,) = value
        if is_number(value):
            changed[name] = float(value)
    return changed


CF = members(
    {},
    {
        "scale_factor": _one_number,
        "add_offset": _one_number,
        "coordinates": TEXT,
        "grid_mapping": TEXT,
    },
)
"""Attributes that xarray decodes, and fails on in ways of its own."""


DECODED = members({}, {"attributes": nullable(CF)})
"""Documents of arrays that xarray can decode."""


def _check_array(document: Mapping[str, Any], key: str) -> None:
    """Refuse an array that xarray cannot name the dimensions of, or would decode to other values."""
    names = document.get("dimension_names") or [None] * len(document["shape"])
    if None in names:
        message = "dimensions without names, which xarray needs; jnrrdz.open_group reads the array"
        raise UnsupportedError(message, field=f"{key}: dimension_names")
    if isinstance(document["data_type"], str) and document["data_type"] in DATA_TYPES:
        validate(document, DECODED, key)


def _with_marks(attributes: dict[str, Any], dtype: np.dtype[Any], key: str) -> dict[str, Any]:
    """Return attributes whose marks of missing values are numbers, as xarray compares pixels with them."""
    for name in MARKS:
        value = attributes.pop(name, None)
        if value is None:
            continue
        several = isinstance(value, list) and len(value) > 1 and dtype.kind != "c"
        try:
            marks = [_mark(each, dtype, name) for each in (value if several else [value])]
        except MalformedError as error:
            error.field = f"{key}: attributes.{error.field}"
            raise
        possible = [mark for mark in marks if mark is not None]
        if possible:
            attributes[name] = possible if several else possible[0]
    return attributes


def _mark(value: Any, dtype: np.dtype[Any], name: str) -> Any:
    """Return a mark with the precision that it is written in: xarray rounds it to the type of the pixels."""
    number = missing_number(value, dtype, name)
    if number is None:
        return None
    if isinstance(value, str):
        return double_of(value)
    return number.item()


def _warn_of_scales(variables: Mapping[Any, xr.Variable], attributes: Mapping[Any, Mapping[str, Any]]) -> None:
    """Warn of arrays whose bands differ in scale or nodata, once a process, as `Choice.warn` does."""
    for name, variable in variables.items():
        texts = []
        if differ_in_scale(attributes[name], band_count(variable.dims, variable.shape)):
            text = f"bands of {name!r} differ in scale or offset, so that its numbers are not scaled: "
            text += f"{name} * scale + offset are the values, and physical=True at indexing makes an array of them"
            texts.append(text)
        if NODATA in attributes[name]:
            text = f"bands of {name!r} differ in nodata, so that it is not masked: "
            texts.append(f"{text}{name}.where({name} != nodata) masks it")
        for text in texts:
            warn_once(text, ScaleWarning, CALLED)


def _backing(opened: "ManifestAccess | ReferenceStore", manifest: Manifest, path: str) -> AbstractDataStore:
    """Return the arrays of a group: of its documents where they say all that zarr would, else of zarr."""
    variables = _variables(opened, manifest, path) if isinstance(opened, ManifestAccess) else None
    if variables is not None:
        return _Documents(manifest.documents.node(path).get("attributes", {}), variables)
    store = opened.store if isinstance(opened, ManifestAccess) else opened
    return ZarrStore(group_store.reference_group(store, path), mode="r")


def _variables(opened: ManifestAccess, manifest: Manifest, path: str) -> dict[str, xr.Variable] | None:
    """Return the variables of a group, None where a document has anything that is not sure to mean what it says."""
    group, names = manifest.documents.node(path), _array_names(manifest, path)
    is_plain = group.get("node_type") == "group" and group.get("zarr_format") == ZARR
    if names is None or not is_plain or not group.keys() <= GROUP_MEMBERS:
        return None
    if not isinstance(group.get("attributes", {}), dict):
        return None
    try:
        return {name: _variable(opened, manifest, f"{path}/{name}".lstrip("/")) for name in names}
    except UnsupportedError:
        return None


def _variable(opened: ManifestAccess, manifest: Manifest, path: str) -> xr.Variable:
    """Return the variable of an array as `ZarrStore` has it, without its codecs."""
    document = manifest.documents.node(path)
    facts = manifest.hierarchy.nodes[path].array
    names, parts = facts.dimension_names, chain_parts(facts.codecs)
    is_plain = document.keys() <= ARRAY_MEMBERS and None not in axis_names(document)
    if parts is None or parts[1].name == SHARDING or not is_plain:
        raise UnsupportedError("zarr has to say what this means", field=path)
    dtype = facts.dtype.newbyteorder("<")  # as zarr has it, whatever the machine's order is
    attributes = _with_marks(copy.deepcopy(dict(facts.attributes)), dtype, f"{path}/{ZARR_JSON}")
    encoding = {
        "chunks": facts.chunks,
        "preferred_chunks": dict(zip(names, facts.chunks, strict=True)),
        "fill_value": facts.fill_value,
    }
    return xr.Variable(names, LazilyIndexedArray(Chunks(opened, path, facts.shape, dtype)), attributes, encoding)


GROUP_MEMBERS = frozenset({"attributes", "zarr_format", "node_type"})
ARRAY_MEMBERS = GROUP_MEMBERS | {
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "dimension_names",
    "storage_transformers",
}
"""Members that documents have; zarr refuses others, or takes them for what it knows."""

ZARR = 3


def _array_names(manifest: Manifest, path: str) -> list[str] | None:
    """Return the names of a group's arrays in zarr's order, None where the group consolidates others than there are."""
    names = [node.name for node in manifest.hierarchy.members(path) if node.is_array]
    consolidated = manifest.documents.consolidated(path)
    if consolidated is None:
        return names
    listed = [name for name in consolidated if name in names]
    return listed if len(listed) == len(names) else None


class _Documents(AbstractDataStore):
    """A group as xarray decodes it."""

    def __init__(self, attributes: Mapping[str, Any], variables: dict[str, xr.Variable]) -> None:
        self._attributes, self._arrays = attributes, variables

    def get_variables(self) -> dict[str, xr.Variable]:
        return self._arrays

    def get_attrs(self) -> dict[str, Any]:
        hidden = "_nc"  # NetCDF's own, which ZarrStore leaves out
        return {
            name: copy.deepcopy(value)
            for name, value in self._attributes.items()
            if not name.lower().startswith(hidden)
        }


class Chunks(ZarrArrayWrapper):
    """The elements of an array, whose zarr array is made when the first of them are read."""

    __slots__ = ("_made", "_opened", "_path")

    def __init__(self, opened: ManifestAccess, path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._opened, self._path = opened, path
        self._made: zarr.Array[Any] | None = None
        self.shape, self.dtype = shape, dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return Chunks, (self._opened, self._path, self.shape, self.dtype)

    @property
    def _array(self) -> "zarr.Array[Any]":
        if self._made is None:
            store = self._opened.store
            array = group_store.reference_array(store, self._path)
            if (array.shape, array.dtype) != (self.shape, self.dtype):  # loaded again where this was unpickled
                message = f"the manifest changed since it was opened: {array.dtype} of {array.shape}"
                raise JnrrdzError(message, url=str(store), field=self._path)
            self._made = array
        return self._made


def _with_coordinates(
    found: xr.Dataset,
    axes_of_arrays: Sequence[Mapping[str, Axis]],
    bands: list[str] | None,
) -> xr.Dataset:
    """Return the dataset with the grid mapping as a coordinate, and with x and y where rows are straight.

    `axes_of_arrays` are the axes of the arrays as the manifest has them, `bands` the names of bands.
    """
    named = {one.attrs.get("grid_mapping", one.encoding.get("grid_mapping")) for one in found.variables.values()}
    mappings = {
        name for name, one in found.variables.items() if name in named or not PLACE_ATTRIBUTES.isdisjoint(one.attrs)
    }
    result = found.set_coords([name for name in mappings if name in found.data_vars])
    for name in mappings:
        for coordinate in _axes(result, result[name].attrs):
            result = result.assign_coords(coordinate)
    result = result.assign_coords(_bands(result, bands))
    for axes in axes_of_arrays:
        for name, axis in axes.items():
            if name not in result.sizes or name in result.coords:
                continue
            positions = _positions(result.sizes[name], axis)
            if positions is not None:
                result = result.assign_coords(positions)
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


def _positions(size: int, axis: Axis) -> xr.Coordinates | None:
    """Return the labels or the positions of an axis, None where it has neither."""
    if axis.labels and len(axis.labels) == size:
        return _listed(axis.name, axis.labels)
    if axis.step is None:
        return None
    attributes = {}
    if axis.unit is not None:
        attributes["unit"] = axis.unit
        # xarray would take units of time for a calendar's when a copy of the dataset is opened again
        if unit_name(axis.unit, "time") is None:
            attributes["units"] = axis.unit
    return _even(axis.name, size, (axis.start, axis.step, 0), attributes)


def _bands(found: xr.Dataset, names: list[str] | None) -> xr.Coordinates | None:
    """Return the names of bands, numbers from 1 where a dataset names none."""
    if BAND not in found.sizes or BAND in found.coords:
        return None
    count = found.sizes[BAND]
    if names is None:
        return None if count > LONGEST else _listed(BAND, np.arange(1, count + 1))
    return _listed(BAND, [name or str(number) for number, name in enumerate(names, 1)])


def _axes(found: xr.Dataset, mapping: Mapping[str, Any]) -> list[xr.Coordinates]:
    """Return the coordinates of pixel centres; none for a rotated image, whose rows are at no one y."""
    transform = geo_transform(mapping)
    if transform is None or transform.is_rotated:
        return []
    starts = {
        "x": (transform.x, transform.column_x),
        "y": (transform.y, transform.row_y),
    }
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
    wkt = wkt_of(mapping)
    system = SYSTEM.search(wkt)
    unit = None if system is None else UNIT.search(wkt, system.end())
    is_named = unit is not None and (unit[1] == "ANGLE" or float(unit[3]) == 1)
    units = {} if unit is None else {"units": unit[2] if is_named else f"{unit[3]} metre"}
    return {"axis": axis.upper(), "standard_name": f"projection_{axis}_coordinate"} | units


def datasets(
    opened: "ManifestAccess | ReferenceStore", *, group: str | None = None, **options: Any
) -> dict[str, xr.Dataset]:
    """Return the datasets of all groups at and below one, by path."""
    top = (group or "").strip("/")
    found: dict[str, xr.Dataset] = {}
    waiting = [top]
    while waiting:
        path = waiting.pop()
        waiting += [node.path for node in opened.manifest.hierarchy.members(path) if not node.is_array]
        relative = path[len(top) :].strip("/")
        found[f"/{relative}"] = dataset(opened, group=path, is_tree=True, **options)
    return dict(sorted(found.items(), key=lambda item: (item[0].count("/"), len(item[0]), item[0])))
