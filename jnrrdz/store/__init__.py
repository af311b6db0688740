"""References as a zarr store."""

from typing import TYPE_CHECKING

from jnrrdz.lazy import modules

if TYPE_CHECKING:
    from jnrrdz.store import computed_levels, group, opened, xarray

__all__ = ["computed_levels", "group", "opened", "xarray"]

__getattr__ = modules(__name__, __all__)
