"""`jnrrdz ls`: the nodes that zarr sees, and the sizes that tifffile sees."""

import json

import tifffile
import zarr

import jnrrdz


def test_top_and_all(cog, run):
    run("-q", "index", cog, "-o", "refs.json")
    group = jnrrdz.open_group("refs.json")
    every = [path + ("/" if isinstance(node, zarr.Group) else "") for path, node in group.members(max_depth=None)]
    for name in (cog, "refs.json"):
        assert run("ls", name).stdout.split() == ["0/", "1/", "2/"]
        assert sorted(run("ls", "-r", name).stdout.split()) == sorted(every)


def test_json_is_what_tifffile_sees(cog, run):
    with tifffile.TiffFile(cog) as file:
        page = file.pages.first
        expected = {
            "path": "0/data",
            "kind": "array",
            "data_type": str(page.dtype),
            "shape": list(page.shape),
            "chunk_shape": [page.tilelength, page.tilewidth],
            "chunks": len(page.dataoffsets),
            "missing": 0,
            "stored_bytes": sum(page.databytecounts),
        }
    nodes = {node["path"]: node for node in json.loads(run("ls", "-r", "--json", cog).stdout)["nodes"]}
    assert nodes["0/data"] == expected
    assert nodes["0"] == {"path": "0", "kind": "group"}
    assert [node["path"] for node in json.loads(run("ls", "--json", cog).stdout)["nodes"]] == ["0", "1", "2"]


def test_long_lines(holes, run):
    with tifffile.TiffFile(holes) as file:
        stored = sum(file.pages.first.databytecounts)
    (line,) = run("ls", "-l", holes).stdout.splitlines()
    assert line.split("  ")[:3] == ["float32", "3 x 40 x 30", "1 x 10 x 30"]
    assert line.split("  ")[3:] == [f"{stored / 1000:.1f} kB", "data"]


def test_empty_group_has_no_lines(run, tmp_path):
    root = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}})
    (tmp_path / "none.json").write_text(json.dumps({"zarr.json": root}), encoding="utf-8")
    assert run("ls", tmp_path / "none.json", "-l").stdout == ""
    assert json.loads(run("ls", tmp_path / "none.json", "--json").stdout)["nodes"] == []
    assert json.loads(run("info", tmp_path / "none.json", "--json").stdout)["levels"] == 0
    assert run("info", tmp_path / "none.json").stdout.startswith("name ")
