"""Every level of every file of a corpus of JPEG 2000, against OpenJPEG's reduction of the whole file.

Runs where the corpus stands beside that of JNRRDZ_CORPUS; irregular components are glymur's to judge.
"""

import os
import warnings
from pathlib import Path

import imagecodecs
import numpy as np
import pytest

import jnrrdz
from jnrrdz.codecs import openjp2
from jnrrdz.errors import JnrrdzError, UnsupportedError

CORPUS = Path(os.environ.get("JNRRDZ_CORPUS", "/nowhere")).parent / "jpeg2000"
FILES = sorted(path for path in CORPUS.rglob("*.j*") if path.suffix in {".jp2", ".j2k", ".j2c", ".jhc", ".jph"})
LARGEST = 300_000
"""Bytes of a file that this has time for."""

pytestmark = pytest.mark.filterwarnings("ignore")


def reference(path, level):
    """Bands of the whole file; None where no reader has them."""
    data = path.read_bytes()
    start = data.find(b"\xff\x4f\xff\x51")
    try:
        pixels = imagecodecs.jpeg2k_decode(data[start:], skipres=level, planar=True)
    except (RuntimeError, NotImplementedError, ValueError):
        return None
    return pixels if pixels.ndim == 3 else pixels[np.newaxis]


@pytest.mark.skipif(not FILES, reason="no corpus of JPEG 2000 beside JNRRDZ_CORPUS")
@pytest.mark.parametrize("path", [path for path in FILES if path.stat().st_size < LARGEST], ids=lambda path: path.name)
def test_every_level_of_a_file_is_the_decoders_own(path, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            jnrrdz.index(str(path), tmp_path / "refs.json")
        except JnrrdzError:
            return  # that readable files are not refused is shown by the conformance run
    group = jnrrdz.open_group(tmp_path / "refs.json")
    if "component_0" in group or any(name.startswith(("components_", "image_")) for name in group.group_keys()):
        pytest.skip("components of several sizes: tests/codecs/test_jpeg2000.py")
    arrays = [group["data"]] if "data" in group else [group[f"{level}/data"] for level in range(len(group))]
    for level, array in enumerate(arrays):
        expected = reference(path, level)
        if expected is None:
            continue
        try:
            pixels = array[...]
        except UnsupportedError as error:
            assert "libopenjp2" in str(error)  # noqa: PT017  what else is refused has to be refused at indexing
            pytest.skip(openjp2.INSTALL)
        expected = expected[..., : array.shape[-2], : array.shape[-1]]
        np.testing.assert_array_equal(pixels.reshape(expected.shape), expected)
