"""A table of many sources has files of its own: opening reads none of them, a window those of its sources."""

import json
import os
import pickle
import shutil
import tracemalloc
from hashlib import blake2b
from pathlib import Path

import fastparquet
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr

import jnrrdz
from jnrrdz.errors import DriftError, JnrrdzError, MalformedError, UnsupportedError, UntrustedSourceError
from jnrrdz.manifests import parquet, parquet_records, source_files
from jnrrdz.manifests.groups import group_from_manifest
from jnrrdz.manifests.manifest import load
from tests import writers
from tests.manifests.many_sources import COUNT, TILE, pixels, write_scene

GOLDEN = Path(__file__).parent / "golden" / "sources_in_zmetadata.parquet"
"""Made by the code before tables had files."""

pytestmark = pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated")


MEMBERS = 60


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(source_files, "MANY", 20)
    monkeypatch.setattr(source_files, "ROWS", 12)
    monkeypatch.setattr(parquet.write, "__kwdefaults__", {"record_size": 10})
    return tmp_path


@pytest.fixture
def merged(place):
    return merge(place / "all.parquet")


def merge(out, members=MEMBERS):
    names = [f"scene_{member:03}.tif" for member in range(members)]
    for member, name in enumerate(names):
        if not Path(name).exists():
            write_scene(".", member)
    jnrrdz.merge(names, out, concat_dim="time", coord_from=r"_(\d+)", relative=True)
    return out


@pytest.fixture
def read(monkeypatch):
    """The names of the manifest's files that are read."""
    seen = []
    for module in (source_files, parquet_records):
        opened = module.open_source

        def noted(url, *, opened=opened, **options):
            seen.append(url.partition(".parquet/")[2])
            return opened(url, **options)

        monkeypatch.setattr(module, "open_source", noted)
    return seen


def table_of(out):
    return json.loads((out / ".zmetadata").read_bytes())["metadata"]["zarr.json"]["attributes"]["jnrrdz"]["sources"]


def files_of_table(out):
    return [out / "__sources__" / f"{name}.parq" for name, _, _ in table_of(out)["files"]]


def states(folder):
    """Return what tells whether each file was written again."""
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in Path(folder).rglob("*")
        if path.is_file()
    }


# Manifests of before


def test_a_manifest_with_all_sources_in_zmetadata_is_read_and_renewed(place):
    out = place / "old.parquet"
    shutil.copytree(GOLDEN, out)
    for member in range(COUNT):
        write_scene(place, member)
    assert [record.url for record in load(str(out)).sources] == [f"scene_{member:03}.tif" for member in range(COUNT)]
    data = xr.open_dataset(out, engine="jnrrdz")["data"]
    np.testing.assert_array_equal(data[[0, 7, COUNT - 1]], [pixels(member) for member in (0, 7, COUNT - 1)])
    write_scene(place, 9, seed=1, gap=8)
    with pytest.raises(DriftError):
        data[9].load()
    assert jnrrdz.refresh(out).changed == ("scene_009.tif",)
    assert table_of(out)["count"] == COUNT
    np.testing.assert_array_equal(xr.open_dataset(out, engine="jnrrdz")["data"][9], pixels(9, 1))


# What is read


def test_opening_reads_no_file_of_the_table_and_a_window_one(merged, read):
    data = xr.open_dataset(merged, engine="jnrrdz")["data"]
    assert [name for name in read if "__sources__" in name] == []
    np.testing.assert_array_equal(data[30, :TILE, :TILE], pixels(30)[:TILE, :TILE])
    # the first source stands beside the table
    assert [name for name in read if "__sources__" in name] == [f"__sources__/{files_of_table(merged)[29 // 12].name}"]


def test_what_opening_reads_does_not_grow_with_the_sources(merged, place):
    few = merge(place / "few.parquet", 20)
    assert (merged / ".zmetadata").stat().st_size < (few / ".zmetadata").stat().st_size
    assert not (few / "__sources__").exists()


