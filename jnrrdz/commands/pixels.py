"""What is tiled: an array of anything that jnrrdz opens, or a .npy file.

May touch numpy, the api, read and errors.  A .npy file is mapped anew for every window, so that pages that
were read do not count as memory of the process.  Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from jnrrdz import api
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.nrrd.grid import Region, Sizes
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
