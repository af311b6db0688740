"""Palettes: indices with their colours, and colours in place of indices, against rasterio."""

import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jnrrdz
from jnrrdz.errors import UnsupportedError
from tests import writers

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

RNG = np.random.default_rng(10)


def write_palette(path, values, *, bits=8, shape=(20, 30), data=None, **options):
    """Write indices with a ColorMap of these 16-bit values, and return the indices."""
    colormap = np.zeros((3, 1 << bits), "u2")
    colormap[:, : len(values)] = np.transpose(values)
    dtype = "u1" if bits <= 8 else "u2"
    if data is None:
        data = RNG.integers(0, 1 << bits, shape).astype(dtype)
    # tifffile writes palettes of 8 and 16 bits only
    extra = [(320, 3, colormap.size, colormap.ravel(), True)]
    tifffile.imwrite(path, data, photometric="minisblack", bitspersample=bits, extratags=extra, **options)
    writers.change_tags(path, PhotometricInterpretation=3)
    return data


def rasterio_colors(path):
    with rasterio.open(path) as source:
        return [list(color) for _, color in sorted(source.colormap(1).items())]


def variable(path, **choices):
    return jnrrdz.scan(str(path), **choices).children["data"]


SCALES = [
    [(i, 255 - i, i // 2) for i in range(256)],  # 8 bits as they are
    [(i * 256, 0, (255 - i) * 256) for i in range(256)],
    [(i * 257, 65535 - i * 257, 0) for i in range(256)],
    [(min(i * 256 + 100, 65535), i, 0) for i in range(256)],  # neither
    [(0, 0, 0), (255, 256, 0)],
]


@pytest.mark.parametrize("values", SCALES)
def test_which_8_bits_are_meant(tmp_path, values):
    write_palette(tmp_path / "a.tif", values)
    assert variable(tmp_path / "a.tif").attributes["color_table"] == rasterio_colors(tmp_path / "a.tif")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(*[st.integers(0, 65535)] * 3), min_size=16, max_size=16))
def test_any_palette_has_rasterios_colours(tmp_path, values):
    write_palette(tmp_path / "a.tif", values, bits=4, data=np.zeros((4, 4), "u1"))
    assert variable(tmp_path / "a.tif").attributes["color_table"] == rasterio_colors(tmp_path / "a.tif")


def test_indices_stay_and_their_colours_are_flags_too(tmp_path):
    data = write_palette(tmp_path / "a.tif", [(0, 0, 0), (255, 16, 1)], bits=4)
    found = xr.open_dataset(tmp_path / "a.tif", engine="jnrrdz")["data"]
    np.testing.assert_array_equal(found, data)
    assert found.attrs["colorinterp"] == "palette"
    assert found.attrs["flag_values"] == list(range(16))
    assert found.attrs["flag_colors"].split()[:2] == ["#000000", "#ff1001"]


def test_nodata_is_transparent_as_in_rasterio(tmp_path):
    path = tmp_path / "a.tif"
    writers.geotiff(path, np.zeros((8, 8), "u1"), nodata=1, palette={0: (1, 2, 3), 1: (4, 5, 6)})
    table = variable(path).attributes["color_table"]
    assert table[:2] == [[1, 2, 3, 255], [4, 5, 6, 0]]
    assert table == rasterio_colors(path)


BILEVEL = [("MINISBLACK", 1), ("MINISWHITE", 1), ("MINISWHITE", 2), ("MINISWHITE", 4), ("MINISWHITE", 8)]


@pytest.mark.parametrize(("photometric", "bits"), BILEVEL)
def test_greys_that_a_value_does_not_show(tmp_path, photometric, bits):
    path = tmp_path / "a.tif"
    writers.geotiff(path, np.zeros((8, 8), "u1"), nbits=bits, photometric=photometric)
    found = variable(path).attributes
    assert found["color_table"] == rasterio_colors(path)
    with rasterio.open(path) as source:
        assert found["colorinterp"] == [color.name for color in source.colorinterp]
    if bits == 1:
        names = ["black", "white"] if photometric == "MINISBLACK" else ["white", "black"]
        assert found["flag_meanings"].split() == names


