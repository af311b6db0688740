"""Each writer, interrupted at each of its operations: the older output is there whole or the newer one.

Of writers with many operations some are tried, spread over all; JNRRDZ_EVERY_OPERATION=1 tries all, and
JNRRDZ_OPERATIONS_TABLE=FILE has a line written to a file for each case: how many there are, and were tried.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import tifffile
import zarr

import jnrrdz
from jnrrdz import api
from jnrrdz.batches.run import batch
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError
from jnrrdz.manifests import atomic, icechunk, parquet, source_files
from jnrrdz.manifests.groups import group_from_manifest
from jnrrdz.manifests.manifest import load
from jnrrdz.options import WriteOptions
from tests import writers
from tests.manifests import many_sources
from tests.manifests.failing import (
    FAULTS,
    REMOVALS,
    Failing,
    OneFault,
    RefusingProxy,
    failing_folder,
    failing_store,
)

OLD = np.arange(1024, dtype="<u2").reshape(32, 32)
NEW = OLD + 5000
STRANGERS = {"notes.txt": b"of others", ".out.tmp": b"of others too", "o.tiles.bak/0/0_0.raw": b"tiles of others"}
TRIED = 3
TRIED_FAR = 2
"""Operations of a case that are tried in a usual run."""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Work in a folder beside the sources."""
    for name, pixels in (("old", OLD), ("new", NEW)):
        tifffile.imwrite(tmp_path / f"{name}.tif", pixels, tile=(16, 16))
        _n5(tmp_path / f"{name}.n5" / "a", pixels)
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    return tmp_path / "out"


def _n5(path, pixels):
    writers.n5_dataset(path, pixels, [16, 16], "raw")


@dataclass
class At:
    """Where outputs go: the working directory, or a bucket."""

    base: str = ""
    options: dict | None = None
    server: object = None

    def __call__(self, name):
        """Return an output's name."""
        return f"{self.base}{name}"

    def has(self, name):
        """Whether anything is there."""
        if self.server is None:
            return os.path.lexists(name)
        return any(f"{key}/".startswith(f"{name}/") for key in self.server.keys(self.base.split("/")[2]))

    def opened(self, name):
        """Return the root group of an output."""
        own = self.options if name.endswith(".jnrrd") else {}  # its tiles are where it is
        return jnrrdz.open_group(self(name), storage_options=self.options, source_options=own, allow=("*",))


def source(name):
    return os.path.abspath(f"../{name}.tif")  # noqa: PTH100  a URL's spelling


def whose(pixels):
    return next(name for name, wanted in (("old", OLD), ("new", NEW)) if np.array_equal(pixels, wanted))


def state_of_pixels(at, target):
    """Return whose pixels an output has, None where there is no output."""
    if not at.has(target):
        return None
    try:
        group = at.opened(target)
    except MalformedError as error:
        if "its writer was stopped" in str(error):
            return None
        raise
    return whose(group["data" if "data" in group else "0/data"][...].squeeze())


def indexed(name, at, target):
    jnrrdz.index(source(name), at(target), overwrite=True, target_options=at.options)


def merged(name, at, target):
    jnrrdz.merge([source(name)] * 2, at(target), concat_dim="t", overwrite=True, target_options=at.options)


def state_of_stack(at, target):
    if not at.has(target):
        return None
    first, second = at.opened(target)["data"][...]
    assert np.array_equal(first, second)
    return whose(first)


def converted(name, at, target):
    jnrrdz.index(source(name), f"../{name}.json", overwrite=True)
    jnrrdz.convert(f"../{name}.json", at(target), overwrite=True, target_options=at.options)


def records(name, at, target):
    """Have two records, so that there are several files."""
    form = WriteOptions(overwrite=True, single_range=True, target_options=at.options)
    parquet.write(jnrrdz.scan(source(name)), at(target), form, record_size=2)


