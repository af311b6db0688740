"""What is checked in the header of a classic netCDF file before VirtualiZarr reads it.

A variable of records is one chunk for each record, and the number of records is a field
of the header: these chunks are charged to the budget.

A record has the values of all variables of records.  The header has the bytes of each
(`vsize`), which its type and dimensions determine.  The netCDF library and SciPy compute
them.  VirtualiZarr takes the field, as a signed number, so a file where both differ is
refused: its records would be read at other places.  That includes variables of 2 GiB
and more in a record of CDF-1 and CDF-2, where the field has no sign, and is 2^32 - 1
from 4 GiB on.

Follows https://docs.unidata.ucar.edu/netcdf-c/current/file_format_specifications.html
and, for CDF-5, https://parallel-netcdf.github.io/doc/c-reference/pnetcdf-c/CDF_002d5-file-format-specification.html
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jnrrdz.core.limits import Budget, Resource
from jnrrdz.errors import MalformedError, UnsupportedError

DIMENSIONS, VARIABLES, ATTRIBUTES = 10, 11, 12
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}
"""Bytes of a value of each type."""

CDF1, CDF5 = 1, 5
HEAD = 1 << 14
"""Bytes that are read at once."""


@dataclass
class _Cursor:
    """A place in the header; its methods read what is there and go on."""

    read: Callable[[int, int], bytes]
    size: int
    head: bytes
    """The first bytes of the file: mostly all of the header."""

    version: int
    offset: int = 4

    def _number(self, width: int) -> int:
        stop = self.offset + width
        data = self.head[self.offset : stop]
        if len(data) < width:
            data = self.read(self.offset, stop)
        if len(data) < width:
            raise MalformedError("the file ends inside of its header", offset=self.offset)
        self.offset = stop
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

    def name(self) -> bytes:
        """Return a name, and go past its padding."""
        length = self.count("name")
        data = self.read(self.offset, self.offset + length)
        self.skip(length)
        return data

    def skip_attributes(self) -> None:
        """Go past a list of attributes."""
        self.tag()
        for _ in range(self.count("attributes")):
            self.skip(self.count("name"))
            width = SIZES.get(self.tag(), 1)
            self.skip(width * self.count("attribute"))


@dataclass
class _Variable:
    """What the header has of a variable."""

    axes: list[int]
    width: int
    vsize: int
    offset: int
    """Where the header has `vsize`."""


def check_header(read: Callable[[int, int], bytes], size: int, budget: Budget) -> None:
    """Charge the chunks of all variables of records, and check where records are."""
    head = read(0, HEAD)
    cursor = _Cursor(read, size, head, head[3] if len(head) >= 4 else 0)  # noqa: PLR2004  the magic number
    records = cursor.length()
    lengths = _dimensions(cursor)
    cursor.skip_attributes()
    cursor.tag()
    of_records = []
    for _ in range(cursor.count("variables")):
        variable = _variable(cursor, len(lengths))
        if variable.axes and lengths[variable.axes[0]] == 0:
            of_records.append(variable)
            budget.charge(Resource.CHUNKS, max(records, 0), field="numrecs")
    # the values of one variable alone follow each other without padding, whatever `vsize` is
    if len(of_records) > 1:
        for variable in of_records:
            _check_vsize(variable, lengths)


def _dimensions(cursor: _Cursor) -> list[int]:
    """Return the lengths of the dimensions, 0 for that of records."""
    cursor.tag()
    lengths = []
    names = set()
    for _ in range(cursor.count("dimensions")):
        start = cursor.offset
        name = cursor.name()
        if name in names:  # VirtualiZarr would count the dimensions after it wrongly
            raise MalformedError("two dimensions of one name", offset=start, field="dim_list")
        names.add(name)
        lengths.append(cursor.length())
    return lengths


def _variable(cursor: _Cursor, dimensions: int) -> _Variable:
    """Return what the header has of the next variable."""
    cursor.skip(cursor.count("name"))
    start = cursor.offset
    axes = [cursor.length() for _ in range(cursor.count("ndims"))]
    for axis in axes:
        if not 0 <= axis < dimensions:
            message = f"dimension {axis} of {dimensions}"
            raise MalformedError(message, offset=start, field="dimid")
    cursor.skip_attributes()
    width = SIZES.get(cursor.tag(), 1)
    offset = cursor.offset
    vsize = cursor.length()
    cursor.offset += 4 if cursor.version == CDF1 else 8
    return _Variable(axes, width, vsize, offset)


def _check_vsize(variable: _Variable, lengths: Sequence[int]) -> None:
    """Refuse a variable of records whose `vsize` is not what its dimensions need."""
    values = math.prod(lengths[axis] for axis in variable.axes[1:])
    nbytes = values * variable.width
    padded = nbytes + -nbytes % 4
    if variable.vsize != padded:
        message = (
            f"{variable.vsize} bytes in each record, and its dimensions need {padded}; "
            "write the file again with `nccopy -k cdf5`, which computes them"
        )
        raise UnsupportedError(message, offset=variable.offset, field="vsize")
