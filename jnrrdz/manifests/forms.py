"""The forms of manifests, and which of them an output's name asks for.

May touch errors, the model and where sources are; the writer of a form is imported when it is asked for.
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

from jnrrdz.core.arrays import VirtualGroup
from jnrrdz.errors import UnsupportedError
from jnrrdz.manifests.place import shareable

FORMATS = {"json": "json", "parquet": "parquet", "icechunk": "icechunk"}
ENDINGS = {".parquet": "parquet", ".parq": "parquet", ".icechunk": "icechunk"}


def format_of(out: str) -> str:
    """Return the manifest format that an output's name asks for."""
    return next((name for ending, name in ENDINGS.items() if out.rstrip("/").endswith(ending)), "json")


def write_form(  # noqa: PLR0913  the writers' common signature
    group: VirtualGroup,
    target: str,
    form: str | None = None,
    *,
    single_range: bool = False,
    relative: bool = False,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a virtual group as a manifest, whole or not at all."""
    name = form or format_of(target)
    if name not in FORMATS:
        raise UnsupportedError(f"manifest format {name!r}; there are {', '.join(FORMATS)}", url=target)
    module = import_module(f"jnrrdz.manifests.{FORMATS[name]}")
    origin = {**group.origin, "single_range": True} if single_range and group.origin else group.origin
    module.write(
        shareable(replace(group, origin=origin)),
        target,
        single_range=single_range,
        relative=relative,
        overwrite=overwrite,
        storage_options=storage_options,
    )
