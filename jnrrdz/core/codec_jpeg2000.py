"""The configuration of the codec `jpeg2000`, spelt once.

May touch errors and `codec` only.  Written as docs/codecs/jpeg2000/README.md says.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jnrrdz.core.codec import CodecSpec
from jnrrdz.errors import MalformedError

JPEG2000 = "jpeg2000"
MAX_LEVEL = 32
MAX_TILE = 65534
MAX_COMPONENT = 16383
MAX_LIST = 1 << 21


@dataclass(frozen=True)
class Jpeg2000Config:
    """What a codestream's main header says and its tile-parts do not, and what of the image is wanted."""

    main_header: bytes
    """From SOC to before the first SOT; pointers (TLM, PLM) may be left out."""

    resolution_level: int = 0
    """How many times the image is halved."""

    components: tuple[int, ...] = ()
    """The components that a chunk holds, in its order; all of them where none is named."""

    tile_parts: tuple[int, ...] = ()
    """The tile of every tile-part in the order of the file: needed where the main header has PPM."""

    palette: bytes | None = None
    """Red, green and blue of each value in turn, where colours are read in place of indices."""

    upsample: bool = False
    """Whether components with fewer samples than the finest are repeated to its grid."""

    sycc_to_rgb: bool = False
    """Whether Y, Cb and Cr, brought to one grid, are turned into red, green and blue."""

    def to_spec(self) -> CodecSpec:
        """Return the codec's entry in zarr.json, without what is at its default."""
        found: dict[str, Any] = {
            "main_header": base64.b64encode(self.main_header).decode("ascii"),
            "resolution_level": self.resolution_level,
        }
        if self.components:
            found["components"] = list(self.components)
        if self.tile_parts:
            found["tile_parts"] = list(self.tile_parts)
        if self.palette is not None:
            found["palette"] = base64.b64encode(self.palette).decode("ascii")
        found |= {name: True for name in ("upsample", "sycc_to_rgb") if getattr(self, name)}
        return CodecSpec(JPEG2000, found)

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> "Jpeg2000Config":
        """Return the checked configuration; every problem is reported, with its member."""
        problems = [f"unknown member {name!r}" for name in configuration if name not in CHECKS]
        if "main_header" not in configuration:
            problems.append("main_header is missing")
        values = {name: CHECKS[name](name, value, problems) for name, value in configuration.items() if name in CHECKS}
        if problems:
            raise MalformedError("; ".join(problems), field=JPEG2000)
        return cls(**values)


def _bytes(name: str, value: Any, problems: list[str]) -> bytes:
    try:
        found = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        found = b""
    if not found:
        problems.append(f"{name} is not base64 of one byte or more")
    return found


def _flag(name: str, value: Any, problems: list[str]) -> bool:
    if not isinstance(value, bool):
        problems.append(f"{name} {value!r} is neither true nor false")
    return value is True


def _level(name: str, value: Any, problems: list[str]) -> int:
    if not _is_whole(value, MAX_LEVEL):
        problems.append(f"{name} {value!r} is no number from 0 to {MAX_LEVEL}")
        return 0
    return int(value)


def _components(name: str, value: Any, problems: list[str]) -> tuple[int, ...]:
    found = _numbers(name, value, MAX_COMPONENT, problems)
    if len(set(found)) != len(found):
        problems.append(f"{name} names a component twice")
    return found


def _tiles(name: str, value: Any, problems: list[str]) -> tuple[int, ...]:
    return _numbers(name, value, MAX_TILE, problems)


def _numbers(name: str, value: Any, largest: int, problems: list[str]) -> tuple[int, ...]:
    is_fit = isinstance(value, list) and len(value) in range(1, MAX_LIST + 1)
    if not is_fit or not all(_is_whole(one, largest) for one in value):
        problems.append(f"{name} is not a list of one or more numbers from 0 to {largest}")
        return ()
    return tuple(value)


def _is_whole(value: Any, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest


CHECKS: Mapping[str, Callable[[str, Any, list[str]], Any]] = {
    "main_header": _bytes,
    "resolution_level": _level,
    "components": _components,
    "tile_parts": _tiles,
    "palette": _bytes,
    "upsample": _flag,
    "sycc_to_rgb": _flag,
}
"""Every member, and what checks it."""
