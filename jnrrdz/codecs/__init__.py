"""Zarr's codec classes for everything that jnrrdz emits or reads, each imported when it is asked for.

zarr finds them by their entry points; import them from here to make arrays with them yourself.  `tiff_header` makes
what `OffsetCodec` and `PadCodec` put before a chunk so that it is a TIFF file.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jnrrdz.codecs.osml import OsmlBlocksCodec, OsmlTiffTileCodec, OsmlUnreadCodec
    from jnrrdz.codecs.steps import (
        LinearCodec,
        Lz4Codec,
        N5DefaultCodec,
        OffsetCodec,
        PadCodec,
        ReshapeCodec,
        SqueezeCodec,
    )
    from jnrrdz.codecs.tiles import (
        JbpBlockCodec,
        JbpJpegCodec,
        JnrrdTileCodec,
        Jpeg2000Codec,
        Jpeg2000WindowCodec,
        NitfVqCodec,
        TiffTileCodec,
    )
    from jnrrdz.formats.tiff.header import TiffHeader, tiff_header

__all__ = [
    "JbpBlockCodec",
    "JbpJpegCodec",
    "JnrrdTileCodec",
    "Jpeg2000Codec",
    "Jpeg2000WindowCodec",
    "LinearCodec",
    "Lz4Codec",
    "N5DefaultCodec",
    "NitfVqCodec",
    "OffsetCodec",
    "OsmlBlocksCodec",
    "OsmlTiffTileCodec",
    "OsmlUnreadCodec",
    "PadCodec",
    "ReshapeCodec",
    "SqueezeCodec",
    "TiffHeader",
    "TiffTileCodec",
    "tiff_header",
]

_MODULES = {
    "jnrrdz.codecs.osml": ("OsmlBlocksCodec", "OsmlTiffTileCodec", "OsmlUnreadCodec"),
    "jnrrdz.codecs.steps": (
        "LinearCodec",
        "Lz4Codec",
        "N5DefaultCodec",
        "OffsetCodec",
        "PadCodec",
        "ReshapeCodec",
        "SqueezeCodec",
    ),
    "jnrrdz.formats.tiff.header": ("TiffHeader", "tiff_header"),
}
"""Where those are that are not in `tiles`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    module = next((module for module, names in _MODULES.items() if name in names), "jnrrdz.codecs.tiles")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
