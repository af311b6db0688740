"""Array-to-bytes codecs as zarr's: one codec is the whole chain of an array, read only.

Partial decoding (zarr.abc.codec as of zarr 3.4) is offered because it puts reading, decoding and selecting of a
chunk into one step: that step runs off the event loop, once a chunk, and knows the chunk's place for its errors.
The classes are made from the records of the codecs; what decodes a format is in its room.
Each codec is documented in docs/codecs/NAME/README.md.  What decodes a format is imported when a chunk of it is:
together they take half as long as zarr.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from zarr.abc.codec import ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin
from zarr.abc.store import ByteGetter
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer
from zarr.core.indexing import SelectorTuple

from jnrrdz.codecs.base import ChunkDecoder, PixelCodec, chunks_at_once, decoding_threads
from jnrrdz.concurrency import together
from jnrrdz.core.codec_table import record_of, record_of_class
from jnrrdz.core.codecs import TILE, TileConfig
from jnrrdz.core.configuration import CodecRecord, Samples
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.records import resolved

type Shape = tuple[int, ...]

COLOUR = (Samples("u", 8, is_exact=True),)
"""What a palette makes of indices."""


class TileCodec(PixelCodec, ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin):
    """A read-only codec that turns a chunk's bytes into pixels in one step."""

    RECORD: ClassVar[CodecRecord]

    is_placeless: ClassVar[bool] = True
    """Whether a chunk's bytes are decoded alike wherever in the array they stand."""

    def samples(self) -> Iterable[Samples]:
        """Return what the chunks hold: a palette's colours, or what the record's function says."""
        if getattr(self.config, "palette", None) is not None:
            return COLOUR
        if self.RECORD.samples is None:
            return ()
        samples: Iterable[Samples] = resolved(self.RECORD.samples)(self.config)
        return samples

    def decoder(self, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> Any:
        """Return the decoder for chunks of this shape and type."""
        return resolved(self.RECORD.decoder or "")(self.config, shape, dtype, fill_value)

    def _decode_array(self, data: Buffer, spec: ArraySpec) -> NDArray[Any]:
        pixels: NDArray[Any] = self._decoder(spec).decode(memoryview(data.as_numpy_array()))
        return pixels

    def placer(self, spec: ArraySpec) -> Any:
        """Return what decodes chunks to their place; None where a chunk's decoding depends on which chunk it is."""
        if not self.is_placeless:
            return None
        decoder = self._decoder(spec)
        return decoder if hasattr(decoder, "place") else DecoderPlacer(decoder)

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        try:
            pixels = self._decode_array(chunk_data, chunk_spec)
        except JnrrdzError as error:
            raise placed(error, getattr(chunk_data, "origin", None)) from error.__cause__
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(pixels)

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:  # noqa: ARG002  zarr's
        raise UnsupportedError("chunks are read with this codec, not written", field=self.config.name)

    def _selected(self, data: Buffer, selection: SelectorTuple, spec: ArraySpec) -> NDArray[Any]:
        selected = getattr(self._decoder(spec), "selected", None)
        if selected is None:
            pixels: NDArray[Any] = self._decode_array(data, spec)[selection]
            return pixels
        part: NDArray[Any] = selected(memoryview(data.as_numpy_array()), selection)
        return part

    def _decode_selected(
        self, data: Buffer | None, getter: Any, selection: SelectorTuple, spec: ArraySpec
    ) -> NDBuffer | None:
        if data is None:
            return None
        try:
            pixels = self._selected(data, selection, spec)
        except JnrrdzError as error:
            raise placed(error, getter) from error.__cause__
        return spec.prototype.nd_buffer.from_ndarray_like(pixels)

    def _decode_partial_sync(self, getter: Any, selection: SelectorTuple, spec: ArraySpec) -> NDBuffer | None:
        return self._decode_selected(getter.get_sync(prototype=spec.prototype), getter, selection, spec)

    async def decode_partial(
        self, batch_info: Iterable[tuple[ByteGetter, SelectorTuple, ArraySpec]]
    ) -> Iterable[NDBuffer | None]:
        """Return the selected parts of many chunks; the first that fails ends the others."""
        batch = list(batch_info)
        if not batch:
            return []
        spec = batch[0][2]
        most = chunks_at_once(spec.shape, spec.dtype.to_native_dtype().itemsize)
        # zarr would let the others run on, unwatched, to be reported as destroyed at the interpreter's end
        return await together([self._decode_partial_single(*item) for item in batch], most=most)

    async def _decode_partial_single(
        self, byte_getter: ByteGetter, selection: SelectorTuple, chunk_spec: ArraySpec
    ) -> NDBuffer | None:
        loop, threads = asyncio.get_running_loop(), decoding_threads()
        store = getattr(byte_getter, "store", None)
        # from a local file, through jnrrdz's own store, a chunk's bytes come without waiting
        if hasattr(store, "get_sync") and bool(getattr(store, "_supports_sync_io", False)):
            return await loop.run_in_executor(threads, self._decode_partial_sync, byte_getter, selection, chunk_spec)
        data = await byte_getter.get(prototype=chunk_spec.prototype)
        return await loop.run_in_executor(threads, self._decode_selected, data, byte_getter, selection, chunk_spec)


def placed(error: JnrrdzError, getter: Any) -> JnrrdzError:
    """Return the error with the chunk's key, and its source and offset where the store tells them."""
    path = getattr(getter, "path", None)
    describe = getattr(getattr(getter, "store", None), "describe", None)
    if path is not None:
        error.field = f"chunk {path}" if error.field is None else f"chunk {path}: {error.field}"
    return error.at(url=describe(path)) if describe is not None and path is not None else error


class DecoderPlacer:
    """A decoder that makes whole chunks, of which a part is copied to its place."""

    def __init__(self, decoder: ChunkDecoder) -> None:
        self._decoder = decoder

    def place(self, data: memoryview, selection: SelectorTuple, out: NDArray[Any]) -> None:
        """Fill an array with a part of a chunk's elements."""
        out[...] = self._decoder.decode(data)[selection]


class ReshapedPlacer:
    """A decoder of chunks that have fewer axes than the array: `reshape` leaves out some of one place in front."""

    def __init__(self, placer: Any, left_out: int) -> None:
        self._placer, self._left_out = placer, left_out

    def place(self, data: memoryview, selection: Any, out: NDArray[Any]) -> None:
        """Fill an array with a part of a chunk's elements."""
        front, own = selection[: self._left_out], selection[self._left_out :]
        kept = sum(isinstance(selected, slice) for selected in front)
        self._placer.place(data, own, out[(0,) * kept + (...,)])


class JnrrdTileCodec(TileCodec):
    """A tile of a JNRRD, of which the chunk may be a part: docs/codecs/jnrrdz.tile."""

    CONFIG = TileConfig
    RECORD = record_of(TILE)
    is_placeless = False

    def check_type(self, dtype: np.dtype[Any]) -> None:
        """Refuse an array of a type that tiles are not stored in."""
        self.decoder((1,) * len(self.config.axes), dtype, 0)

    def _decode_array(self, data: Buffer, spec: ArraySpec) -> NDArray[Any]:
        pixels: NDArray[Any] = self._decoder(spec).decode(memoryview(data.as_numpy_array()), self._expected(data))
        return pixels

    def _expected(self, data: Buffer) -> int | None:
        """Return the kind of tile that belongs into a chunk, where the store tells which chunk it is.

        jnrrdz's own does; in stacks of several files a chunk's place is no longer that of a tile.
        """
        store, path = getattr(data, "origin", None) or (None, None)
        manifest = getattr(store, "manifest", None)
        if len(self.config.kinds) == 1 or manifest is None or manifest.is_stack:
            return None
        chunk = manifest.chunk(path)
        if chunk is None:
            return None
        array, number = chunk
        kind: int | None = self.config.kind_of(number, manifest.keys[array].grid)
        return kind


def __getattr__(name: str) -> type[TileCodec]:
    """Return the class that a record names, made when it is first asked for."""
    record = record_of_class(f"{__name__}:{name}")
    if record is None or record.config is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    members = {
        "__module__": __name__,
        "__doc__": f"The codec `{record.name}`: docs/codecs/{record.name}.",
        "CONFIG": record.config,
        "RECORD": record,
    }
    made = type(name, (TileCodec,), members)
    globals()[name] = made
    return made
