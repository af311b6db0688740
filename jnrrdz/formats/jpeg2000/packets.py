"""The packets of a tile: how it is coded, where its resolutions, subbands and precincts lie, where each packet is.

A progression that changes (POC), packed packet headers, HTJ2K and coding styles of single tiles are refused by name:
packets cannot be counted by the main header's COD and COC then.  Coordinates are those of the
resolution itself (the reference grid divided by the sampling and by 2 for each level below).  The order of packets
follows from the coding alone, their lengths from PLT marker segments or else from the packet headers.
Spec: ITU-T T.800 (https://www.itu.int/rec/T-REC-T.800), A.6 (COD, COC), A.7.3 (PLT), B.3 to B.7 (tiles to precincts),
B.10 (packet headers), B.12 (progression orders), annex F (how far the wavelets reach)
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.boxes import ReadRange
from jnrrdz.formats.jpeg2000.markers import (
    FIXED,
    LARGEST,
    Marker,
    Progression,
    Siz,
    coding_styles,
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
    Marker.POC: "a progression that changes",
    Marker.PPM: "packet headers in the main header",
    Marker.PPT: "packet headers in the tile-part header",
}
"""Of a main header: packets cannot be counted by COD and COC alone."""

IN_TILES = {
    **REFUSED,
    Marker.COD: "a coding style of its own",
    Marker.COC: "a coding style of its own",
}
"""The same of a tile-part's header."""

IN_WINDOWS = {
    **IN_TILES,
    Marker.QCD: "quantization of its own",
    Marker.QCC: "quantization of its own",
    Marker.RGN: "a region of interest of its own",
}
"""Of a tile whose packets are decoded without its header."""

EPH_FOLLOWS = 4
"""Of Scod: EPH ends packet headers."""

HIGH_THROUGHPUT = 0x40


@dataclass(frozen=True)
class ComponentCoding:
    """SPcod or SPcoc of one component, in the specification's words."""

    levels: int
    blocks: tuple[int, int]
    """Exponents of a code-block's width and height."""
    style: int
    """The code-block style."""
    reversible: bool
    precincts: tuple[tuple[int, int], ...]
    """Exponents PPx and PPy of each resolution, lowest first."""


@dataclass(frozen=True)
class Coding:
    """SIZ, COD and COC, as far as the order of packets depends on them."""

    siz: Siz
    progression: Progression
    layers: int
    eph: bool
    components: tuple[ComponentCoding, ...]

    @cached_property
    def levels(self) -> int:
        """The decomposition levels of the component that has the most."""
        return max(component.levels for component in self.components)

    def tile_box(self, tile: int = 0) -> Box:
        """Return one tile's area on the reference grid."""
        x, y = self.siz.x, self.siz.y
        row, column = divmod(tile, x.tiles)
        left, top = x.tile_start + column * x.tile, y.tile_start + row * y.tile
        right, bottom = left + x.tile, top + y.tile
        return cut((left, top, right, bottom), (x.start, y.start, x.stop, y.stop))

    def needed(self, component: int, level: int) -> int:
        """Return how many of a component's resolutions a level of the image needs."""
        return self.components[component].levels - level + 1


def coding(header: bytes) -> Coding:
    """Return the coding that a main header describes; `header` may go on after it."""
    bodies: dict[int, bytes] = {}
    for segment in segments(header):
        refuse(segment.marker, REFUSED, segment.start)
        bodies[segment.marker] = segment.data
    missing = [marker.name for marker in (Marker.SIZ, Marker.COD) if marker not in bodies]
    if missing:
        raise MalformedError(f"no {' and no '.join(missing)} before the first tile-part", field="main header")
    siz = parse_siz(bodies[Marker.SIZ])
    general = parse_cod(bodies[Marker.COD])
    if general.progression not in set(Progression) or not general.layers:
        raise MalformedError(f"progression {general.progression}, {general.layers} layers", field="COD")
    count = len(siz.components)
    styles = dict(coding_styles(header, 2, count))
    parsed = {style: _component_coding(style) for style in set(styles.values())}
    return Coding(
        siz=siz,
        progression=Progression(general.progression),
        layers=general.layers,
        eph=bool(bodies[Marker.COD][4] & EPH_FOLLOWS),
        components=tuple(parsed[styles.get(number, styles[None])] for number in range(count)),
    )


def refuse(marker: int, refused: Mapping[Marker, str], offset: int) -> None:
    """Raise an error for a marker after which packets cannot be counted."""
    for known, meaning in refused.items():
        if marker == known:
            raise UnsupportedError(f"windows of a tile with {meaning}", offset=offset, field=known.name)


