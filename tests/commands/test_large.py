"""Manifests of more chunks than are taken into memory: merged, opened, verified and refreshed a part at a time.

What counts as many is set low here; the pixels are compared with rasterio's.
"""

import io
import json

import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import jnrrdz
from jnrrdz.cli import cli
from jnrrdz.core import large_refs
from jnrrdz.core.large_refs import ConcatRefs, Spool
from jnrrdz.core.refs import ChunkRefs, MappedRefs
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.manifests import icechunk, parquet
from jnrrdz.manifests.groups import group_from_manifest
from jnrrdz.manifests.manifest import load
from jnrrdz.manifests.parquet_records import ParquetRefs

SIDE, TILE, MEMBERS = 80, 16, 7
TILES = (SIDE // TILE) ** 2
pytestmark = pytest.mark.filterwarnings("ignore:Dataset has no geotransform")  # rasterio's
FORMS = ("json", "parquet", "icechunk")


@pytest.fixture
def low(monkeypatch):
    """Everything is many: nothing is put together in memory, and what is merged goes to a file."""
    monkeypatch.setattr(large_refs, "LARGE", 0)
    monkeypatch.setattr("jnrrdz.manifests.groups.LARGE", 0)
    monkeypatch.setattr(large_refs, "_FEW", 0)
    monkeypatch.setattr(Spool.__init__, "__defaults__", (0, *Spool.__init__.__defaults__[1:]))
    monkeypatch.setattr(parquet.write, "__kwdefaults__", {"record_size": TILES - 3})


@pytest.fixture
def scenes(tmp_path, monkeypatch):
    """Pictures and a manifest of each, in the folder that is worked in."""
    monkeypatch.chdir(tmp_path)
    for member in range(MEMBERS):
        picture(member)
        jnrrdz.index(f"scene_{member}.tif", f"scene_{member}.json")
    return tmp_path


def picture(member, seed=None, **options):
    pixels = np.random.default_rng(member if seed is None else seed).integers(1, 999, (SIDE, SIDE)).astype("u2")
    tifffile.imwrite(f"scene_{member}.tif", pixels, tile=(TILE, TILE), **{"compression": "zlib"} | options)


def merged(form, members=MEMBERS):
    out = f"all.{form}"
    refs = [f"scene_{member}.json" for member in reversed(range(members))]
    jnrrdz.merge(refs, out, concat_dim="time", coord_from=r"_(\d+)")
    return out


def pixels_of_sources():
    pixels = []
    for member in range(MEMBERS):
        with rasterio.open(f"scene_{member}.tif") as file:
            pixels.append(file.read(1))
    return np.stack(pixels)


@pytest.fixture
def records(monkeypatch):
    """The records of Parquet manifests that are read."""
    read = []

    record_of = ParquetRefs._record  # noqa: SLF001  what reads a record, or has it still

    def noted(self, record):
        read.append((self.url.rpartition("/")[2], record))
        return record_of(self, record)

    monkeypatch.setattr(ParquetRefs, "_record", noted)
    return read


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("scenes", "low")
def test_a_merge_that_is_never_whole_in_memory(form):
    found = xr.open_dataset(merged(form), engine="jnrrdz")
    np.testing.assert_array_equal(found["data"], pixels_of_sources())
    np.testing.assert_array_equal(found["time"], range(MEMBERS))


@pytest.mark.usefixtures("scenes", "low")
def test_no_more_than_a_record_is_in_memory(monkeypatch):
    rows = []
    made = ChunkRefs.__post_init__
    merged("parquet", 2)  # what one file takes
    monkeypatch.setattr(ChunkRefs, "__post_init__", lambda self: (rows.append(len(self.indptr) - 1), made(self))[1])
    jnrrdz.merge([f"scene_{n}.json" for n in range(MEMBERS)], "b.parquet", concat_dim="time", coord_from=r"_(\d+)")
    jnrrdz.convert("b.parquet", "c.parquet")
    assert jnrrdz.verify("c.parquet").ok
    # of the references of all files there is a record at most, and one file's while it is read
    assert max(rows) == TILES


@st.composite
def grids(draw):
    """Grids that agree but for one axis, the axis, and an order of places along it, or none."""
    axis = draw(st.integers(0, 2))
    shape = draw(st.tuples(*[st.integers(1, 3)] * 3))
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    places = sum(lengths)
    turn = draw(st.none() | st.permutations(range(places)) | st.lists(st.integers(0, places - 1), min_size=1))
    return [(*shape[:axis], length, *shape[axis + 1 :]) for length in lengths], axis, turn


@settings(max_examples=150, deadline=None)
@given(grids(), st.integers(1, 9), st.booleans(), st.randoms(use_true_random=False))
def test_references_are_joined_as_numpy_joins_arrays(given_grids, step, is_filed, random):
    shapes, axis, turn = given_grids
    spool, parts, meant = Spool(io.BytesIO, 0), [], []
    for number, shape in enumerate(shapes):
        chunks = int(np.prod(shape))
        counts = np.array([random.choice([0, 1, 1, 2]) for _ in range(chunks)])
        offset = np.arange(counts.sum()) + 1000 * number
        inline = {int(chunk): bytes([number]) for chunk in np.flatnonzero(counts == 0)[:1]}
        refs = ChunkRefs.from_rows((f"s{number}",), counts, offset, offset + 1)
        refs = ChunkRefs(refs.sources, refs.indptr, refs.source, refs.offset, refs.length, inline)
        cells = np.empty(chunks, object)
        cells[:] = [inline.get(chunk, refs.ranges(chunk)) for chunk in range(chunks)]
        meant.append(cells.reshape(shape))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(large_refs, "_FEW", 0)
            parts.append(spool.keep(refs) if is_filed else refs)
    order = None if turn is None else np.array(turn, np.int64)
    whole = ConcatRefs(parts, shapes, axis, order)
    cells = np.concatenate(meant, axis)
    cells = (cells if turn is None else cells.take(turn, axis)).ravel()
    found = []
    for first in range(0, whole.chunks, step):
        some = whole.part(first, min(first + step, whole.chunks))
        found += [some.inline.get(chunk, some.ranges(chunk)) for chunk in range(some.chunks)]
    assert found == cells.tolist()
    columns = whole.columns()
    assert [columns.inline.get(chunk, columns.ranges(chunk)) for chunk in range(columns.chunks)] == cells.tolist()
    moved = whole.moved({url: f"m/{url}" for url in whole.sources})
    ranges = [moved.part(chunk, chunk + 1).ranges(0) for chunk in range(moved.chunks)]
    assert ranges == [[(f"m/{url}", at, length) for url, at, length in columns.ranges(n)] for n in range(moved.chunks)]


def test_a_temporary_file_without_room_is_told():
    class Full(io.BytesIO):
        def write(self, _):
            raise OSError(28, "No space left on device")

    refs = ChunkRefs.single("a", np.arange(5000), np.arange(5000))
    with pytest.raises(JnrrdzError, match="do not fit into the folder for temporary files"):
        Spool(Full, 0).keep(refs)


def test_two_chunks_of_a_grid_that_no_memory_holds(tmp_path):
    (tmp_path / "x.bin").write_bytes(bytes([1, 2, 3]))
    last = (1 << 40) - 1
    array = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [last + 1],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
        "dimension_names": ["x"],
    }
    refs = {
        "zarr.json": json.dumps({"zarr_format": 3, "node_type": "group"}),
        "data/zarr.json": json.dumps(array),
        "data/c/5": ["x.bin", 1, 1],
        f"data/c/{last}": ["x.bin", 2, 1],
    }
    target = tmp_path / "sparse.json"
    target.write_text(json.dumps({"version": 1, "refs": refs}))
    found = jnrrdz.verify(target)
    assert (found.ok, found.ranges, found.chunks) == (True, 2, 2)
    (told,) = jnrrdz.info(target)["arrays"]
    assert (told["chunks"], told["missing"], told["stored_bytes"]) == (last + 1, last - 1, 2)
    refs[f"data/c/{last}"] = ["x.bin", 3, 1]
    target.write_text(json.dumps({"version": 1, "refs": refs}))
    assert [finding.place for finding in jnrrdz.verify(target).findings if finding.kind == "range"] == [
        f"data/c/{last}"
    ]


