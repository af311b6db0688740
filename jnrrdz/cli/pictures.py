"""Pictures in a terminal that shows some: kitty's graphics protocol, iTerm2's inline images, or sixels.

- https://sw.kovidgoyal.net/kitty/graphics-protocol/
- https://iterm2.com/documentation-images.html
- DEC STD 070, chapter 9: six rows at once, each byte 63 + their bits
"""

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

PIECE = 4096
"""Characters of base64 that one of kitty's commands may have."""

STEPS = 6
"""Shades of each colour in a sixel picture: 216 colours, where terminals have at least 256."""

BAND = 6
"""Rows of a sixel."""

KITTY = ("ghostty", "kitty")
ITERM = ("iterm.app", "wezterm", "mintty", "rio", "warpterminal")
SIXEL = ("foot", "mlterm", "contour", "yaft", "sixel")


def protocol(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return how a terminal shows pictures, by what it says of itself: `kitty`, `iterm` or `sixel`; None if not at all.

    Inside of screen or tmux none is: they would print the picture as text.
    """
    if environment.get("TMUX") or environment.get("STY"):
        return None
    names = (environment.get("TERM", "").lower(), environment.get("TERM_PROGRAM", "").lower())
    if "KITTY_WINDOW_ID" in environment or any(word in name for word in KITTY for name in names):
        return "kitty"
    if environment.get("LC_TERMINAL", "").lower() == "iterm2" or any(name in ITERM for name in names):
        return "iterm"
    return "sixel" if any(word in name for word in SIXEL for name in names) else None


def shown(how: str, png: bytes, rgba: NDArray[np.uint8]) -> str:
    """Return what a terminal shows as a picture."""
    if how == "kitty":
        return "".join(_kitty(b64encode(png).decode()))
    if how == "iterm":
        return f"\x1b]1337;File=inline=1;size={len(png)}:{b64encode(png).decode()}\x07"
    return "".join(_sixels(rgba))


def _kitty(text: str) -> Iterator[str]:
    for first in range(0, len(text), PIECE):
        keys = "a=T,f=100," if first == 0 else ""
        yield f"\x1b_G{keys}m={int(first + PIECE < len(text))};{text[first : first + PIECE]}\x1b\\"


def _sixels(rgba: NDArray[np.uint8]) -> Iterator[str]:
    """Yield a picture in six rows at a time, one colour after the other; transparent pixels are not drawn."""
    height, width, _ = rgba.shape
    shades = (rgba[..., :3].astype(np.int32) * (STEPS - 1) + 127) // 255
    colours = shades @ np.array([STEPS * STEPS, STEPS, 1])
    colours[rgba[..., 3] < 128] = -1  # noqa: PLR2004  more transparent than not
    yield f'\x1bP0;1q"1;1;{width};{height}'
    for colour in np.unique(colours[colours >= 0]).tolist():
        parts = (colour // STEPS // STEPS, colour // STEPS % STEPS, colour % STEPS)
        yield f"#{colour};2;" + ";".join(str(part * 100 // (STEPS - 1)) for part in parts)
    for top in range(0, height, BAND):
        band = colours[top : top + BAND]
        weights = 1 << np.arange(len(band))
        for colour in np.unique(band[band >= 0]).tolist():
            bits = weights @ (band == colour)
            yield f"#{colour}{_runs((bits + 63).astype(np.uint8))}$"
        yield "-"
    yield "\x1b\\"


def _runs(codes: NDArray[np.uint8]) -> str:
    """Return the bytes of a row, repeated ones by their number."""
    ends = np.append(np.flatnonzero(np.diff(codes)), len(codes) - 1)
    lengths = np.diff(np.append(-1, ends))
    return "".join(f"!{length}{chr(codes[end])}" for length, end in zip(lengths.tolist(), ends.tolist(), strict=True))
