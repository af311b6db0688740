"""Tables of offsets and sizes: what may be left out, and what they may say."""

import json

import numpy as np
import pytest

from jnrrdz.api import open_group, scan
from jnrrdz.errors import JnrrdzError
from tests.nrrd.tiled_files import PACK, core, keys, lines, quietly, stored, tiles_of, volume, write

ARRAY = volume((10, 7))
PACKED = ["gzip", "bzip2", "zstd", "lz4"]


def blobs_of(compression="raw", *, variable=False):
    return [stored(part, compression=compression) for _, part in tiles_of(ARRAY, (4, 4), variable=variable)]


def simple(path, fields, blobs, start=b""):
    """Write tiles one after another behind a header without tables."""
    path.write_bytes(lines(fields) + b"\n" + start + b"".join(blobs))


def check(path, **options):
    np.testing.assert_array_equal(open_group(path, **options)["data"][:], ARRAY)


def refused(path, field):
    with pytest.raises(JnrrdzError) as caught:
        quietly(scan, path)
    assert field in (caught.value.field or "").split(", "), str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("variable", [False, True])
@pytest.mark.parametrize("skipped", [b"", b"x" * 37])
def test_contiguous_raw_tiles_need_no_table(tmp_path, variable, skipped):
    edges = "variable" if variable else "pad"
    fields = core(ARRAY, byte_skip=len(skipped)) | keys((4, 4), format="contiguous", edge_handling=edges)
    simple(tmp_path / "a.jnrrd", fields, blobs_of(variable=variable), skipped)
    check(tmp_path / "a.jnrrd")


def test_lines_are_skipped_before_tiles_without_a_table(tmp_path):
    fields = core(ARRAY, line_skip=2, byte_skip=3) | keys((4, 4), format="contiguous")
    simple(tmp_path / "a.jnrrd", fields, blobs_of(), b"one\ntwo\nxyz")
    check(tmp_path / "a.jnrrd")


def test_tiles_at_the_end_of_their_file(tmp_path):
    fields = core(ARRAY, byte_skip=-1) | keys((4, 4), format="contiguous")
    simple(tmp_path / "a.jnrrd", fields, blobs_of(), b"any bytes")
    check(tmp_path / "a.jnrrd")


def test_a_skip_does_not_move_what_a_table_says(tmp_path):
    write(tmp_path / "a.jnrrd", core(ARRAY, byte_skip=5, line_skip=1) | keys((4, 4), format="contiguous"), blobs_of())
    check(tmp_path / "a.jnrrd")


@pytest.mark.parametrize("compression", PACKED)
def test_sizes_alone_tell_where_contiguous_tiles_are(tmp_path, compression):
    fields = core(ARRAY, byte_skip=4) | keys((4, 4), format="contiguous", compression=compression)
    blobs = blobs_of(compression)
    simple(tmp_path / "a.jnrrd", fields | {"tile:size_table": list(map(len, blobs))}, blobs, b"skip")
    check(tmp_path / "a.jnrrd")


@pytest.mark.parametrize("compression", PACKED)
@pytest.mark.parametrize("variable", [False, True])
@pytest.mark.parametrize("gap", [b"", bytes(7), b"junk behind each tile"])
def test_contiguous_tiles_end_where_the_next_begins(tmp_path, compression, variable, gap):
    edges = "variable" if variable else "pad"
    fields = core(ARRAY) | keys((4, 4), format="contiguous", compression=compression, edge_handling=edges)
    blobs = blobs_of(compression, variable=variable)
    write(tmp_path / "a.jnrrd", fields, blobs, tables=["offset_table"], gap=gap)
    with pytest.warns(UserWarning, match="tile:size_table is missing"):
        check(tmp_path / "a.jnrrd")


@pytest.mark.parametrize("compression", PACKED)
def test_guessed_ends_and_overlap_with_leftover(tmp_path, compression):
    expected = volume((6, 6), "uint8")
    parts = [part for _, part in tiles_of(expected, (4, 4), [1, 1], variable=True)]
    fields = keys((4, 4), format="contiguous", compression=compression, edge_handling="variable", overlap=[1, 1])
    blobs = [stored(part, compression=compression) for part in parts]
    write(tmp_path / "a.jnrrd", core(expected) | fields, blobs, tables=["offset_table"])
    with pytest.warns(UserWarning, match="size_table"):
        array = open_group(tmp_path / "a.jnrrd")["data"]
    np.testing.assert_array_equal(array[:], expected)


