"""Untiled JNRRD, its bytes made by numpy alone, read as they were written."""

import json

import numpy as np
import pytest

from jnrrdz.api import open_group


@pytest.mark.parametrize(("kind", "endian"), [("uint16", "big"), ("float32", "little"), ("complex64", "big")])
def test_raw_data_read_exactly(tmp_path, kind, endian):
    expected = (np.arange(5 * 701 * 333) % 9973).reshape(5, 701, 333).astype(kind)
    core = {"jnrrd": "0004", "type": kind, "dimension": 3, "sizes": [333, 701, 5], "endian": endian}
    header = "".join(json.dumps({name: value}) + "\n" for name, value in core.items())
    order = ">" if endian == "big" else "<"
    path = tmp_path / "a.jnrrd"
    path.write_bytes(header.encode() + b"\n" + expected.astype(expected.dtype.newbyteorder(order)).tobytes())
    array = open_group(path)["data"]
    np.testing.assert_array_equal(array[:], expected)
    assert array.metadata.dimension_names == ("z", "y", "x")
