"""A JPEG 2000 codestream to virtual arrays, for every scanner of files that hold one.

May touch the layout of codestreams and the model.  Which bytes a chunk needs, and of which samples
it is, follows from the main header alone: layout/jpeg2000_chunks.py.

The picture of a file whose components differ in size: one array of all of them, on the reference grid.

May touch the layouts of JPEG 2000 and the model.  The components themselves stay in groups of their own.
Spec: docs/formats/jpeg2000.md

A codestream, bare or in JP2, JPX or JPH boxes, to virtual groups: a group for each resolution level.

May touch the layouts of JPEG 2000, the model, and the read-ahead that it is given.
Spec: ITU-T T.800, T.814; docs/formats/jpeg2000.md
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from jnrrdz.core.arrays import Node, VirtualArray, VirtualGroup
from jnrrdz.core.codecs import Jpeg2000Config, Jpeg2000WindowConfig
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats.jpeg2000.boxes import Boxes, Colour, parse_colour
from jnrrdz.formats.jpeg2000.codestream import Codestream, find_codestream, needed_parts, parse_codestream
from jnrrdz.formats.jpeg2000.grid import ChunkGrid, check_composite, is_sycc
from jnrrdz.formats.jpeg2000.markers import Component, Marker, check_pieces
from jnrrdz.formats.jpeg2000.metadata import Geo, Meaning, geo_of, meaning_of
from jnrrdz.formats.jpeg2000.tile_parts import TileParts
from jnrrdz.formats.jpeg2000.windows import Windows
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.url import local_path

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
        codecs=(config,),
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


SYCC = 18
IN_ORDER: tuple[dict[int, tuple[int, int]], ...] = ({}, {0: (0, 1), 1: (0, 2), 2: (0, 3)})
"""What may be said of the channels of a picture whose components are Y, Cb and Cr."""

RGB = {"color_space": "sRGB", "colorinterp": ["red", "green", "blue"], "converted_from": "sYCC"}


def composite_levels(codestream: Codestream) -> int:
    """Return how many levels of all components there are on one grid, 0 where there is no such picture."""
    count = 0
    try:
        while count < 1 + codestream.levels:
            finest = check_composite(codestream.siz, count)
            if count >= level_count(codestream, (finest,)):
                break
            count += 1
    except UnsupportedError:
        pass
    return count


def is_converted(codestream: Codestream, boxes: Boxes | None) -> bool:
    """Whether the file says that its components are those of sYCC, and readers show them as RGB."""
    try:
        colour = Colour() if boxes is None else parse_colour(boxes)
    except JnrrdzError:
        return False
    return colour.space == SYCC and colour.channels in IN_ORDER and is_sycc(codestream.siz.components)


def composite_array(
    codestream: Codestream, url: str, *, level: int, is_rgb: bool, attributes: Mapping[str, Any]
) -> VirtualArray:
    """Return the array of all components at one level, the coarser ones repeated."""
    siz = codestream.siz
    finest = check_composite(siz, level)
    # chunks, and the tile-parts that they need, are those of the finest component
    array = codestream_array(codestream, url, level=level, components=(finest,))
    codec = cast("Jpeg2000Config", array.codecs[0])
    config = replace(codec, components=(), upsample=True, sycc_to_rgb=is_rgb)
    count = len(siz.components)
    repeated = [number for number, one in enumerate(siz.components) if (one.dx, one.dy) != (1, 1)]
    dtype = sample_dtype(siz.components)
    return replace(
        array,
        shape=(count, *array.shape),
        chunks=(count, *array.chunks),
        dtype=dtype,
        fill_value=dtype.type(0),
        codecs=(config,),
        dimension_names=("band", *array.dimension_names),
        attributes={**attributes, "upsampled_components": repeated, **(RGB if is_rgb else {})},
    )


VARIABLE = "data"
COMPOSITE = "composite"


def scan_jpeg2000(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:  # noqa: ARG001  no file beside one is looked for yet
    """Return the group of a file: its only image, or a group for each of its images."""
    far = local_path(url) is None
    try:
        start, stop, boxes = find_codestream(read, 0, read.size)
        spans = [(start, stop)] if boxes is None else boxes.codestreams
        heads = options.precinct_windows == "always"
        found = [parse_codestream(read, *span, far=far, heads=heads) for span in spans]
        cuts = [Windows(one, read, url, options.precinct_windows or "auto", far=far) for one in found]
        if len(cuts) == 1:
            return _file(cuts[0], boxes, options)
        # what the boxes say, they say of the first one
        images = [_file(one, None if number else boxes, options) for number, one in enumerate(cuts)]
        return VirtualGroup({f"image_{number}": image for number, image in enumerate(images)})
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__


def _file(windows: Windows, boxes: Boxes | None, options: ScanOptions) -> VirtualGroup:
    """Return the group of one codestream: its image, or one for each size that its components have."""
    codestream = windows.codestream
    geo = geo_of(boxes)
    groups = component_groups(codestream)
    images = {
        f"component_{names[0]}" if len(names) == 1 else f"components_{names[0]}_{names[-1]}": _image(
            windows, names, (geo, meaning_of(codestream, boxes, names, options)), options
        )
        for names in groups
    }
    if len(images) == 1:
        return next(iter(images.values()))
    # the first group is what a reader shows who names none
    return VirtualGroup({**_composite(windows, boxes, geo, options), **images})


def _composite(windows: Windows, boxes: Boxes | None, geo: Geo, options: ScanOptions) -> dict[str, Node]:
    """Return the group of all components together, where they can be brought to one grid."""
    codestream = windows.codestream
    count = composite_levels(codestream) if options.overviews else min(composite_levels(codestream), 1)
    if not count:
        return {}
    meaning = meaning_of(codestream, boxes, range(len(codestream.siz.components)), options)
    attributes, is_rgb = meaning.array | geo.array_attributes(), is_converted(codestream, boxes)
    arrays = [
        composite_array(codestream, windows.url, level=level, is_rgb=is_rgb, attributes=attributes)
        for level in range(count)
    ]
    return {COMPOSITE: _levels(arrays, geo, meaning)}


def _image(windows: Windows, names: Sequence[int], known: tuple[Geo, Meaning], options: ScanOptions) -> VirtualGroup:
    """Return the group of some components: their variable, or a group for each level."""
    (geo, meaning), codestream = known, windows.codestream
    count = level_count(codestream, names) if options.overviews else 1
    arrays = [
        codestream_array(
            codestream,
            windows.url,
            level=level,
            components=names,
            attributes=meaning.array | geo.array_attributes(),
            palette=meaning.palette,
            windows=windows,
        )
        for level in range(count)
    ]
    siz = codestream.siz
    full = siz.y.size(min(one.dy for one in siz.components)), siz.x.size(min(one.dx for one in siz.components))
    return _levels(arrays, geo.at_level(full, (arrays[0].shape[-2], arrays[0].shape[-1])), meaning)


def _levels(arrays: Sequence[VirtualArray], geo: Geo, meaning: Meaning) -> VirtualGroup:
    """Return the group of the only array, or of a group for each level, finest first."""
    shapes = [(array.shape[-2], array.shape[-1]) for array in arrays]
    levels: list[VirtualGroup] = []
    for array, shape in zip(arrays, shapes, strict=True):
        here = geo.at_level(shapes[0], shape)
        about = {} if levels else meaning.group
        children: dict[str, Node] = {VARIABLE: array, **here.variables()}
        levels.append(VirtualGroup(children, {**about, **here.group_attributes(shape)}))
    if len(levels) == 1:
        return levels[0]
    named: dict[str, Node] = {str(number): level for number, level in enumerate(levels)}
    return VirtualGroup(named, geo.levels_attributes(shapes))
