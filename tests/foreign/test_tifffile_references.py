"""References that tifffile writes, of Zarr v2 and v3: every codec that it names.

The pixels are those of tifffile's own Zarr store of the TIFF; tifffile decodes there, by
its own page's tags, and knows nothing of the references.
"""

import json
import subprocess
import sys

import numpy as np
import pytest
import tifffile
import zarr
from click.testing import CliRunner

import jnrrdz
from jnrrdz.cli import cli
from tests import writers

ROWS, COLUMNS = 96, 128
RANDOM = np.random.default_rng(0)
WORDS = RANDOM.integers(0, 60000, (ROWS, COLUMNS)).astype("u2")
FLOATS = RANDOM.random((ROWS, COLUMNS)).astype("f4")
RGB = RANDOM.integers(0, 250, (ROWS, COLUMNS, 3)).astype("u1")
RGBA = np.concatenate([RGB, RGB[..., :1]], axis=-1)
GREY = np.add.outer(np.arange(ROWS), np.arange(COLUMNS)).astype("u1")
COLOUR = np.stack([GREY, GREY[::-1], GREY[:, ::-1]], axis=-1)
LOSSLESS = {"compressionargs": {"lossless": True}}

FILES = {
    "plain": (WORDS, {}),
    "lzw": (WORDS, {"compression": "lzw"}),
    "lzw, differences": (WORDS, {"compression": "lzw", "predictor": 2}),
    "lzw, big-endian": (WORDS, {"compression": "lzw", "predictor": 2, "byteorder": ">"}),
    "lzw, samples": (RGB, {"compression": "lzw", "photometric": "rgb"}),
    "lzw, samples, differences": (RGB, {"compression": "lzw", "photometric": "rgb", "predictor": 2}),
    "lzw, pages": (np.stack([WORDS, WORDS // 2]), {"compression": "lzw", "photometric": "minisblack"}),
    "deflate": (WORDS, {"compression": "zlib"}),
    "deflate, differences": (WORDS, {"compression": "zlib", "predictor": 2}),
    "deflate, floats": (FLOATS, {"compression": "zlib", "predictor": 3}),
    "deflate, big-endian floats": (FLOATS, {"compression": "zlib", "predictor": 3, "byteorder": ">"}),
    "zstd": (WORDS, {"compression": "zstd"}),
    "zstd, differences": (WORDS, {"compression": "zstd", "predictor": 2}),
    "packbits": (GREY, {"compression": "packbits"}),
    "lzma": (WORDS, {"compression": "lzma"}),
    "lzma, differences": (WORDS, {"compression": "lzma", "predictor": 2}),
    "jpeg": (GREY, {"compression": "jpeg"}),
    "jpeg, colours": (COLOUR, {"compression": "jpeg", "photometric": "rgb"}),
    "jpeg, planes": (
        np.moveaxis(COLOUR, -1, 0),
        {"compression": "jpeg", "photometric": "rgb", "planarconfig": "separate"},
    ),
    "jpeg, pages": (np.stack([GREY, GREY[::-1]]), {"compression": "jpeg", "photometric": "minisblack"}),
    "jpeg, 12 bits": (WORDS % 4096, {"compression": "jpeg", "bitspersample": 12}),
    "jpegxl": (WORDS, {"compression": "jpegxl", "compressionargs": {"level": 100}}),
    "jpegxl, colours": (RGB, {"compression": "jpegxl", "photometric": "rgb"}),
    "webp": (RGB, {"compression": "webp", "photometric": "rgb", **LOSSLESS}),
    "webp, alpha": (
        RGBA,
        {"compression": "webp", "photometric": "rgb", "extrasamples": ["unassalpha"], **LOSSLESS},
    ),
    "lerc": (FLOATS, {"compression": "lerc"}),
    "lerc, samples": (RGB, {"compression": "lerc", "photometric": "rgb"}),
    "png": (WORDS, {"compression": "png"}),
    "png, colours": (RGB, {"compression": "png", "photometric": "rgb"}),
    "png, alpha": (RGBA, {"compression": "png", "photometric": "rgb", "extrasamples": ["unassalpha"]}),
    "jpegxr": (GREY, {"compression": "jpegxr"}),
    "jpegxr, colours": (RGB, {"compression": "jpegxr", "photometric": "rgb"}),
    "jpeg2000": (WORDS, {"compression": "jpeg2000"}),
    "jpeg2000, colours": (RGB, {"compression": "jpeg2000", "photometric": "rgb"}),
}


def references(path, version):
    """Write tifffile's references of a TIFF, and return them with the pixels that it reads."""
    refs = path.with_name(f"refs{version}.json")
    with tifffile.imread(path, aszarr=True) as store:
        store.write_fsspec(str(refs), path.parent.as_uri(), zarr_format=version)
        opened = zarr.open(store, mode="r")
        assert isinstance(opened, zarr.Array)
        return refs, opened[...]


def written(folder, name):
    pixels, options = FILES[name]
    options = dict(options)
    path = folder / "a.tif"
    with tifffile.TiffWriter(path, byteorder=options.pop("byteorder", "<")) as file:
        file.write(pixels, tile=(32, 48), **options)
    return path


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", FILES)
def test_every_codec_that_tifffile_names(tmp_path, name, version):
    refs, expected = references(written(tmp_path, name), version)
    found = jnrrdz.open_group(refs)["data"]
    np.testing.assert_array_equal(found[...], expected)
    assert found.shape == expected.shape
    jnrrdz.convert(refs, tmp_path / "own.json")
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "own.json")["data"][...], expected)


PROFILES = {
    "tables": {"compress": "jpeg", "photometric": "ycbcr", "count": 3, "interleave": "pixel"},
    "plain RGB": {"compress": "jpeg", "photometric": "rgb", "count": 3, "interleave": "pixel"},
    "grey": {"compress": "jpeg", "count": 1},
    "lerc": {"compress": "lerc", "count": 1, "dtype": "float32"},
    "lzma": {"compress": "lzma", "count": 1, "predictor": 2, "dtype": "int16"},
}


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", PROFILES)
def test_tiffs_of_gdal(tmp_path, name, version):
    options = {"dtype": "uint8", "tiled": True, "blockxsize": 32, "blockysize": 48} | PROFILES[name]
    bands = np.moveaxis(COLOUR, -1, 0)[: options["count"]].astype(options["dtype"])
    path = tmp_path / "a.tif"
    writers.geotiff(path, bands, **options)
    refs, expected = references(path, version)
    np.testing.assert_array_equal(jnrrdz.open_group(refs)["data"][...], expected)


READ = """
import sys, fsspec, imagecodecs.numcodecs, numpy, zarr
from imagecodecs.numcodecs import register_codecs
register_codecs(verbose=False)
store = zarr.storage.FsspecStore(
    fsspec.filesystem("reference", fo=sys.argv[1], remote_protocol="file", asynchronous=True), path=""
)
numpy.save(sys.argv[2], zarr.open(store, mode="r", zarr_format=2)[...])
"""


@pytest.mark.parametrize("name", ["lzw, samples, differences", "jpeg, colours", "webp, alpha"])
def test_pixels_are_those_of_zarr_with_imagecodecs(tmp_path, name):
    refs, _ = references(written(tmp_path, name), 2)
    arguments = [sys.executable, "-W", "ignore", "-c", READ, str(refs), str(tmp_path / "a.npy")]
    subprocess.run(arguments, check=True, capture_output=True)
    np.testing.assert_array_equal(jnrrdz.open_group(refs)["data"][...], np.load(tmp_path / "a.npy"))


def test_levels(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(COLOUR, tile=(32, 32), subifds=1, compression="jpeg", photometric="rgb")
        file.write(COLOUR[::2, ::2], tile=(32, 32), subfiletype=1, compression="jpeg", photometric="rgb")
    with tifffile.imread(tmp_path / "a.tif", aszarr=True) as store:
        store.write_fsspec(str(tmp_path / "a.json"), tmp_path.as_uri(), zarr_format=3)
    group = jnrrdz.open_group(tmp_path / "a.json")
    for level in (0, 1):
        expected = tifffile.imread(tmp_path / "a.tif", level=level)
        np.testing.assert_array_equal(group[str(level)][...], expected)


def changed(refs, change):
    """Write references whose array's metadata are changed."""
    document = json.loads(refs.read_text())
    array = json.loads(document["zarr.json"])
    change(array)
    document["zarr.json"] = json.dumps(array)
    refs.write_text(json.dumps(document))
    return refs


UNREAD = {
    "another codec": lambda array: array.update(codecs=[{"name": "imagecodecs_eer"}]),
    "an option": lambda array: array["codecs"][0].update(configuration={"colorspace_data": 9}),
    "no names of axes": lambda array: array.update(dimension_names=None),
    "distance 2": lambda array: array["codecs"].insert(
        0, {"name": "imagecodecs_delta", "configuration": {"axis": -2, "dist": 2}}
    ),
}


@pytest.mark.parametrize("case", UNREAD)
def test_what_is_not_understood_is_refused_where_it_is_read(tmp_path, case):
    refs, _ = references(written(tmp_path, "jpeg, colours"), 3)
    changed(refs, UNREAD[case])
    with pytest.raises(jnrrdz.UnsupportedError, match=r"imagecodecs_.*index the file itself"):
        jnrrdz.open_group(refs)["data"][...]
    found = json.loads(CliRunner().invoke(cli, ["info", "--json", str(refs)]).stdout)
    assert not any(each["readable"] for each in found["readable_by"])


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ["jpeg", "lzw, differences", "deflate, differences"])
def test_info_says_who_reads_it(tmp_path, name, version):
    refs, _ = references(written(tmp_path, name), version)
    run = CliRunner().invoke
    found = json.loads(run(cli, ["info", "--json", str(refs)]).stdout)
    able = {each["reader"]: each["readable"] for each in found["readable_by"]}
    # others know `imagecodecs_jpeg` and its like as little as `tiff-tile`
    assert [name for name, can in able.items() if can] == ["jnrrdz"]
    text = run(cli, ["info", str(refs)]).stdout
    assert text.count("not by") == 1
    assert "which jnrrdz brings" not in text
    assert "does not have" not in text
