"""How chunks are read: zarr's fused pipeline on a few threads, and windows of files many chunks at once.

zarr makes a key, a path, selections and a buffer for each chunk, and looks each chunk up by its key: some 30
microseconds of Python where nothing is decoded at all.  `ReferenceArray` is told the whole window.  It takes the
ranges of all its chunks from the manifest's columns, reads neighbours with one call or request, and its decoders put
pixels to their place in the window themselves.

That way is for chunks that are one range of a file each, behind codecs that have a `Placer`.  Any other chunk,
and any that fails, is read in zarr's own way, whose errors name the chunk, its file and its offset.
What was measured: docs/decisions/038-windows-at-once.md, and for remote files 040-reading-ahead.md.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from functools import cached_property
from itertools import batched, chain, product
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.codec import GetResult
from zarr.abc.store import ByteGetter
from zarr.codecs import BytesCodec, TransposeCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import NDBuffer, default_buffer_prototype, numpy_buffer_prototype
from zarr.core.chunk_utils import fill_value_or_default
from zarr.core.codec_pipeline import FusedCodecPipeline, _get_pool, _resolve_max_workers
from zarr.core.indexing import BasicIndexer, IntDimIndexer, OrthogonalIndexer, SelectorTuple, SliceDimIndexer
from zarr.core.metadata.v3 import ArrayV3Metadata, RegularChunkGridMetadata
from zarr.core.sync import sync
from zarr.storage import StorePath

from jnrrdz.codecs.base import ConfiguredCodec, asked_at_once, chunks_at_once
from jnrrdz.codecs.tiles import ReshapedPlacer, TileCodec
from jnrrdz.concurrency import together
from jnrrdz.core.codecs import RESHAPE
from jnrrdz.core.refs import Ranges
from jnrrdz.core.windows import AxisOverlap, chunks_along, overlaps_of_axes
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.sources.ranges import Span
from jnrrdz.store.requests import AHEAD, CONNECTIONS, Taker
from jnrrdz.store.store import ReferenceStore

if TYPE_CHECKING:
    from jnrrdz.codecs.steps import BoundedCodec

type Item = tuple[ByteGetter, ArraySpec, SelectorTuple, SelectorTuple, bool]

_MOST = 4
"""Chunks that a thread takes at once: two save a sixth of a read of small blocks, more save nothing else."""

_TURNS = 16
"""Times that each thread comes back at least, so that none is left with much when the others have finished."""


class ReferencePipeline(FusedCodecPipeline):
    """Reads, decodes and places chunks on a few threads."""

    def read_sync(
        self,
        batch_info: Iterable[Item],
        out: NDBuffer,
        drop_axes: tuple[int, ...] = (),
        max_workers: int = 1,
    ) -> tuple[GetResult, ...]:
        """Fill an array with chunks, and return for each whether it was there; the first that fails ends the rest."""
        batch = list(batch_info)
        if max_workers == 1 or len(batch) <= 1:
            with _told(batch):
                return super().read_sync(batch, out, drop_axes, max_workers=1)
        length = max(1, min(_MOST, len(batch) // (_TURNS * max_workers)))
        found: dict[int, tuple[GetResult, ...]] = {}

        def read(first: int) -> None:
            part = batch[first : first + length]
            with _told(part):
                found[first] = super(ReferencePipeline, self).read_sync(part, out, drop_axes, max_workers=1)

        starts = range(0, len(batch), length)
        share_out(read, deque(starts), max_workers)
        return tuple(result for first in starts for result in found[first])

    async def read(
        self, batch_info: Iterable[Item], out: NDBuffer, drop_axes: tuple[int, ...] = ()
    ) -> tuple[GetResult, ...]:
        """Do the same from an event loop."""
        batch = list(batch_info)
        parts = self._together(batch)
        with _told(batch):
            reads = [super(ReferencePipeline, self).read(part, out, drop_axes) for part in parts]
            return tuple(chain.from_iterable(await together(reads)))

    def _together(self, batch: list[Item]) -> list[list[Item]]:
        """Return the parts that are read at once: zarr fetches a few chunks of each at a time.

        Codecs that read chunks themselves take as many as they want, and so do threads for files that are here.
        """
        at_hand = getattr(getattr(batch[0][0], "store", None), "_supports_sync_io", True) if batch else True
        if at_hand or self.supports_partial_decode:
            return [batch]
        spec, few = batch[0][1], zarr.config.get("async.concurrency") or len(batch)
        parts = chunks_at_once(spec.shape, spec.dtype.to_native_dtype().itemsize) // few
        length = max(few, -(-len(batch) // max(parts, 1)))
        return [batch[start : start + length] for start in range(0, len(batch), length)]

    def placer(self, spec: ArraySpec) -> "Placer | None":
        """Return what decodes chunks to their place; None where only the codecs themselves can decode them."""
        if len(self.codecs) == 1 and isinstance(self.array_bytes_codec, TileCodec):
            made: Placer | None = self.array_bytes_codec.placer(spec)
            return made
        if isinstance(self.array_bytes_codec, TileCodec) and not self.bytes_bytes_codecs:
            return self._behind_reshape(self.array_bytes_codec, spec)
        return self._plain(spec)

    def _plain(self, spec: ArraySpec) -> "Placer | None":
        """Return what places elements that `bytes` reads, behind one compressor or none."""
        packers, order = self.bytes_bytes_codecs, list(range(len(spec.shape)))
        if type(self.array_bytes_codec) is not BytesCodec or len(packers) > 1:
            return None
        for codec in self.array_array_codecs:
            if not isinstance(codec, TransposeCodec):
                return None
            order = [order[axis] for axis in codec.order]
        packer = packers[0] if packers else None
        if packer is not None:
            from jnrrdz.codecs.steps import BoundedCodec  # noqa: PLC0415  opening an array imports no decoder

            if not isinstance(packer, BoundedCodec) or packer.beside:
                return None
        dtype = spec.dtype.to_native_dtype()
        if dtype.kind not in "biufc":
            return None
        endian = self.array_bytes_codec.endian
        return PlainPlacer(spec.shape, dtype if endian is None else dtype.newbyteorder(endian), packer, order)

    def _behind_reshape(self, codec: TileCodec, spec: ArraySpec) -> "Placer | None":
        """Return what decodes chunks of an array that got axes in front; None behind any other step."""
        (step, *others) = self.array_array_codecs
        if others or not isinstance(step, ConfiguredCodec) or step.config.name != RESHAPE:
            return None
        stored: ArraySpec = step.resolve_metadata(spec)
        left_out = len(spec.shape) - len(stored.shape)
        if spec.shape != (1,) * left_out + stored.shape:
            return None
        placer = codec.placer(stored)
        return None if placer is None else ReshapedPlacer(placer, left_out)


@contextmanager
def _told(batch: Sequence[Item]) -> Iterator[None]:
    """Name the chunks that zarr's own codecs cannot decode: bytes of another length, a wrong checksum."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        place = " to ".join(dict.fromkeys(str(batch[number][0]) for number in (0, -1)))
        raise MalformedError(f"a chunk that cannot be decoded: {error}", field=place) from error