# Opening and reading


@pytest.mark.usefixtures("scenes", "low")
def test_opening_reads_no_record_and_a_window_its_own(records):
    out = merged("parquet")
    records.clear()
    data = xr.open_dataset(out, engine="jnrrdz")["data"]
    assert [record for path, record in records if path == "data"] == []
    there = (4, slice(TILE, 3 * TILE), slice(TILE, 3 * TILE))
    with rasterio.open("scene_4.tif") as file:
        np.testing.assert_array_equal(data[there], file.read(1)[there[1:]])
    first = 4 * TILES + SIDE // TILE + 1
    last = 4 * TILES + 2 * SIDE // TILE + 2
    size = TILES - 3
    assert sorted({record for path, record in records if path == "data"}) == list(
        range(first // size, last // size + 1)
    )


# Verifying and refreshing


@pytest.mark.usefixtures("scenes", "low")
def test_shards_read_their_own_records_and_find_what_all_find(records):
    out = merged("parquet")
    wrong = np.zeros((SIDE, SIDE), "u2")
    tifffile.imwrite("scene_5.tif", wrong, tile=(TILE, TILE), compression="zlib")  # shorter
    records.clear()
    every = jnrrdz.verify(out)
    of_all = {record for path, record in records if path == "data"}
    found, seen, named = [], [], 0
    for shard in (1, 2, 3):
        records.clear()
        part = jnrrdz.verify(out, shard=(shard, 3))
        # the last reading is that of the chunks
        seen.append({record for path, record in records if path == "data"})
        found += part.findings
        named += part.ranges
    assert {finding.kind for finding in every.findings} == {finding.kind for finding in found} == {"drift"}
    assert {finding.place for finding in every.findings} == {finding.place for finding in found}
    assert named == every.ranges
    assert set().union(*seen) == of_all
    assert sum(map(len, seen)) == len(of_all)


@pytest.mark.usefixtures("scenes")
def test_a_shard_of_the_table_of_sources():
    out = merged("json")
    picture(6, seed=99, compression=None)
    found = [jnrrdz.verify(out, drift=True, shard=(shard, MEMBERS)) for shard in range(1, MEMBERS + 1)]
    assert [part.sources for part in found] == [1] * MEMBERS
    assert [part.ok for part in found].count(False) == 1


@pytest.mark.parametrize("shard", [(0, 1), (3, 2)])
@pytest.mark.usefixtures("scenes")
def test_a_shard_that_is_none(shard):
    with pytest.raises(UnsupportedError, match="shard"):
        jnrrdz.verify("scene_0.json", shard=shard)


def test_a_container_is_verified_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.n5/raw").mkdir(parents=True)
    (tmp_path / "a.n5/attributes.json").write_text("{}")
    attributes = '{"dimensions": [4], "blockSize": [2], "dataType": "uint8", "compression": {"type": "raw"}}'
    (tmp_path / "a.n5/raw/attributes.json").write_text(attributes)
    (tmp_path / "a.n5/raw/0").write_bytes(bytes([0, 0, 0, 1, 0, 0, 0, 2, 7, 7]))
    jnrrdz.index("a.n5", "a.parquet")
    with pytest.raises(UnsupportedError, match="verified whole"):
        jnrrdz.verify("a.parquet", shard=(1, 2))


@pytest.mark.usefixtures("scenes")
def test_the_command_takes_a_shard():
    merged("json")
    run = CliRunner().invoke(cli, ["verify", "all.json", "--shard", "1/2"])
    assert (run.exit_code, run.stdout) == (0, "")
    assert CliRunner().invoke(cli, ["verify", "all.json", "--shard", "3/2"]).exit_code == 2


@pytest.mark.parametrize("form", ["parquet", "icechunk"])
@pytest.mark.usefixtures("scenes", "low")
def test_a_refresh_of_many_references(form, monkeypatch):
    monkeypatch.setattr(icechunk, "SPLIT", TILES)
    monkeypatch.setattr(icechunk, "TOGETHER", 2 * TILES)  # in several commits
    out = merged(form)
    picture(3, seed=99)
    assert len(jnrrdz.refresh(out).changed) == 1
    np.testing.assert_array_equal(xr.open_dataset(out, engine="jnrrdz")["data"], pixels_of_sources())


@pytest.mark.usefixtures("low")
def test_a_manifest_that_is_not_in_memory_is_refused_what_one_in_memory_is(scenes):
    out = merged("parquet")
    group = group_from_manifest(load(str(scenes / out)))
    (array,) = (array for path, array in group.arrays() if path == "data")
    assert isinstance(array.refs, MappedRefs)
    assert "MappedRefs" not in repr(group)
    assert len(array.refs.sources) == MEMBERS
