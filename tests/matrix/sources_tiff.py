"""Rows of TIFF."""

import warnings
from functools import partial

import numpy as np
import rasterio
import tifffile
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.rpc import RPC
from rasterio.shutil import copy
from tests.matrix.readers import by_gdal, by_tifffile
from tests.matrix.row import Row
from tests.writers import PLACE, geotiff

TILES = {"tiled": True, "blockxsize": 16, "blockysize": 32}
SIZE = (64, 48)
SMALL = {"photometric": "minisblack"}


def noise(seed, shape, dtype="u1", low=0, high=200):
    """Return numbers that differ from seed to seed."""
    numbers = np.random.default_rng(seed + 100).integers(low, high, shape)
    return numbers.astype(dtype)


def by_gdal_tiff(  # noqa: PLR0913  what a file can differ in
    path, seed, *, bands=1, dtype="u1", size=SIZE, edit=None, **options
):
    """Write a georeferenced TIFF by GDAL, in tiles of 32 x 16."""
    high = 2 if options.get("NBITS") == 1 else 200
    pixels = noise(seed, (bands, *size), dtype, high=high)
    layout = {} if options.pop("strips", False) else TILES
    geotiff(path, pixels, **{**PLACE, **layout, **options})
    if edit is not None:
        edit(path)


PLAIN = {None, "deflate", "zstd"}
"""Compressions that Zarr itself has."""


def gdal(name, *more, **options):
    """Return the row of a TIFF that GDAL writes and reads; `more` are traits of it."""
    is_plain = options.get("compress") in PLAIN and "predictor" not in options
    traits = {"place"} if options.get("crs", True) else set()
    traits |= {"bands"} if options.get("bands", 1) > 1 else set()
    traits |= set(more)
    traits |= {"our codec"} if not is_plain or "NBITS" in options else set()
    write = partial(by_gdal_tiff, **options)
    return gdal_row(name, write, traits)


def gdal_row(name, write, traits, **own):
    traits = frozenset(traits)
    return Row(f"TIFF {name}", "GDAL", write, by_gdal, "GDAL", traits=traits, **own)


def edited(change):
    """Return a function that changes what a TIFF says, by GDAL."""

    def edit(path):
        with rasterio.open(path, "r+") as file:
            change(file)

    return edit


def scaled(scales, offsets):
    def change(file):
        file.scales = scales
        file.offsets = offsets
        file.descriptions = ("near infrared", "red")

    return edited(change)


def coloured(file):
    table = {n: (n, 255 - n, (n * 7) % 256, 255) for n in range(256)}
    file.write_colormap(1, table)


def masked(path):
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "r+") as file:
        mask = np.full(file.shape, 255, "u1")
        mask[:20, :20] = 0
        file.write_mask(mask)


def with_points(file):
    corners = [(0, 0), (0, 48), (64, 0), (64, 48)]
    file.gcps = (
        [GroundControlPoint(r, c, 15 + c / 1e3, 45 - r / 1e3) for r, c in corners],
        "EPSG:4326",
    )


def with_rpc(file):
    numbers = {"height_off": 100, "height_scale": 500, "lat_off": 45, "lat_scale": 0.1}
    numbers |= {"long_off": 15, "long_scale": 0.1, "line_off": 32, "line_scale": 32}
    numbers |= {"samp_off": 24, "samp_scale": 24, "err_bias": 1, "err_rand": 1}
    one = [1.0] + [0.0] * 19
    coefficients = {"line_num_coeff": one, "line_den_coeff": one}
    coefficients |= {"samp_num_coeff": one, "samp_den_coeff": one}
    file.rpcs = RPC(**numbers, **coefficients)


def sparse(path, seed):
    pixels = noise(seed, SIZE, "u2")
    pixels[:32, :16] = 0
    geotiff(
        path, pixels, SPARSE_OK=True, nodata=0, compress="deflate", **PLACE, **TILES
    )


def cog(path, seed):
    plain = path.with_suffix(".plain")
    geotiff(plain, noise(seed, (3, 256, 192), "u1"), nodata=0, **PLACE)
    copy(plain, path, driver="COG", BLOCKSIZE=64, COMPRESS="ZSTD", PREDICTOR=2)
    plain.unlink()


def labels(path, seed):
    """Write a palette of seven classes in blocks, so large that serve adds levels."""
    classes = np.kron(noise(seed, (65, 65), high=7) * 30, np.ones((9, 9), "u1"))
    options = {"tiled": True, "blockxsize": 256, "blockysize": 256}
    geotiff(path, classes[:576, :576], compress="deflate", **PLACE, **options)
    edited(coloured)(path)


def terrain(path, seed):
    """Write heights, too large for a viewer without levels."""
    y, x = np.mgrid[:576, :576]
    heights = (np.sin(x / 40 + seed) * 100 + y).astype("i2")
    heights[:9, :9] = -9999
    options = {"tiled": True, "blockxsize": 256, "blockysize": 256, "nodata": -9999}
    geotiff(path, heights, compress="deflate", predictor=2, **PLACE, **options)