def share_out(work: Callable[[int], Any], pending: deque[int], workers: int) -> None:
    """Do work on several threads, of which this is one, until nothing is pending.

    Raises what the earliest that failed raised.
    """
    begun: dict[int, int] = {}

    def drain(worker: int) -> None:
        try:
            while True:
                try:
                    first = pending.popleft()
                except IndexError:  # another thread took the last
                    return
                begun[worker] = first
                work(first)
        finally:
            pending.clear()  # where one has failed, the others stop

    helpers = min(workers, len(pending)) - 1
    tasks = [_get_pool(helpers).submit(drain, worker) for worker in range(helpers)]
    try:
        drain(helpers)
        begun.pop(helpers, None)
    finally:
        wait([task for task in tasks if not task.cancel()])
        for worker in sorted(begun, key=begun.__getitem__):
            if worker == helpers:
                break  # its error is under way
            tasks[worker].result()


class Placer(Protocol):
    """What decodes a chunk and puts what is selected of it to its place."""

    def place(self, data: memoryview, selection: SelectorTuple, out: NDArray[Any]) -> None:
        """Fill an array with a part of a chunk's elements."""


class PlainPlacer:
    """Elements in C order of the axes or of another order of them, as they are or behind one compressor."""

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], packer: "BoundedCodec | None", order: Sequence[int]
    ) -> None:
        self._stored = tuple(shape[axis] for axis in order)
        self._order = None if list(order) == sorted(order) else tuple(np.argsort(order).tolist())
        self._dtype = dtype
        self._packer = packer
        self._nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize

    def place(self, data: memoryview, selection: SelectorTuple, out: NDArray[Any]) -> None:
        """Fill an array with a part of a chunk's elements; any other number of them is an error."""
        octets = data if self._packer is None else self._packer.unpacked(data, self._nbytes)
        elements = np.frombuffer(octets, self._dtype).reshape(self._stored)
        out[...] = (elements if self._order is None else elements.transpose(self._order))[selection]


