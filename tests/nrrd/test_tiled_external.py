"""External tiles: files named by a pattern and by a list, where they may be, and which may be missing."""

import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import fsspec
import numpy as np
import pytest
from click.testing import CliRunner

from jnrrdz.api import index, open_group, scan
from jnrrdz.cli import cli
from jnrrdz.commands.verify import verify
from jnrrdz.errors import DriftError, JnrrdzError, MalformedError, UntrustedSourceError
from tests.nrrd.tiled_files import PACK, core, keys, lines, stored, tiles_of, volume

ARRAY = volume((10, 7, 5))
TILE = (4, 4, 3)


def tiles(folder, name, array=ARRAY, tile=TILE, compression="raw", *, variable=False):  # noqa: PLR0913  of a file
    """Write each tile to a file; `name` is called with its indices, dimension 0 first."""
    for number, (index_, part) in enumerate(tiles_of(array, tile, variable=variable)):
        path = folder / name(number, index_)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(stored(part, compression=compression))


def header(folder, array=ARRAY, tile=TILE, *, labels=None, **fields):
    """Write the header and return its path."""
    folder.mkdir(exist_ok=True, parents=True)
    own = core(array, **({"labels": labels} if labels else {})) | keys(tile, storage="external", **fields)
    (folder / "a.jnrrd").write_bytes(lines(own))
    return folder / "a.jnrrd"


def check(path, array=ARRAY, **options):
    np.testing.assert_array_equal(open_group(path, **options)["data"][:], array)


def refused(path, field, kind=JnrrdzError, **options):
    with pytest.raises(kind) as caught:
        scan(path, **options)
    assert field in (caught.value.field or "").split(", "), str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("pattern", "name"), [
    ("t_{z}_{y}_{x}.raw", "t_{2}_{1}_{0}.raw"),
    ("{x:03d}/{y}-{z}", "{0:03d}/{1}-{2}"),
    ("{d2}.{d1}.{d0}", "{2}.{1}.{0}"),
    ("tile{i}.raw", "tile{n}.raw"),
    ("{i:06x}", "{n:06x}"),
    ("{x:>4}{y:<4}{z:^4}", "{0:>4}{1:<4}{2:^4}"),
    ("{time}_{y}_{x}", "{2}_{1}_{0}"),
    ("{{{x}}}_{y}_{z}", "{{{0}}}_{1}_{2}"),
    ("l{l}_{x}_{y}_{z}", "l0_{0}_{1}_{2}"),
    ("{x}#{y}%20{z}", "{0}#{1}%20{2}"),
])  # fmt: skip
def test_files_named_by_a_pattern(tmp_path, pattern, name):
    tiles(tmp_path, lambda number, at: name.format(*at, n=number))
    check(header(tmp_path, pattern=pattern, labels=["x", "y", "time"]))


@pytest.mark.parametrize("compression", list(PACK))
@pytest.mark.parametrize("edges", ["pad", "variable"])
@pytest.mark.parametrize("axes", [1, 2, 3, 4, 5])
def test_external_tiles_of_any_kind(tmp_path, compression, edges, axes):
    array, tile = volume((7, 6, 5, 4, 2)[:axes]), (4, 4, 3, 3, 1)[:axes]
    tiles(tmp_path, lambda number, _: f"{number}", array, tile, compression, variable=edges == "variable")
    path = header(tmp_path, array, tile, pattern="{i}", compression=compression, edge_handling=edges)
    check(path, array)


def test_overlapping_tiles_in_files(tmp_path):
    for compression in ("raw", "zstd"):
        for number, (_, part) in enumerate(tiles_of(ARRAY, TILE, [1, 2, 1], variable=True)):
            (tmp_path / f"{number}").write_bytes(stored(part, compression=compression))
        check(header(tmp_path, pattern="{i}", overlap=[1, 2, 1], edge_handling="variable", compression=compression))


def test_five_dimensions_by_their_numbers(tmp_path):
    array = volume((4, 3, 3, 2, 3))
    tiles(tmp_path, lambda _, at: "-".join(map(str, at)), array, (2, 2, 2, 1, 2))
    check(header(tmp_path, array, (2, 2, 2, 1, 2), pattern="{x}-{y}-{z}-{d3}-{d4}"), array)


