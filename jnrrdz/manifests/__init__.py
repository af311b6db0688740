"""The forms of a manifest, each written and read."""

from typing import TYPE_CHECKING

from jnrrdz.lazy import modules

if TYPE_CHECKING:
    from jnrrdz.manifests import atomic, in_place, manifest

__all__ = ["atomic", "in_place", "manifest"]

__getattr__ = modules(__name__, __all__)
