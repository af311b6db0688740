"""Windows of a JPEG 2000 image in an image segment, against GDAL's reading of it whole."""

import numpy as np
import pytest
import rasterio

from jnrrdz.formats.jpeg2000 import windows
from tests.jpeg2000.images import LOSSLESS, encoded, image

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


@pytest.mark.parametrize("codec", ["J2K", "JP2"])
def test_windows_of_an_image_segment(make_nitf, open_nitf, tmp_path, monkeypatch, codec):
    monkeypatch.setattr(windows, "SIDE", 32)
    pixels = image((3, 150, 190), "uint8")
    data = encoded(tmp_path, pixels, **LOSSLESS, PRECINCTS="{32,32}", PLT="YES", CODEC=codec)
    header = {"NROWS": 150, "NCOLS": 190, "NPPBV": 150, "NPPBH": 190, "COMRAT": "00.0", "NBPC": 1, "NBPR": 1}
    path = make_nitf((data, header | {"IC": "C8", "NBANDS": 3, "IREP": "RGB"}))
    array = open_nitf(path, precinct_windows="always")["image_0/0/data"]
    assert [one.to_dict()["name"] for one in array.metadata.codecs] == ["jnrrdz.jpeg2000-window"]
    assert array.chunks == (3, 64, 64)
    with rasterio.open(path) as gdal:
        np.testing.assert_array_equal(array[...], gdal.read())
    np.testing.assert_array_equal(array[:, 70:100, 10:160], pixels[:, 70:100, 10:160])
