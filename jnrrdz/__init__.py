"""Archival imagery as Zarr, without copying a byte of it."""

import sys
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any

from jnrrdz.errors import (
    DriftError,
    DriftWarning,
    JnrrdzError,
    MalformedError,
    UnrepresentableError,
    UnsupportedError,
    UntrustedSourceError,
)

if TYPE_CHECKING:
    from jnrrdz.api import index, open_dataset, open_datatree, open_group, open_store, scan, write
    from jnrrdz.batches.run import batch
    from jnrrdz.commands.convert import convert
    from jnrrdz.commands.merge import merge
    from jnrrdz.commands.refresh import refresh
    from jnrrdz.commands.tile import tile
    from jnrrdz.commands.verify import verify
    from jnrrdz.options import Access, ScanOptions, WriteOptions
    from jnrrdz.parser import Parser

__version__ = version("jnrrdz")

__all__ = [
    "Access",
    "DriftError",
    "DriftWarning",
    "JnrrdzError",
    "MalformedError",
    "Parser",
    "ScanOptions",
    "UnrepresentableError",
    "UnsupportedError",
    "UntrustedSourceError",
    "WriteOptions",
    "batch",
    "convert",
    "index",
    "merge",
    "open_dataset",
    "open_datatree",
    "open_group",
    "open_store",
    "refresh",
    "scan",
    "tile",
    "verify",
    "write",
]


_HOMES = {
    "Access": "jnrrdz.options",
    "ScanOptions": "jnrrdz.options",
    "WriteOptions": "jnrrdz.options",
    "Parser": "jnrrdz.parser",
    "batch": "jnrrdz.batches.run",
    "merge": "jnrrdz.commands.merge",
    "tile": "jnrrdz.commands.tile",
    "verify": "jnrrdz.commands.verify",
    "convert": "jnrrdz.commands.convert",
    "refresh": "jnrrdz.commands.refresh",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for: a command that only prints its help should not import xarray."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "jnrrdz.api")), name)


class _Folder(ModuleType):
    """A folder that shares its name with a function of the library, and does what the function does when called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(_HOMES.get(name, "jnrrdz.api")), name)(*args, **kwargs)


class _Package(ModuleType):
    """This module, which Python binds every imported folder to: `scan` and `write` would hide their functions."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in __all__ and isinstance(value, ModuleType):
            value.__class__ = _Folder
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
