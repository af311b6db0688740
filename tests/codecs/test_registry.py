"""The pages of our codecs as the Zarr extension registry takes them: what its CI looks at, and the data beside them.

https://github.com/zarr-developers/zarr-extensions#registering-an-extension
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import zarr

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "codecs"
PROPOSED = ("jbp-block", "jbp-jpeg", "jpeg2000", "offset", "pad", "tiff-tile")
"""What would be submitted; names that begin with jnrrdz. are ours alone, n5_default is registered."""

EVERY = sorted(path.name for path in PAGES.iterdir() if path.is_dir())
LINK = re.compile(r"\]\(([^)\s]+)\)")
PRETTIER = ROOT / "tests" / "clients" / "node_modules" / "prettier" / "bin" / "prettier.cjs"


def page(name):
    return (PAGES / name / "README.md").read_text(encoding="utf-8")


def titles(text):
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^#+ (.*)$", prose, re.MULTILINE)


@pytest.mark.parametrize("name", EVERY)
def test_links_stay_in_the_folder_or_lead_to_the_web(name):
    text = page(name)
    anchors = {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles(text)}
    for link in LINK.findall(text):
        if link.startswith("#"):
            assert link[1:] in anchors
        elif not link.startswith("https://"):
            target = (PAGES / name / link).resolve()
            assert target.is_relative_to((PAGES / name).resolve()), link
            assert target.exists(), link


@pytest.mark.skipif(not PRETTIER.exists(), reason="tests/system.sh installs prettier by npm")
def test_schemas_and_examples_are_formatted():
    files = sorted(path for pattern in ("*/schema.json", "*/example/zarr.json") for path in PAGES.glob(pattern))
    command = [shutil.which("node"), PRETTIER, "--check", *files]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert len(files) > len(EVERY)


@pytest.mark.parametrize("name", PROPOSED)
def test_pages_have_what_the_registry_asks_for(name):
    text = page(name)
    assert not set("/?#[]@!$&'()*+,;=~.:") & set(name)
    wanted = ["Codec name", "Configuration", "Example data", "Implementations", "Authors and licence", "Maintainers"]
    assert [title for title in titles(text) if title in wanted] == wanted
    assert f"MUST be `{name}`" in text
    assert text.count("MUST") > 5
    assert "https://creativecommons.org/licenses/by/3.0/" in text


@pytest.mark.parametrize("name", PROPOSED)
def test_example_data_are_what_another_library_reads(name):
    folder = PAGES / name / "example"
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    document = json.loads((folder / "zarr.json").read_text(encoding="utf-8"))
    assert name in [codec["name"] for codec in document["codecs"]]
    array = zarr.open_array(folder, mode="r")
    np.testing.assert_array_equal(array[...], expected["values"])
    assert np.ptp(array[...]) > 0
