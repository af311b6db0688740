"""Manifests through fsspec's protocol `jnrrdz`: zarr, dask, pandas' way of opening, chunks of several ranges."""

import asyncio
import json
import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import fsspec
import numpy as np
import pandas as pd
import pytest
import tifffile
import xarray as xr
import zarr

import jnrrdz

PIXELS = np.arange(64 * 48, dtype="<u2").reshape(64, 48)


@pytest.fixture(params=["a.json", "a.parquet", "a.tif"])
def refs(request, tmp_path):
    """Return a manifest, or the image itself."""
    tifffile.imwrite(tmp_path / "a.tif", PIXELS, tile=(32, 16), compression="zlib", predictor=True)
    if request.param != "a.tif":
        jnrrdz.index(tmp_path / "a.tif", tmp_path / request.param)
    return str(tmp_path / request.param)


@pytest.fixture
def scattered(tmp_path):
    """Return a manifest written by hand: each chunk of two ranges of a file, and the pixels that they make."""
    (tmp_path / "raw").write_bytes(PIXELS.tobytes())
    array = {"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint16", "fill_value": 0}
    array |= {"dimension_names": ["x"]}
    array |= {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}, "attributes": {}}
    array |= {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}}
    array |= {"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    chunks = {"data/c/0": ["raw", [[20, 2], [2, 2]]], "data/c/1": ["raw", [[200, 2], [100, 2]]]}
    refs = {"zarr.json": json.dumps(group), "data/zarr.json": json.dumps(array), **chunks}
    (tmp_path / "s.json").write_text(json.dumps({"version": 1, "refs": refs}))
    return str(tmp_path / "s.json"), [10, 1, 100, 50]


def test_its_files_are_the_keys_of_the_manifest(refs):
    fs = fsspec.filesystem("jnrrdz", fo=refs)
    names = fs.find("")
    store = jnrrdz.open_store(refs)
    assert sorted(names) == sorted(asyncio.run(_keys(store)))
    assert fs.ls("", detail=False) == ["zarr.json", "data"]
    assert fs.isdir("data")
    assert fs.isfile("data/zarr.json")
    assert not fs.exists("data/c/9/9")
    chunk = next(name for name in names if not name.endswith("json"))
    data = fs.cat_file(chunk)
    assert fs.info(chunk) == {"name": chunk, "size": len(data), "type": "file"}
    for start, end in ((3, 9), (3, None), (None, 9), (-5, None), (None, -5), (-7, -2), (9, 3), (0, 10**6)):
        assert fs.cat_file(chunk, start, end) == data[start:end]
    with fs.open(f"jnrrdz://{chunk}") as file:
        assert file.read() == data
    with pytest.raises(FileNotFoundError):
        fs.cat_file("data/c/9/9")


async def _keys(store):
    return [key async for key in store.list()]


def test_zarr_and_xarray_read_through_it(refs):
    by_url = zarr.open_group("jnrrdz://", mode="r", storage_options={"fo": refs})
    by_chain = zarr.open_group(f"jnrrdz::file://{refs}", mode="r")
    by_mapper = zarr.open_group(fsspec.filesystem("jnrrdz", fo=refs).get_mapper(""), mode="r")
    for group in (by_url, by_chain, by_mapper):
        np.testing.assert_array_equal(group["data"][...], PIXELS)
    dataset = xr.open_zarr("jnrrdz://", storage_options={"fo": refs}, consolidated=False, chunks={})
    np.testing.assert_array_equal(dataset["data"].compute(scheduler="threads"), PIXELS)


def test_chunks_of_several_ranges_are_files_like_others(scattered):
    refs, pixels = scattered
    fs = fsspec.filesystem("jnrrdz", fo=refs)
    assert fs.cat_file("data/c/0", 1, 3) == PIXELS.ravel()[[10, 1]].tobytes()[1:3]
    assert fs.info("data/c/1")["size"] == 4
    group = zarr.open_group("jnrrdz://", mode="r", storage_options={"fo": refs})
    assert group["data"][...].tolist() == pixels


def test_workers_of_dask_read_through_it(scattered):
    distributed = pytest.importorskip("distributed")
    refs, pixels = scattered
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster),
    ):
        dataset = xr.open_zarr("jnrrdz://", storage_options={"fo": refs}, consolidated=False, chunks={})
        assert dataset["data"].chunks == ((2, 2),)
        assert dataset["data"].compute().to_numpy().tolist() == pixels


def test_it_pickles(refs):
    fs = fsspec.filesystem("jnrrdz", fo=refs)
    chunk = next(name for name in fs.find("") if not name.endswith("json"))
    assert pickle.loads(pickle.dumps(fs)).cat_file(chunk) == fs.cat_file(chunk)


def test_a_manifest_that_is_another_by_now_is_read_anew(tmp_path):
    for name, pixels in (("a", PIXELS), ("b", PIXELS + 1)):
        tifffile.imwrite(tmp_path / f"{name}.tif", pixels, tile=(32, 16))
        jnrrdz.index(tmp_path / f"{name}.tif", tmp_path / "m.json", overwrite=True)
        group = zarr.open_group("jnrrdz://", mode="r", storage_options={"fo": str(tmp_path / "m.json")})
        np.testing.assert_array_equal(group["data"][...], pixels)
    groups = [jnrrdz.scan(tmp_path / f"{name}.tif") for name in "ab"]
    for group, pixels in zip(groups, (PIXELS, PIXELS + 1), strict=True):
        opened = zarr.open_group(fsspec.filesystem("jnrrdz", fo=group).get_mapper(""), mode="r")
        np.testing.assert_array_equal(opened["data"][...], pixels)


