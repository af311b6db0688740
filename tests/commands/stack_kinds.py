"""Kinds of files by the chain of codecs that their arrays have, each with what an independent reader sees.

A kind writes a file at a path and returns the pixels: bands, rows, columns as the array has them.
"""

import shutil
from pathlib import Path

import h5py
import numcodecs
import numpy as np
import rasterio
import tifffile
import zarr
from rasterio.shutil import copy
from rasterio.transform import from_origin

from tests.nitf.conftest import nitf_bytes
from tests.nitf.test_compressed import codebooks, size, vq_data
from tests.nrrd import tiled_files
from tests.writers import geotiff, n5_attributes, n5_dataset

PLACE = {"crs": "EPSG:32633", "transform": from_origin(500000, 5000000, 10, 10)}
GEO = {"crs": "EPSG:4326", "transform": from_origin(10, 50, 0.001, 0.001)}
PRECINCTS = "{32,32},{32,32},{16,32},{16,16}"
GOLDEN = Path(__file__).parents[1] / "codecs" / "golden" / "osml"


def image(seed, shape, dtype="uint8"):
    """Return something smooth with noise in it, of which every seed gives another."""
    *bands, rows, columns = shape
    y, x = np.mgrid[:rows, :columns]
    plane = (x * 3 + y * 2 + seed * 17) % 100
    noise = np.random.default_rng(seed).integers(0, 90, (*bands, rows, columns))
    return (plane + noise).astype(dtype)


def by_rasterio(path):
    with rasterio.open(path) as source:
        return source.read().squeeze()


def gtiff(shape=(96, 128), dtype="uint8", **options):
    """Return a writer of a TIFF by GDAL, in tiles of 64 unless told otherwise."""

    def write(path, seed):
        tiles = {"tiled": True, "blockxsize": 64, "blockysize": 64, **PLACE, **options}
        return by_rasterio(geotiff(path, image(seed, shape, dtype), **tiles))

    return write


def palette(path, seed):
    pixels = image(seed, (96, 128))
    colours = np.random.default_rng(9).integers(0, 256, (3, 256)).astype("u2") * 257
    tifffile.imwrite(path, pixels, photometric="palette", colormap=colours, tile=(64, 64), compression="zlib")
    with tifffile.TiffFile(path) as file:
        return (file.pages[0].colormap[:, file.asarray()] >> 8).astype("u1")


def jp2(shape=(96, 128), dtype="uint8", **options):
    """Return a writer of a JPEG 2000 by OpenJPEG, through GDAL, in one tile unless told otherwise."""

    def write(path, seed):
        pixels = image(seed, shape, dtype)
        bands = pixels if pixels.ndim == 3 else pixels[None]
        profile = dict(zip(("count", "height", "width"), bands.shape, strict=True))
        side = {"BLOCKXSIZE": shape[-1], "BLOCKYSIZE": shape[-2], "REVERSIBLE": "YES", "QUALITY": "100", **options}
        with rasterio.MemoryFile() as memory:
            with memory.open(driver="GTiff", dtype=dtype, **profile, **PLACE) as file:
                file.write(bands)
            with memory.open() as source:
                copy(source, path, driver="JP2OpenJPEG", **side)
        return by_rasterio(path)

    return write


def nitf(shape=(96, 128), dtype="uint8", **options):
    """Return a writer of a NITF by GDAL."""

    def write(path, seed):
        pixels = image(seed, shape, dtype)
        bands = pixels if pixels.ndim == 3 else pixels[None]
        profile = dict(zip(("count", "height", "width"), bands.shape, strict=True))
        with rasterio.MemoryFile() as memory:
            with memory.open(driver="GTiff", dtype=dtype, **profile, **GEO) as file:
                file.write(bands)
            with memory.open() as source:
                copy(source, path, driver="NITF", IDATIM=f"2024010{seed}000000", ICORDS="G", **options)
        return by_rasterio(path)

    return write