def test_placeholders_name_the_arrays_dimensions(tmp_path):
    tiles(tmp_path, lambda _, at: f"{at[0]}_{at[1]}_{at[2]}", tile=(10, 4, 3))
    check(header(tmp_path, tile=(4, 3), dimensions=[1, 2], pattern="{x}_{y}_{z}"))
    check(header(tmp_path, tile=(4, 3), dimensions=[1, 2], pattern="0_{d1}_{z}"))


def test_files_of_a_list(tmp_path):
    entries = []
    for number, (at, part) in enumerate(tiles_of(ARRAY, TILE)):
        (tmp_path / f"any name {number}").write_bytes(stored(part))
        entries.append({"indices": list(at), "file": f"any name {number}"})
    check(header(tmp_path, files=entries[::-1]))


def test_a_list_comes_first_and_a_pattern_names_the_rest(tmp_path):
    tiles(tmp_path, lambda number, _: f"p{number}")
    (tmp_path / "p1").rename(tmp_path / "elsewhere")
    (tmp_path / "p2").rename(tmp_path / "there")
    (tmp_path / "p2").write_bytes(bytes(96))
    entries = [{"indices": [1, 0, 0], "file": "elsewhere"}, {"indices": [2, 0, 0], "file": "there", "level": 0}]
    check(header(tmp_path, files=entries, pattern="p{i}"))


def test_indices_of_a_subset_of_dimensions(tmp_path):
    tiles(tmp_path, lambda _, at: f"{at[1]}_{at[2]}", tile=(10, 4, 3))
    entries = [{"indices": [y, z], "file": f"{y}_{z}"} for y in range(2) for z in range(2)]
    check(header(tmp_path, tile=(4, 3), dimensions=[1, 2], files=entries))
    entries = [{"indices": [0, y, z], "file": f"{y}_{z}"} for y in range(2) for z in range(2)]
    check(header(tmp_path, tile=(4, 3), dimensions=[1, 2], files=entries))


@pytest.mark.parametrize(("pattern", "name"), [
    ("level_{l}/{z}_{y}_{x}", "level_{level}/{2}_{1}_{0}"),
    ("{l}.{i}", "{level}.{n}"),
    ("{i}", "{total}"),
    ("{i}_{x}", "{total}_{0}"),
])  # fmt: skip
def test_levels_in_files(tmp_path, pattern, name):
    levels = {0: ARRAY, 2: volume((2, 1, 1), seed=1)}
    total = 0
    for level, array in levels.items():
        for number, (at, part) in enumerate(tiles_of(array, TILE)):
            path = tmp_path / name.format(*at, n=number, level=level, total=total)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(stored(part))
            total += 1
    path = header(tmp_path, pattern=pattern, level_scales=[1, 2, 4], levels_virtual=[1])
    group = open_group(path)
    for level, array in levels.items():
        np.testing.assert_array_equal(group[f"{level}/data"][:], array)


def test_levels_in_a_list(tmp_path):
    half = volume((5, 3, 2), seed=1)
    entries = []
    for level, array in enumerate([ARRAY, half]):
        for number, (at, part) in enumerate(tiles_of(array, TILE)):
            (tmp_path / f"{level}-{number}").write_bytes(stored(part))
            entries.append({"level": level, "indices": list(at), "file": f"{level}-{number}"})
    np.testing.assert_array_equal(open_group(header(tmp_path, files=entries, level_scales=[1, 2]))["1/data"][:], half)


def test_a_list_of_as_many_files_as_only_rounding_up_gives(tmp_path):
    array, half = volume((17,)), volume((9,), seed=1)
    entries = []
    for level, one in enumerate([array, half]):
        for number, (at, part) in enumerate(tiles_of(one, (4,))):
            (tmp_path / f"{level}-{number}").write_bytes(stored(part))
            entries.append({"level": level, "indices": list(at), "file": f"{level}-{number}"})
    group = open_group(header(tmp_path, array, (4,), files=entries, level_scales=[1, 2]))
    np.testing.assert_array_equal(group["1/data"][:], half)


@pytest.mark.parametrize("base", ["tiles", "tiles/", "./tiles", "tiles/deeper/.."])
def test_a_base_is_relative_to_the_header(tmp_path, base, monkeypatch):
    tiles(tmp_path / "data" / "tiles", lambda number, _: f"{number}")
    (tmp_path / "data" / "tiles" / "deeper").mkdir()
    header(tmp_path / "data", pattern="{i}", base_dir=base)
    monkeypatch.chdir(tmp_path)
    check("data/a.jnrrd")


