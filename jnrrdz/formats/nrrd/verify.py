"""What the header of a JNRRD records of its tiles, compared with the tiles: for `verify`.

A header may repeat where each level begins, and may have the SHA-256 of each tile (docs/formats/jnrrd.md).
"""

import hashlib
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from jnrrdz.core.codecs import TILE, TileConfig
from jnrrdz.core.pyramid import LEVEL_OFFSETS, TILE_CHECKSUMS
from jnrrdz.core.zarr_json import array_from_json
from jnrrdz.formats.nrrd.decode import TileCoder
from jnrrdz.formats.verification import StoredArray

type Nodes = Mapping[str, Mapping[str, Any]]


class ArrayTiles:
    """The tiles of one array: which chunk begins with each, and which of the chunk's bytes are the tile's."""

    def __init__(self, array: StoredArray, checksums: list[Any]) -> None:
        self._array = array
        self._checksums = checksums

    @cached_property
    def _coder(self) -> TileCoder | None:
        facts = array_from_json(self._array.document)
        if facts.codecs[0].name != TILE:
            return None
        config = TileConfig.from_json(facts.codecs[0].configuration or {})
        return TileCoder(config, facts.chunks, facts.dtype, facts.fill_value)

    @cached_property
    def grid(self) -> tuple[int, ...]:
        """Tiles along each axis; the rest of the last one is in further chunks."""
        grid = self._array.grid
        if self._coder is None:
            return grid
        axes = self._coder.config.axes
        rests = [sum(first > 0 for _, first in axis) for axis in axes]
        return tuple(max(chunks - rest, 1) for chunks, rest in zip(grid, rests, strict=True))

    @property
    def has_checksum_for_each(self) -> bool:
        """Whether the list of checksums has an entry for each tile."""
        return math.prod(self.grid) == len(self._checksums)

    @property
    def checksums(self) -> str:
        """How many checksums there are for how many tiles."""
        return f"{len(self._checksums)} checksums for {math.prod(self.grid)} tiles"

    def chunks(self) -> dict[int, int]:
        """Return the tiles that have a checksum, by the number of the chunk that begins with each."""
        tiles = [tile for tile, digest in enumerate(self._checksums) if isinstance(digest, str)]
        if not tiles:
            return {}
        index = np.unravel_index(np.array(tiles, np.int64), self.grid)
        chunks = np.ravel_multi_index(index, self._array.grid)
        return dict(zip(chunks.tolist(), tiles, strict=True))

    def difference(self, chunk: int, tile: int) -> str | None:
        """Return how the checksum of a tile's stored bytes differs from the header's; None where it does not."""
        recorded = self._checksums[tile]
        data = self._array.read(chunk)
        if data is None:
            return None
        stored = memoryview(data)
        if self._coder is not None:
            stored = self._coder.stored(stored)
        digest = hashlib.sha256(stored).hexdigest()
        if digest == recorded:
            return None
        return f"SHA-256 is {digest}, the header says {recorded}"


class TileTables:
    """The tables of tiles of a manifest's JNRRDs; no other array has their attributes."""

    def __init__(self, nodes: Nodes, arrays: Mapping[str, StoredArray]) -> None:
        self._nodes = nodes
        self._arrays = arrays
        self._tiles: dict[str, ArrayTiles] = {}
        for path, array in arrays.items():
            checksums = (array.document.get("attributes") or {}).get(TILE_CHECKSUMS)
            if isinstance(checksums, list):
                self._tiles[path] = ArrayTiles(array, checksums)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield the paths of arrays whose tables contradict each other, with a message."""
        for path, node in self._nodes.items():
            attributes = node.get("attributes")
            offsets = attributes.get(LEVEL_OFFSETS) if isinstance(attributes, dict) else None
            if isinstance(offsets, dict):
                yield from self._displaced_levels(path, offsets)
        for path, tiles in self._tiles.items():
            if not tiles.has_checksum_for_each:
                yield path, tiles.checksums

    def _displaced_levels(self, path: str, offsets: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the levels of a group that its header places elsewhere than its table of tiles does."""
        folder = f"{path}/".lstrip("/")
        for level, offset in offsets.items():
            # a level is in its group, or next to the attribute where there is one level
            places = [f"{folder}{level}/data"]
            if level == "0":
                places.append(f"{folder}data")
            array = next((place for place in places if place in self._arrays), None)
            if array is None:
                continue
            # the first chunk begins with the first tile: nothing is before that, whatever its kind is
            ranges = self._arrays[array].ranges(0)
            if ranges and ranges[0][1] != offset:
                yield array, f"{LEVEL_OFFSETS} says {offset}, the table of tiles {ranges[0][1]}"

    def checked_chunks(self) -> dict[str, dict[int, int]]:
        """Return by the paths of arrays the chunks that begin with a tile that has a checksum, and its number."""
        return {path: tiles.chunks() for path, tiles in self._tiles.items() if tiles.has_checksum_for_each}

    def difference(self, path: str, chunk: int, tile: int) -> str | None:
        """Return how the checksum of a tile's stored bytes differs from the header's; None where it does not."""
        return self._tiles[path].difference(chunk, tile)
