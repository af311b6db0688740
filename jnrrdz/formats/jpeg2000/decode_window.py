"""A window of a large tile, decoded from the packets of the precincts that it needs.

Each resolution becomes a codestream of its own: the area that the chunk's precincts cover, at its real coordinates,
with one decomposition level whose LL packets are empty.  Precincts and code-blocks are then those of the source, bit
for bit, however little of the image the window is.  The decoder is told that the coefficients are reversible and have
a bit-plane more, so that it hands out exact integers; its last step, a 5/3 synthesis without LL, is undone, and the
window is put together here, with the wavelet, transform and rounding of the source.

Arrays end in (row, column), `origin` is the coordinate of their first column and row: its parity tells low samples
(even) from high ones (odd).  What lies beyond an array's edge is taken as its mirror image: right at the edges of a
tile, and elsewhere wrong no further inwards than the wavelet reaches.  Products and sums of the 9/7 wavelet are
carried out in float32 and in the order in which OpenJPEG does, so that both round alike.
Spec: ITU-T T.800, annexes F (wavelets) and G (component transforms); docs/codecs/jnrrdz.jpeg2000-window/README.md
"""

import math
import struct
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.configuration import check_type
from jnrrdz.errors import MalformedError
from jnrrdz.formats.jpeg2000.codecs import JPEG2000_WINDOW, Jpeg2000WindowConfig
from jnrrdz.formats.jpeg2000.decode import DECODER_ERRORS, component_palette, component_samples
from jnrrdz.formats.jpeg2000.grid import COLOURS, MAX_SAMPLES
from jnrrdz.formats.jpeg2000.markers import LARGEST, Marker, Progression
from jnrrdz.formats.jpeg2000.packets import Box, Coding, Resolution, Share, band_box, bands, coding, is_empty
from jnrrdz.formats.jpeg2000.tile_parts import SOT_BYTES
from jnrrdz.formats.jpeg2000.windows import DEPTH, WindowGrid, check_section, parse_chunk

type Samples = NDArray[Any]

ALPHA, BETA, GAMMA, DELTA = (np.float32(x) for x in (-1.586134342, -0.052980118, 0.882911075, 0.443506852))
LOW = np.float32(1.230174105)
HIGH = np.float32(1.625732422)  # OpenJPEG's 2/K, which takes the place of the subband gains


def synthesis(samples: Samples, origin: tuple[int, int], *, reversible: bool) -> Samples:
    """Turn interleaved subbands into the samples of their resolution, in place: rows, then columns."""
    if not samples.size:
        return samples
    inverse = _inverse53 if reversible else _inverse97
    inverse(samples, origin[0] & 1)
    inverse(samples.swapaxes(-1, -2), origin[1] & 1)
    return samples


def analysis53(samples: Samples, origin: tuple[int, int]) -> Samples:
    """Turn samples into interleaved subbands, in place: what `synthesis` of the 5/3 wavelet undoes."""
    _forward53(samples.swapaxes(-1, -2), origin[1] & 1)
    _forward53(samples, origin[0] & 1)
    return samples


def _sums(w: Samples, start: int) -> Samples:
    """Return the sum of both neighbours of each second column from `start` on."""
    other, first = w[..., 1 - start :: 2], 1 - start
    sums = np.empty_like(w[..., start::2])  # in the memory order of `w`, which may be transposed
    inner = first + other.shape[-1] - 1
    np.add(other[..., :-1], other[..., 1:], out=sums[..., first:inner])
    if first:
        sums[..., 0] = 2 * other[..., 0]
    if inner < sums.shape[-1]:
        sums[..., -1] = 2 * other[..., -1]
    return sums


def _inverse53(w: Samples, odd: int) -> None:
    """Undo the 5/3 wavelet along rows; `odd` is the parity of the first column's coordinate."""
    if w.shape[-1] == 1:
        if odd:
            w[...] = np.trunc(w / 2).astype(w.dtype)
        return
    w[..., odd::2] -= (_sums(w, odd) + 2) >> 2
    w[..., 1 - odd :: 2] += _sums(w, 1 - odd) >> 1


def _forward53(w: Samples, odd: int) -> None:
    if w.shape[-1] == 1:
        w[...] <<= odd
        return
    w[..., 1 - odd :: 2] -= _sums(w, 1 - odd) >> 1
    w[..., odd::2] += (_sums(w, odd) + 2) >> 2


def _inverse97(w: Samples, odd: int) -> None:
    if w.shape[-1] == 1:
        return
    low, high = w[..., odd::2], w[..., 1 - odd :: 2]
    low *= LOW
    high *= HIGH
    low -= _sums(w, odd) * DELTA
    high -= _sums(w, 1 - odd) * GAMMA
    low -= _sums(w, odd) * BETA
    high -= _sums(w, 1 - odd) * ALPHA


