"""A tiled JNRRD as it is written: the keys of its header, its tables, and where its tiles are stored.

docs/formats/jnrrd.md has the header's keys; core keys follow http://teem.sourceforge.net/nrrd/format.html, and
elements lie at their centres.  The header's vectors are in its own order, dimension 0 (x) first.
"""

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from jnrrdz.core.georeference import geo_transform
from jnrrdz.core.pyramid import PER_TILE, SPACE
from jnrrdz.errors import UnrepresentableError
from jnrrdz.formats.nrrd.described import SPATIAL, Described
from jnrrdz.formats.nrrd.header import MOST_AXES
from jnrrdz.formats.nrrd.jnrrd import TYPES
from jnrrdz.formats.nrrd.scan import kept
from jnrrdz.formats.nrrd.write import EXTENSION, PREFIX, VERSION, Level, Packer, Sizes, Table

type Keys = list[tuple[str, Any]]

LARGEST_ATTRIBUTES = 1 << 18
"""Bytes of attributes that a header takes with it."""

SEPARATE = {"axes", SPACE, "grid_mapping", "coordinates", *PER_TILE}
"""Attributes that have keys of their own, or are true of the tiles of the source only."""

HEADROOM = 1 << 26
"""The largest header, which is part of every offset."""

ENDINGS = {"raw": "raw", "gzip": "raw.gz", "bzip2": "raw.bz2", "zstd": "raw.zst", "lz4": "raw.lz4"}
"""Of files of tiles, by their compression."""

TILE_FILES = r"(?:\.[0-9a-f]+)?\.tiles/[0-9]+/[0-9_]+\.raw(?:\.[a-z0-9]+)?"
"""Matches the names of files of tiles behind the stem of their header's name."""


def check_array(shape: Sizes, dtype: np.dtype[Any]) -> None:
    """Refuse an array that the format cannot have."""
    if dtype.name not in TYPES:
        raise UnrepresentableError(f"{dtype.name}; JNRRD has {', '.join(TYPES)}", field="type")
    if not 1 <= len(shape) <= MOST_AXES or 0 in shape:
        raise UnrepresentableError(
            f"an array of shape {shape}; JNRRD has 1 to {MOST_AXES} axes, none of them empty", field="sizes"
        )


@dataclass(frozen=True)
class Metadata:
    """What a source records of an array; axes in the array's order."""

    names: tuple[str, ...]
    """Of the axes."""

    attributes: Mapping[str, Any] = field(default_factory=dict)
    mapping: Mapping[str, Any] = field(default_factory=dict)
    """The attributes of its grid mapping."""

    header: Mapping[str, Any] | None = None
    """The keys of its own header, where it is a NRRD or JNRRD."""

    def keys(self) -> Keys:
        """Return the keys of axes, space and measurements, and of all other attributes."""
        affine = geo_transform(self.mapping) or ()
        described = Described(self.names[::-1], self.attributes, affine, self.header)
        return [*described.keys(), *self._other_attributes()]

    def _other_attributes(self) -> Keys:
        """Return all other attributes as one key; nothing where they are more than a header should hold."""
        attributes = kept({name: value for name, value in self.attributes.items() if name not in SEPARATE})
        if self.mapping:
            names = ("crs_wkt", "GeoTransform", "grid_mapping_name")
            attributes["spatial_ref"] = {name: self.mapping[name] for name in names if name in self.mapping}
        try:
            text = json.dumps(attributes, allow_nan=False)
        except (ValueError, TypeError):
            return []
        return [("attributes", attributes)] if attributes and len(text) <= LARGEST_ATTRIBUTES else []


