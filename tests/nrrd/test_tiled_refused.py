"""What is wrong with a tiling is refused by its field, and whatever a header declares, memory stays bounded."""

import bz2
import gzip
import json
import subprocess
import sys
import textwrap
import tracemalloc
import zlib

import imagecodecs
import numpy as np
import pytest

from jnrrdz.api import index, open_group, scan
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.nrrd.tiling import TileAxis
from tests.nrrd.tiled_files import URI, core, keys, lines, quietly, stored, tiles_of, volume, write

ARRAY = volume((10, 7))


def refused(tmp_path, fields, start=b""):
    (tmp_path / "a.jnrrd").write_bytes(start + lines(fields) + b"\n" + bytes(192))
    with pytest.raises(JnrrdzError) as caught:
        scan(tmp_path / "a.jnrrd")
    return caught.value


GOOD = {"format": "contiguous"}


@pytest.mark.parametrize(("given", "field"), [
    ({"enabled": None}, "tile:enabled"),
    ({"enabled": "true"}, "tile:enabled"),
    ({"enabled": 1}, "tile:enabled"),
    ({"dimensions": None}, "tile:dimensions"),
    ({"dimensions": 2}, "tile:dimensions"),
    ({"dimensions": []}, "tile:dimensions"),
    ({"dimensions": [0, 0]}, "tile:dimensions"),
    ({"dimensions": [1, 0]}, "tile:dimensions"),
    ({"dimensions": [0, 2]}, "tile:dimensions"),
    ({"dimensions": [-1, 0]}, "tile:dimensions[0]"),
    ({"dimensions": [0, 1.0]}, "tile:dimensions[1]"),
    ({"dimensions": [False, True]}, "tile:dimensions[0]"),
    ({"dimensions": [0]}, "tile:sizes"),
    ({"sizes": None}, "tile:sizes"),
    ({"sizes": 4}, "tile:sizes"),
    ({"sizes": [4]}, "tile:sizes"),
    ({"sizes": [4, 4, 4]}, "tile:sizes"),
    ({"sizes": [4, 0]}, "tile:sizes[1]"),
    ({"sizes": [-4, 4]}, "tile:sizes[0]"),
    ({"sizes": [4, "4"]}, "tile:sizes[1]"),
    ({"sizes": [4, [4]]}, "tile:sizes[1]"),
    ({"storage": None}, "tile:storage"),
    ({"storage": "both"}, "tile:storage"),
    ({"storage": ["internal"]}, "tile:storage"),
    ({"format": "random"}, "tile:format"),
    ({"edge_handling": "crop"}, "tile:edge_handling"),
    ({"padding_value": "0"}, "tile:padding_value"),
    ({"padding_value": -1}, "tile:padding_value"),
    ({"padding_value": 65536}, "tile:padding_value"),
    ({"padding_value": 0.5}, "tile:padding_value"),
    ({"padding_value": float("nan")}, "tile:padding_value"),
    ({"overlap": [1]}, "tile:overlap"),
    ({"overlap": [1, 1, 1]}, "tile:overlap"),
    ({"overlap": 1}, "tile:overlap"),
    ({"overlap": [-1, 0]}, "tile:overlap[0]"),
    ({"overlap": [0.5, 0]}, "tile:overlap[0]"),
    ({"overlap": [4, 0]}, "tile:overlap"),
    ({"overlap": [0, 9]}, "tile:overlap"),
    ({"compression": "lzma"}, "tile:compression"),
    ({"compression": "GZIP"}, "tile:compression"),
    ({"compression": 1}, "tile:compression"),
])  # fmt: skip
def test_keys_that_are_wrong_are_refused_by_their_name(tmp_path, given, field):
    error = refused(tmp_path, core(ARRAY) | keys((4, 4), **GOOD | given))
    assert field in (error.field or "").split(", "), str(error)


