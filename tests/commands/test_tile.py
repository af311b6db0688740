"""What `jnrrdz.tile` writes, read by a few lines that know the specification only."""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import fsspec
import numpy as np
import pytest
import tifffile
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from rasterio.transform import from_origin

import jnrrdz
from jnrrdz.downsample import Downsampling
from jnrrdz.errors import JnrrdzError, UnrepresentableError, UnsupportedError
from tests import writers
from tests.commands.jnrrd_reader import header_of, means, read

TYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    found = rng.standard_normal(shape).astype(dtype)
    return found + 1j * rng.standard_normal(shape).astype(dtype) if dtype.kind == "c" else found


def npy(folder, array, name="a.npy"):
    np.save(folder / name, array)
    return folder / name


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def same(found, wanted):
    assert found.shape == wanted.shape
    assert found.dtype.newbyteorder("=") == wanted.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found, wanted)


# What is stored


@pytest.mark.parametrize("external", [False, True], ids=["internal", "external"])
@pytest.mark.parametrize("compression", ["raw", "gzip", "bzip2", "zstd", "lz4"])
def test_every_compression(tmp_path, compression, external):
    array = numbers((11, 14, 19), "u2") % 50
    src, out = npy(tmp_path, array), tmp_path / "o.jnrrd"
    jnrrdz.tile(src, out, tile=(8, 5, 4), compression=compression, levels=3, external=external)
    header, levels = read(out)
    assert (header["tile:compression"], header["tile:storage"]) == (
        compression,
        "external" if external else "internal",
    )
    for found, wanted in zip(levels, means(array, 3, (2, 2, 2)), strict=True):
        same(found, wanted)
    tree = jnrrdz.open_group(out)
    for number, level in enumerate(levels):
        same(tree[f"{number}/data"][...], level)


