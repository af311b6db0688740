"""Zarr's codec classes for everything that jnrrdz emits or reads, each imported when it is asked for.

zarr finds them by their entry points; import them from here to make arrays with them yourself.  `tiff_header` makes
what `OffsetCodec` and `PadCodec` put before a chunk so that it is a TIFF file.
"""

from typing import TYPE_CHECKING, Any

from jnrrdz.core.codec_table import own_records
from jnrrdz.records import resolved

if TYPE_CHECKING:  # the other classes are made from their records
    from jnrrdz.codecs.osml import OsmlBlocksCodec as OsmlBlocksCodec
    from jnrrdz.codecs.osml import OsmlTiffTileCodec as OsmlTiffTileCodec
    from jnrrdz.codecs.osml import OsmlUnreadCodec as OsmlUnreadCodec
    from jnrrdz.codecs.steps import LinearCodec as LinearCodec
    from jnrrdz.codecs.steps import Lz4Codec as Lz4Codec
    from jnrrdz.codecs.steps import N5DefaultCodec as N5DefaultCodec
    from jnrrdz.codecs.steps import OffsetCodec as OffsetCodec
    from jnrrdz.codecs.steps import PadCodec as PadCodec
    from jnrrdz.codecs.steps import ReshapeCodec as ReshapeCodec
    from jnrrdz.codecs.steps import SqueezeCodec as SqueezeCodec
    from jnrrdz.codecs.tiles import JnrrdTileCodec as JnrrdTileCodec
    from jnrrdz.formats.tiff.header import TiffHeader as TiffHeader
    from jnrrdz.formats.tiff.header import tiff_header as tiff_header

HELPERS = ("TiffHeader", "tiff_header")


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted((*HELPERS, *_classes()))
    if name in HELPERS:
        return resolved(f"jnrrdz.formats.tiff.header:{name}")
    classes = _classes()
    if name in classes:
        return resolved(classes[name])
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    return sorted({*globals(), *HELPERS, *_classes()})


def _classes() -> dict[str, str]:
    """Return where the classes are, by their names."""
    places = [record.codec_class for record in own_records().values()]
    return {place.rpartition(":")[2]: place for place in places if place is not None}
