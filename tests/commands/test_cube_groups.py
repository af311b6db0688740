"""What a cube reports of its groups: which files share one, which do not and why, and what the groups are called."""

import json
import warnings

import numpy as np
import pytest
import rasterio
import xarray as xr
from click.testing import CliRunner
from rasterio.merge import merge as mosaic

import jnrrdz
from jnrrdz.cli import cli
from jnrrdz.core.codec_table import decoding
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import UnrepresentableError
from jnrrdz.manifests.groups import group_from_manifest
from tests.commands.archive import LEFT, write

WHEN = {"time_from": r"_(\d{8})"}
BANDS = {"band_from": r"_(B\d+|SCL)\."}


def noise(seed, shape=(128, 128), dtype="u2"):
    return np.random.default_rng(seed).integers(1, 200, shape).astype(dtype)


PACKED = {"compress": "lzw", "predictor": 2}
"""What no codec of Zarr's own reads: the configuration has the image's size."""


@pytest.mark.parametrize("columns", [64, 100])
def test_neighbours_of_other_widths_are_one_mosaic(tmp_path, columns):
    """The size of an image is in its codec; tiles are the same, whole inside and short at the mosaic's edge."""
    write(tmp_path / "a_20240601.tif", noise(1), 10, **PACKED)
    write(tmp_path / "b_20240601.tif", noise(2, (128, columns)), 10, left=LEFT + 1280, **PACKED)
    files = sorted(map(str, tmp_path.glob("*.tif")))
    made = jnrrdz.cube(files, tmp_path / "c.json", **WHEN)
    assert (made.groups, len(made.grids), made.missing) == ((), 1, 0)
    expected, _ = mosaic(files)
    found = xr.open_dataset(tmp_path / "c.json", mask_and_scale=False)["data"][0]
    np.testing.assert_array_equal(found, expected)
    assert jnrrdz.verify(tmp_path / "c.json").ok


def test_dates_of_one_place_and_another_width_share_what_is_whole(tmp_path):
    """One ends with whole chunks where the other goes on: its last column of chunks is missing, and counted."""
    pixels = noise(1), noise(2, (128, 134))
    for day, own in enumerate(pixels, start=1):
        write(tmp_path / f"a_2024060{day}.tif", own, 10, **PACKED)
    made = jnrrdz.cube(sorted(map(str, tmp_path.glob("*.tif"))), tmp_path / "c.json", **WHEN)
    (group,) = made.grids
    assert (group.times, group.files, group.missing, group.chunks) == (2, 2, 2, 12)
    found = xr.open_dataset(tmp_path / "c.json", mask_and_scale=False)["data"][:, 0]
    np.testing.assert_array_equal(found[0, :, :128], pixels[0])
    assert (found[0, :, 128:] == 0).all()
    np.testing.assert_array_equal(found[1], pixels[1])


def test_dates_that_end_within_a_chunk_of_another_are_refused(tmp_path):
    for day, columns in ((1, 130), (2, 134)):
        write(tmp_path / f"a_2024060{day}.tif", noise(day, (128, columns)), 10, **PACKED)
    with pytest.raises(UnrepresentableError, match=r"ends within a chunk of \(64, 64\) where others go on"):
        jnrrdz.cube(sorted(map(str, tmp_path.glob("*.tif"))), tmp_path / "c.json", **WHEN)


SPLIT = [{"compress": "deflate"}, {"compress": "zstd"}, {"compress": "lzw"}, {"compress": "lzw", "predictor": 2}]


@pytest.fixture
def four(tmp_path):
    """Return four dates with four compressions."""
    for day, options in enumerate(SPLIT, start=1):
        write(tmp_path / f"a_2024060{day}.tif", noise(day), 10, **options)
    return sorted(map(str, tmp_path.glob("*.tif")))


def test_what_is_split_is_reported_with_its_counts(four, tmp_path):
    with pytest.warns(UserWarning, match="what looks like one grid is in 4 groups") as warned:
        made = jnrrdz.cube(four, tmp_path / "c.json", **WHEN)
    assert made.groups == ("10m", "10m_uint16", "10m_uint16_2", "10m_uint16_3")
    assert [(one.name, one.times, one.files, one.chunks, one.missing) for one in made.grids] == [
        (name, 1, 1, 4, 0) for name in made.groups
    ]
    assert [one.first[:10] for one in made.grids] == [f"2024-06-0{day}" for day in (1, 2, 3, 4)]
    assert [one.split_from for one in made.grids] == [None, "10m", "10m", "10m"]
    assert "zstd" in made.grids[1].reason
    assert "tiff-tile" in made.grids[2].reason
    (text,) = {str(one.message) for one in warned}
    assert all(name in text for name in made.groups)
    for name, file in zip(made.groups, four, strict=True):
        with rasterio.open(file) as source:
            found = xr.open_dataset(tmp_path / "c.json", group=name, engine="jnrrdz", mask_and_scale=False)
            np.testing.assert_array_equal(found["data"][0], source.read())