@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_in_both_byte_orders(tmp_path, dtype, endian):
    array = numbers((5, 9), dtype)
    src, out = npy(tmp_path, array), tmp_path / "o.jnrrd"
    jnrrdz.tile(src, out, tile=(4, 3), endian=endian, compression="raw")
    header, (level,) = read(out)
    assert (header["type"], header["endian"]) == (array.dtype.name, endian)
    same(level, array)
    same(jnrrdz.open_group(out)["data"][...], array)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_npy_in_any_order(tmp_path, order, layout):
    array = np.asarray(numbers((6, 7, 8), "i4").astype(f"{order}i4"), order=layout)
    out = tmp_path / "o.jnrrd"
    jnrrdz.tile(npy(tmp_path, array), out, tile=(3, 3, 3))
    same(read(out)[1][0], array)


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((17,), (5,)),
        ((9, 10), (4, 9)),
        ((5, 6, 7), (7, 2, 4)),
        ((2, 3, 4, 5), (2, 2, 2, 2)),
        ((2, 3, 2, 5, 4), (3, 5, 1, 2, 1)),
        ((1, 1), (1, 1)),
        ((3, 4), (100, 100)),
    ],
)
def test_one_to_five_dimensions(tmp_path, shape, tile):
    array = numbers(shape, "u1")
    out = tmp_path / "o.jnrrd"
    done = jnrrdz.tile(npy(tmp_path, array), out, tile=tile)
    assert done.sizes == shape[::-1]
    header, (level,) = read(out)
    assert header["tile:sizes"] == [min(t, n) for t, n in zip(tile, shape[::-1], strict=True)]
    same(level, array)
    same(jnrrdz.open_group(out)["data"][...], array)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_shape_and_tile(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("any")
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    tile = data.draw(st.tuples(*[st.integers(1, 10)] * len(shape)))
    factors = data.draw(st.tuples(*[st.integers(1, 3)] * len(shape)))
    array = numbers(shape, "i2")
    smaller = any(f > 1 and n > 1 for f, n in zip(factors, shape, strict=True))
    count = 2 if smaller else 1
    external = data.draw(st.booleans())
    out = folder / "o.jnrrd"
    jnrrdz.tile(npy(folder, array), out, tile=tile, levels=count, factors=factors[::-1], external=external)
    for found, wanted in zip(read(out)[1], means(array, count, factors), strict=True):
        same(found, wanted)


# Levels


@pytest.mark.parametrize("method", ["average", "gaussian", "lanczos", "max", "min", "mode"])
def test_a_level_is_what_a_virtual_level_of_the_one_before_is(tmp_path, method):
    array = numbers((23, 30), "u1")
    out = tmp_path / "o.jnrrd"
    jnrrdz.tile(npy(tmp_path, array), out, tile=(7, 5), levels=3, method=method, jobs=3)
    header, levels = read(out)
    assert header["tile:downsample_method"] == method
    for finer, level in pairwise(levels):
        how = Downsampling(method, (2, 2), finer.shape, finer.dtype)
        whole = tuple(slice(0, size) for size in level.shape)
        same(level, how.apply(finer[how.window(whole)], whole))


def test_max_is_the_maximum(tmp_path):
    array = numbers((8, 12), "i2")
    jnrrdz.tile(npy(tmp_path, array), tmp_path / "o.jnrrd", tile=(4, 4), levels=2, method="max")
    same(read(tmp_path / "o.jnrrd")[1][1], array.reshape(4, 2, 6, 2).max(axis=(1, 3)))


def test_factors_are_in_the_headers_order(tmp_path):
    array = numbers((6, 8, 20), "f4")
    jnrrdz.tile(npy(tmp_path, array), tmp_path / "o.jnrrd", tile=(4, 4, 4), levels=3, factors=(3, 2, 1))
    header, levels = read(tmp_path / "o.jnrrd")
    assert header["tile:level_scales"] == [1, [3, 2, 1], [9, 4, 1]]
    assert [level.shape for level in levels] == [(6, 8, 20), (6, 4, 6), (6, 2, 2)]


def test_what_is_missing_is_left_out_of_levels(tmp_path):
    array = np.array([[0, 10, 0, 0], [0, 20, 0, 0]], "u1")
    tifffile.imwrite(tmp_path / "a.tif", array, extratags=[(42113, "s", 0, "0", True)])  # GDAL's tag of nodata
    jnrrdz.tile(tmp_path / "a.tif", tmp_path / "o.jnrrd", tile=(4, 4), levels=2)
    same(read(tmp_path / "o.jnrrd")[1][1], np.array([[15, 0]], "u1"))


def test_tiles_are_filled_up_with_the_fill_value(tmp_path):
    array = np.array([[7, 1, 2]], "u1")
    tifffile.imwrite(tmp_path / "a.tif", array, extratags=[(42113, "s", 0, "7", True)])
    jnrrdz.tile(tmp_path / "a.tif", tmp_path / "o.jnrrd", tile=(2, 1))
    header, (level,) = read(tmp_path / "o.jnrrd")
    assert header["tile:padding_value"] == 7
    same(level, array)
    assert jnrrdz.open_group(tmp_path / "o.jnrrd")["data"].fill_value == 7


def test_nan_pads_with_what_json_can_say(tmp_path):
    array = np.full((3, 3), np.nan, "f4")
    array[0, 0] = 2
    jnrrdz.tile(npy(tmp_path, array), tmp_path / "o.jnrrd", tile=(2, 2), levels=2)
    header, levels = read(tmp_path / "o.jnrrd")
    same(levels[0], array)
    same(levels[1], np.array([[2]], "f4"))
    assert all("min" not in entry for entry in header["tile:metadata"][:4])


# A real image: cloud-optimised GeoTIFF to tiled JNRRD to xarray


@pytest.fixture
def cog(tmp_path):
    array = numbers((3, 300, 410), "u2")
    place = {"crs": "EPSG:32633", "transform": from_origin(3e5, 5e6, 10, 20)}
    return writers.cog(tmp_path / "scene.tif", array, place), array


@pytest.mark.parametrize("external", [False, True], ids=["internal", "external"])
@pytest.mark.parametrize("through", ["source", "manifest"])
def test_cog_to_jnrrd_to_xarray(tmp_path, cog, through, external):
    path, array = cog
    src = path
    if through == "manifest":
        src = tmp_path / "scene.json"
        jnrrdz.index(path, src)
    out = tmp_path / "scene.jnrrd"
    jnrrdz.tile(src, out, tile=(100, 64, 1), levels=3, external=external)
    header, levels = read(out)
    assert header["labels"] == ["x", "y", "band"]
    assert header["tile:level_scales"] == [1, [2, 2, 1], [4, 4, 1]]
    wanted = means(array, 3, (1, 2, 2))
    jnrrdz.index(out, tmp_path / "tiled.json")
    tree = xr.open_datatree(tmp_path / "tiled.json")
    for number, level in enumerate(wanted):
        same(levels[number], level)
        same(tree[f"{number}/data"].values, level)
        assert tree[f"{number}/data"].dims == ("band", "y", "x")
    first = xr.open_dataset(tmp_path / "tiled.json")
    before = jnrrdz.open_dataset(path)
    for axis in ("x", "y"):
        np.testing.assert_allclose(first[axis], before[axis])


def test_the_affine_is_the_space_of_the_header(tmp_path, cog):
    jnrrdz.tile(cog[0], tmp_path / "o.jnrrd", tile=(100, 64, 1))
    header, _ = header_of(tmp_path / "o.jnrrd")
    assert header["space_directions"] == [[10, 0], [0, -20], None]
    assert header["space_origin"] == [300005, 4999990]
    assert header["kinds"] == ["space", "space", "list"]
    assert "32633" in header["attributes"]["spatial_ref"]["crs_wkt"]


def test_a_jnrrd_of_a_jnrrd_keeps_steps_units_and_names(tmp_path):
    array = numbers((4, 6, 5), "u1")
    lines = [
        {"jnrrd": "0004"}, {"type": "uint8"}, {"dimension": 3}, {"sizes": [5, 6, 4]}, {"labels": ["x", "y", "t"]},
        {"kinds": ["space", "space", "time"]}, {"space_directions": [[0.5, 0], [0, 2], None]},
        {"space_origin": [1, -3]}, {"space_units": ["mm", "mm"]},
    ]  # fmt: skip
    (tmp_path / "a.jnrrd").write_bytes(
        b"".join(json.dumps(line).encode() + b"\n" for line in lines) + b"\n" + array.tobytes()
    )
    jnrrdz.tile(tmp_path / "a.jnrrd", tmp_path / "o.jnrrd", tile=(4, 4, 2), levels=2)
    header, levels = read(tmp_path / "o.jnrrd")
    same(levels[0], array)
    assert header["space_directions"] == [[0.5, 0], [0, 2], None]
    assert (header["space_origin"], header["space_units"]) == ([1, -3], ["mm", "mm"])
    assert header["tile:level_scales"] == [1, [2, 2, 1]]


@pytest.mark.parametrize(
    ("labels", "pattern"),
    [
        (["x", "y", "z"], "o.tiles/{l}/{z}_{y}_{x}.raw"),
        (["x", "y", "band"], "o.tiles/{l}/{z}_{y}_{x}.raw"),
        (["c", "x", "y"], "o.tiles/{l}/{d2}_{d1}_{d0}.raw"),
        (["x", "y", "z", "t"], "o.tiles/{l}/{d3}_{d2}_{d1}_{d0}.raw"),
    ],
)
def test_tiles_are_named_by_dimensions(tmp_path, labels, pattern):
    shape = (2, 3, 5, 4)[-len(labels) :]
    array = numbers(shape, "u1")
    lines = [
        {"jnrrd": "0004"},
        {"type": "uint8"},
        {"dimension": len(shape)},
        {"sizes": shape[::-1]},
        {"labels": labels},
    ]
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    (tmp_path / "a.jnrrd").write_bytes(text + b"\n" + array.tobytes())
    out = tmp_path / "o.jnrrd"
    jnrrdz.tile(tmp_path / "a.jnrrd", out, tile=(2,) * len(shape), levels=2, compression="raw", external=True)
    header, levels = read(out)
    assert (header["labels"], header["tile:pattern"]) == (labels, pattern)
    same(levels[0], array)
    for number, level in enumerate(levels):
        same(jnrrdz.open_group(out)[f"{number}/data"][...], level)


def test_braces_in_a_name_are_refused_for_tiles_outside(tmp_path):
    src = npy(tmp_path, numbers((3, 3), "u1"))
    with pytest.raises(UnrepresentableError, match="braces"):
        jnrrdz.tile(src, tmp_path / "{x}.jnrrd", tile=(2, 2), external=True)


def test_a_group_is_named(tmp_path, cog):
    path, _ = cog
    group = next(name for name, _ in jnrrdz.open_group(path).groups() if name != "0")
    wanted = jnrrdz.open_group(path)[f"{group}/data"][...]
    jnrrdz.tile(path, tmp_path / "o.jnrrd", tile=(64, 64, 1), group=group)
    same(read(tmp_path / "o.jnrrd")[1][0], wanted)
    jnrrdz.tile(path, tmp_path / "p.jnrrd", tile=(64, 64, 1), group=f"{group}/data")
    same(read(tmp_path / "p.jnrrd")[1][0], wanted)
    with pytest.raises(JnrrdzError, match="nine: no such group"):
        jnrrdz.tile(path, tmp_path / "q.jnrrd", tile=(64, 64, 1), group="nine")


@pytest.mark.parametrize("rows", [1, 7, 300])
def test_strips_are_read_in_bands(tmp_path, rows):
    array = numbers((40, 33), "u2")
    tifffile.imwrite(tmp_path / "a.tif", array, rowsperstrip=rows)
    jnrrdz.tile(tmp_path / "a.tif", tmp_path / "o.jnrrd", tile=(16, 12))
    same(read(tmp_path / "o.jnrrd")[1][0], array)


# What is refused


@pytest.mark.parametrize(
    ("array", "options", "kind", "words"),
    [
        (np.zeros((4, 4), bool), {}, UnrepresentableError, "bool"),
        (np.zeros((4, 4), "M8[s]"), {}, UnrepresentableError, "datetime64"),
        (np.zeros((4, 4), "U3"), {}, UnrepresentableError, "str"),
        (np.zeros((4, 4), np.longdouble), {}, UnrepresentableError, "longdouble|float"),
        (np.zeros((0, 4), "u1"), {}, UnrepresentableError, "none of them empty"),
        (np.zeros((), "u1"), {}, UnrepresentableError, "1 to 16 axes"),
        (np.zeros((4, 4), "u1"), {"tile": (2, 2, 2)}, UnsupportedError, r"3 numbers for 2 axes \(x,y\)"),
        (np.zeros((4, 4), "u1"), {"tile": (2, 0)}, UnsupportedError, "from 1 on"),
        (np.zeros((4, 4), "u1"), {"levels": 4}, UnsupportedError, "ask for 3"),
        (np.zeros((4, 4), "u1"), {"levels": 2, "method": "median"}, UnsupportedError, "median"),
        (np.zeros((4, 4), "c8"), {"levels": 2, "method": "max"}, UnsupportedError, "max"),
        (np.zeros((4, 4), "u1"), {"compression": "xz"}, UnsupportedError, "xz"),
        (np.zeros((4, 4), "u1"), {"endian": "middle"}, UnsupportedError, "middle"),
        (np.zeros((4, 4), "u1"), {"group": "0"}, UnsupportedError, "no groups"),
        (np.zeros((4, 4), "u1"), {"jobs": 0}, UnsupportedError, "one is the least"),
    ],
)
def test_refused_by_name(tmp_path, array, options, kind, words):
    src = npy(tmp_path, array)
    with pytest.raises(kind, match=words):
        jnrrdz.tile(src, tmp_path / "o.jnrrd", **{"tile": (2, 2), **options})
    assert names(tmp_path) == ["a.npy"]


def test_pickles_are_not_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}, 1], object), allow_pickle=True)
    with pytest.raises(JnrrdzError, match=r"not a \.npy"):
        jnrrdz.tile(tmp_path / "a.npy", tmp_path / "o.jnrrd", tile=(2,))


