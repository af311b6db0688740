"""Tile-parts of a codestream to arrays: each tile becomes a codestream of its own, for whichever library decodes it.

Which chunk it is, and so which samples of its tiles, follows from the numbers of the tiles in it.  A tile stays where
it is on the reference grid and gets a new number; pointers into the file go; packed packet headers (PPM) are dealt out
again.  The sizes that the main header declares are compared with the chunk's before anything is decoded.

imagecodecs' OpenJPEG decodes components that are all alike, its OpenJPH reversible HTJ2K, libopenjp2 through glymur
(the extra `openjp2`) components that differ in precision, sign or size.  Those of several sizes become one array: the
coarse ones are repeated, or given as sYCC to a decoder that makes RGB of it.
Spec: docs/codecs/jpeg2000/README.md; ITU-T T.800, annex I (JP2), G.1 (DC level shift); T.814 (HTJ2K);
IEC 61966-2-1, amendment 1 (sYCC)
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.configuration import Samples
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.colours import Palette
from jnrrdz.formats.jpeg2000.boxes import SIGNATURE, SYCC
from jnrrdz.formats.jpeg2000.codecs import JPEG2000, Jpeg2000Config, Jpeg2000WindowConfig
from jnrrdz.formats.jpeg2000.grid import COLOURS, ChunkGrid, check_composite, is_sycc
from jnrrdz.formats.jpeg2000.levels import check_packets
from jnrrdz.formats.jpeg2000.markers import (
    Component,
    Marker,
    Segment,
    Siz,
    check_pieces,
    parse_cod,
    parse_siz,
    segments,
)
from jnrrdz.formats.jpeg2000.openjpeg import binding, decode_components
from jnrrdz.formats.jpeg2000.packets import tile_part
from jnrrdz.formats.jpeg2000.tile_parts import EOC, SOD, SOT, SOT_BYTES, SOT_LENGTH

HT_BIT = 1 << (32 - 15)
"""Of Pcap in CAP: the stream follows part 15."""

SPARE = 3
"""Bits by which samples may leave their range: the wavelet's gain, and that of the colour transform."""

WIDTHS = (16, 24)
"""Bits to declare: imagecodecs gives two bytes a sample for the first, four for the second."""


def spare_bits(main: list[Segment], component: Component) -> int | None:
    """Return as how many bits samples are to be declared to OpenJPH; None where it is not to decode them."""
    by_marker = {segment.marker: segment.data for segment in main}
    if Marker.CAP not in by_marker or Marker.COD not in by_marker:
        return None
    is_ht = bool(int.from_bytes(by_marker[Marker.CAP][4:8], "big") & HT_BIT)
    # irreversible samples are rounded, and each library has its own way
    if not is_ht or not parse_cod(by_marker[Marker.COD]).reversible:
        return None
    return next((width for width in WIDTHS if component.bits + SPARE <= width), None)


def decode_wide(stream: bytes, level: int, component: Component) -> NDArray[Any]:
    """Return the components of a codestream declared with spare bits, in the range that `component` has.

    OpenJPH takes a third of OpenJPEG's time.  It lets samples that leave their range wrap around, which they do at
    every reduced resolution; OpenJPEG clips them.  So it is told of signed samples with bits to spare, for which it
    shifts and clips nothing, and both is done here.
    """
    samples: NDArray[Any] = np.asarray(imagecodecs.htj2k_decode(stream, planar=True, skipres=level))
    half = 1 << (component.bits - 1)
    if component.signed:
        return np.clip(samples, -half, half - 1, out=samples)
    np.add(samples, half, out=samples)
    return np.clip(samples, 0, 2 * half - 1, out=samples)


SIZ_AT = 8
"""Where a codestream says where its image ends and begins: behind SOC, and marker, length and Rsiz of SIZ."""


