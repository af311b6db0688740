"""Doors that write pixels: to Zarr, netCDF, TIFF, JNRRD and pictures.

What they write is read back without jnrrdz.
"""

from dataclasses import replace

import jnrrdz
import numpy as np
import rasterio
import xarray as xr
from tests.commands.jnrrd_reader import read as read_jnrrd
from tests.matrix.doors_combine import CUBE, TIME, both
from tests.matrix.plain import plain_reader
from tests.matrix.view import NO_PLACE, View


def saved(dataset, path, case, name=None, **options):
    """Save a dataset as Zarr, and return what plain xarray sees in it."""
    dataset.to_zarr(path, **options)
    name = name or case.row.variable
    view = plain_reader().call("dataset", str(path), "zarr", "", name)
    return without_nan(view, case)


def without_nan(view, case):
    """Return the view without NaN as nodata, which xarray adds to saved floats."""
    is_added = case.view.nodata is None and view.nodata is not None
    return replace(view, nodata=None) if is_added and np.isnan(view.nodata) else view


def to_zarr(version):
    def door(case):
        with xr.open_dataset(case.index()) as dataset:
            return saved(dataset, case.output("a.zarr"), case, zarr_format=version)

    return door


def to_netcdf(case):
    out = case.output("a.nc")
    with xr.open_dataset(case.index()) as dataset:
        dataset.to_netcdf(out, engine="h5netcdf")
    view = plain_reader().call("dataset", str(out), "h5netcdf", "", case.row.variable)
    return without_nan(view, case)


def cube_to_zarr(case):
    out = case.output("cube.json")
    jnrrdz.cube(both(case), out, time_from=TIME)
    with xr.open_dataset(out) as dataset:
        return saved(dataset, case.output("a.zarr"), case, CUBE)


def physical_to_zarr(case):
    with xr.open_dataset(case.index(physical=True)) as dataset:
        return saved(dataset, case.output("a.zarr"), case)


def expected_values(case):
    return replace(case.view, pixels=case.view.decoded())


def raster(array, case):
    """Save an array by rioxarray, and return what GDAL sees in it.

    rioxarray takes names of bands from an attribute: docs/howto/save.md.
    """
    out = case.output("a.tif")
    if case.view.names and "band" in array.coords:
        array = array.assign_attrs(long_name=array["band"].to_numpy().tolist())
    array.rio.to_raster(out)
    with rasterio.open(out) as source:
        affine = tuple(source.transform)[:6]
        crs = source.gcps[1] or source.crs
        names = tuple(name or "" for name in source.descriptions)
        return View(
            source.read(),
            affine=None if affine == NO_PLACE else affine,
            epsg=crs.to_epsg() if crs else None,
            nodata=source.nodata,
            names=() if set(names) <= {"", case.row.variable} else names,
        )


def all_bands(case):
    with xr.open_dataset(case.index()) as dataset:
        return raster(dataset[case.row.variable], case)


def one_band(case):
    with xr.open_dataset(case.index()) as dataset:
        array = dataset[case.row.variable]
        others = [dim for dim in array.dims if dim not in {"y", "x"}]
        return raster(array.isel(dict.fromkeys(others, -1)), case)


def named_bands(case):
    with xr.open_dataset(case.index()) as dataset:
        array = dataset[case.row.variable]
        chosen = array["band"].to_numpy()[::-1]
        return raster(array.sel(band=chosen), case)


def expected_raster(case):
    """Return the view; rioxarray makes an affine of the coordinates x and y."""
    view = case.view
    if view.affine is None and {"x", "y"} <= view.steps.keys():
        (left, wide), (top, high) = view.steps["x"], view.steps["y"]
        affine = (wide, 0.0, left - wide / 2, 0.0, high, top - high / 2)
        view = replace(view, affine=affine)
    return replace(view, pixels=planes(view.pixels))


def expected_one(case):
    """Return the last plane; rioxarray knows names of bands, and none of channels."""
    view = expected_raster(case)
    last = tuple(np.s_[:] if dim in {"y", "x"} else -1 for dim in view.dims)
    names = view.names[-1:] if "band" in view.dims else ()
    return replace(view, pixels=planes(case.view.pixels[last]), names=names)


def expected_named(case):
    view = expected_raster(case)
    return replace(view, pixels=view.pixels[::-1], names=view.names[::-1])


def planes(pixels):
    return pixels[None] if pixels.ndim == 2 else pixels


def tile(case):
    out = case.output("a.jnrrd")
    jnrrdz.tile(case.index(), out, tile=(32, 32, 2, 2, 2)[: case.view.pixels.ndim])
    _, (level,) = read_jnrrd(out)
    return View(level)


def preview(case):
    return View(jnrrdz.preview(case.index(), size=2048).rgba)


def expected_picture(case):
    """Return red, green, blue and alpha as the documentation of `preview` has them."""
    if case.row.picture is not None:
        return View(case.row.picture(case.sources[0]))
    view = case.view
    roles = view.colours
    bands = plane_of(view)
    if "palette" in roles:
        return View(view.table[bands[0]])
    if "c" in view.dims and view.names:
        return View(white_light(bands))
    colours = [roles.index(each) for each in ("red", "green", "blue") if each in roles]
    shown = bands[colours if len(colours) == 3 else [0] * 3]
    opacity = view.opacity
    if opacity is None or view.nodata is not None:
        opacity = np.where((shown != view.nodata).any(0), 255, 0).astype("u1")
    rgba = np.stack([*(stretched(band, opacity) for band in shown), opacity], axis=-1)
    is_up = view.affine is not None and view.affine[4] > 0 and not view.affine[1]
    return View(rgba[::-1] if is_up else rgba)


def white_light(channels):
    """Return the sum of channels without colours."""
    shown = np.full(channels.shape[1:], 255, "u1")
    light = sum(stretched(channel, shown).astype(int) for channel in channels)
    return np.stack([*[np.minimum(light, 255).astype("u1")] * 3, shown], axis=-1)


def plane_of(view):
    """Return bands, rows and columns: the first along further axes, the middle of z."""
    pixels = np.abs(view.pixels) if view.pixels.dtype.kind == "c" else view.pixels
    if view.dims[-1] == "c":
        pixels, view = (
            np.moveaxis(pixels, -1, 0),
            replace(view, dims=("c", *view.dims[:-1])),
        )
    for axis in range(pixels.ndim - 3, -1, -1):
        name = view.dims[axis]
        if name not in {"band", "c"}:
            pixels = pixels.take(pixels.shape[axis] // 2 if name == "z" else 0, axis)
    return planes(pixels)


def stretched(band, opacity):
    """Return bytes as they are, other numbers between two percentiles."""
    if band.dtype == np.uint8:
        return band
    valid = band[(opacity > 0) & np.isfinite(band)]
    low, high = np.percentile(valid, (2, 98))
    scaled = np.clip((band.astype("f8") - low) / ((high - low) or 1), 0, 1)
    return (np.nan_to_num(scaled) * 255).round().astype("u1")
