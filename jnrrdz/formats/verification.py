"""An array of a manifest as the checks of a format read it (`Format.verify_tables`)."""

from collections.abc import Callable, Mapping
from typing import Any

from jnrrdz.core.refs import ByteRange
from jnrrdz.records import record


@record(eq=False)
class StoredArray:
    """The metadata of an array, and its chunks as they are stored."""

    document: Mapping[str, Any]
    """The array's metadata document."""

    grid: tuple[int, ...]
    """Chunks along each axis."""

    ranges: Callable[[int], list[ByteRange]]
    """Returns the ranges of the chunk of a number, without those of sources that cannot be read."""

    read: Callable[[int], bytes | None]
    """Returns the stored bytes of the chunk of a number; None where it is missing."""
