"""The structure of a codestream: its main header, its tile-parts, and how much of them a resolution level needs.

A codestream may be any window of a source, as in JP2 or in a segment of NITF.  Tile-parts are found by TLM where the
main header has it and is right, else by walking from SOT to SOT.

Spec: ITU-T T.800 (https://www.itu.int/rec/T-REC-T.800), annex A; T.814 (HTJ2K)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.boxes import SIGNATURE, Boxes, ReadRange, parse_boxes
from jnrrdz.formats.jpeg2000.grid import ChunkGrid
from jnrrdz.formats.jpeg2000.levels import TileHeaders, is_split
from jnrrdz.formats.jpeg2000.markers import (
    Marker,
    Segment,
    Siz,
    Style,
    Styles,
    check_pieces,
    parse_cod,
    parse_siz,
    segments,
    steps,
)
from jnrrdz.formats.jpeg2000.tile_part_table import TilePartList
from jnrrdz.formats.jpeg2000.tile_parts import (
    DENSE,
    Fetch,
    TileParts,
    Walk,
    claimed_parts,
    listed_parts,
    part_heads,
    walked_parts,
)

MAGIC = b"\xff\x4f\xff\x51"
MAX_HEADER = 16 << 20
UNSUPPORTED_BITS = 1 << 15
"""Of Rsiz: the stream has extensions of part 2."""


@dataclass(frozen=True, eq=False)
class Codestream:
    """What one codestream says of itself."""

    start: int
    stop: int
    """Where it stands in the source, EOC included."""

    header: bytes
    """The main header, from SOC to before the first SOT."""

    siz: Siz
    style: Style
    levels: int
    """How many times every component of every tile can be halved, as far as headers were read."""

    parts: TileParts

    heads: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """For some tiles, the bytes of the first tile-part up to and with each resolution, lowest first."""

    is_split: bool = False
    """Whether each tile has a tile-part for each resolution, lowest first."""

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The main header's segments."""
        return tuple(segments(self.header))

    @cached_property
    def styles(self) -> Styles:
        """How tiles are coded; those that cost a decoder too much are refused."""
        return check_pieces(self.siz, self.header)

    @property
    def component_groups(self) -> list[tuple[int, ...]]:
        """The components that can share an array, those of equal subsampling, in order."""
        groups: dict[tuple[int, int], list[int]] = {}
        for number, component in enumerate(self.siz.components):
            groups.setdefault(component.sampling, []).append(number)
        return [tuple(numbers) for numbers in groups.values()]

    def bodies(self, marker: Marker) -> list[bytes]:
        """Return the contents of all segments of one kind, without marker and length."""
        return [segment.body for segment in self.segments if segment.marker == marker]


def find_codestream(read: ReadRange, start: int, stop: int) -> tuple[int, int, Boxes | None]:
    """Return where a window's codestream is, and the boxes around it (None where it stands bare)."""
    head = read(start, min(start + len(SIGNATURE), stop))
    if head.startswith(MAGIC):
        return start, stop, None
    if not head.startswith(SIGNATURE):
        raise MalformedError(f"neither a codestream nor JP2: {head[:8].hex(' ')}", offset=start, field="JPEG 2000")
    boxes = parse_boxes(read, start, stop)
    if not boxes.codestreams:
        raise UnsupportedError("no codestream in the file itself (jp2c)", offset=start, field="JP2")
    return (*boxes.codestreams[0], boxes)


