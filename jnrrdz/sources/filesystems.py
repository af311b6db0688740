"""fsspec's file systems, one for all threads.

fsspec keeps an instance for each thread that asks, and with it connections of its own and, for S3, a client that
takes a tenth of a second to make.  All of jnrrdz's requests run on fsspec's one event loop, so that one instance a
process serves every thread.
"""

import os
import threading
from collections.abc import Mapping
from typing import Any

import fsspec
import fsspec.asyn
import fsspec.core
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import tokenize

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

_LOCK = threading.RLock()
_KEPT: dict[str, Any] = {}


def of(protocol: str, options: Mapping[str, Any]) -> Any:
    """Return the file system of a protocol with these options."""
    # fsspec's own cache knows neither threads other than its own nor what AWS_* variables say now
    options = without_loop(options)
    fresh = {**options, "skip_instance_cache": True}
    if options.get("skip_instance_cache"):
        return fsspec.filesystem(protocol, **fresh)
    environment = [os.environ.get(name) for name in _AWS] if protocol in _S3 else []
    token = tokenize(os.getpid(), protocol, environment, **options)
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
    if url.startswith("/") and "::" not in url and not own:
        if "file" not in _KEPT:
            _KEPT["file"] = fsspec.filesystem("file")
        return _KEPT["file"], str(LocalFileSystem._strip_protocol(url))  # noqa: SLF001  the same as below
    protocol = fsspec.core.split_protocol(url)[0] or "file"
    kind = None if "::" in url else fsspec.get_filesystem_class(protocol)
    # how fsspec itself reads a host or project out of a URL
    if kind is None or not issubclass(kind, fsspec.asyn.AsyncFileSystem) or kind._get_kwargs_from_urls(url):  # noqa: SLF001
        fs, path = fsspec.core.url_to_fs(url, **own)
        return fs, str(path)
    return of(protocol, own), str(kind._strip_protocol(url))  # noqa: SLF001  the same
