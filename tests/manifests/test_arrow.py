import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.manifests.parquet_records import integers, texts

numbers = st.lists(st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)))


@given(numbers, st.sampled_from([np.int32, np.int64]), st.integers(1, 3))
def test_integers(values, dtype, step):
    values = values[::step]
    column = np.repeat([0 if value is None else value for value in values], 2).astype(dtype)[::2]
    present = np.array([value is not None for value in values], bool)
    assert integers(column, present).to_pylist() == values
    assert integers(column).to_pylist() == column.tolist()


@given(st.lists(st.text(st.characters(codec="utf-8"))))
def test_texts(values):
    column = texts(values)
    column.validate(full=True)
    assert column.to_pylist() == values


@pytest.mark.parametrize("writer", ["json", "parquet"])
def test_writing_does_not_import_pandas(writer, tmp_path):
    code = f"""
import sys
import numpy as np
from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.manifests import {writer}
array = VirtualArray((2,), np.dtype("u1"), (1,), (), ChunkRefs.single("/a", [1, 2], [3, 4]), ("x",))
{writer}.write(VirtualGroup({{"data": array}}), {str(tmp_path / "r")!r})
sys.exit("pandas" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
