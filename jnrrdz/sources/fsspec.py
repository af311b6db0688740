"""Bytes at a path or URL, whichever way they come.

Local files need neither asyncio nor fsspec, which take longer to import than a small file takes to index: what reads
elsewhere (`remote`) is imported when it is asked for.  docs/decisions/034-imports-where-they-are-met.md
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from jnrrdz.core.state import SourceState
from jnrrdz.errors import UnsupportedError
from jnrrdz.sources import url as urls
from jnrrdz.sources.guard import AddressGuard
from jnrrdz.sources.local import LocalSource
from jnrrdz.sources.ranges import ByteSource

if TYPE_CHECKING:
    from jnrrdz.sources.remote import FsspecSource

NOT_BYTES = {"reference", "dask", "generic"}
"""fsspec's protocols that open something other than one object."""


def open_source(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    guard: AddressGuard | None = None,
    expected: SourceState | None = None,
) -> ByteSource:
    """Return the bytes at a path or URL; options are fsspec's (anon, endpoint_url, profile, headers, ...).

    `expected` is the state that was recorded: over HTTP and S3 no byte of another one is given out.
    """
    where = urls.parse(url)
    if where.path is not None:
        return LocalSource(url, where.path)
    if where.scheme in NOT_BYTES:
        raise UnsupportedError("a view of other files; name the file or the manifest itself", url=url, field="scheme")
    from jnrrdz.sources.remote import FsspecSource  # noqa: PLC0415  see the module

    return FsspecSource(url, storage_options=storage_options, guard=guard, expected=expected)


def read_document(
    url: str, most: int, *, storage_options: Mapping[str, Any] | None = None, guard: AddressGuard | None = None
) -> bytes:
    """Return all bytes at a path or URL, over HTTP also where the server does not say how many there are."""
    source = open_source(url, storage_options=storage_options, guard=guard)
    if not isinstance(source, LocalSource):
        return cast("FsspecSource", source).whole(most)
    try:
        size = source.validators.size
        if size > most:
            raise UnsupportedError(f"a document of {size} bytes, more than {most}", url=url)
        return source.read([(0, size)])[0]
    finally:
        source.close()