def nitf_vq(path, seed):
    books, codes = codebooks(), np.random.default_rng(seed).integers(0, 4096, (8, 8))
    tables, data = vq_data(codes, books)
    path.write_bytes(nitf_bytes((tables + data, size(32, 32, (32, 32), IC="C4"))))
    # a code is four rows of four pixels, one in each book
    return books[:, codes].transpose(1, 0, 2, 3).reshape(32, 32)


def n5(compression):
    def write(path, seed):
        pixels = image(seed, (20, 30), "uint16")
        n5_dataset(path, pixels.T, [16, 8], compression)
        return pixels

    return write


def n5_lz4(path, seed):
    """Write raw blocks by tensorstore and compress what is behind their headers as numcodecs does."""
    pixels = n5({"type": "raw"})(path, seed)
    for block in (one for one in path.rglob("*") if one.is_file() and one.name != "attributes.json"):
        data = block.read_bytes()
        block.write_bytes(data[:12] + numcodecs.LZ4().encode(data[12:]))
    n5_attributes(path, compression={"type": "lz4", "id": "lz4", "acceleration": 1})
    return pixels


def scaled(path, seed):
    gtiff((2, 96, 128), dtype="int16", compress="deflate")(path, seed)
    scales, offsets = np.array([0.5, 0.25]), np.array([3.0, 1.0])
    with rasterio.open(path, "r+") as file:
        file.scales, file.offsets = scales, offsets
    return by_rasterio(path) * scales[:, None, None] + offsets[:, None, None]


def jnrrd(compression):
    def write(path, seed):
        pixels = image(seed, (20, 30), "uint16")
        keys = tiled_files.keys([16, 8], compression=None if compression == "raw" else compression)
        blobs = [tiled_files.stored(part, compression=compression) for _, part in tiled_files.tiles_of(pixels, [16, 8])]
        tiled_files.write(path, tiled_files.core(pixels) | keys, blobs)
        return pixels

    return write


def hdf5(**options):
    def write(path, seed):
        pixels = image(seed, (20, 30), "uint16")
        with h5py.File(path, "w") as file:
            file.create_dataset("data", data=pixels, chunks=(8, 16), **options)
        with h5py.File(path) as file:
            return file["data"][...]

    return write


def zarr3(dtype="uint16", **options):
    def write(path, seed):
        pixels = image(seed, (24, 32), dtype)
        array = zarr.create_array(
            path, shape=pixels.shape, dtype=dtype, chunks=(8, 16), dimension_names=("y", "x"), **options
        )
        array[...] = pixels
        return zarr.open_array(path)[...]

    return write


def osml(name):
    """Return a copier of a file that osml-imagery-io made, whatever the seed."""

    def write(path, _):
        source = next(one for one in GOLDEN.glob(f"{name}.*") if one.suffix in {".tif", ".ntf", ".j2k"})
        shutil.copy(source, path.parent)
        shutil.copy(GOLDEN / f"{name}.json", path)
        return by_rasterio(source)

    return write


