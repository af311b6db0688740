"""The tables that a JPEG stream of a NITF may leave out, since the standard gives them.

May touch errors only.  A stream without quantisation tables means one of five, by the quality level
that its NITF application segment (APP6) names; one without Huffman tables means the typical ones.
Spec: MIL-STD-188-198A (appendix A), https://www.w3.org/Graphics/JPEG/itu-t81.pdf (annex K)
"""

from jnrrdz.errors import MalformedError

SOI = b"\xff\xd8"
MARK, DQT, DHT, SOS = 0xFF, 0xDB, 0xC4, 0xDA
BASELINE = 0xC0
TABLES = 4
HUFFMAN_TABLES = 2
"""How many tables of a kind a baseline stream may name."""

LUMINANCE_AC = (0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125)
LUMINANCE_DC = (0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0)

QUANTISATION = {
    1: "8 72 72 72 72 72 72 72 72 72 78 74 76 74 78 89 81 84 84 81 89 106 93 94 99 94 93 106 129 111 108 116 "
    "116 108 111 129 135 128 136 145 136 128 135 155 160 177 177 160 155 193 213 228 213 193 255 255 "
    "255 255 255 255 255 255 255 255",
    2: "8 36 36 36 36 36 36 36 36 36 39 37 38 37 39 45 41 42 42 41 45 53 47 47 50 47 47 53 65 56 54 59 "
    "59 54 56 65 68 64 69 73 69 64 68 78 81 89 89 81 78 98 108 115 108 98 130 144 144 130 178 190 178 243 243 255",
    3: "8 10 10 10 10 10 10 10 10 10 11 10 11 10 11 13 11 12 12 11 13 15 13 13 14 13 13 15 18 16 15 16 "
    "16 15 16 18 19 18 19 21 19 18 19 22 23 25 25 23 22 27 30 32 30 27 36 40 40 36 50 53 50 68 68 91",
    4: "8 7 7 7 7 7 7 7 7 7 8 7 8 7 8 9 8 8 8 8 9 11 9 9 10 9 9 11 13 11 11 12 "
    "12 11 11 13 14 13 14 15 14 13 14 16 16 18 18 16 16 20 22 23 22 20 26 29 29 26 36 38 36 49 49 65",
    5: "4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 5 5 5 5 5 5 6 5 5 6 5 5 6 7 6 6 6 "
    "6 6 6 7 8 7 8 8 8 7 8 9 9 10 10 9 9 11 12 13 12 11 14 16 16 14 20 21 20 27 27 36",
}
"""The 8-bit tables in zigzag order, by quality level."""


def _ac_values() -> bytes:
    """Return the typical AC symbols: T.81's table K.5."""
    first = (
        "01 02 03 00 04 11 05 12 21 31 41 06 13 51 61 07 22 71 14 32 81 91 a1 08 23 42 b1 c1 15 52 d1 f0 24 33 62 72 82"
    )
    listed = bytes.fromhex(first)
    # what is left has sixteen bits each, in ascending order
    rest = [run << 4 | size for run in range(16) for size in range(1, 11)]
    return listed + bytes(symbol for symbol in rest if symbol not in listed)


def quantisation_segment(quality: int) -> bytes:
    """Return the DQT segment of one quality level, under every number that a component may name."""
    table = bytes(int(word) for word in QUANTISATION[quality].split())
    return _segment(DQT, b"".join(bytes((number,)) + table for number in range(TABLES)))


def huffman_segment() -> bytes:
    """Return the DHT segment of the typical tables, under every number that a component may name."""
    dc = bytes(LUMINANCE_DC) + bytes(range(12))
    ac = bytes(LUMINANCE_AC) + _ac_values()
    both = (bytes((number,)) + dc + bytes((0x10 | number,)) + ac for number in range(HUFFMAN_TABLES))
    return _segment(DHT, b"".join(both))


def _segment(marker: int, body: bytes) -> bytes:
    return bytes((MARK, marker)) + (len(body) + 2).to_bytes(2, "big") + body


def completed(data: bytes, quality: int) -> bytes:
    """Return a baseline stream with the tables that it leaves out; one that has all comes back as it is."""
    present = header_markers(data)
    if BASELINE not in present or {DQT, DHT} <= present:
        return data
    missing = b"" if DHT in present else huffman_segment()
    if DQT not in present:
        if quality not in QUANTISATION:
            raise MalformedError("no quantisation tables, and no quality level that says which are meant", field="DQT")
        missing += quantisation_segment(quality)
    return data[: len(SOI)] + missing + data[len(SOI) :]


def header_markers(data: bytes) -> set[int]:
    """Return the markers of the segments before the first scan's data."""
    found: set[int] = set()
    at = len(SOI)
    while at + 4 <= len(data) and data[at] == MARK and SOS not in found:
        if data[at + 1] == MARK:
            at += 1
            continue
        found.add(data[at + 1])
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return found
