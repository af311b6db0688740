"""Rational polynomial coefficients of the extensions RPC00A and RPC00B, on the pixels of a chip.

May touch errors and the names that GeoTIFF's coefficients have.  Both extensions have the same
layout; A's polynomials have their terms in another order.  ICHIPB says which part of the full image,
at which size, a chip is.
Spec: STDI-0002 (volume 1, appendices B and E)
"""

import math
from collections.abc import Mapping
from typing import Any

from jnrrdz.errors import MalformedError
from jnrrdz.formats.nitf.nitf_tre import Tre

type Rpc = dict[str, float | list[float]]
"""GDAL's item names to numbers."""

SINGLE = (
    ("ERR_BIAS", 7),
    ("ERR_RAND", 7),
    ("LINE_OFF", 6),
    ("SAMP_OFF", 5),
    ("LAT_OFF", 8),
    ("LONG_OFF", 9),
    ("HEIGHT_OFF", 5),
    ("LINE_SCALE", 6),
    ("SAMP_SCALE", 5),
    ("LAT_SCALE", 8),
    ("LONG_SCALE", 9),
    ("HEIGHT_SCALE", 5),
)
POLYNOMIALS = ("LINE_NUM_COEFF", "LINE_DEN_COEFF", "SAMP_NUM_COEFF", "SAMP_DEN_COEFF")
TERMS = 20
TERM_BYTES = 12
LENGTH = 1 + sum(width for _, width in SINGLE) + len(POLYNOMIALS) * TERMS * TERM_BYTES

A_TO_B = (0, 1, 2, 3, 4, 5, 6, 10, 7, 8, 9, 11, 14, 17, 12, 15, 18, 13, 16, 19)
"""For each term of B, the place of the same term in A."""


def rpc_of(tre: Tre) -> Rpc | None:
    """Return the coefficients of an extension, None where it says that it has none."""
    if len(tre.data) != LENGTH:
        raise MalformedError(f"{len(tre.data)} bytes where {LENGTH} belong", field=tre.tag)
    if tre.data[:1] != b"1":
        return None
    found: Rpc = {}
    at = 1
    for name, width in SINGLE:
        found[name] = _number(tre, at, width, name)
        at += width
    for name in POLYNOMIALS:
        terms = [_number(tre, at + TERM_BYTES * term, TERM_BYTES, name) for term in range(TERMS)]
        found[name] = [terms[place] for place in A_TO_B] if tre.tag == "RPC00A" else terms
        at += TERMS * TERM_BYTES
    return found


def _number(tre: Tre, at: int, width: int, name: str) -> float:
    text = tre.data[at : at + width]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise MalformedError(f"{text!r} is no number", field=f"{tre.tag} {name}")
    return value


def rpc_at(rpc: Rpc, scale: tuple[float, float], start: tuple[float, float] = (0.0, 0.0)) -> Rpc:
    """Return the coefficients for other pixels: line and sample become `(value - start) * scale`.

    Values count from pixel corners here; the coefficients' own count from centres.
    """
    found = dict(rpc)
    for axis, factor, first in (("LINE", scale[0], start[0]), ("SAMP", scale[1], start[1])):
        offset, size = found[f"{axis}_OFF"], found[f"{axis}_SCALE"]
        if isinstance(offset, float) and isinstance(size, float):
            found[f"{axis}_OFF"] = (offset + 0.5 - first) * factor - 0.5
            found[f"{axis}_SCALE"] = size * factor
    return found


def chipped(rpc: Rpc, chip: Mapping[str, Any]) -> Rpc:
    """Return the coefficients of the full image for a chip of it, as ICHIPB describes that."""
    if chip.get("XFRM_FLG") not in {0, "00"}:
        return rpc
    scales, starts = [], []
    for axis in ("ROW", "COL"):
        last = "21" if axis == "ROW" else "12"
        op_first, op_last, fi_first, fi_last = (
            float(chip[f"{kind}_{axis}_{corner}"]) for kind in ("OP", "FI") for corner in ("11", last)
        )
        if op_last == op_first or fi_last == fi_first:
            return rpc
        scale = (op_last - op_first) / (fi_last - fi_first)
        scales.append(scale)
        starts.append(fi_first - op_first / scale)
    return rpc_at(rpc, (scales[0], scales[1]), (starts[0], starts[1]))
