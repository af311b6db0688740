"""A codestream, bare, in JP2, JPX or JPH boxes or in a NITF, to virtual arrays: one for each resolution level.

`read_codestream` and `level_arrays` are for every scanner of files that hold a codestream.  Which bytes a chunk needs,
and of which samples it is, follows from the main header alone.  The picture of a file whose components differ in size
is one array of all of them, on the reference grid; the components themselves stay in groups of their own.
Spec: ITU-T T.800 (https://www.itu.int/rec/T-REC-T.800), T.814; docs/formats/jpeg2000.md
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.georeference import Georeference
from jnrrdz.core.pyramid import raster_pyramid
from jnrrdz.core.refs import ChunkRefs, rows_of
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.boxes import SYCC, Boxes, Colour, parse_colour
from jnrrdz.formats.jpeg2000.codecs import Jpeg2000Config, Jpeg2000WindowConfig
from jnrrdz.formats.jpeg2000.codestream import Codestream, find_codestream, needed_parts, parse_codestream
from jnrrdz.formats.jpeg2000.grid import ChunkGrid, check_composite, is_sycc
from jnrrdz.formats.jpeg2000.markers import Component, Marker, check_pieces
from jnrrdz.formats.jpeg2000.metadata import Meaning, geo_of, meaning_of
from jnrrdz.formats.jpeg2000.tile_part_table import TilePartList, TilePartTable, read_table
from jnrrdz.formats.jpeg2000.windows import Windows
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.rpc_files import RPB, RPC_TXT, find_rpc
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.url import local_path

DECODED_BITS = 31
BYTE = 8
LEFT_OUT = {Marker.TLM, Marker.PLM}
"""Pointers into the file, of no use to a decoder that is given a part of it."""

NOTHING: Mapping[str, Any] = MappingProxyType({})

IN_ORDER: tuple[dict[int, tuple[int, int]], ...] = ({}, {0: (0, 1), 1: (0, 2), 2: (0, 3)})
"""What may be said of the channels of a picture whose components are Y, Cb and Cr."""

RGB = {"color_space": "sRGB", "colorinterp": ["red", "green", "blue"], "converted_from": "sYCC"}
VARIABLE = "data"
COMPOSITE = "composite"


def read_codestream(read: ReadAhead, start: int, stop: int, url: str, options: ScanOptions) -> Windows:
    """Return the codestream from `start` to `stop` of a source, and the windows that its tiles can be cut into."""
    far = local_path(url) is None
    listed = None
    if options.tile_part_table is not None:
        listed = _claim(options.tile_part_table, url, read.size)
    codestream = parse_codestream(
        read,
        start,
        stop,
        fetch=read.fetch if far else None,
        heads=options.precinct_windows == "always",
        listed=listed,
    )
    return Windows(codestream, read, url, options.precinct_windows or "auto", far=far)


def _claim(table: str, url: str, size: int) -> TilePartList | None:
    """Return what a table of others claims of a file, None where it does not list it."""
    path = local_path(table)
    if path is None:
        message = "a table of tile-parts is read from this machine; fetch it"
        raise UnsupportedError(message, url=table, field="--tile-part-table")
    claim = _read_table(path, os.stat(path).st_mtime_ns if os.path.isfile(path) else 0).find(url)  # noqa: PTH113, PTH116
    if claim is not None and claim.size != size:
        message = f"the table is of a file of {claim.size} bytes, this one has {size}"
        raise MalformedError(message, url=url, field="tile-part table")
    return claim


@lru_cache(maxsize=4)
def _read_table(path: str, _modified: int) -> TilePartTable:
    """Return a table, read once for all files of a batch."""
    return read_table(path)


def level_arrays(
    windows: Windows,
    components: Sequence[int],
    *,
    attributes: Mapping[str, Any] = NOTHING,
    palette: bytes | None = None,
    overviews: bool = True,
) -> list[VirtualArray]:
    """Return the arrays of some components at every resolution level, finest first; only that without `overviews`."""
    count = level_count(windows.codestream, components) if overviews else 1
    return [
        codestream_array(windows, level=level, components=components, attributes=attributes, palette=palette)
        for level in range(count)
    ]


def level_count(codestream: Codestream, components: Sequence[int]) -> int:
    """Return how many resolutions there are, the full one included: none of them is as small as the one before."""
    shape, count = _grid(codestream, components, 0).shape, 1
    while count <= codestream.levels:
        finer, shape = shape, _grid(codestream, components, count).shape
        if finer == shape or min(shape) < 1:
            break
        count += 1
    return count


def codestream_array(
    windows: Windows,
    *,
    level: int = 0,
    components: Sequence[int] = (),
    attributes: Mapping[str, Any] = NOTHING,
    palette: bytes | None = None,
) -> VirtualArray:
    """Return the array of some components (all where none is named) at one resolution level.

    Dimensions are `(band, y, x)`, or `(y, x)` for one component.  `palette`, red, green and blue of
    each value in turn, asks for colours in place of the indices of the one component.  Chunks are
    tiles, or the windows that tiles are cut into.
    """
    codestream = windows.codestream
    every = range(len(codestream.siz.components))
    names = tuple(components or every)
    grid = _grid(codestream, names, level)
    bands = 3 if palette is not None else len(names)
    lead = (bands,) if bands > 1 else ()
    stored = [codestream.siz.components[number] for number in names]
    dtype = np.dtype("u1") if palette is not None else sample_dtype(stored)
    cut = windows.cut(level) if len(names) == len(every) else None
    codec: Jpeg2000Config | Jpeg2000WindowConfig
    if cut is not None:
        chunk, refs = cut
        codec = Jpeg2000WindowConfig(plain_header(codestream), level, palette)
    else:
        chunk, refs = grid.chunk, tile_refs(windows, grid)
        codec = Jpeg2000Config(
            main_header=plain_header(codestream),
            resolution_level=level,
            components=() if len(names) == len(every) else names,
            tile_parts=packed_parts(codestream),
            palette=palette,
        )
    return VirtualArray(
        shape=(*lead, *grid.shape),
        dtype=dtype,
        chunks=(*lead, *chunk),
        codecs=(codec,),
        refs=refs,
        dimension_names=("band", "y", "x") if lead else ("y", "x"),
        fill_value=dtype.type(0),
        attributes=attributes,
    )


def plain_header(codestream: Codestream) -> bytes:
    """Return the main header without pointers into the file."""
    kept = [segment.data for segment in codestream.segments if segment.marker not in LEFT_OUT]
    return b"".join([codestream.header[:2], *kept])


def packed_parts(codestream: Codestream) -> tuple[int, ...]:
    """Return the tile of every tile-part where the main header has their packet headers (PPM), nothing elsewhere."""
    return tuple(codestream.parts.tile.tolist()) if codestream.bodies(Marker.PPM) else ()


def sample_dtype(components: Sequence[Component]) -> np.dtype[Any]:
    """Return the narrowest type that holds every sample of some components."""
    widest = max(component.bits for component in components)
    if widest > DECODED_BITS:
        raise UnsupportedError(f"samples of {widest} bits; up to {DECODED_BITS} are decoded", field="SIZ")
    signed = any(component.signed for component in components)
    bits = max(component.bits + (signed and not component.signed) for component in components)
    width = next(width for width in (1, 2, 4) if bits <= BYTE * width)
    return np.dtype(f"{'i' if signed else 'u'}{width}")


def _grid(codestream: Codestream, names: Sequence[int], level: int) -> ChunkGrid:
    components = [codestream.siz.components[number] for number in names]
    if len({component.sampling for component in components}) > 1:
        raise UnsupportedError("components of different sizes in one array", field="SIZ")
    return ChunkGrid(codestream.siz, components[0], level)


def tile_refs(windows: Windows, grid: ChunkGrid) -> ChunkRefs:
    """Return the tile-parts of every chunk's tiles, those that follow one another as one range."""
    codestream = windows.codestream
    grid.check_samples(windows.why_whole)
    styles = codestream.styles
    if grid.most_tiles > 1:
        styles = check_pieces(codestream.siz, codestream.header, tiles=grid.most_tiles)
    styles.check_bytes(codestream.parts.total)
    parts = needed_parts(codestream, grid.level, grid)
    chunk, tile = grid.members
    order, pointers = parts.by_tile(grid.siz.tiles)
    rows = order[rows_of(pointers, tile)]
    owner = np.repeat(chunk, np.diff(pointers)[tile])
    offset, length = parts.offset[rows], parts.length[rows]
    begins = np.ones(len(rows), bool)
    begins[1:] = (offset[1:] != offset[:-1] + length[:-1]) | (owner[1:] != owner[:-1])
    first = np.flatnonzero(begins)
    chunks = int(chunk[-1]) + 1
    counts = np.bincount(owner[first], minlength=chunks)
    return ChunkRefs.from_rows((windows.url,), counts, offset[first], np.add.reduceat(length, first))


