"""Where tiles are put, and read back from while coarser levels are made of them.

May touch files that the run itself made.  Tiles come in their order; what each takes is kept for the tables.

Tiles of a coarser level from the tiles of the level before, read back as they were stored.

May touch downsample and this folder's modules.  A tile is computed in pieces, each of the elements under
about one tile of the finer level; downsample gives the same elements, to the bit, however they are cut.

The run: tiles of the source in their order, then each level from the one before.

May touch threads and this folder's modules.  The source is read in the calling thread; tiles are compressed
in others, a bounded number at once, and put in their order.

The files of a tiled JNRRD, there whole or not at all.

May touch the file system through write.atomic, fsspec's paths and this folder's modules.
"""

import shutil
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import fsspec
import numpy as np
from numpy.typing import NDArray

from jnrrdz.commands.tile_pixels import Pixels
from jnrrdz.downsample import Downsampling
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from jnrrdz.formats.nrrd.write import Header, Level, Packed, Packer, Region, Sizes, band
from jnrrdz.manifests.atomic import new_directory, new_file

SPACE = ("x", "y", "z")


class Place(Protocol):
    """Where tiles are."""

    offsets: list[int]
    sizes: list[int]

    def put(self, level: Level, index: Sizes, data: bytes | bytearray | memoryview) -> None:
        """Add the tile that is next in the order."""

    def get(self, level: Level, index: Sizes) -> bytes:
        """Return a tile that was put; from any thread."""


class InFile:
    """Tiles one after another in the file of the header."""

    def __init__(self, stream: BinaryIO, start: int, first: Sequence[int]) -> None:
        self._stream, self._at, self._first = stream, start, first
        self._path = Path(stream.name)
        self._lock = threading.Lock()
        self._reading: BinaryIO | None = None
        self.offsets: list[int] = []
        self.sizes: list[int] = []

    def put(self, level: Level, index: Sizes, data: bytes | bytearray | memoryview) -> None:  # noqa: ARG002  the order tells
        """Write the next tile."""
        self._stream.write(data)
        self.offsets.append(self._at)
        self.sizes.append(len(data))
        self._at += len(data)

    def get(self, level: Level, index: Sizes) -> bytes:
        """Return a tile of a level that is complete and flushed."""
        number = self._first[level.number] + level.number_of(index)
        with self._lock:
            if self._reading is None:
                self._reading = self._path.open("rb")
            self._reading.seek(self.offsets[number])
            return self._reading.read(self.sizes[number])

    def close(self) -> None:
        """Let go of the file."""
        if self._reading is not None:
            self._reading.close()


class InFolder:
    """A file for each tile."""

    def __init__(self, root: Path, pattern: str) -> None:
        self._root, self._pattern = root, pattern
        self.offsets: list[int] = []
        self.sizes: list[int] = []

    def put(self, level: Level, index: Sizes, data: bytes | bytearray | memoryview) -> None:
        """Write a tile's file."""
        path = self._path(level, index)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.sizes.append(len(data))

    def get(self, level: Level, index: Sizes) -> bytes:
        """Return the bytes of a tile's file."""
        return self._path(level, index).read_bytes()

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _path(self, level: Level, index: Sizes) -> Path:
        turned = index[::-1]
        names = {f"d{number}": i for number, i in enumerate(turned)}
        names |= dict(zip(SPACE, turned, strict=False))
        return self._root / self._pattern.format(l=level.number, **names)


def pattern_of(names: Sequence[str], compression: str) -> str:
    """Return the pattern of tiles below their folder; `names` are those of the axes in the header's order.

    x, y and z stand for dimensions 0, 1 and 2, unless labels give them to others.
    """
    plain = len(names) <= len(SPACE) and all(
        name not in SPACE or SPACE.index(name) == place for place, name in enumerate(names)
    )
    dimensions = SPACE[: len(names)] if plain else [f"d{number}" for number in range(len(names))]
    ending = {"raw": "raw", "gzip": "raw.gz", "bzip2": "raw.bz2", "zstd": "raw.zst", "lz4": "raw.lz4"}[compression]
    return "{l}/" + "_".join(f"{{{name}}}" for name in reversed(dimensions)) + f".{ending}"


