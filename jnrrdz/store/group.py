"""zarr groups over references whose arrays read on zarr's fused pipeline.

May touch zarr and read's store.  The fused pipeline reads, decodes and places a chunk in one task of
a thread; for local files it costs a fifth of the default one a chunk.  zarr knows one setting for the
whole process; it is left alone, and set on the arrays that come out of these groups only.
"""

from collections.abc import Generator, Iterator
from typing import Any

import zarr
from zarr.core.array_spec import ArrayConfig, ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.metadata.v3 import ArrayV3Metadata, RegularChunkGridMetadata

from jnrrdz.errors import JnrrdzError
from jnrrdz.store.bounded import bounded
from jnrrdz.store.checked import checked, in_c_order
from jnrrdz.store.pipeline import ReferencePipeline
from jnrrdz.store.store import ReferenceStore


class ReferenceGroup(zarr.Group):
    """A read-only group; all that comes out of it reads on the fused pipeline."""

    def __getitem__(self, path: str) -> "zarr.Array[Any] | ReferenceGroup":
        """Return the node at a path."""
        return _tuned(super().__getitem__(path))

    def get_array(self, path: str) -> "zarr.Array[Any]":
        """Return the array at a path."""
        return _tuned_array(super().get_array(path))

    def get_group(self, path: str) -> "ReferenceGroup":
        """Return the group at a path."""
        return ReferenceGroup(super().get_group(path)._async_group)  # noqa: SLF001  a subclass's own member

    def members(self, *args: Any, **kwargs: Any) -> tuple[tuple[str, "zarr.Array[Any] | zarr.Group"], ...]:
        """Return the nodes below, by name."""
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


def reference_group(store: ReferenceStore, path: str = "") -> ReferenceGroup:
    """Return the group of a store at a path, or an error that names the store."""
    try:
        found = zarr.open_group(store, path=path, mode="r", zarr_format=3)
    except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
        raise JnrrdzError(f"not the metadata of a Zarr v3 group: {error}", url=str(store), field=path) from error
    return ReferenceGroup(found._async_group)  # noqa: SLF001  the only way from a group to a subclass of it


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
    spec = ArraySpec(
        metadata.chunk_grid.chunk_shape,
        metadata.data_type,
        metadata.fill_value,
        ArrayConfig.from_dict({}),
        default_buffer_prototype(),
    )
    dtype = metadata.data_type.to_native_dtype()
    codecs = checked(metadata.codecs, metadata.chunk_grid.chunk_shape, dtype.itemsize)
    codecs = in_c_order(bounded(codecs, metadata.chunk_grid.chunk_shape, dtype))
    pipeline = ReferencePipeline.from_codecs(codecs).evolve_from_array_spec(spec)
    object.__setattr__(inner, "codec_pipeline", pipeline)
    return array
