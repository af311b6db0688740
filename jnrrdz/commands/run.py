"""The run: tiles of the source in their order, then each level from the one before.

May touch threads and this folder's modules.  The source is read in the calling thread; tiles are compressed
in others, a bounded number at once, and put in their order.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.commands.coarser import Coarser
from jnrrdz.commands.pixels import Pixels
from jnrrdz.commands.places import Place
from jnrrdz.formats.nrrd.grid import Level, Sizes, band
from jnrrdz.formats.nrrd.packing import Packed, Packer

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
