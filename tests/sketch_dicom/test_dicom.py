"""pydicom's own sample files through a format that tests add from outside, compared with pydicom's pixels."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner
from pydicom import dcmread
from pydicom.data import get_testdata_file
from pydicom.pixels import apply_rescale, pixel_array

import jnrrdz
from jnrrdz.cli import cli
from tests.sketch_dicom import DICOM, registered

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pydicom")

READ = {
    # not compressed
    "CT_small.dcm": ("y", "x"),
    "MR_small_implicit.dcm": ("y", "x"),
    "MR_small_bigendian.dcm": ("y", "x"),
    "ExplVR_BigEnd.dcm": ("band", "y", "x"),
    "SC_rgb_small_odd.dcm": ("band", "y", "x"),
    "examples_rgb_color.dcm": ("band", "y", "x"),
    "rtdose.dcm": ("frame", "y", "x"),
    # JPEG 2000, by the codec of JPEG 2000
    "JPEG2000.dcm": ("y", "x"),
    "MR_small_jp2klossless.dcm": ("y", "x"),
    "693_J2KI.dcm": ("y", "x"),
    "SC_rgb_gdcm_KY.dcm": ("band", "y", "x"),
    # JPEG, by the codec of NITF
    "SC_rgb_jpeg_dcmtk.dcm": ("band", "y", "x"),
    "SC_rgb_dcmtk_+eb+cr.dcm": ("band", "y", "x"),
    "SC_jpeg_no_color_transform.dcm": ("band", "y", "x"),
    "SC_jpeg_no_color_transform_2.dcm": ("band", "y", "x"),
    "SC_rgb_dcmtk_+eb+cy+np.dcm": ("band", "y", "x"),
    "examples_ybr_color.dcm": ("frame", "band", "y", "x"),
    # run lengths, by a codec that the sketch adds
    "MR_small_RLE.dcm": ("y", "x"),
    "SC_rgb_rle.dcm": ("band", "y", "x"),
    "SC_rgb_rle_16bit_2frame.dcm": ("frame", "band", "y", "x"),
    "SC_rgb_rle_32bit.dcm": ("band", "y", "x"),
    "rtdose_rle.dcm": ("frame", "y", "x"),
}
"""Files and the dimensions of their pixels."""

REFUSED = {
    "MR_small_jpeg_ls_lossless.dcm": "TRANSFER_SYNTAX",
    "JPGExtended.dcm": "TRANSFER_SYNTAX",
    "image_dfl.dcm": "TRANSFER_SYNTAX",
    "SC_ybr_full_422_uncompressed.dcm": "YBR_FULL_422 in plain samples",
    "SC_rgb_small_odd_big_endian.dcm": "bytes in words of the other order",
    "J2K_pixelrep_mismatch.dcm": "a codestream of uint16",
    "JPEG2000-embedded-sequence-delimiter.dcm": "SIZ",
    "examples_jpeg2k.dcm": "several fragments",
    "examples_palette.dcm": "PALETTE COLOR",
    "liver_1frame.dcm": "samples of 1 bits",
    "badVR.dcm": "FRAMES: '1A' is no count",
    "MR_truncated.dcm": "a value of 8192 bytes",
    "rtplan.dcm": "without pixels",
}
"""Files that are refused, and words of the reason."""


@pytest.fixture(autouse=True)
def _dicom():
    with registered():
        yield


def sample(name):
    return Path(get_testdata_file(name, download=False))


def by_pydicom(path, dims):
    """Return what pydicom decodes, bands in front of rows."""
    pixels = pixel_array(path)
    return np.moveaxis(pixels, -1, -3) if "band" in dims else pixels


@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.parametrize("name", READ)
def test_pixels_are_those_of_pydicom(name, form, tmp_path):
    dims = READ[name]
    jnrrdz.index(sample(name), tmp_path / f"a.{form}")
    opened = jnrrdz.open_dataset(tmp_path / f"a.{form}", mask_and_scale=False)["data"]
    assert opened.dims == dims
    np.testing.assert_array_equal(opened, by_pydicom(sample(name), dims))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_refused_in_words(name):
    with pytest.raises(jnrrdz.JnrrdzError, match=REFUSED[name]):
        jnrrdz.scan(sample(name))


def test_rescaled_values_and_millimetres():
    opened = xr.open_dataset(sample("CT_small.dcm"), engine="jnrrdz")["data"]
    described = dcmread(sample("CT_small.dcm"))
    np.testing.assert_array_equal(opened, apply_rescale(pixel_array(described), described))
    step = float(opened["x"][1] - opened["x"][0])
    assert step == pytest.approx(described.PixelSpacing[1])


@pytest.mark.parametrize("name", ["CT_small.dcm", "JPEG2000.dcm", "SC_rgb_rle.dcm", "SC_rgb_jpeg_dcmtk.dcm"])
def test_files_become_a_stack(name, tmp_path):
    """`merge` puts an axis in front, which the record of each codec has to allow."""
    for day in "12":
        (tmp_path / f"d_2020010{day}.dcm").write_bytes(sample(name).read_bytes())
    days = sorted(map(str, tmp_path.glob("*.dcm")))
    jnrrdz.merge(days, tmp_path / "m.json", concat_dim="time", coord_from=r"(\d{8})")
    opened = jnrrdz.open_dataset(tmp_path / "m.json", mask_and_scale=False)["data"]
    assert opened.dims == ("time", *READ[name])
    np.testing.assert_array_equal(opened, [by_pydicom(sample(name), READ[name])] * 2)


def test_a_manifest_of_it_is_a_zarr_store(tmp_path):
    jnrrdz.index(sample("SC_rgb_rle_16bit_2frame.dcm"), tmp_path / "a.json")
    root = jnrrdz.open_group(tmp_path / "a.json")
    assert isinstance(root["data"], zarr.Array)
    assert root["data"].chunks == (1, 3, 100, 100)


@pytest.mark.parametrize("name", ["SC_rgb_rle.dcm", "CT_small.dcm", "SC_rgb_gdcm_KY.dcm"])
def test_commands_know_the_format(name, tmp_path):
    run = CliRunner().invoke
    manifest = tmp_path / "a.json"
    assert run(cli, ["index", str(sample(name)), "-o", str(manifest)]).exit_code == 0
    for arguments in (["info", str(manifest)], ["verify", str(manifest)], ["ls", str(manifest)]):
        assert run(cli, arguments).exit_code == 0
    assert jnrrdz.preview(manifest).png
    assert "BIG_ENDIAN" in run(cli, ["codecs"]).stdout
    assert ".dcm" in run(cli, ["index", "-h"]).stdout


def test_a_batch_finds_the_files(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("CT_small.dcm", "MR_small_RLE.dcm"):
        (folder / name).write_bytes(sample(name).read_bytes())
    done = jnrrdz.batch(f"{folder}/", f"{tmp_path}/{{stem}}.json")
    assert (done.ok, done.failed) == (2, 0)


def frame_of(path, folder):
    """Return the first byte of the one frame of a file, and the first behind it."""
    jnrrdz.index(path, folder / "frame.json")
    references = json.loads((folder / "frame.json").read_text())["refs"]
    _, start, length = references["data/c/0/0"]
    return start, start + length


@pytest.mark.parametrize("damaged", [10, 100, 1000])
def test_damaged_run_lengths_are_an_error_that_names_the_chunk(damaged, tmp_path):
    data = bytearray(sample("MR_small_RLE.dcm").read_bytes())
    start, _ = frame_of(sample("MR_small_RLE.dcm"), tmp_path)
    data[start : start + damaged] = bytes([255]) * damaged
    (tmp_path / "a.dcm").write_bytes(data)
    jnrrdz.index(tmp_path / "a.dcm", tmp_path / "a.json")
    with pytest.raises(jnrrdz.JnrrdzError, match=r"a\.dcm bytes 1536-7643: chunk data/c/0/0: dicom-rle"):
        jnrrdz.open_dataset(tmp_path / "a.json")["data"].load()


def test_a_file_that_ends_within_its_pixels_or_before_is_refused(tmp_path):
    data = sample("MR_small_RLE.dcm").read_bytes()
    _, stop = frame_of(sample("MR_small_RLE.dcm"), tmp_path)
    for size in range(132, stop, 97):
        (tmp_path / "a.dcm").write_bytes(data[:size])
        with pytest.raises(jnrrdz.JnrrdzError):
            jnrrdz.scan(tmp_path / "a.dcm")


def test_the_sketch_is_not_shipped():
    assert DICOM.scan.startswith("tests.")