@pytest.mark.parametrize("external", [False, True])
def test_nothing_is_replaced_unasked(tmp_path, external):
    src, out = npy(tmp_path, numbers((6, 6), "u1")), tmp_path / "o.jnrrd"
    jnrrdz.tile(src, out, tile=(3, 3), external=external)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(JnrrdzError, match="overwrite"):
        jnrrdz.tile(src, out, tile=(2, 2), external=external)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    jnrrdz.tile(src, out, tile=(2, 2), external=external, compression="raw", overwrite=True)
    assert read(out)[0]["tile:sizes"] == [2, 2]
    if external:  # in a folder of their own, until the header names it
        earlier = {"o.tiles"}
        for count in (9, 4):
            folder = read(out)[0]["tile:pattern"].partition("/")[0]
            assert re.fullmatch(r"o\.[0-9a-f]{8}\.tiles", folder)
            assert folder not in earlier
            assert (len(names(tmp_path / folder / "0")), names(tmp_path)) == (
                count,
                sorted(["a.npy", folder, "o.jnrrd"]),
            )
            earlier.add(folder)
            jnrrdz.tile(src, out, tile=(3, 3), external=True, overwrite=True)


def test_a_folder_of_others_is_not_replaced(tmp_path):
    src = npy(tmp_path, numbers((6, 6), "u1"))
    (tmp_path / "o.tiles").mkdir()
    (tmp_path / "o.tiles" / "mine").write_text("kept")
    with pytest.raises(JnrrdzError, match="not replaced"):
        jnrrdz.tile(src, tmp_path / "o.jnrrd", tile=(3, 3), external=True, overwrite=True)
    assert (tmp_path / "o.tiles" / "mine").read_text() == "kept"


