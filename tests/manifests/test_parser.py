"""The VirtualiZarr parser: virtual datasets whose values are those that GDAL reads, also after Icechunk."""

import icechunk
import numpy as np
import pytest
import virtualizarr
import xarray as xr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from rasterio.transform import from_origin

import jnrrdz
from tests import writers
from tests.readers import by_gdal


@pytest.fixture
def pyramid(tmp_path):
    """Three bands of 300 x 400 with overviews."""
    data = np.arange(3 * 300 * 400).reshape(3, 300, 400).astype("int32")
    tiles = {**writers.TILES, "compress": "zstd", "predictor": 2, "interleave": "band"}
    place = {"crs": "EPSG:4326", "transform": from_origin(10, 50, 0.01, 0.01)}
    return writers.geotiff(tmp_path / "a.tif", data, overviews=[2], **tiles, **place)


@pytest.fixture
def registry():
    return ObjectStoreRegistry({"file://": LocalStore()})


def test_the_manifest_store_reads_what_gdal_reads(pyramid, registry):
    for group, number in ((None, 0), ("0", 0), ("1", 1)):
        store = jnrrdz.Parser(group=group)(f"file://{pyramid}", registry)
        found = xr.open_zarr(store, consolidated=False, zarr_format=3)
        np.testing.assert_array_equal(found["data"], by_gdal(pyramid, number))


def test_a_virtual_dataset_goes_to_icechunk_and_back(pyramid, registry, tmp_path):
    virtual = virtualizarr.open_virtual_dataset(f"file://{pyramid}", registry=registry, parser=jnrrdz.Parser())
    assert virtual["data"].shape == (3, 300, 400)
    assert type(virtual["data"].data).__name__ == "ManifestArray"
    prefix = f"file://{tmp_path}/"
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(prefix)))
    allowed = {prefix: icechunk.credentials.LocalFileSystemAccess}
    repository = icechunk.Repository.create(
        icechunk.in_memory_storage(), config=config, authorize_virtual_chunk_access=allowed
    )
    session = repository.writable_session("main")
    virtual.vz.to_icechunk(session.store)
    session.commit("references")
    found = xr.open_zarr(repository.readonly_session("main").store, consolidated=False, zarr_format=3)
    np.testing.assert_array_equal(found["data"], by_gdal(pyramid))


def test_virtual_datasets_concatenate(pyramid, registry):
    virtual = [
        virtualizarr.open_virtual_dataset(f"file://{pyramid}", registry=registry, parser=jnrrdz.Parser())
        for _ in range(2)
    ]
    together = xr.concat([one[["data"]] for one in virtual], dim="time", coords="minimal", compat="override")
    assert together["data"].shape == (2, 3, 300, 400)


def test_a_group_that_is_not_there(pyramid, registry):
    with pytest.raises(jnrrdz.JnrrdzError, match="no such group"):
        jnrrdz.Parser(group="5")(f"file://{pyramid}", registry)
