"""Chunks on several threads: each is placed once, and what fails first is what is raised."""

import itertools
import struct
import threading
import time
from collections import deque

import numpy as np
import pytest
from zarr.codecs import BytesCodec, TransposeCodec
from zarr.core.array_spec import ArrayConfig, ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.buffer.cpu import NDBuffer
from zarr.core.codec_pipeline import _get_pool
from zarr.core.dtype import UInt16
from zarr.registry import get_codec_class

from jnrrdz.errors import MalformedError
from jnrrdz.store.group import in_c_order
from jnrrdz.store.pipeline import ReferencePipeline, share_out

SPEC = ArraySpec((3, 4), UInt16(), np.uint16(7), ArrayConfig.from_dict({}), default_buffer_prototype())
GRID = (6, 5)
MISSING, BROKEN = (2, 3), (4, 1)


def block_codec():
    order = {"name": "transpose", "configuration": {"order": [1, 0]}}
    layout = {"name": "bytes", "configuration": {"endian": "big"}}
    return get_codec_class("n5_default").from_dict({"name": "n5_default", "configuration": {"codecs": [order, layout]}})


CHAIN = (TransposeCodec(order=(1, 0)), block_codec())


class Block:
    """A block of the number of its chunk, x along the last axis; cut at the grid's last column."""

    def __init__(self, index, *, broken=()):
        self.index, self.broken = index, index in broken

    def get_sync(self, prototype):
        if self.index == MISSING:
            return None
        x = 2 if self.index[1] == GRID[1] - 1 else 4
        elements = (np.arange(3 * x) + 100 * (self.index[0] * GRID[1] + self.index[1])).astype(">u2")
        body = elements.tobytes()[: 3 if self.broken else None]
        return prototype.buffer.from_bytes(struct.pack(">HHII", 0, 2, x, 3) + body)


def batch(**options):
    for index in itertools.product(*map(range, GRID)):
        place = tuple(slice(at * size, (at + 1) * size) for at, size in zip(index, SPEC.shape, strict=True))
        yield Block(index, **options), SPEC, (slice(0, 3), slice(0, 4)), place, True


def expected():
    volume = np.full((GRID[0] * 3, GRID[1] * 4), 7, "u2")
    for number, (row, column) in enumerate(itertools.product(*map(range, GRID))):
        x = 2 if column == GRID[1] - 1 else 4
        values = (np.arange(3 * x) + 100 * number).reshape(3, x)
        volume[row * 3 : row * 3 + 3, column * 4 : column * 4 + x] = 7 if (row, column) == MISSING else values
    return volume


@pytest.mark.parametrize("codecs", [CHAIN, in_c_order(CHAIN)], ids=["two codecs", "one codec"])
@pytest.mark.parametrize("workers", [1, 2, 3, 40])
def test_every_block_is_in_its_place(codecs, workers):
    out = NDBuffer.from_numpy_array(np.zeros((GRID[0] * 3, GRID[1] * 4), "u2"))
    pipeline = ReferencePipeline.from_codecs(codecs).evolve_from_array_spec(SPEC)
    told = pipeline.read_sync(batch(), out, max_workers=workers)
    np.testing.assert_array_equal(out.as_numpy_array(), expected())
    lost = MISSING[0] * GRID[1] + MISSING[1]
    assert [result["status"] for result in told] == ["missing" if n == lost else "present" for n in range(30)]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_broken_block_is_an_error(workers):
    out = NDBuffer.from_numpy_array(np.zeros((GRID[0] * 3, GRID[1] * 4), "u2"))
    pipeline = ReferencePipeline.from_codecs(in_c_order(CHAIN)).evolve_from_array_spec(SPEC)
    with pytest.raises(MalformedError, match="3 bytes of elements where the header says 24"):
        pipeline.read_sync(batch(broken={BROKEN}), out, max_workers=workers)


def test_no_chunks_are_no_error():
    pipeline = ReferencePipeline.from_codecs(CHAIN).evolve_from_array_spec(SPEC)
    assert pipeline.read_sync([], NDBuffer.from_numpy_array(np.zeros((0, 0), "u2")), max_workers=2) == ()


@pytest.mark.parametrize("workers", [1, 2, 7])
@pytest.mark.parametrize("count", [1, 2, 5, 500])
def test_every_turn_is_taken_once(workers, count):
    done = []
    share_out(done.append, deque(range(count)), workers)
    assert sorted(done) == list(range(count))


def test_threads_that_are_busy_elsewhere_are_not_waited_for():
    free, done = threading.Event(), []
    others = [_get_pool(1).submit(free.wait, 60) for _ in range(64)]
    share_out(lambda number: done.append((number, threading.current_thread())), deque(range(5)), 2)
    free.set()
    assert done == [(number, threading.current_thread()) for number in range(5)]
    assert all(other.result() for other in others)


def test_of_two_that_fail_the_earlier_is_told_and_the_rest_are_left():
    both, done = threading.Barrier(2, timeout=60), []

    def work(number):
        done.append(number)
        both.wait()  # so that both threads are at work when the first fails
        raise MalformedError(f"number {number}")

    for _ in range(20):
        done.clear()
        with pytest.raises(MalformedError, match="number 0"):
            share_out(work, deque(range(100)), 2)
        assert sorted(done) == [0, 1]


def test_what_fails_leaves_nothing_to_the_others():
    pending, other, done = deque(range(3)), threading.Event(), []

    def work(number):
        done.append(number)
        if number == 0:
            other.wait(60)
            raise MalformedError("number 0")
        other.set()
        for _ in range(5000):  # at work while the first fails
            if not pending:
                return
            time.sleep(0.001)

    with pytest.raises(MalformedError, match="number 0"):
        share_out(work, pending, 2)
    assert sorted(done) == [0, 1]


@pytest.mark.parametrize(
    "codecs",
    [
        pytest.param((block_codec(),), id="no transposition"),
        pytest.param((TransposeCodec(order=(0, 1)), block_codec()), id="another order"),
        pytest.param((TransposeCodec(order=(1, 0)), BytesCodec()), id="another codec"),
        pytest.param((TransposeCodec(order=(1, 0)), *CHAIN), id="two transpositions"),
    ],
)
def test_other_chains_stay_as_they_are(codecs):
    assert in_c_order(codecs) == codecs