@pytest.mark.parametrize("compression", PACKED)
def test_streams_of_several_members_are_one_tile(tmp_path, compression):
    plain = [stored(part) for _, part in tiles_of(ARRAY, (4, 4))]
    blobs = [PACK[compression](blob[:10]) + PACK[compression](blob[10:]) for blob in plain]
    write(tmp_path / "a.jnrrd", core(ARRAY) | keys((4, 4), compression=compression), blobs)
    check(tmp_path / "a.jnrrd")


@pytest.mark.parametrize("name", [None, "contiguous", "chunked"])
@pytest.mark.parametrize("tables", [["offset_table"], ["offset_table", "size_table"]])
def test_raw_tiles_with_offsets_need_no_more(tmp_path, name, tables):
    write(tmp_path / "a.jnrrd", core(ARRAY) | keys((4, 4), format=name), blobs_of(), tables=tables)
    check(tmp_path / "a.jnrrd")


def test_offsets_count_in_the_file_that_holds_the_data(tmp_path):
    blobs = blobs_of()
    (tmp_path / "a.raw").write_bytes(b"front" + b"".join(blobs))
    offsets = (5 + np.cumsum([0, *map(len, blobs)])[:-1]).tolist()
    fields = core(ARRAY, data_file="a.raw") | keys((4, 4), format="contiguous", offset_table=offsets)
    (tmp_path / "a.jnrrd").write_bytes(lines(fields))
    check(tmp_path / "a.jnrrd")


def test_detached_tiles_without_a_table_begin_where_the_skip_ends(tmp_path):
    (tmp_path / "a.raw").write_bytes(b"front" + b"".join(blobs_of()))
    fields = core(ARRAY, data_file="a.raw", byte_skip=5) | keys((4, 4), format="contiguous")
    (tmp_path / "a.jnrrd").write_bytes(lines(fields))
    check(tmp_path / "a.jnrrd")


@pytest.mark.parametrize("encoding", ["gzip", "gz", "bzip2", "zstd", "lz4"])
def test_an_encoding_that_says_what_tiles_are_packed_with(tmp_path, encoding):
    compression = {"gz": "gzip"}.get(encoding, encoding)
    fields = core(ARRAY) | {"encoding": encoding} | keys((4, 4), compression=compression)
    write(tmp_path / "a.jnrrd", fields, blobs_of(compression))
    check(tmp_path / "a.jnrrd")


@pytest.mark.parametrize(("encoding", "compression"), [
    ("gzip", None), ("gzip", "raw"), ("gzip", "zstd"), ("bzip2", "gzip"), ("zstd", None), ("lz4", "zstd"),
    ("ascii", None), ("hex", "gzip")])  # fmt: skip
def test_an_encoding_that_contradicts_the_tiles_is_refused(tmp_path, encoding, compression):
    fields = core(ARRAY) | {"encoding": encoding} | keys((4, 4), compression=compression)
    write(tmp_path / "a.jnrrd", fields, blobs_of(compression or "raw"))
    refused(tmp_path / "a.jnrrd", "encoding")


def test_tiles_may_share_their_bytes(tmp_path):
    expected = np.full((4, 8), 9, np.uint16)
    blob = stored(expected[:, :4])
    write(tmp_path / "a.jnrrd", core(expected) | keys((4, 4), format="chunked"), [blob, blob])
    text = (tmp_path / "a.jnrrd").read_bytes()
    first, second = json.loads(
        text[text.index(b'offset_table": ') + 15 : text.index(b"]", text.index(b"offset_table")) + 1]
    )
    (tmp_path / "a.jnrrd").write_bytes(text.replace(b"%d, %d" % (first, second), b"%d, %d" % (first, first)))
    np.testing.assert_array_equal(open_group(tmp_path / "a.jnrrd")["data"][:], expected)


def packed(tmp_path, tables, **fields):
    write(
        tmp_path / "a.jnrrd", core(ARRAY) | keys((4, 4), compression="gzip", **fields), blobs_of("gzip"), tables=tables
    )
    return tmp_path / "a.jnrrd"


def test_compressed_chunked_tiles_need_their_sizes(tmp_path):
    refused(packed(tmp_path, ["offset_table"], format="chunked"), "tile:size_table")
    refused(packed(tmp_path, ["offset_table"]), "tile:size_table")


def test_offsets_can_be_left_out_of_contiguous_tiles_only(tmp_path):
    refused(packed(tmp_path, ["size_table"], format="chunked"), "tile:offset_table")
    refused(packed(tmp_path, ["size_table"]), "tile:offset_table")
    refused(packed(tmp_path, [], format="contiguous"), "tile:offset_table")
    simple(tmp_path / "b.jnrrd", core(ARRAY) | keys((4, 4), format="chunked"), blobs_of())
    refused(tmp_path / "b.jnrrd", "tile:offset_table")


