"""Rows of NITF."""

from dataclasses import replace
from functools import partial

import imagecodecs
import numpy as np
import rasterio
from rasterio.transform import from_origin
from tests.matrix.readers import by_gdal, by_numbers
from tests.matrix.row import DAYS, Row
from tests.matrix.sources_tiff import RGB, SIZE, noise
from tests.nitf.by_hand import V21, file_bytes, image_header
from tests.nitf.conftest import mask_bytes, nitf_bytes
from tests.nitf.test_blocks import blocks, raw
from tests.nitf.test_compressed import vq_data
from tests.writers import geotiff, nitf_segments

UTM = {"crs": "EPSG:32633", "transform": from_origin(500000, 5000000, 10, 10)}


def by_gdal_nitf(path, seed, *, bands=1, dtype="u1", **options):
    pixels = noise(seed, (bands, *SIZE), dtype)
    geotiff(path, pixels, driver="NITF", **options)


def compressed(path, seed, *, bands=1, **options):
    """Write by GDAL's copying, which compresses."""
    plain = path.with_suffix(".plain")
    geotiff(plain, noise(seed, (bands, *SIZE)), **UTM)
    rasterio.shutil.copy(plain, path, driver="NITF", ICORDS="N", **options)
    plain.unlink()


def interleaved(mode):
    """Return a function that writes three bands in an IMODE, field by field."""

    def write(path, seed):
        pixels = noise(seed, (3, *SIZE), ">u2")
        parts = (raw(block, mode, 16) for block in blocks(pixels, (32, 16), mode))
        layout = {"imode": mode.encode(), "grid": (2, 3), "block": (32, 16)}
        samples = {"nbpp": 16, "abpp": 16, "irep": b"MULTI", "bands": ((b"", ()),) * 3}
        header = image_header(*SIZE, version=V21, **layout, **samples)
        path.write_bytes(file_bytes(header, b"".join(parts), version=V21))

    return write


def masked(path, seed):
    """Write four blocks by jbpy, of which the second is missing."""
    pixels = noise(seed, (1, *SIZE))
    parts = [raw(block, "B", 8) for block in blocks(pixels, (32, 24), "B")]
    mask = mask_bytes([0, None, 768, 1536], pad=b"\x07")
    data = mask + b"".join([parts[0], *parts[2:]])
    fields = {"NROWS": 64, "NCOLS": 48, "NPPBV": 32, "NPPBH": 24, "NBPC": 2, "NBPR": 2}
    path.write_bytes(nitf_bytes((data, {**fields, "IC": "NM"})))


BOOKS = np.random.default_rng(5).integers(0, 256, (4, 4096, 4), np.uint8)
"""Rows of 4 x 4 pixels, by their numbers."""


def quantised(path, seed):
    """Write numbers of rows of a code book, as MIL-STD-2411 lays them out."""
    codes = np.random.default_rng(seed).integers(0, 4096, (16, 12))
    tables, packed = vq_data(codes, BOOKS)
    fields = {"NROWS": 64, "NCOLS": 48, "IC": "C4", "COMRAT": "00.0"}
    path.write_bytes(nitf_bytes((tables + packed, fields)))


def of_books(path):
    """Return the pixels of the code book's rows, by the seed in the file's name."""
    seed = DAYS.index(path.stem.removeprefix("d_"))
    codes = np.random.default_rng(seed).integers(0, 4096, (16, 12))
    return BOOKS[:, codes].transpose(1, 0, 2, 3).reshape(64, 48)


def lossless_jpeg(path, seed):
    pixels = noise(seed, SIZE)
    data = bytes(imagecodecs.ljpeg_encode(pixels, bitspersample=8))
    fields = {"NROWS": 64, "NCOLS": 48, "IC": "C5", "COMRAT": "00.0"}
    path.write_bytes(nitf_bytes((data, fields)))


def segments(path, seed):
    parts = []
    for number, (height, width) in enumerate([SIZE, (20, 30)]):
        place = {
            "IDLVL": number + 1,
            "IALVL": number,
            "ILOCROW": 0,
            "ILOCCOL": 60 * number,
        }
        parts.append((noise(seed + number, (height, width)), place))
    nitf_segments(path, *parts)


def as_colours(path):
    """Return the view of GDAL, which gives RGB and names the bands Y, Cb and Cr."""
    return replace(by_gdal(path), colours=RGB)


def side_by_side(path):
    """Return the picture of both segments, each where ILOC has it."""
    rgba = np.zeros((64, 90, 4), "u1")
    for number, place in enumerate([np.s_[:64, :48], np.s_[:20, 60:]]):
        with rasterio.open(f"NITF_IM:{number}:{path}") as file:
            rgba[place][..., :3] = file.read(1)[..., None]
            rgba[place][..., 3] = 255
    return rgba


def of_stream(path):
    data = path.read_bytes()
    return imagecodecs.ljpeg_decode(data[data.index(b"\xff\xd8\xff") :])


def nitf(name, by, write, *traits, **own):
    own = {"group": "image_0", "read": by_gdal, "reader": "GDAL", **own}
    traits = frozenset(traits)
    return Row(f"NITF {name}", by, write, file="d_{}.ntf", traits=traits, **own)


BLOCKS = {"BLOCKXSIZE": 16, "BLOCKYSIZE": 32}
# fmt: off
NITF = [
    nitf("raw", "GDAL", by_gdal_nitf),
    nitf("raw, blocks", "GDAL", partial(by_gdal_nitf, dtype="i2", **BLOCKS)),
    nitf("UTM", "GDAL", partial(by_gdal_nitf, dtype="f4", ICORDS="N", **UTM), "place"),
    *(nitf(f"IMODE {mode}", "by hand", interleaved(mode), "bands") for mode in "BPRS"),
    nitf("masked", "jbpy", masked),
    nitf("C8", "GDAL", partial(compressed, IC="C8", QUALITY="100", REVERSIBLE="YES"),
         "place", "our codec"),
    nitf("C3", "GDAL", partial(compressed, IC="C3", bands=3), "place", "bands",
         "our codec", read=as_colours),
    nitf("C5", "jbpy, imagecodecs", lossless_jpeg, "our codec",
         read=by_numbers(of_stream, "y", "x"), reader="imagecodecs"),
    nitf("C4", "jbpy", quantised, "our codec", read=by_numbers(of_books, "y", "x"),
         reader="numpy"),
    nitf("several segments", "GDAL", segments, "several images", picture=side_by_side),
]
# fmt: on