def blocks_of(pixels):
    """Return the four pixels that each of the next level stands for, as a last axis."""
    rows, columns = (side // 2 for side in pixels.shape)
    blocks = pixels.reshape(rows, 2, columns, 2).swapaxes(1, 2)
    return blocks.reshape(rows, columns, 4)


def most_frequent(view):
    """Return the next level: the value that most of four pixels have, or the least."""
    blocks = np.sort(blocks_of(view.pixels), axis=-1)
    counts = (blocks[..., :, None] == blocks[..., None, :]).sum(-1)
    place = counts.argmax(-1)
    return (np.take_along_axis(blocks, place[..., None], -1)[..., 0],)


def means(view):
    """Return the next level: the mean of those of four pixels that are no nodata."""
    blocks = blocks_of(view.pixels).astype("f8")
    blocks[blocks == view.nodata] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of four pixels without a value
        level = np.nan_to_num(np.nanmean(blocks, -1).round(), nan=view.nodata)
    return (level.astype(view.pixels.dtype),)


def by_tifffile_of(shape, dtype="u1", **options):
    """Return a function that writes pixels by tifffile."""

    def write(path, seed):
        tifffile.imwrite(path, noise(seed, shape, dtype), **options)

    return write


def pages(path, seed):
    with tifffile.TiffWriter(path) as file:
        file.write(noise(seed, SIZE, "u2"), metadata=None, tile=(32, 16), **SMALL)
        file.write(noise(seed, (20, 30), "u1"), metadata=None, **SMALL)


def subifds(path, seed):
    pixels = noise(seed, (2, 64, 96), "u2")
    options = {"tile": (16, 16), "compression": "zlib", **SMALL}
    with tifffile.TiffWriter(path, ome=True) as file:
        file.write(pixels, subifds=1, metadata={"axes": "CYX"}, **options)
        file.write(pixels[..., ::2, ::2], subfiletype=1, **options)


OME_XML = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" '
    'UUID="urn:uuid:0a0a0a0a-0000-0000-0000-00000000000{own}">'
    '<Image ID="Image:0" Name="cells"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" '
    'Type="uint16" SizeX="48" SizeY="64" SizeZ="2" SizeC="1" SizeT="1">'
    '<TiffData FirstZ="0" IFD="0" PlaneCount="1"><UUID FileName="{first}">'
    "urn:uuid:0a0a0a0a-0000-0000-0000-000000000001</UUID></TiffData>"
    '<TiffData FirstZ="1" IFD="0" PlaneCount="1"><UUID FileName="{second}">'
    "urn:uuid:0a0a0a0a-0000-0000-0000-000000000002</UUID></TiffData>"
    "</Pixels></Image></OME>"
)


def ome_of_two_files(path, seed):
    names = [path.name, path.name.replace("d_", "other_")]
    for own, name in enumerate(names, 1):
        text = OME_XML.format(own=own, first=names[0], second=names[1])
        plane = noise(seed + 10 * own, SIZE, "u2")
        options = {"metadata": None, **SMALL}
        tifffile.imwrite(path.with_name(name), plane, description=text, **options)


def slide(path, seed):
    """Write a slide as Aperio's scanners lay it out: full, thumbnail, half, label."""
    text = "Aperio Image Library v11.2\r\n192x128 -> 192x128 |AppMag = 20|MPP = 0.5"
    pixels = noise(seed, (128, 192, 3))
    options = {"photometric": "rgb", "metadata": None, "compression": "jpeg"}
    tiles = {"tile": (64, 64)}
    with tifffile.TiffWriter(path) as file:
        file.write(pixels, description=text, **tiles, **options)
        file.write(pixels[::4, ::4], description="Aperio thumbnail", **options)
        file.write(pixels[::2, ::2], description="Aperio half", **tiles, **options)
        file.write(
            pixels[:32, :32], description="Aperio label", subfiletype=1, **options
        )


OME_SIZES = {"PhysicalSizeX": 0.25, "PhysicalSizeY": 0.5, "PhysicalSizeZ": 2.0}
OME_5 = {"axes": "TCZYX", "Channel": {"Name": ["DAPI", "GFP"]}, **OME_SIZES}
RGB = ("red", "green", "blue")
IMAGEJ_STEPS = {"z": (0, 2), "y": (0, 0.25), "x": (0, 0.25)}
SVS_STEPS = {"y": (0, 0.5), "x": (0, 0.5)}
OME_STEPS = {"z": (0, 2.0), "y": (0, 0.5), "x": (0, 0.25)}


def by_tiff(name, write, read, **own):
    """Return the row of a TIFF that tifffile writes and reads."""
    traits = frozenset(own.pop("traits", ()))
    name = f"TIFF {name}"
    return Row(name, "tifffile", write, read, "tifffile", traits=traits, **own)


