"""What a notebook shows of a chunk that fails: the cell's line and the error, not what lies between."""

import re
import traceback

import numpy as np
import pytest
import tifffile
import xarray as xr

import jnrrdz


@pytest.fixture
def deleted(tmp_path):
    """Return a manifest whose source is gone, and the source."""
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.ones((64, 64), "u2"), tile=(32, 32))
    jnrrdz.index(path, tmp_path / "a.json")
    path.unlink()
    return tmp_path / "a.json", path


def test_frames_of_libraries_are_left_out(deleted):
    manifest, path = deleted
    dataset = xr.open_dataset(manifest)
    with pytest.raises(jnrrdz.JnrrdzError) as caught:
        dataset["data"].values  # noqa: B018  reading is what fails
    assert len(traceback.format_exception(caught.value)) > 30
    shown = "\n".join(caught.value._render_traceback_()).splitlines()
    assert shown[0] == "Traceback (most recent call last):"
    assert f'File "{__file__}"' in shown[1]
    assert 'dataset["data"].values' in shown[2]
    assert shown[-1] == f"JnrrdzError: {path}: data/c/0/0: not found"
    assert len(shown) < 8


def test_ipython_shows_it(deleted, capsys):
    pytest.importorskip("IPython", reason="a notebook's interpreter, which jnrrdz itself does not need")
    from IPython.core.interactiveshell import InteractiveShell  # noqa: PLC0415  see above

    manifest, path = deleted
    shell = InteractiveShell.instance()
    shell.run_cell(f"import xarray as xr; dataset = xr.open_dataset({str(manifest)!r})")
    capsys.readouterr()
    shell.run_cell("dataset['data'].values")
    out, err = capsys.readouterr()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out + err).strip().splitlines()
    assert lines[-1] == f"JnrrdzError: {path}: data/c/0/0: not found"
    assert len(lines) < 8
