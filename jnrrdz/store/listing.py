"""The keys of a manifest as zarr lists them, and files that are referred to as a whole because nobody could list them.

Keys are spelt only as far as they are asked for.  Of whole files only those below a tree that the manifest's table of
sources names may be absent, and only "not found" makes one so: its chunk is missing, and reads as the fill value.
Anything else is an error, as is a whole file that the table names by itself, and a dataset that is not there any
more: moved away, it would read as nothing but fill values.
"""

import asyncio
import re
import threading
from collections.abc import Iterator, Sequence

import numpy as np

from jnrrdz.core.refs import WHOLE, ByteRange
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats.n5.listing import ATTRIBUTES
from jnrrdz.manifests.columns import ArrayRefs, Ints
from jnrrdz.manifests.documents import ChunkKeys
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.sources.base import is_absent
from jnrrdz.store.sources import SourcePool


def keys(manifest: Manifest, prefix: str = "") -> Iterator[str]:
    """Yield every key that begins with a prefix."""
    yield from (key for key in manifest.documents if key.startswith(prefix))
    for refs in manifest.arrays.values():
        common = min(len(prefix), len(refs.keys.prefix))
        if prefix[:common] != refs.keys.prefix[:common]:
            continue
        for number in refs.present():
            key = refs.keys.key(int(number))
            if key.startswith(prefix):
                yield key


def children(manifest: Manifest, prefix: str) -> Iterator[str]:
    """Yield the names of what stands directly below a prefix, each once."""
    folder = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
    names = {key[len(folder) :].partition("/")[0]: None for key in manifest.documents if key.startswith(folder)}
    for refs in manifest.arrays.values():
        names.update(dict.fromkeys(_below(refs, folder)))
    yield from names


def _below(refs: ArrayRefs, folder: str) -> Iterator[str]:
    """Yield the names that an array's chunks make directly below a folder."""
    prefix = refs.keys.prefix
    name, deeper, _ = prefix.removeprefix(folder).partition("/")
    if prefix.startswith(folder) and deeper:
        yield name  # the array's path, or the `c` of its chunks
    elif prefix.startswith(folder) and (refs.keys.separator == "." or not refs.keys.grid):
        yield from (refs.keys.key(int(number))[len(folder) :] for number in refs.present())
    elif folder.startswith(prefix) or prefix == folder:
        lead = folder[len(prefix) :].split("/")[:-1]
        yield from map(str, _next_indices(refs.keys, refs.present(), lead))


def _next_indices(keys: ChunkKeys, present: Ints, lead: list[str]) -> Ints:
    """Return the indices that follow some leading ones."""
    if keys.separator != "/" or len(lead) >= len(keys.grid) or not all(part.isdecimal() for part in lead):
        return present[:0]
    index = np.unravel_index(present, keys.grid)
    fits = np.ones(len(present), bool)
    for axis, part in zip(index, lead, strict=False):
        fits &= axis == int(part)
    return np.unique(index[len(lead)][fits])


LARGEST = 1 << 30
"""Bytes of a file whose length nobody knows before it is read."""

_SPAN = (0, LARGEST + 1)


class WholeFiles:
    """Whole files of a manifest's trees, each asked for once and without asking for its size."""

    def __init__(self, manifest: Manifest, pool: SourcePool) -> None:
        self._trees = tuple(record.url for record in manifest.sources if record.url.endswith("/"))
        self._manifest = manifest
        self._pool = pool
        self._lock = threading.Lock()
        self._there: set[str] = set()

    def covers(self, wanted: Sequence[ByteRange]) -> bool:
        """Whether a chunk is such a file."""
        if not self._trees or len(wanted) != 1:
            return False
        ((url, offset, length),) = wanted
        return offset == 0 and length == WHOLE and url.startswith(self._trees)

    def read(self, wanted: Sequence[ByteRange], key: str) -> bytes | None:
        """Return a file's bytes, None where there is none."""
        url = wanted[0][0]
        try:
            return self._checked(self._pool.opened(url).source.read([_SPAN])[0], url)
        except JnrrdzError as error:
            if not is_absent(error):
                raise
        self._require_dataset(url, key)
        return None

    async def aread(self, wanted: Sequence[ByteRange], key: str) -> bytes | None:
        """Do the same without blocking the loop."""
        url = wanted[0][0]
        try:
            opened = self._pool.known(url)
            if opened is None:
                opened = await asyncio.to_thread(self._pool.opened, url)
            return self._checked((await opened.source.aread([_SPAN]))[0], url)
        except JnrrdzError as error:
            if not is_absent(error):
                raise
        await asyncio.to_thread(self._require_dataset, url, key)
        return None

    def _require_dataset(self, url: str, key: str) -> None:
        """Refuse to take a block for absent where its dataset's metadata are not there either; looks once."""
        chunk = self._manifest.chunk(key)
        axes = 1 if chunk is None else len(chunk[0].keys.grid)
        folder = re.sub(rf"(?:/[0-9]+){{1,{axes}}}$", "/", url)
        with self._lock:
            if folder in self._there:
                return
            try:
                self._pool.opened(f"{folder}{ATTRIBUTES}").source.read([(0, 1)])
            except JnrrdzError as error:
                if is_absent(error):
                    raise JnrrdzError("neither the block nor its dataset is there any more", url=url) from None
                raise
            self._there.add(folder)

    def _checked(self, data: bytes, url: str) -> bytes:
        if len(data) > LARGEST:
            raise UnsupportedError(f"a block of more than {LARGEST} bytes; index it where it can be listed", url=url)
        if not data:
            raise JnrrdzError("an empty file where a block is expected", url=url)
        return data