def test_other_readers_see_what_was_recorded(merged):
    tables = []
    for path in files_of_table(merged):
        with path.open("rb") as stream:
            tables.append(fastparquet.ParquetFile(stream).to_pandas())
    urls = [url for table in tables for url in table["url"]]
    assert urls == [f"scene_{member:03}.tif" for member in range(1, MEMBERS)]
    for table in tables:
        assert list(table["size"]) == [os.stat(url).st_size for url in table["url"]]  # noqa: PTH116
        assert set(table["last_modified"]) == {"2023-11-14T22:13:20Z"}
    assert table_of(merged)["first"] == {
        "url": "scene_000.tif",
        "size": os.stat("scene_000.tif").st_size,  # noqa: PTH116
        "last_modified": "2023-11-14T22:13:20Z",
    }
    assert {path.name for path in (merged / "__sources__").iterdir()} == {path.name for path in files_of_table(merged)}


def test_stock_fsspec_and_zarr_read_the_manifest(merged, stock):
    np.testing.assert_array_equal(stock(merged)["data"][[3, 50]], [pixels(3), pixels(50)])


def test_a_shard_of_drift_reads_its_part_of_the_table(merged, read):
    write_scene(merged.parent, 55, seed=1, written=5)
    read.clear()
    last = jnrrdz.verify(merged, drift=True, shard=(5, 5))
    assert {name for name in read if "__sources__" in name} == {
        f"__sources__/{files_of_table(merged)[number].name}" for number in (3, 4)
    }
    found = [*(jnrrdz.verify(merged, drift=True, shard=(shard, 5)) for shard in range(1, 5)), last]
    assert [part.sources for part in found] == [MEMBERS // 5] * 5
    assert [[finding.place for finding in part.findings] for part in found] == [[], [], [], [], ["scene_055.tif"]]


def test_a_store_is_pickled_without_what_it_has_read(merged):
    sources = load(str(merged)).sources
    size = len(pickle.dumps(sources))
    assert sources.find("scene_040.tif") == sources[40]
    assert len(pickle.dumps(sources)) == size
    assert pickle.loads(pickle.dumps(sources)).find("scene_040.tif") == sources[40]
    assert sources[38:] == tuple(sources)[38:]
    assert (sources.find("scene_1"), sources.find("a"), sources.find("z")) == (None, None, None)


# Trust and drift


def test_drift_is_refused_by_what_the_table_records(merged):
    write_scene(merged.parent, 30, gap=8)
    data = jnrrdz.open_group(merged)["data"]
    np.testing.assert_array_equal(data[31], pixels(31))
    with pytest.raises(DriftError):
        data[30]


def test_a_source_that_the_table_does_not_name_is_refused(merged, place):
    (place / "away").mkdir()
    group = group_from_manifest(load(str(merged)))
    parquet.write(group, str(place / "away" / "all.parquet"))
    out = place / "away" / "all.parquet"
    np.testing.assert_array_equal(jnrrdz.open_group(out)["data"][17], pixels(17))
    # another table of the same form, which lacks one source
    top = json.loads((out / ".zmetadata").read_bytes())
    root = top["metadata"]["zarr.json"]
    sources = [{"url": str(place / f"scene_{member:03}.tif")} for member in range(MEMBERS) if member != 17]
    root["attributes"]["jnrrdz"]["sources"] = sources
    shutil.rmtree(out / "__sources__")
    source_files.put_into_files(out, root)
    (out / ".zmetadata").write_text(json.dumps(top))
    data = jnrrdz.open_group(out)["data"]
    with pytest.warns(jnrrdz.errors.UntrustedSourceWarning):
        np.testing.assert_array_equal(data[18], pixels(18))
    with pytest.raises(UntrustedSourceError, match="table of sources does not name it"):
        data[17]
    np.testing.assert_array_equal(jnrrdz.open_group(out, allow=(str(place),))["data"][17], pixels(17))


# Tables that are not what was written


def changed(out, change):
    top = json.loads((out / ".zmetadata").read_bytes())
    change(top["metadata"]["zarr.json"]["attributes"]["jnrrdz"]["sources"])
    (out / ".zmetadata").write_text(json.dumps(top))


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.update(files=None),
        lambda table: table["files"].reverse(),
        lambda table: table["files"][0].__setitem__(0, "../../../secret0"),
        lambda table: table["files"][0].__setitem__(1, 1 << 40),
        lambda table: table.update(files=[["0123456789abcdef", True, "a"]]),
        lambda table: table["files"].append("x"),
        lambda table: table.update(first=None),
        lambda table: table.update(trees=["/"] * 2 + ["a"]),
        lambda table: table.update(trees=5),
    ],
)
def test_a_table_that_is_malformed_is_refused_when_it_is_opened(merged, change):
    changed(merged, change)
    with pytest.raises(MalformedError, match="sources"):
        load(str(merged))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "not those that were written"),
        (lambda path: path.write_bytes(b""), "not those that were written"),
        (Path.unlink, "open it again"),
    ],
)
def test_a_file_of_the_table_that_is_damaged_is_an_error(merged, damage, message):
    damage(files_of_table(merged)[1])
    data = jnrrdz.open_group(merged)["data"]
    np.testing.assert_array_equal(data[1], pixels(1))
    with pytest.raises(JnrrdzError, match=message):
        data[20]


