"""The SIZ marker segment of a JPEG 2000 codestream, and which tiles make up which pixels.

May touch errors only; pure.  All positions are on the reference grid until a factor (subsampling
times 2^level) brings them to the samples of a component at a resolution: `ceil(position / factor)`.
Spec: ITU-T T.800 (https://www.itu.int/rec/T-REC-T.800), A.5.1 and B.2 to B.5
"""

import math
import struct
from dataclasses import dataclass, replace

from jnrrdz.errors import MalformedError

FIELDS = struct.Struct(">HH8IH")  # Lsiz, Rsiz, X, Y, XO, YO, XT, YT, XTO, YTO, Csiz
SIZ = 0xFF51
HEAD = 2 + FIELDS.size
PER_COMPONENT = 3
MAX_COMPONENTS = 16384
MAX_BITS = 38
MAX_TILES = 65535


@dataclass(frozen=True)
class Component:
    """One component: how its samples are stored, and every how many grid points there is one."""

    bits: int
    signed: bool
    dx: int
    dy: int


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

    def part(self, first: int, count: int) -> "Axis":
        """Return the axis of `count` tiles from the tile `first` on, at the same place."""
        begin = self.tile_start + first * self.tile
        return Axis(max(self.start, begin), min(self.stop, begin + count * self.tile), begin, self.tile)

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

    def has_samples(self, row: int, column: int) -> bool:
        """Whether any component has a sample in a tile: one that has none need not be in the file."""
        y, x = self.y.part(row, 1), self.x.part(column, 1)
        return any(y.size(dy) > 0 and x.size(dx) > 0 for dx, dy in {(one.dx, one.dy) for one in self.components})

    def needed(self) -> list[int]:
        """Return the numbers of the tiles that must be in the file."""
        across = self.x.tiles
        if all((one.dx, one.dy) == (1, 1) for one in self.components):
            return list(range(self.tiles))
        return [tile for tile in range(self.tiles) if self.has_samples(*divmod(tile, across))]

    def tile(self, row: int, column: int) -> "Siz":
        """Return the image of one tile, at the same place: wavelets depend on it.

        Where all components have the same subsampling the grid is that of their samples, which are
        then the same, and which more decoders read.
        """
        y, x = self.y.part(row, 1), self.x.part(column, 1)
        (dx, dy), *others = {(one.dx, one.dy) for one in self.components}
        if others or (dx, dy) == (1, 1):
            return replace(self, x=_alone(x, 1), y=_alone(y, 1))
        components = tuple(replace(one, dx=1, dy=1) for one in self.components)
        return replace(self, x=_alone(x, dx), y=_alone(y, dy), components=components)

    def encode(self) -> bytes:
        """Return the marker segment."""
        x, y = self.x, self.y
        length = FIELDS.size + PER_COMPONENT * len(self.components)
        sizes = (x.stop, y.stop, x.start, y.start, x.tile, y.tile, x.tile_start, y.tile_start)
        head = FIELDS.pack(length, self.capabilities, *sizes, len(self.components))
        body = bytes(value for one in self.components for value in ((one.bits - 1) | (one.signed << 7), one.dx, one.dy))
        return struct.pack(">H", SIZ) + head + body


def parse_siz(segment: bytes) -> Siz:
    """Return the facts of a SIZ segment, its marker included."""
    if len(segment) < HEAD + PER_COMPONENT:
        raise MalformedError(f"{len(segment)} bytes, of which {HEAD + PER_COMPONENT} are needed", field="SIZ")
    length, capabilities, x1, y1, x0, y0, xt, yt, xt0, yt0, count = FIELDS.unpack_from(segment, 2)
    if not 1 <= count <= MAX_COMPONENTS or len(segment) != length + 2 or length != FIELDS.size + PER_COMPONENT * count:
        raise MalformedError(f"{length} bytes for {count} components", field="SIZ")
    body = segment[HEAD:]
    components = tuple(_component(body[at : at + PER_COMPONENT]) for at in range(0, len(body), PER_COMPONENT))
    found = Siz(capabilities, _axis("x", x0, x1, xt0, xt), _axis("y", y0, y1, yt0, yt), components)
    if found.tiles > MAX_TILES:
        raise MalformedError(f"{found.tiles} tiles, where {MAX_TILES} can be numbered", field="SIZ")
    for number, one in enumerate(components):
        if found.x.size(one.dx) < 1 or found.y.size(one.dy) < 1:
            raise MalformedError(f"component {number} has no sample", field="SIZ")
    return found


def _component(entry: bytes) -> Component:
    found = Component((entry[0] & 0x7F) + 1, bool(entry[0] >> 7), entry[1], entry[2])
    if found.bits > MAX_BITS or found.dx < 1 or found.dy < 1:
        raise MalformedError(f"a component of {found.bits} bits, one sample every {found.dx}x{found.dy}", field="SIZ")
    return found


def _axis(name: str, start: int, stop: int, tile_start: int, tile: int) -> Axis:
    if not (start < stop and tile > 0 and tile_start <= start < tile_start + tile):
        raise MalformedError(
            f"along {name} an image from {start} to {stop}, tiles of {tile} from {tile_start}", field="SIZ"
        )
    return Axis(start, stop, tile_start, tile)
