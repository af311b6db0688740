"""A tree that cannot be listed: over HTTP there are only objects that someone knows the name of.

May touch sources and errors.  What is absent is told from what cannot be had: a server that answers anything
but 404 to a name does not say that nothing is there.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.sources.absent import is_absent
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.tree import Page

_TOGETHER = 16


class UnlistedTree:
    """Objects below an HTTP URL."""

    def __init__(self, url: str, options: Mapping[str, Any] | None) -> None:
        if "?" in url or "#" in url:
            raise UnsupportedError("a URL with a query names one object, not those below it", url=url)
        self._options = options
        self.url = f"{url.rstrip('/')}/"
        self.requests = 0
        self.bytes_read = 0

    def pages(self) -> Iterator[Page]:
        """Refuse: there is no listing."""
        raise UnsupportedError("HTTP has no listing", url=self.url)

    def read(self, keys: Sequence[str], stop: int) -> list[bytes]:
        """Return the first `stop` bytes of each object; an absent one is an error."""
        found = self.find(keys, stop)
        for key, data in zip(keys, found, strict=True):
            if data is None:
                raise JnrrdzError("not found", url=self.url + key)
        return [data for data in found if data is not None]

    def find(self, keys: Sequence[str], stop: int) -> list[bytes | None]:
        """Return the first `stop` bytes of each object, None for those that are not there."""
        with ThreadPoolExecutor(_TOGETHER) as threads:
            found = list(threads.map(lambda key: self._found(key, stop), keys))
        self.requests += len(found)
        self.bytes_read += sum(len(data) for data in found if data is not None)
        return found

    def _found(self, key: str, stop: int) -> bytes | None:
        source = open_source(self.url + key, storage_options=self._options)
        try:
            return source.read([(0, stop)])[0]
        except JnrrdzError as error:
            if is_absent(error):
                return None
            raise
        finally:
            source.close()
