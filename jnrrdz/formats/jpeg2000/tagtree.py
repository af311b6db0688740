"""Packet headers: how long each packet of a tile is, where no PLT says it.

Headers are decoded bit by bit as the specification has it, bodies are skipped.  What a precinct's headers build on
(tag trees, blocks already included) is kept from layer to layer.
Spec: ITU-T T.800 (https://www.itu.int/rec/T-REC-T.800), B.10
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jnrrdz.errors import MalformedError

BYPASS, TERMALL = 1, 4
UNKNOWN = 1 << 30
READ = 512
SOP, EPH = b"\xff\x91", b"\xff\x92"
SOP_LENGTH = 6
PLAIN_PASSES = 10
"""Passes before the arithmetic coder may be bypassed."""


class Bits:
    """Bits of a packet header from a position on; a byte after FF has seven of them."""

    def __init__(self, read: Callable[[int, int], bytes], start: int, stop: int) -> None:
        self._read, self._stop = read, stop
        self._data, self._first = b"", start
        self.position = start
        self._byte, self._left = 0, 0

    def peek(self, length: int) -> bytes:
        """Return the next whole bytes, fewer at the end, without taking them."""
        at = self.position - self._first
        if at + length > len(self._data):
            self._first = self.position
            self._data = self._read(self._first, min(self._stop, self._first + max(READ, length)))
            at = 0
        return self._data[at : at + length]

    def bit(self) -> int:
        """Return the next bit."""
        if not self._left:
            following = self.peek(1)
            if not following:
                raise MalformedError("a packet header goes on beyond its tile-part", offset=self.position)
            self._left = 7 if self._byte == 0xFF else 8  # noqa: PLR2004  bit stuffing
            self._byte = following[0]
            self.position += 1
        self._left -= 1
        return self._byte >> self._left & 1

    def number(self, width: int) -> int:
        """Return a number of `width` bits."""
        value = 0
        for _ in range(width):
            value = value << 1 | self.bit()
        return value

    def align(self) -> int:
        """Go to the end of the header, and return its position."""
        if self._byte == 0xFF:  # noqa: PLR2004  bit stuffing
            self.position += 1
        self._byte = self._left = 0
        return self.position


class TagTree:
    """A tag tree over a rectangle of leaves."""

    def __init__(self, columns: int, rows: int) -> None:
        self._starts: list[tuple[int, int]] = []
        nodes = 0
        while True:
            self._starts.append((nodes, columns))
            nodes += columns * rows
            if columns * rows <= 1:
                break
            columns, rows = (columns + 1) // 2, (rows + 1) // 2
        self._value, self._low = [UNKNOWN] * nodes, [0] * nodes

    def is_less(self, x: int, y: int, threshold: int, bits: Bits) -> bool:
        """Whether a leaf's value is below a threshold; reads as many bits as that takes."""
        low, node = 0, 0
        for depth in range(len(self._starts) - 1, -1, -1):
            first, columns = self._starts[depth]
            node = first + (y >> depth) * columns + (x >> depth)
            low = max(low, self._low[node])
            while low < threshold and low < self._value[node]:
                if bits.bit():
                    self._value[node] = low
                else:
                    low += 1
            self._low[node] = low
        return self._value[node] < threshold


@dataclass
class Block:
    """A code-block as the headers so far have it."""

    width: int = 3
    """Lblock: bits of a length, before the number of passes is counted in."""
    passes: int = 0


class Band:
    """A precinct's code-blocks in one subband."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.inclusion, self.planes = TagTree(columns, rows), TagTree(columns, rows)
        self.blocks: dict[int, Block] = {}

    def body(self, layer: int, style: int, bits: Bits) -> int:
        """Return the bytes that this subband adds to a packet, reading its part of the header."""
        total = 0
        for row in range(self.rows):
            for column in range(self.columns):
                block = self._included(column, row, layer, bits)
                if block is None:
                    continue
                passes = _passes(bits)
                while bits.bit():
                    block.width += 1
                for count in _terminated(block.passes, passes, style):
                    total += bits.number(block.width + count.bit_length() - 1)
                block.passes += passes
        return total

    def _included(self, column: int, row: int, layer: int, bits: Bits) -> Block | None:
        known = self.blocks.get(row * self.columns + column)
        if known is not None:
            return known if bits.bit() else None
        if not self.inclusion.is_less(column, row, layer + 1, bits):
            return None
        threshold = 1
        while not self.planes.is_less(column, row, threshold, bits):
            threshold += 1
            if threshold > 128:  # noqa: PLR2004  no subband has as many bit-planes
                raise MalformedError("a code-block without bit-planes", offset=bits.position, field="packet header")
        block = self.blocks[row * self.columns + column] = Block()
        return block


def packet(bands: list[Band], layer: int, style: int, bits: Bits) -> int:
    """Return where the packet that begins at the bits' position ends."""
    if bits.peek(2) == SOP:
        bits.position += SOP_LENGTH
    length = sum(band.body(layer, style, bits) for band in bands) if bits.bit() else 0
    bits.align()
    if bits.peek(2) == EPH:
        bits.position += 2
    bits.position += length
    return bits.position


def _passes(bits: Bits) -> int:
    """Return the number of coding passes (Table B.4)."""
    if not bits.bit():
        return 1
    if not bits.bit():
        return 2
    for width, base in ((2, 3), (5, 6)):
        value = bits.number(width)
        if value != (1 << width) - 1:
            return base + value
    return 37 + bits.number(7)


def _terminated(start: int, passes: int, style: int) -> Iterator[int]:
    """Yield the passes of each codeword segment: a length is given wherever the coder was terminated (Table D.9)."""
    last = start + passes
    while start < last:
        stop = last
        if style & TERMALL:
            stop = start + 1
        elif style & BYPASS and start < PLAIN_PASSES:
            stop = PLAIN_PASSES
        elif style & BYPASS:  # after the first ten, two raw passes and one coded in turn
            turn = (start - PLAIN_PASSES) % 3
            stop = start + (2 - turn if turn < 2 else 1)  # noqa: PLR2004  two raw passes
        yield min(stop, last) - start
        start = stop
