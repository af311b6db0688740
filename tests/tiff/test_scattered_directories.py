"""Directories of a remote stack are fetched together, not one after the other."""

import numpy as np
import tifffile

from jnrrdz.core.state import Validators
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.sources.readahead import ReadAhead


class Counting:
    """A source that counts the times it was asked."""

    url = "memory://counting"

    def __init__(self, data):
        self.data = data
        self.rounds = 0
        self.validators = Validators(len(data))

    def read(self, spans):
        self.rounds += 1
        return [self.data[start:stop] for start, stop in spans]


def test_a_stack_of_scattered_directories(tmp_path):
    path = tmp_path / "a.tif"
    page = np.zeros((150, 500), "u1")
    with tifffile.TiffWriter(path) as target:
        for _ in range(500):
            options = {"metadata": None, "contiguous": False, "photometric": "minisblack"}
            target.write(page, **options)
    source = Counting(path.read_bytes())
    read = ReadAhead(source)
    layout = TiffLayout(read, read.size)
    with tifffile.TiffFile(path) as expected:
        assert layout.main == [each.offset for each in expected.pages]
    assert source.rounds < 30