def refreshed(name, at, target):
    shutil.copyfile(source(name), "../it.tif")
    os.utime("../it.tif", {"old": (1e9, 1e9), "new": (2e9, 2e9)}[name])
    if name == "old":
        jnrrdz.index("../it.tif", at(target), overwrite=True, target_options=at.options)
    else:
        jnrrdz.refresh(at(target), storage_options=at.options, source_options={}, allow=("*",))


def state_of_record(at, target):
    target = at(target) if at.base else os.path.abspath(target)  # noqa: PTH100  the name of a manifest
    manifest = load(target, storage_options=at.options)
    assert manifest.arrays["data"].columns().chunks == 4
    years = {record.modified[:4] for record in manifest.sources}
    return {"2001": "old", "2033": "new"}[years.pop()]


def tiled(name, at, target):
    options = {"tile": (16, 16), "levels": 2, "jobs": 1, "overwrite": True, "target_options": at.options}
    jnrrdz.tile(source(name), at(target), external="external" in target, **options)


def in_place(name, at, target):
    if name == "old" and at.server is None:
        shutil.copytree("../old.n5", target)
    elif name == "old":
        for path in files(Path("../old.n5")):
            at.server.put(at.base.split("/")[2], f"{target}/{path}", Path("../old.n5", path).read_bytes())
    chain = {"chain": "n5_default"} if name == "new" else {}
    api.index_in_place(at(target), overwrite=True, storage_options=at.options, **chain)


def state_of_documents(at, target):
    """Return which codecs the documents name; the pixels are the same."""
    if not at.has(f"{target}/zarr.json"):
        return None
    group = zarr.open_group(at(target), mode="r", storage_options=at.options)
    assert np.array_equal(group["a"][...], OLD)
    return group["a"].metadata.to_dict()["codecs"][0]["name"]


def reported(name, at, target):  # noqa: ARG001  a report is a local file
    batch([source(name)], f"{name}.json", report=target, overwrite=True)


def state_of_report(at, target):
    """A report grows by lines: each is whole, and of one run."""
    if not at.has(target):
        return None
    names = {Path(json.loads(line)["output"]).stem for line in Path(target).read_text(encoding="utf-8").splitlines()}
    for name in ("old", "new"):
        assert state_of_pixels(at, f"{name}.json") in (name, None)
    return names.pop() if names else "new"


def by_icechunk(at, target):
    """Return the root group of a repository's branch as Icechunk itself opens it, None where there is none."""
    import icechunk  # noqa: PLC0415  may not be installed

    from jnrrdz.manifests.icechunk import storage_of  # noqa: PLC0415  the same place, by its options

    prefix = Path(source("old")).parent.as_uri() + "/"
    access = {prefix: icechunk.credentials.LocalFileSystemAccess}
    storage = storage_of(at(target), at.options or {})
    if not icechunk.Repository.exists(storage):
        return None
    session = icechunk.Repository.open(storage, authorize_virtual_chunk_access=access).readonly_session("main")
    return zarr.open_group(session.store, mode="r")


def state_of_icechunk(at, target):
    group = by_icechunk(at, target) if at.has(target) else None
    return whose(group["data"][...]) if group is not None and "data" in group else None


DAYS = ("20240101", "20240102", "20240103")


