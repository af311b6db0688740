"""A window of a large JPEG 2000 tile, decoded from the packets of the precincts that it needs.

May touch numpy, imagecodecs, errors, the `jpeg2000_*` layouts and the wavelet.  Each resolution becomes a
codestream of its own: the area that the chunk's precincts cover, at its real coordinates, with one
decomposition level whose LL packets are empty.  Precincts and code-blocks are then those of the source, bit
for bit, however little of the image the window is.  The decoder is told that the coefficients are reversible
and have a bit-plane more, so that it hands out exact integers; its last step, a 5/3 synthesis without LL, is
undone, and the window is put together here, with the wavelet, transform and rounding of the source.
Spec: ITU-T T.800.
"""

import struct
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError
from jnrrdz.formats.jpeg2000.jpeg2000_coding import LARGEST, Box, Coding
from jnrrdz.formats.jpeg2000.jpeg2000_markers import Progression
from jnrrdz.formats.jpeg2000.jpeg2000_precincts import Resolution, Share, band_box, bands, is_empty
from jnrrdz.formats.jpeg2000.jpeg2000_wavelet import analysis53, inverse_components, synthesis
from jnrrdz.formats.jpeg2000.jpeg2000_windows import DEPTH, Grid, check_section, parse_chunk

type Samples = NDArray[Any]

ALONE = {one: Progression.RLCP if one.name.endswith("CP") else Progression.RPCL for one in Progression}
"""The progression in which a resolution's packets follow each other as in the source, after those of LL."""
TRANSFORMED = 3
"""Components that the component transform mixes."""

DECODER_ERRORS = (imagecodecs.Jpeg2kError, ValueError, RuntimeError, OverflowError, MemoryError)


class WindowDecoder:
    """Decodes the chunks of one grid: `chunk_ranges` of the layout says what is in them."""

    def __init__(self, grid: Grid, sot: bytes, dtype: np.dtype[Any], fill_value: Any = 0) -> None:
        self.grid, self.sot = grid, sot
        self.dtype, self.fill_value = dtype, fill_value
        self.coding = grid.coding

    def decode(self, data: bytes | memoryview) -> Samples:
        """Return a chunk's pixels as (component, row, column), padded with the fill value."""
        pixels = self.window(data)
        whole = np.full((len(self.coding.siz.components), *self.grid.chunk), self.fill_value, self.dtype)
        whole[:, : pixels.shape[1], : pixels.shape[2]] = pixels
        return whole

    def window(self, data: bytes | memoryview) -> Samples:
        """Return a chunk's pixels without padding."""
        place, sections = parse_chunk(self.grid, self.sot, bytes(data))
        shares = self.grid.shares(*place)
        parts: dict[int, list[Samples]] = {}
        for (number, components), packets in zip(self.grid.sections(), sections, strict=True):
            found = coefficients(self.coding, shares[number], number, components, packets)
            parts.setdefault(number, []).extend(found)
        planes = [
            assembled(self.coding, shares, component, parts) for component in range(len(self.coding.siz.components))
        ]
        window = self.grid.window(*place)
        return finished(self.coding, [crop(plane, shares[-1].need, window) for plane in planes])


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
        found = np.asarray(imagecodecs.jpeg2k_decode(stream, planar=True))
    except DECODER_ERRORS as error:
        raise MalformedError(f"packets of resolution {number} that do not decode: {error}") from error
    expected = (len(components), box[3] - box[1], box[2] - box[0])
    if found.size != np.prod(expected) or found.dtype != np.int32:
        raise MalformedError(f"resolution {number} decodes to {found.shape} {found.dtype}, not {expected} int32")
    planes = found.reshape(expected)
    if number:
        planes = analysis53(planes, box[:2])
    extra = _lone_planes(box, number)
    if extra:
        planes = np.sign(planes) * (np.abs(planes) >> extra)
    return [crop(plane, box, share.need) for plane in planes]


def window_codestream(coding: Coding, share: Share, number: int, components: tuple[int, ...], packets: bytes) -> bytes:
    """Return a codestream of one resolution's precincts alone, with an LL of empty packets above the lowest one."""
    levels, box = min(number, 1), share.cover
    siz = struct.pack(">H8IH", 0, box[2], box[3], box[0], box[1], *_tile(box), len(components))
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
    body = _empty(coding, box, len(components)) * levels + packets
    sot = struct.pack(">4sHIBB", b"\xff\x90\x00\x0a", 0, len(body) + 14, 0, 1)
    main = b"".join(_segment(marker, content) for marker, content in ((0x51, siz), (0x52, cod), (0x5C, qcd)))
    return b"\xff\x4f" + main + sot + b"\xff\x93" + body + b"\xff\xd9"


def _lone_planes(box: Box, number: int) -> int:
    """Return the bit-planes that are added where a box is one sample at an odd coordinate.

    The 5/3 wavelet halves such a sample; multiplied before and divided after, nothing of it is lost.
    """
    lone = sum(first & 1 and last - first == 1 for first, last in ((box[0], box[2]), (box[1], box[3])))
    return lone + 1 if number and lone else 0


def _tile(box: Box) -> Box:
    """Return XTsiz, YTsiz, XTOsiz and YTOsiz of one tile that is a box."""
    return box[2] - box[0], box[3] - box[1], box[0], box[1]


def _segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content


def _empty(coding: Coding, box: Box, components: int) -> bytes:
    """Return the empty packets of a box's LL subband."""
    count = Resolution(band_box(box, (0, 0)), (LARGEST, LARGEST)).count
    return (b"\x00" + b"\xff\x92" * coding.eph) * (count * components * coding.layers)


def assembled(coding: Coding, shares: list[Share], component: int, parts: dict[int, list[Samples]]) -> Samples:
    """Return one component's samples, put together from all resolutions' coefficients, lowest first."""
    depth = coding.siz.components[component].bits
    found = dequantized(coding, parts[0][component], depth, 0, (0, 0))
    for number in range(1, len(shares)):
        need, below = shares[number].need, shares[number - 1].need
        origin = need[:2]
        samples = dequantized(coding, parts[number][component], depth, number, origin)
        samples[origin[1] & 1 :: 2, origin[0] & 1 :: 2] = crop(found, below, band_box(need, (0, 0)))
        found = synthesis(samples, origin, reversible=coding.reversible)
    return found


def dequantized(coding: Coding, plane: Samples, depth: int, number: int, origin: tuple[int, int]) -> Samples:
    """Return coefficients in the units of the samples: integers if reversible, else float32."""
    if coding.reversible:
        return plane
    found = plane.astype(np.float32)
    if not number:
        found *= _half_step(coding.steps[0], depth)
        return found
    for (x, y), step in zip(bands(number), coding.steps_of(number), strict=True):
        found[(origin[1] + y) & 1 :: 2, (origin[0] + x) & 1 :: 2] *= _half_step(step, depth)
    return found


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
    found = []
    for plane, part in zip(planes, coding.siz.components, strict=True):
        whole = plane if coding.reversible else np.rint(plane).astype(np.int64)
        half = 1 << (part.bits - 1)
        found.append(np.clip(whole, -half, half - 1) if part.signed else np.clip(whole + half, 0, 2 * half - 1))
    return np.stack(found)
