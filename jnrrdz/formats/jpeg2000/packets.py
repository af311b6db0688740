"""The packets of a tile: how it is coded, where its resolutions, subbands and precincts lie, where each packet stands.

What makes components, tiles or parts of a tile differ from COD and QCD (COC, QCC, POC, RGN, packed packet headers,
HTJ2K) is refused by name: a window cannot be put together from packets alone then.  Coordinates are those of the
resolution itself (the reference grid divided by the sampling and by 2 for each level below).  The order of packets
follows from the coding alone, their lengths from PLT marker segments or else from the packet headers.
Spec: ITU-T T.800 (https://www.itu.int/rec/T-REC-T.800), A.6 (COD, QCD), A.7.3 (PLT), B.3 to B.7 (tiles to precincts),
B.10 (packet headers), B.12 (progression orders), annex F (how far the wavelets reach)
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.boxes import ReadRange
from jnrrdz.formats.jpeg2000.markers import (
    LARGEST,
    MAX_LEVELS,
    Marker,
    Progression,
    Siz,
    parse_cod,
    parse_siz,
    segments,
    steps,
)
from jnrrdz.formats.jpeg2000.tagtree import Band, Bits, packet
from jnrrdz.formats.jpeg2000.tile_parts import SOT_BYTES, Ints

type Box = tuple[int, int, int, int]
"""x0, y0, x1, y1; the end is not part of it."""

REFUSED = {
    Marker.CAP: "capabilities of part 15 (HTJ2K)",
    Marker.COC: "coding styles that differ between components",
    Marker.QCC: "quantization that differs between components",
    Marker.RGN: "a region of interest",
    Marker.POC: "a progression that changes",
    Marker.PPM: "packet headers in the main header",
    Marker.PPT: "packet headers in the tile-part header",
}
IN_TILES = {**REFUSED, Marker.COD: "a coding style of its own", Marker.QCD: "quantization of its own"}
HIGH_THROUGHPUT = 0x40


@dataclass(frozen=True)
class Coding:
    """What SIZ, COD and QCD say, in the specification's words; all components are coded alike."""

    siz: Siz
    progression: Progression
    layers: int
    transform: bool
    """Whether a multiple component transform is applied to the first three components."""
    levels: int
    blocks: tuple[int, int]
    """Exponents of a code-block's width and height."""
    style: int
    """The code-block style."""
    reversible: bool
    precincts: tuple[tuple[int, int], ...]
    """Exponents PPx and PPy of each resolution, lowest first."""
    sop: bool
    eph: bool
    guard: int
    steps: tuple[tuple[int, int], ...]
    """Exponent and mantissa of each subband: LL, then HL, LH, HH of each resolution."""

    def tile_box(self, tile: int = 0) -> Box:
        """Return one tile's area on the reference grid."""
        x, y = self.siz.x, self.siz.y
        row, column = divmod(tile, x.tiles)
        left, top = x.tile_start + column * x.tile, y.tile_start + row * y.tile
        return max(left, x.start), max(top, y.start), min(left + x.tile, x.stop), min(top + y.tile, y.stop)

    def steps_of(self, resolution: int) -> tuple[tuple[int, int], ...]:
        """Return exponent and mantissa of a resolution's subbands."""
        return self.steps[3 * resolution - 2 : 3 * resolution + 1] if resolution else self.steps[:1]


def coding(header: bytes) -> Coding:
    """Return what a main header (SOC up to before the first SOT, or longer) says."""
    bodies: dict[int, bytes] = {}
    for segment in segments(header):
        refuse(segment.marker, REFUSED, segment.start)
        bodies[segment.marker] = segment.data
    missing = [marker.name for marker in (Marker.SIZ, Marker.COD, Marker.QCD) if marker not in bodies]
    if missing:
        raise MalformedError(f"no {' and no '.join(missing)} before the first tile-part", field="main header")
    siz = parse_siz(bodies[Marker.SIZ])
    try:
        return _coded(siz, bodies[Marker.COD], bodies[Marker.QCD][4:])
    except (struct.error, IndexError) as error:
        raise MalformedError("COD or QCD ends before its last member", field="main header") from error


