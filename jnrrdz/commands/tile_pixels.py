"""What is tiled: an array of anything that jnrrdz opens, or a .npy file.

May touch numpy, the api, read and errors.  A .npy file is mapped anew for every window, so that pages that
were read do not count as memory of the process.  Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

What the axes of an array mean, as the core keys of a JNRRD: labels, kinds, units, directions, origin.

May touch the model and what the scanner keeps of a header; pure.  Vectors are turned here from C order to the header's.
Keys as http://teem.sourceforge.net/nrrd/format.html has them; elements lie at their centres.
"""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from jnrrdz import api
from jnrrdz.core.ome import KINDS
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.nrrd.axes import kept
from jnrrdz.formats.nrrd.write import Region, Sizes
from jnrrdz.sources.url import local_path
from jnrrdz.store.group import ReferenceGroup, reference_group
from jnrrdz.store.xarray import default_group

MAPPING = "grid_mapping"


@dataclass(frozen=True)
class Pixels:
    """An array that is read by windows; axes in the array's order, last one fastest."""

    shape: Sizes
    dtype: np.dtype[Any]
    chunks: Sizes
    """What is decoded at one time."""

    read: Callable[[Region], NDArray[Any]]
    names: tuple[str, ...] = ()
    """Of the axes, nothing where they have none."""

    fill_value: Any = 0
    missing: Any = None
    """The value of elements that hold nothing, where the source declares one."""

    attributes: Mapping[str, Any] = field(default_factory=dict)
    mapping: Mapping[str, Any] = field(default_factory=dict)
    """The attributes of its grid mapping."""

    urls: tuple[str, ...] = ()
    """Where its bytes are."""


def opened(src: str, group: str | None, options: Mapping[str, Any]) -> Pixels:
    """Return the array to tile; `group` names a group or an array, else the full-resolution image is meant."""
    if local_path(src) is not None and src.endswith(".npy"):
        if group is not None:
            raise UnsupportedError("a .npy file has no groups", url=src, field="group")
        return _npy(src)
    store = api.open_store(src, **options)
    try:
        path, node = _chosen(reference_group(store), default_group(store) if group is None else group.strip("/"))
        array = node if isinstance(node, zarr.Array) else _main(node, path)
        return _of_array(array, _mapping(store, path, array), (src, *(one.url for one in store.manifest.sources)))
    except JnrrdzError as error:
        raise error.at(url=src) from error.__cause__


def _chosen(root: ReferenceGroup, path: str) -> tuple[str, Any]:
    """Return the node at a path, and the path of the group that it is or lies in."""
    if not path:
        return "", root
    try:
        node = root[path]
    except KeyError:
        raise JnrrdzError(f"no group or array {path!r}", field="group") from None
    return (path.rpartition("/")[0] if isinstance(node, zarr.Array) else path), node


def _main(group: Any, path: str) -> "zarr.Array[Any]":
    """Return the one array of a group with the most axes."""
    arrays = {name: array for name, array in group.arrays() if array.shape}
    most = max((array.ndim for array in arrays.values()), default=0)
    names = sorted(name for name, array in arrays.items() if array.ndim == most)
    if not names:
        raise UnsupportedError("no array in this group", field=path or "/")
    if len(names) > 1:
        raise UnsupportedError(f"arrays {', '.join(names)}; name one by --group", field=path or "/")
    found: zarr.Array[Any] = arrays[names[0]]
    return found


def _mapping(store: Any, path: str, array: "zarr.Array[Any]") -> dict[str, Any]:
    """Return the attributes of an array's grid mapping."""
    name = array.attrs.get(MAPPING)
    group = reference_group(store, path)
    return dict(group[name].attrs) if isinstance(name, str) and name in group else {}


def _of_array(array: "zarr.Array[Any]", mapping: Mapping[str, Any], urls: tuple[str, ...]) -> Pixels:
    attributes = dict(array.attrs)
    names = getattr(array.metadata, "dimension_names", None) or ()
    fill = np.asarray(array.fill_value, array.dtype)[()] if array.fill_value is not None else 0
    return Pixels(
        array.shape,
        array.dtype,
        array.chunks,
        lambda region: np.asarray(array[region]),
        tuple(names) if all(names) else (),
        fill,
        fill if "_FillValue" in attributes else None,
        attributes,
        mapping,
        urls,
    )


def _npy(src: str) -> Pixels:
    path = local_path(src) or src
    array = _mapped(path)
    fastest = (*(1,) * (array.ndim - 1), array.shape[-1]) if array.ndim else ()
    chunks = fastest if array.flags.c_contiguous else (1,) * array.ndim
    return Pixels(
        array.shape, array.dtype, chunks, lambda region: np.array(_mapped(path)[region]), urls=(os.path.realpath(path),)
    )


def _mapped(path: str) -> NDArray[Any]:
    if not Path(path).exists():
        raise JnrrdzError("no such file", url=path)
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise MalformedError(f"not a .npy file that can be mapped: {error}", url=path) from error
    if not isinstance(found, np.ndarray):
        raise UnsupportedError("an archive of arrays; unpack one of them", url=path)
    return found


SPACE = ("x", "y", "z")
NRRD_KINDS = {"time": "time", "space": "space", "channel": "list"}
GEO_TRANSFORM = 6
LARGEST_ATTRIBUTES = 1 << 18
"""Bytes of attributes that a header takes with it."""

