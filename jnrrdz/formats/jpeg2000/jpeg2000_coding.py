"""How one JPEG 2000 codestream is coded, as far as its packets and subbands depend on it.

May touch errors, the markers and the SIZ segment; pure.  Whatever makes components, tiles or parts of a tile
differ from COD and QCD (COC, QCC, POC, RGN, packed packet headers, HTJ2K) is refused by name, because then a
window cannot be put together from packets alone.
Spec: ITU-T T.800 (https://www.itu.int/rec/T-REC-T.800), A.6 (COD, QCD) and B.3 (tiles)
"""

import struct
from dataclasses import dataclass

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.jpeg2000_markers import MAX_LEVELS, Marker, Progression, parse_cod, segments
from jnrrdz.formats.jpeg2000.jpeg2000_siz import Siz, parse_siz

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
LARGEST = 15
"""The exponent of the largest precinct, which is what COD means where it gives no sizes."""


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
    found: dict[int, bytes] = {}
    for one in segments(header):
        refuse(one.marker, REFUSED, one.start)
        found[one.marker] = header[one.start : one.stop]
    missing = [marker.name for marker in (Marker.SIZ, Marker.COD, Marker.QCD) if marker not in found]
    if missing:
        raise MalformedError(f"no {' and no '.join(missing)} before the first tile-part", field="main header")
    siz = parse_siz(found[Marker.SIZ])
    try:
        return _coded(siz, found[Marker.COD], found[Marker.QCD][4:])
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
    sizes = cod[14 : 15 + general.levels] if coded & 1 else b"\xff" * (general.levels + 1)
    return Coding(
        siz=siz,
        progression=Progression(general.progression),
        layers=general.layers,
        transform=general.color_transform,
        levels=general.levels,
        blocks=((across & 15) + 2, (down & 15) + 2),
        style=style,
        reversible=general.reversible,
        precincts=_precincts(sizes, general.levels),
        sop=bool(coded & 2),
        eph=bool(coded & 4),
        guard=qcd[0] >> 5,
        steps=_steps(qcd, general.levels),
    )


def _precincts(sizes: bytes, levels: int) -> tuple[tuple[int, int], ...]:
    pairs = tuple((size & 15, size >> 4) for size in sizes)
    if len(pairs) != levels + 1 or any(0 in pair for pair in pairs[1:]):
        raise MalformedError("precinct sizes that do not fit the resolutions", field="COD")
    return pairs


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
