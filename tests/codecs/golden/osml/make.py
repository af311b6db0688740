"""Makes the sources and manifests beside it; run by hand, never by a test.

Needs an environment of its own, because osml-imagery-io 0.2.2 does not import under zarr 3.2 and later:
`pip install osml-imagery-io==0.2.2 "zarr<3.2" virtualizarr kerchunk tifffile imagecodecs rasterio`.
The sources come from tifffile and GDAL, the manifests from osml-imagery-io, as Zarr v3 with relative
references (`template_base=""`) and with `{{base}}` for the one called `templated`, and as Zarr v2, its default, in JSON
and some in Parquet (`.v2.`).
"""

import struct
import warnings
from pathlib import Path

import numpy as np
import rasterio
import rasterio.shutil
import tifffile
from aws.osml.io.virtualizarr_parsers import OversightMLParser, write_tile_index

HERE = Path(__file__).parent
ROWS, COLUMNS = 40, 44
TILES = {"tile": (16, 32)}
PARQUET = ("block", "jpeg", "scattered", "pyramid", "u2_none_tiles_big", "planar2_deflate_tiles")
STRIPS = {"rowsperstrip": 16}


def scene(dtype, bands=None):
    """Return a sloping noisy image that uses high and low bytes: (rows, columns[, bands])."""
    rng = np.random.default_rng(7)
    rows, columns = np.mgrid[0:ROWS, 0:COLUMNS]
    planes = [rows * 3 + columns * 5 + 17 * band + rng.integers(0, 4, (ROWS, COLUMNS)) for band in range(bands or 1)]
    image = np.stack(planes, -1) if bands else planes[0]
    if np.dtype(dtype).kind == "f":
        return (image / 7 - 11).astype(dtype)
    return (image * (97 if np.dtype(dtype).itemsize > 1 else 1) % np.iinfo(dtype).max).astype(dtype)


def by_tifffile(name, image, byteorder="<", **options):
    tifffile.imwrite(HERE / f"{name}.tif", image, byteorder=byteorder, metadata=None, software=False, **options)


def by_gdal(name, image, driver="GTiff", **options):
    bands = image[None] if image.ndim == 2 else np.moveaxis(image, -1, 0)
    count, height, width = bands.shape
    profile = {"driver": driver, "count": count, "height": height, "width": width, "dtype": bands.dtype.name}
    with rasterio.open(HERE / name, "w", **profile, **options) as dataset:
        dataset.write(bands)


def tiffs():
    u1, u2, f4 = scene("u1"), scene("u2"), scene("f4")
    rgb1, rgb2 = scene("u1", 3), scene("u2", 3)
    planes = np.ascontiguousarray(np.moveaxis(rgb2, -1, 0))
    by_tifffile("u1_packbits_tiles", u1, compression="packbits", **TILES)
    by_tifffile("u4_deflate_tiles", scene("u4"), compression="zlib", **TILES)
    by_tifffile(
        "five_deflate_tiles",
        scene("u1", 5),
        compression="zlib",
        photometric="minisblack",
        planarconfig="contig",
        **TILES,
    )
    by_tifffile("rgba_lzw_tiles", scene("u1", 4), compression="lzw", photometric="rgb", extrasamples=[2], **TILES)
    for suffix, order in (("", "<"), ("_big", ">")):
        by_tifffile(f"u2_none_tiles{suffix}", u2, order, **TILES)
        by_tifffile(f"u2_none_strips{suffix}", u2, order, **STRIPS)
        by_tifffile(f"u2_lzw_predictor2_tiles{suffix}", u2, order, compression="lzw", predictor=2, **TILES)
        by_tifffile(f"f4_deflate_predictor3_tiles{suffix}", f4, order, compression="zlib", predictor=3, **TILES)
        by_tifffile(f"f4_deflate_strips{suffix}", f4, order, compression="zlib", **STRIPS)
        by_tifffile(f"rgb2_none_tiles{suffix}", rgb2, order, photometric="rgb", **TILES)
        separate = {"photometric": "rgb", "planarconfig": "separate", "compression": "zlib"}
        by_tifffile(f"planar2_deflate_tiles{suffix}", planes, order, **separate, **TILES)
    by_tifffile("rgb1_deflate_predictor2_tiles", rgb1, compression="zlib", predictor=2, photometric="rgb", **TILES)
    by_tifffile("rgb1_lzw_predictor2_strips", rgb1, compression="lzw", predictor=2, photometric="rgb", **STRIPS)
    jpeg = {"compress": "jpeg", "tiled": True, "blockxsize": 32, "blockysize": 16, "jpeg_quality": 90}
    by_gdal("grey_jpeg_tiles.tif", u1, **jpeg)
    by_gdal("ycbcr_jpeg_tiles.tif", rgb1, photometric="ycbcr", **jpeg)
    by_gdal("ycbcr_jpeg_tiles_big.tif", rgb1, photometric="ycbcr", endianness="big", **jpeg)
    by_gdal("planar_jpeg_tiles.tif", rgb1, interleave="band", **jpeg)
    by_gdal("ycbcr_jpeg_strips.tif", rgb1, photometric="ycbcr", compress="jpeg", blockysize=16)
    pyramid = {"tiled": True, "blockxsize": 32, "blockysize": 32, "compress": "deflate", "predictor": 2}
    by_gdal("pyramid.tif", np.kron(u2[:32], np.ones((3, 3), "u2")), **pyramid)
    with rasterio.open(HERE / "pyramid.tif", "r+") as dataset:
        dataset.build_overviews([2, 4])


def others():
    rgb = scene("u1", 3)
    by_gdal("block.ntf", rgb, "NITF", ic="NC", irep="RGB")
    rasterio.shutil.copy(HERE / "block.ntf", HERE / "jpeg.ntf", driver="NITF", ic="C3")
    options = {"quality": 100, "reversible": True, "blockxsize": 32, "blockysize": 32, "resolutions": 2}
    by_gdal("plain.j2k", scene("u2"), "JP2OpenJPEG", codec="J2K", tileparts="resolutions", **options)
    (HERE / "scattered.j2k").write_bytes(interleave_tile_parts((HERE / "plain.j2k").read_bytes()))
    (HERE / "plain.j2k").unlink()


def interleave_tile_parts(codestream):
    """Return the codestream with every tile's first part, then every second part: what RLCP progressions look like."""
    start = codestream.index(b"\xff\x90\x00\x0a")
    position, parts = start, []
    while codestream[position : position + 2] == b"\xff\x90":
        tile, length, part = struct.unpack_from(">HIB", codestream, position + 4)
        parts.append((part, tile, codestream[position : position + length]))
        position += length
    return codestream[:start] + b"".join(data for _, _, data in sorted(parts)) + codestream[position:]


def manifests():
    for source in sorted(HERE.glob("*.*")):
        if source.suffix in (".tif", ".ntf", ".j2k"):
            store = OversightMLParser()(str(source))
            write_tile_index(store, str(source.with_suffix(".json")), template_base="", zarr_format=3)
            write_tile_index(store, str(source.with_suffix(".v2.json")), template_base="")
            if source.stem in PARQUET:
                write_tile_index(store, str(source.with_suffix(".v2.parquet")), template_base="")
    store = OversightMLParser()(str(HERE / "u4_deflate_tiles.tif"))
    write_tile_index(store, str(HERE / "templated.json"), template_base="{{base}}", zarr_format=3)
    write_tile_index(store, str(HERE / "templated.v2.json"), template_base="{{base}}")
    write_tile_index(store, str(HERE / "templated.v2.parquet"), template_base="{{base}}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    tiffs()
    others()
    manifests()
