"""Marker segments of JPEG 2000 headers, and what the coding style says in them.

May touch errors and the SIZ segment; pure.
Spec: ITU-T T.800, annex A; T.801 (extensions are refused), T.814 (HTJ2K: CAP)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.jpeg2000_siz import Siz

MAX_LEVELS = 32
SHORT_INDEX = 257
"""With fewer components than this their numbers take a byte."""

BARE = range(0xFF30, 0xFF40)
"""Markers without a segment, which stand for themselves."""


class Marker(IntEnum):
    """Markers by the specification's names."""

    SOC = 0xFF4F
    CAP = 0xFF50
    SIZ = 0xFF51
    COD = 0xFF52
    COC = 0xFF53
    TLM = 0xFF55
    PLM = 0xFF57
    PLT = 0xFF58
    CPF = 0xFF59
    QCD = 0xFF5C
    QCC = 0xFF5D
    RGN = 0xFF5E
    POC = 0xFF5F
    PPM = 0xFF60
    PPT = 0xFF61
    CRG = 0xFF63
    COM = 0xFF64
    SOT = 0xFF90
    SOP = 0xFF91
    EPH = 0xFF92
    SOD = 0xFF93
    EOC = 0xFFD9


class Progression(IntEnum):
    """Orders of packets."""

    LRCP = 0
    RLCP = 1
    RPCL = 2
    PCRL = 3
    CPRL = 4


@dataclass(frozen=True)
class Segment:
    """One marker segment: its marker, and where it stands, from its marker to the end."""

    marker: int
    start: int
    stop: int


@dataclass(frozen=True)
class Style:
    """What COD says of all components."""

    progression: int
    layers: int
    color_transform: bool
    levels: int
    reversible: bool


def segments(header: bytes | memoryview, start: int = 2) -> Iterator[Segment]:
    """Yield the segments of a header from `start` on, to its end or to the first SOT, SOD or EOC."""
    at = start
    while at + 2 <= len(header):
        marker = int.from_bytes(header[at : at + 2], "big")
        if marker in {Marker.SOT, Marker.SOD, Marker.EOC}:
            return
        stop = at + 2 + (0 if marker in BARE else int.from_bytes(header[at + 2 : at + 4], "big"))
        if marker >> 8 != 0xFF or stop > len(header) or (marker not in BARE and stop < at + 4):  # noqa: PLR2004
            raise MalformedError(f"no marker segment: {bytes(header[at : at + 4]).hex(' ')}", offset=at, field="header")
        yield Segment(marker, at, stop)
        at = stop


def parse_cod(segment: bytes) -> Style:
    """Return the facts of a COD segment, its marker included."""
    if len(segment) < 14:  # noqa: PLR2004  marker, Lcod, Scod, SGcod, and SPcod up to the transformation
        raise MalformedError(f"{len(segment)} bytes, of which 14 are needed", field="COD")
    layers = int.from_bytes(segment[6:8], "big")
    return Style(segment[5], layers, bool(segment[8]), _levels(segment[9], "COD"), segment[13] == 1)


def coc_levels(segment: bytes, components: int) -> tuple[int, int]:
    """Return a COC segment's component and its decomposition levels."""
    width = 1 if components < SHORT_INDEX else 2
    if len(segment) < 6 + width:
        raise MalformedError(f"{len(segment)} bytes, of which {6 + width} are needed", field="COC")
    return int.from_bytes(segment[4 : 4 + width], "big"), _levels(segment[5 + width], "COC")


def _levels(value: int, field: str) -> int:
    if value > MAX_LEVELS:
        raise UnsupportedError(
            f"{value} decomposition levels; up to {MAX_LEVELS} are read, and no extensions of T.801", field=field
        )
    return value


def levels_of(header: bytes, found: list[Segment], siz: Siz, default: int | None) -> int | None:
    """Return the levels that every component has, by the COD and COC of a header; `default` without a COD."""
    count = len(siz.components)
    own: dict[int, int] = {}
    for one in found:
        segment = header[one.start : one.stop]
        if one.marker == Marker.COD:
            default = parse_cod(segment).levels
        elif one.marker == Marker.COC:
            component, levels = coc_levels(segment, count)
            own[component] = levels
    if default is None:
        return None
    return min(own.get(component, default) for component in range(count))