def test_a_source_is_not_replaced(tmp_path):
    src, out = npy(tmp_path, numbers((6, 6), "u1")), tmp_path / "o.jnrrd"
    jnrrdz.tile(src, out, tile=(3, 3))
    jnrrdz.index(out, tmp_path / "o.json")
    for again in (out, tmp_path / "o.json"):
        with pytest.raises(UnrepresentableError, match="read itself"):
            jnrrdz.tile(again, out, tile=(3, 3), overwrite=True)


# A run that ends early, and what a run takes


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, JnrrdzError("full")])
@pytest.mark.parametrize("after", [1, 10, 12])
def test_a_run_that_ends_early_leaves_nothing(tmp_path, external, error, after):
    src = npy(tmp_path, numbers((12, 12), "u1"))

    def stop(done, total):
        assert total == 13
        if done == after:
            raise error

    with pytest.raises((KeyboardInterrupt, JnrrdzError)):
        jnrrdz.tile(src, tmp_path / "o.jnrrd", tile=(4, 4), levels=2, external=external, progress=stop)
    assert names(tmp_path) == ["a.npy"]


def test_tiles_go_where_their_header_cannot_follow(tmp_path, monkeypatch):
    src = npy(tmp_path, numbers((6, 6), "u1"))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(JnrrdzError, match="No space left"):
        jnrrdz.tile(src, tmp_path / "o.jnrrd", tile=(3, 3), external=True)
    assert names(tmp_path) == ["a.npy"]