def parse_codestream(  # noqa: PLR0913  what is read, and how
    read: ReadRange,
    start: int,
    stop: int,
    *,
    fetch: Fetch | None = None,
    heads: bool = False,
    listed: TilePartList | None = None,
) -> Codestream:
    """Return the facts of the codestream that begins at `start` and ends at `stop` or before.

    `fetch` reads several spans at once, of a file that is far away: a request costs more than some bytes.  The
    headers of single tiles are then left alone where TLM has their places, unless `heads` requires where each
    resolution ends; without TLM, long tile-parts are looked for at several places.  `listed` is what a table of
    others claims of the file: it replaces the walk, or does not fit and is refused.
    """
    header = _main_header(read, start, stop)
    main = list(segments(header))
    siz, style = _described(main, start)
    far = fetch is not None
    walk, tiles = Walk(read, stop, far=far), TileHeaders(header, siz)
    first = start + len(header)
    walk.is_dense = (stop - first) // siz.tiles <= DENSE
    tlm = [segment.body for segment in main if segment.marker == Marker.TLM]
    parts = None if far and heads else listed_parts(walk, tlm, first, siz)
    if parts is None and listed is not None and not (far and heads):
        parts = claimed_parts(walk, listed, first, siz, fetch)
    if parts is None:
        if fetch is not None:
            walk.heads = part_heads(fetch, first, stop, siz.tiles, whole=tiles.coding is not None)
        parts = walked_parts(walk, first, siz, tiles.see)
    elif not far:
        _, firsts = np.unique(parts.tile, return_index=True)
        for number in firsts.tolist():
            place = int(parts.offset[number]), int(parts.length[number])
            tiles.see(int(parts.tile[number]), walk.tile_header(*place))
    last = int(np.argmax(parts.offset))
    if parts.is_open:  # of a tile-part that leaves its length open no head can be told
        tiles.heads.pop(int(parts.tile[last]), None)
    end = int((parts.offset + parts.length).max())
    split = is_split(tiles, walk, parts)
    return Codestream(start, min(end + 2, stop), header, siz, style, tiles.levels, parts, tiles.heads, split)


def _main_header(read: ReadRange, start: int, stop: int) -> bytes:
    """Return the bytes from SOC to before the first SOT."""

    def head(at: int) -> bytes:
        return read(at, min(at + 4, stop)) if at < stop else b""

    for step in steps(head, start + 2):
        if step.marker == Marker.SOT:
            return read(start, step.at)
        if len(step.head) < 4 or step.marker >> 8 != 0xFF or step.is_end:  # noqa: PLR2004
            raise step.refusal("where the main header goes on", "main header")
        if step.stop - start > MAX_HEADER:
            break
    raise UnsupportedError(f"a main header of more than {MAX_HEADER} bytes", offset=start, field="main header")


def _described(main: list[Segment], start: int) -> tuple[Siz, Style]:
    """Return what SIZ and COD say; refuse extensions that are not read."""
    if not main or main[0].marker != Marker.SIZ:
        raise MalformedError("a main header that does not begin with SIZ", offset=start + 2, field="SIZ")
    cod = next((segment for segment in main if segment.marker == Marker.COD), None)
    if cod is None:
        raise MalformedError("a main header without COD", offset=start, field="COD")
    try:
        siz, style = parse_siz(main[0].data), parse_cod(cod.data)
    except MalformedError as error:
        raise error.at(offset=start) from None
    if siz.capabilities & UNSUPPORTED_BITS and siz.capabilities & ~UNSUPPORTED_BITS:
        raise UnsupportedError(
            f"extensions of part 2 (Rsiz {siz.capabilities:#06x}); parts 1 and 15 are read", offset=start, field="SIZ"
        )
    return siz, style


def needed_parts(codestream: Codestream, level: int, grid: ChunkGrid) -> TileParts:
    """Return the tile-parts that a level needs: all of them, unless each holds a resolution or its head is known."""
    parts, resolutions = codestream.parts, codestream.style.levels + 1
    if not level or codestream.levels != codestream.style.levels:
        return parts
    if codestream.is_split:
        order = np.argsort(parts.tile, kind="stable")
        rank = np.empty(len(parts), np.int64)
        rank[order] = np.arange(len(parts)) % resolutions
        kept = rank < resolutions - level
        return TileParts(parts.tile[kept], parts.offset[kept], parts.length[kept])
    if not codestream.heads or not grid.is_tiles:
        return parts
    counts, length = np.bincount(parts.tile), parts.length.copy()
    for row in np.flatnonzero(counts[parts.tile] == 1).tolist():
        ends = codestream.heads.get(int(parts.tile[row]))
        if ends is not None and ends[-1] == length[row]:
            length[row] = ends[resolutions - 1 - level]
    return TileParts(parts.tile, parts.offset, length)