def test_a_table_of_other_rows_than_it_tells_is_an_error(merged):
    changed(merged, lambda table: table["files"][1].__setitem__(1, 11))
    with pytest.raises(MalformedError, match="other sources than"):
        load(str(merged)).sources.find("scene_020.tif")


@pytest.mark.parametrize(
    ("column", "written"),
    [
        (pa.array(["e" * (1 << 20)] * 200).dictionary_encode(), {"use_dictionary": ["etag"]}),
        (pa.array(["e" * (1 << 20)] * 80 + [None] * 120), {"use_dictionary": False}),
    ],
    ids=["a value of many rows", "large values"],
)
def test_a_table_that_makes_much_of_little_is_refused_before_it_is_decoded(merged, column, written):
    nothing = pa.nulls(200, pa.string())
    columns = {"url": pa.array([f"scene_{row:03}.tif" for row in range(1, 201)]), "size": pa.nulls(200, pa.int64())}
    columns |= {"etag": column, "version_id": nothing, "last_modified": nothing}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd", store_schema=False, **written)
    data = sink.getvalue().to_pybytes()
    name = blake2b(data, digest_size=8).hexdigest()
    (merged / "__sources__" / f"{name}.parq").write_bytes(data)
    changed(merged, lambda table: table.update(files=[[name, 200, "scene_001.tif"]]))
    sources, before = load(str(merged)).sources, pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedError, match=r"in a dictionary|pages of more than"):
            sources.find("scene_005.tif")
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert len(data) < 1 << 16
    assert pa.total_allocated_bytes() - before < 32 << 20


def test_json_has_its_table_in_itself(merged, place):
    jnrrdz.convert(merged, place / "all.json")
    assert [record.url for record in load(str(place / "all.json")).sources] == [
        str(place / f"scene_{member:03}.tif") for member in range(MEMBERS)
    ]
    document = json.loads((place / "all.json").read_bytes())
    root = json.loads(document["refs"]["zarr.json"])
    root["attributes"]["jnrrdz"]["sources"] = table_of(merged)
    document["refs"]["zarr.json"] = json.dumps(root)
    (place / "all.json").write_text(json.dumps(document))
    with pytest.raises(MalformedError, match="no list"):
        load(str(place / "all.json"))


# Written anew


def test_a_refresh_writes_what_changed_and_nothing_else(merged, place):
    before = states(merged)
    write_scene(place, 30, seed=1, gap=8)
    write_scene(place, 7, seed=1, gap=16)
    assert set(jnrrdz.refresh(merged).changed) == {"scene_007.tif", "scene_030.tif"}
    after = states(merged)
    # chunks 28 to 31 and 120 to 123, in records of ten
    records = {"data/refs.2.parq", "data/refs.3.parq", "data/refs.12.parq"}
    assert {name for name in before.keys() & after.keys() if before[name] != after[name]} == {".zmetadata", *records}
    old, new = before.keys() - after.keys(), after.keys() - before.keys()
    assert {name.partition("/")[0] for name in old | new} == {"__sources__"}
    assert len(old) == len(new) == 2
    expected = [pixels(member, int(member in {7, 30})) for member in range(MEMBERS)]
    np.testing.assert_array_equal(xr.open_dataset(merged, engine="jnrrdz")["data"], expected)
    assert jnrrdz.refresh(merged).changed == ()
    assert jnrrdz.verify(merged).ok


def test_a_refresh_makes_what_a_merge_makes(merged, place):
    write_scene(place, 55, seed=1, gap=8)
    jnrrdz.refresh(merged)
    merge(place / "again.parquet")
    found, expected = (
        {name: state[2] for name, state in states(out).items()} for out in (merged, place / "again.parquet")
    )
    tops = [json.loads(files.pop(".zmetadata")) for files in (found, expected)]
    assert found == expected
    assert tops[0]["metadata"] == tops[1]["metadata"]


