"""A source's date is told in one place: `info` shows what `cube` and `merge` take from metadata, and a cube's dates."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
from click.testing import CliRunner

import jnrrdz
from jnrrdz.cli import cli
from tests.commands import stack_kinds
from tests.commands.archive import write

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/info.schema.json").read_text())


def nitf(path, day):
    stack_kinds.nitf()(path, day)


def tiff(path, day):
    write(path, np.full((128, 128), day, "u2"), 10)
    with rasterio.open(path, "r+") as file:
        file.update_tags(TIFFTAG_DATETIME=f"2024:01:0{day} 00:00:00")


DATED = {"NITF's IDATIM": ("ntf", nitf), "TIFF's DateTime": ("tif", tiff)}


@pytest.mark.parametrize("kind", DATED)
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_cube_and_merge_know_the_date_that_info_shows(tmp_path, kind):
    ending, make = DATED[kind]
    files = [tmp_path / f"{name}.{ending}" for name in "ba"]
    for day, file in enumerate(files, start=1):
        make(file, day)
        assert jnrrdz.info(file)["date"].startswith(f"2024-01-0{day}T00:00:00")
    days = np.array(["2024-01-01", "2024-01-02"], "M8[ns]")
    jnrrdz.cube(files, tmp_path / "c.json", time_from="metadata")
    np.testing.assert_array_equal(xr.open_dataset(tmp_path / "c.json")["time"], days)
    jnrrdz.merge(files, tmp_path / "m.json", concat_dim="time", coord_from="metadata")
    np.testing.assert_array_equal(xr.open_dataset(tmp_path / "m.json")["time"], days)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_the_date_of_a_nitf_s_file_counts_where_its_image_has_none(tmp_path):
    files = [tmp_path / f"{name}.ntf" for name in "ba"]
    for day, file in enumerate(files, start=1):
        stack_kinds.nitf(FDT=f"2023060{day}000000")(file, day)
        data = file.read_bytes()
        assert data.count(b"2024010%d000000" % day) == 1
        file.write_bytes(data.replace(b"2024010%d000000" % day, b"-" * 14))
        report = jnrrdz.info(file)
        assert "date" not in report
        assert report["nitf"]["date"] == f"2023-06-0{day}T00:00:00Z"
        assert jnrrdz.stac_item(file)["properties"]["datetime"] == f"2023-06-0{day}T00:00:00Z"
    days = np.array(["2023-06-01", "2023-06-02"], "M8[ns]")
    jnrrdz.cube(files, tmp_path / "c.json", time_from="metadata")
    np.testing.assert_array_equal(xr.open_dataset(tmp_path / "c.json")["time"], days)
    jnrrdz.merge(files, tmp_path / "m.json", concat_dim="time", coord_from="metadata")
    np.testing.assert_array_equal(xr.open_dataset(tmp_path / "m.json")["time"], days)


@pytest.mark.parametrize("out", ["c.json", "c.parquet", "c.icechunk"])
def test_info_tells_the_dates_of_a_cube(tmp_path, out):
    for day in (1, 5, 9):
        write(tmp_path / f"a_2024060{day}.tif", np.full((128, 128), day, "u2"), 10)
    jnrrdz.cube(sorted(map(str, tmp_path.glob("*.tif"))), tmp_path / out, time_from=r"_(\d{8})")
    found = jnrrdz.info(tmp_path / out)
    jsonschema.validate(found, SCHEMA)
    (image,) = found["images"]
    assert image["times"] == {"count": 3, "first": "2024-06-01T00:00:00Z", "last": "2024-06-09T00:00:00Z"}
    text = CliRunner().invoke(cli, ["info", str(tmp_path / out)]).stdout
    assert "3, 2024-06-01T00:00:00Z to 2024-06-09T00:00:00Z" in text


def test_merge_knows_the_acquisition_date_of_ome(tmp_path):
    files = [tmp_path / f"{name}.ome.tif" for name in "ba"]
    for day, file in enumerate(files, start=1):
        metadata = {"axes": "YX", "AcquisitionDate": f"2024-01-0{day}T10:20:30"}
        tifffile.imwrite(file, np.full((32, 32), day, "u1"), ome=True, metadata=metadata, datetime=False)
        with tifffile.TiffFile(file) as read:
            assert f"<AcquisitionDate>2024-01-0{day}T10:20:30" in read.ome_metadata
        assert jnrrdz.info(file)["date"] == f"2024-01-0{day}T10:20:30"
    jnrrdz.merge(files, tmp_path / "m.json", concat_dim="when", coord_from="metadata")
    found = jnrrdz.open_group(tmp_path / "m.json")
    assert found["data"][:, 0, 0].tolist() == [1, 2]