def inverse_components(planes: list[Samples], *, reversible: bool) -> list[Samples]:
    """Undo the component transform of the first three planes."""
    y, u, v = planes[:3]
    if reversible:
        green = y - ((u + v) >> 2)
        return [v + green, green, u + green, *planes[3:]]
    red = y + v * np.float32(1.402)
    green = y - (u * np.float32(0.34413) + v * np.float32(0.71414))
    return [red, green, y + u * np.float32(1.772), *planes[3:]]


ALONE = {order: Progression.RLCP if order.name.endswith("CP") else Progression.RPCL for order in Progression}
"""The progression in which a resolution's packets follow each other as in the source, after those of LL."""
TRANSFORMED = 3
"""Components that the component transform mixes."""


def decode_window(grid: WindowGrid, sot: bytes, data: bytes | memoryview) -> Samples:
    """Return a chunk's pixels as (component, row, column), cut where the image ends.

    `sot` is the tile's first SOT marker segment, which begins each of the chunk's sections.
    """
    place, sections = parse_chunk(grid, sot, bytes(data))
    shares = grid.shares(*place)
    parts: dict[int, list[Samples]] = {}
    for (number, components), packets in zip(grid.sections(), sections, strict=True):
        decoded = coefficients(grid.coding, shares[number], number, components, packets)
        parts.setdefault(number, []).extend(decoded)
    planes = [assembled(grid.coding, shares, component, parts) for component in range(len(grid.coding.siz.components))]
    window = grid.window(*place)
    return finished(grid.coding, [crop(plane, shares[-1].need, window) for plane in planes])


def coefficients(
    coding: Coding, share: Share, number: int, components: tuple[int, ...], packets: bytes
) -> list[Samples]:
    """Return a resolution's coefficients, interleaved, over what the window needs of it, for each component.

    Irreversible ones are in half steps, as the decoder's reconstruction leaves them.
    """
    box = share.cover
    check_section(coding, share, number, components, packets)
    if is_empty(share.need):
        shape = max(share.need[3] - share.need[1], 0), max(share.need[2] - share.need[0], 0)
        return [np.zeros(shape, np.int32) for _ in components]
    stream = window_codestream(coding, share, number, components, packets)
    try:
        decoded = np.asarray(imagecodecs.jpeg2k_decode(stream, planar=True))
    except DECODER_ERRORS as error:
        raise MalformedError(f"packets of resolution {number} that do not decode: {error}") from error
    expected = (len(components), box[3] - box[1], box[2] - box[0])
    if decoded.size != np.prod(expected) or decoded.dtype != np.int32:
        raise MalformedError(f"resolution {number} decodes to {decoded.shape} {decoded.dtype}, not {expected} int32")
    planes = decoded.reshape(expected)
    if number:
        planes = analysis53(planes, box[:2])
    extra = _lone_planes(box, number)
    if extra:
        planes = np.sign(planes) * (np.abs(planes) >> extra)
    return [crop(plane, box, share.need) for plane in planes]


def window_codestream(coding: Coding, share: Share, number: int, components: tuple[int, ...], packets: bytes) -> bytes:
    """Return a codestream of one resolution's precincts alone, with an LL of empty packets above the lowest one."""
    levels, box = min(number, 1), share.cover
    tile = box[2] - box[0], box[3] - box[1], box[0], box[1]
    siz = struct.pack(">H8IH", 0, box[2], box[3], box[0], box[1], *tile, len(components))
    siz += struct.pack("3B", 0x80 | DEPTH - 1, 1, 1) * len(components)
    style = 1 | coding.sop << 1 | coding.eph << 2
    order = ALONE[coding.progression]
    precincts = [(LARGEST, LARGEST)] * levels + [coding.precincts[number]]
    blocks = (coding.blocks[0] - 2, coding.blocks[1] - 2)
    cod = struct.pack(">BBHB5B", style, order, coding.layers, 0, levels, *blocks, coding.style, 1)
    cod += bytes(across | down << 4 for across, down in precincts)
    more = (not coding.reversible) + _lone_planes(box, number)
    exponents = [0] * levels + [exponent + more for exponent, _ in coding.steps_of(number)]
    qcd = bytes([coding.guard << 5, *(exponent << 3 for exponent in exponents)])
    lowest = Resolution(band_box(box, (0, 0)), (LARGEST, LARGEST)).count * levels * len(components) * coding.layers
    body = (b"\x00" + b"\xff\x92" * coding.eph) * lowest + packets
    sot = struct.pack(">4sHIBB", b"\xff\x90\x00\x0a", 0, len(body) + 14, 0, 1)
    main = b"".join(
        struct.pack(">HH", marker, len(content) + 2) + content
        for marker, content in ((Marker.SIZ, siz), (Marker.COD, cod), (Marker.QCD, qcd))
    )
    return b"\xff\x4f" + main + sot + b"\xff\x93" + body + b"\xff\xd9"


def _lone_planes(box: Box, number: int) -> int:
    """Return the bit-planes that are added where a box is one sample at an odd coordinate.

    The 5/3 wavelet halves such a sample; multiplied before and divided after, nothing of it is lost.
    """
    lone = sum(first & 1 and last - first == 1 for first, last in ((box[0], box[2]), (box[1], box[3])))
    return lone + 1 if number and lone else 0