def escaping(tmp_path):
    tiles(tmp_path / "out", lambda number, _: f"{number}")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "in" / "0").symlink_to(tmp_path / "out" / "0")
    for number in range(1, 12):
        (tmp_path / "in" / f"{number}").write_bytes((tmp_path / "out" / f"{number}").read_bytes())
    return {
        "base": ({"pattern": "{i}", "base_dir": "../out"}, "tile:base_dir"),
        "absolute base": ({"pattern": "{i}", "base_dir": f"{tmp_path}/out/"}, "tile:base_dir"),
        "pattern": ({"pattern": "../out/{i}"}, "tile:pattern"),
        "absolute pattern": ({"pattern": f"{tmp_path}/out/{{i}}"}, "tile:pattern"),
        "pattern beside the base": ({"pattern": "../../out/{i}", "base_dir": "below"}, "tile:pattern"),
        "list": ({"pattern": "../in/{i}", "files": [{"indices": [0, 0, 0], "file": "../out/0"}]}, "tile:pattern"),
        "linked folder": ({"pattern": "link/{i}"}, "tile:pattern"),
        "linked base": ({"pattern": "{i}", "base_dir": "link"}, "tile:base_dir"),
        "linked file": ({"pattern": "{i}"}, "tile:pattern"),
    }


@pytest.mark.parametrize("way", [
    "base", "absolute base", "pattern", "absolute pattern", "pattern beside the base", "list", "linked folder",
    "linked base", "linked file"])  # fmt: skip
def test_what_leads_out_of_the_headers_folder_needs_leave(tmp_path, way):
    fields, field = escaping(tmp_path)[way]
    path = header(tmp_path / "in", **fields)
    text = refused(path, field, UntrustedSourceError)
    assert "--allow" in text
    check(path, allow=[str(tmp_path / "out")])
    check(path, allow=["*"])
    refused(path, field, UntrustedSourceError, allow=[str(tmp_path / "ou")])


def test_other_schemes_need_leave(tmp_path):
    path = header(tmp_path, pattern="http://169.254.169.254/{i}")
    refused(path, "tile:pattern", UntrustedSourceError)
    refused(header(tmp_path, pattern="{i}", base_dir="s3://bucket/"), "tile:base_dir", UntrustedSourceError)


def test_what_a_scan_may_reach_is_not_recorded(tmp_path):
    path = header(tmp_path / "in", **escaping(tmp_path)["base"][0])
    assert scan(path, allow=["*"]).origin == {"options": {}}


def test_a_missing_tile_is_named(tmp_path):
    tiles(tmp_path, lambda _, at: "_".join(map(str, at)))
    (tmp_path / "1_0_1").unlink()
    text = refused(header(tmp_path, pattern="{x}_{y}_{z}"), "tile:pattern", MalformedError)
    assert str(tmp_path / "1_0_1") in text
    assert "[1, 0, 1]" in text


@pytest.mark.parametrize("compression", ["raw", "gzip", "lz4"])
@pytest.mark.parametrize("edges", ["pad", "variable"])
def test_missing_tiles_read_as_the_fill_value_where_they_may_be_missing(tmp_path, compression, edges):
    tiles(tmp_path, lambda _, at: "_".join(map(str, at)), compression=compression, variable=edges == "variable")
    (tmp_path / "1_0_1").unlink()
    fields = {"pattern": "{x}_{y}_{z}", "padding_value": 9, "compression": compression, "edge_handling": edges}
    expected = ARRAY.copy()
    expected[3:6, 0:4, 4:8] = 9
    check(header(tmp_path, **fields), expected, allow_missing=True)
    index(tmp_path / "a.jnrrd", tmp_path / "a.json", allow_missing=True)
    check(tmp_path / "a.json", expected)


def test_tiles_that_neither_list_nor_pattern_names_are_missing(tmp_path):
    tiles(tmp_path, lambda number, _: f"{number}")
    path = header(tmp_path, files=[{"indices": [0, 0, 0], "file": "0"}])
    assert "[1, 0, 0]" in refused(path, "tile:files", MalformedError)
    expected = np.zeros_like(ARRAY)
    expected[:3, :4, :4] = ARRAY[:3, :4, :4]
    check(path, expected, allow_missing=True)


def test_all_tiles_missing(tmp_path):
    check(header(tmp_path, pattern="{i}"), np.zeros_like(ARRAY), allow_missing=True)