@pytest.mark.parametrize(("kind", "value"), [("float32", 1e300), ("float64", 10**400), ("complex64", -1e300)])
def test_a_padding_value_that_the_type_has_not(tmp_path, kind, value):
    error = refused(tmp_path, core(volume((10, 7), kind)) | keys((4, 4), padding_value=value, **GOOD))
    assert error.field == "tile:padding_value"


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 0.1, None])
@pytest.mark.parametrize("kind", ["float16", "float32", "complex128"])
def test_a_padding_value_that_the_type_has(tmp_path, kind, value):
    array = volume((5,), kind)
    write(
        tmp_path / "a.jnrrd",
        core(array) | keys((4,), padding_value=value),
        [stored(p) for _, p in tiles_of(array, (4,))],
    )
    found = open_group(tmp_path / "a.jnrrd")["data"]
    np.testing.assert_array_equal(found.fill_value, np.dtype(kind).type(value or 0))
    np.testing.assert_array_equal(found[:], array)


def test_the_same_keys_without_a_fault_are_read(tmp_path):
    (tmp_path / "a.jnrrd").write_bytes(lines(core(ARRAY) | keys((4, 4), **GOOD)) + b"\n" + bytes(192))
    assert open_group(tmp_path / "a.jnrrd")["data"][:].shape == (7, 10)


def test_all_that_is_wrong_is_told_at_once(tmp_path):
    error = refused(tmp_path, core(ARRAY) | keys((4, 4), storage="x", sizes=[0, 4], compression=3))
    assert set((error.field or "").split(", ")) >= {"tile:storage", "tile:sizes[0]", "tile:compression"}
    error = refused(tmp_path, core(ARRAY) | keys((4, 4), sizes=[4], overlap=[1]))
    assert set((error.field or "").split(", ")) == {"tile:sizes", "tile:overlap"}


def test_names_are_as_they_are_written(tmp_path):
    error = refused(tmp_path, core(ARRAY) | keys((4, 4), prefix="blocks", storage="x"))
    assert error.field == "blocks:storage"


def test_another_version_is_not_read(tmp_path):
    fields = core(ARRAY) | keys((4, 4)) | {"extensions": {"tile": URI.replace("v1", "v2")}}
    assert refused(tmp_path, fields).field == "extensions"


def test_a_prefix_that_is_not_declared(tmp_path):
    fields = {name: value for name, value in (core(ARRAY) | keys((4, 4))).items() if name != "extensions"}
    assert (refused(tmp_path, fields).field or "").startswith("tile:")


@pytest.mark.parametrize("name", ["tile:metadata", "tile:offset_table"])
def test_deep_nesting_is_refused(tmp_path, name):
    start = lines(core(ARRAY) | keys((4, 4))) + b'{"%s": %s}\n' % (name.encode(), b"[" * 100000 + b"]" * 100000)
    (tmp_path / "a.jnrrd").write_bytes(start)
    with pytest.raises(MalformedError) as caught:
        scan(tmp_path / "a.jnrrd")
    assert caught.value.field == name


LARGE = core(ARRAY) | {"type": "uint8", "sizes": [100_000, 100_000]}


