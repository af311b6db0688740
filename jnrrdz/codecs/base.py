"""What the codecs here share as zarr's codecs: their configuration, their threads, their decoders.

Follows zarr.abc.codec as of zarr 3.4: zarr's fused pipeline and the store's synchronous path call the `_sync`
methods, its other pipeline the asynchronous ones.
"""

import asyncio
import math
import os
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from zarr.core.array_spec import ArraySpec
from zarr.core.common import JSON
from zarr.core.config import config

from jnrrdz.core.configuration import Configuration, Samples, check_type


class ChunkDecoder(Protocol):
    """What a pure module offers: a chunk's bytes to an array of the chunk's shape and type."""

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the chunk's pixels."""


@cache
def decoding_threads() -> ThreadPoolExecutor:
    """Return the threads that decode, one a core: decoders free the GIL, more threads would only compete."""
    return ThreadPoolExecutor(os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=decoding_threads.cache_clear)


AT_ONCE = 64
"""Chunks that are fetched and decoded at once from elsewhere: as many as one `read` of a source has requests."""

HELD = 256 << 20
"""Bytes of decoded chunks for which there may be more at once than zarr has."""


def chunks_at_once(shape: Sequence[int], itemsize: int) -> int:
    """Return how many chunks of a shape are fetched and decoded at once: what the user told zarr, if he did.

    zarr's own ten leave a wide machine waiting: over 20 ms they are 500 chunks a second, whatever cores there are.
    """
    least: int = config.defaults[0]["async"]["concurrency"]
    return asked_at_once() or max(least, min(AT_ONCE, HELD // max(math.prod(shape) * itemsize, 1)))


def asked_at_once() -> int | None:
    """Return how many chunks the user told zarr to fetch at once, None where zarr's own number stands."""
    asked: int = config.get("async.concurrency") or AT_ONCE  # None is as many as there are
    return None if asked == config.defaults[0]["async"]["concurrency"] else asked


@dataclass(frozen=True)
class ConfiguredCodec:
    """A codec that is its configuration, which says all that it needs of the array."""

    CONFIG: ClassVar[type[Configuration]]

    config: Any

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec of an entry of zarr.json; one whose members are all optional may stand alone."""
        return cls(cls.CONFIG.from_json(data.get("configuration", {})))

    def to_dict(self) -> dict[str, JSON]:
        """Return the entry for zarr.json."""
        entry: dict[str, JSON] = self.config.to_json()
        return entry

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:  # noqa: ARG002  # zarr passes it by this name
        """Return the same codec."""
        return self

    @abstractmethod
    def _decode_sync(self, chunk_data: Any, chunk_spec: ArraySpec) -> Any:
        """Return the decoded chunk."""

    @abstractmethod
    def _encode_sync(self, chunk_data: Any, chunk_spec: ArraySpec) -> Any:
        """Return the encoded chunk."""


class QuickCodec(ConfiguredCodec):
    """A codec that is not worth a thread, and whose chunks have a length that is known beforehand."""

    is_fixed_size = True

    async def _decode_single(self, chunk_data: Any, chunk_spec: ArraySpec) -> Any:
        return self._decode_sync(chunk_data, chunk_spec)

    async def _encode_single(self, chunk_data: Any, chunk_spec: ArraySpec) -> Any:
        return self._encode_sync(chunk_data, chunk_spec)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:  # noqa: ARG002  # zarr's
        """Return how long a chunk of that length gets: as long as it is."""
        return input_byte_length


class ThreadedCodec(ConfiguredCodec):
    """A codec that works off the event loop, and whose chunks have any length."""

    is_fixed_size = False

    async def _decode_single(self, chunk_data: Any, chunk_spec: ArraySpec) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(decoding_threads(), self._decode_sync, chunk_data, chunk_spec)

    async def _encode_single(self, chunk_data: Any, chunk_spec: ArraySpec) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(decoding_threads(), self._encode_sync, chunk_data, chunk_spec)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Refuse: nothing tells the length beforehand."""
        raise NotImplementedError


@dataclass(frozen=True)
class PixelCodec(ThreadedCodec):
    """A codec that turns a chunk's bytes into pixels, with a decoder for each kind of chunk."""

    _decoders: dict[ArraySpec, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False, kw_only=True
    )
    """The decoders made so far."""

    def samples(self) -> Iterable[Samples]:
        """Return what the chunks hold; nothing where only a chunk tells it, whose decoder then looks."""
        return ()

    def check_type(self, dtype: np.dtype[Any]) -> None:
        """Refuse an array of a type that does not hold the samples."""
        for samples in self.samples():
            check_type(dtype, samples, self.config.name)

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        """Return the same codec, if the array that it is opened for has room for the samples.

        zarr's `validate` would be told the type of the array, and not what the codecs before this one make of it.
        """
        self.check_type(array_spec.dtype.to_native_dtype())
        return self

    @abstractmethod
    def decoder(self, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for chunks of this shape and type."""

    def _decoder(self, spec: ArraySpec) -> Any:
        known = self._decoders.get(spec)
        if known is None:
            dtype = spec.dtype.to_native_dtype()
            self.check_type(dtype)
            known = self._decoders[spec] = self.decoder(spec.shape, dtype, spec.fill_value)
        return known

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what the decoders are made from; they are made again."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.init}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the configuration with no decoders yet."""
        self.__dict__.update(state, _decoders={})
