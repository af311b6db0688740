"""Blocks of HDF5 at which the library does not end are refused before it reads them."""

import struct
import subprocess
import sys

import h5py
import numpy as np
import pytest

import jnrrdz
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.foreign import hdf5_blocks
from jnrrdz.formats.foreign.hdf5_blocks import Blocks

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


@pytest.mark.parametrize("size", [5000, 1 << 32, 1 << 63])
def test_a_heap_beyond_the_end_is_not_allocated(with_heap, size):
    data = bytearray(with_heap.read_bytes())
    start = data.index(b"GCOL")
    data[start + SIZE : start + 16] = size.to_bytes(8, "little")
    with_heap.write_bytes(data)
    with pytest.raises(MalformedError, match=f"a global heap of {size} bytes, beyond"):
        jnrrdz.scan(with_heap)


def test_heaps_are_looked_through_once_and_have_a_limit(with_heap, monkeypatch):
    data = with_heap.read_bytes()
    start = data.index(b"GCOL")
    spans = []

    def read(first, stop):
        spans.append((first, stop))
        return data[first:stop]

    blocks = Blocks(read, len(data))
    blocks.check(data[start : start + 64], start)
    count = len(spans)
    assert (start, start + 4096) in spans
    blocks.check(data, 0)
    assert len(spans) == count
    monkeypatch.setattr(hdf5_blocks, "MOST_HEAPS", 4000)
    with pytest.raises(UnsupportedError, match="global heaps of 4096 bytes"):
        Blocks(read, len(data)).check(data, 0)


def lookup3(data):
    """Return the checksum of HDF5's blocks, after Bob Jenkins."""
    whole = 0xFFFFFFFF

    def turned(value, by):
        return (value << by | value >> (32 - by)) & whole

    a = b = c = (0xDEADBEEF + len(data)) & whole
    while len(data) > 12:
        first, second, third = struct.unpack_from("<III", data)
        a, b, c = (a + first) & whole, (b + second) & whole, (c + third) & whole
        for by in (4, 6, 8, 16, 19, 4):
            a = ((a - c) & whole) ^ turned(c, by)
            c = (c + b) & whole
            a, b, c = b, c, a
        data = data[12:]
    first, second, third = struct.unpack("<III", data.ljust(12, b"\0"))
    a, b, c = (a + first) & whole, (b + second) & whole, (c + third) & whole
    for by in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - turned(b, by)) & whole
        a, b, c = b, c, a
    return b


COUNTS = {b"EAHD": (44, 68), b"FAHD": (8, 24)}
"""Where the number of elements and the checksum of an array's header are."""


@pytest.fixture
def with_array(make_hdf5):
    """Return a function that writes a chunked data set and changes its array's header."""

    def make(signature, count):
        limit = None if signature == b"EAHD" else 64

        def write(file):
            options = {"chunks": (8,), "maxshape": (limit,), "compression": "gzip"}
            file.create_dataset("v", data=np.arange(64.0), **options)

        path = make_hdf5(write, libver="latest")
        data = bytearray(path.read_bytes())
        start = data.index(signature)
        place, checksum = (start + offset for offset in COUNTS[signature])
        assert lookup3(data[start:checksum]) == struct.unpack_from("<I", data, checksum)[0]
        struct.pack_into("<Q", data, place, count)
        struct.pack_into("<I", data, checksum, lookup3(data[start:checksum]))
        path.write_bytes(data)
        return path

    return make


@pytest.mark.parametrize("signature", COUNTS)
def test_an_array_of_chunks_that_are_not_there_does_not_freeze_a_scan(with_array, signature):
    path = with_array(signature, 1 << 60)
    command = [sys.executable, "-c", PROGRAM, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert f"an array of {1 << 60} chunks, for which the file has no bytes" in done.stderr


@pytest.mark.parametrize("signature", COUNTS)
def test_arrays_as_they_were_written_are_read(with_array, signature):
    group = jnrrdz.scan(with_array(signature, 8))
    assert group.at("v").refs.chunks == 8


def test_a_grid_larger_than_the_file_is_not_gone_through(make_hdf5):
    """Chunks without an index have their places by their numbers."""

    def write(file):
        file.create_dataset("small", data=np.arange(4.0))
        options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        options.set_chunk((1,))
        space = h5py.h5s.create_simple((1 << 40,))
        h5py.h5d.create(file.id, b"v", h5py.h5t.NATIVE_INT8, space, options)

    with pytest.warns(UserWarning, match="v: at least [0-9]+ chunks without bytes"):
        group = jnrrdz.scan(make_hdf5(write, libver="latest"))
    assert list(group.children) == ["small"]
