"""fsspec's file systems, one for all threads.

fsspec keeps an instance for each thread that asks, and with it connections of its own and, for S3, a client that
takes a tenth of a second to make.  All of jnrrdz's requests run on fsspec's one event loop, so that one instance a
process serves every thread.

fsspec asks every installed package for file systems when it is imported, which costs as much as numpy.  A local file
needs none of it: `LOCAL` stands for fsspec's file system of this machine, and imports it when it is asked for more
than a path.  docs/decisions/034-imports-where-they-are-met.md
"""

import os
import re
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jnrrdz.lazy import library
from jnrrdz.sources import url as urls

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    import fsspec
    from fsspec import asyn
else:
    # see the module
    fsspec, asyn = library("fsspec"), library("fsspec.asyn")

_S3 = ("s3", "s3a")
_AWS = tuple(
    f"AWS_{name}"
    for name in (
        "ACCESS_KEY_ID",
        "SECRET_ACCESS_KEY",
        "SESSION_TOKEN",
        "PROFILE",
        "DEFAULT_PROFILE",
        "REGION",
        "DEFAULT_REGION",
        "ENDPOINT_URL",
        "ENDPOINT_URL_S3",
        "CONFIG_FILE",
        "SHARED_CREDENTIALS_FILE",
        "CA_BUNDLE",
        "ROLE_ARN",
        "WEB_IDENTITY_TOKEN_FILE",
        "CONTAINER_CREDENTIALS_FULL_URI",
        "CONTAINER_CREDENTIALS_RELATIVE_URI",
    )
)
"""What tells a client where to ask and as whom; to look through the whole environment takes a while."""

_PLAIN_PATH = re.compile(r"/(?!.*::).*|[^:~\\]+", re.DOTALL)
"""A path that no protocol, chain, home or drive has a part in."""

_LOCK = threading.RLock()
_KEPT: dict[object, Any] = {}


class _Local:
    """fsspec's file system of this machine."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what pickle and copy ask for
            raise AttributeError(name)

        return getattr(fsspec.filesystem("file"), name)


LOCAL = _Local()


def is_local(fs: Any) -> bool:
    """Whether a file system is this machine's."""
    local = sys.modules.get("fsspec.implementations.local")
    return isinstance(fs, _Local) or (local is not None and isinstance(fs, local.LocalFileSystem))


def loop() -> "AbstractEventLoop":
    """Return fsspec's event loop, on which its sessions live."""
    running: AbstractEventLoop = asyn.get_loop()
    return running


def of(protocol: str, options: Mapping[str, Any]) -> Any:
    """Return the file system of a protocol with these options."""
    # fsspec's own cache knows neither threads other than its own nor what AWS_* variables say now
    options = without_loop(options)
    fresh = {**options, "skip_instance_cache": True}
    if options.get("skip_instance_cache"):
        return fsspec.filesystem(protocol, **fresh)
    environment = tuple(map(os.environ.get, _AWS)) if protocol in _S3 else ()
    token: object = os.getpid(), protocol, environment, tuple(options.items())
    if any(type(value) is not str for value in options.values()):
        token = fsspec.utils.tokenize(token, **options)
    with _LOCK:
        if token not in _KEPT:
            _KEPT[token] = fsspec.filesystem(protocol, **fresh)
        return _KEPT[token]


def without_loop(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options that leave us on fsspec's own loop: `asynchronous` or `loop` would tie us to another."""
    return {name: value for name, value in options.items() if name not in {"asynchronous", "loop"}}


def opened(url: str, options: Mapping[str, Any] | None) -> tuple[Any, str]:
    """Return the file system that a URL needs, and the path in it."""
    own = without_loop(options or {})
    if not own and os.sep == "/" and _PLAIN_PATH.fullmatch(url):
        path = url if url.startswith("/") else f"{os.getcwd()}/{'' if url == '.' else url.removeprefix('./')}"  # noqa: PTH109  as fsspec has it
        return LOCAL, path.rstrip("/") or "/"
    where = urls.parse(url)
    # of S3 there is no more in a URL than bucket, key and version
    if where.scheme == "s3" and not where.is_chained and "?" not in url:
        fs = of(where.scheme, own)
        if isinstance(fs, asyn.AsyncFileSystem):
            return fs, where.object_path.rstrip("/")
    protocol = fsspec.core.split_protocol(url)[0] or "file"
    kind = None if where.is_chained else fsspec.get_filesystem_class(protocol)
    # how fsspec itself reads a host, a project or a version out of a URL
    says_more = kind is not None and kind._get_kwargs_from_urls(url)  # noqa: SLF001
    if kind is None or not issubclass(kind, asyn.AsyncFileSystem) or says_more:
        fs, path = fsspec.core.url_to_fs(url, **own)
        return fs, str(path)
    return of(protocol, own), str(kind._strip_protocol(url))  # noqa: SLF001  the same
