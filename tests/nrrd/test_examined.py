"""Run the examiner's files through the index, and hold each to what the rulings say."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import jnrrdz
from tests.nrrd import (
    examined_external,
    examined_good,
    examined_hostile,
    examined_levels,
    examined_plain,
    examined_refused,
)
from tests.nrrd.examiner import Case

CASES = [
    *examined_good.CASES,
    *examined_levels.CASES,
    *examined_external.CASES,
    *examined_plain.CASES,
    *examined_refused.CASES,
    *examined_hostile.CASES,
]


def _index(case: Case, folder: Path) -> Path:
    """Index the case's file, with the warning that it is due and no other."""
    source, out = case.make(folder), folder / "out.json"
    due = pytest.warns(UserWarning, match=case.warns) if case.warns else contextlib.nullcontext()
    with due:
        jnrrdz.index(source, out, **{k: v(folder) if callable(v) else v for k, v in case.choices.items()})
    return out


def _arrays(group: zarr.Group) -> dict[str, zarr.Array[Any]]:
    """Give the arrays by path."""
    return {name: array for name, array in group.members(max_depth=None) if isinstance(array, zarr.Array)}


def _same(found: np.ndarray[Any, Any], due: np.ndarray[Any, Any], near: float) -> None:
    """Hold shape, type and voxels to what is due."""
    assert found.shape == due.shape
    assert found.dtype.newbyteorder("=") == due.dtype.newbyteorder("=")
    if near:
        np.testing.assert_allclose(found.astype("f8"), due.astype("f8"), atol=near)
    else:
        np.testing.assert_array_equal(found, due)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if not case.refused])
def test_reads(case: Case, tmp_path: Path) -> None:
    out = _index(case, tmp_path)
    arrays = _arrays(jnrrdz.open_group(out, **case.reading_choices(tmp_path)))
    assert set(arrays) == set(case.pixels)
    for name, due in case.pixels.items():
        _same(np.asarray(arrays[name][...]), due, case.near)
        window = tuple(slice(size // 3, size // 3 + 2) for size in due.shape)
        _same(np.asarray(arrays[name][window]), due[window], case.near)
    if case.fits:
        assert case.fits(arrays[min(case.pixels)])


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if case.refused])
def test_refuses(case: Case, tmp_path: Path) -> None:
    with pytest.raises(jnrrdz.JnrrdzError) as refusal:  # noqa: PT012  either may refuse
        out = _index(case, tmp_path)
        assert case.reading, "indexed"
        for array in _arrays(jnrrdz.open_group(out, **case.reading_choices(tmp_path))).values():
            array[...]
    text = str(refusal.value).replace(str(tmp_path), "")  # whose name is the case's
    assert [word for word in case.refused if word not in text] == []
    assert "\n" not in text
