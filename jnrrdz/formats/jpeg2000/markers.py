"""Marker segments of a codestream's headers: the image and its tiles (SIZ), the coding style (COD, COC), their cost.

All positions are on the reference grid until a factor (subsampling times 2^level) brings them to the samples of a
component at a resolution: `ceil(position / factor)`.
Spec: ITU-T T.800 (https://www.itu.int/rec/T-REC-T.800), annex A, B.2 to B.7; T.801 (extensions are refused)
"""

import math
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.limits import LIMITS, Resource
from jnrrdz.errors import MalformedError, UnsupportedError

FIELDS = struct.Struct(">HH8IH")  # Lsiz, Rsiz, X, Y, XO, YO, XT, YT, XTO, YTO, Csiz
SIZ = 0xFF51
HEAD = 2 + FIELDS.size
PER_COMPONENT = 3
MAX_COMPONENTS = 16384
MAX_BITS = 38
MAX_SAMPLINGS = 16
"""Each makes arrays of its own, of all tiles and levels; pictures have two."""

MAX_TILES = 65535


CODE_BLOCKS = LIMITS[Resource.CODE_BLOCKS]


@dataclass(frozen=True)
class Component:
    """One component: how its samples are stored, and every how many grid points there is one."""

    bits: int
    signed: bool
    dx: int
    dy: int

    @property
    def sampling(self) -> tuple[int, int]:
        """Every how many points across and down there is a sample."""
        return self.dx, self.dy


