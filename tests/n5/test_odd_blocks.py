"""Blocks that contradict their data set's `blockSize`: refused, for what they hold belongs elsewhere."""

import itertools
import json
import math
import warnings

import numpy as np
import pytest
import zarr
from click.testing import CliRunner

import jnrrdz
from jnrrdz import api
from jnrrdz.cli import cli
from jnrrdz.formats.n5.attributes import default_header

VALUES = np.random.default_rng(12).integers(1, 60_000, (50, 36, 20), "u2")
BLOCK = (16, 12, 10)
WRONG = [(8, 12, 10), (16, 12, 20), (32, 12, 10), (12, 16, 10), (10, 12, 16), (16, 11, 10)]


def written(write_n5, tmp_path, writer, size=BLOCK):
    """Write a data set by tensorstore, which pads edges, or z5, which cuts them, and change its `blockSize`."""
    folder = tmp_path / "v.n5"
    if writer == "tensorstore":
        write_n5(folder, VALUES, BLOCK, "raw")
    else:
        import z5py  # noqa: PLC0415  takes a second

        container = z5py.File(str(tmp_path / "c.n5"), mode="w", use_zarr_format=False)
        made = container.create_dataset(
            "v", shape=VALUES.shape[::-1], chunks=BLOCK[::-1], dtype="u2", compression="raw"
        )
        made[...] = np.ascontiguousarray(VALUES.T)
        folder = tmp_path / "c.n5" / "v"
    about = json.loads((folder / "attributes.json").read_text())
    (folder / "attributes.json").write_text(json.dumps(about | {"blockSize": list(size)}))
    return folder


def chunks_of(array):
    """Return each chunk's elements, None where it is refused."""
    for place in itertools.product(
        *(range(0, size, step) for size, step in zip(array.shape, array.chunks, strict=True))
    ):
        window = tuple(slice(at, at + step) for at, step in zip(place, array.chunks, strict=True))
        try:
            yield window, array[window]
        except jnrrdz.MalformedError as error:
            assert "blockSize" in str(error)  # noqa: PT017  each chunk is read or refused
            yield window, None


@pytest.mark.parametrize("size", WRONG, ids=str)
@pytest.mark.parametrize("writer", ["tensorstore", "z5"])
def test_a_wrong_attribute_gives_no_wrong_element(write_n5, tmp_path, writer, size):
    folder = written(write_n5, tmp_path, writer, size)
    with pytest.raises(jnrrdz.MalformedError, match=r"blockSize: a block of \([0-9, ]+\), where blockSize is"):
        jnrrdz.scan(folder)
    # where one block fits, it is for each block to tell
    (folder / "0/0/0").write_bytes(default_header(size) + bytes(2 * math.prod(size)))
    jnrrdz.index(folder, tmp_path / "r.json", chain="n5_default")
    tuned = jnrrdz.open_group(tmp_path / "r.json")["data"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stock = zarr.open_group(jnrrdz.open_store(tmp_path / "r.json"), mode="r")["data"]
    for array in (tuned, stock):
        found = list(chunks_of(array))
        assert any(elements is None for _, elements in found)
        for window, elements in found:
            if elements is not None and elements.any():  # what is not there reads as 0
                np.testing.assert_array_equal(elements, VALUES.T[window])


@pytest.mark.parametrize("writer", ["tensorstore", "z5"])
@pytest.mark.parametrize("size", [(17, 12, 10), (50, 36, 20)], ids=str)
def test_what_fits_at_the_far_edge_by_chance_is_refused_too(write_n5, tmp_path, writer, size):
    folder = written(write_n5, tmp_path, writer, size)
    with pytest.raises(
        jnrrdz.MalformedError, match=r"/0/0/0: blockSize: a block of \(16, 12, 10\), where blockSize is"
    ):
        jnrrdz.scan(folder)


@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.parametrize("writer", ["tensorstore", "z5"])
def test_cut_and_padded_edges_are_as_n5_allows(write_n5, tmp_path, writer, form):
    folder = written(write_n5, tmp_path, writer)
    jnrrdz.index(folder, tmp_path / f"r.{form}", chain="n5_default")
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / f"r.{form}")["data"][...], VALUES.T)


def test_a_short_block_inside_is_taken_where_it_is_asked_for(write_n5, tmp_path):
    folder = written(write_n5, tmp_path, "tensorstore")
    edge = folder / "3/2/1"  # two of sixteen elements along x
    edge.write_bytes((2).to_bytes(4, "big").join((edge.read_bytes()[:4], edge.read_bytes()[8:]))[:16] + bytes(2 * 240))
    (folder / "0/0/0").write_bytes(edge.read_bytes())
    with pytest.raises(jnrrdz.MalformedError, match=r"v\.n5/0/0/0.*blockSize.*allow-odd-blocks"):
        jnrrdz.open_group(folder)["data"][:10, :12, :16]
    assert not jnrrdz.open_group(folder)["data"][10:, 24:, 48:].any()
    done = CliRunner().invoke(cli, ["index", str(folder), "-o", str(tmp_path / "r.json"), "--allow-odd-blocks"])
    assert done.exit_code == 0, done.output
    group = jnrrdz.open_group(tmp_path / "r.json")
    assert not group["data"][:10, :12, :16].any()
    np.testing.assert_array_equal(group["data"][:10, :12, 16:48], VALUES.T[:10, :12, 16:48])
    assert group.attrs["jnrrdz"]["options"] == {"allow_odd_blocks": True}


def test_in_place_looks_at_headers_before_it_writes(write_n5, tmp_path):
    folder = written(write_n5, tmp_path, "tensorstore", (32, 12, 10))
    with pytest.raises(jnrrdz.MalformedError, match=r"v\.n5/[0-9/]+: blockSize: a block of \(16, 12, 10\)"):
        api.index_in_place(folder)
    assert not (folder / "zarr.json").exists()
    api.index_in_place(folder, allow_odd_blocks=True)
    np.testing.assert_array_equal(zarr.open_array(folder, mode="r")[:16], VALUES[:16])


@pytest.mark.parametrize("merged", ["new axis", "timepoints"])
def test_edges_stay_edges_in_stacks(write_n5, tmp_path, merged):
    if merged == "new axis":
        folder = written(write_n5, tmp_path, "z5")
        jnrrdz.merge([folder, folder], tmp_path / "r.json", concat_dim="t", keep_order=True)
        found = jnrrdz.open_group(tmp_path / "r.json")["data"]
    else:
        import z5py  # noqa: PLC0415  takes a second

        container = z5py.File(str(tmp_path / "c.n5"), mode="w", use_zarr_format=False)
        for time in range(2):
            made = container.create_dataset(
                f"setup0/timepoint{time}/s0", shape=VALUES.shape[::-1], chunks=BLOCK[::-1], dtype="u2"
            )
            made[...] = np.ascontiguousarray(VALUES.T)
        found = jnrrdz.open_group(tmp_path / "c.n5", stack_timepoints=True)["setup0/s0/data"]
    np.testing.assert_array_equal(found[1], VALUES.T)
