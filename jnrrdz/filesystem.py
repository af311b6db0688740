"""A manifest as a file system of fsspec: protocol `jnrrdz`, read-only.

What resolves references through fsspec (zarr, dask, pandas, kerchunk's users) reads any manifest of ours by it, those
with chunks of several ranges too, which `reference://` cannot: trust, drift and credentials are as `open_store` has
them.  A source that is no manifest is scanned.  Interface:
https://filesystem-spec.readthedocs.io/en/latest/api.html#fsspec.asyn.AsyncFileSystem
"""

import asyncio
import functools
import io
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from fsspec.asyn import AsyncFileSystem
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest

from jnrrdz.api import open_stored
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import UnsupportedError
from jnrrdz.options import Access
from jnrrdz.store.store import ReferenceStore


class JnrrdzFileSystem(AsyncFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The keys of a manifest as files: `zarr.json`, `data/zarr.json`, `data/c/0/0`.

    Parameters
    ----------
    fo:
        A path or URL of a manifest in any form, or of a source to scan, or a virtual group.
    target_protocol, target_options:
        fsspec's protocol and options for `fo`, as a chained URL (`jnrrdz::s3://bucket/refs.json`) gives them.
    remote_options:
        fsspec's options for the sources that the manifest names; those of `fo` go to no source of a manifest.
    template_overrides:
        What stands for the templates in the manifest's URLs, by their names.
    allow:
        Paths and URLs under which the manifest may name sources that it may not name anyway.

    """

    protocol: ClassVar[str] = "jnrrdz"
    async_impl = True
    cachable = False  # a manifest may be another one by now, and virtual groups that look alike are not the same
    root_marker = ""

    def __init__(  # noqa: PLR0913  the names that fsspec's own file system of references gives them
        self,
        fo: str | os.PathLike[str] | VirtualGroup,
        *,
        target_protocol: str | None = None,
        target_options: Mapping[str, Any] | None = None,
        remote_options: Mapping[str, Any] | None = None,
        template_overrides: Mapping[str, str] | None = None,
        allow: Sequence[str] = (),
        asynchronous: bool = False,
        **options: Any,
    ) -> None:
        # the store's bytes come from fsspec's own loop: whoever waits for them there would wait for himself
        super().__init__(asynchronous=asynchronous, loop=None if asynchronous else _loop(), **options)
        source = fo if isinstance(fo, VirtualGroup) else os.fspath(fo)
        if isinstance(source, str) and target_protocol not in {None, "file"} and "://" not in source:
            source = f"{target_protocol}://{source}"
        access = Access(allow, target_options, remote_options, template_overrides)
        self._store: ReferenceStore = open_stored(source, access=access)

    @classmethod
    def _strip_protocol(cls, path: str | list[str]) -> str | list[str]:
        if isinstance(path, list):
            return [str(cls._strip_protocol(one)) for one in path]
        return path.removeprefix("jnrrdz://").removeprefix("jnrrdz::").strip("/")

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        key = str(self._strip_protocol(path))
        part, cut = _part(start, end)
        data = await self._store.get(key, byte_range=part)
        if data is None:
            raise FileNotFoundError(key)
        return bytes(data.to_bytes()[cut])

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        key = str(self._strip_protocol(path))
        if key and await self._store.exists(key):
            return {"name": key, "size": await self._store.getsize(key), "type": "file"}
        if key and not [name async for name in self._store.list_dir(key)]:
            raise FileNotFoundError(key)
        return {"name": key, "size": 0, "type": "directory"}

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:  # noqa: FBT001, FBT002  fsspec's signature
        key = str(self._strip_protocol(path))
        below = [f"{key}/{name}" if key else name async for name in self._store.list_dir(key)]
        if not below:
            return [await self._info(key)] if detail else [(await self._info(key))["name"]]
        return list(await asyncio.gather(*map(self._info, below))) if detail else below

    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        if mode != "rb":
            raise UnsupportedError(
                "a manifest's references cannot be written through; open it with mode 'rb'", url=path
            )
        return io.BytesIO(self.cat_file(path))


def _part(start: int | None, end: int | None) -> tuple[ByteRequest | None, slice]:
    """Return what to ask a store for, and what to keep of the answer."""
    match start or 0, end:
        case 0, None:
            return None, slice(None)
        case first, None if first < 0:
            return SuffixByteRequest(-first), slice(None)
        case first, None:
            return OffsetByteRequest(first), slice(None)
        case first, int(last) if first < 0 or last < 0:
            return None, slice(first, last)  # counted from an end that the store knows, and nobody asks for
        case first, int(last):
            return RangeByteRequest(first, max(first, last)), slice(None)


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop of a thread that serves those who call without one."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="jnrrdz-filesystem", daemon=True).start()
    return loop


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_loop.cache_clear)  # threads do not survive a fork
