"""The CRS that most files name by a code, as PROJ describes them: PROJJSON, WKT2:2019 and CF's attributes without PROJ.

Loading PROJ and asking its database takes a third of what indexing a small file does.  `python -m
jnrrdz.core.crs_table` makes the table anew of the PROJ that is installed, and prints which of its texts changed;
`tests/core/test_crs_table.py` compares every CRS with that PROJ.  The definitions are of the EPSG dataset
(https://epsg.org), whose version the table's first line has.  docs/decisions/034-imports-where-they-are-met.md
"""

import json
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jnrrdz.lazy import library

if TYPE_CHECKING:
    import pyproj
else:
    pyproj = library("pyproj")  # the table spares it


TABLE = Path(__file__).with_name("crs_table.zlib")

CODES = (
    *(2154, 3031, 3034, 3035, 3413, 3857, 4258, 4269, 4326, 5070, 6933, 27700),
    *range(25828, 25839),  # ETRS89 / UTM
    *range(26901, 26924),  # NAD83 / UTM
    *range(32601, 32661),  # WGS 84 / UTM north
    *range(32701, 32761),  # WGS 84 / UTM south
)
"""EPSG's numbers of the CRS in the table."""


class CrsEntry(NamedTuple):
    """A CRS as PROJ describes it."""

    node: dict[str, Any]
    """PROJJSON."""
    wkt: str
    cf: dict[str, Any]
    """The attributes of CF's grid mapping but `crs_wkt`."""

    @property
    def is_north_first(self) -> bool:
        """Whether the northing, or the latitude, comes first."""
        return bool(self.node["coordinate_system"]["axis"][0]["direction"] == "north")


def entry(epsg: int) -> CrsEntry | None:
    """Return the CRS of a code, in objects of the caller's own; None where the table has none."""
    line = _lines().get(epsg)
    return None if line is None else CrsEntry(*json.loads(line))


def entry_of(code: str | None, wkt: str) -> CrsEntry | None:
    """Return the CRS of a code such as `EPSG:32633` where the table has it with that very WKT."""
    authority, _, number = (code or "").partition(":")
    found = entry(int(number)) if authority == "EPSG" and number.isdecimal() else None
    return found if found is not None and found.wkt == wkt else None


@cache
def _lines() -> dict[int, bytes]:
    _, *lines = zlib.decompress(TABLE.read_bytes()).splitlines()
    return dict(zip(CODES, lines, strict=True))


def made() -> bytes:
    """Return the text of the table as the PROJ that is installed has it."""
    lines = [f"PROJ {pyproj.proj_version_str}, EPSG {pyproj.database.get_database_metadata('EPSG.VERSION')}"]
    for code in CODES:
        node = {name: value for name, value in pyproj.CRS.from_epsg(code).to_json_dict().items() if name != "$schema"}
        wkt = pyproj.CRS.from_json_dict(node).to_wkt(version="WKT2_2019")
        cf = {name: value for name, value in pyproj.CRS.from_wkt(wkt).to_cf().items() if name != "crs_wkt"}
        lines.append(json.dumps(CrsEntry(node, wkt, cf), separators=(",", ":")))
    return ("\n".join(lines) + "\n").encode()


if __name__ == "__main__":
    text = made()
    kept = set(zlib.decompress(TABLE.read_bytes()).splitlines()) if TABLE.exists() else set()
    for line in text.splitlines():
        if line not in kept:
            print(line.decode()[:100])  # noqa: T201  a tool that people run
    TABLE.write_bytes(zlib.compress(text, 9))
