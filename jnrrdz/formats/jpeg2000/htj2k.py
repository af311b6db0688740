"""Reversible HTJ2K through OpenJPH, which takes a third of OpenJPEG's time.

May touch numpy, imagecodecs and the layouts of JPEG 2000; pure.  OpenJPH lets samples that leave
their range wrap around, which they do at every reduced resolution; OpenJPEG clips them.  So it is
told of signed samples with bits to spare, for which it shifts and clips nothing, and both is done here.
Spec: ITU-T T.814; T.800, G.1 (DC level shift)
"""

from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.formats.jpeg2000.jpeg2000_header import HT_BIT
from jnrrdz.formats.jpeg2000.jpeg2000_markers import Marker, Segment, parse_cod
from jnrrdz.formats.jpeg2000.jpeg2000_siz import Component

SPARE = 3
"""Bits by which samples may leave their range: the wavelet's gain, and that of the colour transform."""

WIDTHS = (16, 24)
"""Bits to declare: imagecodecs gives two bytes a sample for the first, four for the second."""


def spare_bits(header: bytes, found: list[Segment], component: Component) -> int | None:
    """Return as how many bits samples are to be declared to OpenJPH; None where it is not to decode them."""
    by_marker = {one.marker: header[one.start : one.stop] for one in found}
    if Marker.CAP not in by_marker or Marker.COD not in by_marker:
        return None
    is_ht = bool(int.from_bytes(by_marker[Marker.CAP][4:8], "big") & HT_BIT)
    # irreversible samples are rounded, and each library has its own way
    if not is_ht or not parse_cod(by_marker[Marker.COD]).reversible:
        return None
    return next((width for width in WIDTHS if component.bits + SPARE <= width), None)


def decode_wide(stream: bytes, level: int, component: Component) -> NDArray[Any]:
    """Return the components of a codestream declared with spare bits, in the range that `component` has."""
    samples: NDArray[Any] = np.asarray(imagecodecs.htj2k_decode(stream, planar=True, skipres=level))
    half = 1 << (component.bits - 1)
    if component.signed:
        return np.clip(samples, -half, half - 1, out=samples)
    np.add(samples, half, out=samples)
    return np.clip(samples, 0, 2 * half - 1, out=samples)