def assembled(coding: Coding, shares: list[Share], component: int, parts: dict[int, list[Samples]]) -> Samples:
    """Return one component's samples, put together from all resolutions' coefficients, lowest first."""
    depth = coding.siz.components[component].bits
    samples = dequantized(coding, parts[0][component], depth, 0, (0, 0))
    for number in range(1, len(shares)):
        need, below = shares[number].need, shares[number - 1].need
        origin, lower = need[:2], samples
        samples = dequantized(coding, parts[number][component], depth, number, origin)
        samples[origin[1] & 1 :: 2, origin[0] & 1 :: 2] = crop(lower, below, band_box(need, (0, 0)))
        samples = synthesis(samples, origin, reversible=coding.reversible)
    return samples


def dequantized(coding: Coding, plane: Samples, depth: int, number: int, origin: tuple[int, int]) -> Samples:
    """Return coefficients in the units of the samples: integers if reversible, else float32."""
    if coding.reversible:
        return plane
    samples = plane.astype(np.float32)
    if not number:
        samples *= _half_step(coding.steps[0], depth)
        return samples
    for (x, y), step in zip(bands(number), coding.steps_of(number), strict=True):
        samples[(origin[1] + y) & 1 :: 2, (origin[0] + x) & 1 :: 2] *= _half_step(step, depth)
    return samples


def _half_step(step: tuple[int, int], depth: int) -> np.float32:
    exponent, mantissa = step
    return np.float32(0.5) * np.float32((1 + mantissa / 2048) * 2.0 ** (depth - exponent))


def crop(plane: Samples, box: Box, part: Box) -> Samples:
    """Return the part of a plane that covers a box."""
    return plane[part[1] - box[1] : part[3] - box[1], part[0] - box[0] : part[2] - box[0]]


def finished(coding: Coding, planes: list[Samples]) -> Samples:
    """Return samples as they were before they were coded: components transformed, rounded, shifted, clipped."""
    if coding.transform and len(planes) >= TRANSFORMED:  # fewer: the decoder ignores it, as others do
        planes = inverse_components(planes, reversible=coding.reversible)
    clipped = []
    for plane, part in zip(planes, coding.siz.components, strict=True):
        whole = plane if coding.reversible else np.rint(plane).astype(np.int64)
        half = 1 << (part.bits - 1)
        clipped.append(np.clip(whole, -half, half - 1) if part.signed else np.clip(whole + half, 0, 2 * half - 1))
    return np.stack(clipped)


class WindowedDecoder:
    """Decodes the chunks of one array; safe to use from many threads."""

    def __init__(
        self, config: Jpeg2000WindowConfig, shape: tuple[int, ...], dtype: np.dtype[Any], fill_value: Any
    ) -> None:
        self.config, self.shape, self.dtype, self.fill_value = config, shape, dtype, fill_value
        self._coding = coding(config.main_header)
        self._chunk = (shape[-2], shape[-1]) if len(shape) > 1 else (0, 0)
        self._grids: dict[int, WindowGrid] = {}
        components = self._coding.siz.components
        self._palette = component_palette(config.palette, len(components), dtype, JPEG2000_WINDOW)
        bands = len(components) if self._palette is None else COLOURS
        samples = math.prod(self._chunk) * len(components)
        if shape != (*((bands,) if bands > 1 else ()), *self._chunk) or not 0 < samples <= MAX_SAMPLES:
            raise MalformedError(
                f"chunks of shape {shape} where the main header has {len(components)} components",
                field=JPEG2000_WINDOW,
            )
        if self._palette is None:
            for stored in component_samples(config.main_header):
                check_type(dtype, stored, JPEG2000_WINDOW)

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the chunk's pixels, short ones padded with the fill value."""
        sot = bytes(data[:SOT_BYTES])
        pixels = decode_window(self._grid(sot), sot, data)
        if self._palette is not None:
            pixels = self._palette.look_up(pixels[0])
        whole = np.full((len(pixels), *self._chunk), self.fill_value, self.dtype)
        whole[:, : pixels.shape[1], : pixels.shape[2]] = pixels
        return whole.reshape(self.shape)

    def _grid(self, sot: bytes) -> WindowGrid:
        """Return the windows of the tile that a chunk's first bytes name."""
        tile = int.from_bytes(sot[4:6], "big")
        if len(sot) < SOT_BYTES or int.from_bytes(sot[:2], "big") != Marker.SOT or tile >= self._coding.siz.tiles:
            raise MalformedError(
                f"a chunk begins with {sot.hex(' ') or 'nothing'}, no SOT of one of {self._coding.siz.tiles} tiles",
                field="SOT",
            )
        grid = self._grids.get(tile)
        if grid is None:
            grid = WindowGrid(self._coding, self._coding.tile_box(tile), self.config.resolution_level, self._chunk)
            self._grids[tile] = grid
        return grid
