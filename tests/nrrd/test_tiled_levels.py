"""Levels of a tiled JNRRD: stored ones exact, virtual ones listed and computed."""

import hashlib
import itertools

import numpy as np
import pytest

from jnrrdz.api import open_datatree, open_group, scan
from jnrrdz.errors import JnrrdzError
from tests.nrrd.tiled_files import core, keys, lines, stored, tiles_of, volume, write

TILE = (4, 3)


def reduced(sizes, scale, *, up=False):
    """Return a level's sizes."""
    return tuple(-(-n // s) if up else max(1, n // s) for n, s in zip(sizes, scale, strict=True))


def pyramid(path, scales, *, sizes=(19, 13), up=False, stored_levels=None, **fields):
    """Write levels, each with values of its own, and return them by number."""
    tiles = fields.get("level_tile_sizes")
    full = [[scale] * len(sizes) if isinstance(scale, int) else scale for scale in scales]
    numbers = range(len(scales)) if stored_levels is None else stored_levels
    arrays = {number: volume(reduced(sizes, full[number], up=up), seed=number) for number in numbers}
    blobs = []
    for number, array in arrays.items():
        own = tiles[number] if tiles else TILE[: len(sizes)]
        blobs += [stored(part) for _, part in tiles_of(array, own)]
    header = core(volume(sizes)) | keys(TILE[: len(sizes)], level_scales=scales, **fields)
    write(path, header, blobs, tables=["offset_table"])
    return arrays


def check(path, arrays):
    group = open_group(path)
    for number, array in arrays.items():
        np.testing.assert_array_equal(group[f"{number}/data"][:], array)
    return group


@pytest.mark.parametrize("scales", [[1, 2, 4], [[1, 1], [2, 1], [4, 2]], [1, [2, 1], 4], [1, 3], [1, 64]])
def test_levels_are_groups_named_by_their_number(tmp_path, scales):
    arrays = pyramid(tmp_path / "a.jnrrd", scales, levels=len(scales))
    group = check(tmp_path / "a.jnrrd", arrays)
    assert sorted(group) == [str(number) for number in range(len(scales))]
    layout = group.attrs["multiscales"]["layout"]
    assert [entry["asset"] for entry in layout] == [str(number) for number in range(len(scales))]


def test_the_scales_of_levels_are_told_in_the_arrays_order(tmp_path):
    pyramid(tmp_path / "a.jnrrd", [[1, 1], [4, 2]])
    layout = open_group(tmp_path / "a.jnrrd").attrs["multiscales"]["layout"]
    assert layout[1]["transform"]["scale"] == [2.0, 4.0]  # y, x


@pytest.mark.parametrize("axes", [1, 2])
def test_sizes_are_rounded_up_where_only_that_fits_the_table(tmp_path, axes):
    # 17 in tiles of 4: 8 -> 2 tiles rounded down, 9 -> 3 tiles rounded up
    sizes = (17, 13)[:axes]
    arrays = pyramid(tmp_path / "a.jnrrd", [1, 2], sizes=sizes, up=True)
    group = check(tmp_path / "a.jnrrd", arrays)
    assert group["1/data"].shape == tuple(-(-n // 2) for n in sizes[::-1])


def test_sizes_are_rounded_down_where_both_fit(tmp_path):
    arrays = pyramid(tmp_path / "a.jnrrd", [1, 2], sizes=(15, 11))
    assert check(tmp_path / "a.jnrrd", arrays)["1/data"].shape == (5, 7)


def test_a_table_that_neither_fits_is_refused(tmp_path):
    header = core(volume((17, 13))) | keys(TILE, level_scales=[1, 2], offset_table=[0] * 7)
    (tmp_path / "a.jnrrd").write_bytes(lines(header))
    with pytest.raises(JnrrdzError, match="tile:offset_table: 7 entries of 29 or 34 tiles"):
        scan(tmp_path / "a.jnrrd")


def test_no_level_is_less_than_one_element(tmp_path):
    arrays = pyramid(tmp_path / "a.jnrrd", [1, 2, 8], sizes=(9, 2))
    assert check(tmp_path / "a.jnrrd", arrays)["2/data"].shape == (1, 1)


def test_each_level_may_have_its_own_tiles(tmp_path):
    tiles = [[4, 3], [2, 5], [9, 1]]
    arrays = pyramid(tmp_path / "a.jnrrd", [1, 2, 4], level_tile_sizes=tiles)
    check(tmp_path / "a.jnrrd", arrays)


def test_a_scalar_scale_is_that_of_the_tiled_dimensions(tmp_path):
    full, half = volume((9, 7, 2)), volume((4, 3, 2), seed=1)
    blobs = [stored(part) for array in (full, half) for _, part in tiles_of(array, (4, 3, 2))]
    header = core(full) | keys((4, 3), dimensions=[0, 1], level_scales=[1, 2])
    write(tmp_path / "a.jnrrd", header, blobs)
    check(tmp_path / "a.jnrrd", {0: full, 1: half})


@pytest.mark.parametrize("scale", [[2, 2], [2, 2, 1]])
def test_a_scale_for_tiled_dimensions_or_for_all(tmp_path, scale):
    full, half = volume((9, 7, 2)), volume((4, 3, 2), seed=1)
    blobs = [stored(part) for array in (full, half) for _, part in tiles_of(array, (4, 3, 2))]
    header = core(full) | keys((4, 3), dimensions=[0, 1], level_scales=[[1] * len(scale), scale])
    write(tmp_path / "a.jnrrd", header, blobs)
    check(tmp_path / "a.jnrrd", {0: full, 1: half})


@pytest.mark.parametrize(("given", "kept", "virtual"), [
    ({"levels_stored": [0, 2], "levels_virtual": [1, 3]}, [0, 2], {1: 0, 3: 2}),
    ({"levels_virtual": [1, 2]}, [0, 3], {1: 0, 2: 0}),
    ({"levels_stored": [0, 1]}, [0, 1], {}),
    ({"levels_stored": [0], "levels_virtual": [1, 2, 3]}, [0], {1: 0, 2: 0, 3: 0}),
])  # fmt: skip
def test_stored_and_virtual_levels(tmp_path, given, kept, virtual):
    arrays = pyramid(tmp_path / "a.jnrrd", [1, 2, 4, 8], stored_levels=kept, sizes=(32, 16), **given)
    group = check(tmp_path / "a.jnrrd", arrays)
    assert sorted(group) == sorted(map(str, (*kept, *virtual)))
    for number, source in virtual.items():
        factor = 2 ** (number - source)
        fine = arrays[source].astype(float)
        blocks = fine.reshape(fine.shape[0] // factor, factor, fine.shape[1] // factor, factor)
        np.testing.assert_array_equal(group[f"{number}/data"][:], np.rint(blocks.mean((1, 3))))
    assert sorted(scan(tmp_path / "a.jnrrd").children) == list(map(str, kept))


def test_a_virtual_level_comes_from_the_nearest_that_divides_it(tmp_path):
    arrays = pyramid(
        tmp_path / "a.jnrrd", [1, 2, 3, 6, 9], levels_virtual=[3, 4], sizes=(36, 18), stored_levels=[0, 1, 2]
    )
    listed = {one["name"]: one for one in scan(tmp_path / "a.jnrrd").attributes["jnrrdz:virtual_levels"]}
    assert (listed["3"]["source"], listed["3"]["factors"]) == ("2", [2, 2])
    assert (listed["4"]["source"], listed["4"]["factors"]) == ("2", [3, 3])
    check(tmp_path / "a.jnrrd", arrays)


def test_a_virtual_level_of_another_scale_along_each_axis(tmp_path):
    arrays = pyramid(tmp_path / "a.jnrrd", [[1, 1], [4, 2]], levels_virtual=[1], stored_levels=[0], sizes=(16, 12))
    found = open_group(tmp_path / "a.jnrrd")["1/data"]
    blocks = arrays[0].astype(float).reshape(6, 2, 4, 4)
    np.testing.assert_array_equal(found[:], np.rint(blocks.mean((1, 3))))


@pytest.mark.parametrize("method", ["average", "gaussian", "lanczos", "max", "min", "mode"])
def test_the_method_of_the_header_makes_virtual_levels(tmp_path, method):
    pyramid(tmp_path / "a.jnrrd", [1, 2], levels_virtual=[1], stored_levels=[0], downsample_method=method)
    assert scan(tmp_path / "a.jnrrd").attributes["jnrrdz:virtual_levels"][0]["method"] == method
    assert open_group(tmp_path / "a.jnrrd")["1/data"][:].shape == (6, 9)


def test_the_most_frequent_value_is_the_smallest_of_several(tmp_path):
    array = np.array([[5, 3, 7, 7], [3, 5, 2, 1]], np.uint16)
    header = core(array) | keys((4, 2), level_scales=[1, 2], levels_virtual=[1], downsample_method="mode")
    write(tmp_path / "a.jnrrd", header, [stored(array)])
    np.testing.assert_array_equal(open_group(tmp_path / "a.jnrrd")["1/data"][:], [[3, 7]])


def test_rounding_up_holds_for_virtual_levels_too(tmp_path):
    pyramid(tmp_path / "a.jnrrd", [1, 2, 4], sizes=(17, 13), up=True, levels_virtual=[2], stored_levels=[0, 1])
    group = open_group(tmp_path / "a.jnrrd")
    assert [group[f"{number}/data"].shape for number in range(3)] == [(13, 17), (7, 9), (4, 5)]
    assert group["2/data"][:].shape == (4, 5)


def test_full_resolution_alone(tmp_path):
    arrays = pyramid(tmp_path / "a.jnrrd", [1, 2, 4], levels_virtual=[2], stored_levels=[0, 1])
    group = scan(tmp_path / "a.jnrrd", overviews=False)
    assert list(group.children) == ["data"]
    np.testing.assert_array_equal(open_group(group)["data"][:], arrays[0])
    assert "jnrrdz:virtual_levels" not in group.attributes


def test_a_tree_of_datasets_has_every_level(tmp_path):
    pyramid(tmp_path / "a.jnrrd", [1, 2, 4], levels_virtual=[2], stored_levels=[0, 1])
    tree = open_datatree(tmp_path / "a.jnrrd")
    assert {name: tree[name]["data"].shape for name in tree.children} == {"0": (13, 19), "1": (6, 9), "2": (3, 4)}


SCALES = [1, 2]


@pytest.mark.parametrize(("given", "field"), [
    ({"levels": 3}, "tile:level_scales"),
    ({"level_scales": [2, 4]}, "tile:level_scales[0]"),
    ({"level_scales": [[1, 2], 4]}, "tile:level_scales[0]"),
    ({"level_scales": [1, [2, 2, 2]]}, "tile:level_scales[1]"),
    ({"level_scales": [1, 0]}, "tile:level_scales[1]"),
    ({"level_scales": [1, [2, 0]]}, "tile:level_scales[1][1]"),
    ({"level_scales": [1, 2.5]}, "tile:level_scales[1]"),
    ({"level_scales": [1, "2"]}, "tile:level_scales[1]"),
    ({"level_scales": None, "levels": 2}, "tile:level_scales"),
    ({"levels": 0}, "tile:levels"),
    ({"levels": "2"}, "tile:levels"),
    ({"level_tile_sizes": [[4, 3]]}, "tile:level_tile_sizes"),
    ({"level_tile_sizes": [[4, 3]] * 3}, "tile:level_tile_sizes"),
    ({"level_tile_sizes": [[4, 3], [4]]}, "tile:level_tile_sizes[1]"),
    ({"level_tile_sizes": [[4, 3], [4, 0]]}, "tile:level_tile_sizes[1][1]"),
    ({"levels_stored": [0, 1], "levels_virtual": [1]}, "tile:levels_virtual"),
    ({"levels_stored": [1], "levels_virtual": [0]}, "tile:levels_virtual"),
    ({"levels_stored": [0, 2]}, "tile:levels_stored"),
    ({"levels_stored": [0, 0]}, "tile:levels_stored"),
    ({"levels_stored": []}, "tile:levels_stored"),
    ({"levels_stored": [0, -1]}, "tile:levels_stored[1]"),
    ({"levels_virtual": [2]}, "tile:levels_virtual"),
    ({"level_scales": [1, 3, 4], "levels_stored": [1], "levels_virtual": [2]}, "tile:levels_virtual"),
    ({"level_offsets": [1, 2, 3]}, "tile:level_offsets"),
    ({"level_offsets": [1, -2]}, "tile:level_offsets[1]"),
    ({"level_quality": [{}]  * 3}, "tile:level_quality"),
    ({"level_quality": [3, 4]}, "tile:level_quality[0]"),
    ({"downsample_method": "nearest"}, "tile:downsample_method"),
])  # fmt: skip
def test_levels_that_are_wrong_are_refused_by_their_field(tmp_path, given, field):
    own = {"format": "contiguous", "level_scales": SCALES} | given
    (tmp_path / "a.jnrrd").write_bytes(lines(core(volume((19, 13))) | keys(TILE, **own)) + b"\n" + bytes(4000))
    with pytest.raises(JnrrdzError) as caught:
        scan(tmp_path / "a.jnrrd")
    assert field in (caught.value.field or "").split(", "), str(caught.value)


def test_what_is_told_of_levels_and_tiles_is_attributes(tmp_path):
    full, half = volume((8, 6)), volume((4, 3), seed=1)
    blobs = [stored(part) for array in (full, half) for _, part in tiles_of(array, TILE)]
    checksums = [hashlib.sha256(blob).hexdigest() for blob in blobs]
    metadata = [{"min": 0.5, "checksum": one.upper()} for one in checksums]
    metadata[1], metadata[2] = None, {"checksum": "a1b2c3d4"}
    quality = [{"psnr": 100.0}, {"psnr": 42.3}, {"psnr": 1.0}]
    told = {"metadata": metadata, "compression_levels": [9, 6, 6, 4, 1], "level_quality": quality}
    fields = keys(TILE, level_scales=[1, 2, 4], levels_virtual=[2], level_offsets=[1024, 2048], **told)
    offsets = write(tmp_path / "a.jnrrd", core(full) | fields, blobs)
    assert offsets
    group = open_group(tmp_path / "a.jnrrd")
    fine = group["0/data"].attrs
    assert fine["tile_checksums"] == [checksums[0], None, None, checksums[3]]
    assert fine["tile_metadata"] == metadata[:4]
    assert fine["tile_compression_levels"] == [9, 6, 6, 4]
    assert group["1/data"].attrs["tile_checksums"] == checksums[4:]
    assert not [name for name in group["2/data"].attrs if name.startswith("tile_")]
    assert group.attrs["level_offsets"] == {"0": 1024, "1": 2048}
    assert group.attrs["level_quality"] == {"0": quality[0], "1": quality[1], "2": quality[2]}
    assert group.attrs["jnrrd"]["sizes"] == [8, 6]
    assert group.attrs["jnrrd_tiling"]["sizes"] == list(TILE)
    assert "offset_table" not in group.attrs["jnrrd_tiling"]


@pytest.mark.parametrize("axes", [1, 2, 3, 4, 5])
def test_levels_of_any_number_of_axes(tmp_path, axes):
    sizes, tile = (11, 7, 5, 4, 3)[:axes], (4, 3, 2, 2, 2)[:axes]
    arrays = [volume(reduced(sizes, [scale] * axes), "int16", seed=scale) for scale in (1, 2)]
    pairs = itertools.chain.from_iterable(tiles_of(array, tile, variable=True) for array in arrays)
    blobs = [stored(part, "big", "zstd") for _, part in pairs]
    fields = keys(tile, level_scales=[1, 2], edge_handling="variable", compression="zstd")
    write(tmp_path / "a.jnrrd", core(arrays[0], "big") | fields, blobs)
    check(tmp_path / "a.jnrrd", dict(enumerate(arrays)))