@pytest.mark.parametrize("tile", [
    keys((1000, 1000), format="contiguous"),
    keys((100_000, 100_000), format="contiguous"),
    keys((100_000, 100_000), offset_table=[1000]),
    keys((100_000, 100_000), offset_table=[1000], size_table=[500], compression="gzip"),
    keys((100_000, 100_000), offset_table=[1000], size_table=[500], compression="bzip2"),
    keys((100_000, 100_000), offset_table=[1000], size_table=[500], compression="zstd"),
    keys((100_000, 100_000), offset_table=[1000], size_table=[500], compression="lz4"),
    keys((100_000, 100_000), format="contiguous", offset_table=[1000], compression="gzip"),
    keys((1, 1), format="contiguous"),
    keys((1, 1), storage="external", pattern="{x}_{y}"),
    keys((100, 100), storage="external", pattern="{x}_{y}"),
    keys((100_000, 100_000), storage="external", pattern="a.jnrrd"),
    keys((100_000, 100_000), storage="external", pattern="a.jnrrd", compression="zstd"),
    keys((99_999, 99_999), overlap=[99_998, 99_998], offset_table=[1000] * 4, format="chunked"),
    keys((2, 2), overlap=[1, 1], format="contiguous"),
    keys((10**17, 10**17), format="contiguous"),
    keys((10**17, 10**17), offset_table=[1000], size_table=[500], compression="gzip"),
    keys((10**30, 1), offset_table=[1000] * 100_000, compression="gzip"),
])  # fmt: skip
def test_gigabytes_that_a_kilobyte_declares_cost_nothing(tmp_path, tile):
    path = tmp_path / "a.jnrrd"
    path.write_bytes(lines(LARGE | tile) + b"\n" + bytes(1500))
    tracemalloc.start()
    try:
        with pytest.raises(JnrrdzError):
            quietly(scan, path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60 << 20


def zeros(compression, count):
    """Return so many MB of zeros, packed."""
    block = bytes(1 << 20)
    if compression == "gzip":
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        return b"".join(packer.compress(block) for _ in range(count)) + packer.flush()
    if compression == "bzip2":
        packer = bz2.BZ2Compressor()
        return b"".join(packer.compress(block) for _ in range(count)) + packer.flush()
    encode = {"zstd": imagecodecs.zstd_encode, "lz4": imagecodecs.lz4f_encode}[compression]
    return bytes(encode(block * count))


READ = """
    import resource, sys
    from jnrrdz.api import open_group
    from jnrrdz.errors import MalformedError
    for path in sys.argv[1:]:
        array = open_group(path)["data"]
        array[:3, :3]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            array[:]
        except MalformedError as error:
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""


def test_a_tile_that_inflates_beyond_its_size_is_refused_in_bounded_memory(tmp_path):
    array = volume((7, 7), "uint8")
    paths = []
    for compression in ("gzip", "bzip2", "zstd", "lz4"):
        bomb = zeros(compression, 100)
        for overlap in (None, [1, 1]):
            name = f"{compression}{'' if overlap is None else 1}"
            blobs = [stored(part, compression=compression) for _, part in tiles_of(array, (4, 4), overlap)]
            blobs[-1] = bomb
            fields = core(array) | keys((4, 4), compression=compression, overlap=overlap)
            write(tmp_path / f"{name}.jnrrd", fields, blobs)
            index(tmp_path / f"{name}.jnrrd", tmp_path / f"{name}.json")
            paths.append(tmp_path / f"{name}.json")
    command = [sys.executable, "-c", textwrap.dedent(READ), *paths]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()
    assert len(told) == len(paths)
    for path, line in zip(paths, told, strict=True):
        grown, _, error = line.partition(" ")
        assert int(grown) < 30 << 10, path  # of the 100 MB that it inflates to
        assert "chunk" in error
        assert f"{path.stem}.jnrrd" in error


@pytest.mark.parametrize("compression", ["gzip", "bzip2", "zstd", "lz4"])
@pytest.mark.parametrize("change", [-1, 1])
def test_a_tile_of_other_bytes_than_its_own_is_refused(tmp_path, compression, change):
    parts = [stored(part) for _, part in tiles_of(ARRAY, (4, 4))]
    parts[2] = parts[2][:change] if change < 0 else parts[2] + b"x"
    pack = {
        "gzip": gzip.compress,
        "bzip2": bz2.compress,
        "zstd": imagecodecs.zstd_encode,
        "lz4": imagecodecs.lz4f_encode,
    }
    blobs = [bytes(pack[compression](part)) for part in parts]
    write(tmp_path / "a.jnrrd", core(ARRAY) | keys((4, 4), compression=compression), blobs)
    array = open_group(tmp_path / "a.jnrrd")["data"]
    np.testing.assert_array_equal(array[:4, :8], ARRAY[:4, :8])
    with pytest.raises(MalformedError, match="c/0/2"):
        _ = array[:4, 8:]


@pytest.mark.parametrize("compression", ["gzip", "bzip2", "zstd", "lz4"])
def test_damaged_tiles_are_errors_that_name_their_place(tmp_path, compression):
    blobs = [stored(part, compression=compression) for _, part in tiles_of(ARRAY, (4, 4))]
    blobs[1] = bytes(8) + blobs[1][8:]
    write(tmp_path / "a.jnrrd", core(ARRAY) | keys((4, 4), compression=compression), blobs)
    with pytest.raises(MalformedError, match="c/0/1"):
        _ = open_group(tmp_path / "a.jnrrd")["data"][:4, 4:8]


def test_ranges_that_repeat_a_tile_are_refused_where_one_range_is_asked_for(tmp_path):
    array = volume((6, 6), "uint8")
    blobs = [stored(part, compression="zstd") for _, part in tiles_of(array, (4, 4), variable=True)]
    fields = keys((4, 4), edge_handling="variable", compression="zstd")
    write(tmp_path / "a.jnrrd", core(array) | fields, blobs, order=[0, 2, 3, 1])
    index(tmp_path / "a.jnrrd", tmp_path / "a.json")
    refs = json.loads((tmp_path / "a.json").read_text())["refs"]
    assert [key for key, value in refs.items() if isinstance(value[1], list)]
    with pytest.raises(JnrrdzError, match="--single-range"):
        index(tmp_path / "a.jnrrd", tmp_path / "b.json", single_range=True)


# Tiles that nothing says the place of, and overlaps that make chunks of one element


@pytest.mark.parametrize("compression", ["raw", "zstd"])
def test_bytes_beside_tiles_without_offsets(tmp_path, compression):
    blobs = [stored(part, compression=compression) for _, part in tiles_of(ARRAY, (4, 4))]
    fields = core(ARRAY) | keys((4, 4), format="contiguous")
    if compression != "raw":
        fields |= {"tile:compression": compression, "tile:size_table": [len(blob) for blob in blobs]}
    path, gap = tmp_path / "a.jnrrd", b"gap!"

    def read(more, before=b"", behind=b""):
        path.write_bytes(lines(fields | more) + b"\n" + before + b"".join(blobs) + behind)
        return open_group(path)["data"][...]

    for before, behind in ((gap, b""), (b"", gap)):
        with pytest.raises(MalformedError, match=r"4 others; .*byte_skip: -1") as caught:
            read({}, before, behind)
        assert caught.value.field == "tile:offset_table"
    # numpy is the reader: the tiles are those of ARRAY wherever the header puts them
    np.testing.assert_array_equal(read({}), ARRAY)
    np.testing.assert_array_equal(read({"byte_skip": 4}, gap, gap), ARRAY)
    np.testing.assert_array_equal(read({"byte_skip": -1}, gap), ARRAY)


@pytest.mark.parametrize("is_guessed", [False, True])
def test_an_overlap_that_makes_chunks_of_one_element(tmp_path, is_guessed, monkeypatch):
    calls = []
    choice = TileAxis.choice
    monkeypatch.setattr(TileAxis, "choice", lambda axis, chunk: calls.append(chunk) or choice(axis, chunk))
    tile, count, stored_size, start = 1 << 25, 3000, 8192, 1 << 20
    fields = {"jnrrd": "0004", "type": "uint8", "dimension": 1, "sizes": [tile + count - 1]}
    fields |= keys((tile,), overlap=[tile - 1], compression="zstd", format="contiguous")
    fields["tile:offset_table"] = [start + stored_size * number for number in range(count)]
    if not is_guessed:
        fields["tile:size_table"] = [stored_size] * count
    with (tmp_path / "a.jnrrd").open("wb") as file:
        file.write(lines(fields) + b"\n")
        file.truncate(start + stored_size * count)
    tracemalloc.start()
    with pytest.raises(MalformedError, match="begin 1 elements apart") as caught:
        quietly(scan, tmp_path / "a.jnrrd")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.field == "tile:overlap"
    assert len(calls) < 1 << 13
    assert peak < 50 << 20
