"""What readers of others see in a source: GDAL, tifffile, pynrrd, ITK, and so on."""

from dataclasses import replace

import h5py
import imagecodecs
import nrrd
import numpy as np
import rasterio
import SimpleITK
import tensorstore
import tifffile
import xarray as xr
from astropy.io import fits
from tests.commands.jnrrd_reader import DECODE as JNRRD_DECODE
from tests.commands.jnrrd_reader import header_of
from tests.matrix.view import NO_PLACE, View, of_dataset


def by_gdal(path) -> View:
    """Return the view of GDAL, with overviews as levels."""
    with rasterio.open(path) as source:
        pixels = squeezed(source.read())
        affine = tuple(source.transform)[:6]
        crs = source.gcps[1] or source.crs
        if source.rpcs is not None:
            crs = rasterio.CRS.from_epsg(4326)  # RPCs are of WGS 84 by definition
        names = tuple(name or "" for name in source.descriptions)
        colours = tuple(each.name for each in source.colorinterp)
        facts = {
            "colours": colours,
            "table": colour_table(source) if "palette" in colours else None,
            "opacity": source.dataset_mask(),
            "affine": None if affine == NO_PLACE else affine,
            "epsg": None if crs is None else crs.to_epsg(),
            "nodata": source.nodata,
            "names": names if any(names) and source.count > 1 else (),
            "scales": own_numbers(source.scales, 1),
            "offsets": own_numbers(source.offsets, 0),
        }
        if facts["scales"] or facts["offsets"]:
            facts["scales"] = facts["scales"] or (1.0,) * source.count
            facts["offsets"] = facts["offsets"] or (0.0,) * source.count
        count = len(source.overviews(1))
    levels = tuple(overview_of(path, level) for level in range(count))
    return View(pixels, gdal_dims(pixels), levels=levels, **facts)


def colour_table(source):
    return np.array([colour for _, colour in sorted(source.colormap(1).items())], "u1")


def own_numbers(numbers, usual):
    """Return the numbers of bands, none where they say nothing."""
    return () if set(numbers) == {usual} else tuple(numbers)


def gdal_dims(pixels):
    return ("y", "x") if pixels.ndim == 2 else ("band", "y", "x")


def squeezed(pixels):
    return pixels[0] if len(pixels) == 1 else pixels


def overview_of(path, level):
    with rasterio.open(path, overview_level=level) as source:
        return squeezed(source.read())


def by_tifffile(*dims, levels=0, steps=None, **facts):
    """Return a function that gives the view of tifffile, whose axes are named here."""

    def read(path) -> View:
        with tifffile.TiffFile(path) as file:
            series = file.series[0]
            pixels = series.levels[0].asarray()
            coarser = [series.levels[n + 1].asarray() for n in range(levels)]
        turned = [bands_first(each, dims) for each in (pixels, *coarser)]
        coarser = tuple(turned[1:])
        return View(turned[0], dims, steps=steps or {}, levels=coarser, **facts)

    return read


def bands_first(pixels, dims):
    """Return pixels with samples before rows, where they are the last axis."""
    if "band" in dims and pixels.shape[-1] <= 4 < pixels.shape[-3]:
        return np.moveaxis(pixels, -1, -3)
    return pixels


def by_gdal_and_openjpeg(levels):
    """Return a function that gives the view of GDAL, and levels of OpenJPEG."""

    def read(path) -> View:
        view = by_gdal(path)
        reduced = by_openjpeg(*view.dims, levels=levels)(path)
        return replace(view, levels=reduced.levels)

    return read


def by_openjpeg(*dims, levels=0, origin=(0, 0)):
    """Return a function that gives the view of OpenJPEG, which reduces the levels.

    `origin` is where the image begins on the reference grid.  imagecodecs rounds the
    sides of its levels up; ISO 15444-1 B-15 rounds both ends.
    """

    def read(path) -> View:
        data = path.read_bytes()
        options = {"planar": True} if "band" in dims else {}
        pixels = imagecodecs.jpeg2k_decode(data, **options)
        coarser = []
        for level in range(1, levels + 1):
            found = imagecodecs.jpeg2k_decode(data, skipres=level, **options)
            ends = zip(origin, pixels.shape[-2:], strict=True)
            rows, columns = (reduced_side(*each, level) for each in ends)
            coarser.append(found[..., :rows, :columns])
        return View(pixels, dims, levels=tuple(coarser))

    return read


