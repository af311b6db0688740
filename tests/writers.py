"""Files that other libraries write, for tests that need one and not its details."""

import bz2
import gzip
import struct
from pathlib import Path

import imagecodecs
import numpy as np
import rasterio
from rasterio.shutil import copy
from rasterio.transform import from_origin

PLACE = {"crs": "EPSG:32633", "transform": from_origin(500000, 5000000, 10, 10)}
TILES = {"tiled": True, "blockxsize": 64, "blockysize": 64, "compress": "deflate"}

PACK = {
    "raw": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "zstd": lambda data: bytes(imagecodecs.zstd_encode(data)),
    "lz4": lambda data: bytes(imagecodecs.lz4f_encode(data)),
}
"""Compressions of JNRRD's tiles."""


def geotiff(path, pixels, *, overviews=(), **options):
    """Write pixels (bands first, or one band) with rasterio and return the path."""
    bands = pixels if pixels.ndim == 3 else pixels[None]
    count, height, width = bands.shape
    profile = {"driver": "GTiff", "count": count, "height": height, "width": width, "dtype": bands.dtype.name}
    with rasterio.open(path, "w", **{**profile, **options}) as file:
        file.write(bands)
        if overviews:
            file.build_overviews(overviews)
    return Path(path)


def cog(path, pixels, place=PLACE, **options):
    """Write pixels as a cloud-optimized GeoTIFF of GDAL's and return the path."""
    plain = geotiff(Path(path).with_name("plain.tif"), pixels, **place)
    copy(plain, path, driver="COG", **{"BLOCKSIZE": 128, "COMPRESS": "DEFLATE", **options})
    plain.unlink()
    return Path(path)


def scene(path, seed, most=200, *, shape=(100, 130), dtype="uint16", **options):
    """Write a georeferenced scene and return its pixels: numbers below `most`, so that sizes differ."""
    pixels = np.random.default_rng(seed).integers(0, most, shape).astype("u2")
    geotiff(path, pixels.astype(dtype), **{**PLACE, **TILES, **options})
    return pixels


TIFF_CODES = {1: "B", 3: "H", 4: "I", 5: "II", 7: "B"}
"""Field types of `tiff_of`: byte, short, long, rational, undefined."""


def tiff_of(segments, tags, order="<", lists=(273, 279)):
    """Return a TIFF of encoded segments; tags by number, each a field type and its values."""
    tags = {**tags, lists[0]: (4, [0] * len(segments)), lists[1]: (4, [*map(len, segments)])}
    start = 8 + 2 + 12 * len(tags) + 4
    room = {tag: struct.calcsize("=" + TIFF_CODES[kind]) * len(values) for tag, (kind, values) in tags.items()}
    at = start + sum(size for size in room.values() if size > 4)
    offsets = []
    for segment in segments:
        offsets.append(at)
        at += len(segment)
    tags[lists[0]] = 4, offsets
    entries = heap = b""
    for tag, (kind, values) in sorted(tags.items()):
        numbers = [number for value in values for number in (value if kind == 5 else (value,))]
        packed = struct.pack(f"{order}{len(numbers)}{TIFF_CODES[kind][0]}", *numbers)
        entries += struct.pack(order + "HHI", tag, kind, len(values))
        if len(packed) > 4:
            entries += struct.pack(order + "I", start + len(heap))
            heap += packed
        else:
            entries += packed.ljust(4, b"\0")
    magic = b"II*\0" if order == "<" else b"MM\0*"
    head = magic + struct.pack(order + "IH", 8, len(tags))
    return head + entries + bytes(4) + heap + b"".join(segments)


def tiff_tags(width, height, bits, scheme=1, **others):
    """Return the tags of an image for `tiff_of`; strips have some rows, or tiles a size."""
    photometric, samples, form, predictor = (
        others.get(name, 1) for name in ("photometric", "samples", "form", "predictor")
    )
    tags = {
        256: (4, [width]),
        257: (4, [height]),
        258: (3, [bits] * samples),
        259: (3, [scheme]),
        262: (3, [photometric]),
        277: (3, [samples]),
        339: (3, [form] * samples),
    }
    if predictor != 1:
        tags[317] = (3, [predictor])
    tile = others.get("tile")
    if tile is None:
        return {**tags, 278: (4, [others.get("rows", height)])}
    return {**tags, 322: (4, [tile[1]]), 323: (4, [tile[0]])}
