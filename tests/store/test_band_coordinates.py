"""Scale, offset, unit, nodata and names of bands in an opened dataset, and in files that are saved of it.

Files are GDAL's; rasterio and rioxarray say what is in them, and in what is saved.
"""

import json
import warnings

import netCDF4
import numpy as np
import pytest
import rasterio
import rioxarray
import xarray as xr

import jnrrdz
from jnrrdz.errors import GIVEN_WARNINGS
from tests import writers

NODATA = -9999
NAMES = ("B02", "B03", "B04")
AGREED = {"scales": (0.0001,) * 3, "offsets": (-0.1,) * 3, "units": ("1",) * 3}
DIFFERENT = {"scales": (0.0001, 0.5, 2.0), "offsets": (-0.1, 0.0, 7.0), "units": ("1", "K", "m")}
FLOAT32 = {"rtol": 1e-6, "atol": 1e-6}
"""rioxarray computes in float32, CF's readers in float64."""

pytestmark = [
    pytest.mark.filterwarnings("ignore:Consolidated metadata:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*matmul:PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:(Scales|Offsets) differ across bands:UserWarning"),
]


@pytest.fixture(autouse=True)
def nothing_said():
    GIVEN_WARNINGS.clear()


def image(path, facts, *, names=NAMES, seed=1, **options):
    """Write an image whose bands have scales, offsets, units and names, and nodata in a corner."""
    shape = (len(names), 100, 130)
    pixels = np.random.default_rng(seed).integers(0, 20000, shape).astype("i2")
    pixels[:, :10, :10] = NODATA
    writers.geotiff(path, pixels, **{"nodata": NODATA, **writers.PLACE, **writers.TILES, **options})
    with rasterio.open(path, "r+") as file:
        file.descriptions = names
        for name, values in facts.items():
            setattr(file, name, values[: len(names)])
    return path


def scaled(path):
    """Return the values that rioxarray computes of each band."""
    with rioxarray.open_rasterio(path, mask_and_scale=True) as found:
        return found.values


def facts_of(path):
    with rasterio.open(path) as file:
        return {name: getattr(file, name) for name in ("scales", "offsets", "nodata", "dtypes")}


@pytest.mark.parametrize("interleave", ["band", "pixel"])
def test_where_bands_agree_everything_is_decoded_or_nothing(tmp_path, interleave):
    path = image(tmp_path / "a.tif", AGREED, interleave=interleave)
    jnrrdz.index(path, tmp_path / "refs.json")
    found = xr.open_dataset(tmp_path / "refs.json")["data"]
    assert float(found.mean()) == pytest.approx(float(np.nanmean(scaled(path))), rel=1e-6)
    np.testing.assert_allclose(found, scaled(path), **FLOAT32)
    assert (found.dtype, found.attrs["units"]) == (np.float64, "1")
    raw = xr.open_dataset(tmp_path / "refs.json", mask_and_scale=False)["data"]
    with rasterio.open(path) as file:
        np.testing.assert_array_equal(raw, file.read())
    # xarray's own engine on the manifest's documents decodes the same
    stock = xr.open_dataset(jnrrdz.open_store(tmp_path / "refs.json"), engine="zarr", consolidated=False)["data"]
    np.testing.assert_array_equal(stock, found)


def test_a_band_and_a_list_of_bands_are_saved_with_their_own(tmp_path):
    path = image(tmp_path / "a.tif", AGREED)
    found = xr.open_dataset(path, engine="jnrrdz")["data"]
    chosen = {"one": found.sel(band="B04"), "at": found.isel(band=1), "list": found.isel(band=[0, 2]), "all": found}
    bands = {"one": [3], "at": [2], "list": [1, 3], "all": [1, 2, 3]}
    for name, selected in chosen.items():
        selected.rio.to_raster(tmp_path / f"{name}.tif")
        with rasterio.open(path) as source, rasterio.open(tmp_path / f"{name}.tif") as saved:
            np.testing.assert_array_equal(saved.read(), source.read(bands[name]))
            assert (saved.nodata, saved.dtypes) == (NODATA, ("int16",) * len(bands[name]))
            assert saved.scales == AGREED["scales"][: len(bands[name])]
            assert saved.offsets == AGREED["offsets"][: len(bands[name])]


