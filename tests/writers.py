"""Files that other libraries write, for tests that need one and not its details."""

import bz2
import gzip
import io
import json
import struct
from pathlib import Path

import imagecodecs
import numpy as np
import rasterio
import tensorstore
import tifffile
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


def gdal_file(path, pixels, *, driver="GTiff", palette=None, **options):
    """Write pixels (bands first, or one band) by GDAL, and return the open file.

    `with gdal_file(...) as file:` adds what is said of an image: names of bands, tags,
    a mask, overviews.
    """
    bands = pixels if pixels.ndim == 3 else pixels[None]
    count, height, width = bands.shape
    sides = {"count": count, "height": height, "width": width}
    profile = {"dtype": bands.dtype.name, **sides, **options}
    file = rasterio.open(path, "w", driver=driver, **profile)
    if palette:
        file.write_colormap(1, palette)  # before the first pixel, or GDAL has none
    file.write(bands)
    return file


def gdal_image(path, pixels, *, driver="GTiff", overviews=(), **options):
    """Write pixels (bands first, or one band) by GDAL, and return the path."""
    with gdal_file(path, pixels, driver=driver, **options) as file:
        if overviews:
            file.build_overviews(overviews)
    return Path(path)


def geotiff(path, pixels, **options):
    """Write pixels as a TIFF by GDAL, and return the path."""
    return gdal_image(path, pixels, **options)


def nitf_segments(path, *segments):
    """Write a NITF by GDAL of images, each its pixels and its fields."""
    fields_of_file = {"NUMI": len(segments)}
    for pixels, fields in segments:
        gdal_image(path, pixels, driver="NITF", **fields_of_file, **fields)
        fields_of_file = {"APPEND_SUBDATASET": "YES"}
    return Path(path)


def gdal_bytes(pixels, *, driver="GTiff", overviews=(), **options):
    """Return the bytes of a file that GDAL writes."""
    with rasterio.MemoryFile() as memory:
        path = memory.name
        gdal_image(path, pixels, driver=driver, overviews=overviews, **options)
        return memory.read()


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


def tiff_bytes(pixels, **options):
    """Return a TIFF by tifffile."""
    file = io.BytesIO()
    tifffile.imwrite(file, pixels, **options)
    return file.getvalue()


def tiff_pages(path, pages, description=None, *, byteorder=None, bigtiff=False, **options):
    """Write arrays as pages by tifffile, the first with a description as it is."""
    options = {"photometric": "minisblack", "metadata": None, **options}
    if isinstance(description, str):
        description = description.encode()
    with tifffile.TiffWriter(path, byteorder=byteorder, bigtiff=bigtiff) as file:
        for page in pages:
            file.write(page, contiguous=False, description=description, **options)
            description = None
    return path


def change_tags(path, **values):
    """Overwrite tags of the first directory, such as `Predictor=9`."""
    with tifffile.TiffFile(path, mode="r+") as file:
        for name, value in values.items():
            file.pages[0].tags[name].overwrite(value)
    return path


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


def n5_document(shape, block, dtype="uint8", compression="raw", **attributes):
    """Return the attributes of a dataset; its sides have x first."""
    if isinstance(compression, str):
        compression = {"type": compression}
    sizes = {"dimensions": [*shape], "blockSize": [*block], "dataType": str(dtype)}
    return {**sizes, "compression": compression, **attributes}


def n5_attributes(folder, **attributes):
    """Add attributes to a folder of a container, and return the folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "attributes.json"
    present = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(present | attributes))
    return folder


def n5_dataset(folder, values, block, compression="zstd", **attributes):
    """Write values, x first, as a dataset by tensorstore, and return its folder."""
    dtype = attributes.pop("dtype", values.dtype)
    document = n5_document(values.shape, block, dtype, compression, **attributes)
    store = {"driver": "file", "path": f"{folder}/"}
    spec = {"driver": "n5", "kvstore": store, "metadata": document}
    tensorstore.open(spec, create=True).result().write(values).result()
    return Path(folder)


def n5_block(values, *, compress=bytes):
    """Return a block of values, x first, of the specification's default mode."""
    sides = struct.pack(f">HH{values.ndim}I", 0, values.ndim, *values.shape)
    body = values.T.astype(values.dtype.newbyteorder(">")).tobytes()
    return sides + compress(body)


def nrrd_header(*lines, version=4, end="\n", **fields):
    """Return a header of fields, such as `data_file="a.raw"`, and of lines as they are.

    A file with its data next to it needs no empty line at the `end`.
    """
    named = [f"{name.replace('_', ' ')}: {value}" for name, value in fields.items()]
    return "\n".join([f"NRRD000{version}", *named, *lines, end]).encode()


def nrrd_of(pixels, *, version=4, end="\n", **fields):
    """Return the header of pixels in C order; fields replace those that it has."""
    sizes = " ".join(map(str, pixels.shape[::-1]))
    header = {"type": pixels.dtype.name, "dimension": pixels.ndim, "sizes": sizes}
    if pixels.dtype.itemsize > 1:
        is_big = pixels.dtype.byteorder == ">"
        header["endian"] = "big" if is_big else "little"
    header |= {"encoding": "raw", **fields}
    return nrrd_header(version=version, end=end, **header)
