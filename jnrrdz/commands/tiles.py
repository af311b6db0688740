"""Whether stored tiles are those that were written, and whether a file's own tables agree: JNRRD's.

May touch read's store, the model, the pure codec of tiles and errors.  Attributes as docs/formats/jnrrd.md
tells them: `tile_checksums` of a level's array, `level_offsets` of the group above.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jnrrdz.commands.findings import Finding
from jnrrdz.core.codec_tile import TILE, TileConfig
from jnrrdz.core.zarr_json import ZARR_JSON, array_from_json
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.nrrd.tile import TileCoder
from jnrrdz.store.store import ReferenceStore

CHECKSUMS, LEVEL_OFFSETS = "tile_checksums", "level_offsets"
MOST = 20
"""Findings for one array."""


@dataclass(frozen=True)
class Tiles:
    """The tiles of one array: which chunk begins with each, and how its bytes stand among the chunk's."""

    store: ReferenceStore
    path: str
    grid: tuple[int, ...]
    """Tiles along each axis; what is left of the last one is further chunks."""

    coder: TileCoder | None

    @classmethod
    def of(cls, store: ReferenceStore, path: str) -> "Tiles":
        """Return the tiles of an array of a manifest."""
        facts = array_from_json(_document(store, path))
        grid = store.manifest.arrays[path].keys.grid
        if facts.codecs[0].name != TILE:
            return cls(store, path, grid, None)
        config = TileConfig.from_json(facts.codecs[0].configuration or {})
        rests = [sum(first > 0 for _, first in axis) for axis in config.axes]
        tiles = tuple(max(chunks - rest, 1) for chunks, rest in zip(grid, rests, strict=True))
        return cls(store, path, tiles, TileCoder(config, facts.chunks, facts.dtype, facts.fill_value))

    def key(self, tile: int) -> str:
        """Return the key of the chunk that begins with a tile."""
        keys = self.store.manifest.arrays[self.path].keys
        return keys.key(int(np.ravel_multi_index(np.unravel_index(tile, self.grid), keys.grid)))

    def stored(self, tile: int) -> memoryview | None:
        """Return the stored bytes of a tile; None where it is missing."""
        found = self.store.get_sync(self.key(tile))
        if found is None:
            return None
        data = memoryview(found.to_bytes())
        return data if self.coder is None else self.coder.stored(data)


def checksum_findings(
    store: ReferenceStore, path: str, lost: frozenset[str], sample: int | None
) -> tuple[int, list[Finding]]:
    """Return how many tiles were compared with their checksums, and those that differ."""
    sums = (_document(store, path).get("attributes") or {}).get(CHECKSUMS)
    if not isinstance(sums, list):
        return 0, []
    tiles = Tiles.of(store, path)
    if math.prod(tiles.grid) != len(sums):
        return 0, [Finding("table", path, f"{len(sums)} checksums for {math.prod(tiles.grid)} tiles")]
    findings: list[Finding] = []
    count = failed = 0
    for tile in _wanted(sums, sample):
        if _is_lost(tiles, tile, lost):
            continue
        message = _difference(tiles, tile, sums[tile])
        count += 1
        failed += message is not None
        if message is not None and failed <= MOST:
            findings.append(Finding("checksum", tiles.key(tile), message))
    if failed > MOST:
        findings.append(Finding("checksum", path, f"{failed - MOST:,} more tiles differ"))
    return count, findings


def table_findings(store: ReferenceStore, lost: frozenset[str]) -> list[Finding]:
    """Return the levels that a header places elsewhere than its table of tiles does."""
    findings: list[Finding] = []
    for key, text in store.manifest.documents.items():
        if key.rpartition("/")[2] != ZARR_JSON or LEVEL_OFFSETS.encode() not in text:
            continue
        offsets = (json.loads(text).get("attributes") or {}).get(LEVEL_OFFSETS)
        if isinstance(offsets, dict):
            findings += _misplaced(store, key[: -len(ZARR_JSON)], offsets, lost)
    return findings


def _misplaced(
    store: ReferenceStore, folder: str, offsets: Mapping[str, Any], lost: frozenset[str]
) -> Iterator[Finding]:
    for level, told in offsets.items():
        path = _array_path(store, folder, level)
        if path is None:
            continue
        tiles = Tiles.of(store, path)
        if _is_lost(tiles, 0, lost):
            continue
        # the first chunk begins with the first tile: nothing stands before that, whatever its kind is
        found = store.manifest.arrays[path].lookup(0)
        if isinstance(found, list) and found and found[0][1] != told:
            yield Finding("table", path, f"{LEVEL_OFFSETS} says {told}, the table of tiles {found[0][1]}")


def _array_path(store: ReferenceStore, folder: str, level: str) -> str | None:
    """Return the array of a level: in its group, or beside the attribute where one level is all there is."""
    for path in (f"{folder}{level}/data", f"{folder}data" if level == "0" else ""):
        if path in store.manifest.arrays:
            return path
    return None


def _document(store: ReferenceStore, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store.manifest.documents[f"{path}/{ZARR_JSON}"])
    return found


def _wanted(sums: list[Any], sample: int | None) -> list[int]:
    known = [tile for tile, one in enumerate(sums) if isinstance(one, str)]
    if sample is None or len(known) <= sample:
        return known
    return [known[place] for place in np.unique(np.linspace(0, len(known) - 1, sample).astype(np.int64)).tolist()]


def _is_lost(tiles: Tiles, tile: int, lost: frozenset[str]) -> bool:
    """Whether a tile is in a source that is known to be wrong."""
    refs = tiles.store.manifest.arrays[tiles.path]
    number = refs.keys.number(tiles.key(tile))
    found = [] if number is None or not lost else refs.lookup(number)
    return isinstance(found, list) and any(url in lost for url, _, _ in found)


def _difference(tiles: Tiles, tile: int, expected: str) -> str | None:
    try:
        stored = tiles.stored(tile)
    except JnrrdzError as error:
        return f"its bytes cannot be told: {error}"
    if stored is None:
        return None
    found = hashlib.sha256(stored).hexdigest()
    return None if found == expected else f"SHA-256 is {found}, the header says {expected}"
