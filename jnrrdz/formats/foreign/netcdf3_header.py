"""The counts in the header of a classic netCDF file, charged before VirtualiZarr believes them.

A variable of records is one chunk for each record, and the number of records is a field
of the header.

Follows https://docs.unidata.ucar.edu/netcdf-c/current/file_format_specifications.html
and, for CDF-5, https://parallel-netcdf.github.io/doc/c-reference/pnetcdf-c/CDF_002d5-file-format-specification.html
"""

from collections.abc import Callable
from dataclasses import dataclass

from jnrrdz.core.limits import Budget, Kind
from jnrrdz.errors import MalformedError

DIMENSIONS, VARIABLES, ATTRIBUTES = 10, 11, 12
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}
"""Bytes of a value of each type."""

CDF1, CDF5 = 1, 5


@dataclass
class _Cursor:
    """A place in the header; its methods read what is there and go on."""

    read: Callable[[int, int], bytes]
    size: int
    version: int
    offset: int = 4

    def _number(self, width: int) -> int:
        data = self.read(self.offset, self.offset + width)
        if len(data) < width:
            raise MalformedError("the file ends inside of its header", offset=self.offset)
        self.offset += width
        return int.from_bytes(data, signed=True)

    def tag(self) -> int:
        """Return the tag of a list, or a type."""
        return self._number(4)

    def count(self, field: str, least: int = 0) -> int:
        """Return a count, which is no more than the file has bytes."""
        start = self.offset
        value = self.length()
        if not least <= value <= self.size:
            raise MalformedError(f"{value} in a file of {self.size} bytes", offset=start, field=field)
        return value

    def length(self) -> int:
        """Return a length, of any value."""
        return self._number(8 if self.version == CDF5 else 4)

    def skip(self, nbytes: int) -> None:
        """Go past some bytes and their padding."""
        self.offset += nbytes + -nbytes % 4

    def skip_attributes(self) -> None:
        """Go past a list of attributes."""
        self.tag()
        for _ in range(self.count("attributes")):
            self.skip(self.count("name"))
            width = SIZES.get(self.tag(), 1)
            self.skip(width * self.count("attribute"))


def check_header(read: Callable[[int, int], bytes], size: int, budget: Budget) -> None:
    """Charge the chunks of all variables of records."""
    head = read(0, 4)
    cursor = _Cursor(read, size, head[3] if len(head) == 4 else 0)  # noqa: PLR2004  the magic number
    records = cursor.length()
    cursor.tag()
    lengths = []
    for _ in range(cursor.count("dimensions")):
        cursor.skip(cursor.count("name"))
        lengths.append(cursor.length())
    cursor.skip_attributes()
    cursor.tag()
    for _ in range(cursor.count("variables")):
        is_record = _skip_variable(cursor, lengths)
        if is_record and records > 0:
            budget.charge(Kind.CHUNKS, records, field="numrecs")


def _skip_variable(cursor: _Cursor, lengths: list[int]) -> bool:
    """Go past a variable, and return whether it has a value for each record."""
    cursor.skip(cursor.count("name"))
    axes = [cursor.length() for _ in range(cursor.count("ndims"))]
    cursor.skip_attributes()
    cursor.tag()
    cursor.length()
    cursor.offset += 4 if cursor.version == CDF1 else 8
    return bool(axes) and 0 <= axes[0] < len(lengths) and lengths[axes[0]] == 0