def grown(name, at, target):
    """Have a cube of two days, and add the third unless it is there; records are small, so that there are several."""
    missing = [number for number, day in enumerate(DAYS) if not Path(f"../g_{day}.tif").exists()]
    for number in missing:
        writers.geotiff(
            f"../g_{DAYS[number]}.tif", OLD + number, tiled=True, blockxsize=16, blockysize=16, **writers.PLACE
        )
    choices = {"time_from": "_([0-9]{8})", "target_options": at.options, "allow": ("*",)}
    if name == "new":
        try:
            jnrrdz.cube([source(f"g_{DAYS[2]}")], at(target), append=True, **choices)
        except UnrepresentableError as error:
            if "a file is not later than the last time" not in str(error) and "have the same pixels" not in str(error):
                raise
            atomic.sweep_folder(os.curdir)  # as any run does that writes there
        return
    days = [source(f"g_{day}") for day in DAYS[:2]]
    if target.endswith(".parquet"):
        jnrrdz.cube(days, "../g.json", time_from="_([0-9]{8})", overwrite=True)
        form = WriteOptions(overwrite=True, target_options=at.options)
        parquet.write(group_from_manifest(load(os.path.abspath("../g.json"))), at(target), form, record_size=3)  # noqa: PTH100  a URL's spelling
    else:
        jnrrdz.cube(days, at(target), overwrite=True, **choices)


def grown_in_parts(name, at, target):
    """Do the same in commits of four references each."""
    kept = icechunk.SPLIT, icechunk.TOGETHER
    icechunk.SPLIT, icechunk.TOGETHER = 2, 4
    try:
        grown(name, at, target)
    finally:
        icechunk.SPLIT, icechunk.TOGETHER = kept


def state_of_cube(at, target):
    if not at.has(target):
        return None
    if target.endswith(".icechunk"):
        group = by_icechunk(at, target)
    else:
        group = jnrrdz.open_group(at(target), storage_options=at.options, source_options={}, allow=("*",))
    assert group["time"].shape == group["data"].shape[:1]
    assert np.array_equal(np.diff(group["time"][...]), [86400] * (group["time"].shape[0] - 1))
    for number, pixels in enumerate(group["data"][...]):
        assert np.array_equal(pixels[0], OLD + number)
    return {2: "old", 3: "new"}[group["data"].shape[0]]


def renewed(name, at, target):
    """Have a stack of four files, whose table of sources is in files, and refresh it after one of them has changed."""
    kept = source_files.MANY, source_files.ROWS
    source_files.MANY, source_files.ROWS = 1, 2
    try:
        if name == "new":
            many_sources.write_scene("..", 1, seed=1, written=2e9, gap=64)
            jnrrdz.refresh(at(target), storage_options=at.options, source_options={}, allow=("*",))
            return
        for member in range(4):
            many_sources.write_scene("..", member, written=1e9)
        jnrrdz.merge([source(f"scene_{member:03}") for member in range(4)], "../m.json", concat_dim="t", overwrite=True)
        form = WriteOptions(overwrite=True, target_options=at.options)
        parquet.write(group_from_manifest(load(os.path.abspath("../m.json"))), at(target), form, record_size=3)  # noqa: PTH100  a URL's spelling
    finally:
        source_files.MANY, source_files.ROWS = kept


def state_of_member(at, target):
    """Return what the manifest says of the file that changes: its time, and where its pixels begin."""
    manifest = load(at(target) if at.base else os.path.abspath(target), storage_options=at.options)  # noqa: PTH100  the name of a manifest
    url = source("scene_001")
    refs = manifest.arrays["data"].columns()
    begin = min(offset for chunk in range(16) for name, offset, _ in refs.ranges(chunk) if name == url)
    assert len(manifest.sources) == len({record.url for record in manifest.sources}) == 4
    return {("2001", 166): "old", ("2033", 230): "new"}[manifest.records[url].modified[:4], begin]


@dataclass
class Case:
    """A writer, and what tells whose output is there."""

    write: object
    target: str
    state: object = state_of_pixels
    only_replaces: bool = False
    is_same_again: bool = True
    """Whether a run after one that failed ends with the same names."""


