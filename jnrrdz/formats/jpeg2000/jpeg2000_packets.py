"""Every packet of one JPEG 2000 tile: which one it is, where it stands, how long it is.

May touch numpy, errors and the other `jpeg2000_*` layouts; bytes come through `read(start, stop)`.  The
order follows from the coding alone, the lengths from PLT marker segments or else from the packet headers.
Spec: ITU-T T.800, A.7.3 (PLT), B.10 (packet headers), B.12 (progression orders).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.jpeg2000_coding import IN_TILES, Box, Coding, refuse
from jnrrdz.formats.jpeg2000.jpeg2000_markers import Marker, Progression
from jnrrdz.formats.jpeg2000.jpeg2000_precincts import Resolution, blocks_of, resolution
from jnrrdz.formats.jpeg2000.tagtree import Band, Bits, packet
from jnrrdz.formats.jpeg2000.tile_parts import SOT_BYTES

type ReadRange = Callable[[int, int], bytes]
type Ints = NDArray[np.int64]

MAX_PACKETS = 1 << 26
_KEYS = {
    Progression.LRCP: "lrcp",
    Progression.RLCP: "rlcp",
    Progression.RPCL: "ryxcpl",
    Progression.PCRL: "yxcrpl",
    Progression.CPRL: "cyxrpl",
}
"""What is counted in which order, the slowest first; positions count before the precincts that stand there."""


@dataclass(frozen=True)
class TilePart:
    """The packets of one tile-part, and the contents of its PLT segments (from Zplt on) where it has any."""

    start: int
    stop: int
    plt: tuple[bytes, ...] = ()


@dataclass(frozen=True, eq=False)
class PacketTable:
    """The packets of a tile in the order of the codestream, in columns."""

    component: Ints
    resolution: Ints
    precinct: Ints
    layer: Ints
    offset: Ints
    length: Ints

    def __len__(self) -> int:
        return len(self.component)


def tile_part(read: ReadRange, start: int, stop: int) -> TilePart:
    """Return where the packets of the tile-part from `start` (its SOT) to `stop` are, and its PLT segments."""
    at, plt = start + SOT_BYTES, []
    while (marker := int.from_bytes(four := read(at, min(at + 4, stop)), "big") >> 16) != Marker.SOD:
        length = int.from_bytes(four[2:], "big")
        if len(four) < 4 or marker >> 8 != 0xFF or length < 2 or at + 2 + length > stop:  # noqa: PLR2004
            raise MalformedError(f"{four.hex(' ') or 'nothing'} where a tile-part's header goes on", offset=at)
        refuse(marker, IN_TILES, at)
        if marker == Marker.PLT:
            plt.append(read(at + 4, at + 2 + length))
        at += 2 + length
    return TilePart(at + 2, stop, tuple(plt))


def packet_table(read: ReadRange, coding: Coding, tile: Box, parts: Sequence[TilePart]) -> PacketTable:
    """Return all packets of a tile; `read` is only asked for packet headers, and only where PLT is missing."""
    columns = packet_order(coding, tile)
    if all(part.plt or part.start == part.stop for part in parts):
        offset, length = _by_plt(parts)
    else:
        offset, length = _by_headers(read, coding, tile, parts, columns)
    if len(offset) != len(columns[0]):
        raise MalformedError(
            f"{len(offset)} packets where the coding makes {len(columns[0])}; the tile may be cut off",
            offset=parts[0].start if parts else None,
            field="packets",
        )
    return PacketTable(*columns, offset, length)


def packet_count(coding: Coding, tile: int) -> int:
    """Return the number of packets that the coding makes of a tile."""
    box, each = coding.tile_box(tile), range(len(coding.siz.components))
    counts = (resolution(coding, box, one, number).count for one in each for number in range(coding.levels + 1))
    return sum(counts) * coding.layers


def packet_order(coding: Coding, tile: Box) -> tuple[Ints, Ints, Ints, Ints]:
    """Return component, resolution, precinct and layer of every packet in the order of the progression."""
    rows = [
        _positions(resolution(coding, tile, component, number), coding, tile, component, number)
        for component in range(len(coding.siz.components))
        for number in range(coding.levels + 1)
    ]
    precincts = np.concatenate(rows, axis=1)
    count = precincts.shape[1] * coding.layers
    if count > MAX_PACKETS:
        raise UnsupportedError(f"{count} packets in one tile; {MAX_PACKETS} are the most", field="packets")
    each = dict(zip("crpyx", np.repeat(precincts, coding.layers, axis=1), strict=True))
    each["l"] = np.tile(np.arange(coding.layers), precincts.shape[1])
    order = np.lexsort([each[key] for key in reversed(_KEYS[coding.progression])])
    return each["c"][order], each["r"][order], each["p"][order], each["l"][order]


def _positions(level: Resolution, coding: Coding, tile: Box, component: int, number: int) -> Ints:
    """Return component, resolution, number, and place on the reference grid of a resolution's precincts."""
    if level.count > MAX_PACKETS:
        raise UnsupportedError(f"{level.count} precincts in a resolution of one tile", field="packets")
    precinct = np.arange(level.count, dtype=np.int64)
    row, column = np.divmod(precinct, max(level.columns, 1))
    part, shift = coding.siz.components[component], coding.levels - number
    # a first precinct that begins before the tile takes the tile's own edge as its place
    x = np.maximum(((level.cells[0] + column) << (level.exponents[0] + shift)) * part.dx, tile[0])
    y = np.maximum(((level.cells[1] + row) << (level.exponents[1] + shift)) * part.dy, tile[1])
    return np.stack([np.full_like(precinct, component), np.full_like(precinct, number), precinct, y, x])


