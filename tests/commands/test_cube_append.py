"""Cubes that get longer in their place: what is written and what is not, and who reads the older one meanwhile."""

from pathlib import Path
from urllib.parse import urlsplit

import fsspec
import icechunk
import numpy as np
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner

import jnrrdz
from jnrrdz import cube
from jnrrdz.cli import cli
from jnrrdz.core.cube import Cube
from jnrrdz.core.cube_growth import extension, scenes_of
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from jnrrdz.manifests import icechunk as icechunk_form
from jnrrdz.manifests import parquet
from jnrrdz.manifests.groups import group_from_manifest
from jnrrdz.manifests.manifest import load, load_outline
from jnrrdz.options import WriteOptions
from tests import writers
from tests.commands.archive import DATES, LEFT, items, saved, write
from tests.servers.fixtures import bucket, make_proxy, seaweed

__all__ = ["bucket", "make_proxy", "seaweed"]

pytestmark = pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated")
RULES = {"time_from": r"d_(\d{8})"}
MORE = {**RULES, "append": True}
CHUNKS = 4
"""Of each file."""


def pixels(number):
    return np.random.default_rng(number).integers(1, 9999, (128, 128)).astype("u2")


@pytest.fixture
def day(tmp_path):
    """Return a function that gives the file of a day, of 2 by 2 chunks."""

    def made(number):
        path = tmp_path / f"d_202406{number:02}.tif"
        if not path.exists():
            write(path, pixels(number), 10)
        return str(path)

    return made


def small_records(files, out, size=3):
    """Write a cube as Parquet with so few chunks in a record that there are several."""
    whole = Path(out).with_suffix(".json")
    cube(files, whole, **RULES)
    parquet.write(group_from_manifest(load(str(whole))), str(out), record_size=size)


def states(folder):
    """Return which file each name is, when it was written, and its bytes."""
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in Path(folder).rglob("*")
        if path.is_file()
    }


def by_zarr(store):
    """Return what zarr without jnrrdz's store opens: references by fsspec."""
    return zarr.open_group(fsspec.get_mapper("reference://", fo=str(store), skip_instance_cache=True), mode="r")


def repository(path, *sources):
    access = {f"file://{folder}/": icechunk.credentials.LocalFileSystemAccess for folder in sources}
    storage = icechunk.local_filesystem_storage(str(path))
    return icechunk.Repository.open(storage, authorize_virtual_chunk_access=access or None)


@pytest.mark.parametrize("name", ["c.json", "c.parquet", "c.icechunk"])
def test_a_longer_cube_is_what_all_files_make(tmp_path, name):
    first, second = items(tmp_path, DATES[:2]), items(tmp_path, DATES[2:])
    cube([], tmp_path / name, stac=[saved(tmp_path, first)])
    before = xr.open_dataset(tmp_path / name, engine="jnrrdz", group="10m")
    made = cube([], tmp_path / name, stac=[saved(tmp_path, second, "more.json")], append=True)
    assert (made.files, made.times, made.chunks, made.missing, made.rewritten) == (8, 1, 80, 0, None) or "json" in name
    cube([], tmp_path / "whole.json", stac=[saved(tmp_path, first + second, "all.json")])
    for group in ("10m", "20m"):
        whole = xr.open_dataset(tmp_path / "whole.json", engine="jnrrdz", group=group)
        after = xr.open_dataset(tmp_path / name, engine="jnrrdz", group=group)
        assert after.sizes["time"] == 3
        xr.testing.assert_identical(after.drop_attrs(), whole.drop_attrs())
        assert after["data"].attrs == whole["data"].attrs
    if name != "c.json":
        # read only now; what JSON says is in memory anyway
        whole = xr.open_dataset(tmp_path / "whole.json", engine="jnrrdz", group="10m")
        xr.testing.assert_equal(before["data"], whole["data"].isel(time=slice(0, 2)))
    sources = {record.url for record in load(str(tmp_path / name)).sources}
    assert sources == {record.url for record in load(str(tmp_path / "whole.json")).sources}
    assert jnrrdz.verify(tmp_path / name).ok