def test_names_and_scales_that_differ_are_saved_where_rioxarray_is_given_them(tmp_path):
    path = image(tmp_path / "a.tif", DIFFERENT)
    found = xr.open_dataset(path, engine="jnrrdz", mask_and_scale=False)["data"].sel(band=["B02", "B04"])
    lists = {"long_name": found["band"], "scales": found["scale"], "offsets": found["offset"]}
    known = found.assign_attrs({name: values.values.tolist() for name, values in lists.items()})
    known.rio.to_raster(tmp_path / "copy.tif")
    with rasterio.open(path) as source, rasterio.open(tmp_path / "copy.tif") as saved:
        assert saved.descriptions == ("B02", "B04")
        np.testing.assert_array_equal(saved.read(), source.read([1, 3]))
        assert (saved.scales, saved.offsets, saved.nodata) == ((0.0001, 2.0), (-0.1, 7.0), NODATA)


def test_a_lone_band_is_saved_with_its_name(tmp_path):
    path = image(tmp_path / "a.tif", AGREED, names=("B02",))
    xr.open_dataset(path, engine="jnrrdz")["data"].rio.to_raster(tmp_path / "copy.tif")
    with rasterio.open(tmp_path / "copy.tif") as saved:
        assert saved.descriptions == ("B02",)
    assert facts_of(tmp_path / "copy.tif") == facts_of(path)


def test_where_bands_differ_a_selection_keeps_its_own(tmp_path):
    path = image(tmp_path / "a.tif", DIFFERENT)
    jnrrdz.index(path, tmp_path / "refs.json")
    with pytest.warns(jnrrdz.ScaleWarning, match="physical=True"):
        found = xr.open_dataset(tmp_path / "refs.json")["data"]
    assert found["scale"].values.tolist() == list(DIFFERENT["scales"])
    assert found["offset"].values.tolist() == list(DIFFERENT["offsets"])
    assert found["unit"].values.tolist() == list(DIFFERENT["units"])
    one = found.sel(band="B03")
    assert (float(one["scale"]), float(one["offset"]), str(one["unit"].values)) == (0.5, 0.0, "K")
    assert not {"scales", "offsets", "band_units", "band_names"} & found.attrs.keys()
    np.testing.assert_allclose(found * found["scale"] + found["offset"], scaled(path), **FLOAT32)
    one.rio.to_raster(tmp_path / "one.tif")
    found.isel(band=[0, 2]).rio.to_raster(tmp_path / "two.tif")
    with rasterio.open(path) as file:
        np.testing.assert_array_equal(rasterio.open(tmp_path / "one.tif").read(1), file.read(2))
        np.testing.assert_array_equal(rasterio.open(tmp_path / "two.tif").read(), file.read([1, 3]))


