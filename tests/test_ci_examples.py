"""The examples for CI and clusters, executed as their runners would: steps by bash, shards by variables."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import jnrrdz
from tests.batch.conftest import environment, image  # noqa: F401  a fixture

CI = Path(__file__).parent.parent / "examples" / "ci"
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
"""How GitHub's runner calls bash."""
COUNT = 23


@pytest.fixture
def sources(seaweed, bucket):
    """Return a pattern for images of a bucket, one a day."""
    for number in range(COUNT):
        seaweed.put(bucket, f"scenes/{number % 2}/s_202401{number + 1:02}.tif", image(number))
    return f"s3://{bucket}/scenes/**/*.tif"


@pytest.fixture
def variables(tmp_path):
    """Return the environment of a step: the command of this environment, and a pip that installs nothing."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "pip").write_text('#!/bin/sh\n[ "$1 $2" = "install jnrrdz" ]\n')
    program = f"#!{sys.executable}\nfrom jnrrdz.cli import main\nmain()\n"
    (folder / "jnrrdz").write_text(program)
    for path in folder.iterdir():
        path.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def manifests(seaweed, bucket):
    return sorted(key for key in seaweed.keys(bucket, "manifests/") if key.endswith(".json"))


def expected():
    return sorted(f"manifests/{number % 2}/s_202401{number + 1:02}.json" for number in range(COUNT))


class Runner:
    """Enough of GitHub's runner: expressions, matrices, needs, artifacts, `run` by bash in a folder for each job."""

    def __init__(self, workflow, folder, variables, contexts):
        self.workflow = workflow
        self.folder = folder
        self.variables = variables
        self.contexts = contexts
        self.artifacts = folder / "artifacts"

    def run(self):
        done = []
        for name, job in self.workflow["jobs"].items():
            assert set([job["needs"]] if "needs" in job else []) <= set(done)
            for values in matrix(job):
                self._job(name, job, {**self.contexts, **values})
            done.append(name)

    def _job(self, name, job, contexts):
        folder = self.folder / "-".join([name, *(str(value) for key, value in contexts.items() if "matrix" in key)])
        folder.mkdir(parents=True)
        given = {**self.workflow.get("env", {}), **job.get("env", {})}
        variables = {key: self.filled(value, contexts) for key, value in given.items()}
        for step in job["steps"]:
            self._step(step, folder, {**self.variables, **variables}, contexts)

    def _step(self, step, folder, variables, contexts):
        given = {key: self.filled(value, contexts) for key, value in step.get("with", {}).items()}
        action = step.get("uses", "").partition("@")[0]
        if "run" in step:
            subprocess.run([*BASH, self.filled(step["run"], contexts)], cwd=folder, env=variables, check=True)
        elif action == "actions/upload-artifact":
            (self.artifacts / given["name"]).mkdir(parents=True)
            shutil.copy(folder / given["path"], self.artifacts / given["name"])
        elif action == "actions/download-artifact":
            shutil.copytree(self.artifacts, folder / given["path"])
        else:
            assert action == "actions/setup-python"

    def filled(self, text, contexts):
        return re.sub(r"\$\{\{\s*([\w.-]+)\s*\}\}", lambda match: str(contexts[match[1]]), str(text))


def matrix(job):
    ((name, values),) = job.get("strategy", {}).get("matrix", {"none": [None]}).items()
    return [{f"matrix.{name}": value} for value in values] if values != [None] else [{}]


def contexts_of(seaweed, bucket, sources):
    settings = {"vars.SOURCES": sources, "vars.MANIFESTS": f"s3://{bucket}/manifests"}
    names = {"AWS_REGION": "vars", "AWS_ACCESS_KEY_ID": "secrets", "AWS_SECRET_ACCESS_KEY": "secrets"}
    own = seaweed.environment()
    return settings | {f"{context}.{name}": own[name] for name, context in names.items()}


def test_github_actions(seaweed, bucket, sources, variables, tmp_path):
    workflow = yaml.safe_load((CI / "github-actions.yml").read_text())
    outside = {name: seaweed.environment()[name] for name in ("AWS_ENDPOINT_URL", "AWS_EC2_METADATA_DISABLED")}
    runner = Runner(workflow, tmp_path / "work", {**variables, **outside}, contexts_of(seaweed, bucket, sources))
    runner.run()
    assert manifests(seaweed, bucket) == expected()
    reports = [path.read_text().splitlines() for path in sorted(runner.artifacts.glob("*/report.jsonl"))]
    lines = [json.loads(line) for report in reports for line in report]
    assert len(reports) == 4
    assert all(reports)
    assert [line["state"] for line in lines] == ["ok"] * COUNT
    options = seaweed.options()
    url = f"s3://{bucket}/manifests/all.parquet"
    merged = jnrrdz.open_dataset(url, storage_options=options, source_options=options, allow=[f"s3://{bucket}/"])
    assert merged["data"][:, 3, 4].values.tolist() == list(range(COUNT))


@pytest.mark.usefixtures("environment")
def test_gitlab(seaweed, bucket, sources, variables, tmp_path):
    job = yaml.safe_load((CI / "gitlab-ci.yml").read_text())["index"]
    for part in range(1, job["parallel"] + 1):
        own = {"CI_NODE_INDEX": str(part), "CI_NODE_TOTAL": str(job["parallel"])}
        own |= {"SOURCES": sources, "MANIFESTS": f"s3://{bucket}/manifests"}
        script = "\n".join(job["script"])
        subprocess.run(
            [*BASH, script], cwd=tmp_path, env={**variables, **os.environ, "PATH": variables["PATH"], **own}, check=True
        )
    assert manifests(seaweed, bucket) == expected()
    assert len(list(tmp_path.glob("report-*.jsonl"))) == 4


@pytest.mark.usefixtures("environment")
def test_aws_batch(seaweed, bucket, sources, variables, tmp_path):
    own = {"SOURCES": sources, "MANIFESTS": f"s3://{bucket}/manifests", "PARTS": "2"}
    for index in ("0", "1"):
        given = {**variables, **os.environ, "PATH": variables["PATH"], **own, "AWS_BATCH_JOB_ARRAY_INDEX": index}
        subprocess.run([CI / "aws-batch.sh"], cwd=tmp_path, env=given, check=True)
    assert manifests(seaweed, bucket) == expected()


@pytest.fixture
def local(tmp_path):
    folder = tmp_path / "scenes"
    (folder / "deep").mkdir(parents=True)
    for number in range(COUNT):
        (folder / "deep" / f"s{number:02}.tif").write_bytes(image(number))
    return folder


def test_slurm(local, variables, tmp_path):
    for part in ("1", "2"):
        own = {"SLURM_ARRAY_TASK_ID": part, "SLURM_ARRAY_TASK_COUNT": "2", "SLURM_CPUS_PER_TASK": "1"}
        command = [CI / "slurm.sh", local, tmp_path / "out"]
        subprocess.run(command, cwd=tmp_path, env={**variables, **own}, check=True)
    assert len(list((tmp_path / "out" / "deep").glob("*.json"))) == COUNT


def test_dask(local, tmp_path):
    command = [sys.executable, CI / "dask_cluster.py", f"{local}/", tmp_path / "out"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stdout == f"{COUNT} indexed, 0 left, 0 failed\n"
    assert len(list((tmp_path / "out" / "deep").glob("*.json"))) == COUNT
