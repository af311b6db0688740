"""Chunks of a level and the ranges of tiles that they are read from.

May touch numpy, errors, the layout and the model.  Chunks are as far apart as tiles begin, so that every element
is read from one tile; what the last tile holds behind its own chunk is further chunks of the same tile.  Which
part of a tile a chunk is, the length of its bytes says: docs/codecs/jnrrdz.tile/README.md.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core import codec
from jnrrdz.core.codec import CodecSpec
from jnrrdz.core.codec_tile import REPEATED, TileConfig
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.formats.nrrd.common_header import Header
from jnrrdz.formats.nrrd.jnrrd_levels import MOST_TILES, TileAxis, TileLevel, Tiling
from jnrrdz.formats.nrrd.plain import COMPRESSORS
from jnrrdz.formats.nrrd.tile_places import Places

type Integers = NDArray[np.int64]


def chunks_of(level: TileLevel, tiling: Tiling) -> tuple[int, ...]:
    """Return the chunk shape in C order; a grid of too many chunks is refused."""
    count = math.prod(axis.chunks for axis in level.axes)
    if count > MOST_TILES:
        raise tiling.error(f"{count} chunks of level {level.number}; {MOST_TILES} are the most", "overlap")
    return tuple(axis.chunk for axis in reversed(level.axes))


def tile_config(level: TileLevel, tiling: Tiling, header: Header, *, is_guessed: bool) -> TileConfig:
    """Return what the codec has to know of a level's tiles."""
    axes = tuple(axis.choices for axis in reversed(level.axes))
    config = TileConfig(axes, header.endian, tiling.compression, is_guessed)
    config.check()
    return config


def chain(config: TileConfig, chunks: tuple[int, ...]) -> tuple[CodecSpec, ...]:
    """Return Zarr's own codecs where every tile is a chunk, `jnrrdz.tile` where it is more or less than that."""
    is_whole = len(config.kinds) == 1 and config.kinds[0].shape == chunks
    if not is_whole or config.repeated or config.compression not in {"raw", *COMPRESSORS}:
        return (config.to_spec(),)
    own = codec.bytes_(config.endian)
    return (own,) if config.compression == "raw" else (own, COMPRESSORS[config.compression])


def chunk_refs(level: TileLevel, places: Places, config: TileConfig, itemsize: int) -> ChunkRefs:
    """Return the references of a level's chunks, whose tiles' places are given."""
    axes = level.axes[::-1]
    tile = _joined([_tiles(axis) for axis in axes], [axis.count for axis in axes])
    kind = _joined([_choices(axis) for axis in axes], [len(axis.choices) for axis in axes])
    rows = _raw_rows if config.compression == "raw" else _packed_rows
    chunk, offset, length = rows(places, tile, kind, config, itemsize)
    source = places.source[tile[chunk]]
    present = source >= 0
    counts = np.bincount(chunk[present], minlength=len(tile))
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return ChunkRefs(places.sources, indptr, source[present], offset[present], length[present])


def _tiles(axis: TileAxis) -> Integers:
    return np.minimum(np.arange(axis.chunks, dtype=np.int64), axis.count - 1)


def _choices(axis: TileAxis) -> Integers:
    """Return for each chunk along an axis which of the axis's choices it is."""
    found = np.zeros(axis.chunks, np.int64)
    number = {choice: place for place, choice in enumerate(axis.choices)}
    for chunk in range(axis.count - 1, axis.chunks):
        found[chunk] = number[axis.choice(chunk)]
    return found


def _joined(parts: Sequence[Integers], sizes: Sequence[int]) -> Integers:
    """Return for every place of a grid, in C order, the number that its indices make."""
    found: Integers = np.zeros(1, np.int64)
    for part, size in zip(parts, sizes, strict=True):
        found = (found[:, np.newaxis] * size + part).ravel()
    return found


type Rows = tuple[Integers, Integers, Integers]
"""Chunk, offset and length of every range, chunks ascending."""


def _raw_rows(places: Places, tile: Integers, kind: Integers, config: TileConfig, itemsize: int) -> Rows:
    """Return ranges from a chunk's first element to its tile's end, and bytes before that make lengths differ."""
    first = np.array([one.first for one in config.kinds], np.int64)[kind] * itemsize
    extra = np.array(config.raw_extras(itemsize), np.int64)[kind]
    start, length = places.offset[tile] + first, places.length[tile] - first
    is_near = start >= extra
    start, length = start - np.where(is_near, extra, 0), length + np.where(is_near, extra, 0)
    more = _heads(places, tile, np.where(is_near, 0, extra))
    return _sorted([*more, (np.arange(len(tile)), start, length)])


def _packed_rows(places: Places, tile: Integers, kind: Integers, config: TileConfig, itemsize: int) -> Rows:
    """Return ranges of whole tiles, and bytes behind them that tell which part is meant."""
    del itemsize
    extra = np.array(config.extras, np.int64)[kind]
    start, length = places.offset[tile], places.length[tile]
    if config.repeated:
        is_near, extra = np.zeros(len(tile), bool), np.where(extra, REPEATED + extra, 0)
    else:
        is_near = start + length + extra <= places.room[places.source[tile]]
    more = _heads(places, tile, np.where(is_near, 0, extra))
    return _sorted([(np.arange(len(tile)), start, length + np.where(is_near, extra, 0)), *more])


def _heads(places: Places, tile: Integers, wanted: Integers) -> list[Rows]:
    """Return ranges of tiles' own heads, once more: so many bytes for each chunk."""
    found = []
    left = wanted.copy()
    while left.any():
        chunk = np.flatnonzero(left)
        taken = np.minimum(left[chunk], places.length[tile[chunk]])
        found.append((chunk, places.offset[tile[chunk]], taken))
        left[chunk] -= np.maximum(taken, 1)
    return found


def _sorted(parts: Sequence[Rows]) -> Rows:
    """Return rows by chunk, those of one chunk in the order in which they were given."""
    if len(parts) == 1:
        return parts[0]
    chunk, offset, length = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(chunk, kind="stable")
    return chunk[order], offset[order], length[order]