@dataclass(frozen=True)
class TiledFile:
    """A tiled JNRRD: its metadata, its levels, and how their tiles are stored."""

    metadata: Metadata
    levels: tuple[Level, ...]
    packer: Packer
    method: str
    """How coarser levels are made."""

    is_external: bool = False
    """Whether each tile is a file."""

    @property
    def tiles(self) -> int:
        """Tiles of all levels."""
        return sum(level.tiles for level in self.levels)

    @property
    def pattern(self) -> str:
        """The names of files of tiles below their folder, `{l}/{y}_{x}.raw.zst` for example.

        x, y and z stand for dimensions 0, 1 and 2, unless labels give them to others.
        """
        names = self.metadata.names[::-1]
        plain = len(names) <= len(SPATIAL) and all(
            name not in SPATIAL or SPATIAL.index(name) == place for place, name in enumerate(names)
        )
        dimensions = SPATIAL[: len(names)] if plain else [f"d{number}" for number in range(len(names))]
        tile = "_".join(f"{{{name}}}" for name in reversed(dimensions))
        return f"{{l}}/{tile}.{ENDINGS[self.packer.compression]}"

    def keys(self, folder: str | None) -> Keys:
        """Return the keys that are known before the data; `folder` is that of files of tiles."""
        finest = self.levels[0]
        core: Keys = [
            ("jnrrd", VERSION),
            ("type", self.packer.dtype.name),
            ("dimension", len(finest.shape)),
            ("sizes", _turned(finest.shape)),
            ("endian", self.packer.endian),
            ("encoding", "raw"),
            *self.metadata.keys(),
            ("extensions", {PREFIX: EXTENSION}),
        ]
        place: Keys = [("storage", "internal"), ("format", "contiguous")]
        if folder is not None:
            place = [("storage", "external"), ("pattern", f"{folder}/{self.pattern}")]
        tiling: Keys = [
            ("enabled", True),
            ("dimensions", list(range(len(finest.shape)))),
            ("sizes", _turned(finest.tile)),
            *place,
            ("compression", self.packer.compression),
            ("edge_handling", "pad"),
            ("padding_value", self.packer.padding),
        ]
        if len(self.levels) > 1:
            scales = [level.scale for level in self.levels]
            tiling += [
                ("levels", len(self.levels)),
                ("level_scales", [scale[0] if len(set(scale)) == 1 else _turned(scale) for scale in scales]),
                ("downsample_method", self.method),
            ]
        if any(level.tile != finest.tile for level in self.levels):
            tiling.append(("level_tile_sizes", [_turned(level.tile) for level in self.levels]))
        return core + [(f"{PREFIX}:{name}", value) for name, value in tiling]

    def tables(self) -> list[Table]:
        """Return the tables of all tiles, and how wide their numbers can get."""
        most = [self.packer.most_bytes(level.tile) for level in self.levels]
        total = sum(level.tiles * size for level, size in zip(self.levels, most, strict=True))
        tables = [
            Table("size_table", self.tiles, len(str(max(most)))),
            Table("metadata", self.tiles, self.packer.widest_entry()),
        ]
        if self.is_external:
            return tables
        digits = len(str(total + HEADROOM))
        levels = [Table("level_offsets", len(self.levels), digits)] if len(self.levels) > 1 else []
        return [*levels, Table("offset_table", self.tiles, digits), *tables]

    def values(self, stored: "TileStorage", entries: Sequence[str]) -> dict[str, Sequence[Any]]:
        """Return the values of the tables; `entries` are those of the table of metadata."""
        offsets = stored.offsets
        return {
            "level_offsets": [] if self.is_external else [offsets[level.first] for level in self.levels],
            "offset_table": offsets,
            "size_table": stored.sizes,
            "metadata": entries,
        }


def _turned(sizes: Sizes) -> list[int]:
    return list(reversed(sizes))


def is_tiled(head: bytes) -> bool:
    """Whether a file begins as those do that are written here."""
    first = f'{{"jnrrd": "{VERSION}"}}\n{{"type": '.encode()
    return head.startswith(first) and f'{{"{PREFIX}:enabled": true}}\n'.encode() in head


def names_folder(head: bytes, folder: str) -> bool:
    """Whether a header names files of tiles in a folder."""
    return json.dumps(f"{folder}/")[:-1].encode() in head


def folder_of(out: str) -> str:
    """Return the folder of the files of tiles of a header."""
    place, name = out.rpartition("/")[::2]
    stem = name.removesuffix(".jnrrd")
    if "{" in stem or "}" in stem:
        raise UnrepresentableError("braces in the name would be placeholders in the pattern of its tiles", url=out)
    return f"{place}/{stem}.tiles" if place else f"{stem}.tiles"


class TileStorage(ABC):
    """Tiles where they are stored; they come in their order, and can be read back."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.sizes: list[int] = []
        """Bytes of each tile, for the header's tables."""

    @abstractmethod
    def put(self, level: Level, index: Sizes, data: bytes | bytearray | memoryview) -> None:
        """Add the tile that is next in the order."""

    @abstractmethod
    def get(self, level: Level, index: Sizes) -> bytes:
        """Return a tile of a level that is complete and flushed; any thread may ask."""


class InFile(TileStorage):
    """Tiles one after another in the file of the header."""

    def __init__(self, stream: BinaryIO, reading: BinaryIO, start: int) -> None:
        super().__init__()
        self._stream, self._reading, self._at = stream, reading, start
        self._lock = threading.Lock()

    def put(self, level: Level, index: Sizes, data: bytes | bytearray | memoryview) -> None:  # noqa: ARG002  the order tells
        """Write the next tile."""
        self._stream.write(data)
        self.offsets.append(self._at)
        self.sizes.append(len(data))
        self._at += len(data)

    def get(self, level: Level, index: Sizes) -> bytes:
        """Return the bytes of a tile."""
        number = level.first + level.number_of(index)
        with self._lock:
            self._reading.seek(self.offsets[number])
            return self._reading.read(self.sizes[number])


class InFolder(TileStorage):
    """A file for each tile."""

    def __init__(self, root: Path, pattern: str) -> None:
        super().__init__()
        self._root, self._pattern = root, pattern

    def put(self, level: Level, index: Sizes, data: bytes | bytearray | memoryview) -> None:
        """Write a tile's file."""
        path = self._path(level, index)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.sizes.append(len(data))

    def get(self, level: Level, index: Sizes) -> bytes:
        """Return the bytes of a tile's file."""
        return self._path(level, index).read_bytes()

    def _path(self, level: Level, index: Sizes) -> Path:
        turned = index[::-1]
        names = {f"d{number}": i for number, i in enumerate(turned)}
        names |= dict(zip(SPATIAL, turned, strict=False))
        return self._root / self._pattern.format(l=level.number, **names)