def test_parquet_writes_only_the_records_that_get_chunks(day, tmp_path):
    out = tmp_path / "c.parquet"
    small_records([day(1), day(2)], out)
    before = states(out)
    made = cube([day(3)], out, **MORE)
    after = states(out)
    assert (made.files, made.times, made.chunks) == (1, 1, CHUNKS)
    # 8 chunks in records of 3 were two records and two chunks of a third, which gets one; the other three are a fourth
    changed = {name for name, state in before.items() if after[name] != state}
    assert changed == {".zmetadata", "data/refs.2.parq", "time/refs.0.parq"}
    assert after.keys() - before.keys() == {"data/refs.3.parq"}
    assert [load(str(out)).arrays["data"].record(number).chunks for number in range(4)] == [3, 3, 3, 3]
    for number in (4, 5, 6):
        cube([day(number)], out, **MORE)
    np.testing.assert_array_equal(by_zarr(out)["data"][:, 0], [pixels(number) for number in range(1, 7)])


def test_who_opened_the_older_parquet_reads_it_afterwards(day, tmp_path):
    out = tmp_path / "c.parquet"
    small_records([day(1), day(2)], out)
    expected = [pixels(1), pixels(2)]
    opened = {"ours": jnrrdz.open_group(out), "fsspec's": by_zarr(out)}  # no record has been read
    lazy = xr.open_dataset(out, engine="jnrrdz", chunks={}, mask_and_scale=False)
    times = fsspec.filesystem("reference", fo=str(out), skip_instance_cache=True).cat_file("time/0")
    cube([day(number) for number in (3, 4, 5)], out, **MORE)
    longer = fsspec.filesystem("reference", fo=str(out), skip_instance_cache=True).cat_file("time/0")
    # a chunk of the axis stays as long as it is, and holds the older times where they were
    assert (len(longer), longer[: 2 * 8]) == (len(times), times[: 2 * 8])
    assert longer != times
    for name, group in opened.items():
        assert group["time"].shape == (2,), name
        np.testing.assert_array_equal(group["time"][...], jnrrdz.open_group(out)["time"][:2], name)
        np.testing.assert_array_equal(group["data"][:, 0], expected, name)
    np.testing.assert_array_equal(lazy["data"][:, 0].compute(), expected)
    assert jnrrdz.open_group(out)["data"].shape[0] == 5


def test_a_time_axis_of_several_chunks_grows(day, tmp_path):
    """More times than one chunk of the axis holds; all of them show one file's pixels."""
    group = jnrrdz.scan(day(1))
    days = np.arange("2020-01-01", "2020-03-11", dtype="M8[D]")
    for form in ("parquet", "icechunk"):
        out = tmp_path / f"c.{form}"
        names = [f"d_{text.replace('-', '')}.json" for text in np.datetime_as_string(days)]
        for name in names:
            jnrrdz.write(group, tmp_path / name, overwrite=True)
        cube([str(tmp_path / name) for name in names[:60]], out, **RULES)
        older = jnrrdz.open_group(out)
        for many in (names[60:65], names[65:70]):
            assert cube([str(tmp_path / name) for name in many], out, **MORE).rewritten is None
        found = xr.open_dataset(out, mask_and_scale=False)
        np.testing.assert_array_equal(found["time"], days)
        np.testing.assert_array_equal(older["time"][...], jnrrdz.open_group(out)["time"][:60])
        np.testing.assert_array_equal(found["data"][-1, 0], pixels(1))


@pytest.mark.parametrize("opened_at", ["before", "snapshot"])
def test_icechunk_commits_the_new_references_and_keeps_its_manifests(day, tmp_path, monkeypatch, opened_at):
    monkeypatch.setattr(icechunk_form, "SPLIT", CHUNKS)  # a manifest for each date
    out = tmp_path / "c.icechunk"
    cube([day(1), day(2), day(3)], out, **RULES)
    repo = repository(out, tmp_path)
    old = repo.lookup_branch("main")
    session = repo.readonly_session("main")
    kept = {file.id for file in repo.list_manifest_files(old)}
    cube([day(4)], out, **MORE)
    repo = repository(out, tmp_path)
    new = repo.lookup_branch("main")
    change = repo.diff(from_snapshot_id=old, to_snapshot_id=new)
    assert {tuple(index) for index in change.updated_chunks["/data"]} == {
        (3, 0, row, column) for row in (0, 1) for column in (0, 1)
    }
    assert {tuple(index) for index in change.updated_chunks["/time"]} == {(0,)}
    assert change.updated_chunks.keys() == {"/data", "/time"}
    assert (change.new_arrays, change.deleted_arrays) == (set(), set())
    data = [file for file in repo.list_manifest_files(new) if file.num_chunk_refs == CHUNKS]
    assert len(data) == 4
    assert len(kept & {file.id for file in data}) == 3
    if opened_at == "snapshot":
        session = repo.readonly_session(snapshot_id=old)
    group = zarr.open_group(session.store, mode="r")
    np.testing.assert_array_equal(group["data"][:, 0], [pixels(number) for number in (1, 2, 3)])
    np.testing.assert_array_equal(np.diff(group["time"][...]), [86400, 86400])
    messages = [entry.message for entry in repo.ancestry(branch="main")]
    assert (messages[0], len(messages)) == ("Add 1 sources with jnrrdz", 3)