class Composite:
    """Puts the components of one codestream's tiles together at one resolution level."""

    def __init__(self, siz: Siz, level: int, *, is_rgb: bool) -> None:
        """Refuse what has no one answer."""
        self.finest = check_composite(siz, level)
        self.is_rgb = is_rgb
        self.steps = [(component.dy, component.dx) for component in siz.components]
        if is_rgb and not is_sycc(siz.components):
            raise MalformedError("sycc_to_rgb where the components are not those of sYCC", field="jpeg2000")
        self.bits = siz.components[0].bits

    def joined(self, planes: Sequence[NDArray[np.int32]], size: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the components of a tile of `size` rows and columns, which begins where all have a sample."""
        if len(planes) != len(self.steps):
            raise MalformedError(f"{len(planes)} components where {len(self.steps)} belong", field="jpeg2000")
        whole = np.empty((len(planes), *size), dtype)
        for plane, (down, across), target in zip(planes, self.steps, whole, strict=True):
            needed = -(-size[0] // down), -(-size[1] // across)
            if plane.shape[0] < needed[0] or plane.shape[1] < needed[1]:
                raise MalformedError(f"{plane.shape} samples where a tile has {needed}", field="jpeg2000")
            for row in range(down):
                for column in range(across):
                    place = target[row::down, column::across]
                    place[...] = plane[: place.shape[0], : place.shape[1]]
        return whole

    def sycc(self, codestream: bytes) -> bytes:
        """Return a JP2 file of one tile that says of its components that they are those of sYCC."""
        right, bottom, left, top = struct.unpack_from(">4I", codestream, SIZ_AT)
        ihdr = struct.pack(">IIHBBBB", bottom - top, right - left, len(self.steps), self.bits - 1, 7, 0, 0)
        colr = struct.pack(">BBBI", 1, 0, 0, SYCC)
        head = _box(b"ftyp", b"jp2 \0\0\0\0jp2 ") + _box(b"jp2h", _box(b"ihdr", ihdr) + _box(b"colr", colr))
        return SIGNATURE + head + _box(b"jp2c", codestream)


def _box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body


SOC = b"\xff\x4f"
REPLACED = {Marker.SIZ, Marker.TLM, Marker.PLM, Marker.PPM}
PPM_ROOM = 65532
MAX_PPM = 256
MOST_PARTS = 255
"""Tile-parts of a tile: a byte counts them."""


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
    parts: list[Part] = []
    ranks: dict[int, int] = {}
    at = 0
    while at < len(data) and bytes(data[at : at + 2]) != EOC:
        head = bytes(data[at : at + SOT_BYTES])
        if len(head) < SOT_BYTES or not head.startswith(b"\xff\x90\0\x0a"):
            raise MalformedError(f"{head[:4].hex(' ')} in a chunk where a tile-part begins", field="SOT")
        _, _, tile, length, _, announced = SOT.unpack(head)
        # only the last tile-part of a file may leave its length open, and a chunk ends with it
        stop = at + length if length else len(data)
        if tile >= tiles:
            raise MalformedError(f"a tile-part of tile {tile}, where there are {tiles}", field="Isot")
        is_cut = may_cut and not at and stop > len(data)
        stop = len(data) if is_cut else stop
        if (length and length <= SOT_BYTES) or stop > len(data):
            raise MalformedError(f"a tile-part of {length} bytes, {len(data) - at} are left in the chunk", field="Psot")
        rank = ranks.get(tile, 0)
        ranks[tile] = rank + 1
        if rank >= MOST_PARTS:
            raise MalformedError(f"more than {MOST_PARTS} tile-parts of tile {tile} in a chunk", field="TPsot")
        parts.append(Part(tile, at, stop, rank, announced, is_cut))
        at = stop
    if not parts:
        raise MalformedError(f"no tile-part in {len(data)} bytes", field="SOT")
    return parts


def main_segments(header: bytes) -> bytes:
    """Return the segments of a main header that are the same for each of its tiles."""
    return b"".join(segment.data for segment in segments(header) if segment.marker not in REPLACED)


class Header:
    """The main header of one array, taken apart once."""

    def __init__(self, header: bytes, siz: Siz, tile_parts: Sequence[int]) -> None:
        self.siz = siz
        self.kept = main_segments(header)
        self._packed = _series([segment.body for segment in segments(header) if segment.marker == Marker.PPM])
        self._numbers: dict[tuple[int, int], int] = {}
        """Of each tile and rank, the tile-part's number in the file."""
        ranks: dict[int, int] = {}
        for number, tile in enumerate(tile_parts):
            self._numbers[tile, ranks.get(tile, 0)] = number
            ranks[tile] = ranks.get(tile, 0) + 1

    def codestream(self, data: bytes | memoryview, parts: Sequence[Part], signed_bits: int | None = None) -> bytes:
        """Return a codestream of the tile-parts of one tile, its samples declared as signed ones of so many bits."""
        siz = self.siz.tile(*divmod(parts[0].tile, self.siz.x.tiles))
        if signed_bits is not None:
            wide = tuple(replace(component, bits=signed_bits, signed=True) for component in siz.components)
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
        pieces = []
        for part in parts:
            number = self._numbers.get((part.tile, part.rank))
            if number is None or number >= len(self._packed):
                raise MalformedError(f"no packet headers for tile-part {part.rank} of tile {part.tile}", field="PPM")
            pieces += [struct.pack(">I", len(self._packed[number])), self._packed[number]]
        stream = b"".join(pieces)
        for number, at in enumerate(range(0, len(stream), PPM_ROOM)):
            body = stream[at : at + PPM_ROOM]
            if number >= MAX_PPM:
                raise MalformedError("more packed packet headers than PPM segments hold", field="PPM")
            yield struct.pack(">HHB", Marker.PPM, len(body) + 3, number) + body


def completed(data: bytes | memoryview, parts: Sequence[Part], packets: bytes) -> tuple[bytes, list[Part]]:
    """Return the tile-parts of one tile followed by other packets, and their positions.

    The last tile-part loses its header: its packet lengths (PLT) are no longer true.
    """
    *before, last = parts
    pieces = [bytes(data[part.start : part.stop]) for part in before]
    body = tile_part(lambda start, stop: bytes(data[start:stop]), last.start, last.stop)
    sot = bytes(data[last.start : last.start + SOT_BYTES])
    pieces.append(sot + SOD + bytes(data[body.start : body.stop]) + packets)
    moved, at = [], 0
    for part, piece in zip(parts, pieces, strict=True):
        moved.append(replace(part, start=at, stop=at + len(piece), is_cut=False))
        at += len(piece)
    return b"".join(pieces), moved


def _series(bodies: Sequence[bytes]) -> list[bytes]:
    """Return the packet headers of each tile-part of the file, in its order."""
    stream = b"".join(body[1:] for body in sorted(bodies, key=lambda body: body[:1]))
    headers: list[bytes] = []
    at = 0
    while at + 4 <= len(stream):
        length = int.from_bytes(stream[at : at + 4], "big")
        if at + 4 + length > len(stream):
            raise MalformedError(f"{length} bytes of packet headers, {len(stream) - at - 4} are left", field="PPM")
        headers.append(stream[at + 4 : at + 4 + length])
        at += 4 + length
    return headers


IMAGECODECS_BITS = 26
"""As many as imagecodecs' decoder holds exactly."""

DECODER_ERRORS = (RuntimeError, ValueError, TypeError, NotImplementedError, OverflowError, MemoryError)
"""What imagecodecs raises at bytes that it cannot decode."""


class Jpeg2000Decoder:
    """Decodes the chunks of one array; safe to use from many threads."""

    def __init__(self, config: Jpeg2000Config, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any) -> None:
        self.config, self.shape, self.dtype, self.fill_value = config, shape, dtype, fill_value
        header = config.main_header
        main = list(segments(header))
        if not main or main[0].marker != Marker.SIZ:
            raise MalformedError("main_header does not begin with SOC and SIZ", field=JPEG2000)
        siz = parse_siz(main[0].data)
        self._header = Header(header, siz, config.tile_parts)
        self._components = config.components or tuple(range(len(siz.components)))
        if max(self._components) >= len(siz.components):
            raise MalformedError(f"component {max(self._components)} of {len(siz.components)}", field=JPEG2000)
        self._composite = self._composed(siz)
        first = self._components[0] if self._composite is None else self._composite.finest
        self._grid = ChunkGrid(siz, siz.components[first], config.resolution_level)
        self._styles = check_pieces(siz, header, tiles=self._grid.most_tiles)
        self._is_regular = is_regular(siz.components)
        self._wide = spare_bits(main, siz.components[0]) if self._is_regular else None
        self._palette = component_palette(config.palette, len(self._components), dtype, JPEG2000)
        self._grid.check_samples()
        bands = len(self._components) if self._palette is None else COLOURS
        expected = (*((bands,) if bands > 1 else ()), *self._grid.chunk)
        if shape != expected:
            raise MalformedError(f"chunks of shape {shape} where the main header makes them {expected}", field=JPEG2000)

    def _composed(self, siz: Siz) -> Composite | None:
        """Return what brings components of several sizes together, where that is asked for."""
        config = self.config
        if config.upsample:
            if config.components or config.palette is not None:
                raise MalformedError("upsample is for all components, and for no palette", field=JPEG2000)
            return Composite(siz, config.resolution_level, is_rgb=config.sycc_to_rgb)
        if config.sycc_to_rgb:
            raise MalformedError("sycc_to_rgb without upsample", field=JPEG2000)
        if len({siz.components[number].sampling for number in self._components}) > 1:
            raise MalformedError("components of several sizes in one array", field=JPEG2000)
        return None

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the chunk's pixels, short ones padded with the fill value."""
        by_tile: dict[int, list[Part]] = {}
        for part in parts_of(data, self._grid.siz.tiles, may_cut=bool(self.config.resolution_level)):
            by_tile.setdefault(part.tile, []).append(part)
        row, column = self._grid.place(list(by_tile))
        rows, columns = self._grid.tiles(row, column)
        boxes = self._grid.box(row, column)
        if len(rows) == len(columns) == 1 and tuple(stop - start for start, stop in boxes) == self.shape[-2:]:
            # the common case, spared the copy into a larger array
            (first,) = self._grid.numbers((rows, columns))
            return self._tile(data, by_tile[first]).astype(self.dtype, copy=False).reshape(self.shape)
        bands = self.shape[0] if len(self.shape) == COLOURS else 1
        whole = np.full((bands, *self.shape[-2:]), self.fill_value, self.dtype)
        for number in self._grid.numbers((rows, columns)):
            tile = self._grid.tile_box(number)
            (top, bottom), (left, right) = (
                (max(start, low), min(stop, high)) for (start, stop), (low, high) in zip(tile, boxes, strict=True)
            )
            if top >= bottom or left >= right:
                continue  # a tile without samples at this level, which decoders refuse
            (y, _), (x, _) = tile
            pixels = self._tile(data, by_tile[number])[:, top - y : bottom - y, left - x : right - x]
            (y, _), (x, _) = boxes
            whole[:, top - y : bottom - y, left - x : right - x] = pixels
        return whole.reshape(self.shape)

    def _tile(self, data: bytes | memoryview, parts: list[Part]) -> NDArray[Any]:
        """Return the wanted components of one tile, as bands, rows and columns."""
        level = self.config.resolution_level
        styles = self._styles
        for part in parts:
            start = part.start + SOT_BYTES
            styles = check_pieces(self._grid.siz, data, start, before=styles, tiles=self._grid.most_tiles)
        styles.check_bytes(len(data))
        if level and (parts[0].is_cut or max(part.announced for part in parts) != len(parts)):
            spans = [(part.start, part.stop) for part in parts]
            empty = check_packets(data, spans, self.config.main_header, parts[0].tile, level)
            if empty:
                data, parts = completed(data, parts, empty)
        rows, columns = (stop - start for start, stop in self._grid.tile_box(parts[0].tile))
        planes = self._decoded(data, parts)
        if planes.shape[1] < rows or planes.shape[2] < columns:
            raise MalformedError(f"{planes.shape[1:]} samples where a tile has {(rows, columns)}", field=JPEG2000)
        # at an odd origin OpenJPEG gives a row or column too many
        planes = planes[:, :rows, :columns]
        return planes if self._palette is None else self._palette.look_up(planes[0])

    def _decoded(self, data: bytes | memoryview, parts: list[Part]) -> NDArray[Any]:
        """Return the wanted components of one tile, perhaps with a row or column too many."""
        is_rgb = self._composite is not None and self._composite.is_rgb
        if not self._is_regular and not is_rgb:
            stream = self._header.codestream(data, parts)
            level = self.config.resolution_level
            if self._composite is None:
                return self._components_of(stream, level, data, parts)
            components = decode_components(stream, level)
            (top, bottom), (left, right) = self._grid.tile_box(parts[0].tile)
            return self._composite.joined(components, (bottom - top, right - left), self.dtype)
        try:
            pixels = self._by_imagecodecs(data, parts)
        except DECODER_ERRORS as error:
            nbytes = sum(part.stop - part.start for part in parts)
            raise MalformedError(
                f"tile {parts[0].tile}, {nbytes} bytes in {len(parts)} tile-parts, does not decode: {error}",
                field=JPEG2000,
            ) from error
        planes = pixels if pixels.ndim == COLOURS else pixels[np.newaxis]
        if len(planes) != len(self._grid.siz.components):
            raise MalformedError(f"{len(planes)} components where {len(self._components)} belong", field=JPEG2000)
        return planes[list(self._components)] if self.config.components else planes

    def _components_of(self, stream: bytes, level: int, data: bytes | memoryview, parts: list[Part]) -> NDArray[Any]:
        """Return the wanted components of a codestream of one tile.

        Others may have no samples in the tile at this level, and libopenjp2 refuses to decode them.
        A colour transform needs all of its components.
        """
        headers = [segments(self.config.main_header)]
        headers += [segments(data, part.start + SOT_BYTES) for part in parts]
        styles = [parse_cod(segment.data) for segment in chain.from_iterable(headers) if segment.marker == Marker.COD]
        if any(style.color_transform for style in styles):
            components = decode_components(stream, level)
            return np.stack([components[number] for number in self._components])
        return np.stack(decode_components(stream, level, self._components))

    def _by_imagecodecs(self, data: bytes | memoryview, parts: list[Part]) -> NDArray[Any]:
        level = self.config.resolution_level
        if self._wide is not None:
            stream = self._header.codestream(data, parts, self._wide)
            with suppress(*DECODER_ERRORS):  # OpenJPEG reads more of the standard
                return decode_wide(stream, level, self._grid.siz.components[0])
        stream = self._header.codestream(data, parts)
        if self._composite is not None:
            stream = self._composite.sycc(stream)
        return np.asarray(imagecodecs.jpeg2k_decode(stream, planar=True, skipres=level))


def component_palette(entries: bytes | None, count: int, dtype: np.dtype[Any], codec: str) -> Palette | None:
    """Return the colours of the values of the only component; None without a palette."""
    if entries is None:
        return None
    if dtype != np.uint8 or count != 1:
        raise MalformedError(f"a palette of {len(entries)} bytes for {count} components of {dtype}", field=codec)
    return Palette(entries, codec)


def chunk_of(config: Jpeg2000Config) -> tuple[int, ...]:
    """Return the shape of the chunks that a configuration makes."""
    siz = _siz(config.main_header)
    numbers = config.components or tuple(range(len(siz.components)))
    if max(numbers) >= len(siz.components):
        raise MalformedError(f"component {max(numbers)} of {len(siz.components)}", field=JPEG2000)
    first = check_composite(siz, config.resolution_level) if config.upsample else numbers[0]
    bands = (len(numbers),) if len(numbers) > 1 else ()
    return *bands, *ChunkGrid(siz, siz.components[first], config.resolution_level).chunk


def component_samples(main_header: bytes, wanted: Sequence[int] = ()) -> list[Samples]:
    """Return what the wanted components of a main header hold, of all where none is named."""
    components = _components(main_header)
    numbers = wanted or range(len(components))
    if max(numbers) >= len(components):
        raise MalformedError(f"component {max(numbers)} of {len(components)}", field=JPEG2000)
    kinds = {Samples("i" if components[number].signed else "u", components[number].bits) for number in numbers}
    return sorted(kinds)


def tile_samples(config: Jpeg2000Config) -> list[Samples]:
    """Return what chunks of `jpeg2000` hold."""
    return component_samples(config.main_header, config.components)


def window_samples(config: Jpeg2000WindowConfig) -> list[Samples]:
    """Return what chunks of `jnrrdz.jpeg2000-window` hold."""
    return component_samples(config.main_header)


def _components(header: bytes) -> tuple[Component, ...]:
    return _siz(header).components


def _siz(header: bytes) -> Siz:
    if int.from_bytes(header[2:4], "big") != Marker.SIZ:
        raise MalformedError("main_header does not begin with SOC and SIZ", field=JPEG2000)
    return parse_siz(header[2 : 4 + int.from_bytes(header[4:6], "big")])


def lack(configuration: Mapping[str, Any]) -> str | None:
    """Return why chunks of `jpeg2000` cannot be decoded in this environment, None if they can."""
    config = Jpeg2000Config.from_json(configuration)
    components = _components(config.main_header)
    if is_regular(components) or config.sycc_to_rgb:
        return None
    try:
        binding()
    except UnsupportedError as error:
        return error.message
    return None


def is_regular(components: Sequence[Component]) -> bool:
    """Whether imagecodecs decodes components: they are all alike, and not too wide."""
    return len(set(components)) == 1 and components[0].bits <= IMAGECODECS_BITS