CASES = {
    "json": Case(indexed, "out.json"),
    "parquet": Case(records, "out.parquet"),
    "icechunk": Case(indexed, "out.icechunk", state_of_icechunk, is_same_again=False),  # it has a history
    "in place": Case(in_place, "c.n5", state_of_documents, only_replaces=True),
    "tile": Case(tiled, "o.jnrrd"),
    "tile, external": Case(tiled, "external.jnrrd", is_same_again=False),  # its folder's name differs
    "merge": Case(merged, "out.json", state_of_stack),
    "convert": Case(converted, "out.json"),
    "convert, parquet": Case(converted, "out.parquet"),
    "refresh": Case(refreshed, "out.json", state_of_record, only_replaces=True),
    # what is up to date already is left as it is
    "refresh, parquet": Case(refreshed, "out.parquet", state_of_record, only_replaces=True, is_same_again=False),
    "refresh, in parts": Case(renewed, "out.parquet", state_of_member, only_replaces=True, is_same_again=False),
    "cube, parquet": Case(grown, "out.parquet", state_of_cube, only_replaces=True),
    "cube, icechunk": Case(grown, "out.icechunk", state_of_cube, only_replaces=True, is_same_again=False),
    "cube, icechunk, parts": Case(
        grown_in_parts, "out.icechunk", state_of_cube, only_replaces=True, is_same_again=False
    ),
    "report": Case(reported, "report.jsonl", state_of_report),
}


def files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def saved(folder, case, *, older):
    """Write what is there before a run, and keep a copy."""
    for name, data in STRANGERS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    if older:
        case.write("old", At(), case.target)
        if (folder / case.target).is_dir():
            (folder / case.target / "notes.txt").write_bytes(b"of others")
    shutil.copytree(folder, folder.with_name("saved"), copy_function=shutil.copy2)


def restored(folder):
    shutil.rmtree(folder)
    shutil.copytree(folder.with_name("saved"), folder, copy_function=shutil.copy2)
    os.chdir(folder)


def strangers_are_there(folder):
    for name, data in STRANGERS.items():
        assert (folder / name).read_bytes() == data
    for path in folder.rglob("notes.txt"):
        assert path.read_bytes() == b"of others"


def tried(count, most=TRIED):
    if os.environ.get("JNRRDZ_EVERY_OPERATION"):
        return range(count)
    return sorted({round(number * (count - 1) / (most - 1)) for number in range(most)})


def note(*columns):
    table = os.environ.get("JNRRDZ_OPERATIONS_TABLE")
    if table:
        with Path(table).open("a", encoding="utf-8") as lines:
            lines.write("\t".join(map(str, columns)) + "\n")


def ends(case, at):
    """Whether a run ends without an error."""
    try:
        case.write("new", at, case.target)
    except (JnrrdzError, OSError, KeyboardInterrupt):
        return False
    return True


LOCAL = [(name, older) for name, case in CASES.items() for older in (False, True) if older or not case.only_replaces]


@pytest.mark.parametrize(("name", "older"), LOCAL, ids=str)
def test_a_local_writer_that_fails_at_an_operation(place, monkeypatch, name, older):
    if "icechunk" in name:
        pytest.importorskip("icechunk")
    case, at = CASES[name], At()
    saved(place, case, older=older)
    state = case.state(at, case.target) if older else None
    whole = Failing()
    with failing_folder(monkeypatch, place, whole):
        case.write("new", at, case.target)
    newer, after = case.state(at, case.target), files(place)
    assert newer != state
    done = 0
    for number in tried(len(whole.done)):
        for fault in FAULTS:
            restored(place)
            failing = Failing(fault, number)
            with failing_folder(monkeypatch, place, failing):
                is_done = ends(case, at)
            where = f"{fault} at {number}, {failing.failed}, of {whole.done}"
            assert case.state(at, case.target) in ((newer,) if is_done else (state, newer)), where
            strangers_are_there(place)
            # a folder is opened to be removed; a run may have read one file less than the first did
            is_removing = set(whole.done[number + 1 :]) <= {*REMOVALS, "open"}
            if failing.failed not in REMOVALS and name != "report" and not is_removing:
                assert not temporary(files(place)), where
            case.write("new", at, case.target)
            assert case.state(at, case.target) == newer, where
            assert not case.is_same_again or files(place) == after, where
            assert not temporary(files(place)), where
            strangers_are_there(place)
            done += 1
    note(name, "local", "replaces" if older else "new", len(whole.done), done)


