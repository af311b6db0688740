"""A tile's tile-parts and the main header, put together to a codestream of this tile alone.

May touch errors and the layouts of JPEG 2000; pure.  The tile stays where it is on the reference
grid and gets a new number; pointers into the file go; packed packet headers (PPM) are dealt out again.
Spec: docs/codecs/jpeg2000/README.md
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jnrrdz.errors import MalformedError
from jnrrdz.formats.jpeg2000.jpeg2000_markers import Marker, segments
from jnrrdz.formats.jpeg2000.jpeg2000_packets import tile_part
from jnrrdz.formats.jpeg2000.jpeg2000_siz import Siz
from jnrrdz.formats.jpeg2000.tile_parts import SOT, SOT_BYTES, SOT_LENGTH

SOC = b"\xff\x4f"
SOD = b"\xff\x93"
EOC = b"\xff\xd9"
REPLACED = {Marker.SIZ, Marker.TLM, Marker.PLM, Marker.PPM}
PPM_ROOM = 65532
MAX_PPM = 256


@dataclass(frozen=True)
class Part:
    """One tile-part in a chunk's bytes."""

    tile: int
    start: int
    stop: int
    rank: int
    """How many tile-parts of its tile stand before it."""

    announced: int
    """How many tile-parts its tile has by TNsot; 0 where that is not said."""

    is_cut: bool = False
    """Whether it goes on after the chunk ends."""


def parts_of(data: bytes | memoryview, tiles: int, *, may_cut: bool = False) -> list[Part]:
    """Return the tile-parts that stand one after the other in a chunk; one that is alone may be cut off."""
    found: list[Part] = []
    ranks: dict[int, int] = {}
    at = 0
    while at < len(data) and bytes(data[at : at + 2]) != EOC:
        part = _part(data, at, tiles, ranks, may_cut=may_cut and not at)
        found.append(part)
        at = part.stop
    if not found:
        raise MalformedError(f"no tile-part in {len(data)} bytes", field="SOT")
    return found


def _part(data: bytes | memoryview, at: int, tiles: int, ranks: dict[int, int], *, may_cut: bool) -> Part:
    head = bytes(data[at : at + SOT_BYTES])
    if len(head) < SOT_BYTES or not head.startswith(b"\xff\x90\0\x0a"):
        raise MalformedError(f"{head[:4].hex(' ')} in a chunk where a tile-part begins", field="SOT")
    _, _, tile, length, _, announced = SOT.unpack(head)
    # only the last tile-part of a file may leave its length open, and a chunk ends with it
    stop = at + length if length else len(data)
    if tile >= tiles:
        raise MalformedError(f"a tile-part of tile {tile}, where there are {tiles}", field="Isot")
    is_cut = may_cut and stop > len(data)
    stop = len(data) if is_cut else stop
    if (length and length <= SOT_BYTES) or stop > len(data):
        raise MalformedError(f"a tile-part of {length} bytes, {len(data) - at} are left in the chunk", field="Psot")
    rank = ranks.get(tile, 0)
    ranks[tile] = rank + 1
    return Part(tile, at, stop, rank, announced, is_cut)


class Header:
    """The main header of one array, taken apart once."""

    def __init__(self, header: bytes, siz: Siz, tile_parts: Sequence[int]) -> None:
        self.siz = siz
        found = list(segments(header))
        self.kept = b"".join(header[one.start : one.stop] for one in found if one.marker not in REPLACED)
        bodies = [header[one.start + 4 : one.stop] for one in found if one.marker == Marker.PPM]
        self._packed = _series(bodies) if bodies else []
        self._ranks: dict[tuple[int, int], int] = {}
        seen: dict[int, int] = {}
        for number, tile in enumerate(tile_parts):
            self._ranks[tile, seen.get(tile, 0)] = number
            seen[tile] = seen.get(tile, 0) + 1

    def codestream(self, data: bytes | memoryview, parts: Sequence[Part], signed_bits: int | None = None) -> bytes:
        """Return a codestream of the tile-parts of one tile, its samples declared as signed ones of so many bits."""
        siz = self.siz.tile(*divmod(parts[0].tile, self.siz.x.tiles))
        if signed_bits is not None:
            wide = tuple(replace(one, bits=signed_bits, signed=True) for one in siz.components)
            siz = replace(siz, components=wide)
        pieces = [SOC, siz.encode(), self.kept, *self._ppm(parts)]
        for part in parts:
            pieces.append(SOT.pack(Marker.SOT, SOT_LENGTH, 0, part.stop - part.start, part.rank, len(parts)))
            pieces.append(bytes(data[part.start + SOT_BYTES : part.stop]))
        return b"".join([*pieces, EOC])

    def _ppm(self, parts: Sequence[Part]) -> Iterator[bytes]:
        """Yield PPM segments with the packet headers of some tile-parts."""
        if not self._packed:
            return
        chosen = [self._headers_of(part) for part in parts]
        stream = b"".join(struct.pack(">I", len(one)) + one for one in chosen)
        for number, at in enumerate(range(0, len(stream), PPM_ROOM)):
            body = stream[at : at + PPM_ROOM]
            if number >= MAX_PPM:
                raise MalformedError("more packed packet headers than PPM segments hold", field="PPM")
            yield struct.pack(">HHB", Marker.PPM, len(body) + 3, number) + body

    def _headers_of(self, part: Part) -> bytes:
        number = self._ranks.get((part.tile, part.rank))
        if number is None or number >= len(self._packed):
            raise MalformedError(f"no packet headers for tile-part {part.rank} of tile {part.tile}", field="PPM")
        return self._packed[number]


def completed(data: bytes | memoryview, part: Part, packets: bytes) -> tuple[bytes, Part]:
    """Return a tile-part that was cut with other packets in place of those that are not there, and where it stands.

    Of its header nothing is left: packet lengths (PLT) are not true any more.
    """
    body = tile_part(lambda start, stop: bytes(data[start:stop]), part.start, part.stop)
    whole = bytes(data[part.start : part.start + SOT_BYTES]) + SOD + bytes(data[body.start : body.stop]) + packets
    return whole, replace(part, start=0, stop=len(whole), is_cut=False)


def _series(bodies: Sequence[bytes]) -> list[bytes]:
    """Return the packet headers of each tile-part of the file, in its order."""
    stream = b"".join(body[1:] for body in sorted(bodies, key=lambda body: body[:1]))
    found: list[bytes] = []
    at = 0
    while at + 4 <= len(stream):
        length = int.from_bytes(stream[at : at + 4], "big")
        if at + 4 + length > len(stream):
            raise MalformedError(f"{length} bytes of packet headers, {len(stream) - at - 4} are left", field="PPM")
        found.append(stream[at + 4 : at + 4 + length])
        at += 4 + length
    return found
