"""The `jnrrdz.tile` codec, array to bytes: one tile of a JNRRD, of which the chunk may be a part.

Follows docs/codecs/jnrrdz.tile/README.md.  No decoder is ever given more room than the tile's own size, and that
only where so many stored bytes can become it.  Other bytes may stand behind a compressed stream: gzip's and bzip2's
decoders tell where it ends, of zstd and LZ4 the frames themselves are read (RFC 8878 section 3.1, and
https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md).
"""

import bz2
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.codecs import RATIO, REPEATED, TILE, StoredPart, TileConfig
from jnrrdz.core.configuration import SLACK
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.compressors import frames, members, new_gzip

type Octets = NDArray[np.uint8]

_NEW: Mapping[str, Callable[[], Any]] = {"gzip": new_gzip, "bzip2": bz2.BZ2Decompressor}


@dataclass(frozen=True)
class TileCoder:
    """Tiles of one array: chunks of one shape and type."""

    config: TileConfig
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fill_value: Any

    def __post_init__(self) -> None:
        """Refuse arrays that the configuration is not for."""
        if len(self.shape) != len(self.config.axes):
            raise MalformedError(f"{len(self.config.axes)} axes for chunks of {self.shape}", field=TILE)
        if self.dtype.kind not in "iufcb":
            raise UnsupportedError(f"data type {self.dtype}", field=TILE)
        if self.dtype.itemsize > 1 and self.config.endian is None:
            raise MalformedError("no endian, where elements have several bytes", field=TILE)

    def decode(self, data: bytes | memoryview, expected: int | None = None) -> NDArray[Any]:
        """Return a chunk; `expected` is the number of the kind that it has to be, where that is known."""
        view = memoryview(data).cast("B")
        kind, octets = self._raw(view) if self.config.compression == "raw" else self._packed(view)[:2]
        if expected is not None and kind is not self.config.kinds[expected]:
            own, other = ("x".join(map(str, one.shape)) for one in (kind, self.config.kinds[expected]))
            raise MalformedError(f"a tile of {own} elements, where one of {other} belongs", field=TILE)
        order: Literal["<", ">"] = "<" if self.config.endian == "little" else ">"
        elements = octets.view(self.dtype.newbyteorder(order)).reshape(kind.shape)
        if kind.shape == self.shape:
            return elements
        # the chunk begins where a part of the tile does: cut, or filled up
        part = elements[tuple(slice(first, None) for first in kind.origin)]
        common = tuple(map(min, part.shape, self.shape))
        part = part[tuple(map(slice, common))]
        if common == self.shape:
            return part
        chunk = np.full(self.shape, self.fill_value, self.dtype)
        chunk[tuple(map(slice, common))] = part
        return chunk

    def stored(self, data: bytes | memoryview) -> memoryview:
        """Return what of a chunk's bytes is its tile as it is stored: all of it, where the chunk begins with it."""
        view = memoryview(data).cast("B")
        if self.config.compression == "raw":
            return view[self._raw_kind(view)[1] :]
        return view[: len(view) - self._packed(view)[2]]

    @cached_property
    def _by_length(self) -> Mapping[int, tuple[StoredPart, int]]:
        """Kind and number of bytes before it by the length of a raw chunk."""
        itemsize = self.dtype.itemsize
        extras = self.config.raw_extras(itemsize)
        kinds = self.config.kinds
        return {
            (kind.size - kind.first) * itemsize + extra: (kind, extra)
            for kind, extra in zip(kinds, extras, strict=True)
        }

    def _raw_kind(self, data: memoryview) -> tuple[StoredPart, int]:
        if len(data) not in self._by_length:
            known = ", ".join(map(str, list(self._by_length)[:4]))
            raise MalformedError(f"{len(data)} bytes; {known} are expected", field=TILE)
        return self._by_length[len(data)]

    def _raw(self, data: memoryview) -> tuple[StoredPart, Octets]:
        kind, extra = self._raw_kind(data)
        octets = np.frombuffer(data, np.uint8)[extra:]
        if not kind.first:
            return kind, octets
        whole = np.empty(kind.size * self.dtype.itemsize, np.uint8)
        whole[-len(octets) :] = octets  # what lies before is no part of the chunk
        return kind, whole

    @cached_property
    def _by_extra(self) -> Mapping[tuple[int, int], StoredPart]:
        """The kind by its bytes and those beside it."""
        itemsize = self.dtype.itemsize
        return {
            (kind.size * itemsize, extra): kind
            for kind, extra in zip(self.config.kinds, self.config.extras, strict=True)
        }

    def _packed(self, data: memoryview) -> tuple[StoredPart, Octets, int]:
        """Return the kind of a compressed tile, its bytes, and how many stand behind it."""
        best: tuple[StoredPart, Octets, int] | None = None
        try:
            for octets, rest in self._streams(data):
                beside = rest
                if self.config.repeated:  # lengths were guessed: only bytes that repeat the tile's head count
                    beside = rest - REPEATED if rest > REPEATED and data[-rest:] == data[:rest] else 0
                kind = self._by_extra.get((len(octets), beside))
                if kind is not None:
                    best = kind, octets, rest
                if best is not None and not (self.config.repeated and rest):
                    return best
        except MalformedError:
            if best is None:
                raise  # else it is only what stands behind the tile that is no stream
        if best is None:
            sizes = ", ".join(f"{size}" for size in sorted({size for size, _ in self._by_extra})[:4])
            raise MalformedError(f"damaged, or of other bytes than the {sizes} expected", field=self.config.compression)
        return best

    def _streams(self, data: memoryview) -> Iterator[tuple[Octets, int]]:
        """Yield what the first streams make and how many bytes are behind them, after each stream."""
        compression = self.config.compression
        sizes = [size for size, _ in self._by_extra]
        most = min(max(sizes), len(data) * RATIO[compression] + SLACK)
        if most < min(sizes):
            raise MalformedError(f"{len(data)} bytes cannot become a tile of {min(sizes)}", field=compression)
        try:
            if compression in _NEW:
                yield from _members(_NEW[compression], data, most)
            else:
                yield from frames(compression, data, most)
        except (RuntimeError, ValueError, OSError, EOFError, zlib.error) as error:
            raise MalformedError(f"damaged, or longer than {most} bytes: {error}", field=compression) from error


def _members(new: Callable[[], Any], data: memoryview, most: int) -> Iterator[tuple[Octets, int]]:
    """Yield what the first members make together and how many bytes are behind them, after each member."""
    parts: list[bytes] = []
    for part, rest in members(new, data, most):
        parts.append(part)
        yield np.frombuffer(parts[0] if len(parts) == 1 else b"".join(parts), np.uint8), rest