def folder_of(out: str) -> str:
    """Return the folder that the tiles beside a header are in."""
    place, name = out.rpartition("/")[::2]
    stem = name.removesuffix(".jnrrd")
    if "{" in stem or "}" in stem:
        raise UnrepresentableError("braces in the name would be placeholders in the pattern of its tiles", url=out)
    return f"{place}/{stem}.tiles" if place else f"{stem}.tiles"


KEPT = 4
"""Decoded tiles of the finer level that are kept, for pieces that need parts of the same ones."""


class Coarser:
    """Reads regions of a level that is made from the one before."""

    def __init__(self, finer: Level, level: Level, method: str, missing: Any, packer: Packer) -> None:
        self._finer, self._level, self._packer = finer, level, packer
        self._how = Downsampling(method, level.factors, finer.shape, packer.dtype, missing)
        self._how.check_shape(level.shape)
        self._kept: OrderedDict[Sizes, NDArray[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def tile(self, place: Place, index: Sizes) -> NDArray[Any]:
        """Return the elements of a tile that are there."""
        region = self._level.region(index)
        found = np.empty(_shape(region), self._packer.dtype)
        for piece in self._pieces(region):
            target = tuple(slice(p.start - r.start, p.stop - r.start) for p, r in zip(piece, region, strict=True))
            found[target] = self._how.apply(self._gathered(place, self._how.window(piece)), piece)
        return found

    def _pieces(self, region: Region) -> Iterator[Region]:
        tile, factors = self._finer.tile, self._level.factors
        steps = [max(size // factor, 1) for size, factor in zip(tile, factors, strict=True)]
        axes = [range(at.start, at.stop, step) for at, step in zip(region, steps, strict=True)]
        for corner in product(*axes):
            ends = zip(corner, steps, region, strict=True)
            yield tuple(slice(start, min(start + step, at.stop)) for start, step, at in ends)

    def _gathered(self, place: Place, window: Region) -> NDArray[Any]:
        """Return the elements of the finer level in a window."""
        tile = self._finer.tile
        spans = [range(at.start // size, -(-at.stop // size)) for at, size in zip(window, tile, strict=True)]
        found = np.empty(_shape(window), self._packer.dtype)
        for index in product(*spans):
            within, out = [], []
            for i, size, at in zip(index, tile, window, strict=True):
                first, last = max(i * size, at.start), min((i + 1) * size, at.stop)
                within.append(slice(first - i * size, last - i * size))
                out.append(slice(first - at.start, last - at.start))
            found[tuple(out)] = self._decoded(place, index)[tuple(within)]
        return found

    def _decoded(self, place: Place, index: Sizes) -> NDArray[Any]:
        with self._lock:
            if index in self._kept:
                self._kept.move_to_end(index)
                return self._kept[index]
        tile = self._packer.unpack(place.get(self._finer, index), self._finer.tile)
        with self._lock:
            self._kept[index] = tile
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return tile


def _shape(region: Region) -> Sizes:
    return tuple(at.stop - at.start for at in region)


type Progress = Callable[[int, int], None]
"""Called with the tiles that are done, and all of them."""


@dataclass(frozen=True)
class Run:
    """What is written, and how."""

    pixels: Pixels
    levels: tuple[Level, ...]
    packer: Packer
    method: str
    threads: int
    progress: Progress | None = None

    @property
    def tiles(self) -> int:
        """Tiles of all levels."""
        return sum(level.tiles for level in self.levels)

    def write(self, place: Place, flush: Callable[[], None]) -> list[str]:
        """Put all tiles, and return their entries in the table of metadata; `flush` makes what was put readable."""
        entries: list[str] = []
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="jnrrdz-tile")
        try:
            for level in self.levels:
                flush()
                self._write_level(pool, level, place, entries)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return entries

    def _write_level(self, pool: ThreadPoolExecutor, level: Level, place: Place, entries: list[str]) -> None:
        waiting: deque[tuple[Sizes, Future[Packed]]] = deque()
        for item in self._started(pool, level, place):
            waiting.append(item)
            while len(waiting) > self.threads:
                self._put(level, place, entries, *waiting.popleft())
        while waiting:
            self._put(level, place, entries, *waiting.popleft())

    def _put(self, level: Level, place: Place, entries: list[str], index: Sizes, work: "Future[Packed]") -> None:
        packed = work.result()
        place.put(level, index, packed.data)
        entries.append(packed.entry)
        if self.progress is not None:
            self.progress(len(entries), self.tiles)

    def _started(
        self, pool: ThreadPoolExecutor, level: Level, place: Place
    ) -> Iterator[tuple[Sizes, "Future[Packed]"]]:
        if level.number:
            missing = self.pixels.missing
            coarser = Coarser(self.levels[level.number - 1], level, self.method, missing, self.packer)
            for _, tiles in level.indices((1,) * len(level.shape)):
                yield from ((index, pool.submit(self._made, coarser, level, place, index)) for index in tiles)
            return
        for region, tiles in level.indices(band(level, self.pixels.chunks, self.packer.dtype.itemsize)):
            elements = np.asarray(self.pixels.read(region), self.packer.dtype)
            for index in tiles:
                own = level.region(index)
                part = elements[
                    tuple(slice(a.start - b.start, a.stop - b.start) for a, b in zip(own, region, strict=True))
                ]
                yield index, pool.submit(self._packed, part, level)

    def _packed(self, part: NDArray[Any], level: Level) -> Packed:
        return self.packer.pack(part, level.tile)

    def _made(self, coarser: Coarser, level: Level, place: Place, index: Sizes) -> Packed:
        return self.packer.pack(coarser.tile(place, index), level.tile)


FIRST_LEVEL = "0"
"""The folder of level 0, which every folder of tiles has."""

type Options = Mapping[str, Any] | None


@contextmanager
def new_files(
    out: str, *, external: bool, overwrite: bool, storage_options: Options
) -> Iterator[tuple[BinaryIO, Path | None]]:
    """Yield the stream of the header, and the folder of tiles where they have one; both are there after the block."""
    folder = folder_of(out) if external else None
    is_new = True
    if folder is not None:
        fs, place = fsspec.core.url_to_fs(folder, **(storage_options or {}))
        is_new = not fs.exists(place)
        _check_folder(fs, place, out, overwrite=overwrite, is_new=is_new)
    done = False
    try:
        with (
            new_file(out, overwrite=overwrite, storage_options=storage_options) as stream,
            _tiles(folder, overwrite=overwrite, storage_options=storage_options) as tiles,
        ):
            yield stream, tiles
        done = True
    finally:
        if folder is not None and not done and is_new:  # the header could not be put in its place
            _removed(fs, place)


def _tiles(folder: str | None, *, overwrite: bool, storage_options: Options) -> Any:
    if folder is None:
        return nullcontext()
    return new_directory(folder, last=FIRST_LEVEL, overwrite=overwrite, storage_options=storage_options)


def _check_folder(fs: Any, place: str, out: str, *, overwrite: bool, is_new: bool) -> None:
    """Refuse to replace a folder that is not of the tiles of the header that is replaced."""
    if is_new:
        return
    if not overwrite:
        raise JnrrdzError("exists already; --overwrite (overwrite=True) replaces it", url=place)
    beside = fs.exists(f"{place.rpartition('/')[0]}/{out.rpartition('/')[2]}")
    if not (beside and fs.isdir(place) and fs.isdir(f"{place}/{FIRST_LEVEL}")):
        raise JnrrdzError("is no folder of tiles beside their header, and is not replaced", url=place)


def _removed(fs: Any, place: str) -> None:
    if not fs.exists(place):
        return
    if "file" in fs.protocol:
        shutil.rmtree(place)
    else:
        fs.rm(place, recursive=True)


def fill_in(stream: BinaryIO, header: Header, tables: Mapping[str, Any]) -> None:
    """Write the header with its tables over the room that was left for it."""
    stream.seek(0)
    stream.write(header.text(tables))
