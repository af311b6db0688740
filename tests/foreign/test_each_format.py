"""Every foreign format through every command, beside TIFF: the same errors for what became of a source since."""

import json
import os
import shutil

import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
import zarr
from astropy.io import fits
from click.testing import CliRunner

import jnrrdz
from jnrrdz.cli import cli
from jnrrdz.errors import DriftWarning
from tests.foreign.conftest import classic, hdf5, netcdf4
from tests.foreign.test_reading import DMRPP

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

PICTURE = np.random.default_rng(4).integers(0, 200, (31, 47)).astype("f4")


def described(path):
    data = path.with_suffix("")  # DMR++ stands beside what it describes
    data.write_bytes(b"head" + PICTURE.astype("<f4").tobytes())
    path.write_text(DMRPP.format(rows=31, columns=47, nbytes=PICTURE.nbytes))


def stored(path):
    group = zarr.create_group(path)
    group.create_array("gaps", data=PICTURE, chunks=(16, 16), dimension_names=("y", "x"))


FORMATS = {
    "a.nc": (netcdf4, "gaps"),
    "b.h5": (hdf5, "gaps"),
    "c.nc3": (classic("NETCDF3_CLASSIC"), "gaps"),
    "d.nc": (classic("NETCDF3_64BIT_DATA"), "gaps"),
    "e.fits": (lambda path: fits.PrimaryHDU(PICTURE).writeto(path), "PRIMARY"),
    "f.bin.dmrpp": (described, "gaps"),
    "g.zarr": (stored, "gaps"),
    "h.tif": (lambda path: tifffile.imwrite(path, PICTURE), "data"),
}


@pytest.fixture(params=FORMATS)
def source(request, tmp_path):
    """Return a file of each format, the name of its picture, the picture, and the file that holds its bytes."""
    write, variable = FORMATS[request.param]
    path = tmp_path / request.param
    write(path)
    pixels = xr.open_dataset(path).load()["gaps"].to_numpy() if request.param[0] in "abcd" else PICTURE
    holder = path.with_suffix("") if path.suffix == ".dmrpp" else path
    if path.is_dir():
        holder = max((p for p in path.rglob("*") if p.is_file() and p.name != "zarr.json"), key=str)
    return path, variable, pixels, holder


def read(refs, variable, **options):
    return np.asarray(xr.open_dataset(refs, engine="jnrrdz", **options)[variable])


CHANGES = {
    "longer": lambda data: data + b"more",
    "cut": lambda data: data[:-9],
    "other bytes": lambda data: data[::-1],
    "gone": None,
}


def test_what_became_of_it_since(source, tmp_path):
    path, variable, pixels, holder = source
    refs = tmp_path / "refs.json"
    jnrrdz.index(path, refs)
    np.testing.assert_array_equal(read(refs, variable), pixels)
    assert jnrrdz.verify(refs, deep=True).ok
    whole = holder.read_bytes()
    for name, change in CHANGES.items():
        holder.unlink()
        if change is not None:
            holder.write_bytes(change(whole))
        # of a local file of the same size the time is only a warning: its bytes may be told first
        with pytest.raises(
            jnrrdz.JnrrdzError if name == "gone" else (jnrrdz.DriftError, jnrrdz.MalformedError, DriftWarning)
        ):
            read(refs, variable)
        if name != "other bytes" or path.is_dir():
            kinds = {finding.kind for finding in jnrrdz.verify(refs).findings}
            assert kinds, name
            assert name == "gone" or "drift" in kinds
        holder.write_bytes(whole)
    os.utime(holder, ns=(1, 1))
    assert jnrrdz.refresh(refs).changed
    assert jnrrdz.verify(refs, deep=True).ok
    np.testing.assert_array_equal(read(refs, variable), pixels)


def test_a_strangers_manifest_may_not_name_it(source, tmp_path, http_server):
    path, variable, pixels, _ = source
    jnrrdz.index(path, tmp_path / "refs.json")
    http_server.files["/refs.json"] = (tmp_path / "refs.json").read_bytes()
    url = f"{http_server.url}/refs.json"
    with pytest.raises(jnrrdz.UntrustedSourceError):
        read(url, variable)
    np.testing.assert_array_equal(read(url, variable, allow=[str(tmp_path)]), pixels)


def test_convert_merge_info_preview(source, tmp_path):
    path, variable, pixels, _ = source
    for name in ("one", "two"):
        jnrrdz.index(path, tmp_path / f"{name}.json")
    jnrrdz.convert(tmp_path / "one.json", tmp_path / "one.parquet")
    np.testing.assert_array_equal(read(tmp_path / "one.parquet", variable), pixels)
    jnrrdz.merge([tmp_path / "one.json", tmp_path / "two.json"], tmp_path / "both.json", concat_dim="run")
    np.testing.assert_array_equal(read(tmp_path / "both.json", variable), np.stack([pixels, pixels]))
    run = CliRunner().invoke
    assert json.loads(run(cli, ["info", "--json", str(path)]).stdout)["state"] == "ok"
    for place in (path, tmp_path / "one.json"):
        done = run(cli, ["preview", str(place), "-o", str(tmp_path / "p.png"), "--overwrite"])
        assert done.exit_code == 0, done.output
        with rasterio.open(tmp_path / "p.png") as picture:
            assert (picture.height, picture.width) == (31, 47)
            assert len(np.unique(picture.read(1))) > 9


def test_served_to_plain_zarr(source):
    path, variable, pixels, _ = source
    with jnrrdz.serve(path) as server:
        served = zarr.open_group(server[path.name], mode="r")[variable]
        np.testing.assert_array_equal(served[...], pixels)
        assert {codec["name"] for codec in served.metadata.to_dict()["codecs"]} <= {"bytes", "zstd", "gzip"}


def test_a_bucket_of_all_of_them(seaweed, bucket, tmp_path):
    for name, (write, _) in FORMATS.items():
        (tmp_path / "in").mkdir(exist_ok=True)
        write(tmp_path / "in" / name)
    for path in (tmp_path / "in").rglob("*"):
        if path.is_file():
            seaweed.put(bucket, f"in/{path.relative_to(tmp_path / 'in')}", path.read_bytes())
    options = seaweed.options()
    out = f"s3://{bucket}/out"
    done = jnrrdz.batch(f"s3://{bucket}/in/", f"{out}/{{name}}.json", storage_options=options, target_options=options)
    assert (done.ok, done.failed) == (len(FORMATS), 0)
    for name, (_, variable) in FORMATS.items():
        refs = f"{out}/{name}.json"
        found = read(refs, variable, storage_options=options, source_options=options)
        expected = np.asarray(xr.open_dataset(tmp_path / "in" / name, engine="jnrrdz")[variable])
        np.testing.assert_array_equal(found, expected)
        assert jnrrdz.verify(refs, storage_options=options, source_options=options).ok
    shutil.rmtree(tmp_path / "in")