@pytest.mark.parametrize("external", [False, True])
def test_an_output_elsewhere(tmp_path, external):
    array = numbers((6, 7), "u2")
    src, memory = npy(tmp_path, array), fsspec.filesystem("memory")
    place = f"/tiling-{external}"
    for overwrite in (False, True):
        jnrrdz.tile(src, f"memory:/{place}/o.jnrrd", tile=(3, 3), external=external, overwrite=overwrite)
    assert (jnrrdz.open_group(f"memory:/{place}/o.jnrrd")["data"][...] == array).all()
    memory.rm(place, recursive=True)

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jnrrdz.tile(src, f"memory:/{place}/o.jnrrd", tile=(3, 3), external=external, progress=stop)
    assert not memory.exists(place)


def test_damaged_source_leaves_nothing(tmp_path, cog):
    path, _ = cog
    with tifffile.TiffFile(path) as tiff:
        offset = tiff.pages.first.dataoffsets[-1]
    broken = bytearray(path.read_bytes())
    broken[offset : offset + 64] = bytes(64)
    path.write_bytes(broken)
    with pytest.raises(JnrrdzError):
        jnrrdz.tile(path, tmp_path / "o.jnrrd", tile=(64, 64, 3))
    assert names(tmp_path) == ["scene.tif"]


PEAK = """
import sys
import jnrrdz
def peak():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
jnrrdz.tile(sys.argv[1], sys.argv[2], tile=(8, 8, 8), levels=2)
before = peak()
jnrrdz.tile(sys.argv[3], sys.argv[4], tile=(128, 128, 16), levels=4)
print((peak() - before) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is told by /proc")
def test_memory_stays_at_a_few_tiles(tmp_path):
    small = npy(tmp_path, numbers((16, 16, 16), "u1"), "small.npy")
    large = np.lib.format.open_memmap(tmp_path / "large.npy", "w+", "u1", (96, 1024, 1024))
    large[...] = numbers((1024, 1024), "u1")
    del large
    arguments = [small, tmp_path / "s.jnrrd", tmp_path / "large.npy", tmp_path / "l.jnrrd"]
    ran = subprocess.run([sys.executable, "-c", PEAK, *arguments], check=True, capture_output=True, text=True)
    # 96 MiB of voxels; a band of 2 MiB, and tiles of 256 KiB
    assert int(ran.stdout) < 40, ran.stdout
    assert Path(tmp_path / "l.jnrrd").stat().st_size > 1 << 20
