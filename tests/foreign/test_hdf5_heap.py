"""Global heaps of HDF5 at which the library does not end are refused before it reads them."""

import subprocess
import sys

import h5py
import numpy as np
import pytest

import jnrrdz
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.foreign import hdf5_heap
from jnrrdz.formats.foreign.hdf5_heap import Heaps

HEADER = 16
SIZE = 8


@pytest.fixture
def with_heap(make_hdf5):
    """Return a file whose data set has an attribute in a global heap."""

    def write(file):
        dataset = file.create_dataset("v", data=np.arange(64.0))
        text = h5py.string_dtype()
        dataset.attrs.create("names", ["first", "second"], dtype=text)

    return make_hdf5(write)


def objects(data):
    """Return where the objects of the first collection begin; the last one is free space."""
    start = data.index(b"GCOL")
    stop = start + int.from_bytes(data[start + SIZE : start + 16], "little")
    places = [start + HEADER]
    while data[places[-1] : places[-1] + 2] != b"\0\0":
        field = places[-1] + SIZE
        size = int.from_bytes(data[field : field + 8], "little")
        places.append(places[-1] + HEADER + (size + 7) // 8 * 8)
    assert places[-1] < stop
    return places


PROGRAM = "import sys, jnrrdz; jnrrdz.scan(sys.argv[1])"


def test_free_space_of_no_bytes_does_not_freeze_a_scan(with_heap):
    """The library has the interpreter's lock: only another process can look at it."""
    assert "v" in jnrrdz.scan(with_heap).children
    data = bytearray(with_heap.read_bytes())
    free = objects(data)[-1]
    data[free + SIZE : free + 16] = bytes(8)
    with_heap.write_bytes(data)
    command = [sys.executable, "-c", PROGRAM, str(with_heap)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert f"whose size leads nowhere (at byte {free})" in done.stderr


@pytest.mark.parametrize("size", [2**64 - 16, 2**64 - 23, 2**64 - 4096, 1 << 63])
def test_sizes_that_lead_back_are_refused(with_heap, size):
    data = bytearray(with_heap.read_bytes())
    place = objects(data)[0]
    data[place + SIZE : place + 16] = size.to_bytes(8, "little")
    with_heap.write_bytes(data)
    with pytest.raises(MalformedError, match="leads nowhere") as raised:
        jnrrdz.scan(with_heap)
    assert (raised.value.offset, raised.value.field) == (place, "GCOL")


def test_collections_are_looked_through_once_and_have_a_limit(with_heap, monkeypatch):
    data = with_heap.read_bytes()
    start = data.index(b"GCOL")
    spans = []

    def read(first, stop):
        spans.append((first, stop))
        return data[first:stop]

    heaps = Heaps(read)
    heaps.check(data[start : start + 64], start)
    count = len(spans)
    assert (start, start + 4096) in spans
    heaps.check(data, 0)
    assert len(spans) == count
    monkeypatch.setattr(hdf5_heap, "MOST_BYTES", 4000)
    with pytest.raises(UnsupportedError, match="global heaps of 4096 bytes"):
        Heaps(read).check(data, 0)
