"""One reading of `GeoTransform`: every command gives the same answer to text that is no six finite numbers."""

import json

import numpy as np
import pytest
import xarray as xr

import jnrrdz
from jnrrdz.core.georeference import GeoTransform, geo_transform
from jnrrdz.errors import JnrrdzError, MalformedError
from tests import writers

WRONG = ["abc def", "1 2 3", "500000 10 0 5000000 0 nan", "", "1 2 3 4 5 6 7", 12, None, [1, 2], [[], 1, 2, 3, 4, 5]]


@pytest.mark.parametrize("value", WRONG)
def test_anything_but_six_finite_numbers_is_refused(value):
    with pytest.raises(MalformedError, match=r"six finite numbers are needed .*GeoTransform|GeoTransform.*six"):
        geo_transform({"GeoTransform": value})


@pytest.mark.parametrize("value", ["500000.0 10.0 0.0 5e6 0.0 -10.0 ", [500000, 10, 0, 5e6, 0, -10]])
def test_text_and_numbers_are_read(value):
    transform = geo_transform({"GeoTransform": value})
    assert transform == GeoTransform(500000, 10, 0, 5000000, 0, -10)
    assert transform.affine == (10, 0, 500000, 0, -10, 5000000)
    assert geo_transform({"GeoTransform": transform.text}) == transform
    assert not transform.is_rotated


def test_nothing_where_a_mapping_has_none():
    assert geo_transform({"crs_wkt": "x"}) is None


@pytest.fixture(params=WRONG[:3])
def refs(tmp_path, request):
    """Return a manifest whose grid mapping has a wrong affine, and another one with the right one."""
    writers.geotiff(tmp_path / "a.tif", np.arange(64, dtype="u1").reshape(8, 8), **writers.PLACE)
    for name in ("good.json", "bad_20240101.json"):
        jnrrdz.index(tmp_path / "a.tif", tmp_path / name)
    document = json.loads((tmp_path / "bad_20240101.json").read_text())
    mapping = json.loads(document["refs"]["spatial_ref/zarr.json"])
    mapping["attributes"]["GeoTransform"] = request.param
    document["refs"]["spatial_ref/zarr.json"] = json.dumps(mapping)
    (tmp_path / "bad_20240101.json").write_text(json.dumps(document))
    return tmp_path / "bad_20240101.json", tmp_path / "good.json"


DOORS = {
    "open_dataset": lambda bad, _, __: xr.open_dataset(bad, engine="jnrrdz"),
    "cube": lambda bad, _, out: jnrrdz.cube([bad], out, time_from=r"_(\d{8})"),
    "merge": lambda bad, good, out: jnrrdz.merge([good, bad], out, concat_dim="time"),
    "preview": lambda bad, _, __: jnrrdz.preview(bad),
    "tile": lambda bad, _, out: jnrrdz.tile(bad, out.with_suffix(".jnrrd"), tile=(8, 8)),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_command_names_the_attribute(refs, tmp_path, door):
    with pytest.raises(JnrrdzError, match="GeoTransform"):
        DOORS[door](*refs, tmp_path / "out.json")


def test_info_reports_why_there_is_no_place(refs):
    (image,) = jnrrdz.info(refs[0])["images"]
    assert "GeoTransform" in image["place"]["georeference_refused"]
    assert "affine" not in image["place"]