def plt_lengths(plt: Sequence[bytes]) -> Ints:
    """Return the packet lengths of a tile-part's PLT segments, whatever their order."""
    data = np.frombuffer(b"".join(segment[1:] for segment in sorted(plt, key=lambda segment: segment[:1])), np.uint8)
    ends = np.flatnonzero(data < 0x80)  # noqa: PLR2004  the last byte of a number
    if not len(ends) or ends[-1] != len(data) - 1:
        raise MalformedError("a packet length without its last byte", field="PLT")
    starts = np.concatenate(([0], ends[:-1] + 1))
    if int((ends - starts).max()) > 8:  # noqa: PLR2004  nine times seven bits fill an int64
        raise MalformedError("a packet length of more than nine bytes", field="PLT")
    place = np.repeat(ends, ends - starts + 1) - np.arange(len(data))
    return np.add.reduceat((data & 0x7F).astype(np.int64) << (7 * place), starts)


def _by_plt(parts: Sequence[TilePart]) -> tuple[Ints, Ints]:
    offsets, lengths = [], []
    for part in parts:
        if part.start == part.stop:
            continue
        length = plt_lengths(part.plt)
        if int(length.sum()) != part.stop - part.start:
            raise MalformedError(
                f"packet lengths of {length.sum()} bytes in a tile-part that has {part.stop - part.start}",
                offset=part.start,
                field="PLT",
            )
        offsets.append(part.start + np.cumsum(length) - length)
        lengths.append(length)
    nothing = np.empty(0, np.int64)
    return np.concatenate([nothing, *offsets]), np.concatenate([nothing, *lengths])


def _by_headers(
    read: ReadRange, coding: Coding, tile: Box, parts: Sequence[TilePart], columns: tuple[Ints, ...]
) -> tuple[Ints, Ints]:
    offsets: list[int] = []
    ends: list[int] = []
    states: dict[tuple[int, int, int], list[Band]] = {}
    queue = iter(parts)
    bits, stop = None, 0
    for component, number, precinct, layer in zip(*(column.tolist() for column in columns), strict=True):
        while bits is None or bits.position >= stop:
            part = next(queue, None)
            if part is None:
                raise MalformedError(f"the tile ends after {len(ends)} of {len(columns[0])} packets", field="packets")
            bits, stop = Bits(read, part.start, part.stop), part.stop
        state = states.get((component, number, precinct))
        if state is None:
            level = resolution(coding, tile, component, number)
            state = [Band(*size) for size in blocks_of(coding, level, number, precinct)]
            states[component, number, precinct] = state
        offsets.append(bits.position)
        ends.append(packet(state, layer, coding.style, bits))
        if ends[-1] > stop:
            raise MalformedError("a packet goes on beyond its tile-part", offset=offsets[-1], field="packet header")
    offset = np.asarray(offsets, np.int64)
    return offset, np.asarray(ends, np.int64) - offset
