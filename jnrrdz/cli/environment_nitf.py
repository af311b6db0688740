"""Which ways of a NITF to compress an image this environment has decoders for.

May touch imagecodecs, and what looks for libopenjp2.  A decoder counts as there if the library that
would be called says so, not because its name is known.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import imagecodecs

from jnrrdz.core.codec_nitf import JPEG
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.jpeg2000 import openjp2

type Json = dict[str, Any]

UNKNOWN = "no decoder is known"
UPGRADE = "pip install -U imagecodecs"


class Scheme(NamedTuple):
    """What one value of IC, or several alike, means, and what decodes it."""

    name: str
    meaning: str
    decoder: str | None
    """The decoder of imagecodecs, empty for numpy, None where nobody here has one."""


SCHEMES = (
    Scheme("NC, NM", "not compressed", ""),
    Scheme("NC, NM packed", "samples that are no whole bytes", "PACKINTS"),
    Scheme("C1, M1", "facsimile (CCITT T.4)", "CCITTFAX3"),
    Scheme("C3, M3, I1", "JPEG", "JPEG8"),
    Scheme("C4, M4", "vector quantisation", ""),
    Scheme("C5, M5", "lossless JPEG", "LJPEG"),
    Scheme("C8, M8", "JPEG 2000", "JPEG2K"),
    Scheme("CD, MD", "JPEG 2000 with the HT coder", "JPEG2K"),
    Scheme("C6, M6", "correlated multicomponent compression", None),
    Scheme("C7, M7", "SAR complex compression", None),
)
"""The values of IC, in the standard's order."""

MIXED = "C8, M8, CD, MD mixed"


def nitf_compressions() -> Iterator[Json]:
    """Yield what each value of IC needs, and whether it is there."""
    for scheme in SCHEMES:
        decoder, reason = _decoder(scheme.decoder)
        yield _row(scheme.name, scheme.meaning, decoder, reason)
    yield _mixed()


def _row(name: str, meaning: str, decoder: str | None, reason: str | None) -> Json:
    return {"name": name, "meaning": meaning, "readable": reason is None, "decoder": decoder, "reason": reason}


def _decoder(name: str | None) -> tuple[str | None, str | None]:
    """Return what decodes, and why it cannot (None if it can)."""
    if name is None:
        return None, UNKNOWN
    if not name:
        return "numpy", None
    if getattr(imagecodecs, name).available:
        return f"imagecodecs {name}", None
    return None, f"this build of imagecodecs has no {name}; one that has it: {UPGRADE}"


def _mixed() -> Json:
    """Return whether components that differ can be read: libopenjp2 does that, which pip does not install."""
    reason: str | None = openjp2.INSTALL
    with suppress(UnsupportedError):
        openjp2.binding()
        reason = None
    meaning = "JPEG 2000 whose components differ in precision, sign or size"
    return _row(MIXED, meaning, None if reason else "libopenjp2 (glymur)", reason)


def jpeg_reason(name: str) -> str | None:
    """Return why the codec of JPEG blocks cannot decode here, None if it can or is another codec."""
    return _decoder("JPEG8")[1] if name == JPEG else None
