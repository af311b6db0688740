"""A store in which levels that are not stored can be read: each chunk is computed from the finer level.

May touch zarr's codec pipeline and read's own modules, the model and downsample.  The source level is
read by windows with the margin of the filter, never whole.  What is listed where: model/virtual_level.py.
"""

import json
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from typing import Any

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from jnrrdz.core.virtual_level import VirtualLevel, virtual_levels_of
from jnrrdz.core.zarr_json import ZARR_JSON
from jnrrdz.errors import JnrrdzError
from jnrrdz.store.level_chunks import LevelChunks, checked
from jnrrdz.store.level_documents import level_documents
from jnrrdz.store.parts import cut
from jnrrdz.store.recent import Recent
from jnrrdz.store.store import ReferenceStore

KEPT = 256 << 20
"""Bytes of computed chunks that a store keeps; the longest unused leave first, none above a quarter of it."""


def with_virtual_levels(store: ReferenceStore) -> ReferenceStore:
    """Return a store in which the levels that its groups list are there; the same store where they list none."""
    listed = listed_levels(store.manifest.documents)
    return VirtualLevelStore(store, listed) if listed else store


def listed_levels(documents: Mapping[str, bytes]) -> dict[str, tuple[VirtualLevel, ...]]:
    """Return the levels that groups list, by the groups' paths with a slash at their ends."""
    found = {}
    for key, text in documents.items():
        if key.rpartition("/")[2] != ZARR_JSON or b"virtual_levels" not in text:
            continue
        document = json.loads(text)
        attributes = document.get("attributes") if isinstance(document, dict) else None
        if isinstance(attributes, dict) and document.get("node_type") == "group":
            try:
                found[key[: -len(ZARR_JSON)]] = virtual_levels_of(attributes)
            except JnrrdzError as error:
                raise error.at(field=key) from error.__cause__
    return {path: levels for path, levels in found.items() if levels}


class VirtualLevelStore(ReferenceStore):
    """The keys of a manifest, and those of the levels that are computed from it."""

    def __init__(self, stored: ReferenceStore, listed: Mapping[str, tuple[VirtualLevel, ...]]) -> None:
        twin = stored.with_documents(level_documents(stored.manifest.documents, listed))
        options: Any = twin._storage_options  # noqa: SLF001  a subclass's own member
        access: Any = twin._access  # noqa: SLF001  the same
        super().__init__(twin.manifest, storage_options=options, **access)
        self.stored = stored
        """The store of what is stored alone."""
        self._levels = {
            f"{path}{level.name}/{level.variable}/": checked(stored, path, level)
            for path, levels in listed.items()
            for level in levels
        }
        self._recent = Recent(KEPT)
        self._running: dict[tuple[str, int], Future[bytes]] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return with_virtual_levels, (self.stored,)

    def __eq__(self, other: object) -> bool:
        """Whether both compute from the same references."""
        return isinstance(other, VirtualLevelStore) and self.stored == other.stored

    __hash__ = object.__hash__

    def _computed(self, key: str) -> tuple[LevelChunks, int] | None:
        """Return the level and the number of the chunk that a key names, None where it names none of a level."""
        for prefix, level in self._levels.items():
            if key.startswith(prefix):
                number = level.keys.number(key)
                return None if number is None else (level, number)
        return None

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes of a key, computed where it is a chunk of such a level."""
        found = self._computed(key)
        if found is None:
            return await super().get(key, prototype, byte_range)
        level, number = found
        where = (level.keys.prefix, number, 0)
        data = self._recent.get(where)
        if data is None:
            try:
                data = await level.chunk(number)
            except JnrrdzError as error:
                raise error.at(field=key) from error.__cause__
            self._recent.put(where, data)
        return _buffer(data, prototype, byte_range)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Do the same without an event loop."""
        found = self._computed(key)
        if found is None:
            return super().get_sync(key, prototype=prototype, byte_range=byte_range)
        level, number = found
        where = (level.keys.prefix, number, 0)
        data = self._recent.get(where)
        return _buffer(self._once(level, number, key) if data is None else data, prototype, byte_range)

    def _once(self, level: LevelChunks, number: int, key: str) -> bytes:
        """Return a chunk that nobody has yet; of many who ask at one time one computes it."""
        asked = (level.keys.prefix, number)
        with self._lock:
            running = self._running.get(asked)
            future = self._running.setdefault(asked, Future())
        if running is not None:
            return running.result()
        try:
            data = level.chunk_sync(number)
            self._recent.put((*asked, 0), data)
            future.set_result(data)
        except JnrrdzError as error:
            future.set_exception(error)
            raise error.at(field=key) from error.__cause__
        except BaseException as error:  # raised again; whoever waits is woken, whatever ended the work
            future.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._running[asked]
        return data

    async def exists(self, key: str) -> bool:
        """Whether there is something for a key."""
        return self._computed(key) is not None or await super().exists(key)

    async def getsize(self, key: str) -> int:
        """Return the number of bytes of a key, without reading them."""
        found = self._computed(key)
        return await super().getsize(key) if found is None else found[0].nbytes

    def describe(self, key: str) -> str:
        """Return where a key's bytes are, for people."""
        found = self._computed(key)
        return super().describe(key) if found is None else f"computed from {found[0].source}"

    async def list(self) -> AsyncIterator[str]:
        """Yield every key."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield every key that begins with a prefix."""
        async for key in super().list_prefix(prefix):
            yield key
        for level in self._levels.values():
            for number in range(level.keys.chunks):
                key = level.keys.key(number)
                if key.startswith(prefix):
                    yield key

    @property
    def _supports_sync_io(self) -> bool:
        """Whether zarr may read on the calling thread: where all sources are local and all codecs can."""
        return super()._supports_sync_io and all(level.is_sync for level in self._levels.values())


def _buffer(data: bytes, prototype: BufferPrototype | None, byte_range: ByteRequest | None) -> Buffer:
    part = cut(data, byte_range)
    return (prototype or default_buffer_prototype()).buffer.from_bytes(b"" if part is None else part)
