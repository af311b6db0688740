"""Manifests stay the same bytes: what an index of yesterday wrote, one of today writes."""

import numpy as np
import pytest
import xarray as xr

import jnrrdz
from tests.manifests.golden_cases import CASES, WRITTEN, pinned_text

pytestmark = pytest.mark.filterwarnings("ignore:encoding gzip:UserWarning")
BY_NAME = [pytest.param(case, id=case.name) for case in CASES]
RENEW = "python -m tests.manifests.golden_cases, where the change is meant"


def test_every_pinned_manifest_is_tested():
    names = sorted(case.name for case in CASES)
    assert sorted(path.stem for path in WRITTEN.glob("*.json")) == names
    assert all(path.stat().st_size < 20_000 for path in WRITTEN.glob("*.json"))


@pytest.mark.parametrize("case", BY_NAME)
def test_its_bytes(case, tmp_path):
    expected = (WRITTEN / f"{case.name}.json").read_text(encoding="utf-8")
    assert pinned_text(case.write(tmp_path)) == expected, RENEW


@pytest.mark.parametrize("case", BY_NAME)
def test_a_table_of_it_has_the_same_documents(case, tmp_path):
    # pyarrow's versions write other bytes: what is read is compared
    (tmp_path / "json").mkdir()
    (tmp_path / "parquet").mkdir()
    manifest = case.write(tmp_path / "json")
    table = case.write(tmp_path / "parquet", "parquet")
    trees = [xr.open_datatree(path, engine="jnrrdz") for path in (manifest, table)]
    assert trees[0].identical(trees[1])
    for path, node in trees[0].to_dict().items():
        for name, variable in node.variables.items():
            np.testing.assert_array_equal(variable, trees[1][path].variables[name])


def test_what_is_pinned_names_no_version():
    texts = [path.read_text(encoding="utf-8") for path in WRITTEN.glob("*.json")]
    assert not [text for text in texts if jnrrdz.__version__ in text]