GOOD = {"offset_table": [1000 + 32 * n for n in range(6)], "size_table": [32] * 6}


@pytest.mark.parametrize(("name", "value", "field"), [
    ("offset_table", [1000], "tile:offset_table"),
    ("offset_table", [1000] * 7, "tile:offset_table"),
    ("offset_table", [], "tile:offset_table"),
    ("offset_table", [1000, 1032, -1, 1096, 1128, 1160], "tile:offset_table[2]"),
    ("offset_table", [1000, 1032, 1.5, 1096, 1128, 1160], "tile:offset_table[2]"),
    ("offset_table", [1000, 1032, True, 1096, 1128, 1160], "tile:offset_table[2]"),
    ("offset_table", [1000, 1032, "a", 1096, 1128, 1160], "tile:offset_table[2]"),
    ("offset_table", [1000, 1032, None, 1096, 1128, 1160], "tile:offset_table[2]"),
    ("offset_table", {"0": 1000}, "tile:offset_table"),
    ("offset_table", 1000, "tile:offset_table"),
    ("offset_table", [1000, 1032, 5000, 1096, 1128, 1160], "tile:offset_table[2]"),
    ("offset_table", [1000, 1032, 1 << 70, 1096, 1128, 1160], "tile:offset_table[2]"),
    ("offset_table", [1000, 1032, 1064, 1096, 1128, 1170], "tile:offset_table[5]"),
    ("offset_table", [1000, 1032, 3, 1096, 1128, 1160], "tile:offset_table[2]"),
    ("size_table", [32] * 5, "tile:size_table"),
    ("size_table", [32] * 7, "tile:size_table"),
    ("size_table", [32, 32, 0, 32, 32, 32], "tile:size_table[2]"),
    ("size_table", [32, 32, -1, 32, 32, 32], "tile:size_table[2]"),
    ("size_table", [32, 32, 31, 32, 32, 32], "tile:size_table[2]"),
    ("size_table", [32, 32, 33, 32, 32, 32], "tile:size_table[2]"),
    ("size_table", [32, 32, "32", 32, 32, 32], "tile:size_table[2]"),
    ("metadata", [{}] * 5, "tile:metadata"),
    ("metadata", [3] * 6, "tile:metadata[0]"),
    ("compression_levels", [1] * 5, "tile:compression_levels"),
    ("compression_levels", [-1] * 6, "tile:compression_levels[0]"),
])  # fmt: skip
def test_tables_that_are_wrong_are_refused_by_their_field(tmp_path, name, value, field):
    fields = core(ARRAY) | keys((4, 4), format="chunked", **GOOD | {name: value})
    (tmp_path / "a.jnrrd").write_bytes((lines(fields) + b"\n").ljust(1000, b"\0") + b"".join(blobs_of()))
    refused(tmp_path / "a.jnrrd", field)


def test_the_good_tables_are_read(tmp_path):
    fields = core(ARRAY) | keys((4, 4), format="chunked", **GOOD)
    (tmp_path / "a.jnrrd").write_bytes((lines(fields) + b"\n").ljust(1000, b"\0") + b"".join(blobs_of()))
    check(tmp_path / "a.jnrrd")


def test_a_table_for_tiles_that_do_not_overlap_is_refused_with_both_counts(tmp_path):
    array = volume((20, 20))
    own = keys((8, 8), overlap=[4, 4], offset_table=[0] * 9)
    (tmp_path / "a.jnrrd").write_bytes(lines(core(array) | own))
    text = refused(tmp_path / "a.jnrrd", "tile:offset_table")
    assert "9" in text
    assert "16" in text


@pytest.mark.parametrize("cut", [1, 31, 40])
@pytest.mark.parametrize("tables", [[], ["offset_table"], ["size_table"]])
def test_a_file_that_is_cut_is_refused(tmp_path, cut, tables):
    path = tmp_path / "a.jnrrd"
    write(path, core(ARRAY) | keys((4, 4), format="contiguous"), blobs_of(), tables=tables)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(JnrrdzError, match=r"tile:offset_table\[[45]\]|sizes"):
        scan(path)


def test_several_files_of_data_are_refused(tmp_path):
    for name in "ab":
        (tmp_path / name).write_bytes(bytes(96))
    fields = core(ARRAY, data_files=["a", "b"]) | keys((4, 4), format="contiguous")
    (tmp_path / "a.jnrrd").write_bytes(lines(fields))
    refused(tmp_path / "a.jnrrd", "data_files")
