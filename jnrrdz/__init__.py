"""Archival imagery as Zarr, without copying a byte of it."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from jnrrdz.errors import (
    DriftError,
    JnrrdzError,
    MalformedError,
    UnrepresentableError,
    UnsupportedError,
    UntrustedSourceError,
)

if TYPE_CHECKING:
    from jnrrdz.api import index, open_dataset, open_datatree, open_group, open_store, scan, write
    from jnrrdz.parser import Parser

__version__ = version("jnrrdz")

__all__ = [
    "DriftError",
    "JnrrdzError",
    "MalformedError",
    "Parser",
    "UnrepresentableError",
    "UnsupportedError",
    "UntrustedSourceError",
    "index",
    "open_dataset",
    "open_datatree",
    "open_group",
    "open_store",
    "scan",
    "write",
]


def __getattr__(name: str) -> Any:
    """Load what is asked for: a command that only prints its help should not import xarray."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("jnrrdz.parser" if name == "Parser" else "jnrrdz.api"), name)