PYRAMID = {"group": "0"}
# fmt: off
TIFF = [
    gdal("raw"),
    gdal("deflate", compress="deflate", dtype="u2"),
    gdal("LZW", compress="lzw", dtype="i4"),
    gdal("ZSTD, three bands", compress="zstd", bands=3),
    gdal("predictor 2", compress="deflate", predictor=2, dtype="u2", bands=2),
    gdal("predictor 3", compress="lzw", predictor=3, dtype="f4", nodata=-9999.0),
    gdal("JPEG with tables", compress="jpeg"),
    gdal("JPEG in YCbCr", compress="jpeg", photometric="ycbcr", bands=3,
         interleave="pixel"),
    gdal("LERC", compress="lerc", dtype="f4", nodata=7.0),
    gdal("WebP", compress="webp", WEBP_LOSSLESS=True, bands=3, interleave="pixel"),
    gdal("packbits", compress="packbits", dtype="u2"),
    gdal("LZMA", compress="lzma", dtype="u2"),
    gdal("fax", compress="ccittfax4", NBITS=1),
    gdal("12 bits", compress="deflate", NBITS=12, dtype="u2"),
    gdal("palette", compress="deflate", edit=edited(coloured)),
    gdal("mask", "our codec", "several arrays", compress="deflate", edit=masked),
    gdal("nodata", compress="deflate", dtype="i2", nodata=-1),
    gdal("scales that agree", dtype="u2", bands=2, nodata=0, compress="deflate",
         edit=scaled((0.5, 0.5), (3.0, 3.0))),
    gdal("scales that differ", dtype="u2", bands=2, nodata=0, compress="deflate",
         edit=scaled((0.5, 0.25), (3.0, 0.0))),
    gdal("GCPs", transform=None, crs=None, edit=edited(with_points)),
    gdal("RPC", transform=None, crs=None, edit=edited(with_rpc)),
    gdal("big-endian", ENDIANNESS="BIG", compress="deflate", predictor=2, dtype="i2"),
    gdal("planar", INTERLEAVE="BAND", compress="lzw", predictor=2, dtype="u2", bands=3),
    gdal("strips", strips=True, compress="zstd", dtype="u2", BLOCKYSIZE=16),
    gdal("edges", size=(50, 37), bands=3, compress="deflate", predictor=2),
    gdal("alpha", bands=4, photometric="rgb", ALPHA="YES", compress="lzw"),
    gdal("complex", dtype="c8"),
    gdal("BigTIFF", BIGTIFF="YES", compress="zstd", dtype="u4"),
    gdal("rotated", transform=Affine(8, 6, 5e5, 6, -8, 5e6), compress="deflate"),
    gdal("south up", transform=Affine(10, 0, 5e5, 0, 10, 4e6), compress="deflate"),
    gdal("degrees", crs="EPSG:4326", transform=Affine(0.25, 0, 15, 0, -0.25, 45)),
    gdal_row("sparse", sparse, {"place"}),
    gdal_row("pyramid (COG)", cog, {"place", "bands", "our codec"}, group="0",
             levels=("1", "2")),
    gdal_row("palette of labels", labels, {"place"}, computed=most_frequent),
    gdal_row("terrain", terrain, {"place", "our codec"}, computed=means),
    by_tiff("JPEG XL", by_tifffile_of((64, 48), compression="jpegxl", tile=(32, 16)),
            by_tifffile("y", "x"), traits={"our codec"}),
    by_tiff("several pages", pages, by_tifffile("y", "x"), group="page_0"),
    by_tiff("stack of pages", by_tifffile_of((3, 64, 48), "u2", metadata=None, **SMALL),
            by_tifffile("page", "y", "x")),
    by_tiff("OME of five axes", by_tifffile_of(
        (2, 2, 3, 32, 48), "u2", ome=True, metadata=OME_5, compression="zlib", **SMALL),
        by_tifffile("t", "c", "z", "y", "x", steps=OME_STEPS, names=("DAPI", "GFP")),
        file="d_{}.ome.tif"),
    by_tiff("OME of several files", ome_of_two_files, by_tifffile("z", "y", "x"),
            file="d_{}.ome.tif"),
    by_tiff("OME with SubIFDs", subifds, by_tifffile("c", "y", "x", levels=1),
            file="d_{}.ome.tif", group="0", levels=("1",)),
    by_tiff("ImageJ", by_tifffile_of(
        (3, 64, 48), "u2", imagej=True, resolution=(4, 4),
        metadata={"axes": "ZYX", "spacing": 2.0, "unit": "um"}),
        by_tifffile("z", "y", "x", steps=IMAGEJ_STEPS)),
    by_tiff("SVS", slide,
            by_tifffile("band", "y", "x", steps=SVS_STEPS, levels=1, colours=RGB),
            file="d_{}.svs", group="baseline/0", levels=("baseline/1",),
            traits={"bands", "our codec", "several images"}),
]
# fmt: on
