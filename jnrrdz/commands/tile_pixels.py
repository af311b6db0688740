"""From an array, opened by jnrrdz or mapped from a .npy file, to the tiles of each level.

The source is read in bands of tiles, in the calling thread; other threads compress the tiles, which are then
stored in their order.  Each coarser level is computed from the stored tiles of the level before.  A .npy file is
mapped anew for every window, so that pages that were read do not count as memory of the process
(https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
"""

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from jnrrdz import api
from jnrrdz.caches import BoundedCache
from jnrrdz.core.hierarchy import Hierarchy, HierarchyNode
from jnrrdz.core.windows import overlaps
from jnrrdz.core.zarr_json import missing_value
from jnrrdz.downsample import Downsampling, LevelAssembler
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.nrrd.described import SPATIAL, header_of_source
from jnrrdz.formats.nrrd.tiled import Metadata, TiledFile, TileStorage
from jnrrdz.formats.nrrd.write import Level, Packed, Region, Sizes, band
from jnrrdz.options import Access, ScanOptions, StorageOptions
from jnrrdz.sources.url import local_path
from jnrrdz.store.group import ReferenceGroup, reference_group
from jnrrdz.store.store import ReferenceStore

type Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class TileOptions(Access):
    """How a tiled JNRRD is made; vectors in the header's order: the axis that varies fastest (x) first."""

    tile: Sequence[int]
    """Size of tiles along each axis."""

    compression: str = "zstd"
    """Of each tile: `raw`, `gzip`, `bzip2`, `zstd` or `lz4`."""

    levels: int = 1
    """Levels of resolution, the full one included; each is made from the one before."""

    method: str | None = None
    """Makes coarser levels: `average`, `gaussian`, `lanczos`, `max`, `min` or `mode`; by
    default `mode` for labels and palettes, `average` for all others."""

    factors: Sequence[int] | None = None
    """How much coarser each level is along each axis: 2 along axes of space and 1 along others by default."""

    endian: str = "little"
    """Byte order of the elements: `little` or `big`."""

    external: bool = False
    """Write each tile to a file of its own, in a folder beside the header."""

    group: str | None = None
    """The group or array of the source to tile; the full-resolution image by default."""

    jobs: int = 2
    """Tiles that are compressed at once."""

    overwrite: bool = False
    """Replace an output that exists."""

    target_options: StorageOptions = None
    """fsspec's options for the output."""

    progress: Progress | None = None
    """Called after each tile with the number of tiles that are done, and of all."""

    def __post_init__(self) -> None:
        """Refuse a run without a thread."""
        if self.jobs < 1:
            raise UnsupportedError(f"{self.jobs} threads; one is the least", field="jobs")


@dataclass(frozen=True)
class Pixels:
    """An array that is read by windows; axes in the array's order, last one fastest."""

    shape: Sizes
    dtype: np.dtype[Any]
    chunks: Sizes
    """What is decoded at one time."""

    read: Callable[[Region], NDArray[Any]]
    metadata: Metadata
    """Axes without names are x, y, z from the last one on."""

    fill_value: Any = 0
    missing: Any = None
    """The value of elements that hold nothing, where the source declares one."""

    urls: tuple[str, ...] = ()
    """Where its bytes are."""

    level_method: str = "average"
    """How coarser levels are made where the user names no method."""


def open_pixels(src: str, options: TileOptions) -> Pixels:
    """Return the array of a source: the group or array that the options name, else the full-resolution image."""
    if local_path(src) is not None and src.endswith(".npy"):
        if options.group is not None:
            raise UnsupportedError("a .npy file has no groups", url=src, field="group")
        return _npy(local_path(src) or src)
    store = api.store_with_levels(src, ScanOptions(), options)
    try:
        wanted = "" if options.group is None else options.group.strip("/")
        images = store.manifest.hierarchy
        if options.group is None:
            chosen = images.choice()
            chosen.warn()
            wanted = chosen.path
        if wanted and wanted not in images.nodes:
            raise images.no_such_group(wanted, str(store))
        path, array = _array_at(reference_group(store), wanted, images)
        mapping = images.grid_mapping(images.nodes[array.path])
        names = getattr(array.metadata, "dimension_names", None) or ()
        fill = np.asarray(array.fill_value, array.dtype)[()] if array.fill_value is not None else 0
        return Pixels(
            array.shape,
            array.dtype,
            array.chunks,
            lambda region: np.asarray(array[region]),
            Metadata(
                tuple(names) if names and all(names) else usual_names(array.ndim),
                dict(array.attrs),
                mapping,
                _header_of(store, path),
            ),
            fill,
            missing_value(array.attrs.asdict(), array.dtype),
            (src, *(source.url for source in store.manifest.sources)),
            images.level_method(array.path),
        )
    except JnrrdzError as error:
        raise error.at(url=src) from error.__cause__


def _array_at(root: ReferenceGroup, path: str, images: Hierarchy) -> "tuple[str, zarr.Array[Any]]":
    """Return the array at a path, or the image of the group there; its group's path first."""
    node: Any = root[path] if path else root
    if isinstance(node, zarr.Array):
        return path.rpartition("/")[0], node
    found = images.images_in(path) or _lines_in(path, images)
    alike = [each for each in found if len(each.shape) == len(found[0].shape)]
    if not alike:
        raise UnsupportedError("no array in this group", field=path or "/")
    if len(alike) > 1:
        names = ", ".join(sorted(each.name for each in alike))
        raise UnsupportedError(f"arrays {names}; name one by --group", field=path or "/")
    return path, node[alike[0].name]