@pytest.mark.parametrize(("fields", "field", "said"), [
    ({}, "tile:pattern", "missing"),
    ({"pattern": ""}, "tile:pattern", "empty"),
    ({"pattern": 3}, "tile:pattern", "string"),
    ({"pattern": "{q}_{i}_{w}"}, "tile:pattern", "{q}, {w}"),
    ({"pattern": "{d3}"}, "tile:pattern", "{d3}"),
    ({"pattern": "{}"}, "tile:pattern", "{}"),
    ({"pattern": "{0}"}, "tile:pattern", "{0}"),
    ({"pattern": "{x.real}"}, "tile:pattern", "{x.real}"),
    ({"pattern": "{x[0]}"}, "tile:pattern", "{x[0]}"),
    ({"pattern": "{x!r}{i}"}, "tile:pattern", "no format"),
    ({"pattern": "{i:{x}}"}, "tile:pattern", "no format"),
    ({"pattern": "{i:q}"}, "tile:pattern", "no format"),
    ({"pattern": "{i:1000000000d}"}, "tile:pattern", "no format"),
    ({"pattern": "{i"}, "tile:pattern", "{i"),
    ({"pattern": "{x}_{y}"}, "tile:pattern", "several tiles"),
    ({"pattern": "one.raw"}, "tile:pattern", "several tiles"),
    ({"pattern": "{x}_{y}_{z}", "level_scales": [1, 2]}, "tile:pattern", "{l}"),
    ({"pattern": "{i}\n"}, "tile:pattern", "control"),
    ({"files": []}, "tile:files", "not there"),
    ({"files": {}}, "tile:files", "array"),
    ({"files": [{"file": "a"}]}, "tile:files[0].indices", "missing"),
    ({"files": [{"indices": [0, 0, 0]}]}, "tile:files[0].file", "missing"),
    ({"files": [{"indices": [0, 0, 0], "file": 3}]}, "tile:files[0].file", "string"),
    ({"files": [{"indices": [0, 0], "file": "a"}]}, "tile:files[0].indices", "2 numbers"),
    ({"files": [{"indices": [0, 0, -1], "file": "a"}]}, "tile:files[0].indices[2]", "least"),
    ({"files": [{"indices": [0, 0, 2], "file": "a"}]}, "tile:files[0].indices", "grid"),
    ({"files": [{"indices": [0, 0, 0], "file": "a", "level": 1}]}, "tile:files[0].level", "level 1"),
    ({"files": [{"indices": [0, 0, 0], "file": "a"}] * 2}, "tile:files[1]", "once more"),
    ({"pattern": "{i}", "offset_table": [0] * 12}, "tile:offset_table", "files of their own"),
    ({"pattern": "{i}", "size_table": [96] * 11}, "tile:size_table", "11 entries"),
    ({"pattern": "{i}", "size_table": [95] + [96] * 11}, "tile:size_table[0]", "95"),
    ({"pattern": "{i}", "base_dir": 3}, "tile:base_dir", "string"),
])  # fmt: skip
def test_names_that_are_wrong_are_refused_by_their_field(tmp_path, fields, field, said):
    tiles(tmp_path, lambda number, _: f"{number}")
    assert said in refused(header(tmp_path, **fields), field)


@pytest.mark.parametrize("name", ["byte_skip", "line_skip"])
def test_skips_have_no_place_in_files_of_tiles(tmp_path, name):
    tiles(tmp_path, lambda number, _: f"{number}")
    own = core(ARRAY, **{name: 1}) | keys(TILE, storage="external", pattern="{i}")
    (tmp_path / "a.jnrrd").write_bytes(lines(own))
    refused(tmp_path / "a.jnrrd", name)


def test_a_label_that_calls_another_dimension_x_is_no_guess(tmp_path):
    tiles(tmp_path, lambda _, at: f"{at[0]}_{at[1]}_{at[2]}")
    refused(header(tmp_path, pattern="{x}_{y}_{z}", labels=["c", "x", "y"]), "tile:pattern")
    check(header(tmp_path, pattern="{c}_{d1}_{z}", labels=["c", "x", "y"]))


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_of_another_length_is_refused(tmp_path, change):
    tiles(tmp_path, lambda number, _: f"{number}")
    (tmp_path / "5").write_bytes(bytes(96 + change))
    assert str(tmp_path / "5") in refused(header(tmp_path, pattern="{i}"), "tile:sizes", MalformedError)


def test_variable_edges_where_the_header_says_padded_ones(tmp_path):
    tiles(tmp_path, lambda number, _: f"{number}", variable=True)
    refused(header(tmp_path, pattern="{i}"), "tile:sizes", MalformedError)


