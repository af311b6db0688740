"""Where tiles are put, and read back from while coarser levels are made of them.

May touch files that the run itself made.  Tiles come in their order; what each takes is kept for the tables.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from jnrrdz.errors import UnrepresentableError
from jnrrdz.formats.nrrd.grid import Level, Sizes

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
