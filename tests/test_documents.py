"""What documents, examples and benchmarks say of the package is there: modules, names, links."""

import ast
import dataclasses
import importlib
import inspect
import itertools
import re
import textwrap
import tomllib
from functools import partial
from pathlib import Path

import pytest

import jnrrdz

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    path for folder in ("docs", ".") for path in (ROOT / folder).glob("**/*.md" if folder == "docs" else "*.md")
)
SCRIPTS = sorted(path for folder in ("benchmarks", "examples") for path in (ROOT / folder).glob("**/*.py"))
GONE = re.compile(
    r"`(?:jnrrdz[./])?(?:layout|model|read|write|scan|source|batch|merging|tiling|verifying)[./][a-z]\w*[^`]*`"
)
PLACES = re.compile(
    r"`(?:jnrrdz/)?((?:core|formats|codecs|sources|manifests|store|commands|batches|cli)/[\w/]*(?:\.py)?)`"
)
HISTORY = {"008-the-house-as-built.md"}
"""Documents that tell of a house that is gone."""


def named(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SCRIPTS, ids=named)
def test_scripts_import_what_is_there(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "jnrrdz":
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path.name not in HISTORY], ids=named)
def test_documents_name_modules_that_are_there(path):
    text = path.read_text(encoding="utf-8")
    assert [place for place in PLACES.findall(text) if not (ROOT / "jnrrdz" / place.replace("NAME", "")).exists()] == []
    assert GONE.findall(text) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_every_decision_has_a_number_of_its_own_and_stands_in_the_index():
    folder = ROOT / "docs" / "decisions"
    records = sorted(path.name for path in folder.glob("[0-9]*.md"))
    numbers = [int(name[:3]) for name in records]
    assert numbers == list(range(1, len(records) + 1))
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((\d{3}[^)]*)\)", index) == records
    for name in records:
        assert (folder / name).read_text(encoding="utf-8").startswith(f"# {name[:3]}: "), name


SECURITY = re.findall(
    r"^\| (.+?) \| (.+?) \| (.+?) \|$", (ROOT / "docs/security.md").read_text(encoding="utf-8"), re.MULTILINE
)
PROMISES = [row for row in SECURITY if row[0] not in {"promise", "---"}]


@pytest.mark.parametrize(("promise", "keepers", "tests"), PROMISES, ids=lambda text: text[:40])
def test_a_promise_names_what_keeps_it_and_what_shows_it(promise, keepers, tests):
    for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", tests):
        source = (ROOT / path).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in source, promise
    assert "tests/" in tests
    for keeper in re.findall(r"`([\w.]+)`", keepers):
        parts = keeper.split(".")
        homes = [ROOT / "jnrrdz" / Path(*parts[:count]) for count in range(len(parts), 0, -1)]
        home = next(
            path for home in homes for path in (home.with_suffix(".py"), home / "__init__.py") if path.is_file()
        )
        assert re.search(rf"\b{parts[-1]}\b", home.read_text(encoding="utf-8")) or home.stem == parts[-1], keeper


def test_every_public_name_has_its_place_in_the_reference():
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: jnrrdz\.(\w+)$", text, re.MULTILINE)) == sorted(jnrrdz.__all__)


RECORDS = [
    record
    for record in map(partial(getattr, jnrrdz), jnrrdz.__all__)
    if dataclasses.is_dataclass(record) or hasattr(record, "_fields")
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_of_a_public_record_is_told(record):
    (body,) = [node.body for node in ast.parse(textwrap.dedent(inspect.getsource(record))).body]
    told = inspect.getdoc(record) or ""
    for node, after in itertools.zip_longest(body, body[1:]):
        if isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):
            has_words = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            assert has_words or re.search(rf"^{node.target.id}\b", told, re.MULTILINE), node.target.id


def test_the_page_on_installing_has_every_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    table = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| .+ \| `(\w+)` \|$", table, re.MULTILINE))
    assert told == set(project["optional-dependencies"]) - {"dev"}