def test_many_files_are_named_by_their_folder(tmp_path):
    array = volume((1300,), "uint8")
    tiles(tmp_path / "tiles", lambda number, _: f"{number:05d}", array, (1,))
    path = header(tmp_path, array, (1,), pattern="tiles/{i:05d}")
    for out in ("a.json", "a.parquet"):
        index(path, tmp_path / out, relative=out == "a.json")
        group = open_group(tmp_path / out)
        np.testing.assert_array_equal(group["data"][:], array)
        named = [record["url"] for record in group.attrs["jnrrdz"]["sources"]]
        assert len(named) == 2
        assert named[1].endswith("tiles/")


@pytest.mark.parametrize("out", ["a.json", "a.parquet"])
def test_a_tile_of_many_that_was_replaced_is_refused(tmp_path, out):
    array = volume((1300,), "uint8")
    tiles(tmp_path / "tiles", lambda number, _: f"{number:05d}", array, (1,))
    path = header(tmp_path, array, (1,), pattern="tiles/{i:05d}")
    index(path, tmp_path / out)
    index(path, tmp_path / f"without.{out}", object_versions=False)
    tile = tmp_path / "tiles" / "00007"
    written = tile.stat().st_mtime_ns
    tile.write_bytes(bytes([tile.read_bytes()[0] ^ 255]))
    os.utime(tile, ns=(written + 1, written + 1))
    with pytest.raises(DriftError, match=r"tiles/00007: .*changed since it was scanned: time of modification"):
        open_group(tmp_path / out)["data"][:]
    np.testing.assert_array_equal(open_group(tmp_path / out)["data"][8:], array[8:])
    (finding,) = verify(tmp_path / out, drift=True).findings
    assert (finding.kind, finding.place) == ("drift", str(tile))
    assert open_group(tmp_path / f"without.{out}")["data"][7] != array[7]


def test_few_files_are_named_with_their_sizes(tmp_path):
    tiles(tmp_path, lambda number, _: f"{number}")
    records = scan(header(tmp_path, pattern="{i}")).sources
    assert {record.url: record.size for record in records[1:]} == {str(tmp_path / f"{n}"): 96 for n in range(12)}


def test_tiles_in_an_object_store(tmp_path):
    tiles(tmp_path, lambda _, at: "/".join(map(str, at)), compression="zstd")
    header(tmp_path, pattern="{x}/{y}/{z}", base_dir="t", compression="zstd")
    fs = fsspec.filesystem("memory")
    fs.put(str(tmp_path), "/tiled/t", recursive=True)
    fs.mv("/tiled/t/a.jnrrd", "/tiled/a.jnrrd")
    check("memory://tiled/a.jnrrd")
    fs.rm("/tiled/t/1/1/1")
    text = refused("memory://tiled/a.jnrrd", "tile:pattern", MalformedError)
    assert "tiled/t/1/1/1" in text
    fs.rm("/tiled", recursive=True)


class Silent(SimpleHTTPRequestHandler):
    """A server of files, without a word."""

    def log_message(self, *args):
        """Say nothing."""


def test_tiles_behind_http(tmp_path):
    tiles(tmp_path, lambda _, at: "/".join(map(str, at)))
    header(tmp_path, pattern="{x}/{y}/{z}")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/a.jnrrd"
        found = scan(url)
        array = found.children["data"]
        assert array.refs.nbytes_stored == 12 * 96
        (tmp_path / "1/1/1").unlink()
        assert "1/1/1" in refused(url, "tile:pattern", MalformedError)
    finally:
        server.shutdown()
        server.server_close()


def test_the_options_of_the_command(tmp_path):
    path = header(tmp_path / "in", **escaping(tmp_path)["base"][0])
    (tmp_path / "out" / "3").unlink()
    run = CliRunner().invoke
    refusal = run(cli, ["index", str(path), "-o", str(tmp_path / "a.json")])
    assert refusal.exit_code == 1
    assert "tile:base_dir" in refusal.output
    given = ["index", str(path), "-o", str(tmp_path / "a.json"), "--allow", str(tmp_path / "out")]
    refusal = run(cli, given)
    assert refusal.exit_code == 1
    assert "out/3" in refusal.output
    assert run(cli, [*given, "--allow-missing"]).exit_code == 0
    expected = ARRAY.copy()
    expected[0:3, 4:8, 0:4] = 0
    check(tmp_path / "a.json", expected)