def refuse(marker: int, refused: dict[Marker, str], offset: int) -> None:
    """Raise an error if windows cannot be had from a codestream with this marker."""
    for known, meaning in refused.items():
        if marker == known:
            raise UnsupportedError(f"windows of a tile with {meaning}", offset=offset, field=known.name)


def _coded(siz: Siz, cod: bytes, qcd: bytes) -> Coding:
    general = parse_cod(cod)
    if general.progression not in set(Progression) or not general.layers or general.levels > MAX_LEVELS:
        raise MalformedError(f"progression {general.progression}, {general.layers} layers", field="COD")
    coded, (across, down, style) = cod[4], cod[10:13]
    if style & HIGH_THROUGHPUT:
        raise UnsupportedError("windows of HTJ2K code-blocks", field="COD")
    sizes = cod[14 : 15 + general.levels] if coded & 1 else bytes([LARGEST << 4 | LARGEST]) * (general.levels + 1)
    precincts = tuple((size & 15, size >> 4) for size in sizes)
    if len(precincts) != general.levels + 1 or any(0 in pair for pair in precincts[1:]):
        raise MalformedError("precinct sizes that do not fit the resolutions", field="COD")
    return Coding(
        siz=siz,
        progression=Progression(general.progression),
        layers=general.layers,
        transform=general.color_transform,
        levels=general.levels,
        blocks=((across & 15) + 2, (down & 15) + 2),
        style=style,
        reversible=general.reversible,
        precincts=precincts,
        sop=bool(coded & 2),
        eph=bool(coded & 4),
        guard=qcd[0] >> 5,
        steps=_steps(qcd, general.levels),
    )