def test_its_files_are_named_in_chains(refs):
    with fsspec.open(f"jnrrdz://data/zarr.json::file://{refs}") as file:
        assert json.load(file)["shape"] == [64, 48]
    mapper = fsspec.get_mapper(f"jnrrdz::file://{refs}")
    assert json.loads(mapper["data/zarr.json"])["shape"] == [64, 48]
    assert "data/c/9/9" not in mapper
    assert set(mapper) == set(fsspec.filesystem("jnrrdz", fo=refs).find(""))


def test_many_ask_at_once(refs, scattered):
    """Coroutines in one loop, and threads without one, get what each asked for."""
    several, _ = scattered

    async def together(fs, chunks):
        parts = [fs._cat_file(chunk, start, start + 2) for chunk in chunks for start in range(0, 40, 3)]  # noqa: SLF001
        return await asyncio.gather(*parts)

    for place in (refs, several):
        fs = fsspec.filesystem("jnrrdz", fo=place)
        chunks = [name for name in fs.find("") if not name.endswith("json")]
        whole = {chunk: fs.cat_file(chunk) for chunk in chunks}
        expected = [whole[chunk][start : start + 2] for chunk in chunks for start in range(0, 40, 3)]
        waiting = fsspec.filesystem("jnrrdz", fo=place, asynchronous=True)
        assert asyncio.run(together(waiting, chunks)) == expected
        assert fs.cat(chunks) == whole
        assert fs.cat_ranges(chunks, 1, 3) == [whole[chunk][1:3] for chunk in chunks]
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(fs.cat_file, chunks * 8)) == [whole[chunk] for chunk in chunks * 8]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_its_own(refs):
    chunk = next(name for name in fsspec.filesystem("jnrrdz", fo=refs).find("") if not name.endswith("json"))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        found = pool.submit(_read, refs, chunk).result(timeout=120)
    assert found == fsspec.filesystem("jnrrdz", fo=refs).cat_file(chunk)


def _read(refs, chunk):
    return fsspec.filesystem("jnrrdz", fo=refs).cat_file(chunk)


def test_pandas_reads_tables_that_a_manifest_holds(tmp_path):
    """Chunks are bytes: those of a text are a table, here one of two ranges."""
    text = b"x,y\n1,2\n" + b"-" * 9 + b"3,4\n"
    (tmp_path / "table.csv").write_bytes(text)
    array = {"zarr_format": 3, "node_type": "array", "shape": [12], "data_type": "uint8", "fill_value": 0}
    array |= {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [12]}}, "codecs": [{"name": "bytes"}]}
    array |= {"chunk_key_encoding": {"name": "default"}, "dimension_names": ["x"], "attributes": {}}
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    refs = {"zarr.json": json.dumps(group), "t/zarr.json": json.dumps(array), "t/c/0": ["table.csv", [[0, 8], [17, 4]]]}
    (tmp_path / "m.json").write_text(json.dumps({"version": 1, "refs": refs}))
    table = pd.read_csv("jnrrdz://t/c/0", storage_options={"fo": str(tmp_path / "m.json")})
    assert table.to_dict("list") == {"x": [1, 3], "y": [2, 4]}


def test_over_http_its_sources_too(http_server, tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", PIXELS, tile=(32, 16))
    jnrrdz.index(tmp_path / "a.tif", tmp_path / "a.json", relative=True)
    for name in ("a.tif", "a.json"):
        http_server.files[f"/{name}"] = (tmp_path / name).read_bytes()
    fs = fsspec.filesystem("jnrrdz", fo=f"{http_server.url}/a.json")
    group = zarr.open_group(fs.get_mapper(""), mode="r")
    np.testing.assert_array_equal(group["data"][...], PIXELS)


@pytest.mark.usefixtures("scattered")
def test_what_a_manifest_may_not_name_is_refused_here_too(tmp_path):
    refs = json.loads((tmp_path / "s.json").read_text())
    refs["refs"]["data/c/0"] = ["/etc/hostname", 0, 2]
    (tmp_path / "t.json").write_text(json.dumps(refs))
    with pytest.raises(jnrrdz.UntrustedSourceError, match="allow"):
        fsspec.filesystem("jnrrdz", fo=str(tmp_path / "t.json")).cat_file("data/c/0")
    assert len(fsspec.filesystem("jnrrdz", fo=str(tmp_path / "t.json"), allow=("/etc/",)).cat_file("data/c/0")) == 2


def test_a_source_that_changed_is_told(refs, tmp_path):
    fs = fsspec.filesystem("jnrrdz", fo=refs)
    chunk = next(name for name in fs.find("") if not name.endswith("json"))
    (tmp_path / "a.tif").write_bytes(b"II*\0" + bytes(99))
    with pytest.raises(jnrrdz.JnrrdzError):
        fs.cat_file(chunk)


def test_nothing_is_written_through_it(refs):
    fs = fsspec.filesystem("jnrrdz", fo=refs)
    with pytest.raises((jnrrdz.JnrrdzError, ValueError), match=r"read-only|cannot be written"):
        fs.open("data/c/0/0", "wb")