def composite_array(windows: Windows, grid: ChunkGrid, *, is_rgb: bool, attributes: Mapping[str, Any]) -> VirtualArray:
    """Return the array of all components on the grid of the finest one, the coarser ones repeated."""
    codestream, components = windows.codestream, windows.codestream.siz.components
    repeated = [number for number, component in enumerate(components) if component.sampling != (1, 1)]
    dtype = sample_dtype(components)
    codec = Jpeg2000Config(
        main_header=plain_header(codestream),
        resolution_level=grid.level,
        tile_parts=packed_parts(codestream),
        upsample=True,
        sycc_to_rgb=is_rgb,
    )
    return VirtualArray(
        shape=(len(components), *grid.shape),
        dtype=dtype,
        chunks=(len(components), *grid.chunk),
        codecs=(codec,),
        refs=tile_refs(windows, grid),
        dimension_names=("band", "y", "x"),
        fill_value=dtype.type(0),
        attributes={**attributes, "upsampled_components": repeated, **(RGB if is_rgb else {})},
    )


def components_name(names: Sequence[int]) -> str:
    """Return the name of the group of some components, where others have another size."""
    return f"component_{names[0]}" if len(names) == 1 else f"components_{names[0]}_{names[-1]}"


def composite_grids(codestream: Codestream) -> list[ChunkGrid]:
    """Return the grid of the finest component at every level where all can be brought to it."""
    grids: list[ChunkGrid] = []
    try:
        while len(grids) < 1 + codestream.levels:
            finest = check_composite(codestream.siz, len(grids))
            if len(grids) >= level_count(codestream, (finest,)):
                break
            grids.append(_grid(codestream, (finest,), len(grids)))
    except UnsupportedError:
        pass
    return grids


