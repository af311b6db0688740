"""How many rows the data of a facsimile hold: run-length coding (2, 32771), T.4 and T.6.

Decoders fill the rows that their data do not reach with white and do not report it.  Where the end of the data is not
plain (an end-of-page code, as many line starts as rows, codes as long as the rows need), the codes are read here.
Spec: ITU-T T.4 (https://www.itu.int/rec/T-REC-T.4), tables 2 and 3; T.6; TIFF 6.0, sections 10 and 11
"""

import re
from bisect import bisect_right
from functools import cache

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError
from jnrrdz.formats.tiff.schemes import BY_NUMBER, Compression

_WHITE = """
00110101 000111 0111 1000 1011 1100 1110 1111 10011 10100 00111 01000 001000 000011 110100 110101
101010 101011 0100111 0001100 0001000 0010111 0000011 0000100 0101000 0101011 0010011 0100100 0011000
00000010 00000011 00011010 00011011 00010010 00010011 00010100 00010101 00010110 00010111 00101000
00101001 00101010 00101011 00101100 00101101 00000100 00000101 00001010 00001011 01010010 01010011
01010100 01010101 00100100 00100101 01011000 01011001 01011010 01011011 01001010 01001011 00110010
00110011 00110100
11011 10010 010111 0110111 00110110 00110111 01100100 01100101 01101000 01100111 011001100 011001101
011010010 011010011 011010100 011010101 011010110 011010111 011011000 011011001 011011010 011011011
010011000 010011001 010011010 011000 010011011
"""
_BLACK = """
0000110111 010 11 10 011 0011 0010 00011 000101 000100 0000100 0000101 0000111 00000100 00000111
000011000 0000010111 0000011000 0000001000 00001100111 00001101000 00001101100 00000110111 00000101000
00000010111 00000011000 000011001010 000011001011 000011001100 000011001101 000001101000 000001101001
000001101010 000001101011 000011010010 000011010011 000011010100 000011010101 000011010110 000011010111
000001101100 000001101101 000011011010 000011011011 000001010100 000001010101 000001010110 000001010111
000001100100 000001100101 000001010010 000001010011 000000100100 000000110111 000000111000 000000100111
000000101000 000001011000 000001011001 000000101011 000000101100 000001011010 000001100110 000001100111
0000001111 000011001000 000011001001 000001011011 000000110011 000000110100 000000110101 0000001101100
0000001101101 0000001001010 0000001001011 0000001001100 0000001001101 0000001110010 0000001110011
0000001110100 0000001110101 0000001110110 0000001110111 0000001010010 0000001010011 0000001010100
0000001010101 0000001011010 0000001011011 0000001100100 0000001100101
"""
_LONG = """
00000001000 00000001100 00000001101 000000010010 000000010011 000000010100 000000010101 000000010110
000000010111 000000011100 000000011101 000000011110 000000011111
"""
"""Codes of runs of 0 to 63 pixels, then of 64, 128, ... 1728; of both colours those of 1792 to 2560."""

CODES = tuple((table + _LONG).split() for table in (_WHITE, _BLACK))
MAKE_UP = 64
LONGEST_RUN = 2560
LONGEST_CODE = 13

PASS, HORIZONTAL = 100, 101
MODES = {
    "0001": PASS,
    "001": HORIZONTAL,
    "1": 0,
    "011": 1,
    "000011": 2,
    "0000011": 3,
    "010": -1,
    "000010": -2,
    "0000010": -3,
}
"""T.4, table 4: how far a change of colour is from the one in the row above, or one of the two other modes."""

TWO_DIMENSIONS = 1
"""Bit of T4Options: rows may refer to the row above."""

END_OF_LINE = re.compile("0{11,}1")
END_OF_PAGE = re.compile("0{11,}1[01]?0{11,}1[01]?0*$")
"""Two or more end-of-line codes (EOFB, RTC); in two dimensions a bit follows each."""

