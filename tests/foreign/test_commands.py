"""The same commands for every format: batch on a mixed bucket, verify, drift, trust, convert, merge, info."""

import json
import os

import numpy as np
import pytest
import tifffile
import xarray as xr
from astropy.io import fits
from click.testing import CliRunner

import jnrrdz
from jnrrdz.cli import cli
from tests.foreign.conftest import classic, netcdf4, weather


@pytest.fixture
def mixed(tmp_path):
    """Return a folder of four formats, and what is in their files."""
    folder = tmp_path / "in"
    folder.mkdir()
    netcdf4(folder / "a.nc")
    classic("NETCDF3_CLASSIC")(folder / "b.nc")
    fits.PrimaryHDU(np.arange(20.0).reshape(4, 5)).writeto(folder / "c.fits")
    tifffile.imwrite(folder / "d.tif", np.arange(20.0).reshape(4, 5))
    return folder


def test_batch_verify_drift(mixed, tmp_path):
    done = jnrrdz.batch(f"{mixed}/", f"{tmp_path}/out/{{stem}}.json")
    assert (done.ok, done.failed) == (4, 0)
    for name in ("a.nc", "b.nc", "c.fits", "d.tif"):
        manifest = tmp_path / "out" / f"{name.rpartition('.')[0]}.json"
        assert jnrrdz.verify(manifest, deep=True).ok
        (mixed / name).write_bytes((mixed / name).read_bytes() + b"more")
        assert not jnrrdz.verify(manifest).ok
        with pytest.raises(jnrrdz.DriftError, match="size was"):
            xr.open_dataset(manifest).load()


def test_a_bucket(seaweed, bucket, mixed):
    for path in sorted(mixed.iterdir()):
        seaweed.put(bucket, f"in/{path.name}", path.read_bytes())
    options = seaweed.options()
    done = jnrrdz.batch(
        f"s3://{bucket}/in/", f"s3://{bucket}/out/{{name}}.json", storage_options=options, target_options=options
    )
    assert (done.ok, done.failed) == (4, 0)
    found = xr.open_dataset(
        f"s3://{bucket}/out/a.nc.json", engine="jnrrdz", storage_options=options, source_options=options
    )
    with xr.open_dataset(mixed / "a.nc") as expected:
        xr.testing.assert_equal(found, expected)


def test_over_http_in_few_requests(http_server, mixed):
    http_server.files["/a.nc"] = (mixed / "a.nc").read_bytes()
    with xr.open_dataset(mixed / "a.nc") as expected:
        group = jnrrdz.scan(f"{http_server.url}/a.nc")
        assert len(http_server.log) <= 3  # the head, the file, its coordinates
        xr.testing.assert_equal(xr.open_dataset(group, engine="jnrrdz"), expected)
    assert group.sources[0].etag


def test_trust(mixed, tmp_path, http_server):
    http_server.files["/refs.json"] = b""
    jnrrdz.index(mixed / "a.nc", tmp_path / "a.json")
    http_server.files["/refs.json"] = (tmp_path / "a.json").read_bytes()
    with pytest.raises(jnrrdz.UntrustedSourceError):
        xr.open_dataset(f"{http_server.url}/refs.json", engine="jnrrdz").load()


def test_convert_merge_refresh(tmp_path):
    for year in (2001, 2002):
        weather().drop_vars(["crs", "gaps"]).to_netcdf(tmp_path / f"{year}.nc", engine="h5netcdf")
        jnrrdz.index(tmp_path / f"{year}.nc", tmp_path / f"{year}.json")
    both = [tmp_path / "2001.json", tmp_path / "2002.json"]
    jnrrdz.merge(both, tmp_path / "all.parquet", concat_dim="run")
    found = xr.open_dataset(tmp_path / "all.parquet", engine="jnrrdz")
    assert found["t2m"].dims == ("run", "time", "y", "x")
    with xr.open_dataset(tmp_path / "2002.nc") as second:
        np.testing.assert_array_equal(found["t2m"][1], second["t2m"])
    jnrrdz.convert(tmp_path / "2001.json", tmp_path / "c.parquet")
    with xr.open_dataset(tmp_path / "2001.nc") as first:
        np.testing.assert_array_equal(xr.open_dataset(tmp_path / "c.parquet", engine="jnrrdz")["t2m"], first["t2m"])
    os.utime(tmp_path / "2001.nc")
    jnrrdz.refresh(tmp_path / "2001.json")
    assert jnrrdz.verify(tmp_path / "2001.json").ok


def test_info(mixed):
    run = CliRunner().invoke(cli, ["info", "--json", str(mixed / "a.nc")])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["format"] == "HDF5"
