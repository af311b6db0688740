"""The chunks of one level that is not stored, computed from windows of the level that is.

May touch zarr's codec pipeline, downsample, the model and read's own modules.  A window is read by
zarr's fused pipeline in the calling thread: in a thread of zarr's own pool, waiting for others of that
pool could wait for ever.
"""

import asyncio
import itertools
import json
import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zarr.core.array_spec import ArrayConfig, ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.codec_pipeline import FusedCodecPipeline
from zarr.core.metadata.v3 import ArrayV3Metadata
from zarr.storage import StorePath

from jnrrdz.core.virtual_level import VirtualLevel
from jnrrdz.core.zarr_json import ZARR_JSON, array_from_json
from jnrrdz.downsample import Downsampling, Region
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.manifests.keys import ChunkKeys
from jnrrdz.store.store import ReferenceStore

LARGEST = 1 << 30
"""Bytes of one computed chunk, and of the source of one element."""

PIECE = 64 << 20
"""Bytes of the source that are read at one time, where the source's chunks are smaller."""


class LevelChunks:
    """One level below a group; `path` is the group's with a slash at its end, or nothing."""

    def __init__(self, stored: ReferenceStore, path: str, level: VirtualLevel) -> None:
        self.source = f"{path}{level.source}/{level.variable}"
        self._stored = stored
        document = json.loads(stored.manifest.documents[f"{self.source}/{ZARR_JSON}"])
        facts = array_from_json(document)
        self._document, self._facts, self._level = document, facts, level
        missing = facts.fill_value if "_FillValue" in facts.attributes else None
        self._how = Downsampling(level.method, level.factors, facts.shape, facts.dtype, missing)
        self._how.check_shape(level.shape)
        grid = tuple(-(-size // step) for size, step in zip(level.shape, level.chunks, strict=True))
        self.keys = ChunkKeys.encoded(f"{path}{level.name}/{level.variable}", grid, "default", "/")
        self.nbytes = math.prod(level.chunks) * facts.dtype.itemsize
        if self.nbytes > LARGEST:
            raise UnsupportedError(f"chunks of {self.nbytes} bytes; no more than {LARGEST} are computed")

    @cached_property
    def _reading(self) -> tuple[ArrayV3Metadata, FusedCodecPipeline, ArraySpec]:
        """Return what reading chunks of the source takes."""
        metadata = ArrayV3Metadata.from_dict(self._document)
        config, prototype = ArrayConfig.from_dict({}), default_buffer_prototype()
        spec = ArraySpec(self._facts.chunks, metadata.data_type, metadata.fill_value, config, prototype)
        return metadata, FusedCodecPipeline.from_codecs(metadata.codecs).evolve_from_array_spec(spec), spec

    @property
    def is_sync(self) -> bool:
        """Whether every codec of the source decodes without an event loop."""
        return self._reading[1].sync_transform is not None

    def chunk_sync(self, number: int) -> bytes:
        """Return the bytes of a chunk, computed in this thread."""
        _, pipeline, spec = self._reading
        chunk = self._empty()
        for target, region in self._pieces(number):
            window = self._how.window(region)
            out = spec.prototype.nd_buffer.empty(shape=_shape(window), dtype=self._facts.dtype, order="C")
            pipeline.read_sync(self._batch(window), out, max_workers=1)
            chunk[target] = self._how.apply(out.as_numpy_array(), region)
        return chunk.tobytes()

    async def chunk(self, number: int) -> bytes:
        """Return the bytes of a chunk, its sources fetched together and the filter run in a thread."""
        _, pipeline, spec = self._reading
        chunk = self._empty()
        for target, region in self._pieces(number):
            window = self._how.window(region)
            out = spec.prototype.nd_buffer.empty(shape=_shape(window), dtype=self._facts.dtype, order="C")
            await pipeline.read(self._batch(window), out)
            chunk[target] = await asyncio.to_thread(self._how.apply, out.as_numpy_array(), region)
        return chunk.tobytes()

    def _empty(self) -> NDArray[Any]:
        return np.full(self._level.chunks, self._facts.fill_value, self._facts.dtype.newbyteorder("<"))

    def _batch(self, window: Region) -> list[tuple[StorePath, ArraySpec, Region, Region, bool]]:
        """Return each chunk of the source in a window as zarr's pipeline takes it."""
        metadata, _, spec = self._reading
        place, batch = StorePath(self._stored, self.source), []
        spans = [range(at.start // size, -(-at.stop // size)) for at, size in zip(window, spec.shape, strict=True)]
        for index in itertools.product(*spans):
            within, out = [], []
            for i, size, at in zip(index, spec.shape, window, strict=True):
                first, last = max(i * size, at.start), min((i + 1) * size, at.stop)
                within.append(slice(first - i * size, last - i * size))
                out.append(slice(first - at.start, last - at.start))
            batch.append((place / metadata.encode_chunk_key(index), spec, tuple(within), tuple(out), False))
        return batch

    def _pieces(self, number: int) -> Iterator[tuple[Region, Region]]:
        """Yield parts of a chunk whose sources are few enough, by place in the chunk and in the level."""
        index = np.unravel_index(number, self.keys.grid)
        starts = [int(i) * size for i, size in zip(index, self._level.chunks, strict=True)]
        stops = [min(a + c, s) for a, c, s in zip(starts, self._level.chunks, self._level.shape, strict=True)]
        steps = self._steps([stop - start for start, stop in zip(starts, stops, strict=True)])
        axes = [range(start, stop, step) for start, stop, step in zip(starts, stops, steps, strict=True)]
        for corner in itertools.product(*axes):
            ends = [min(a + step, stop) for a, step, stop in zip(corner, steps, stops, strict=True)]
            region = tuple(slice(a, b) for a, b in zip(corner, ends, strict=True))
            yield tuple(slice(a.start - s, a.stop - s) for a, s in zip(region, starts, strict=True)), region

    def _steps(self, extent: list[int]) -> list[int]:
        """Return the sizes of parts: halved along the longest axis, whole chunks of the source while it has them."""
        steps = [max(size, 1) for size in extent]
        units = [max(size // factor, 1) for size, factor in zip(self._facts.chunks, self._level.factors, strict=True)]
        while self._cost(steps) > PIECE and max(steps) > 1:
            units = units if any(s > u for s, u in zip(steps, units, strict=True)) else [1] * len(units)
            axis = max(range(len(steps)), key=lambda number: steps[number] / units[number])
            steps[axis] = max(-(-steps[axis] // (2 * units[axis])) * units[axis], 1)
        if self._cost(steps) > LARGEST:
            raise UnsupportedError(f"an element of {self._level.factors} elements of the source", field="factors")
        return steps

    def _cost(self, steps: list[int]) -> int:
        elements = math.prod(step * factor for step, factor in zip(steps, self._level.factors, strict=True))
        return elements * self._facts.dtype.itemsize


def _shape(window: Region) -> tuple[int, ...]:
    return tuple(at.stop - at.start for at in window)


def checked(stored: ReferenceStore, path: str, level: VirtualLevel) -> LevelChunks:
    """Return a level's chunks; a source that is not there is an error that names it."""
    if f"{path}{level.source}/{level.variable}/{ZARR_JSON}" not in stored.manifest.documents:
        raise JnrrdzError(f"no stored level {level.source!r} to compute {level.name!r} from", field=path or "/")
    return LevelChunks(stored, path, level)
