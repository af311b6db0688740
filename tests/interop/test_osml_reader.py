"""Chunks of several ranges for readers that are not ours: osml-imagery-io's file system, and what stock fsspec can.

osml-imagery-io is no dependency of the tests' environment: it registers the same URIs as we do for its codecs, and
zarr warns of every codec that two packages have.  `tests/system.sh` puts it beside, and a process of its own reads.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pytest
import xarray as xr
import zarr

import jnrrdz
from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup

OSML = Path(__file__).parents[1] / "clients" / "osml"
needs_osml = pytest.mark.skipif(not OSML.is_dir(), reason="osml-imagery-io is not here; tests/system.sh installs it")
# pandas announces the end of the engine that fsspec asks it for
pytestmark = pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated")

PLAIN = np.arange(48, dtype="<u2").reshape(6, 8)
SCATTERED = np.arange(100, 148, dtype="<u2").reshape(6, 8)


def by_osml(code, *arguments):
    """Return what Python code prints as JSON where osml-imagery-io is installed too."""
    path = os.pathsep.join([str(OSML), str(Path(jnrrdz.__file__).parents[1])])
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def group_of(folder):
    """Return two images: a chunk is a stretch of its file, and in the other its halves lie apart, last one first."""
    (folder / "plain.raw").write_bytes(b"".join(PLAIN[:, at : at + 4].tobytes() for at in (0, 4)))
    halves = [SCATTERED[:, at : at + 4].tobytes() for at in (0, 4)]
    (folder / "halves.raw").write_bytes(b"".join(half[24:] + b"junk" + half[:24] for half in halves))
    plain = ChunkRefs(
        (str(folder / "plain.raw"),), np.arange(3), np.zeros(2, np.int32), np.array([0, 48]), np.full(2, 48)
    )
    offset = np.array([28, 0, 80, 52])
    scattered = ChunkRefs(
        (str(folder / "halves.raw"),), np.array([0, 2, 4]), np.zeros(4, np.int32), offset, np.full(4, 24)
    )
    made = (
        VirtualArray((6, 8), np.dtype("<u2"), (6, 4), (bytes_("little"),), refs, ("y", "x"), 9)
        for refs in (plain, scattered)
    )
    return VirtualGroup({name: VirtualGroup({"data": array}) for name, array in zip("01", made, strict=True)})


@pytest.fixture(params=["m.json", "m.parquet"])
def refs(request, tmp_path):
    """Return a manifest of two images, of which one has chunks of several ranges."""
    jnrrdz.write(group_of(tmp_path), tmp_path / request.param)
    return tmp_path / request.param


def stock(refs, **options):
    return zarr.open_group("reference://", mode="r", storage_options={"fo": str(refs)}, **options)


READ = """
import json, sys, zarr
from aws.osml.io.multi_reference_fs import MultiReferenceFileSystem
refs, *keys = sys.argv[1:]
files = MultiReferenceFileSystem(fo=refs)
waiting = MultiReferenceFileSystem(fo=refs, asynchronous=True, remote_protocol="file", skip_instance_cache=True)
group = zarr.open_group(zarr.storage.FsspecStore(waiting, path="", read_only=True), mode="r")
chunks = {key: files.cat_file(key).hex() for key in keys}
pixels = {path: group[path][...].tolist() for path in ("0/data", "1/data")}
print(json.dumps([chunks, pixels, sorted(files.ls("1/data", detail=False))]))
"""


@needs_osml
def test_osmls_file_system_reads_every_chunk(refs):
    form = "{}/data/0.{}" if refs.suffix == ".parquet" else "{}/data/c/0/{}"
    keys = [form.format(level, column) for level in "01" for column in "01"]
    chunks, pixels, listed = by_osml(READ, refs, *keys)
    assert [chunks[key] for key in keys[:2]] == [PLAIN[:, at : at + 4].tobytes().hex() for at in (0, 4)]
    assert [chunks[key] for key in keys[2:]] == [SCATTERED[:, at : at + 4].tobytes().hex() for at in (0, 4)]
    assert pixels == {"0/data": PLAIN.tolist(), "1/data": SCATTERED.tolist()}
    assert "1/data/zarr.json" in listed


def test_stock_fsspec_opens_all_and_reads_what_is_one_range(refs):
    fs = fsspec.filesystem("reference", fo=str(refs))
    mapped = zarr.open_group(fsspec.get_mapper("reference://", fo=str(refs)), mode="r")
    for opened in (stock(refs), mapped):
        assert sorted(opened.group_keys()) == ["0", "1"]
        np.testing.assert_array_equal(opened["0/data"][...], PLAIN)
    np.testing.assert_array_equal(stock(refs, path="0")["data"][...], PLAIN)
    assert fs.exists("0/data/zarr.json")
    storage = {"fo": str(refs)}
    with xr.open_dataset("reference://", engine="zarr", storage_options=storage, group="0") as level:
        np.testing.assert_array_equal(level["data"].to_numpy(), PLAIN)
    with xr.open_datatree("reference://", engine="zarr", storage_options=storage, chunks={}) as tree:
        np.testing.assert_array_equal(tree["0/data"].compute(), PLAIN)


def test_in_stock_fsspec_a_chunk_of_several_ranges_is_an_error_and_never_the_fill_value(refs):
    mapped = zarr.open_group(fsspec.get_mapper("reference://", fo=str(refs)), mode="r")
    for opened in (stock(refs), mapped):
        for window in (np.s_[:, :4], np.s_[:, 4:]):
            with pytest.raises((ValueError, RuntimeError), match=r"unpack|failed to fetch target"):
                opened["1/data"][window]
    fs = fsspec.filesystem("reference", fo=str(refs))
    key = "1/data/0.0" if refs.suffix == ".parquet" else "1/data/c/0/0"
    for read in (fs.cat_file, fs.cat, lambda key: fs.open(key).read()):
        with pytest.raises((ValueError, RuntimeError, KeyError, OSError)):
            read(key)


def test_stock_fsspec_lists_a_parquet_manifest_with_chunks_of_several_ranges(tmp_path):
    jnrrdz.write(group_of(tmp_path), tmp_path / "m.parquet")
    fs = fsspec.filesystem("reference", fo=str(tmp_path / "m.parquet"))
    assert "0/data/0.0" in fs.find("")
    np.testing.assert_array_equal(stock(tmp_path / "m.parquet", use_consolidated=False)["0/data"][...], PLAIN)


def test_workers_of_dask_read_both_through_our_file_system(refs):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50)
    with cluster, distributed.Client(cluster):
        tree = xr.open_datatree("jnrrdz://", engine="zarr", storage_options={"fo": str(refs)}, chunks={})
        for path, expected in (("0/data", PLAIN), ("1/data", SCATTERED)):
            assert tree[path].chunks == ((6,), (4, 4))
            np.testing.assert_array_equal(tree[path].compute(), expected)