def temporary(names):
    return [name for name in names if name.endswith(".jnrrdz") or ".jnrrdz/" in name]


# Remote


REMOTE = [(name, older) for name, older in LOCAL if name != "report"]


def objects(server, bucket):
    return {key: server.get(bucket, key) for key in server.keys(bucket)}


def put_back(server, bucket, wanted):
    there = objects(server, bucket)
    for key in set(there) - set(wanted):
        server.client.delete_object(Bucket=bucket, Key=key)
    for key, data in wanted.items():
        if there.get(key) != data:
            server.put(bucket, key, data)


@pytest.mark.parametrize(("name", "older"), REMOTE, ids=str)
@pytest.mark.parametrize("way", ["refused", "interrupted", "interrupted after"])
def test_a_remote_writer_that_fails_at_a_request(seaweed, bucket, monkeypatch, name, older, way):  # noqa: PLR0913, PLR0917  three of them are fixtures
    if "icechunk" in name:
        pytest.importorskip("icechunk")
        if way != "refused":
            pytest.skip("its requests are not Python's")
    case = CASES[name]
    proxy = RefusingProxy(seaweed.port, OneFault()).start()
    try:
        options = seaweed.options(endpoint_url=proxy.url, client_kwargs={"region_name": "us-east-1"})
        at = At(f"s3://{bucket}/", options, seaweed)
        _every_request(_Run(case, at, proxy, bucket, monkeypatch), name, way, older=older)
    finally:
        proxy.close()


@dataclass
class _Run:
    case: Case
    at: At
    proxy: RefusingProxy
    bucket: str
    monkeypatch: object

    def state(self):
        return self.case.state(self.at, self.case.target)

    def count(self, way, number=None):
        """Write the newer output, and return the operations, and whether it ended without an error."""
        if way == "refused":
            self.proxy.faults = OneFault(number)
            is_done = ends(self.case, self.at)
            seen = self.proxy.faults.seen
            self.proxy.faults = OneFault()
            return seen, is_done
        failing = Failing(way, number)
        with failing_store(self.monkeypatch, atomic.locate(self.at("x"), self.at.options).fs, failing):
            is_done = ends(self.case, self.at)
        return failing.done, is_done


def _every_request(run, name, way, *, older):
    server = run.at.server
    for key, data in STRANGERS.items():
        server.put(run.bucket, key, data)
    if older:
        run.case.write("old", run.at, run.case.target)
    before, state = objects(server, run.bucket), run.state() if older else None
    whole, is_done = run.count(way)
    newer, after = run.state(), set(server.keys(run.bucket))
    assert (is_done, newer != state) == (True, True)
    done = 0
    for number in tried(len(whole), TRIED_FAR):
        put_back(server, run.bucket, before)
        seen, is_done = run.count(way, number)
        where = f"{way} at {number}, {seen[number:][:1]}, of {whole}"
        there = objects(server, run.bucket)
        assert {key: there[key] for key in STRANGERS} == STRANGERS, where
        assert run.state() in ((newer,) if is_done else (state, newer)), where
        # Icechunk writes by itself, and keeps what no snapshot names
        if (
            way == "refused"
            and "icechunk" not in name
            and run.state() == state
            and not {"DELETE", "POST"} & set(seen[number : number + 1])
        ):
            assert there.keys() == before.keys(), where
        done += 1
        if "icechunk" in name:  # SeaweedFS keeps folders in which nothing is any more, and they are not free to it
            continue
        assert ends(run.case, run.at), where
        assert run.state() == newer, where
        if way == "refused" and run.case.is_same_again:
            assert set(server.keys(run.bucket)) == after, where
    note(name, f"SeaweedFS, {way}", "replaces" if older else "new", len(whole), done)
