"""Zarr's codec classes for everything that jnrrdz emits or reads, each imported when it is asked for.

zarr finds them by their entry points; import them from here to make arrays with them yourself.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jnrrdz.codecs.affixes import OffsetCodec, PadCodec
    from jnrrdz.codecs.linear import LinearCodec, SqueezeCodec
    from jnrrdz.codecs.n5 import Lz4Codec, N5DefaultCodec
    from jnrrdz.codecs.osml import OsmlBlocksCodec, OsmlTiffTileCodec, OsmlUnreadCodec
    from jnrrdz.codecs.tiles import (
        JbpBlockCodec,
        JnrrdTileCodec,
        Jpeg2000Codec,
        Jpeg2000WindowCodec,
        JpegCodec,
        NitfVqCodec,
        TiffTileCodec,
    )

__all__ = [
    "JbpBlockCodec",
    "JnrrdTileCodec",
    "Jpeg2000Codec",
    "Jpeg2000WindowCodec",
    "JpegCodec",
    "LinearCodec",
    "Lz4Codec",
    "N5DefaultCodec",
    "NitfVqCodec",
    "OffsetCodec",
    "OsmlBlocksCodec",
    "OsmlTiffTileCodec",
    "OsmlUnreadCodec",
    "PadCodec",
    "SqueezeCodec",
    "TiffTileCodec",
]

_MODULES = {
    "affixes": ("OffsetCodec", "PadCodec"),
    "linear": ("LinearCodec", "SqueezeCodec"),
    "n5": ("Lz4Codec", "N5DefaultCodec"),
    "osml": ("OsmlBlocksCodec", "OsmlTiffTileCodec", "OsmlUnreadCodec"),
}
"""Where the classes are that are not in `tiles`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    module = next((module for module, names in _MODULES.items() if name in names), "tiles")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