def test_many_references_are_several_commits_that_main_gets_at_once(day, tmp_path, monkeypatch):
    monkeypatch.setattr(icechunk_form, "SPLIT", CHUNKS)
    monkeypatch.setattr(icechunk_form, "TOGETHER", 2 * CHUNKS)
    out, seen = tmp_path / "c.icechunk", []
    cube([day(1)], out, **RULES)
    commit = icechunk.Session.commit

    def watched(session, *arguments, **options):
        repo = repository(out, tmp_path)
        seen.append(zarr.open_group(repo.readonly_session("main").store, mode="r")["data"].shape[0])
        return commit(session, *arguments, **options)

    monkeypatch.setattr(icechunk.Session, "commit", watched)
    cube([day(number) for number in range(2, 9)], out, **MORE)
    assert len(seen) >= 4
    assert set(seen) == {1}
    repo = repository(out, tmp_path)
    assert repo.list_branches() == {"main"}
    assert len(list(repo.ancestry(branch="main"))) == 2 + len(seen)
    group = zarr.open_group(repo.readonly_session("main").store, mode="r")
    np.testing.assert_array_equal(group["data"][:, 0], [pixels(number) for number in range(1, 9)])


def test_s3_gets_only_what_is_new(day, seaweed, bucket, make_proxy, tmp_path):
    plain = seaweed.options(client_kwargs={"region_name": "us-east-1"})
    for number in (1, 2, 3):
        seaweed.put(bucket, f"d_2024060{number}.tif", Path(day(number)).read_bytes())
    urls = [f"s3://{bucket}/d_2024060{number}.tif" for number in (1, 2, 3)]
    out = f"s3://{bucket}/c.parquet"
    cube(urls[:2], tmp_path / "c.json", **RULES, storage_options=plain)
    group = group_from_manifest(load(str(tmp_path / "c.json")), allow=("*",))
    parquet.write(group, out, WriteOptions(target_options=plain), record_size=3)
    older = jnrrdz.open_group(out, storage_options=plain, source_options=plain)
    proxy = make_proxy(seaweed.port)
    far = seaweed.options(endpoint_url=proxy.url, client_kwargs={"region_name": "us-east-1"})
    made = cube(urls[2:], out, **MORE, storage_options=far, target_options=far)
    assert made.rewritten is None
    asked = [(one.method, urlsplit(one.path).path.removeprefix(f"/{bucket}/")) for one in proxy.requests]
    put = [path for method, path in asked if method == "PUT"]
    assert sorted(put) == [
        "c.parquet/.zmetadata",
        "c.parquet/.zmetadata",
        "c.parquet/data/refs.2.parq",
        "c.parquet/data/refs.3.parq",
        "c.parquet/time/refs.0.parq",
    ]
    assert put[-1] == "c.parquet/.zmetadata"
    read = {path for method, path in asked if method == "GET" and path.endswith(".parq")}
    assert read == {f"c.parquet/{name}.parq" for name in ("data/refs.2", "time/refs.0", "spatial_ref/refs.0")}
    np.testing.assert_array_equal(older["data"][:, 0], [pixels(1), pixels(2)])
    newer = jnrrdz.open_group(out, storage_options=plain, source_options=plain)
    np.testing.assert_array_equal(newer["data"][:, 0], [pixels(1), pixels(2), pixels(3)])


