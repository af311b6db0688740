"""`jnrrdz batch` as a command: exit codes, dry runs, lists, what its report does not hold."""

import json

import pytest

from tests.nitf.conftest import nitf_bytes


def test_list_becomes_manifests_and_report(cog, run, tmp_path):
    (tmp_path / "list.txt").write_text(f"# scenes\n{cog}\n\n{tmp_path}/missing.tif\n")
    shown = run("batch", "--from-file", "list.txt", "-o", "out/{stem}.json", "--report", "r.jsonl", code=3)
    assert "1 ok, 0 skipped, 1 failed" in shown.stderr
    lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert sorted(line["state"] for line in lines) == ["failed", "ok"]
    run("batch", cog, "-o", "out/{stem}.json", "--resume")
    run("batch", cog, "-o", "out/{stem}.json", code=3)


def test_what_is_not_indexed_is_counted(cog, run, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (tmp_path / "in").mkdir()
    cog.rename(tmp_path / "in" / "scene.tif")
    (tmp_path / "in" / "text.ntf").write_bytes(nitf_bytes())
    for name in ("a.xml", "b.xml", "c.pdf"):
        (tmp_path / "in" / name).write_text("")
    shown = run("batch", "in/", "-o", "out/{stem}.json", "-j", "1")
    assert "1 ok, 0 skipped, 0 failed, 1 without an image, " in shown.stderr
    assert f"nothing to index: {tmp_path}/in/text.ntf: NUMI: no image segment" in shown.stderr
    assert "::error" not in shown.stderr
    assert "passed over 3 files whose names are not those of images: 2 .xml, 1 .pdf" in shown.stderr


@pytest.mark.usefixtures("cog")
def test_dry_run_writes_nothing(run, tmp_path):
    shown = run("batch", "*.tif", "-o", "out/{stem}.json", "--dry-run")
    assert shown.stdout == "scene.tif -> out/scene.json\n"
    assert not (tmp_path / "out").exists()


def test_mistakes_are_told(cog, error_line, run):
    assert "{nope}" in error_line("batch", cog, "-o", "{nope}.json", code=2)
    assert "nothing is found" in error_line("batch", "*.jp2", "-o", "{stem}.json")
    assert "HTTP has no listing" in error_line("batch", "http://h/*.tif", "-o", "{stem}.json")
    run("batch", cog, "-o", "{stem}.json", "--shard", "5/4", code=2)
    run("batch", "-o", "{stem}.json", code=2)


@pytest.mark.usefixtures("cog")
def test_stac_items_assets(run, tmp_path):
    item = {
        "type": "Feature",
        "id": "one",
        "assets": {
            "image": {"href": "./scene.tif", "type": "image/tiff; application=geotiff"},
            "thumbnail": {"href": "t.tif", "type": "image/tiff", "roles": ["thumbnail"]},
        },
    }
    (tmp_path / "item.json").write_text(json.dumps(item))
    run("batch", tmp_path / "item.json", "-o", "out/{id}_{asset}.json")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["one_image.json"]
