"""zarr groups over references whose arrays read on zarr's fused pipeline: all that depends on how zarr is made inside.

The fused pipeline reads, decodes and places a chunk in one task of a thread; for local files it costs a fifth of
the default one a chunk.  zarr knows one setting for the whole process; it is left alone, and set on the arrays that
come out of these groups only.  zarr gives its pool a task for each chunk: a future, its locks and a waking of
whoever waits for it, all of it while the threads that decode wait for the interpreter.  Here each thread takes the
next few chunks until none are left.

`offset` and `pad` drop the header of an N5 block unread; where the bytes that such a chain would write are the header
of a full block, `n5_default` reads the same chunks: it checks what each block declares, decodes no more than that, and
names the block in its errors.  The arrays' metadata stay as they are.
"""

import base64
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, cast

import zarr
from numpy.typing import NDArray
from zarr.abc.codec import Codec
from zarr.core.array_spec import ArrayConfig, ArraySpec
from zarr.core.buffer import NDBuffer, default_buffer_prototype
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.metadata.v3 import ArrayV3Metadata, RegularChunkGridMetadata
from zarr.storage import StorePath

from jnrrdz.codecs.chains import checked_document, own_codec
from jnrrdz.core.codecs import (
    BYTES,
    COMPRESSORS,
    OFFSET,
    PAD,
    RESHAPE,
    SQUEEZE,
    TRANSPOSE,
    ReshapeConfig,
    reversed_axes,
)
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.windows import overlaps
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.n5.attributes import default_header
from jnrrdz.formats.n5.codecs import N5_DEFAULT, N5DefaultConfig
from jnrrdz.store.pipeline import Item, ReferenceArray, ReferencePipeline
from jnrrdz.store.store import ReferenceStore

_CHECKED_MOST = 3
"""Codecs that end such a chain: `bytes`, a compressor, the header's."""


def checked(codecs: Sequence[Codec], chunk: Sequence[int], itemsize: int) -> tuple[Codec, ...]:
    """Return codecs that read the same chunks with their headers checked; the very same for any other chain."""
    entries = [_entry(codec) for codec in codecs]
    first = next((number for number, entry in enumerate(entries) if entry.name == BYTES), len(entries))
    before, tail = entries[:first], entries[first:]
    header = _header(tail, itemsize)
    stored = None if header is None else _stored(before, list(chunk))
    # merged along a new axis, chunks have axes of one place that their blocks do not have
    lone = 0 if stored is None else next((axis for axis, size in enumerate(stored) if size > 1), len(stored) - 1)
    dropped = next((n for n in range(lone + 1) if stored is not None and _is_header(header, stored[n:])), None)
    if stored is None or dropped is None:
        return tuple(codecs)
    axes = len(stored) - dropped
    order = (reversed_axes(axes),) if axes > 1 else ()
    whole = [ReshapeConfig.dropping(dropped, axes)] if dropped else []
    made = (*whole, *order, N5DefaultConfig.of(axes, itemsize, tail[1:-1]))
    return (*codecs[:first], *map(own_codec, made))


def in_c_order(codecs: Sequence[Codec]) -> tuple[Codec, ...]:
    """Return one codec for a transposition that reverses all axes and `n5_default`; the very same for any other chain.

    A codec that is the whole chain reads, decodes and selects in one step.
    """
    if len(codecs) != len(("transpose", "n5_default")):
        return tuple(codecs)
    order, block = _entry(codecs[0]), cast("Any", codecs[1])
    axes = order.configuration.get("order", ())
    if _entry(block).name != N5_DEFAULT or order.name != TRANSPOSE or list(axes) != list(range(len(axes)))[::-1]:
        return tuple(codecs)
    return (block.as_c_order(),)


def _entry(codec: Codec) -> CodecSpec:
    found: dict[str, Any] = codec.to_dict()
    return CodecSpec(found["name"], found.get("configuration") or {})