def _steps(qcd: bytes, levels: int) -> tuple[tuple[int, int], ...]:
    bands, kind = 3 * levels + 1, qcd[0] & 31
    if kind == 0:
        return tuple((qcd[1 + i] >> 3, 0) for i in range(bands))
    if kind not in {1, 2}:
        raise MalformedError(f"quantization style {kind}, where 0, 1 and 2 are known", field="QCD")
    words = struct.unpack_from(f">{1 if kind == 1 else bands}H", qcd, 1)
    pairs = [(word >> 11, word & 0x7FF) for word in words]
    if kind == 1:  # derived: one octave finer for each resolution
        return tuple((max(pairs[0][0] - max(i - 1, 0) // 3, 0), pairs[0][1]) for i in range(bands))
    return tuple(pairs)


REACH = {True: 2, False: 4}
"""Samples on each side of one that its synthesis depends on: 5/3 (reversible) and 9/7."""


def shrunk(box: Box, x: int, y: int) -> Box:
    """Return a box divided by `x` and `y`, rounded up as the specification does with every coordinate."""
    return -(-box[0] // x), -(-box[1] // y), -(-box[2] // x), -(-box[3] // y)


def cut(box: Box, limit: Box) -> Box:
    """Return the part of a box that lies in another one."""
    return max(box[0], limit[0]), max(box[1], limit[1]), min(box[2], limit[2]), min(box[3], limit[3])


def is_empty(box: Box) -> bool:
    """Whether a box has no samples."""
    return box[2] <= box[0] or box[3] <= box[1]


@dataclass(frozen=True)
class Resolution:
    """One resolution of one component of a tile: its box and the precincts that cover it."""

    box: Box
    exponents: tuple[int, int]

    @cached_property
    def cells(self) -> Box:
        """The precincts, counted from the origin of the canvas: first and end, column and row."""
        return self.cells_of(self.box)

    def cells_of(self, box: Box) -> Box:
        """Return the precincts that a box touches."""
        if is_empty(box):
            return 0, 0, 0, 0
        across, down = self.exponents
        return box[0] >> across, box[1] >> down, -(-box[2] >> across), -(-box[3] >> down)

    @property
    def columns(self) -> int:
        """Precincts in a row."""
        return self.cells[2] - self.cells[0]

    @property
    def rows(self) -> int:
        """Rows of precincts."""
        return self.cells[3] - self.cells[1]

    @property
    def count(self) -> int:
        """Number of precincts."""
        return self.columns * self.rows

    def area(self, cells: Box) -> Box:
        """Return the samples that a rectangle of precincts holds."""
        across, down = self.exponents
        whole = cells[0] << across, cells[1] << down, cells[2] << across, cells[3] << down
        return cut(whole, self.box)

    def cell(self, precinct: int) -> Box:
        """Return a precinct, by its number, as a rectangle of one."""
        row, column = divmod(precinct, self.columns)
        left, top = self.cells[0] + column, self.cells[1] + row
        return left, top, left + 1, top + 1


def resolution(coding: Coding, tile: Box, component: int, number: int) -> Resolution:
    """Return a resolution of a tile, 0 the lowest."""
    part = coding.siz.components[component]
    scale = 1 << (coding.levels - number)
    return Resolution(shrunk(shrunk(tile, part.dx, part.dy), scale, scale), coding.precincts[number])


def bands(number: int) -> tuple[tuple[int, int], ...]:
    """Return whether a resolution's subbands are high in x and y: LL, or HL, LH, HH."""
    return ((0, 0),) if number == 0 else ((1, 0), (0, 1), (1, 1))


def band_box(box: Box, high: tuple[int, int]) -> Box:
    """Return the subband samples that a box of a resolution above the lowest is made of."""
    x, y = high
    return (box[0] - x + 1) >> 1, (box[1] - y + 1) >> 1, (box[2] - x + 1) >> 1, (box[3] - y + 1) >> 1


def blocks_of(coding: Coding, level: Resolution, number: int, precinct: int) -> list[tuple[int, int]]:
    """Return columns and rows of a precinct's code-blocks in each subband."""
    area = level.area(level.cell(precinct))
    less = min(number, 1)
    wide = min(coding.blocks[0], level.exponents[0] - less)
    tall = min(coding.blocks[1], level.exponents[1] - less)
    sizes = []
    for high in bands(number):
        box = area if number == 0 else band_box(area, high)
        size = (-(-box[2] >> wide) - (box[0] >> wide), -(-box[3] >> tall) - (box[1] >> tall))
        sizes.append((0, 0) if is_empty(box) else size)
    return sizes


@dataclass(frozen=True)
class Share:
    """What a window takes from one resolution."""

    level: Resolution
    need: Box
    """The samples of this resolution that the one above (or the window itself) is made of, its reach included."""
    cells: Box
    """The precincts whose subbands give them."""

    @property
    def cover(self) -> Box:
        """The samples of this resolution that those precincts hold."""
        return self.level.area(self.cells)

    def precincts(self) -> Iterator[int]:
        """Yield the numbers of those precincts in their resolution, row by row."""
        left, top, right, bottom = self.cells
        x, y = self.level.cells[:2]
        for row in range(top - y, bottom - y):
            first = row * self.level.columns - x
            yield from range(first + left, first + right)


def shares(coding: Coding, tile: Box, window: Box, level: int = 0) -> list[Share]:
    """Return what a window of the pyramid's `level` takes from each resolution, lowest first."""
    taken: list[Share] = []
    need, reach = window, REACH[coding.reversible]
    for number in range(coding.levels - level, -1, -1):
        grid = resolution(coding, tile, 0, number)
        if number:
            wider = (need[0] - reach, need[1] - reach, need[2] + reach, need[3] + reach)
            need = cut(wider, grid.box)
        taken.append(Share(grid, need, grid.cells_of(need)))
        need = band_box(need, (0, 0))
    return taken[::-1]


MAX_PACKETS = 1 << 23
"""Of a tile: a hundred bytes each while they are put in order."""

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
    plt = []
    walk = steps(lambda at: read(at, min(at + 4, stop)), start + SOT_BYTES)
    step = next(walk)
    while step.marker != Marker.SOD:  # a tile-part without packets ends with it
        if len(step.head) < 4 or not step.is_sound or step.stop > stop:  # noqa: PLR2004
            raise step.refusal("where a tile-part's header goes on", None)
        refuse(step.marker, IN_TILES, step.at)
        if step.marker == Marker.PLT:
            plt.append(read(step.at + 4, step.stop))
        step = next(walk)
    return TilePart(step.at + 2, stop, tuple(plt))


def packet_table(read: ReadRange, coding: Coding, tile: Box, parts: Sequence[TilePart]) -> PacketTable:
    """Return all packets of a tile; `read` is only asked for packet headers, and only where PLT is missing."""
    columns = packet_order(coding, tile, sum(part.stop - part.start for part in parts))
    count = len(columns[0])
    if all(part.plt or part.start == part.stop for part in parts):
        offset, length = _by_plt(parts)
        if len(offset) != count:
            raise MalformedError(
                f"{len(offset)} packets where the coding makes {count}; the tile may be cut off",
                offset=parts[0].start if parts else None,
                field="packets",
            )
        return PacketTable(*columns, offset, length)
    spans = []
    for start, end, stop in walk_packets(read, coding, columns, parts, partial(resolution, coding, tile)):
        if end > stop:
            raise MalformedError("a packet goes on beyond its tile-part", offset=start, field="packet header")
        spans.append((start, end - start))
    if len(spans) < count:
        raise MalformedError(f"the tile ends after {len(spans)} of {count} packets", field="packets")
    return PacketTable(*columns, *np.array(spans, np.int64).reshape(-1, 2).T)


def walk_packets(
    read: ReadRange,
    coding: Coding,
    columns: Sequence[Ints],
    parts: Iterable[TilePart],
    resolution_of: Callable[[int, int], Resolution],
) -> Iterator[tuple[int, int, int]]:
    """Yield where each packet begins and ends, and where its tile-part ends, as far as the tile-parts go.

    `columns` are component, resolution, precinct and layer of the packets, in their order; a packet's header may say
    that it ends behind its tile-part.
    """
    states: dict[tuple[int, int, int], list[Band]] = {}
    queue = iter(parts)
    bits, stop = None, 0
    for component, number, precinct, layer in zip(*(column.tolist() for column in columns), strict=True):
        while bits is None or bits.position >= stop:
            part = next(queue, None)
            if part is None:
                return
            bits, stop = Bits(read, part.start, part.stop), part.stop
        state = states.get((component, number, precinct))
        if state is None:
            level = resolution_of(component, number)
            state = [Band(*size) for size in blocks_of(coding, level, number, precinct)]
            states[component, number, precinct] = state
        start = bits.position
        yield start, packet(state, layer, coding.style, bits), stop


def packet_counts(coding: Coding, tile: int) -> list[int]:
    """Return the number of packets of each resolution of a tile, lowest first."""
    return _counts(coding, coding.tile_box(tile))


def _counts(coding: Coding, box: Box) -> list[int]:
    alike = {part.sampling: component for component, part in enumerate(coding.siz.components)}
    times = Counter(part.sampling for part in coding.siz.components)
    return [
        coding.layers
        * sum(times[each] * resolution(coding, box, component, number).count for each, component in alike.items())
        for number in range(coding.levels + 1)
    ]


def packet_order(coding: Coding, tile: Box, nbytes: int | None = None) -> tuple[Ints, Ints, Ints, Ints]:
    """Return component, resolution, precinct and layer of every packet in the order of the progression.

    A whole tile of `nbytes` has no more packets than bytes: an empty one takes one.
    """
    total = sum(_counts(coding, tile))
    if nbytes is not None and total > nbytes:
        raise MalformedError(f"{total} packets in {nbytes} bytes; the tile may be cut off", field="packets")
    if total > MAX_PACKETS:
        raise UnsupportedError(f"{total} packets in one tile; {MAX_PACKETS} are the most", field="packets")
    rows = []
    for component, part in enumerate(coding.siz.components):
        for number in range(coding.levels + 1):
            level, shift = resolution(coding, tile, component, number), coding.levels - number
            precinct = np.arange(level.count, dtype=np.int64)
            row, column = np.divmod(precinct, max(level.columns, 1))
            # a first precinct that begins before the tile takes the tile's own edge as its place
            x = np.maximum(((level.cells[0] + column) << (level.exponents[0] + shift)) * part.dx, tile[0])
            y = np.maximum(((level.cells[1] + row) << (level.exponents[1] + shift)) * part.dy, tile[1])
            rows.append([np.full_like(precinct, component), np.full_like(precinct, number), precinct, y, x])
    precincts = np.concatenate(rows, axis=1)
    each = dict(zip("crpyx", np.repeat(precincts, coding.layers, axis=1), strict=True))
    each["l"] = np.tile(np.arange(coding.layers), precincts.shape[1])
    order = np.lexsort([each[key] for key in reversed(_KEYS[coding.progression])])
    return each["c"][order], each["r"][order], each["p"][order], each["l"][order]


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
    offsets, lengths = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
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
    return np.concatenate(offsets), np.concatenate(lengths)
