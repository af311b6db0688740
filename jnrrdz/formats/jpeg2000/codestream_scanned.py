"""A JPEG 2000 codestream to virtual arrays, for every scanner of files that hold one.

May touch the layout of codestreams and the model.  Which bytes a chunk needs, and of which samples
it is, follows from the main header alone: layout/jpeg2000_chunks.py.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from jnrrdz.core.array import VirtualArray
from jnrrdz.core.codec_jpeg2000 import Jpeg2000Config
from jnrrdz.core.codec_jpeg2000_window import Jpeg2000WindowConfig
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.jpeg2000.jpeg2000_chunks import ChunkGrid
from jnrrdz.formats.jpeg2000.jpeg2000_cost import check_pieces
from jnrrdz.formats.jpeg2000.jpeg2000_header import Codestream
from jnrrdz.formats.jpeg2000.jpeg2000_levels import needed_parts
from jnrrdz.formats.jpeg2000.jpeg2000_markers import Marker
from jnrrdz.formats.jpeg2000.jpeg2000_siz import Component
from jnrrdz.formats.jpeg2000.tile_parts import TileParts
from jnrrdz.formats.jpeg2000.windows import Windows

DECODED_BITS = 31
BYTE = 8
LEFT_OUT = {Marker.TLM, Marker.PLM}
"""Pointers into the file, of no use to a decoder that is given a part of it."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


def component_groups(codestream: Codestream) -> list[tuple[int, ...]]:
    """Return the components that can share an array, those of equal subsampling, in order."""
    found: dict[tuple[int, int], list[int]] = {}
    for number, one in enumerate(codestream.siz.components):
        found.setdefault((one.dx, one.dy), []).append(number)
    return [tuple(numbers) for numbers in found.values()]


def level_count(codestream: Codestream, components: Sequence[int] = ()) -> int:
    """Return how many resolutions there are, the full one included: none of them is as small as the one before.

    Where no component is named, each group of equal subsampling has that many.
    """
    if not components:
        return min(level_count(codestream, names) for names in component_groups(codestream))
    names, count = list(components), 1
    while count <= codestream.levels:
        last, here = (_grid(codestream, names, level).shape for level in (count - 1, count))
        if last == here or min(here) < 1:
            break
        count += 1
    return count


def codestream_array(  # noqa: PLR0913  each is a fact that a scanner may know
    codestream: Codestream,
    url: str,
    *,
    level: int = 0,
    components: Sequence[int] = (),
    attributes: Mapping[str, Any] = NOTHING,
    fill_value: Any = 0,
    palette: bytes | None = None,
    windows: Windows | None = None,
) -> VirtualArray:
    """Return the array of some components (all where none is named) at one resolution level.

    Dimensions are `(band, y, x)`, or `(y, x)` for one component.  `palette`, red, green and blue of
    each value in turn, asks for colours in place of the indices of the one component.  Chunks are
    tiles, or the windows that tiles are cut into.
    """
    names = list(components) or list(range(len(codestream.siz.components)))
    grid = _grid(codestream, names, level)
    bands = 3 if palette is not None else len(names)
    lead = (bands,) if bands > 1 else ()
    dtype = np.dtype("u1") if palette is not None else sample_dtype([codestream.siz.components[one] for one in names])
    every = len(names) == len(codestream.siz.components)
    cut = windows.cut(level) if every and windows is not None else None
    config: Jpeg2000Config | Jpeg2000WindowConfig
    if cut is not None:
        chunk, refs = cut
        config = Jpeg2000WindowConfig(plain_header(codestream), level, palette)
    else:
        grid.check_samples("" if windows is None else windows.why_whole)
        check_pieces(codestream.siz, codestream.header)
        chunk, refs = grid.chunk, _refs(needed_parts(codestream, level, grid), grid, url)
        config = Jpeg2000Config(
            main_header=plain_header(codestream),
            resolution_level=level,
            components=() if every else tuple(names),
            tile_parts=tuple(codestream.parts.tile.tolist()) if codestream.bodies(Marker.PPM) else (),
            palette=palette,
        )
    return VirtualArray(
        shape=(*lead, *grid.shape),
        dtype=dtype,
        chunks=(*lead, *chunk),
        codecs=(config.to_spec(),),
        refs=refs,
        dimension_names=("band", "y", "x") if lead else ("y", "x"),
        fill_value=dtype.type(fill_value),
        attributes=attributes,
    )


def plain_header(codestream: Codestream) -> bytes:
    """Return the main header without pointers into the file."""
    kept = [codestream.header[one.start : one.stop] for one in codestream.segments if one.marker not in LEFT_OUT]
    return b"".join([codestream.header[:2], *kept])


def sample_dtype(components: Sequence[Component]) -> np.dtype[Any]:
    """Return the narrowest type that holds every sample of some components."""
    widest = max(one.bits for one in components)
    if widest > DECODED_BITS:
        raise UnsupportedError(f"samples of {widest} bits; up to {DECODED_BITS} are decoded", field="SIZ")
    signed = any(one.signed for one in components)
    bits = max(one.bits + (signed and not one.signed) for one in components)
    width = next(width for width in (1, 2, 4) if bits <= BYTE * width)
    return np.dtype(f"{'i' if signed else 'u'}{width}")


def _grid(codestream: Codestream, names: Sequence[int], level: int) -> ChunkGrid:
    components = [codestream.siz.components[one] for one in names]
    if len({(one.dx, one.dy) for one in components}) > 1:
        raise UnsupportedError("components of different sizes in one array", field="SIZ")
    return ChunkGrid(codestream.siz, components[0], level)


def _refs(parts: TileParts, grid: ChunkGrid, url: str) -> ChunkRefs:
    """Return the tile-parts of every chunk's tiles, those that follow one another as one range."""
    chunk, tile = grid.members()
    order = np.argsort(parts.tile, kind="stable")
    pointers = np.searchsorted(parts.tile[order], np.arange(grid.siz.tiles + 1))
    counts = np.diff(pointers)[tile]
    rows = order[np.repeat(pointers[tile] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())]
    owner = np.repeat(chunk, counts)
    offset, length = parts.offset[rows], parts.length[rows]
    begins = np.ones(len(rows), bool)
    begins[1:] = (offset[1:] != offset[:-1] + length[:-1]) | (owner[1:] != owner[:-1])
    first = np.flatnonzero(begins)
    chunks = int(chunk[-1]) + 1
    indptr = np.searchsorted(owner[first], np.arange(chunks + 1)).astype(np.int64)
    source = np.broadcast_to(np.int32(0), len(first))
    return ChunkRefs((url,), indptr, source, offset[first], np.add.reduceat(length, first))
