"""What stands on scanning, reading and writing together; each module is imported where it is first used."""

from typing import TYPE_CHECKING

from jnrrdz.lazy import modules

if TYPE_CHECKING:
    from jnrrdz.commands import (
        codecs,
        convert,
        cube,
        facts,
        info,
        merge,
        preview,
        refresh,
        stac,
        stac_collection,
        tile,
        verify,
    )

__all__ = [
    "codecs",
    "convert",
    "cube",
    "facts",
    "info",
    "merge",
    "preview",
    "refresh",
    "stac",
    "stac_collection",
    "tile",
    "verify",
]

__getattr__ = modules(__name__, __all__)
