"""Archival imagery as Zarr, without copying a byte of it."""

from importlib import import_module as _import
from typing import TYPE_CHECKING, Any

from jnrrdz.errors import (
    DriftError,
    DriftWarning,
    ImageChoiceWarning,
    JnrrdzError,
    MalformedError,
    NoImageError,
    ScaleWarning,
    UnrepresentableError,
    UnsupportedError,
    UntrustedSourceError,
    UntrustedSourceWarning,
)

if TYPE_CHECKING:
    from jnrrdz.api import Indexed, index, open_dataset, open_datatree, open_group, open_store, scan, write
    from jnrrdz.batches.item import Outcome
    from jnrrdz.batches.run import Batch, batch
    from jnrrdz.batches.selection import Selection
    from jnrrdz.commands.convert import convert
    from jnrrdz.commands.cube import CubeMade, cube
    from jnrrdz.commands.info import info
    from jnrrdz.commands.merge import Merged, merge
    from jnrrdz.commands.preview import Picture, preview
    from jnrrdz.commands.refresh import Refreshed, refresh
    from jnrrdz.commands.stac import stac_item
    from jnrrdz.commands.tile import Tiled, tile
    from jnrrdz.commands.verification import Finding, Verification
    from jnrrdz.commands.verify import verify
    from jnrrdz.core.arrays import SourceRecord, VirtualArray
    from jnrrdz.core.tree import VirtualGroup
    from jnrrdz.parser import Parser
    from jnrrdz.server.app import make_app
    from jnrrdz.server.running import Server, serve
    from jnrrdz.store.store import ReferenceStore

    __version__: str

_HOMES = {
    "api": "Indexed index open_dataset open_datatree open_group open_store scan write",
    "batches.item": "Outcome",
    "batches.run": "Batch batch",
    "batches.selection": "Selection",
    "commands.convert": "convert",
    "commands.cube": "CubeMade cube",
    "commands.info": "info",
    "commands.merge": "Merged merge",
    "commands.preview": "Picture preview",
    "commands.refresh": "Refreshed refresh",
    "commands.stac": "stac_item",
    "commands.tile": "Tiled tile",
    "commands.verification": "Finding Verification",
    "commands.verify": "verify",
    "core.arrays": "SourceRecord VirtualArray",
    "core.tree": "VirtualGroup",
    "parser": "Parser",
    "server.app": "make_app",
    "server.running": "Server serve",
    "store.store": "ReferenceStore",
}
"""The modules of what is imported when it is first asked for: a command that only prints its help needs no xarray."""

__all__ = [
    "Batch",
    "CubeMade",
    "DriftError",
    "DriftWarning",
    "Finding",
    "ImageChoiceWarning",
    "Indexed",
    "JnrrdzError",
    "MalformedError",
    "Merged",
    "NoImageError",
    "Outcome",
    "Parser",
    "Picture",
    "ReferenceStore",
    "Refreshed",
    "ScaleWarning",
    "Selection",
    "Server",
    "SourceRecord",
    "Tiled",
    "UnrepresentableError",
    "UnsupportedError",
    "UntrustedSourceError",
    "UntrustedSourceWarning",
    "Verification",
    "VirtualArray",
    "VirtualGroup",
    "batch",
    "convert",
    "cube",
    "index",
    "info",
    "make_app",
    "merge",
    "open_dataset",
    "open_datatree",
    "open_group",
    "open_store",
    "preview",
    "refresh",
    "scan",
    "serve",
    "stac_item",
    "tile",
    "verify",
    "write",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415  a third of the time that the command line starts in

        return version("jnrrdz")
    for module, names in _HOMES.items():
        if name in names.split():
            globals()[name] = value = getattr(_import(f"jnrrdz.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