def test_the_warning_is_given_once_and_not_to_readers_of_stored_numbers(tmp_path):
    path = image(tmp_path / "a.tif", DIFFERENT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xr.open_dataset(path, engine="jnrrdz", mask_and_scale=False)
        xr.open_dataset(path, engine="jnrrdz", physical=True)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for _ in range(3):
            xr.open_dataset(path, engine="jnrrdz")
            xr.open_datatree(path, engine="jnrrdz")
    assert [(one.category, one.filename) for one in given] == [(jnrrdz.ScaleWarning, __file__)]


@pytest.mark.filterwarnings("ignore::jnrrdz.ScaleWarning")
@pytest.mark.parametrize("facts", [AGREED, DIFFERENT], ids=["agreed", "different"])
def test_facts_of_bands_are_in_copies(tmp_path, facts):
    found = xr.open_dataset(image(tmp_path / "a.tif", facts), engine="jnrrdz")
    found.to_netcdf(tmp_path / "copy.nc")
    found.to_zarr(tmp_path / "copy.zarr")
    with xr.open_dataset(tmp_path / "copy.nc") as copy:
        xr.testing.assert_identical(copy.drop_attrs(), found.drop_attrs())
    with xr.open_dataset(tmp_path / "copy.zarr", engine="zarr") as copy:
        xr.testing.assert_identical(copy, found)
    with netCDF4.Dataset(tmp_path / "copy.nc") as copy:
        copy.set_auto_maskandscale(False)
        names = {"scale": "scales", "offset": "offsets", "unit": "units"} if facts is DIFFERENT else {}
        for name, stored in names.items():
            assert copy[name][:].tolist() == list(facts[stored])


@pytest.mark.filterwarnings("ignore::jnrrdz.ScaleWarning")
@pytest.mark.parametrize("facts", [AGREED, DIFFERENT], ids=["agreed", "different"])
@pytest.mark.parametrize("names", [NAMES, NAMES[:1]], ids=["three", "one"])
def test_a_manifest_of_earlier_versions_opens_as_one_of_today(tmp_path, facts, names):
    """Earlier versions wrote lists, also where all bands agree."""
    path = image(tmp_path / "a.tif", facts, names=names)
    jnrrdz.index(path, tmp_path / "new.json")
    manifest = json.loads((tmp_path / "new.json").read_text())
    document = json.loads(manifest["refs"]["data/zarr.json"])
    for name in ("scale_factor", "add_offset", "units"):
        document["attributes"].pop(name, None)
    own = {name: list(values[: len(names)]) for name, values in facts.items()}
    document["attributes"] |= {"scales": own["scales"], "offsets": own["offsets"], "band_units": own["units"]}
    manifest["refs"]["data/zarr.json"] = json.dumps(document)
    (tmp_path / "old.json").write_text(json.dumps(manifest))
    found = [xr.open_dataset(tmp_path / name) for name in ("old.json", "new.json")]
    xr.testing.assert_identical(*found)


@pytest.mark.filterwarnings("ignore::jnrrdz.ScaleWarning")
def test_a_cube_of_bands_that_differ(tmp_path):
    paths = []
    for number, name in enumerate(NAMES):
        own = {key: values[number:] for key, values in DIFFERENT.items()}
        # the last one has neither scale nor unit
        own = own if number < 2 else {}
        paths.append(image(tmp_path / f"s_20240101_{name}.tif", own, names=(name,), seed=number))
    jnrrdz.cube(paths, tmp_path / "cube.json", time_from=r"_(\d{8})_", band_from=r"_(B\d\d)")
    found = xr.open_dataset(tmp_path / "cube.json")["data"]
    values = (found * found["scale"] + found["offset"]).isel(time=0)
    for path, name in zip(paths, NAMES, strict=True):
        np.testing.assert_allclose(values.sel(band=name), scaled(path)[0], **FLOAT32)
        with rasterio.open(path) as file:
            assert str(values.sel(band=name)["unit"].values) == (file.units[0] or "")


def test_a_cube_of_bands_that_agree(tmp_path):
    names = [f"s_20240101_{name}.tif" for name in NAMES]
    paths = [image(tmp_path / name, AGREED, names=("x",), seed=number) for number, name in enumerate(names)]
    jnrrdz.cube(paths, tmp_path / "cube.json", time_from=r"_(\d{8})_", band_from=r"_(B\d\d)")
    found = xr.open_dataset(tmp_path / "cube.json")["data"]
    np.testing.assert_allclose(found[0], np.concatenate([scaled(path) for path in paths]), **FLOAT32)


@pytest.mark.filterwarnings("ignore::jnrrdz.ScaleWarning")
@pytest.mark.parametrize("second", [AGREED, DIFFERENT], ids=["agreed", "different"])
def test_bands_that_are_merged(tmp_path, second):
    paths = [image(tmp_path / "a.tif", AGREED, interleave="band"), image(tmp_path / "b.tif", second, interleave="band")]
    for path in paths:
        jnrrdz.index(path, path.with_suffix(".json"))
    jnrrdz.merge([path.with_suffix(".json") for path in paths], tmp_path / "all.json", concat_dim="band")
    found = xr.open_dataset(tmp_path / "all.json")["data"]
    values = found if second is AGREED else found * found["scale"] + found["offset"]
    np.testing.assert_allclose(values, np.concatenate([scaled(path) for path in paths]), **FLOAT32)


def test_a_merge_of_an_earlier_manifest_and_one_of_today(tmp_path):
    for name in ("20240101", "20240102"):
        image(tmp_path / f"{name}.tif", AGREED)
        jnrrdz.index(tmp_path / f"{name}.tif", tmp_path / f"{name}.json")
    text = (tmp_path / "20240101.json").read_text()
    manifest = json.loads(text)
    document = json.loads(manifest["refs"]["data/zarr.json"])
    own = document["attributes"]
    own["scales"], own["offsets"] = [own.pop("scale_factor")] * 3, [own.pop("add_offset")] * 3
    own["band_units"] = [own.pop("units")] * 3
    manifest["refs"]["data/zarr.json"] = json.dumps(document)
    (tmp_path / "20240101.json").write_text(json.dumps(manifest))
    refs = [tmp_path / f"{name}.json" for name in ("20240101", "20240102")]
    jnrrdz.merge(refs, tmp_path / "all.json", concat_dim="time", coord_from=r"(\d{8})")
    found = xr.open_dataset(tmp_path / "all.json")["data"]
    np.testing.assert_allclose(found[1], scaled(tmp_path / "20240102.tif"), **FLOAT32)


@pytest.mark.parametrize("tag", [None, 7])
def test_nodata_of_a_sidecar_that_differs_is_each_bands_own(tmp_path, tag):
    pixels = np.arange(48, dtype="u1").reshape(3, 4, 4)
    path = writers.geotiff(tmp_path / "a.tif", pixels, nodata=tag, **writers.PLACE)
    bands = ((1, 0), (2, 20))
    marks = (f'<PAMRasterBand band="{n}"><NoDataValue>{mark}</NoDataValue></PAMRasterBand>' for n, mark in bands)
    (tmp_path / "a.tif.aux.xml").write_text(f"<PAMDataset>{''.join(marks)}</PAMDataset>")
    with pytest.warns(jnrrdz.ScaleWarning, match="nodata"):
        found = xr.open_dataset(path, engine="jnrrdz", sidecars=True)["data"]
    with rasterio.open(path) as file:
        np.testing.assert_array_equal(found["nodata"], np.array(file.nodatavals, float))
        np.testing.assert_array_equal(found.where(found != found["nodata"]).isnull(), file.read_masks() == 0)
        np.testing.assert_array_equal(found, file.read())
    with pytest.raises(jnrrdz.UnrepresentableError, match="bands differ in nodata"):
        xr.open_dataset(path, engine="jnrrdz", sidecars=True, physical=True)


def test_info_shows_each_band_as_rasterio_has_it(tmp_path):
    for name, facts in {"a": AGREED, "b": DIFFERENT}.items():
        path = image(tmp_path / f"{name}.tif", facts)
        (shown,) = jnrrdz.info(path)["images"]
        for key, of in (("scale", "scales"), ("offset", "offsets"), ("unit", "units")):
            assert [band[key] for band in shown["bands"]] == list(facts[of])


def test_variables_that_are_dropped_name_no_bands(tmp_path):
    path = image(tmp_path / "a.tif", DIFFERENT)
    found = xr.open_dataset(path, engine="jnrrdz", drop_variables="data")
    assert not {"data", "scale", "band"} & found.variables.keys()
