"""`jnrrdz verify`: the table, the codes, JSON."""

import json
import os


def test_fine(cog, run):
    run("-q", "index", cog, "-o", "refs.json")
    done = run("verify", "refs.json", cog)
    assert done.exit_code == 0
    assert done.stdout == ""
    assert "refs.json: fine (1 source, 17 ranges, 13 chunks read)" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_what_is_wrong_is_a_table_and_a_code(cog, run):
    run("-q", "index", cog, "-o", "refs.json")
    os.truncate(cog, 5000)
    done = run("-q", "verify", "--drift", "refs.json", code=4)
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert line.split()[:3] == ["refs.json", "drift", str(cog)]


def test_json(cog, run):
    run("-q", "index", cog, "-o", "refs.json")
    os.truncate(cog, 5000)
    found = json.loads(run("verify", "--json", "refs.json", code=4).stdout)
    assert found["ok"] is False
    assert found["findings"][0]["kind"] == "drift"


def test_a_manifest_that_is_not_there_does_not_stop_the_others(cog, run):
    run("-q", "index", cog, "-o", "refs.json")
    done = run("verify", "gone.json", "refs.json", code=1)
    assert "gone.json" in done.stderr
    assert "refs.json: fine" in done.stderr


def test_deep_and_drift_exclude_each_other(cog, run):
    assert "--drift" in run("verify", "--deep", "--drift", cog, code=2).stderr
