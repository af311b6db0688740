"""Real TIFFs, written and read by rasterio, as one dataset."""

import io
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
import zarr
from click.testing import CliRunner
from rasterio.transform import from_origin

import jnrrdz
from jnrrdz.cli import Program
from jnrrdz.cli.console import Console
from jnrrdz.cli.manifests import merge as command
from jnrrdz.commands.merge import merge, stacked
from jnrrdz.errors import MalformedError, UnrepresentableError, UntrustedSourceError
from jnrrdz.options import Access, MergeOptions
from tests import writers

DAYS = ("20240103", "20240101", "20240102")
TIMES = np.array(["2024-01-01", "2024-01-02", "2024-01-03"], "M8[ns]")
PROFILE = {"height": 150, "width": 200, "count": 1, "dtype": "uint16", "predictor": 2, **writers.PLACE, **writers.TILES}


def write(path, *, seed=0, time=None, overviews=(2,), **profile):
    """Write a TIFF and return its pixels as rasterio reads them."""
    own = {**PROFILE, **profile}
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[: own["height"], : own["width"]]
    pixels = [(rows * (band + 1) + columns + rng.integers(0, 90)) % 251 for band in range(own["count"])]
    with writers.gdal_file(path, np.stack(pixels).astype(own["dtype"]), **own) as file:
        if time:
            file.update_tags(TIFFTAG_DATETIME=time)
    with rasterio.open(path, "r+") as file:
        file.build_overviews(overviews)
    return read(path)