def is_converted(codestream: Codestream, boxes: Boxes | None) -> bool:
    """Whether the file says that its components are those of sYCC, and readers show them as RGB."""
    try:
        colour = Colour() if boxes is None else parse_colour(boxes)
    except JnrrdzError:
        return False
    return colour.space == SYCC and colour.channels in IN_ORDER and is_sycc(codestream.siz.components)


def scan_jpeg2000(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:
    """Return the group of a file: its only image, or a group for each of its images."""
    try:
        start, stop, boxes = find_codestream(read, 0, read.size)
        spans = [(start, stop)] if boxes is None else boxes.codestreams
        streams = [read_codestream(read, *span, url, options) for span in spans]
        geo = _with_rpc(geo_of(boxes), url, neighbours) if options.sidecars else geo_of(boxes)
        # boxes and files next to this one describe the first codestream
        places = [geo, *(Georeference() for _ in streams[1:])]
        images = [
            _image(stream, None if number else boxes, places[number], options) for number, stream in enumerate(streams)
        ]
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__
    if len(images) == 1:
        return images[0]
    return VirtualGroup({f"image_{number}": image for number, image in enumerate(images)})


def _with_rpc(geo: Georeference, url: str, neighbours: Neighbours) -> Georeference:
    """Return a place with the sensor's model in a file next to the image, where there is one."""
    rpc, reasons = find_rpc(url, neighbours, (*RPB, *RPC_TXT))
    refused = [geo.refused, *reasons] if geo.refused else reasons
    return replace(geo, rpc=rpc, refused="; ".join(refused) or None)


def _image(windows: Windows, boxes: Boxes | None, geo: Georeference, options: ScanOptions) -> VirtualGroup:
    """Return the group of one codestream: its image, or one for each size that its components have."""
    codestream, siz = windows.codestream, windows.codestream.siz
    full = siz.y.size(min(dy for _, dy in siz.samplings)), siz.x.size(min(dx for dx, _ in siz.samplings))
    images: dict[str, Node] = {}
    for names in codestream.component_groups:
        meaning = meaning_of(codestream, boxes, names, options)
        arrays = level_arrays(
            windows,
            names,
            attributes=meaning.array | geo.array_attributes(),
            palette=meaning.palette,
            overviews=options.overviews,
        )
        shape = arrays[0].shape[-2], arrays[0].shape[-1]
        images[components_name(names)] = image = _levels(arrays, geo.at_level(full, shape), meaning)
    if len(images) == 1:
        return image
    grids = composite_grids(codestream)[: None if options.overviews else 1]
    if not grids:
        return VirtualGroup(images)
    meaning = meaning_of(codestream, boxes, range(len(siz.components)), options)
    is_rgb, attributes = is_converted(codestream, boxes), meaning.array | geo.array_attributes()
    arrays = [composite_array(windows, grid, is_rgb=is_rgb, attributes=attributes) for grid in grids]
    # the first group is what a reader shows who names none
    return VirtualGroup({COMPOSITE: _levels(arrays, geo, meaning), **images})


def _levels(arrays: Sequence[VirtualArray], geo: Georeference, meaning: Meaning) -> VirtualGroup:
    """Return the group of the only array, or of a group for each level, finest first."""
    shapes = [(array.shape[-2], array.shape[-1]) for array in arrays]
    levels: list[VirtualGroup] = []
    for array, shape in zip(arrays, shapes, strict=True):
        here = geo.at_level(shapes[0], shape)
        about = {} if levels else meaning.group
        children: dict[str, Node] = {VARIABLE: array, **here.variables()}
        levels.append(VirtualGroup(children, {**about, **here.group_attributes(shape)}))
    return raster_pyramid(levels, geo.crs)
