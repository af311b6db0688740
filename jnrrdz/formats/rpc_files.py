"""Rational polynomial coefficients (RPCs) in files next to an image, as GDAL finds and reads them.

`a.RPB` (DigitalGlobe) has assignments in a group IMAGE, `a_RPC.TXT` (GeoEye, IKONOS and others) a line for each
number. GDAL's metadata domain `RPC` has the same numbers under the same names.
Spec: http://geotiff.maptools.org/rpc_prop.html,
https://gdal.org/en/stable/user/raster_data_model.html#rpc-domain
"""

import math
import re
import warnings
from collections.abc import Mapping, Sequence

from jnrrdz.core.georeference import Rpc
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.neighbours import Neighbours, beside

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
"""The single numbers, in the order of the TIFF tag."""

POLYNOMIALS = ("LINE_NUM_COEFF", "LINE_DEN_COEFF", "SAMP_NUM_COEFF", "SAMP_DEN_COEFF")
TERMS = 20
OPTIONAL = {"ERR_BIAS", "ERR_RAND"}

RPB_NAMES = (
    "errBias",
    "errRand",
    "lineOffset",
    "sampOffset",
    "latOffset",
    "longOffset",
    "heightOffset",
    "lineScale",
    "sampScale",
    "latScale",
    "longScale",
    "heightScale",
    "lineNumCoef",
    "lineDenCoef",
    "sampNumCoef",
    "sampDenCoef",
)
"""What an RPB file calls the members of `SINGLE` and `POLYNOMIALS`."""

RPB = (".RPB", ".rpb")
RPC_TXT = ("_RPC.TXT", "_rpc.txt")
"""Endings in place of the image's; either case, since object stores and servers tell them apart."""

LARGEST = 1 << 16
"""Bytes; such a file has 3 to 5 kB."""

_ASSIGNMENT = re.compile(r"(\w+)\s*=\s*(?:\(([^()]*)\)|([^;\n(]*))")
_LINE = re.compile(r"^[ \t]*(\w+)[ \t]*:[ \t]*(\S+)", re.MULTILINE)


def parse_rpc_items(items: Mapping[str, str]) -> Rpc:
    """Return the coefficients of GDAL's metadata domain `RPC`."""
    rpc: Rpc = {}
    for name in (*SINGLE, *POLYNOMIALS):
        if name not in items and name in OPTIONAL:
            continue
        text, count = items.get(name, ""), TERMS if name in POLYNOMIALS else 1
        numbers = _finite_numbers(text)
        if numbers is None or len(numbers) != count:
            raise MalformedError(f"{text[:80]!r} is not {count} numbers", field=f"RPC item {name}")
        rpc[name] = numbers if name in POLYNOMIALS else numbers[0]
    return rpc


def _finite_numbers(text: str) -> list[float] | None:
    """Return the numbers of a text; None where a word of it is no finite number."""
    try:
        numbers = [float(word) for word in text.split()]
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def parse_rpb(text: str) -> Rpc:
    """Return the coefficients of an RPB file."""
    values = {match[1]: (match[2] or match[3] or "").replace(",", " ") for match in _ASSIGNMENT.finditer(text)}
    names = dict(zip(RPB_NAMES, (*SINGLE, *POLYNOMIALS), strict=True))
    return parse_rpc_items({gdal: values[name] for name, gdal in names.items() if name in values})


def parse_rpc_txt(text: str) -> Rpc:
    """Return the coefficients of an `_RPC.TXT`: lines such as `LINE_OFF: +004096.00 pixels`."""
    values = {match[1].upper(): match[2] for match in _LINE.finditer(text)}
    for name in POLYNOMIALS:
        terms = [values.get(f"{name}_{number}", "") for number in range(1, TERMS + 1)]
        values[name] = " ".join(terms)
    return parse_rpc_items(values)


def find_rpc(url: str, neighbours: Neighbours, endings: Sequence[str]) -> tuple[Rpc | None, list[str]]:
    """Return the coefficients in the first file with one of these endings, and why others could not be read."""
    refused: list[str] = []
    for ending in endings:
        path = beside(url, ending, replace=True)
        try:
            text = _text(neighbours, path)
            if text is not None:
                return parse_rpb(text) if ending in RPB else parse_rpc_txt(text), refused
        except JnrrdzError as error:
            warnings.warn(f"a file next to the image is left out: {error.at(url=path)}", stacklevel=3)
            refused.append(str(error))
    return None, refused


def _text(neighbours: Neighbours, url: str) -> str | None:
    read = neighbours.open(url)
    if read is None:
        return None
    if read.size > LARGEST:
        raise MalformedError(f"{read.size} bytes, no more than {LARGEST} are read")
    return read(0, read.size).decode("latin-1")