class AxisChunks(NamedTuple):
    """The chunks along one axis of a window: which, what of each is selected, and where that goes."""

    span: Span
    """What is selected."""
    chunks: range
    within: list[slice | int]
    places: list[tuple[slice, ...]]
    """Empty ones where one index is selected: the window has no such axis."""

    @classmethod
    def of(cls, indexer: Any, span: Span, overlaps: Sequence[AxisOverlap]) -> "AxisChunks":
        """Return the chunks of a span; an index selects one element and leaves its axis out."""
        chunks = range(overlaps[0].chunk, overlaps[-1].chunk + 1)
        if type(indexer) is IntDimIndexer:
            return cls(span, chunks, [overlaps[0].within.start], [()])
        within: list[slice | int] = [overlap.within for overlap in overlaps]
        places: list[tuple[slice, ...]] = [(overlap.place,) for overlap in overlaps]
        return cls(span, chunks, within, places)


def _span(indexer: Any) -> Span | None:
    """Return the elements that one index or a range of them selects along an axis; None for anything else."""
    if type(indexer) is IntDimIndexer:
        return indexer.dim_sel, indexer.dim_sel + 1
    if type(indexer) is SliceDimIndexer and indexer.step == 1:
        return indexer.start, indexer.stop
    return None


_AT_ONCE = 1 << 20
"""Encoded bytes that a thread reads at once, of chunks that are smaller."""

_MOST_AT_ONCE = 1 << 10
"""Chunks that a thread reads at once."""

_REFUSALS = (JnrrdzError, ValueError, TypeError, LookupError, RuntimeError, OverflowError, MemoryError, struct.error)
"""What decoders and numpy raise at a chunk's bytes."""

type Task = tuple[int, int]
"""The first chunk, and the one after the last."""


