"""A chunk that fails ends the reading of the others: no task is left to run on unwatched."""

import asyncio

import numpy as np
import pytest
from zarr.core.array_spec import ArrayConfig, ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.dtype import UInt8

from jnrrdz.codecs.tiles import TiffTileCodec
from jnrrdz.errors import DriftError
from jnrrdz.formats.tiff.codecs import TiffTileConfig

SPEC = ArraySpec((4, 4), UInt8(), np.uint8(0), ArrayConfig.from_dict({}), default_buffer_prototype())
CODEC = TiffTileCodec(TiffTileConfig(4, 4, 4, 4, bits_per_sample=(8,)))
WHOLE = (slice(0, 4), slice(0, 4))


class Chunk:
    def __init__(self, answer, seconds=0.0):
        self.answer, self.seconds = answer, seconds

    async def get(self, prototype):
        await asyncio.sleep(self.seconds)
        if isinstance(self.answer, Exception):
            raise self.answer
        return None if self.answer is None else prototype.buffer.from_bytes(self.answer)


def read(*chunks):
    async def run():
        try:
            return await CODEC.decode_partial([(chunk, WHOLE, SPEC) for chunk in chunks])
        finally:
            assert asyncio.all_tasks() == {asyncio.current_task()}

    return asyncio.run(run())


def test_chunks_come_back_in_order_and_missing_ones_as_none():
    first, missing, last = read(Chunk(bytes(range(16)), 0.01), Chunk(None), Chunk(bytes(16)))
    assert first.as_numpy_array().ravel().tolist() == list(range(16))
    assert missing is None
    assert not last.as_numpy_array().any()


def test_the_first_error_ends_the_others():
    with pytest.raises(DriftError, match="changed"):
        read(Chunk(bytes(16), 60), Chunk(DriftError("changed")), *[Chunk(bytes(16), 60) for _ in range(40)])
