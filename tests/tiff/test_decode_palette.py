"""Indices to colours: what the decoder refuses, and what it gives for bytes written by hand."""

import numpy as np
import pytest

from jnrrdz.errors import MalformedError
from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.formats.tiff.decode import PaletteDecoder


def config(palette, **more):
    size = {"tile_width": 3, "tile_height": 2, "image_width": 3, "image_height": 2}
    return TiffTileConfig(**{**size, "photometric": 3, "bits_per_sample": (8,), "palette": palette, **more})


def test_each_index_becomes_its_colour():
    decoder = PaletteDecoder(config(bytes(range(9))), (3, 2, 3), np.dtype("u1"))
    found = decoder.decode(bytes([0, 1, 2, 2, 1, 0]))
    assert found.tolist() == [[[0, 3, 6], [6, 3, 0]], [[1, 4, 7], [7, 4, 1]], [[2, 5, 8], [8, 5, 2]]]


def test_an_index_beyond_the_palette():
    decoder = PaletteDecoder(config(bytes(9)), (3, 2, 3), np.dtype("u1"))
    with pytest.raises(MalformedError, match="index 7 into a palette of 3 colours"):
        decoder.decode(bytes([0, 1, 2, 2, 1, 7]))


REFUSED = [
    (b"", (3, 2, 3), "u1", {}),
    (bytes(8), (3, 2, 3), "u1", {}),
    (bytes(9), (2, 3), "u1", {}),
    (bytes(9), (1, 2, 3), "u1", {}),
    (bytes(9), (3, 2, 3), "u2", {}),
    (bytes(9), (3, 2, 3), "u1", {"samples_per_pixel": 3}),
]


@pytest.mark.parametrize(("palette", "shape", "dtype", "more"), REFUSED)
def test_configurations_that_contradict_the_array(palette, shape, dtype, more):
    with pytest.raises(MalformedError, match="palette") as caught:
        PaletteDecoder(config(palette, **more), shape, np.dtype(dtype))
    assert caught.value.field == "tiff-tile"


def test_palette_survives_zarr_json():
    whole = config(bytes(range(9)))
    assert TiffTileConfig.from_json(whole.configuration) == whole
    with pytest.raises(MalformedError, match="palette: not base64"):
        TiffTileConfig.from_json({**whole.configuration, "palette": "?"})
