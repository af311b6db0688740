"""Chunks that `verify` reads together."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st

import jnrrdz
from jnrrdz.commands.verify_chunks import boxes

GRIDS = st.lists(st.integers(1, 5), max_size=4).map(tuple)


@given(GRIDS, st.integers(1, 40), st.randoms())
def test_boxes_are_the_chunks_that_were_asked_for(grid, most, random):
    every = list(range(int(np.prod(grid, dtype=np.int64))))
    numbers = sorted(random.sample(every, random.randint(1, len(every))))
    covered = []
    for box in boxes(numbers, grid, most):
        chunks = list(itertools.product(*box))
        assert len(chunks) <= most
        covered += [int(np.ravel_multi_index(index, grid)) if grid else 0 for index in chunks]
    assert covered == numbers


def test_a_whole_grid_is_one_box():
    assert list(boxes(range(24), (2, 3, 4), 24)) == [(range(2), range(3), range(4))]
    assert list(boxes(range(24), (2, 3, 4), 12)) == [
        (range(1), range(3), range(4)),
        (range(1, 2), range(3), range(4)),
    ]


@pytest.mark.parametrize("damaged", [0, 3, 15])
def test_one_damaged_chunk_among_neighbours_is_named(tmp_path, damaged):
    path = tmp_path / "a.tif"
    pixels = np.arange(64 * 64, dtype="u2").reshape(64, 64)
    tifffile.imwrite(path, pixels, tile=(16, 16), compression="zlib")
    jnrrdz.index(path, tmp_path / "a.json")
    with tifffile.TiffFile(path) as file:
        offset = file.pages[0].dataoffsets[damaged]
    data = bytearray(Path(path).read_bytes())
    data[offset] = 0
    with path.open("r+b") as stream:
        stream.write(data)
    with pytest.warns(jnrrdz.errors.DriftWarning):
        found = jnrrdz.verify(tmp_path / "a.json", deep=True)
    assert found.chunks == 16
    assert [finding.place for finding in found.findings] == [f"data/c/{damaged // 4}/{damaged % 4}"]