@dataclass(frozen=True)
class Axis:
    """One axis of the reference grid: the image's extent, and where its tiles begin."""

    start: int
    stop: int
    tile_start: int
    tile: int

    @property
    def tiles(self) -> int:
        """The number of tiles."""
        return -(-(self.stop - self.tile_start) // self.tile)

    def size(self, factor: int) -> int:
        """Return the number of samples at one every `factor` points."""
        first, stop = self.samples(factor)
        return stop - first

    def samples(self, factor: int) -> tuple[int, int]:
        """Return the first sample and the one after the last, likewise."""
        return -(-self.start // factor), -(-self.stop // factor)

    def of_tile(self, tile: int) -> "Axis":
        """Return the axis of one tile, at the same place."""
        begin = self.tile_start + tile * self.tile
        return Axis(max(self.start, begin), min(self.stop, begin + self.tile), begin, self.tile)

    def chunk(self, factor: int) -> int:
        """Return the samples of a chunk: those of so many tiles that all such chunks are as long.

        Tiles whose size is no multiple of the factor differ by a sample; `together` of them do not.
        """
        return min(self.size(factor), self.together(factor) * self.tile // factor)

    def together(self, factor: int) -> int:
        """Return the number of tiles from one chunk's beginning to the next one's."""
        return factor // math.gcd(factor, self.tile)

    def chunk_box(self, index: int, factor: int) -> tuple[int, int]:
        """Return a chunk's first sample and the one after its last, counted as the component counts them."""
        first = -(-self.start // factor) + index * self.chunk(factor)
        return first, min(first + self.chunk(factor), -(-self.stop // factor))

    def chunk_tiles(self, index: int, factor: int) -> tuple[int, int]:
        """Return the first tile that a chunk has samples of, and the one after the last."""
        first, stop = self.chunk_box(index, factor)
        return self._tile_of(first, factor), self._tile_of(stop - 1, factor) + 1

    def tiles_of_chunks(self, index: NDArray[np.int64], factor: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the same of many chunks."""
        first = -(-self.start // factor) + index * self.chunk(factor)
        last = np.minimum(first + self.chunk(factor), -(-self.stop // factor)) - 1
        begin, end = ((np.maximum(at * factor, self.start) - self.tile_start) // self.tile for at in (first, last))
        return np.minimum(begin, self.tiles - 1), np.minimum(end, self.tiles - 1) + 1

    def _tile_of(self, sample: int, factor: int) -> int:
        # a sample belongs to the tile that holds its point of the grid; before the image there is none
        point = max(sample * factor, self.start)
        return min((point - self.tile_start) // self.tile, self.tiles - 1)

    def chunk_of(self, tile: int, factor: int) -> int:
        """Return the chunk whose first tile is `tile`."""
        base = self.chunk_tiles(0, factor)[0]
        return (tile - base) // self.together(factor)


def _alone(axis: Axis, factor: int) -> Axis:
    """Return an axis of one tile that is all of the image, a point every `factor`."""
    start = -(-axis.start // factor)
    return Axis(start, start + axis.size(factor), start, axis.size(factor))


@dataclass(frozen=True)
class Siz:
    """What a codestream says of its image, tiles and components."""

    capabilities: int
    x: Axis
    y: Axis
    components: tuple[Component, ...]

    @property
    def tiles(self) -> int:
        """The number of tiles."""
        return self.x.tiles * self.y.tiles

    @cached_property
    def samplings(self) -> frozenset[tuple[int, int]]:
        """Every how many points across and down there are samples, of all components."""
        return frozenset(component.sampling for component in self.components)

    def has_samples(self, row: int, column: int) -> bool:
        """Whether any component has a sample in a tile: one that has none need not be in the file."""
        y, x = self.y.of_tile(row), self.x.of_tile(column)
        return any(y.size(dy) > 0 and x.size(dx) > 0 for dx, dy in self.samplings)

    def needed(self) -> list[int]:
        """Return the numbers of the tiles that must be in the file."""
        across = self.x.tiles
        if self.samplings == {(1, 1)}:
            return list(range(self.tiles))
        return [tile for tile in range(self.tiles) if self.has_samples(*divmod(tile, across))]

    def tile(self, row: int, column: int) -> "Siz":
        """Return the image of one tile, at the same place: wavelets depend on it.

        Where all components have the same subsampling the grid is that of their samples, which are
        then the same, and which more decoders read.
        """
        y, x = self.y.of_tile(row), self.x.of_tile(column)
        (dx, dy), *others = self.samplings
        if others or (dx, dy) == (1, 1):
            return replace(self, x=_alone(x, 1), y=_alone(y, 1))
        components = tuple(replace(component, dx=1, dy=1) for component in self.components)
        return replace(self, x=_alone(x, dx), y=_alone(y, dy), components=components)

    def encode(self) -> bytes:
        """Return the marker segment."""
        x, y = self.x, self.y
        length = FIELDS.size + PER_COMPONENT * len(self.components)
        sizes = (x.stop, y.stop, x.start, y.start, x.tile, y.tile, x.tile_start, y.tile_start)
        head = FIELDS.pack(length, self.capabilities, *sizes, len(self.components))
        parts = [((part.bits - 1) | (part.signed << 7), *part.sampling) for part in self.components]
        return struct.pack(">H", SIZ) + head + b"".join(map(bytes, parts))


def parse_siz(segment: bytes) -> Siz:
    """Return the facts of a SIZ segment, its marker included."""
    if len(segment) < HEAD + PER_COMPONENT:
        raise MalformedError(f"{len(segment)} bytes, of which {HEAD + PER_COMPONENT} are needed", field="SIZ")
    length, capabilities, x1, y1, x0, y0, xt, yt, xt0, yt0, count = FIELDS.unpack_from(segment, 2)
    if not 1 <= count <= MAX_COMPONENTS or len(segment) != length + 2 or length != FIELDS.size + PER_COMPONENT * count:
        raise MalformedError(f"{length} bytes for {count} components", field="SIZ")
    components = []
    for ssiz, dx, dy in struct.iter_unpack("3B", segment[HEAD:]):
        bits = (ssiz & 0x7F) + 1
        if bits > MAX_BITS or dx < 1 or dy < 1:
            raise MalformedError(f"a component of {bits} bits, one sample every {dx}x{dy}", field="SIZ")
        components.append(Component(bits, bool(ssiz >> 7), dx, dy))
    if len({component.sampling for component in components}) > MAX_SAMPLINGS:
        raise UnsupportedError(f"components of more than {MAX_SAMPLINGS} different sizes", field="SIZ")
    siz = Siz(capabilities, _axis("x", x0, x1, xt0, xt), _axis("y", y0, y1, yt0, yt), tuple(components))
    if siz.tiles > MAX_TILES:
        raise MalformedError(f"{siz.tiles} tiles, where {MAX_TILES} can be numbered", field="SIZ")
    for number, component in enumerate(components):
        if siz.x.size(component.dx) < 1 or siz.y.size(component.dy) < 1:
            raise MalformedError(f"component {number} has no sample", field="SIZ")
    return siz


def _axis(name: str, start: int, stop: int, tile_start: int, tile: int) -> Axis:
    if not (start < stop and tile > 0 and tile_start <= start < tile_start + tile):
        raise MalformedError(
            f"along {name} an image from {start} to {stop}, tiles of {tile} from {tile_start}", field="SIZ"
        )
    return Axis(start, stop, tile_start, tile)


MAX_LEVELS = 32
SHORT_INDEX = 257
"""With fewer components than this their numbers take a byte."""

MARK = 0xFF
LENGTH = 2
"""Bytes of a segment's length, which it counts."""

BARE = range(0xFF30, 0xFF40)
"""Markers without a segment, which stand for themselves."""


class Marker(IntEnum):
    """Markers by the specification's names."""

    SOC = 0xFF4F
    CAP = 0xFF50
    SIZ = 0xFF51
    COD = 0xFF52
    COC = 0xFF53
    TLM = 0xFF55
    PLM = 0xFF57
    PLT = 0xFF58
    CPF = 0xFF59
    QCD = 0xFF5C
    QCC = 0xFF5D
    RGN = 0xFF5E
    POC = 0xFF5F
    PPM = 0xFF60
    PPT = 0xFF61
    CRG = 0xFF63
    COM = 0xFF64
    SOT = 0xFF90
    SOP = 0xFF91
    EPH = 0xFF92
    SOD = 0xFF93
    EOC = 0xFFD9


class Progression(IntEnum):
    """Orders of packets."""

    LRCP = 0
    RLCP = 1
    RPCL = 2
    PCRL = 3
    CPRL = 4


class Segment(NamedTuple):
    """One marker segment, and where it stands in its header."""

    marker: int
    start: int
    data: bytes
    """All of it, its marker included."""

    @property
    def body(self) -> bytes:
        """Its contents, behind marker and length."""
        return self.data[4:]


@dataclass(frozen=True)
class Style:
    """What COD says of all components."""

    progression: int
    layers: int
    color_transform: bool
    levels: int
    reversible: bool


type Head = Callable[[int], bytes | memoryview]
"""Returns the four bytes at an offset, fewer at the end."""

ENDS = {Marker.SOT, Marker.SOD, Marker.EOC}
"""Markers that end a header."""


class Step(NamedTuple):
    """A marker of a header, and where its segment ends."""

    marker: int
    at: int
    stop: int
    head: bytes
    """The marker and what follows it: four bytes, fewer at the end."""

    @property
    def is_end(self) -> bool:
        """Whether the marker ends a header."""
        return self.marker in ENDS

    @property
    def is_sound(self) -> bool:
        """Whether here are a marker and, unless it is a bare one, a length."""
        if self.marker >> 8 != MARK:
            return False
        return self.marker in BARE or int.from_bytes(self.head[2:], "big") >= LENGTH

    def refusal(self, where: str, field: str | None) -> MalformedError:
        """Return the error for bytes that are no segment, `where` such as `no marker segment`."""
        return MalformedError(f"{self.head.hex(' ') or 'nothing'} {where}", offset=self.at, field=field)


def steps(head: Head, at: int) -> Iterator[Step]:
    """Yield the markers of a header from an offset on, without an end: the caller stops where it has to.

    A segment without a sound length counts as one of no content.
    """
    while True:
        four = bytes(head(at))
        marker = int.from_bytes(four[:2], "big")
        length = 0 if marker in BARE else max(int.from_bytes(four[2:], "big"), LENGTH)
        yield Step(marker, at, at + 2 + length, four)
        at += 2 + length


def segments(header: bytes | memoryview, start: int = 2) -> Iterator[Segment]:
    """Yield the segments of a header from `start` on, to its end or to the first SOT, SOD or EOC."""
    at, end = start, len(header)
    while at + 2 <= end:
        marker = header[at] << 8 | header[at + 1]
        if marker in ENDS:
            return
        length = 0
        if marker not in BARE:
            length = int.from_bytes(header[at + 2 : at + 4], "big")
        stop = at + 2 + length
        if marker >> 8 != MARK or stop > end or (length < LENGTH and marker not in BARE):
            step = next(steps(lambda at: header[at : at + 4], at))
            raise step.refusal("where a marker segment belongs", "header")
        yield Segment(marker, at, bytes(header[at:stop]))
        at = stop


def parse_cod(segment: bytes) -> Style:
    """Return the facts of a COD segment, its marker included."""
    if len(segment) < 14:  # noqa: PLR2004  marker, Lcod, Scod, SGcod, and SPcod up to the transformation
        raise MalformedError(f"{len(segment)} bytes, of which 14 are needed", field="COD")
    _check_levels(segment[COD_STYLE], "COD")
    layers = int.from_bytes(segment[6:8], "big")
    return Style(segment[5], layers, bool(segment[8]), segment[COD_STYLE], segment[13] == 1)


def coding_styles(header: bytes | memoryview, start: int, count: int) -> Iterator[tuple[int | None, bytes]]:
    """Yield SPcod or SPcoc of each COD and COC in the header of `count` components, COC's with its component."""
    width = 1 if count < SHORT_INDEX else 2
    for segment in segments(header, start):
        if segment.marker not in {Marker.COD, Marker.COC}:
            continue
        data = segment.data
        if segment.marker == Marker.COD:
            parse_cod(data)
            component, at, has_precincts = None, COD_STYLE, data[4] & 1
        else:
            at = 5 + width
            if len(data) <= at:
                raise MalformedError(f"{len(data)} bytes, of which {at + 1} are needed", field="COC")
            component, has_precincts = int.from_bytes(data[4 : 4 + width], "big"), data[at - 1] & 1
            _check_levels(data[at], "COC")
        yield component, data[at:] if has_precincts else data[at : at + FIXED]


def _check_levels(levels: int, field: str) -> None:
    if levels > MAX_LEVELS:
        raise UnsupportedError(
            f"{levels} decomposition levels; up to {MAX_LEVELS} are read, and no extensions of T.801", field=field
        )


def levels_of(header: bytes, start: int, siz: Siz, default: int | None = None) -> int | None:
    """Return the levels that every component has, by the COD and COC of a header; `default` without a COD."""
    count = len(siz.components)
    levels = {component: style[0] for component, style in coding_styles(header, start, count)}
    default = levels.get(None, default)
    own = [number for component, number in levels.items() if component is not None and component < count]
    if default is None:
        return None
    return min(own) if len(own) == count else min([default, *own])


MAX_PIECES = 1 << 23
"""Of a tile: some 400 bytes each in OpenJPEG, 3.4 GB, where the samples may take 4."""

MAX_LOOKS = 1 << 26
"""At places where a packet may be, of a chunk: two bytes each in OpenJPEG, all together some seconds."""

POC_BYTES = 7
"""Of one progression in POC, with less than 257 components."""

LARGEST = 15
"""Exponent of the sides of the largest precinct, which COD means where it gives no sizes."""

COD_STYLE = 9
"""Where SPcod stands in COD, counted from its marker."""

FIXED = 5
"""Bytes of SPcod and SPcoc before the precincts."""


@dataclass(frozen=True)
class Styles:
    """How the components of a tile are coded, as far as it decides over a decoder's time and memory."""

    layers: int = 1
    orders: int = 1
    """How many progressions follow one another: that of COD, and those of POC."""

    default: bytes = b""
    """SPcod of COD; nothing where there is no COD."""

    own: Mapping[int, bytes] = field(default_factory=dict)
    """SPcoc of the components that have a COC."""

    pieces: int = field(default=0, compare=False)
    """Code-blocks and precincts of a tile, once `check_pieces` has counted them."""

    def check_bytes(self, nbytes: int) -> None:
        """Refuse a tile with more code-blocks and precincts than its bytes can stand for."""
        most = CODE_BLOCKS.of_size(nbytes)
        if self.pieces > most:
            message = f"{nbytes} bytes of a tile in {self.pieces} code-blocks and precincts; {most} are decoded"
            raise UnsupportedError(message, field="COD")

    def after(self, header: bytes | memoryview, start: int, count: int) -> "Styles":
        """Return what holds for `count` components after one more header: a tile's COD comes before the file's COC."""
        layers, orders, default, own = self.layers, self.orders, self.default, dict(self.own)
        for segment in segments(header, start):
            if segment.marker == Marker.COD:
                layers, own = parse_cod(segment.data).layers, {}
            elif segment.marker == Marker.POC:
                orders += len(segment.body) // (POC_BYTES if count < SHORT_INDEX else POC_BYTES + 2)
        for component, style in coding_styles(header, start, count):
            if component is None:
                default = style
            elif component < count:
                own[component] = style
        return Styles(layers, orders, default, own)


def check_pieces(
    siz: Siz, header: bytes | memoryview, start: int = 2, *, before: Styles | None = None, tiles: int = 1
) -> Styles:
    """Refuse tiles that cost a decoder more than pixels may, by the COD, COC and POC of a header.

    OpenJPEG makes room for all code-blocks and precincts before it decodes, at reduced resolutions too: blocks of
    4 x 4 samples, which a header of a hundred bytes can ask for, cost 25 bytes a sample.  It then looks at every place
    where a packet may be: precincts in layers, resolutions and components, whether bytes are there or not.

    `before` is what headers said before this one, `tiles` how many tiles a chunk is made of.
    """
    count = len(siz.components)
    known = Styles() if before is None else before
    styles = known.after(header, start, count)
    if before is not None and styles == before:
        return before
    wide, high = (min(axis.tile, axis.stop - axis.start) for axis in (siz.x, siz.y))
    coded = Counter((styles.own.get(number, styles.default), part) for number, part in enumerate(siz.components))
    costs = [(times, _cost(style, part.dx, part.dy, wide, high)) for (style, part), times in coded.items() if style]
    if not costs:
        return styles
    pieces = sum(times * cost.pieces for times, cost in costs)
    styles = replace(styles, pieces=pieces)
    if pieces > MAX_PIECES:
        raise UnsupportedError(
            f"tiles of {high} x {wide} in {pieces} code-blocks and precincts: "
            f"no more than {MAX_PIECES} are decoded at once",
            field="COD",
        )
    steps = min(cost.across for _, cost in costs), min(cost.down for _, cost in costs)
    places = math.prod(side // step + 2 for side, step in zip((wide, high), steps, strict=True))
    each = styles.layers * max(cost.precincts for _, cost in costs) + places
    looks = tiles * styles.orders * count * max(cost.resolutions for _, cost in costs) * each
    if looks > MAX_LOOKS:
        raise UnsupportedError(
            f"tiles of {high} x {wide} with {looks} places for packets of {styles.layers} layers: "
            f"no more than {MAX_LOOKS} are decoded at once",
            field="COD",
        )
    return styles


class Cost(NamedTuple):
    """What one component of a tile costs."""

    pieces: int
    """Code-blocks and precincts."""

    precincts: int
    """Of the resolution that has the most."""

    resolutions: int
    across: int
    down: int
    """Points of the reference grid from one precinct to the next, where they are smallest."""


@lru_cache(maxsize=64)
def _cost(style: bytes, dx: int, dy: int, wide: int, high: int) -> Cost:
    """Return the cost of a component sampled every `dx` and `dy` points of a tile."""
    if len(style) < FIXED:
        raise MalformedError(f"{len(style)} bytes of a coding style, of which {FIXED} are needed", field="COC")
    levels = min(style[0], MAX_LEVELS)
    block = (style[1] & 15) + 2, (style[2] & 15) + 2
    pieces, most, across, down = 0, 0, 1 << MAX_LEVELS, 1 << MAX_LEVELS
    for number in range(levels + 1):
        size = style[FIXED + number] if len(style) > FIXED + number else LARGEST << 4 | LARGEST
        precinct = size & 15, size >> 4
        scale, less = levels - number, min(number, 1)
        blocks, precincts = (3 if number else 1), 1
        for side, largest, exponent in zip((-(-wide // dx), -(-high // dy)), precinct, block, strict=True):
            length = min(exponent, max(largest - less, 0))
            here = -(-side >> scale)
            band = -(-here >> less)
            blocks *= -(-band >> length)
            precincts *= -(-here >> largest)
        pieces += blocks + precincts
        most = max(most, precincts)
        across, down = min(across, dx << precinct[0] + scale), min(down, dy << precinct[1] + scale)
    return Cost(pieces, most, levels + 1, across, down)
