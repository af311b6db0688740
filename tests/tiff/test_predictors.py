"""Predictors of samples that libtiff refuses them for are refused at index, by name."""

import numpy as np
import pytest
import rasterio
import tifffile

import jnrrdz
from jnrrdz.errors import UnsupportedError
from tests.writers import change_tags


def with_tags(path, pixels, **numbers):
    """Write one strip with tifffile, its tags changed to these numbers."""
    tifffile.imwrite(path, pixels, compression="zlib", predictor=2, metadata=None, rowsperstrip=16)
    return change_tags(path, **numbers)


REFUSED = {
    **{f"{bits} bits": ({"BitsPerSample": bits}, f"of {bits}-bit samples") for bits in (1, 2, 4, 6, 10, 12, 14, 24)},
    "unsigned": ({"Predictor": 3}, "floating-point predictor of .* UINT"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_what_libtiff_refuses(tmp_path, case):
    numbers, reason = REFUSED[case]
    pixels = np.arange(16 * 16, dtype="u2").reshape(16, 16)
    path = with_tags(tmp_path / "a.tif", pixels, **numbers)
    with pytest.raises(UnsupportedError, match=f"Predictor: .*{reason}"):
        jnrrdz.scan(path)
    with pytest.raises(rasterio.errors.RasterioIOError), rasterio.open(path) as image:
        image.read()
