"""The configuration of `jnrrdz.tile`, and what the length of a chunk's bytes says about its place.

May touch errors and the model's codec entries only.  Spelt once for the scanner, which cuts the ranges, and
for the codec, which reads them; docs/codecs/jnrrdz.tile/README.md tells it all.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Self

from jnrrdz.core.codec import CodecSpec
from jnrrdz.errors import MalformedError, UnsupportedError

TILE = "jnrrdz.tile"
COMPRESSIONS = ("raw", "gzip", "bzip2", "zstd", "lz4")
ENDIANS = ("little", "big")
MOST_KINDS = 1 << 12
MOST_BYTES = 1 << 40
REPEATED = 8
"""Bytes of a tile's own head that stand before those that are counted, where lengths were guessed."""

RATIO = {"raw": 1, "gzip": 1032, "bzip2": 1 << 21, "zstd": 1 << 16, "lz4": 256}
"""How many bytes one byte can become at the most."""

SLACK = 1 << 16

type Choice = tuple[int, int]
"""Stored size of a tile along an axis, and the first of it that the chunk takes."""


def can_hold(compression: str, stored: int, decoded: int) -> bool:
    """Whether so many stored bytes can become so many; it is asked before anything is allocated."""
    return decoded <= stored * RATIO[compression] + (0 if compression == "raw" else SLACK)


@dataclass(frozen=True)
class Kind:
    """One combination of choices: what is stored, which part of it the chunk is, how its bytes are told."""

    shape: tuple[int, ...]
    origin: tuple[int, ...]
    size: int
    """Elements that are stored."""

    first: int
    """The first element that the chunk takes."""


@dataclass(frozen=True)
class TileConfig:
    """How tiles are stored; axes in the array's order, last one fastest."""

    axes: tuple[tuple[Choice, ...], ...]
    endian: str | None = None
    compression: str = "raw"
    repeated: bool = False
    """Whether the bytes that are counted repeat the head of the tile, because nothing tells where it ends."""

    def to_spec(self) -> CodecSpec:
        """Return the codec's entry in zarr.json."""
        found: dict[str, Any] = {"axes": [[list(choice) for choice in axis] for axis in self.axes]}
        if self.endian is not None:
            found["endian"] = self.endian
        if self.compression != "raw":
            found["compression"] = self.compression
        if self.repeated:
            found["repeated"] = True
        return CodecSpec(TILE, found)

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> Self:
        """Return the checked configuration."""
        unknown = set(configuration) - {"axes", "endian", "compression", "repeated"}
        if unknown:
            raise MalformedError(f"unknown members {', '.join(sorted(unknown))}", field=TILE)
        axes = configuration.get("axes")
        endian, compression = configuration.get("endian"), configuration.get("compression", "raw")
        repeated = configuration.get("repeated", False)
        if not isinstance(axes, list) or not axes or not all(map(_is_axis, axes)):
            raise MalformedError("axes are to be lists of [size, first]", field=TILE)
        if endian not in (None, *ENDIANS) or compression not in COMPRESSIONS or not isinstance(repeated, bool):
            raise MalformedError(f"endian {endian!r}, compression {compression!r}, repeated {repeated!r}", field=TILE)
        found = cls(tuple(tuple((c[0], c[1]) for c in axis) for axis in axes), endian, compression, repeated)
        found.check()
        return found

    def check(self) -> None:
        """Refuse more kinds of tiles than are told apart, and tiles larger than any."""
        if math.prod(map(len, self.axes)) > MOST_KINDS:
            raise UnsupportedError(f"more than {MOST_KINDS} kinds of tiles", field=TILE)
        if math.prod(max(size for size, _ in axis) for axis in self.axes) > MOST_BYTES:
            raise UnsupportedError(f"tiles of more than {MOST_BYTES} elements", field=TILE)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The combinations of choices, in C order."""
        return tuple(map(_kind, product(*self.axes)))

    def kind_of(self, chunk: int, grid: tuple[int, ...]) -> int | None:
        """Return the number of the kind that belongs into a chunk of a grid; None for a grid of other axes."""
        if len(grid) != len(self.axes):
            return None
        strides = [math.prod(grid[axis + 1 :]) for axis in range(len(grid))]
        number = 0
        for stride, size, axis in zip(strides, grid, self.axes, strict=True):
            number = number * len(axis) + _choice_of(chunk // stride % size, size, axis)
        return number

    @cached_property
    def extras(self) -> tuple[int, ...]:
        """For each kind how many bytes stand beside a compressed tile: kinds of one size differ in it."""
        taken: set[tuple[int, int]] = set()
        found = [0] * len(self.kinds)
        # the first kind is that of nearly all tiles, the last that of the tile behind which the file may end
        for number in (0, *range(len(found) - 1, 0, -1)):
            while (self.kinds[number].size, found[number]) in taken:
                found[number] += 1
            taken.add((self.kinds[number].size, found[number]))
        return tuple(found)

    def raw_extras(self, itemsize: int) -> tuple[int, ...]:
        """Return for each kind how many bytes stand before a raw tile's part: all lengths differ."""
        taken: set[int] = set()
        found = []
        for kind in self.kinds:
            length = extra = (kind.size - kind.first) * itemsize
            while length in taken:
                length += 1
            taken.add(length)
            found.append(length - extra)
        return tuple(found)


def _choice_of(chunk: int, chunks: int, axis: tuple[Choice, ...]) -> int:
    """Return which choice a chunk along an axis is: whole tiles, the last one, what is left of the last one."""
    rests = sum(first > 0 for _, first in axis)
    last = chunks - rests - 1
    starts = len(axis) - rests
    return 0 if chunk < last else starts - 1 + chunk - last


def _is_axis(axis: Any) -> bool:
    return isinstance(axis, list) and bool(axis) and all(map(_is_choice, axis))


def _is_choice(choice: Any) -> bool:
    if not isinstance(choice, list) or len(choice) != len(("size", "first")):
        return False
    return all(type(part) is int for part in choice) and 0 <= choice[1] < choice[0] <= MOST_BYTES


def _kind(choices: tuple[Choice, ...]) -> Kind:
    shape, origin = tuple(size for size, _ in choices), tuple(first for _, first in choices)
    at = 0
    for size, first in choices:
        at = at * size + first
    return Kind(shape, origin, math.prod(shape), at)
