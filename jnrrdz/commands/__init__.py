"""What stands on scanning, reading and writing together; each command is imported where it is first called."""

from typing import TYPE_CHECKING

from jnrrdz.lazy import modules

if TYPE_CHECKING:
    from jnrrdz.commands import codecs, convert, facts, info, merge, preview, stac, stac_collection

__all__ = ["codecs", "convert", "facts", "info", "merge", "preview", "stac", "stac_collection"]

__getattr__ = modules(__name__, __all__)