ALIGNED = {Compression.CCITT_RLE: 8, Compression.CCITT_RLEW: 16}
"""Bits at whose multiples the rows of a scheme begin."""

type Changes = list[int]
"""Columns at which a row changes its colour: from white first, at 0 if its first pixel is black."""


def run_of(code: int) -> int:
    """Return the pixels that a code stands for, by its place in `CODES`."""
    return code if code < MAKE_UP else (code - MAKE_UP + 1) * MAKE_UP


@cache
def _runs(colour: int) -> list[tuple[int, int] | None]:
    """Return run and length of the code that 13 bits begin with, by their value."""
    return _table({code: run_of(number) for number, code in enumerate(CODES[colour])})


@cache
def _modes() -> list[tuple[int, int] | None]:
    return _table(MODES)


def _table(codes: dict[str, int]) -> list[tuple[int, int] | None]:
    table: list[tuple[int, int] | None] = [None] * (1 << LONGEST_CODE)
    for code, meaning in codes.items():
        spare = LONGEST_CODE - len(code)
        first = int(code, 2) << spare
        table[first : first + (1 << spare)] = [(meaning, len(code))] * (1 << spare)
    return table


class Rows:
    """Reads the rows of a facsimile one after the other."""

    def __init__(self, data: bytes, scheme: int, t4_options: int, width: int) -> None:
        self.scheme = scheme
        self.width = width
        self.has_tags = scheme == Compression.CCITT_T4 and bool(t4_options & TWO_DIMENSIONS)
        self.stop = 8 * len(data)
        bits = f"{int.from_bytes(data):0{self.stop}b}" if data else ""
        self.bits = bits + "0" * LONGEST_CODE
        self.at = 0

    def read(self, most: int) -> list[Changes]:
        """Return at most so many rows, fewer where the data end between two rows."""
        rows: list[Changes] = []
        while len(rows) < most:
            row = self.row(rows[-1] if rows else [])
            if row is None:
                break
            rows.append(row)
        return rows

    def row(self, above: Changes) -> Changes | None:
        """Return the next row, None where the data end.

        Data that end inside a row, and bits that are no code, are an error.
        """
        is_plain = self._begins()
        if is_plain is None:
            return None
        row = self._one_dimension() if is_plain else self._two_dimensions(above)
        if self.at > self.stop:
            raise MalformedError(f"facsimile data of {self.stop // 8} bytes end in a row")
        return row

    def _begins(self) -> bool | None:
        """Return whether the row that begins here is coded in one dimension, None where no row does."""
        if self.scheme in ALIGNED:
            step = ALIGNED[BY_NUMBER[self.scheme]]
            self.at = -(-self.at // step) * step
        is_plain = self.scheme != Compression.CCITT_T6
        if self.scheme == Compression.CCITT_T4:
            line = END_OF_LINE.match(self.bits, self.at)
            if line is not None:
                self.at = line.end()
                if self.has_tags:
                    is_plain = self.bits[self.at] == "1"
                    self.at += 1
        if self.at >= self.stop or END_OF_LINE.match(self.bits, self.at, self.stop):
            return None
        return None if self.bits.find("1", self.at) < 0 else is_plain

    def _one_dimension(self) -> Changes:
        changes: Changes = []
        column = colour = 0
        while column < self.width:
            column += self._run(colour)
            changes.append(column)
            colour = 1 - colour
        return self._whole(changes)

    def _two_dimensions(self, above: Changes) -> Changes:
        changes: Changes = []
        column, colour = -1, 0
        while column < self.width:
            place = bisect_right(above, column)
            place += place % 2 != colour
            first, second = (*above[place : place + 2], self.width, self.width)[:2]
            mode = self._code(_modes())
            if mode == PASS:
                column = second
            elif mode == HORIZONTAL:
                column = max(column, 0) + self._run(colour)
                changes.append(column)
                column += self._run(1 - colour)
                changes.append(column)
            else:
                column = first + mode
                changes.append(column)
                colour = 1 - colour
        return self._whole(changes)

    def _whole(self, changes: Changes) -> Changes:
        if changes and changes[-1] > self.width and self.at <= self.stop:
            raise MalformedError(f"a row of {changes[-1]} pixels in a facsimile of {self.width} columns")
        return changes

    def _run(self, colour: int) -> int:
        total = 0
        while True:
            run = self._code(_runs(colour))
            total += run
            if run < MAKE_UP:
                return total

    def _code(self, table: list[tuple[int, int] | None]) -> int:
        found = table[int(self.bits[self.at : self.at + LONGEST_CODE] or "0", 2)] if self.at < self.stop else None
        if found is None:
            raise MalformedError(
                f"facsimile data of {self.stop // 8} bytes end in a row, or hold no code at bit {self.at}"
            )
        meaning, length = found
        self.at += length
        return meaning


def rows_held(data: bytes, scheme: int, t4_options: int, pixels: NDArray[np.uint8]) -> int:
    """Return how many of the rows that were decoded to `pixels` the data hold: all before an end-of-page code.

    Data that end inside a row are an error.
    """
    height, width = pixels.shape
    if _is_whole(data, scheme, t4_options, pixels):
        return int(height)
    return len(Rows(data, scheme, t4_options, width).read(height))


def _is_whole(data: bytes, scheme: int, t4_options: int, pixels: NDArray[np.uint8]) -> bool:
    """Whether data end with an end-of-page code, or with the codes of the last row in black and those below it."""
    height, width = pixels.shape
    last = next((row for row in range(height - 1, 0, -1) if pixels[row].any()), 0)
    white = height - 1 - last
    if scheme in ALIGNED:
        step = ALIGNED[BY_NUMBER[scheme]]
        end = _encoded(pixels[last], step) + _encoded(np.zeros(width, np.uint8), step) * white
        return data.rstrip(b"\0").endswith(end.rstrip(b"\0"))
    if END_OF_PAGE.search("".join(f"{byte:08b}" for byte in data[-32:])):
        return True
    if scheme == Compression.CCITT_T6:
        return False
    tail = Rows(data[-TAIL - 16 * white :], scheme, t4_options, width)
    lines = [line.start() for line in END_OF_LINE.finditer(tail.bits, 0, tail.stop)]
    if len(lines) <= white:
        return False
    tail.at = lines[-white - 1]
    above = _changes(pixels[last - 1]) if last else []
    for pixel_row in pixels[last:]:
        row = tail.row(above)
        if row is None or [column for column in row if 0 < column < width] != _changes(pixel_row, after=0):
            return False
        above = row
    return True


TAIL = 4096
"""Bytes in which the last row in black is looked for, which takes at most 13 bits for two pixels."""


def _changes(row: NDArray[np.uint8], after: int = -1) -> Changes:
    """Return the columns after one at which a row changes its colour."""
    columns: Changes = np.flatnonzero(np.diff(row, prepend=0)).tolist()
    return columns[1:] if columns and columns[0] <= after else columns


def _encoded(row: NDArray[np.uint8], step: int) -> bytes:
    """Return the codes of a row in one dimension, up to a multiple of `step` bits."""
    ends = [*_changes(row), len(row)]
    codes, column = [], 0
    for number, end in enumerate(ends):
        codes.append(_code_of(end - column, CODES[number % 2]))
        column = end
    bits = "".join(codes)
    nbytes = -(-len(bits) // step) * step // 8
    return (int(bits, 2) << 8 * nbytes - len(bits)).to_bytes(nbytes)


def _code_of(run: int, codes: list[str]) -> str:
    longest = max(run - MAKE_UP + 1, 0) // LONGEST_RUN
    rest = run - longest * LONGEST_RUN
    make_up = codes[MAKE_UP - 1 + rest // MAKE_UP] if rest >= MAKE_UP else ""
    return codes[-1] * longest + make_up + codes[rest % MAKE_UP]
