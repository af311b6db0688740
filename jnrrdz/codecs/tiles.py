"""Array-to-bytes codecs as zarr's: one codec is the whole chain of an array, read only.

Partial decoding (zarr.abc.codec as of zarr 3.4) is offered because it puts reading, decoding and selecting of a
chunk into one step: that step runs off the event loop, once a chunk, and knows the chunk's place for its errors.
Each codec is documented in docs/codecs/NAME/README.md.  What decodes a format is imported when a chunk of it is:
together they take half as long as zarr.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from zarr.abc.codec import ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin
from zarr.abc.store import ByteGetter
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer
from zarr.core.indexing import SelectorTuple

from jnrrdz.codecs.base import ChunkDecoder, PixelCodec, chunks_at_once, decoding_threads
from jnrrdz.core.codecs import (
    JbpBlockConfig,
    JbpJpegConfig,
    Jpeg2000Config,
    Jpeg2000WindowConfig,
    NitfVqConfig,
    TiffTileConfig,
    TileConfig,
)
from jnrrdz.core.configuration import Samples
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats.tiff.tags import tile_samples

if TYPE_CHECKING:
    from jnrrdz.formats.nrrd.decode import TileCoder

type Shape = tuple[int, ...]

COLOUR = (Samples("u", 8, is_exact=True),)
"""What a palette makes of indices."""


class TileCodec(PixelCodec, ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin):
    """A read-only codec that turns a chunk's bytes into pixels in one step."""

    is_placeless: ClassVar[bool] = True
    """Whether a chunk's bytes are decoded alike wherever in the array they stand."""

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
        pixels: NDArray[Any] = self._decode_array(data, spec)[selection]
        return pixels

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
        turn = asyncio.Semaphore(chunks_at_once(spec.shape, spec.dtype.to_native_dtype().itemsize))

        async def one(getter: ByteGetter, selection: SelectorTuple, spec: ArraySpec) -> NDBuffer | None:
            async with turn:
                return await self._decode_partial_single(getter, selection, spec)

        tasks = [asyncio.ensure_future(one(*item)) for item in batch]
        try:
            return await asyncio.gather(*tasks)
        finally:
            # zarr would let them run on, unwatched, to be reported as destroyed at the interpreter's end
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

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


