"""rio-tiler's own Zarr reader on a pyramid of references, against its reader of the COG itself."""

import numpy as np
import pytest
import rasterio
import rasterio.shutil
from rio_tiler.errors import RioTilerExperimentalWarning
from rio_tiler.io import Reader

import jnrrdz
from tests import writers

with pytest.warns(RioTilerExperimentalWarning):  # it warns of itself where it is imported
    from rio_tiler.experimental.zarr import GroupReader

pytestmark = pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")  # affine, used by rio-tiler

SIDE = 1024
BOX = (301000, 4992000, 304000, 4996000)
IN_METRES = {"bounds_crs": "EPSG:32633", "dst_crs": "EPSG:32633"}


@pytest.fixture(scope="module")
def cog(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cog")
    pixels = (np.add.outer(np.arange(SIDE) * 20, np.arange(SIDE) * 11) % 60000).astype("uint16")
    place = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 300000, 0, -10, 5000000)}
    return writers.cog(folder / "cog.tif", pixels, place)


def test_a_pyramid_is_where_its_cog_is_and_has_its_pixels(cog, tmp_path):
    jnrrdz.index(cog, tmp_path / "refs.json")
    group = jnrrdz.open_group(tmp_path / "refs.json")
    with GroupReader(input=group) as ours, Reader(str(cog)) as theirs:
        assert (ours.crs, ours.bounds) == (theirs.crs, theirs.bounds)
        assert (ours.minzoom, ours.maxzoom) == (theirs.minzoom, theirs.maxzoom)
        full, reference = ours.part(BOX, variables=["data"], **IN_METRES), theirs.part(BOX, **IN_METRES)
        assert np.array_equal(full.array, reference.array)
        small, reference = ours.preview(variables=["data"], max_size=256), theirs.preview(max_size=256)
        assert np.array_equal(small.array, reference.array)