class Window:
    """A window of an array whose chunks are read many at once."""

    def __init__(
        self,
        array: "ReferenceArray",
        axes: Sequence[AxisChunks],
        shape: tuple[int, ...],
        spec: ArraySpec,
        placer: Placer,
    ) -> None:
        self._store: Any = array.store_path.store
        self._array = array
        self._axes = axes
        self._shape = shape
        self._spec = spec
        self._placer = placer
        self._leads = list(product(*(axis.within for axis in axes[:-1])))
        self._lead_places = [sum(places, ()) for places in product(*(axis.places for axis in axes[:-1]))]

    def read(self) -> NDArray[Any]:
        """Return the elements of the window."""
        out, ranges = self._empty(), self._ranges()
        if len(ranges.counts) == 1:
            self._fill((0, 1), ranges, out)
            return out
        workers = _resolve_max_workers()
        tasks = list(self._tasks(ranges, workers))
        share_out(lambda number: self._fill(tasks[number], ranges, out), deque(range(len(tasks))), workers)
        return out

    def _tasks(self, ranges: Ranges, workers: int) -> Iterator[Task]:
        """Yield runs of chunks, each of about as many bytes at the most as are read at once."""
        ends = np.cumsum(np.where(ranges.counts == 1, np.maximum(ranges.length, 1), 1))
        total = len(ends)
        most = max(1, min(_MOST_AT_ONCE, total // (_TURNS * workers)))
        first = 0
        while first < total:
            before = int(ends[first - 1]) if first else 0
            stop = min(int(np.searchsorted(ends, before + _AT_ONCE, side="right")), first + most)
            stop = max(stop, first + 1)
            yield first, stop
            first = stop

    def _empty(self) -> NDArray[Any]:
        return np.empty(self._shape, self._spec.dtype.to_native_dtype(), order=self._array.config.order)

    def _ranges(self) -> Ranges:
        found: Ranges = self._store.ranges_of(self._array.store_path.path, [[axis.chunks for axis in self._axes]])
        return found

    def _fill(self, task: Task, ranges: Ranges, out: NDArray[Any]) -> None:
        """Read, decode and place a run of chunks."""
        first, stop = task
        counts = ranges.counts[first:stop].tolist()
        chunks = self._store.chunks_at(ranges, first, stop)
        for number, count, data in zip(range(first, stop), counts, chunks, strict=True):
            if not count:
                out[self._place(number)[1]] = fill_value_or_default(self._spec)
            elif not self._placed(number, data, out):
                self._read_alone(number, out)

    def _place(self, number: int) -> tuple[SelectorTuple, SelectorTuple]:
        """Return what of a chunk is selected, and where in the window that goes."""
        lead, last = divmod(number, len(self._axes[-1].within))
        selection = (*self._leads[lead], self._axes[-1].within[last])
        return selection, self._lead_places[lead] + self._axes[-1].places[last]

    def _placed(self, number: int, data: memoryview | None, out: NDArray[Any]) -> bool:
        """Decode a chunk to its place; whether that went well, for zarr's own way tells what is wrong, and where."""
        selection, where = self._place(number)
        try:
            if data is not None:
                self._placer.place(data, selection, out[where])
        except _REFUSALS:
            return False
        return data is not None

    def _read_alone(self, number: int, out: NDArray[Any]) -> None:
        """Read one chunk in zarr's own way."""
        pipeline: Any = self._array.async_array.codec_pipeline
        whole = self._spec.prototype.nd_buffer.from_numpy_array(out)
        pipeline.read_sync([self._item(number)], whole, max_workers=1)

    def _item(self, number: int) -> Item:
        """Return a chunk as zarr's pipelines take it."""
        key = StorePath(self._array.store_path.store, self._key(number))
        return key, self._spec, *self._place(number), False

    def _key(self, number: int) -> str:
        """Return the key of a chunk."""
        grid = np.unravel_index(number, [len(axis.chunks) for axis in self._axes])
        index = tuple(axis.chunks[int(at)] for axis, at in zip(self._axes, grid, strict=True))
        return f"{self._array.store_path.path}/{self._array.metadata.encode_chunk_key(index)}".lstrip("/")


class RemoteWindow(Window):
    """A window whose chunks are decoded while others are on their way."""

    def read(self) -> NDArray[Any]:
        """Return the elements of the window; requests run on zarr's loop."""
        return sync(self._fetched())

    def _ranges(self) -> Ranges:
        path, windows = self._array.store_path.path, [[axis.chunks for axis in self._axes]]
        ranges: Ranges = self._store.needed_ranges_of(path, windows)
        return ranges

    async def _fetched(self) -> NDArray[Any]:
        out, workers = self._empty(), _resolve_max_workers()
        ranges = await asyncio.to_thread(self._ranges)
        chunks = self._store.elsewhere(ranges)
        missing = np.flatnonzero(ranges.counts == 0).tolist()
        for number in missing:
            out[self._place(number)[1]] = fill_value_or_default(self._spec)
        alone = set(range(len(ranges.counts))).difference(chunks.tolist(), missing)
        requests = asked_at_once() or 2 * CONNECTIONS  # some of them wait for a decoder
        taker = Taker(self._taking(out, alone, workers, len(chunks)), self._key)
        await together([self._store.each(ranges, chunks, requests, taker), self._ahead(ranges)])
        if alone:
            whole = self._spec.prototype.nd_buffer.from_numpy_array(out)
            await self._array.async_array.codec_pipeline.read([self._item(number) for number in sorted(alone)], whole)
        return out

    def _taking(
        self, out: NDArray[Any], alone: set[int], workers: int, total: int
    ) -> Callable[[list[int], list[memoryview | None]], Awaitable[None]]:
        """Return what decodes chunks on some threads, and notes those that have to be read in zarr's own way."""
        pool, loop = _get_pool(workers), asyncio.get_running_loop()
        most = max(1, min(_MOST_AT_ONCE, total // (_TURNS * workers)))

        def place(part: Iterable[tuple[int, memoryview | None]]) -> list[int]:
            return [number for number, data in part if not self._placed(number, data, out)]

        async def take(numbers: list[int], pieces: list[memoryview | None]) -> None:
            parts = batched(zip(numbers, pieces, strict=True), most)
            for refused in await asyncio.gather(*(loop.run_in_executor(pool, place, part) for part in parts)):
                alone.update(refused)

        return take

    async def _ahead(self, ranges: Ranges) -> None:
        """Have the windows fetched that are expected after this one, where it is one of several in a row."""
        most = AHEAD // 2 // max(int(ranges.length.sum()), 1)
        if not most:  # such a window has all connections under way by itself
            return
        path, sizes = self._array.store_path.path, self._spec.shape
        boxes = self._store.walks(path, self._array.shape).after(tuple(axis.span for axis in self._axes), most)
        if boxes:
            windows = [
                [chunks_along(span[0], span[1], size) for span, size in zip(box, sizes, strict=True)] for box in boxes
            ]
            await self._store.read_ahead(path, windows)


class ReferenceArray(zarr.Array[ArrayV3Metadata]):
    """An array of references that reads windows of files many chunks at once.

    Local files are read in the thread that asks: zarr would wait for its event loop, which takes half a millisecond.
    """

    def get_basic_selection(
        self, selection: Any = Ellipsis, *, out: Any = None, prototype: Any = None, fields: Any = None
    ) -> Any:
        """Return the elements of a window."""
        if self._reading is not None and out is None and prototype is None and not fields:
            window = self._window(BasicIndexer(selection, self.shape, self._chunk_grid))
            if window is not None:
                return window.read()
        return super().get_basic_selection(selection, out=out, prototype=prototype, fields=fields)

    def get_orthogonal_selection(
        self, selection: Any, *, out: Any = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        """Return the elements of a window."""
        if self._reading is not None and out is None and prototype is None and not fields:
            window = self._window(OrthogonalIndexer(selection, self.shape, self._chunk_grid))
            if window is not None:
                return window.read()
        return super().get_orthogonal_selection(selection, out=out, fields=fields, prototype=prototype)

    def _window(self, indexer: BasicIndexer | OrthogonalIndexer) -> Window | None:
        """Return a window that can be read many chunks at once; None for any other."""
        if self._reading is None or 0 in (indexer.shape or (0,)):
            return None
        if default_buffer_prototype() != numpy_buffer_prototype():
            return None
        spec, placer = self._reading
        spans = [span for span in map(_span, indexer.dim_indexers) if span is not None]
        if len(spans) < len(spec.shape):
            return None
        overlaps = overlaps_of_axes(spans, spec.shape)
        axes = [AxisChunks.of(*axis) for axis in zip(indexer.dim_indexers, spans, overlaps, strict=True)]
        return self._kind_of_window(self, axes, indexer.shape, spec, placer)

    @cached_property
    def _kind_of_window(self) -> type[Window]:
        store: Any = self.store_path.store
        return Window if store._supports_sync_io else RemoteWindow  # noqa: SLF001  zarr's name for it

    @cached_property
    def _reading(self) -> tuple[ArraySpec, Placer] | None:
        """What decodes chunks many at once; None where only zarr's own way reads them."""
        store, pipeline, grid = self.store_path.store, self.async_array.codec_pipeline, self.metadata.chunk_grid
        if not isinstance(store, ReferenceStore) or not isinstance(pipeline, ReferencePipeline):
            return None
        if not isinstance(grid, RegularChunkGridMetadata) or not self.config.read_missing_chunks:
            return None
        if not store.reads_at_once(self.store_path.path):
            return None
        prototype = numpy_buffer_prototype()
        spec = ArraySpec(grid.chunk_shape, self.metadata.dtype, self.metadata.fill_value, self.config, prototype)
        try:
            placer = pipeline.placer(spec)
        except _REFUSALS:  # zarr's own way tells what is wrong, and of which chunk
            return None
        return None if placer is None else (spec, placer)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the array without its decoders, which are made again."""
        return {"_async_array": self._async_array}
