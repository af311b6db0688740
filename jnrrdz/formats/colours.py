"""Palettes: indices become red, green and blue, and attributes that name the colours."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError

CHANNELS = 3
OPAQUE = 255
MAX_FLAGS = 256
"""Colours that CF's flags list, too."""


def palette_attributes(entries: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return colours as attributes: `color_table` with opacities, as GDAL has it, and CF's flags.

    `[[255, 0, 0, 255]]` gives the flag colour `#ff0000` of the value 0.
    """
    table = [[*map(int, entry), OPAQUE][: CHANNELS + 1] for entry in entries]
    attributes: dict[str, Any] = {"color_table": table}
    if len(table) <= MAX_FLAGS:
        colours = [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue, _ in table]
        attributes["flag_values"] = list(range(len(table)))
        attributes["flag_colors"] = " ".join(colours)
    return attributes


class Palette:
    """The colours of a codec's `palette`: red, green and blue of each value in turn."""

    def __init__(self, entries: bytes, codec: str) -> None:
        if not entries or len(entries) % CHANNELS:
            message = f"{len(entries)} bytes are no palette of red, green and blue"
            raise MalformedError(message, field=codec)
        colours = np.frombuffer(entries, np.uint8).reshape(-1, CHANNELS)
        self._table = np.ascontiguousarray(colours.T)
        self._codec = codec

    def check_chunks(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Refuse chunks that do not hold red, green and blue."""
        if shape[:-2] != (CHANNELS,) or dtype != np.uint8:
            raise MalformedError(
                f"chunks of shape {shape} and type {dtype} where a palette gives {CHANNELS} bands of uint8",
                field=self._codec,
            )

    def look_up(self, indices: NDArray[Any]) -> NDArray[np.uint8]:
        """Return the colours of indices, band by band; an index that the palette does not have is an error."""
        count = self._table.shape[1]
        largest = int(indices.max(initial=0))
        smallest = int(indices.min(initial=0)) if indices.dtype.kind == "i" else 0
        if smallest < 0 or largest >= count:
            index = smallest if smallest < 0 else largest
            message = f"index {index} into a palette of {count} colours"
            raise MalformedError(message, field=self._codec)
        colours: NDArray[np.uint8] = self._table[:, indices]
        return colours


class IndexDecoder(Protocol):
    """Decodes chunks of indices."""

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the chunk's indices."""


class ColourDecoder:
    """Decodes the chunks of one array of colours, stored as indices; safe to use from many threads."""

    def __init__(self, indices: IndexDecoder, palette: Palette) -> None:
        self._indices = indices
        self._palette = palette

    def decode(self, data: bytes | memoryview) -> NDArray[np.uint8]:
        """Return the chunk's colours, band by band."""
        return self._palette.look_up(self._indices.decode(data))