def read(path, level=None):
    options = {} if level is None else {"overview_level": level}
    with rasterio.open(path, **options) as file:
        return file.read().squeeze()


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Three images of one grid, and a manifest of each, the days not in order."""
    folder = tmp_path_factory.mktemp("scenes")
    for seed, day in enumerate(DAYS):
        path = folder / f"scene_{day}.tif"
        write(path, seed=seed, time=f"{day[:4]}:{day[4:6]}:{day[6:]} 10:{seed:02}:00")
        jnrrdz.index(path, folder / f"scene_{day}.json")
    return folder


@pytest.fixture
def refs(scenes):
    return [str(scenes / f"scene_{day}.json") for day in DAYS]


@pytest.fixture
def expected(scenes):
    return np.stack([read(scenes / f"scene_{day}.tif") for day in sorted(DAYS)])


ENDINGS = {"json": ".json", "parquet": ".parquet"}


@pytest.mark.parametrize("form", ENDINGS)
@pytest.mark.parametrize("kind", ["json", "tif", "parquet", "mixed"])
def test_xarray_sees_the_stack_that_rasterio_reads(scenes, expected, tmp_path, form, kind):
    kinds = {"mixed": ("json", "tif", "parquet")}.get(kind, (kind,) * 3)
    names = [scenes / f"scene_{day}.{own}" for day, own in zip(DAYS, kinds, strict=True)]
    for name in names:
        if name.suffix == ".parquet":
            jnrrdz.index(name.with_suffix(".tif"), name, overwrite=True)
    out = tmp_path / f"all{ENDINGS[form]}"
    done = merge(names, out, concat_dim="time", coord_from=r"_(\d{8})")
    assert [Path(name).stem[-8:] for name in done.members] == sorted(DAYS)
    assert (done.arrays, done.chunks, done.left_out) == (2, 3 * (3 * 4 + 2 * 2), ())
    with xr.open_dataset(out, engine="jnrrdz", mask_and_scale=False) as found:
        assert found["data"].dims == ("time", "y", "x")
        assert (found["time"].values == TIMES).all()
        assert (found["data"].values == expected).all()
        assert (found["data"].sel(time="2024-01-02").values == expected[1]).all()
        assert found["spatial_ref"].attrs["crs_wkt"].startswith("PROJCRS")
        assert found["x"].values[0] == 500005


def test_every_overview_has_the_axis(refs, scenes, tmp_path):
    merge(refs, tmp_path / "all.json", concat_dim="time", coord_from=r"_(\d{8})")
    with xr.open_datatree(tmp_path / "all.json", engine="jnrrdz") as tree:
        found = tree["1"]
        small = np.stack([read(scenes / f"scene_{day}.tif", 0) for day in sorted(DAYS)])
        assert (found["data"].values == small).all()
        assert (found["time"].values == TIMES).all()


def test_dask_reads_the_stack_in_chunks(refs, expected, tmp_path):
    merge(refs, tmp_path / "all.json", concat_dim="time", coord_from=r"_(\d{8})")
    with xr.open_dataset(tmp_path / "all.json", chunks={}) as found:
        assert found["data"].data.chunksize == (1, 64, 64)
        assert (found["data"].mean("time").compute().values == expected.mean(0)).all()


def test_stock_fsspec_and_zarr_read_the_stack(refs, expected, tmp_path):
    merge(refs, tmp_path / "all.json", concat_dim="time", coord_from=r"_(\d{8})")
    options = {"fo": str(tmp_path / "all.json"), "remote_protocol": "file"}
    root = zarr.open_group("reference://", mode="r", storage_options=options)
    assert (root["0/data"][:] == expected).all()
    assert root["0/time"][:].tolist() == TIMES.astype("M8[s]").astype(int).tolist()


def test_the_time_comes_from_the_images(refs, tmp_path):
    merge(refs, tmp_path / "all.json", concat_dim="time", coord_from="metadata")
    with xr.open_dataset(tmp_path / "all.json") as found:
        minutes = [DAYS.index(day) for day in sorted(DAYS)]
        assert (found["time"].values == TIMES + np.array([600 + minute for minute in minutes], "m8[m]")).all()
    write(tmp_path / "timeless.tif")
    with pytest.raises(UnrepresentableError, match=r"1 of 4 does not fit the others: .*timeless\.tif: .*tell no time"):
        stacked([*refs, tmp_path / "timeless.tif"], MergeOptions(concat_dim="time", coord_from="metadata"))


def test_merged_manifests_are_merged_again(refs, expected, tmp_path):
    merge([refs[0]], tmp_path / "late.json", concat_dim="time", coord_from=r"_(\d{8})")
    merge(refs[1:], tmp_path / "early.parquet", concat_dim="time", coord_from=r"_(\d{8})")
    merge([tmp_path / "late.json", tmp_path / "early.parquet"], tmp_path / "all.json", concat_dim="time")
    merge(refs, tmp_path / "at_once.json", concat_dim="time", coord_from=r"_(\d{8})")
    assert (tmp_path / "all.json").read_text() == (tmp_path / "at_once.json").read_text()
    with xr.open_dataset(tmp_path / "all.json") as found:
        assert (found["data"].values == expected).all()


def test_bands_of_several_samples_get_an_axis_before_theirs(tmp_path):
    pixels = [write(tmp_path / f"{n}.tif", seed=n, count=3, interleave="pixel") for n in (1, 2)]
    merge([tmp_path / "2.tif", tmp_path / "1.tif"], tmp_path / "all.json", concat_dim="run", coord_from=r"(\d)\.tif$")
    with xr.open_dataset(tmp_path / "all.json") as found:
        assert (found["data"].dims, found["run"].values.tolist()) == (("run", "band", "y", "x"), [1, 2])
        assert (found["data"].values == np.stack(pixels)).all()


def test_physical_values_of_two_bands_in_a_chunk_keep_their_scales(tmp_path):
    expected = []
    for number in (1, 2):
        path = tmp_path / f"{number}.tif"
        write(path, seed=number, count=2, interleave="pixel")
        with rasterio.open(path, "r+") as file:
            file.scales, file.offsets = (0.5, 0.25), (0.0, 100.0)
        expected.append(read(path) * np.array([0.5, 0.25])[:, None, None] + np.array([0, 100])[:, None, None])
        jnrrdz.index(path, path.with_suffix(".json"), physical=True)
    merge(sorted(tmp_path.glob("*.json")), tmp_path / "all.json", concat_dim="run", coord_from=r"(\d).json")
    with xr.open_dataset(tmp_path / "all.json") as found:
        assert (found["data"].values == np.stack(expected)).all()


JPEG = {"count": 3, "dtype": "uint8", "compress": "jpeg", "predictor": 1, "photometric": "ycbcr"}


def write_jpegs(folder, **profile):
    """Write files with different JPEG tables, and return their names and pixels."""
    names = {folder / f"q{quality}.tif": quality for quality in (30, 60, 95)}
    facts = {**JPEG, **profile}
    return list(names), [write(name, seed=quality, jpeg_quality=quality, **facts) for name, quality in names.items()]


def test_jpeg_tables_that_differ_are_read_where_they_stand(tmp_path):
    names, pixels = write_jpegs(tmp_path)
    for form in ("json", "parquet"):
        merge(names, tmp_path / f"all.{form}", concat_dim="quality", coord_from=r"q(\d+)")
        with xr.open_dataset(tmp_path / f"all.{form}", engine="jnrrdz") as found:
            assert (found["data"].values == np.stack(pixels)).all()
    documents = json.loads((tmp_path / "all.json").read_text())["refs"]
    assert "jpeg_tables" not in documents["0/data/zarr.json"]
    with pytest.raises(UnrepresentableError, match=r"JPEG tables differ .* leave out --single-range"):
        merge(names, tmp_path / "one.json", concat_dim="quality", single_range=True)
    assert not (tmp_path / "one.json").exists()


def test_tables_that_are_the_same_stay_in_the_codec(tmp_path):
    names = [tmp_path / f"{number}.tif" for number in (1, 2)]
    pixels = [write(name, seed=5, jpeg_quality=50, **JPEG) for name in names]
    merge(names, tmp_path / "all.json", concat_dim="run")
    assert "jpeg_tables" in (tmp_path / "all.json").read_text()
    options = {"fo": str(tmp_path / "all.json"), "remote_protocol": "file"}
    assert (zarr.open_group("reference://", mode="r", storage_options=options)["0/data"][:] == np.stack(pixels)).all()


def spoiled(data, change):
    """A TIFF of which the first tile, or the tables, are no longer what its manifest was made of."""
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        page = file.pages.first
        tile, tables = min(page.dataoffsets), page.tags["JPEGTables"].valueoffset
    place, new = {"no start": (tile, b"\0\0"), "JFIF": (tile + 6, b"JFIF"), "tables": (tables + 20, b"\7\7\7")}[change]
    return data[:place] + new + data[place + len(new) :]


SPOILED = {"no start": "cannot follow", "JFIF": "cannot follow", "tables": "no JPEG stream in the file any more"}


@pytest.mark.parametrize(("change", "text"), SPOILED.items())
def test_tables_and_tiles_that_make_no_stream_are_refused(tmp_path, change, text):
    names, _ = write_jpegs(tmp_path, overviews=())
    refs = [name.with_suffix(".json") for name in names]
    for name, ref in zip(names, refs, strict=True):
        jnrrdz.index(name, ref)
    names[1].write_bytes(spoiled(names[1].read_bytes(), change))
    with pytest.raises(UnrepresentableError, match=rf"q60\.tif.*{text}"):
        stacked(refs, MergeOptions(concat_dim="quality", coord_from=r"q(\d+)"))


def test_tables_are_fetched_with_the_manifests_trust(tmp_path, make_http_server):
    names, _ = write_jpegs(tmp_path)
    server, other = make_http_server(), make_http_server()
    for name in names:
        jnrrdz.index(name, name.with_suffix(".json"), relative=True)
        server.files |= {f"/{own.name}": own.read_bytes() for own in (name, name.with_suffix(".json"))}
    refs = [f"{server.url}/{name.stem}.json" for name in names]
    found = stacked(refs, MergeOptions(concat_dim="quality", coord_from=r"q(\d+)"))
    assert found.group.children["0"].children["data"].refs.counts.min() == 2
    server.redirects["/q60.tif"] = f"{other.url}/q60.tif"
    other.files["/q60.tif"] = server.files["/q60.tif"]
    with pytest.raises(UntrustedSourceError):
        stacked(refs, MergeOptions(concat_dim="quality", coord_from=r"q(\d+)"))
    assert other.log == []


OTHERS = {
    "shape": ({"height": 149}, "has the shape 149 x 200 in 0/data, not 150 x 200$"),
    "type": ({"dtype": "int16"}, "has int16 in 0/data, not uint16$"),
    "codec": ({"compress": "lzw"}, "has the codec tiff-tile, compression 5 in 0/data, not 8"),
    "chunks": ({"blockxsize": 32}, "has chunks of 64 x 32 in 0/data, not 64 x 64$"),
    "CRS": ({"crs": "EPSG:32634"}, "is in WGS 84 / UTM zone 34N, not WGS 84 / UTM zone 33N$"),
    "affine": ({"transform": from_origin(0, 0, 10, 10)}, "lies elsewhere: x origin 0, not 500000, y origin 0, not "),
    "nodata": ({"nodata": 9}, "has the fill value 9 in 0/data, not 0"),
    "overviews": ({"overviews": ()}, "holds data, not 0/data, 1/data"),
}


@pytest.mark.parametrize(("change", "text"), OTHERS.values(), ids=OTHERS)
def test_an_image_of_another_form_is_named_with_what_is_different(refs, tmp_path, change, text):
    write(tmp_path / "scene_20240104.tif", **change)
    found = [str(tmp_path / "scene_20240104.tif"), *refs]
    with pytest.raises(UnrepresentableError, match=f"1 of 4 does not fit the others: .*scene_20240104.tif .*{text}"):
        merge(found, tmp_path / "all.json", concat_dim="time", coord_from=r"_(\d{8})")
    assert not (tmp_path / "all.json").exists()
    done = merge(found, tmp_path / "all.json", concat_dim="time", coord_from=r"_(\d{8})", skip_mismatched=True)
    assert (len(done.members), len(done.left_out)) == (3, 1)
    assert re.search(text, done.left_out[0])


RULES = {
    "no match": (r"_(\d{9})", UnrepresentableError, "3 of 3 do not fit .*finds nothing in its name"),
    "no group": (r"\d{8}", MalformedError, "no pair of"),
    "two groups": (r"(\d{4})(\d{4})", MalformedError, "has 2 pairs of"),
    "no expression": (r"(", MalformedError, "not a regular expression"),
    "twins": (r"_(\d{4})", UnrepresentableError, "several images have the same coordinate"),
    "no date": (r"_(?P<date>\d{6})", MalformedError, "not a date"),
}


@pytest.mark.parametrize(("rule", "error", "text"), RULES.values(), ids=RULES)
def test_coordinates_that_cannot_be_found_are_refused(refs, rule, error, text):
    with pytest.raises(error, match=text):
        stacked(refs, MergeOptions(concat_dim="time", coord_from=rule))


def test_a_manifest_reaches_no_more_than_when_it_is_opened_by_itself(refs, scenes, tmp_path):
    found = json.loads(Path(refs[0]).read_text())
    root = json.loads(found["refs"]["zarr.json"])
    del root["attributes"]["jnrrdz"]
    found["refs"]["zarr.json"] = json.dumps(root)
    for name in DAYS[:2]:
        (tmp_path / f"scene_{name}.json").write_text(json.dumps(found))
    paths = [tmp_path / f"scene_{name}.json" for name in DAYS[:2]]
    with pytest.raises(UntrustedSourceError):
        stacked(paths, MergeOptions(concat_dim="time", coord_from=r"_(\d{8})"))
    found = stacked(paths, MergeOptions(concat_dim="time", coord_from=r"_(\d{8})"), access=Access(allow=(str(scenes),)))
    assert [record.url for record in found.group.sources] == [str(scenes / f"scene_{DAYS[0]}.tif")]


def test_relative_manifests_elsewhere_are_merged_to_a_relative_one(scenes, expected, tmp_path, monkeypatch):
    names = []
    for day in DAYS:
        folder = tmp_path / day
        folder.mkdir()
        shutil.copy(scenes / f"scene_{day}.tif", folder / "scene.tif")
        names.append(str(folder / "refs.json"))
        jnrrdz.index(folder / "scene.tif", names[-1], relative=True)
        assert '["scene.tif",' in Path(names[-1]).read_text()
    merge(names, tmp_path / "all.json", concat_dim="time", coord_from=r"(\d{8})/", relative=True)
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in (*DAYS, "all.json"):
        os.rename(tmp_path / name, moved / name)  # noqa: PTH104 - files and directories alike
    monkeypatch.chdir(moved)
    with xr.open_dataset("all.json") as found:
        assert (found["data"].values == expected).all()


def test_the_table_of_sources_holds_all_of_them(refs, scenes, tmp_path):
    merge(refs, tmp_path / "all.json", concat_dim="time", coord_from=r"_(\d{8})")
    with xr.open_datatree(tmp_path / "all.json", engine="jnrrdz") as tree:
        table = json.loads(tree.attrs["jnrrdz"])["sources"]
    paths = [scenes / f"scene_{day}.tif" for day in sorted(DAYS)]
    assert [(entry["url"], entry["size"]) for entry in table] == [(str(path), path.stat().st_size) for path in paths]


def test_no_source_is_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        write(f"{number}.tif", seed=number)
    before = Path("1.tif").read_bytes()
    with pytest.raises(UnrepresentableError, match=r"1\.tif: is a source itself"):
        merge(["1.tif", "2.tif"], "1.tif", concat_dim="run", format="json", overwrite=True)
    assert Path("1.tif").read_bytes() == before


# The command line


@pytest.fixture
def run():
    """What runs the command as the program does."""
    program = Program("jnrrdz")
    program.add_command(command)

    def call(*args, code=0):
        result = CliRunner().invoke(program, ["merge", *map(str, args)], obj=Console())
        assert result.exit_code == code, result.output
        return result

    return call


def test_the_command_says_what_it_made(run, refs, expected, tmp_path):
    out = tmp_path / "all.json"
    result = run(*refs, "-o", out, "--concat-dim", "time", "--coord-from", r"_(\d{8})")
    assert result.stdout == ""
    assert f"{out}: 3 manifests, 2 arrays, 48 chunks" in result.stderr
    assert "attributes that differ are not in it: 0: TIFFTAG_DATETIME, 0: datetime" in result.stderr
    with xr.open_dataset(out) as found:
        assert (found["data"].values == expected).all()


def test_the_command_fails_with_one_line_or_leaves_out_with_a_warning(run, refs, tmp_path):
    write(tmp_path / "odd.tif", height=100)
    out = tmp_path / "all.json"
    args = (*refs, tmp_path / "odd.tif", "-o", out, "--concat-dim", "time")
    (line,) = run(*args, code=1).stderr.splitlines()
    assert line.startswith("error: 1 of 4 does not fit the others: ")
    assert not out.exists()
    result = run(*args, "--skip-mismatched")
    assert f"warning: {out}: left out {tmp_path / 'odd.tif'} has the shape" in result.stderr
    with xr.open_dataset(out) as found:
        assert found["data"].shape == (3, 150, 200)


def test_the_command_needs_an_axis(run, refs):
    assert "--concat-dim" in run(*refs, "-o", "all.json", code=2).stderr


@pytest.mark.parametrize("dim", ["y", "x"])
def test_images_of_one_place_are_not_put_beside_each_other(tmp_path, dim):
    """Their affine is the same, so that the second would be said to lie where it does not."""
    for name in ("a.tif", "b.tif"):
        write(tmp_path / name, height=128, width=128, overviews=())
    with pytest.raises(UnrepresentableError, match=f"cannot be joined along {dim}"):
        merge([tmp_path / "a.tif", tmp_path / "b.tif"], tmp_path / "out.json", concat_dim=dim)
    assert not (tmp_path / "out.json").exists()


def test_manifests_that_say_a_wkt_twice_merge_with_those_that_say_it_once(refs, expected, tmp_path):
    """The first version wrote `spatial_ref` beside `crs_wkt`, and `proj:wkt2` on each level."""
    first = json.loads(Path(refs[0]).read_text())
    for key, text in first["refs"].items():
        document = json.loads(text) if key.endswith("spatial_ref/zarr.json") else {}
        if document:
            document["attributes"]["spatial_ref"] = document["attributes"]["crs_wkt"]
            first["refs"][key] = json.dumps(document)
    twice = Path(refs[0]).with_name(f"twice_{DAYS[0]}.json")
    twice.write_text(json.dumps(first))
    merge([twice, *refs[1:]], tmp_path / "all.json", concat_dim="time", coord_from=r"_(\d{8})")
    with xr.open_dataset(tmp_path / "all.json") as found:
        assert (found["data"].values == expected).all()