def _component_coding(style: bytes) -> ComponentCoding:
    """Return what SPcod or SPcoc holds; without sizes of precincts they are the largest."""
    if len(style) < FIXED:
        raise MalformedError("COD or COC ends before its last member", field="main header")
    levels, across, down, blocks, wavelet = style[:FIXED]
    if blocks & HIGH_THROUGHPUT:
        raise UnsupportedError("windows of HTJ2K code-blocks", field="COD")
    sizes = style[FIXED : FIXED + levels + 1] or bytes([LARGEST << 4 | LARGEST]) * (levels + 1)
    precincts = tuple((size & 15, size >> 4) for size in sizes)
    if len(precincts) != levels + 1 or any(0 in pair for pair in precincts[1:]):
        raise MalformedError("precinct sizes that do not fit the resolutions", field="COD")
    exponents = (across & 15) + 2, (down & 15) + 2
    return ComponentCoding(levels, exponents, blocks, wavelet == 1, precincts)


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
    part, coded = coding.siz.components[component], coding.components[component]
    scale = 1 << (coded.levels - number)
    box = shrunk(shrunk(tile, part.dx, part.dy), scale, scale)
    return Resolution(box, coded.precincts[number])


def bands(number: int) -> tuple[tuple[int, int], ...]:
    """Return whether a resolution's subbands are high in x and y: LL, or HL, LH, HH."""
    return ((0, 0),) if number == 0 else ((1, 0), (0, 1), (1, 1))


def band_box(box: Box, high: tuple[int, int]) -> Box:
    """Return the subband samples that a box of a resolution above the lowest is made of."""
    x, y = high
    return (box[0] - x + 1) >> 1, (box[1] - y + 1) >> 1, (box[2] - x + 1) >> 1, (box[3] - y + 1) >> 1


def blocks_of(coded: ComponentCoding, level: Resolution, number: int, precinct: int) -> list[tuple[int, int]]:
    """Return columns and rows of a precinct's code-blocks in each subband."""
    area = level.area(level.cell(precinct))
    less = min(number, 1)
    wide = min(coded.blocks[0], level.exponents[0] - less)
    tall = min(coded.blocks[1], level.exponents[1] - less)
    sizes = []
    for high in bands(number):
        box = area if number == 0 else band_box(area, high)
        size = (-(-box[2] >> wide) - (box[0] >> wide), -(-box[3] >> tall) - (box[1] >> tall))
        sizes.append((0, 0) if is_empty(box) else size)
    return sizes


def shares(coding: Coding, tile: Box, component: int, window: Box, level: int = 0) -> list[tuple[Resolution, Box]]:
    """Return a component's resolutions, lowest first, each with the precincts that a window of a level needs of it."""
    coded = coding.components[component]
    taken: list[tuple[Resolution, Box]] = []
    need, reach = window, REACH[coded.reversible]
    for number in range(coded.levels - level, -1, -1):
        grid = resolution(coding, tile, component, number)
        if number:
            wider = (need[0] - reach, need[1] - reach, need[2] + reach, need[3] + reach)
            need = cut(wider, grid.box)
        taken.append((grid, grid.cells_of(need)))
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


def tile_part(
    read: ReadRange, start: int, stop: int, refused: Mapping[Marker, str] = MappingProxyType(IN_TILES)
) -> TilePart:
    """Return where the packets of the tile-part from `start` (its SOT) to `stop` are, and its PLT segments."""
    plt = []
    walk = steps(lambda at: read(at, min(at + 4, stop)), start + SOT_BYTES)
    step = next(walk)
    while step.marker != Marker.SOD:  # a tile-part without packets ends with it
        if len(step.head) < 4 or not step.is_sound or step.stop > stop:  # noqa: PLR2004
            raise step.refusal("where a tile-part's header goes on", None)
        refuse(step.marker, refused, step.at)
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
        coded = coding.components[component]
        state = states.get((component, number, precinct))
        if state is None:
            level = resolution_of(component, number)
            state = [Band(*size) for size in blocks_of(coded, level, number, precinct)]
            states[component, number, precinct] = state
        start = bits.position
        yield start, packet(state, layer, coded.style, bits), stop


def packet_counts(coding: Coding, box: Box) -> list[int]:
    """Return the number of packets of each resolution of a tile, lowest first."""
    counts = [0] * (coding.levels + 1)
    kinds = [(part.sampling, coded) for part, coded in zip(coding.siz.components, coding.components, strict=True)]
    for kind, times in Counter(kinds).items():
        component = kinds.index(kind)
        for number in range(coding.components[component].levels + 1):
            counts[number] += coding.layers * times * resolution(coding, box, component, number).count
    return counts


def packet_order(coding: Coding, tile: Box, nbytes: int | None = None) -> tuple[Ints, Ints, Ints, Ints]:
    """Return component, resolution, precinct and layer of every packet in the order of the progression.

    A whole tile of `nbytes` has no more packets than bytes: an empty one takes one.
    """
    total = sum(packet_counts(coding, tile))
    if nbytes is not None and total > nbytes:
        raise MalformedError(f"{total} packets in {nbytes} bytes; the tile may be cut off", field="packets")
    if total > MAX_PACKETS:
        raise UnsupportedError(f"{total} packets in one tile; {MAX_PACKETS} are the most", field="packets")
    rows = []
    for component, part in enumerate(coding.siz.components):
        levels = coding.components[component].levels
        for number in range(levels + 1):
            level, shift = resolution(coding, tile, component, number), levels - number
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