def test_the_command_has_a_line_for_each_group(four, tmp_path):
    run = CliRunner().invoke(cli, ["cube", *four, "-o", str(tmp_path / "c.json"), "--time-from", WHEN["time_from"]])
    lines = run.stderr.splitlines()
    assert sum(line.startswith("warning:") for line in lines) == 1
    assert "10m: 1 time (2024-06-01), 1 band, 1 file, 0 of 4 chunks missing" in lines
    assert any(line.startswith("10m_uint16_3: 1 time (2024-06-04)") and "apart from 10m" in line for line in lines)
    run = CliRunner().invoke(
        cli, ["cube", *four, "-o", str(tmp_path / "d.json"), "--time-from", WHEN["time_from"], "--json"]
    )
    grids = json.loads(run.stdout)["grids"]
    assert [one["name"] for one in grids] == ["10m", "10m_uint16", "10m_uint16_2", "10m_uint16_3"]
    assert grids[1]["split_from"] == "10m"


def test_opening_what_is_split_names_the_other_groups(four, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jnrrdz.cube(four, tmp_path / "c.json", **WHEN)
    with pytest.warns(jnrrdz.ImageChoiceWarning, match="10m_uint16"):
        assert xr.open_dataset(tmp_path / "c.json").sizes["time"] == 1


def test_a_group_keeps_its_name_beside_bands_of_another_type(tmp_path):
    """The first grid of a resolution has the plain name, whatever comes after it."""
    for day in (1, 2):
        for band, dtype in (("B05", "u2"), ("SCL", "u1")):
            write(tmp_path / f"x_2024060{day}_{band}.tif", noise(day, dtype=dtype), 20)
    write(tmp_path / "x_20240601_B02.tif", noise(1), 10)
    first, second = (sorted(map(str, tmp_path.glob(f"x_2024060{day}_B*.tif"))) for day in (1, 2))
    classes = sorted(map(str, tmp_path.glob("*SCL.tif")))
    assert jnrrdz.cube(first, tmp_path / "c.json", **WHEN, **BANDS).groups == ("10m", "20m")
    made = jnrrdz.cube(classes[:1], tmp_path / "c.json", **WHEN, **BANDS, append=True)
    assert made.groups == ("10m", "20m", "20m_uint8")
    # another type for another band is no split
    assert [one.split_from for one in made.grids] == [None, None, None]
    made = jnrrdz.cube([*second, classes[1]], tmp_path / "c.json", **WHEN, **BANDS, append=True)
    assert made.groups == ("10m", "20m", "20m_uint8")
    anew = jnrrdz.cube([*first, *second, *classes], tmp_path / "d.json", **WHEN, **BANDS)
    assert anew.groups == made.groups
    found = xr.open_dataset(tmp_path / "c.json", group="20m_uint8", engine="jnrrdz", mask_and_scale=False)
    with rasterio.open(classes[1]) as source:
        np.testing.assert_array_equal(found["data"][1], source.read())


@pytest.mark.parametrize("out", ["c.json", "c.parquet"])
def test_a_cube_with_names_of_an_earlier_version_keeps_them(tmp_path, out):
    for day in (1, 2):
        for band, dtype in (("B05", "u2"), ("SCL", "u1")):
            write(tmp_path / f"x_2024060{day}_{band}.tif", noise(day, dtype=dtype), 20)
    first, second = (sorted(map(str, tmp_path.glob(f"x_2024060{day}_*.tif"))) for day in (1, 2))
    jnrrdz.cube(first, tmp_path / "new.json", **WHEN, **BANDS)
    store = jnrrdz.open_store(tmp_path / "new.json")
    whole = group_from_manifest(store.manifest)
    children = {"20m_uint16": whole.children["20m"], "20m_uint8": whole.children["20m_uint8"]}
    jnrrdz.write(VirtualGroup(children, whole.attributes, whole.sources, whole.origin), tmp_path / out)
    made = jnrrdz.cube(second, tmp_path / out, **WHEN, **BANDS, append=True)
    assert set(made.groups) == {"20m_uint16", "20m_uint8"}
    assert made.rewritten is None or out == "c.json"
    found = xr.open_dataset(tmp_path / out, group="20m_uint16", engine="jnrrdz", mask_and_scale=False)
    with rasterio.open(second[0]) as source:
        np.testing.assert_array_equal(found["data"][1], source.read())


def test_levels_of_compressors_are_for_writers():
    chains = [[CodecSpec("bytes"), CodecSpec("gzip", {"level": level})] for level in (1, 9)]
    assert decoding(chains[0]) == decoding(chains[1])
    assert decoding([CodecSpec("bytes", {"endian": "big"})]) != decoding([CodecSpec("bytes", {"endian": "little"})])


@pytest.mark.parametrize("nodata", [(0, None), (0, 255)])
def test_dates_of_other_nodata_are_groups_whose_reason_is_nodata(tmp_path, nodata):
    for day, value in enumerate(nodata, start=1):
        write(tmp_path / f"a_2024060{day}.tif", noise(day, dtype="u1"), 10, nodata=value)
    files = sorted(map(str, tmp_path.glob("*.tif")))
    with pytest.warns(UserWarning, match="what looks like one grid is in 2 groups"):
        made = jnrrdz.cube(files, tmp_path / "c.json", **WHEN)
    assert made.grids[1].split_from == made.grids[0].name
    assert "nodata" in made.grids[1].reason
    assert "corner" not in made.grids[1].reason