def test_a_refresh_along_another_axis_than_the_first(place, stock):
    for member in range(6):
        write_scene(place, member)
    out = place / "wide.parquet"
    jnrrdz.merge([f"scene_{member:03}.tif" for member in range(6)], "wide.json", concat_dim="x")
    parquet.write(group_from_manifest(load("wide.json")), str(out), record_size=5)
    before = states(out)
    write_scene(place, 2, seed=1, gap=8)
    jnrrdz.refresh(out)
    after = states(out)
    # chunks 4, 5 of the upper row and 16, 17 of the lower one
    assert {name for name in before if before[name] != after[name]} == {
        ".zmetadata",
        *(f"data/refs.{number}.parq" for number in (0, 1, 3)),
    }
    expected = np.concatenate([pixels(member, int(member == 2)) for member in range(6)], 1)
    np.testing.assert_array_equal(stock(out)["data"][...], expected)


def test_who_opened_it_before_a_refresh_reads_no_wrong_pixel(merged, place):
    opened = jnrrdz.open_group(merged)["data"]
    lazy = load(str(merged))
    np.testing.assert_array_equal(opened[8], pixels(8))  # the record of chunks 30 to 39, 7's last two among them
    write_scene(place, 7, seed=1, gap=16)
    jnrrdz.refresh(merged)
    with pytest.raises(JnrrdzError, match=r"was scanned|open it again|changed"):
        opened[7]
    assert lazy.sources.first.url == "scene_000.tif"
    np.testing.assert_array_equal(jnrrdz.open_group(merged)["data"][7], pixels(7, 1))


def test_a_refresh_of_a_manifest_that_is_being_replaced_writes_all_of_it(merged, place):
    """What a run leaves that was killed after its first switch."""
    top = json.loads((merged / ".zmetadata").read_bytes())
    folder = ".jnrrdz-0123456789abcdef"
    (merged / folder / "data").mkdir(parents=True)
    shutil.move(merged / "data/refs.3.parq", merged / folder / "data/refs.3.parq")
    over = {"folder": folder, "record_size": 10, "files": ["data/refs.3.parq"]}
    (merged / ".zmetadata").write_text(json.dumps({"metadata": top["metadata"], "jnrrdz": {"over": over}}))
    np.testing.assert_array_equal(jnrrdz.open_group(merged)["data"][8], pixels(8))
    write_scene(place, 40, seed=1, gap=16)
    jnrrdz.refresh(merged)
    assert not (merged / folder).exists()
    np.testing.assert_array_equal(jnrrdz.open_group(merged)["data"][40], pixels(40, 1))
    assert {path.name for path in (merged / "__sources__").iterdir()} == {path.name for path in files_of_table(merged)}


def test_a_cube_grows_and_who_opened_it_before_reads_on(place):
    names = [
        f"d_{text.replace('-', '')}.tif"
        for text in np.datetime_as_string(np.arange("2020-01-01", "2020-02-15", dtype="M8[D]"))
    ]
    for number, name in enumerate(names):
        writers.geotiff(name, pixels(0, number), tiled=True, blockxsize=16, blockysize=16, **writers.PLACE)
    out = place / "cube.parquet"
    jnrrdz.cube(names[:30], out, time_from=r"_(\d{8})")
    older = jnrrdz.open_group(out)
    before = states(out)
    jnrrdz.cube(names[30:38], out, time_from=r"_(\d{8})", append=True)
    after = states(out)
    assert [name for name in before if after.get(name) == before[name] and "__sources__" in name] != []
    for number in (5, 24, 29):
        np.testing.assert_array_equal(older["data"][number, 0], pixels(0, number))
    for number in (5, 29, 37):
        np.testing.assert_array_equal(jnrrdz.open_group(out)["data"][number, 0], pixels(0, number))
    jnrrdz.cube(names[38:], out, time_from=r"_(\d{8})", append=True)
    top = json.loads((out / ".zmetadata").read_bytes())
    there = {f"__sources__/{path.name}" for path in (out / "__sources__").iterdir()}
    # of files that are not needed any more those of the last time are left
    assert there == {f"__sources__/{name}.parq" for name, _, _ in table_of(out)["files"]} | set(top["jnrrdz"]["stale"])
    assert len(top["jnrrdz"]["stale"]) == 1
    assert len({record.url for record in load(str(out)).sources}) == len(names)
