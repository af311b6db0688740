"""docs/architecture.md against the package: places that exist, and ways that bytes really take."""

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import jnrrdz

ROOT = Path(__file__).parent.parent
PACKAGE = Path(jnrrdz.__file__).parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", PAGE, re.MULTILINE))
WAYS = {
    "COG": "The way of a COG",
    "NITF": "The way of a JPEG 2000 tile in a NITF",
    "N5": "The way of an N5 block",
}
NOT_ON_THIS_WAY = {
    # said of other files
    "formats/tiff/decode.py",
    "codecs/tiles.py",
    # said of remote sources
    "store/requests.py",
}
MODULE = re.compile(r"`((?:[a-z0-9_]+/)*[a-z0-9_]+\.py|(?:[a-z0-9_]+/)+)`")
OF_TESTS = ("tests/", "docs/", "formats/NAME/")
NAMED = re.compile(r"`([a-z0-9_/]+)\.py`: ((?:`[A-Za-z_.]+`(?:, )?)+)")


def test_it_is_short():
    assert len(PAGE.splitlines()) <= 250


@pytest.mark.parametrize("path", sorted(set(MODULE.findall(PAGE))))
def test_each_module_exists(path):
    if path.startswith(OF_TESTS):
        assert path == "formats/NAME/" or (ROOT / path).exists()
    elif path not in {"codecs.py", "decode.py"}:  # of a format's room
        assert (PACKAGE / path).exists()


@pytest.mark.parametrize(("module", "names"), NAMED.findall(PAGE))
def test_each_name_is_in_its_module(module, names):
    for name in re.findall(r"`([^`]+)`", names):
        value = import_module(f"jnrrdz.{module.replace('/', '.')}")
        for part in name.split("."):
            value = getattr(value, part)


def test_every_idea_has_a_place():
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", SECTIONS["Ideas and their places"], re.MULTILINE)
    assert len(rows) > 20
    assert all(MODULE.search(place) for idea, place, _ in rows if idea != "idea")


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    """The modules that each kind of file passes, in a process of its own."""
    folder = str(tmp_path_factory.mktemp("ways"))
    program = [sys.executable, "-m", "tests.ways", folder]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", WAYS)
def test_bytes_pass_each_module_of_their_way(ways, kind):
    modules = {path for path in MODULE.findall(SECTIONS[WAYS[kind]]) if path.endswith(".py")}
    assert len(modules) > 4
    assert modules - NOT_ON_THIS_WAY - set(ways[kind]) == set()