def reduced_side(start, size, level):
    return -(-(start + size) // 2**level) + (-start // 2**level)


def by_numbers(read_pixels, *dims):
    """Return a function that gives a view of pixels that a function reads."""
    return lambda path: View(read_pixels(path), dims)


def by_jnrrd(*dims, level=None):
    """Return a function that gives the view of numpy; `level` makes the next one."""

    def read(path) -> View:
        pixels = jnrrd_pixels(path)
        return View(pixels, dims, levels=() if level is None else (level(pixels),))

    return read


def jnrrd_pixels(path):
    """Return the finest level of padded tiles, by the header and numpy alone."""
    header, _ = header_of(path)
    tile = {key.partition(":")[2]: value for key, value in header.items()}
    kind = np.dtype(header["type"]).newbyteorder(
        {"little": "<", "big": ">"}[header["endian"]]
    )
    pixels = np.empty(header["sizes"][::-1], kind)
    x, y, z = tile["sizes"]
    cuts = np.ndindex(
        *(-(-n // side) for n, side in zip(pixels.shape, (z, y, x), strict=True))
    )
    for number, (k, j, i) in enumerate(cuts):
        place = np.s_[k * z : (k + 1) * z, j * y : (j + 1) * y, i * x : (i + 1) * x]
        data = JNRRD_DECODE[tile.get("compression", "raw")](
            jnrrd_tile(path, tile, number, (i, j, k))
        )
        pixels[place] = np.frombuffer(data, kind).reshape(z, y, x)
    return pixels


def jnrrd_tile(path, tile, number, index):
    if "pattern" in tile:
        return (
            path.parent / tile["pattern"].format(**dict(zip("xyz", index, strict=True)))
        ).read_bytes()
    start = tile["offset_table"][number]
    return path.read_bytes()[start : start + tile["size_table"][number]]


def by_pynrrd(*dims, steps=None, **facts):
    """Return a function that gives the view of pynrrd; its axes are named here."""

    def read(path) -> View:
        pixels, _ = nrrd.read(str(path), index_order="C")
        return View(pixels, dims, steps=steps or {}, **facts)

    return read


def by_itk(*dims, steps=None):
    """Return a function that gives the view of ITK."""

    def read(path) -> View:
        pixels = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(path)))
        return View(pixels, dims, steps=steps or {})

    return read


def by_tensorstore(*dims, dataset="", levels=(), steps=None):
    """Return a function that gives the view of tensorstore's N5 driver."""

    def read(path) -> View:
        pixels, *coarser = [n5_pixels(path / name) for name in (dataset, *levels)]
        return View(pixels, dims, steps=steps or {}, levels=tuple(coarser))

    return read


def n5_pixels(path):
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": f"{path}/"}}
    return np.ascontiguousarray(tensorstore.open(spec).result().read().result().T)


def by_xarray(engine, name):
    """Return a function that gives the view of the format's own engine of xarray."""

    def read(path) -> View:
        options = {"mask_and_scale": False, "decode_times": False}
        with xr.open_dataset(path, engine=engine, **options) as opened:
            view = of_dataset(opened.load(), name)
            attributes = opened[name].attrs
        scale = attributes.get("scale_factor")
        if scale is None:
            return view
        facts = {**vars(view), "scales": (float(scale),)}
        return View(**{**facts, "offsets": (float(attributes.get("add_offset", 0)),)})

    return read


def by_h5py(name, *dims, nodata=None):
    """Return a function that gives the view of h5py."""

    def read(path) -> View:
        with h5py.File(path) as file:
            return View(file[name][...], dims, nodata=nodata)

    return read


def by_astropy(*dims):
    """Return a function that gives the view of astropy."""

    def read(path) -> View:
        with fits.open(path, do_not_scale_image_data=True) as units:
            return View(np.asarray(units[0].data), dims)

    return read
