"""The configuration of the codec `jnrrdz.jpeg2000-window`, spelt once.

May touch errors, `codec` and the configuration of `jpeg2000`, whose members it shares.  Written as
docs/codecs/jnrrdz.jpeg2000-window/README.md says.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jnrrdz.core.codec import CodecSpec
from jnrrdz.core.codec_jpeg2000 import CHECKS
from jnrrdz.errors import MalformedError

JPEG2000_WINDOW = "jnrrdz.jpeg2000-window"
MEMBERS = ("main_header", "resolution_level", "palette")


@dataclass(frozen=True)
class Jpeg2000WindowConfig:
    """What is the same for every window; tile and place in it stand in the chunk's own bytes."""

    main_header: bytes
    """From SOC to before the first SOT; pointers (TLM, PLM) may be left out."""

    resolution_level: int = 0
    """How many times the image is halved."""

    palette: bytes | None = None
    """Red, green and blue of each value in turn, where colours are read in place of indices."""

    def to_spec(self) -> CodecSpec:
        """Return the codec's entry in zarr.json, without what is at its default."""
        found: dict[str, Any] = {
            "main_header": base64.b64encode(self.main_header).decode("ascii"),
            "resolution_level": self.resolution_level,
        }
        if self.palette is not None:
            found["palette"] = base64.b64encode(self.palette).decode("ascii")
        return CodecSpec(JPEG2000_WINDOW, found)

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> "Jpeg2000WindowConfig":
        """Return the checked configuration; every problem is reported, with its member."""
        problems = [f"unknown member {name!r}" for name in configuration if name not in MEMBERS]
        if "main_header" not in configuration:
            problems.append("main_header is missing")
        values = {name: CHECKS[name](name, configuration[name], problems) for name in MEMBERS if name in configuration}
        if problems:
            raise MalformedError("; ".join(problems), field=JPEG2000_WINDOW)
        return cls(**values)