def _header(tail: Sequence[CodecSpec], itemsize: int) -> bytes | None:
    """Return what stands before the compressed elements, None for chains of any other form."""
    if not _CHECKED_MOST - 1 <= len(tail) <= _CHECKED_MOST or (
        itemsize > 1 and tail[0].configuration.get("endian") != "big"
    ):
        return None
    if any(entry.name not in COMPRESSORS for entry in tail[1:-1]):
        return None
    told = tail[-1].configuration
    literal = told.get("prefix") if tail[-1].name == OFFSET else told.get("padding")
    if tail[-1].name not in {OFFSET, PAD} or told.get("location", "start") != "start" or literal is None:
        return None
    return base64.b64decode(literal)


def _stored(before: Sequence[CodecSpec], chunk: list[int]) -> list[int] | None:
    """Return the shape that a chunk has behind transpositions and fewer axes, None behind anything else."""
    for entry in before:
        if entry.name == TRANSPOSE:
            chunk = [chunk[axis] for axis in entry.configuration["order"]]
        elif entry.name == SQUEEZE:
            chunk = chunk[1:]
        elif entry.name == RESHAPE:
            chunk = list(ReshapeConfig.from_json(entry.configuration).of(chunk))
        else:
            return None
    return chunk


def _is_header(header: bytes | None, shape: list[int]) -> bool:
    """Whether a header is that of a block that fills a chunk of a shape."""
    try:
        return header == default_header(shape[::-1])
    except MalformedError:
        return False


class ReferenceGroup(zarr.Group):
    """A read-only group; all that comes out of it reads on the fused pipeline."""

    def __getitem__(self, path: str) -> "zarr.Array[Any] | ReferenceGroup":
        """Return the node at a path."""
        with _refused(self, path):
            return _tuned(super().__getitem__(path))

    def __contains__(self, path: str) -> bool:
        """Whether there is a node at a path."""
        with _refused(self, path):
            return super().__contains__(path)

    def get_array(self, path: str) -> "zarr.Array[Any]":
        """Return the array at a path."""
        with _refused(self, path):
            return _tuned_array(super().get_array(path))

    def get_group(self, path: str) -> "ReferenceGroup":
        """Return the group at a path."""
        with _refused(self, path):
            return ReferenceGroup(super().get_group(path)._async_group)  # noqa: SLF001  a subclass's own member

    def members(self, *args: Any, **kwargs: Any) -> tuple[tuple[str, "zarr.Array[Any] | zarr.Group"], ...]:
        """Return the nodes below, by name."""
        with _refused(self, ""):
            return tuple((name, _tuned(node)) for name, node in super().members(*args, **kwargs))

    def groups(self) -> Generator[tuple[str, zarr.Group], None]:
        """Yield the groups below, by name."""
        yield from ((name, node) for name, node in self.members() if isinstance(node, zarr.Group))

    def group_values(self) -> Generator[zarr.Group, None]:
        """Yield the groups below."""
        yield from (node for _, node in self.groups())

    def arrays(self) -> Generator[tuple[str, "zarr.Array[Any]"], None]:
        """Yield the arrays below, by name."""
        yield from ((name, node) for name, node in self.members() if isinstance(node, zarr.Array))

    def array_values(self) -> Generator["zarr.Array[Any]", None]:
        """Yield the arrays below."""
        yield from (node for _, node in self.arrays())

    def __iter__(self) -> Iterator[str]:
        """Yield the names below."""
        return super().__iter__()


@contextmanager
def _refused(group: ReferenceGroup, path: str) -> Iterator[None]:
    """Name the store where zarr refuses the metadata of a node; one that is not there is a KeyError."""
    try:
        yield
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        whole = f"{group.path}/{path}".strip("/")
        documents = cast("ReferenceStore", group.store).manifest.documents
        if isinstance(error, KeyError) and not documents.node(whole):
            raise
        raise JnrrdzError(f"metadata that zarr refuses: {error}", url=str(group.store), field=whole or "/") from error


def reference_group(store: ReferenceStore, path: str = "") -> ReferenceGroup:
    """Return the group of a store at a path, or an error that names the store."""
    try:
        found = zarr.open_group(store, path=path, mode="r", zarr_format=3)
    except (ValueError, KeyError, TypeError, OverflowError, FileNotFoundError) as error:
        raise JnrrdzError(f"not the metadata of a Zarr v3 group: {error}", url=str(store), field=path) from error
    return ReferenceGroup(found._async_group)  # noqa: SLF001  the only way from a group to a subclass of it


