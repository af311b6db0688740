"""Sides that a header of a hundred bytes claims cost nothing until somebody reads there."""

import json
import struct
import tracemalloc

import numpy as np
import pytest
import rioxarray  # noqa: F401  the accessor `rio`

import jnrrdz
from jnrrdz.errors import JnrrdzError
from tests import writers

SIDE = 1 << 30
GEO = (500000.0, 0.5, 0.0, 4000000.0, 0.0, -0.5)


def manifest(folder, *, shape=(SIDE, SIDE), chunks=(256, 256), mapping=None, **attributes):
    def array(shape, chunks, names, attributes):
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(shape),
            "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [{"name": "bytes"}],
            "fill_value": 5,
            "attributes": attributes,
            "dimension_names": names,
        }

    names = ["band", "y", "x"][-len(shape) :]
    mapping = {"GeoTransform": " ".join(map(str, GEO)), "crs_wkt": ""} if mapping is None else mapping
    refs = {
        "zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": {}},
        "data/zarr.json": array(shape, chunks, names, {"grid_mapping": "spatial_ref", **attributes}),
        "spatial_ref/zarr.json": array((), (), [], mapping),
    }
    path = folder / "refs.json"
    path.write_text(json.dumps({"version": 1, "refs": {key: json.dumps(document) for key, document in refs.items()}}))
    return path


def tiff(folder):
    """A BigTIFF of two rows whose only strip is absent, georeferenced by scale and tie point."""
    tags = [
        (256, 4, 1, SIDE),
        (257, 4, 1, 2),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 16, 1, 0),
        (277, 3, 1, 1),
        (278, 4, 1, 2),
        (279, 16, 1, 0),
        (33550, 12, 3, 0),
        (33922, 12, 6, 0),
        (34735, 3, 4, 1 | 1 << 16),
    ]
    beside = 16 + 8 + 20 * len(tags) + 8
    tags[9], tags[10] = (33550, 12, 3, beside), (33922, 12, 6, beside + 24)
    entries = b"".join(struct.pack("<HHQQ", *tag) for tag in tags)
    path = folder / "a.tif"
    numbers = struct.pack("<9d", GEO[1], -GEO[5], 0, 0, 0, 0, GEO[0], GEO[3], 0)
    path.write_bytes(struct.pack("<2sHHHQQ", b"II", 43, 8, 0, 16, len(tags)) + entries + bytes(8) + numbers)
    return path


def n5(folder):
    scale = {"axes": ["x", "y"], "resolution": [2.0, 3.0], "units": ["nm", "nm"]}
    document = writers.n5_document([SIDE, 2], [1 << 20, 2], **scale)
    writers.n5_attributes(folder / "a.n5" / "data", **document)
    return writers.n5_attributes(folder / "a.n5", n5="4.0.0")


def opened(source):
    """Open a dataset, and see that Python's memory does not grow with its sides."""
    tracemalloc.start()
    try:
        found = jnrrdz.open_dataset(source)
        assert tracemalloc.get_traced_memory()[1] < 256 << 20
    finally:
        tracemalloc.stop()
    return found


@pytest.mark.parametrize("made", [manifest, tiff, n5])
def test_opening_costs_nothing(tmp_path, made):
    found = opened(made(tmp_path))
    (pixels,) = (one for one in found.data_vars.values() if one.ndim)
    assert SIDE in pixels.shape
    assert found["x"].size == SIDE


@pytest.mark.filterwarnings("ignore:Use .@. matmul:PendingDeprecationWarning")  # rioxarray's
def test_coordinates_of_huge_sides_are_the_same_numbers(tmp_path):
    pixels = opened(manifest(tmp_path))["data"]
    places = [0, 1, 12345, SIDE - 1]
    np.testing.assert_allclose(pixels["x"][places].values, GEO[0] + GEO[1] * (np.array(places) + 0.5), rtol=1e-15)
    np.testing.assert_allclose(pixels["y"][places].values, GEO[3] + GEO[5] * (np.array(places) + 0.5), rtol=1e-15)
    assert pixels["x"].attrs["standard_name"] == "projection_x_coordinate"
    assert pixels.rio.bounds() == (GEO[0], GEO[3] - SIDE / 2, GEO[0] + SIDE / 2, GEO[3])
    assert tuple(pixels.rio.transform())[:6] == (0.5, 0.0, GEO[0], 0.0, -0.5, GEO[3])


def test_windows_of_huge_sides_are_read(tmp_path):
    pixels = opened(manifest(tmp_path))["data"]
    window = pixels.isel(x=slice(1000, 1004), y=slice(-3, None))
    assert window.values.tolist() == [[5] * 4] * 3
    assert window["x"].values.tolist() == [500500.25, 500500.75, 500501.25, 500501.75]
    assert pixels.sel(x=500100.3, y=3999000.1, method="nearest").values == 5
    assert pixels.sel(x=slice(500100, 500102), method="nearest").sizes["x"] == 4


def test_sides_of_pictures_are_sliced_by_label_as_before(tmp_path):
    pixels = opened(manifest(tmp_path, shape=(100, 200)))["data"]
    assert pixels.sel(x=slice(500010, 500011))["x"].values.tolist() == [500010.25, 500010.75]


def test_many_bands_have_no_names(tmp_path):
    found = opened(manifest(tmp_path, shape=(SIDE, 8, 8), chunks=(1, 8, 8)))
    assert "band" not in found.coords


@pytest.mark.parametrize(
    "facts",
    [
        {"shape": (1 << 61, 8), "chunks": (1 << 61, 8)},
        {"shape": (8, 8), "chunks": (1 << 40, 1 << 40)},
        {"shape": (1 << 61, 1 << 61)},
        {"shape": (1 << 70, 8)},
        {"mapping": {"GeoTransform": "five 0 0 0 0 1"}},
    ],
    ids=["a chunk of 2^64", "a chunk of 2^80", "2^106 chunks", "a side of 2^70", "no numbers"],
)
def test_what_cannot_be_is_refused(tmp_path, facts):
    with pytest.raises(JnrrdzError):
        jnrrdz.open_dataset(manifest(tmp_path, **facts))