def _lines_in(path: str, images: Hierarchy) -> list[HierarchyNode]:
    """Return the arrays of one axis in a group."""
    return [node for node in images.members(path) if node.is_array and node.shape]


def _header_of(store: ReferenceStore, path: str) -> Mapping[str, Any] | None:
    """Return the header that the group of an array, or one above it, has of a NRRD."""
    parts = path.split("/") if path else []
    for depth in range(len(parts), -1, -1):
        group = reference_group(store, "/".join(parts[:depth]))
        header = header_of_source(dict(group.attrs))
        if header is not None:
            return header
    return None


def usual_names(count: int) -> tuple[str, ...]:
    """Return names for axes that have none: x, y, z from the last one on."""
    return tuple(SPATIAL[number] if number < len(SPATIAL) else f"d{number}" for number in reversed(range(count)))


def _npy(path: str) -> Pixels:
    array = _mapped(path)
    fastest = (*(1,) * (array.ndim - 1), array.shape[-1]) if array.ndim else ()
    return Pixels(
        array.shape,
        array.dtype,
        fastest if array.flags.c_contiguous else (1,) * array.ndim,
        lambda region: np.array(_mapped(path)[region]),
        Metadata(usual_names(array.ndim)),
        urls=(os.path.realpath(path),),
    )


def _mapped(path: str) -> NDArray[Any]:
    if not Path(path).exists():
        raise JnrrdzError("no such file", url=path)
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise MalformedError(f"not a .npy file that can be mapped: {error}", url=path) from error
    if not isinstance(array, np.ndarray):
        raise UnsupportedError("an archive of arrays; unpack one of them", url=path)
    return array


KEPT = 4
"""Decoded tiles of the finer level that are kept, for pieces that need parts of the same ones."""


class Coarser:
    """Makes the tiles of a level from those of the level before, about one of which is read at a time."""

    def __init__(self, run: "Run", level: Level, stored: TileStorage) -> None:
        file = run.file
        self._finer, self._level, self._packer, self._stored = file.levels[level.number - 1], level, file.packer, stored
        missing = run.pixels.missing
        how = Downsampling(file.method, level.factors, self._finer.shape, file.packer.dtype, missing)
        how.check_shape(level.shape)
        nbytes = math.prod(self._finer.tile) * file.packer.dtype.itemsize
        self._assembler = LevelAssembler(how, self._finer.tile, nbytes)
        self._tiles = BoundedCache[Sizes, NDArray[Any]](most=KEPT)

    def pack(self, index: Sizes) -> Packed:
        """Return a tile of the coarser level."""
        region = self._level.region(index)
        tile = np.empty(_shape(region), self._packer.dtype)
        self._assembler.fill(tile, region, self._gathered)
        return self._packer.pack(tile, self._level.tile)

    def _gathered(self, window: Region) -> NDArray[Any]:
        """Return the elements of the finer level in a window."""
        tile = self._finer.tile
        elements = np.empty(_shape(window), self._packer.dtype)
        for index, within, place in overlaps(window, tile):
            elements[place] = self._decoded(index)[within]
        return elements

    def _decoded(self, index: Sizes) -> NDArray[Any]:
        tile = self._tiles.get(index)
        if tile is None:
            tile = self._packer.unpack(self._stored.get(self._finer, index), self._finer.tile)
            self._tiles.put(index, tile)
        return tile


def _shape(region: Region) -> Sizes:
    return tuple(at.stop - at.start for at in region)


@dataclass(frozen=True)
class Run:
    """What is tiled, and how."""

    pixels: Pixels
    file: TiledFile
    options: TileOptions

    def write(self, stored: TileStorage, flush: Callable[[], None]) -> list[str]:
        """Put all tiles, and return their entries in the table of metadata; `flush` makes what was put readable."""
        entries: list[str] = []
        pool = ThreadPoolExecutor(self.options.jobs, thread_name_prefix="jnrrdz-tile")
        try:
            for level in self.file.levels:
                flush()
                for index, packed in _in_order(self._started(pool, level, stored), self.options.jobs):
                    stored.put(level, index, packed.data)
                    entries.append(packed.entry)
                    if self.options.progress is not None:
                        self.options.progress(len(entries), self.file.tiles)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return entries

    def _started(
        self, pool: ThreadPoolExecutor, level: Level, stored: TileStorage
    ) -> "Iterator[tuple[Sizes, Future[Packed]]]":
        """Yield the work on each tile of a level, in their order; the elements of level 0 are read here."""
        if level.number:
            coarser = Coarser(self, level, stored)
            for _, tiles in level.bands((1,) * len(level.shape)):
                yield from ((index, pool.submit(coarser.pack, index)) for index in tiles)
            return
        for region, tiles in level.bands(band(level, self.pixels.chunks, self.file.packer.dtype.itemsize)):
            elements = np.asarray(self.pixels.read(region), self.file.packer.dtype)
            for index in tiles:
                axes = zip(level.region(index), region, strict=True)
                part = elements[tuple(slice(a.start - b.start, a.stop - b.start) for a, b in axes)]
                yield index, pool.submit(self.file.packer.pack, part, level.tile)


def _in_order(started: "Iterator[tuple[Sizes, Future[Packed]]]", most: int) -> Iterator[tuple[Sizes, Packed]]:
    """Yield tiles in the order in which work on them was started, never more than `most` of them under way."""
    waiting: deque[tuple[Sizes, Future[Packed]]] = deque()
    for item in started:
        waiting.append(item)
        while len(waiting) > most:
            index, work = waiting.popleft()
            yield index, work.result()
    while waiting:
        index, work = waiting.popleft()
        yield index, work.result()
