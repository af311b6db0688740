"""Rational polynomial coefficients: the tag RPCCoefficientTag, and the same as GDAL's text items.

May touch errors only.  92 doubles: two errors, five offsets, five scales, four polynomials of 20.
Spec: http://geotiff.maptools.org/rpc_prop.html
"""

import math
from collections.abc import Mapping, Sequence

from jnrrdz.errors import MalformedError

type Rpc = dict[str, float | list[float]]
"""GDAL's item names to numbers."""

SINGLE = (
    "ERR_BIAS",
    "ERR_RAND",
    "LINE_OFF",
    "SAMP_OFF",
    "LAT_OFF",
    "LONG_OFF",
    "HEIGHT_OFF",
    "LINE_SCALE",
    "SAMP_SCALE",
    "LAT_SCALE",
    "LONG_SCALE",
    "HEIGHT_SCALE",
)
"""The first numbers of the tag, in its order."""

POLYNOMIALS = ("LINE_NUM_COEFF", "LINE_DEN_COEFF", "SAMP_NUM_COEFF", "SAMP_DEN_COEFF")
TERMS = 20
COUNT = len(SINGLE) + TERMS * len(POLYNOMIALS)
OPTIONAL = {"ERR_BIAS", "ERR_RAND"}
FIELD = "RPCCoefficientTag"


def rpc_from_tag(values: Sequence[float]) -> Rpc:
    """Return the coefficients that the tag holds."""
    if len(values) != COUNT:
        raise MalformedError(f"{len(values)} numbers where {COUNT} belong", field=FIELD)
    if not all(map(math.isfinite, values)):
        raise MalformedError("a coefficient that is no finite number", field=FIELD)
    found: Rpc = dict(zip(SINGLE, map(float, values), strict=False))
    for index, name in enumerate(POLYNOMIALS):
        start = len(SINGLE) + index * TERMS
        found[name] = [float(number) for number in values[start : start + TERMS]]
    return found


def rpc_from_items(items: Mapping[str, str]) -> Rpc:
    """Return the coefficients of GDAL's metadata domain `RPC`."""
    found: Rpc = {}
    for name in (*SINGLE, *POLYNOMIALS):
        count = TERMS if name in POLYNOMIALS else 1
        if name not in items and name in OPTIONAL:
            continue
        numbers = _numbers(name, items.get(name, ""), count)
        found[name] = numbers if name in POLYNOMIALS else numbers[0]
    return found


def _numbers(name: str, text: str, count: int) -> list[float]:
    try:
        numbers = [float(part) for part in text.split()]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise MalformedError(f"{text[:80]!r} is not {count} numbers", field=f"RPC item {name}")
    return numbers