TOLD_ELSEWHERE = ("axes", "grid_mapping")

type Keys = list[tuple[str, Any]]


def axis_names(pixels: Pixels) -> tuple[str, ...]:
    """Return a name for each axis, in the array's order: x, y, z for the last ones where there are none."""
    if pixels.names:
        return pixels.names
    count = len(pixels.shape)
    return tuple(SPACE[number] if number < len(SPACE) else f"d{number}" for number in reversed(range(count)))


def default_factors(names: Sequence[str]) -> Sizes:
    """Return how much coarser each level is than the one before: 2 along axes of space, the others are kept."""
    kinds = [KINDS.get(name) for name in names]
    if "space" in kinds:
        return tuple(2 if kind == "space" else 1 for kind in kinds)
    rest = [number for number, kind in enumerate(kinds) if kind is None][-len(SPACE) :]
    return tuple(2 if number in rest else 1 for number in range(len(names)))


def axis_keys(pixels: Pixels, names: Sequence[str]) -> Keys:
    """Return the core keys of the axes."""
    turned = list(reversed(names))
    found: Keys = [("labels", turned)]
    kinds = [NRRD_KINDS.get(KINDS.get(name, ""), "domain") for name in turned]
    found.append(("kinds", kinds))
    places = _placed(pixels, names)
    if places is None:
        return found
    spatial = [name for name in SPACE if name in turned]
    others = [place if name not in spatial else None for name, place in zip(turned, places, strict=True)]
    if any(place is not None and place.is_known for place in others):
        found.append(("spacings", [None if place is None else place.step for place in others]))
    if any(place is not None and place.unit for place in others):
        found.append(("units", [place.unit if place is not None else "" for place in others]))
    return found + _space_keys(pixels, turned, dict(zip(turned, places, strict=True)), spatial)


@dataclass(frozen=True)
class _Place:
    """Where the elements of an axis are."""

    step: float = 1.0
    start: float = 0.0
    unit: str = ""
    is_known: bool = False


def _space_keys(pixels: Pixels, turned: Sequence[str], places: Mapping[str, _Place], spatial: Sequence[str]) -> Keys:
    """Return directions in a space of the axes x, y and z that there are."""
    if not spatial:
        return []
    skewed = _affine(pixels) if {"x", "y"} <= set(spatial) else []
    directions = [_direction(name, places[name], spatial, skewed) if name in spatial else None for name in turned]
    found: Keys = [("space_dimension", len(spatial)), ("space_directions", directions)]
    found.append(("space_origin", [_origin(name, places[name], skewed) for name in spatial]))
    if any(places[name].unit for name in spatial):
        found.append(("space_units", [places[name].unit for name in spatial]))
    return found


def _direction(name: str, place: _Place, spatial: Sequence[str], affine: Sequence[float]) -> list[float]:
    """Return the step along an axis in space; rows and columns of a rotated image go along both of its axes."""
    if affine and name in {"x", "y"}:
        column = 1 if name == "x" else 2
        along = {"x": affine[column], "y": affine[column + 3]}
        return [along.get(axis, 0.0) for axis in spatial]
    return [place.step if axis == name else 0.0 for axis in spatial]


def _origin(name: str, place: _Place, affine: Sequence[float]) -> float:
    """Return where the centre of the first element is along an axis of space."""
    if affine and name in {"x", "y"}:
        first = 0 if name == "x" else 3
        return affine[first] + (affine[first + 1] + affine[first + 2]) / 2
    return place.start


def _affine(pixels: Pixels) -> list[float]:
    """Return the grid mapping's six numbers as GDAL orders them, nothing where there are none."""
    try:
        numbers = [float(text) for text in str(pixels.mapping.get("GeoTransform", "")).split()]
    except ValueError:
        return []
    return numbers if len(numbers) == GEO_TRANSFORM and all(map(math.isfinite, numbers)) else []


def _placed(pixels: Pixels, names: Sequence[str]) -> list[_Place] | None:
    """Return where the elements of every axis are, in the header's order; None where the source does not say."""
    axes = pixels.attributes.get("axes")
    known = axes if isinstance(axes, dict) else {}
    places = [_place(known.get(name)) for name in reversed(names)]
    is_said = any(place.is_known for place in places) or (bool(_affine(pixels)) and {"x", "y"} <= set(names))
    return places if is_said else None


def _place(meaning: Any) -> _Place:
    if not isinstance(meaning, dict):
        return _Place()
    step, start, unit = meaning.get("step"), meaning.get("start", 0.0), meaning.get("unit")
    unit = unit if isinstance(unit, str) else ""
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in (step, start)) or not step:
        return _Place(unit=unit)
    return _Place(float(step), float(start), unit, is_known=True)


def kept_attributes(pixels: Pixels) -> Keys:
    """Return what else the source says of the array, as one key; nothing where it is more than a header should hold."""
    found = kept({name: value for name, value in pixels.attributes.items() if name not in TOLD_ELSEWHERE})
    if pixels.mapping:
        found["spatial_ref"] = {name: pixels.mapping[name] for name in _MAPPING if name in pixels.mapping}
    try:
        text = json.dumps(found, allow_nan=False)
    except (ValueError, TypeError):
        return []
    return [("attributes", found)] if found and len(text) <= LARGEST_ATTRIBUTES else []


_MAPPING = ("crs_wkt", "GeoTransform", "grid_mapping_name")
