"""References of the military grid (MGRS) to metres of UTM.

May touch errors only.  A reference names a zone, a band of latitude, a square of 100 km, and metres
in it; the letters of squares repeat, and the band says which repetition is meant.
Spec: NGA.STND.0037, https://earth-info.nga.mil/php/download.php?file=coord-grids
"""

import re
from typing import NamedTuple

from jnrrdz.errors import MalformedError

BANDS = "CDEFGHJKLMNPQRSTUVWX"
COLUMNS = ("ABCDEFGH", "JKLMNPQR", "STUVWXYZ")
"""Letters of the squares from west to east, for zones 1, 2, 3 and so on in turn."""

ROWS = "ABCDEFGHJKLMNPQRSTUV"
SQUARE = 100_000
CYCLE = len(ROWS) * SQUARE
FIELD = "IGEOLO"

LOWEST = {
    "C": 1_100_000,
    "D": 2_000_000,
    "E": 2_800_000,
    "F": 3_700_000,
    "G": 4_600_000,
    "H": 5_500_000,
    "J": 6_400_000,
    "K": 7_300_000,
    "L": 8_200_000,
    "M": 9_100_000,
    "N": 0,
    "P": 800_000,
    "Q": 1_700_000,
    "R": 2_600_000,
    "S": 3_500_000,
    "T": 4_400_000,
    "U": 5_300_000,
    "V": 6_200_000,
    "W": 7_000_000,
    "X": 7_900_000,
}
"""The least northing of each band of latitude, rounded down to a square."""

_REFERENCE = re.compile(rf"([0-9]{{2}})([{BANDS}])([A-HJ-NP-Z])([{ROWS}])([0-9]{{5}})([0-9]{{5}})")


class Utm(NamedTuple):
    """A place in a zone of UTM."""

    zone: int
    is_north: bool
    easting: float
    northing: float


def parse_mgrs(text: str) -> Utm:
    """Return the place of a reference of 15 characters."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise MalformedError(f"{text!r} is no MGRS reference of 15 characters", field=FIELD)
    zone, band, column, row = int(found[1]), found[2], found[3], found[4]
    columns = COLUMNS[(zone - 1) % len(COLUMNS)]
    if column not in columns:
        raise MalformedError(f"{text!r}: zone {zone} has no square {column}", field=FIELD)
    # the letters of rows begin five squares later in zones of even number
    shift = 5 if zone % 2 == 0 else 0
    northing = ((ROWS.index(row) - shift) % len(ROWS)) * SQUARE
    while northing < LOWEST[band]:
        northing += CYCLE
    easting = (columns.index(column) + 1) * SQUARE
    return Utm(zone, band >= "N", easting + float(found[5]), northing + float(found[6]))