class TiffTileCodec(TileCodec):
    """Tiles and strips of a TIFF: docs/codecs/tiff-tile."""

    CONFIG = TiffTileConfig

    def samples(self) -> Iterable[Samples]:
        """Return what the tags say that a tile holds."""
        return COLOUR if self.config.palette is not None else (tile_samples(self.config),)

    def decoder(self, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for chunks of this shape and type."""
        from jnrrdz.formats.tiff.decode import PaletteDecoder, TileDecoder  # noqa: PLC0415  see the module

        if self.config.palette is not None:
            return PaletteDecoder(self.config, shape, dtype)
        return TileDecoder(self.config, shape, dtype, fill_value)

    def _selected(self, data: Buffer, selection: SelectorTuple, spec: ArraySpec) -> NDArray[Any]:
        chunk = memoryview(data.as_numpy_array())
        pixels: NDArray[Any] = self._decoder(spec).selected(chunk, selection)
        return pixels


class Jpeg2000Codec(TileCodec):
    """Tiles of a JPEG 2000 codestream: docs/codecs/jpeg2000."""

    CONFIG = Jpeg2000Config

    def samples(self) -> Iterable[Samples]:
        """Return what the main header says that the components hold."""
        from jnrrdz.formats.jpeg2000.decode import component_samples  # noqa: PLC0415  see the module

        if self.config.palette is not None:
            return COLOUR
        return component_samples(self.config.main_header, self.config.components)

    def decoder(self, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for chunks of this shape and type."""
        from jnrrdz.formats.jpeg2000.decode import Jpeg2000Decoder  # noqa: PLC0415  see the module

        return Jpeg2000Decoder(self.config, shape, dtype, fill_value)


class Jpeg2000WindowCodec(TileCodec):
    """Windows of a large JPEG 2000 tile: docs/codecs/jnrrdz.jpeg2000-window."""

    CONFIG = Jpeg2000WindowConfig

    def samples(self) -> Iterable[Samples]:
        """Return what the main header says that the components hold."""
        from jnrrdz.formats.jpeg2000.decode import component_samples  # noqa: PLC0415  see the module

        return COLOUR if self.config.palette is not None else component_samples(self.config.main_header)

    def decoder(self, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for chunks of this shape and type."""
        from jnrrdz.formats.jpeg2000.decode_window import WindowedDecoder  # noqa: PLC0415  see the module

        return WindowedDecoder(self.config, shape, dtype, fill_value)


class NitfCodec(TileCodec):
    """What NITF's three codecs have in common: colours in place of indices."""

    def samples(self) -> Iterable[Samples]:
        """Return what a palette makes of indices, or else what is stored."""
        return COLOUR if self.config.palette is not None else self.stored_samples()

    def stored_samples(self) -> Iterable[Samples]:
        """Return what is stored; nothing where only a chunk tells it."""
        return ()

    def decoder(self, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for chunks of this shape and type."""
        from jnrrdz.formats.nitf.decode import ColourDecoder, table_of  # noqa: PLC0415  see the module

        if self.config.palette is None:
            return self.stored(self.config, shape, dtype, fill_value)
        table = table_of(self.config.palette, shape, dtype, self.config.name)
        plain = replace(self.config, palette=None)
        return ColourDecoder(self.stored(plain, shape[-2:], self.index_dtype(), 0), table, self.config.name)

    def stored(self, config: Any, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for what is stored."""
        raise NotImplementedError

    def index_dtype(self) -> np.dtype[Any]:
        """Return the type of the indices of a palette."""
        return np.dtype(np.uint8)


class JbpBlockCodec(NitfCodec):
    """Uncompressed blocks: docs/codecs/jbp-block."""

    CONFIG = JbpBlockConfig

    def stored_samples(self) -> Iterable[Samples]:
        """Return what the blocks hold."""
        from jnrrdz.formats.nitf.decode import block_samples  # noqa: PLC0415  see the module

        return (block_samples(self.config),)

    def stored(self, config: Any, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for what is stored."""
        from jnrrdz.formats.nitf.decode import BlockDecoder  # noqa: PLC0415  see the module

        return BlockDecoder(config, shape, dtype, fill_value)

    def index_dtype(self) -> np.dtype[Any]:
        """Return the type of the indices of a palette."""
        from jnrrdz.formats.nitf.decode import sample_dtype  # noqa: PLC0415  see the module

        return sample_dtype(self.config.pixel_type, self.config.bits_per_pixel)


class JbpJpegCodec(NitfCodec):
    """JPEG streams: docs/codecs/jbp-jpeg."""

    CONFIG = JbpJpegConfig

    def stored(self, config: Any, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for what is stored."""
        from jnrrdz.formats.nitf.decode import JpegDecoder  # noqa: PLC0415  see the module

        return JpegDecoder(config, shape, dtype, fill_value)


class NitfVqCodec(NitfCodec):
    """Vector-quantised blocks: docs/codecs/jnrrdz.nitf-vq."""

    CONFIG = NitfVqConfig

    def stored_samples(self) -> Iterable[Samples]:
        """Return what the codebooks hold."""
        return COLOUR

    def stored(self, config: Any, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:  # noqa: ARG002
        """Return the decoder for what is stored; blocks are never short."""
        from jnrrdz.formats.nitf.decode import VqDecoder  # noqa: PLC0415  see the module

        return VqDecoder(config, shape, dtype)


class JnrrdTileCodec(TileCodec):
    """A tile of a JNRRD, of which the chunk may be a part: docs/codecs/jnrrdz.tile."""

    CONFIG = TileConfig
    is_placeless = False

    def check_type(self, dtype: np.dtype[Any]) -> None:
        """Refuse an array of a type that tiles are not stored in."""
        from jnrrdz.formats.nrrd.decode import TileCoder  # noqa: PLC0415  see the module

        TileCoder(self.config, (1,) * len(self.config.axes), dtype, 0)

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

    def decoder(self, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any) -> "TileCoder":
        """Return the decoder for chunks of this shape and type."""
        from jnrrdz.formats.nrrd.decode import TileCoder  # noqa: PLC0415  see the module

        return TileCoder(self.config, shape, dtype, fill_value)