REASONS = {
    "between": ("d_20240602_B0.tif", "a file is not later than the last time"),
    "another band": ("d_20240609_B1.tif", "a file has a new band"),
    "beside": ("d_20240609_B0_beside.tif", "a file lies beyond its edges"),
    "finer": ("d_20240609T101112.5_B0.tif", "a time needs a finer unit"),
}


@pytest.mark.parametrize("form", ["parquet", "icechunk"])
@pytest.mark.parametrize("name", REASONS)
def test_what_is_no_later_time_is_written_anew_and_told(day, tmp_path, name, form):
    file, reason = REASONS[name]
    write(tmp_path / file, pixels(30), 10, left=LEFT + (1280 if name == "beside" else 0))
    for number in (1, 3):
        Path(day(number)).rename(tmp_path / f"d_2024060{number}_B0.tif")
    older, newer = [str(tmp_path / f"d_2024060{number}_B0.tif") for number in (1, 3)], str(tmp_path / file)
    out, whole, rules = (
        tmp_path / f"c.{form}",
        tmp_path / "whole.json",
        {"time_from": r"d_([\dT.]+)_", "band_from": r"_(B\d)"},
    )
    cube(older, out, **rules)
    words = ["--time-from", rules["time_from"], "--band-from", rules["band_from"]]
    if form == "parquet":  # who has it open reads its records by name
        before = states(out)
        run = CliRunner().invoke(cli, ["cube", newer, "-o", str(out), "--append", *words])
        assert (run.exit_code, states(out)) == (1, before)
        assert f"{reason}, so that the cube has to be written anew" in run.stderr
        words.append("--overwrite")
    run = CliRunner().invoke(cli, ["cube", newer, "-o", str(out), "--append", *words])
    assert run.exit_code == 0, run.output
    assert f"written anew, not only added to: {reason}" in run.stderr
    cube([*older, newer], whole, **rules)
    after, wanted = (xr.open_dataset(path, engine="jnrrdz") for path in (out, whole))
    xr.testing.assert_equal(after, wanted)


def test_of_two_runs_that_add_to_one_cube_the_second_is_refused(day, tmp_path):
    for form in ("parquet", "icechunk"):
        out = str(tmp_path / f"c.{form}")
        cube([day(1)], out, **RULES)
        old, recorded = group_from_manifest(load_outline(out), outline=True), load_outline(out).sources
        made = Cube()
        for scene in scenes_of(old, out, last=True):
            made.add(scene)
        cube([day(2)], tmp_path / "two.json", **RULES, overwrite=True)
        for scene in scenes_of(group_from_manifest(load(str(tmp_path / "two.json"))), "two"):
            made.add(scene)
        more = extension(old, made.finish().group, out)
        module = {"parquet": parquet, "icechunk": icechunk_form}[form]
        module.extend(more, recorded, out, WriteOptions())
        with pytest.raises(JnrrdzError, match=r"changed (it|the repository) meanwhile; append again"):
            module.extend(more, recorded, out, WriteOptions())
        np.testing.assert_array_equal(jnrrdz.open_group(out)["data"][:, 0], [pixels(1), pixels(2)])


def test_a_file_that_changed_is_not_added_to_what_is_left_of_it(day, tmp_path):
    out = tmp_path / "c.parquet"
    cube([day(1), day(2)], out, **RULES)
    with Path(day(2)).open("ab") as file:
        file.write(b"longer")
    with pytest.raises(UnrepresentableError, match="changed since the cube was made of it; make the cube anew"):
        cube([day(2)], out, **MORE)


def test_interleaved_bands_are_added_too(tmp_path):
    random, both = np.random.default_rng(5), []
    for number in (1, 2):
        both.append(random.integers(1, 255, (3, 64, 64)).astype("u1"))
        options = {"tiled": True, "blockxsize": 32, "blockysize": 32, "interleave": "pixel", **writers.PLACE}
        writers.geotiff(tmp_path / f"d_2024060{number}.tif", both[-1], **options)
    out = tmp_path / "c.parquet"
    cube([str(tmp_path / "d_20240601.tif")], out, **RULES)
    assert cube([str(tmp_path / "d_20240602.tif")], out, **MORE).rewritten is None
    np.testing.assert_array_equal(jnrrdz.open_group(out)["data"][...], both)