def reference_array(store: ReferenceStore, path: str) -> "zarr.Array[Any]":
    """Return the array of a store at a path, or an error that names the store."""
    try:
        return _tuned_array(zarr.open_array(store, path=path, mode="r", zarr_format=3))
    except (ValueError, KeyError, TypeError, OverflowError, FileNotFoundError) as error:
        raise JnrrdzError(f"not the metadata of a Zarr v3 array: {error}", url=str(store), field=path) from error


def chunk_spec(metadata: ArrayV3Metadata) -> ArraySpec:
    """Return what zarr's pipelines have to know of an array's chunks, all of one shape."""
    shape = cast("RegularChunkGridMetadata", metadata.chunk_grid).chunk_shape
    return ArraySpec(
        shape, metadata.data_type, metadata.fill_value, ArrayConfig.from_dict({}), default_buffer_prototype()
    )


class ChunkReader:
    """The chunks of an array as zarr's fused pipeline reads them in the calling thread."""

    def __init__(self, store: ReferenceStore, path: str, document: dict[str, Any]) -> None:
        self._metadata = ArrayV3Metadata.from_dict(checked_document(document))
        self._spec = chunk_spec(self._metadata)
        codecs = checked(self._metadata.codecs, self._spec.shape, self._metadata.data_type.to_native_dtype().itemsize)
        self._pipeline = ReferencePipeline.from_codecs(in_c_order(codecs)).evolve_from_array_spec(self._spec)
        self._place = StorePath(store, path)

    @property
    def is_sync(self) -> bool:
        """Whether every codec decodes without an event loop."""
        return self._pipeline.sync_transform is not None

    def read_sync(self, window: tuple[slice, ...]) -> NDArray[Any]:
        """Return the elements in a window."""
        batch, out = self._batch(window)
        self._pipeline.read_sync(batch, out, max_workers=1)
        return out.as_numpy_array()

    async def read(self, window: tuple[slice, ...]) -> NDArray[Any]:
        """Return the elements in a window, their chunks fetched together."""
        batch, out = self._batch(window)
        await self._pipeline.read(batch, out)
        return out.as_numpy_array()

    def _batch(self, window: tuple[slice, ...]) -> tuple[list[Item], NDBuffer]:
        """Return each chunk in a window as zarr's pipeline takes it, and the array to fill."""
        sizes = self._spec.shape
        batch: list[Item] = []
        for index, within, place in overlaps(window, sizes):
            key = self._place / self._metadata.encode_chunk_key(index)
            batch.append((key, self._spec, within, place, False))
        shape = tuple(at.stop - at.start for at in window)
        dtype = self._metadata.data_type.to_native_dtype()
        return batch, self._spec.prototype.nd_buffer.empty(shape=shape, dtype=dtype, order="C")


def _tuned(node: "zarr.Array[Any] | zarr.Group") -> "zarr.Array[Any] | ReferenceGroup":
    if isinstance(node, zarr.Group):
        return ReferenceGroup(node._async_group)  # noqa: SLF001  the only way from a group to a subclass of it
    return _tuned_array(node)


def _tuned_array(array: "zarr.Array[Any]") -> "zarr.Array[Any]":
    """Return the array on the fused pipeline, unless its user chose a pipeline."""
    inner = array.async_array
    metadata = inner.metadata
    if type(inner.codec_pipeline) is not BatchedCodecPipeline or not isinstance(metadata, ArrayV3Metadata):
        return array
    if not isinstance(metadata.chunk_grid, RegularChunkGridMetadata):
        return array
    spec = chunk_spec(metadata)
    dtype = metadata.data_type.to_native_dtype()
    codecs = checked(metadata.codecs, metadata.chunk_grid.chunk_shape, dtype.itemsize)
    pipeline = ReferencePipeline.from_codecs(in_c_order(codecs)).evolve_from_array_spec(spec)
    tuned = copy(inner)
    vars(tuned)["codec_pipeline"] = pipeline
    return ReferenceArray(tuned)