LAYOUTS = [
    {},
    {"bits": 4},
    {"bits": 2, "shape": (5, 7)},
    {"bits": 1, "shape": (5, 17)},
    {"tile": (16, 16)},
    {"rowsperstrip": 3},
    {"compression": "deflate", "tile": (16, 16), "predictor": True},
    {"compression": "lzw", "rowsperstrip": 7},
    {"byteorder": ">"},
    {"bits": 16, "shape": (40, 30)},
]


@pytest.mark.parametrize("options", LAYOUTS, ids=str)
def test_expanded_equals_rasterios_colours(tmp_path, options):
    path, bits = tmp_path / "a.tif", options.get("bits", 8)
    data = write_palette(path, RNG.integers(0, 65536, (1 << bits, 3)).astype("u2"), **options)
    if bits <= 8:
        with rasterio.open(path) as source:
            table = np.array([list(color)[:3] for _, color in sorted(source.colormap(1).items())], "u1")
            expected = np.moveaxis(table[source.read(1)], -1, 0)
    else:  # no reader at hand has palettes of 16 bits
        with tifffile.TiffFile(path) as tif:
            expected = (tif.pages[0].colormap // 257).astype("u1")[:, data]
    found = xr.open_dataset(jnrrdz.scan(str(path), expand_palette=True), engine="jnrrdz")["data"]
    assert (found.dims, found.dtype, found["colorinterp"].values.tolist()) == (
        ("band", "y", "x"),
        np.dtype("u1"),
        ["red", "green", "blue"],
    )
    np.testing.assert_array_equal(found, expected)
    assert "color_table" not in found.attrs


def test_expanding_leaves_other_images_alone(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((8, 8), "u1"))
    assert variable(tmp_path / "a.tif", expand_palette=True).shape == (8, 8)


def sparse(path, colors):
    """Write a tiled palette image whose second tile is not there."""
    profile = {"width": 32, "height": 16, "count": 1, "dtype": "uint8", "nodata": 1, "sparse_ok": True}
    with rasterio.open(path, "w", driver="GTiff", tiled=True, blockxsize=16, blockysize=16, **profile) as target:
        target.write_colormap(1, colors)
        target.write(np.zeros((1, 16, 16), "u1"), window=rasterio.windows.Window(0, 0, 16, 16))


def test_a_missing_tile_of_one_grey_reads_as_it(tmp_path):
    sparse(tmp_path / "a.tif", {0: (1, 2, 3), 1: (9, 9, 9)})
    found = jnrrdz.scan(str(tmp_path / "a.tif"), expand_palette=True)
    pixels = xr.open_dataset(found, engine="jnrrdz")["data"]
    assert pixels[:, 0, 0].values.tolist() == [1, 2, 3]
    assert pixels[:, 0, 20].values.tolist() == [9, 9, 9]
    assert pixels.attrs["nodata"] == "1"


def test_a_missing_tile_of_another_colour_is_refused(tmp_path):
    sparse(tmp_path / "a.tif", {0: (1, 2, 3), 1: (7, 8, 9)})
    with pytest.raises(UnsupportedError, match=r"\(7, 8, 9\).*read the indices") as caught:
        jnrrdz.scan(str(tmp_path / "a.tif"), expand_palette=True)
    assert caught.value.field == "ColorMap"


def test_a_short_palette_never_costs_the_indices(tmp_path):
    data = write_palette(tmp_path / "a.tif", [(0, 0, 0)], data=np.full((4, 4), 3, "u1"))
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+b") as tif:
        entry = tif.pages[0].tags["ColorMap"].offset
    whole = bytearray((tmp_path / "a.tif").read_bytes())
    whole[entry + 4 : entry + 8] = (30).to_bytes(4, "little")
    (tmp_path / "a.tif").write_bytes(whole)
    with pytest.warns(UserWarning, match="ColorMap: 30 values where 768 belong"):
        group = jnrrdz.scan(str(tmp_path / "a.tif"), expand_palette=True)
    assert "ColorMap" in group.attributes["metadata_refused"][0]
    np.testing.assert_array_equal(xr.open_dataset(group, engine="jnrrdz")["data"], data)