KINDS = {
    "tiff raw": ("tif", gtiff()),
    "tiff deflate": ("tif", gtiff(compress="deflate")),
    "tiff deflate of strips": ("tif", gtiff((100, 128), tiled=False, blockysize=16, compress="deflate")),
    "tiff zstd": ("tif", gtiff(compress="zstd")),
    "tiff predictor": ("tif", gtiff(dtype="uint16", compress="lzw", predictor=2)),
    "tiff float predictor": ("tif", gtiff(dtype="float32", compress="deflate", predictor=3)),
    "tiff pixels of bands": ("tif", gtiff((3, 96, 128), interleave="pixel", compress="deflate")),
    "tiff bands apart": ("tif", gtiff((3, 96, 128), interleave="band", compress="deflate")),
    "tiff bands with predictor": ("tif", gtiff((3, 96, 128), interleave="pixel", compress="lzw", predictor=2)),
    "tiff lerc": ("tif", gtiff(dtype="float32", compress="lerc")),
    "tiff jpeg": ("tif", gtiff((3, 96, 128), compress="jpeg", photometric="ycbcr", interleave="pixel")),
    "tiff palette": ("tif", palette, {"expand_palette": True}),
    "jp2": ("jp2", jp2()),
    "jp2 of 16 bits": ("jp2", jp2(dtype="uint16")),
    "jp2 of three bands": ("jp2", jp2((3, 96, 128))),
    "jp2 of tiles": ("jp2", jp2((3, 96, 128), BLOCKXSIZE=64, BLOCKYSIZE=64)),
    "jp2 of tiles at the edge": ("jp2", jp2((90, 100), BLOCKXSIZE=64, BLOCKYSIZE=64)),
    "jp2 of windows": (
        "jp2",
        jp2((256, 256), PRECINCTS="{32,32},{32,32},{16,32},{16,16}"),
        {"precinct_windows": "always"},
    ),
    "nitf raw B": ("ntf", nitf((3, 96, 128), IMODE="B")),
    "nitf raw P": ("ntf", nitf((3, 96, 128), IMODE="P")),
    "nitf by its proposal": ("ntf", nitf((3, 96, 128), IMODE="P"), {"codecs": "proposal"}),
    "nitf of blocks": ("ntf", nitf((100, 128), BLOCKXSIZE=64, BLOCKYSIZE=64)),
    "nitf jpeg": ("ntf", nitf(IC="C3")),
    "nitf jpeg of three bands": ("ntf", nitf((3, 96, 128), IC="C3")),
    "nitf jpeg 2000": ("ntf", nitf((96, 128), IC="C8", QUALITY="100")),
    "nitf vq": ("ntf", nitf_vq),
    "n5 raw": ("n5", n5({"type": "raw"})),
    "n5 zstd": ("n5", n5({"type": "zstd"})),
    "n5 gzip": ("n5", n5({"type": "gzip"})),
    "n5 lz4": ("n5", n5_lz4),
    "n5 headers read": ("n5", n5({"type": "gzip"}), {"chain": "n5_default"}),
    "n5 headers as offset": ("n5", n5({"type": "gzip"}), {"chain": "offset"}),
    "n5 headers as pad": ("n5", n5({"type": "gzip"}), {"chain": "pad"}),
    "jnrrd raw": ("jnrrd", jnrrd("raw")),
    "jnrrd gzip": ("jnrrd", jnrrd("gzip")),
    "jnrrd lz4": ("jnrrd", jnrrd("lz4")),
    "hdf5": ("h5", hdf5()),
    "hdf5 shuffle, gzip, fletcher32": ("h5", hdf5(compression="gzip", shuffle=True, fletcher32=True)),
    "zarr": ("zarr", zarr3()),
    "zarr transposed": ("zarr", zarr3(filters=[zarr.codecs.TransposeCodec(order=(1, 0))])),
    "zarr crc32c": ("zarr", zarr3(compressors=[zarr.codecs.Crc32cCodec()])),
    "zarr blosc": ("zarr", zarr3(compressors=[zarr.codecs.BloscCodec(typesize=2)])),
    "zarr bz2": ("zarr", zarr3(compressors=[zarr.codecs.numcodecs.BZ2()])),
    "zarr lzma": ("zarr", zarr3(compressors=[zarr.codecs.numcodecs.LZMA()])),
    "zarr shards": ("zarr", zarr3(shards=(24, 32))),
    "zarr shards transposed": ("zarr", zarr3(shards=(24, 32), filters=[zarr.codecs.TransposeCodec(order=(1, 0))])),
    "values cast": ("tif", gtiff(dtype="int16", compress="deflate", nodata=-1), {"physical": True}),
    "values scaled": ("tif", scaled, {"physical": True}),
    "osml jpeg2000": ("json", osml("scattered")),
    "osml blocks": ("json", osml("block")),
    "osml jpeg": ("json", osml("jpeg")),
    "osml tiff": ("json", osml("u2_lzw_predictor2_tiles")),
}
"""By its name: ending, writer, and what is asked of the scan."""
