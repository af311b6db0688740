"""Tiled and plain JNRRD files, made from the specification alone: numpy, json and the compressors' own libraries.

Nothing of jnrrdz is used.  Arrays are in numpy's order, so that axis -1 is the file's dimension 0; sizes, tiles,
overlaps and scales are in the file's order.
Spec: docs/formats/jnrrd.md and the tiling extension that it follows.
"""

import bz2
import gzip
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lz4.frame
import numpy as np
import zstandard

URI = "https://jnrrd.org/extensions/tile/v1.0.0"
PACK: dict[str, Callable[[bytes], bytes]] = {
    "raw": bytes,
    "gzip": lambda raw: gzip.compress(raw, mtime=0),
    "bzip2": bz2.compress,
    "zstd": lambda raw: zstandard.ZstdCompressor().compress(raw),
    "lz4": lz4.frame.compress,
}
Fields = dict[str, Any]
Lines = list[tuple[str, Any]]


@dataclass(frozen=True)
class Case:
    """One file, and what must come of it: pixels by array path, or a refusal that names `refused`."""

    name: str
    make: Callable[[Path], Path]
    pixels: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    reading: bool = False
    warns: str = ""
    choices: Fields = field(default_factory=dict)
    near: float = 0.0
    fits: Callable[[Any], bool] | None = None

    def reading_choices(self, folder: Path) -> Fields:
        """Give what is allowed when the manifest is read."""
        allow = self.choices.get("allow")
        return {} if allow is None else {"allow": allow(folder) if callable(allow) else allow}


def values(sizes: Sequence[int], dtype: str = "uint8", seed: int = 1) -> np.ndarray[Any, Any]:
    """Voxels that differ from their neighbours, in numpy's order, native endian."""
    draw = np.random.default_rng(seed)
    shape, kind = tuple(sizes[::-1]), np.dtype(dtype)
    if kind.kind == "c":
        return (draw.normal(size=shape) + 1j * draw.normal(size=shape)).astype(kind)
    if kind.kind == "f":
        return draw.normal(size=shape).astype(kind)
    info = np.iinfo(kind)
    return draw.integers(info.min, info.max, shape, kind, endpoint=True)


def header(lines: Iterable[tuple[str, Any]], eol: str = "\n", end: str | None = None) -> bytes:
    """One JSON object a line, then the line that ends them (a blank one)."""
    text = "".join(json.dumps({key: value}) + eol for key, value in lines)
    return (text + (eol if end is None else end)).encode()


def core(whole: np.ndarray[Any, Any], endian: str | None = "little", **more: object) -> Lines:
    """Give the lines that every JNRRD file has."""
    lines: Lines = [("jnrrd", "0004"), ("type", whole.dtype.name), ("dimension", whole.ndim)]
    lines += [("sizes", list(whole.shape[::-1]))] + ([("endian", endian)] if endian else [])
    return lines + list(more.items())


def raw(part: np.ndarray[Any, Any], endian: str | None = "little") -> bytes:
    """Give the voxels' bytes, dimension 0 fastest."""
    return part.astype(part.dtype.newbyteorder(">" if endian == "big" else "<")).tobytes()


def spans(size: int, tile: int, overlap: int) -> list[int]:
    """Where the tiles of an axis begin."""
    count = max(1, -(-(size - overlap) // (tile - overlap)))
    return [at * (tile - overlap) for at in range(count)]


def cut(  # noqa: PLR0913 - a tiling's properties
    whole: np.ndarray[Any, Any],
    tile: Sequence[int],
    dims: Sequence[int] | None = None,
    *,
    edges: str = "pad",
    padding: float = 0,
    overlap: Sequence[int] | None = None,
) -> list[tuple[tuple[int, ...], np.ndarray[Any, Any]]]:
    """Give (indices in the file's order, voxels) of each tile, dimension 0 fastest."""
    dims = list(range(whole.ndim)) if dims is None else dims
    shared = overlap or [0] * len(dims)
    starts = [spans(whole.shape[::-1][dim], size, over) for dim, size, over in zip(dims, tile, shared, strict=True)]
    tiles = []
    for backwards in itertools.product(*(range(len(axis)) for axis in starts[::-1])):
        indices = backwards[::-1]
        window = [slice(None)] * whole.ndim
        pad = [(0, 0)] * whole.ndim
        for dim, size, axis, at in zip(dims, tile, starts, indices, strict=True):
            stop = min(axis[at] + size, whole.shape[::-1][dim])
            window[-1 - dim] = slice(axis[at], stop)
            pad[-1 - dim] = (0, axis[at] + size - stop if edges == "pad" else 0)
        tiles.append((indices, np.pad(whole[tuple(window)], pad, constant_values=padding)))
    return tiles


@dataclass(kw_only=True)
class Tiled:
    """A tiled file to be: the levels' arrays, and every choice that the specification leaves to a writer."""

    levels: Sequence[np.ndarray[Any, Any]]
    tile: Sequence[int]
    scales: Sequence[Any] | None = None
    dims: Sequence[int] | None = None
    endian: str | None = "little"
    edges: str | None = None
    padding: float | None = None
    overlap: Sequence[int] | None = None
    compression: str | None = None
    form: str = "contiguous"
    offsets: bool = True
    sizes: bool | None = None
    shuffle: int | None = None
    gap: int = 0
    tiles_by_level: Sequence[Sequence[int]] | None = None
    extra: Fields = field(default_factory=dict)
    change: Fields = field(default_factory=dict)
    prefix: str = "tile"
    eol: str = "\n"
    tail: bytes = b""
    spoil: Callable[[list[bytes]], None] | None = None

    def cuts(self) -> list[list[tuple[tuple[int, ...], np.ndarray[Any, Any]]]]:
        """Give each level's tiles."""
        sizes = self.tiles_by_level or [self.tile] * len(self.levels)
        return [
            cut(level, tile, self.dims, edges=self.edges or "pad", padding=self.padding or 0, overlap=self.overlap)
            for level, tile in zip(self.levels, sizes, strict=True)
        ]

    def stored(self) -> list[bytes]:
        """Give each tile's bytes as stored, level after level."""
        pack = PACK[self.compression or "raw"]
        blobs = [pack(raw(part, self.endian)) for level in self.cuts() for _, part in level]
        if self.spoil:
            self.spoil(blobs)
        return blobs

    def fields(self, storage: str = "internal") -> Fields:
        """Give the extension's keys without their prefix."""
        dims = list(range(self.levels[0].ndim)) if self.dims is None else list(self.dims)
        found: Fields = {"enabled": True, "dimensions": dims, "sizes": list(self.tile), "storage": storage}
        chosen = {
            "edge_handling": self.edges, "padding_value": self.padding, "overlap": self.overlap,
            "compression": self.compression, "level_scales": self.scales, "level_tile_sizes": self.tiles_by_level,
        }  # fmt: skip
        found |= {key: value for key, value in chosen.items() if value is not None}
        return found | ({"levels": len(self.scales)} if self.scales else {})

    def lines(self, own: Fields) -> Lines:
        """Give all lines; `change` replaces a value, or takes a key away where it is None."""
        named = {f"{self.prefix}:{key}": value for key, value in own.items()}
        lines = [*core(self.levels[0], self.endian), ("extensions", {self.prefix: URI})]
        every = dict(lines) | named | self.extra | self.change
        return [(key, value) for key, value in every.items() if value is not None]

    def internal(self, folder: Path) -> Path:
        """Write one file with everything."""
        blobs = self.stored()
        order = list(range(len(blobs)))
        if self.shuffle is not None:
            np.random.default_rng(self.shuffle).shuffle(order)
        own = self.fields() | {"format": self.form}
        if self.sizes or (self.sizes is None and (self.compression or self.edges == "variable")):
            own["size_table"] = [len(blob) for blob in blobs]
        head, start = b"", -1
        while len(head) != start:
            start, at, table = len(head), len(head) + self.gap, [0] * len(blobs)
            for place in order:
                table[place], at = at, at + len(blobs[place])
            head = header(self.lines(own | ({"offset_table": table} if self.offsets else {})), self.eol)
        path = folder / "volume.jnrrd"
        path.write_bytes(head + b"\xa5" * self.gap + b"".join(blobs[place] for place in order) + self.tail)
        return path

    def external(self, folder: Path, name: Callable[[int, tuple[int, ...], int], str], **own: object) -> Path:
        """Write a header, and a file for each tile: `name` of level, indices and the count within the level."""
        blobs = iter(self.stored())
        for level, tiles in enumerate(self.cuts()):
            for at, (indices, _) in enumerate(tiles):
                blob, target = next(blobs), name(level, indices, at)
                if target:
                    (folder / target).parent.mkdir(parents=True, exist_ok=True)
                    (folder / target).write_bytes(blob)
        path = folder / "volume.jnrrd"
        path.write_bytes(header(self.lines(self.fields("external") | own), self.eol))
        return path


def good(name: str, tiled: Tiled, **more: Any) -> Case:
    """Give a case that reads back: one array, or a group a level."""
    pixels = (
        {f"{at}/data": level for at, level in enumerate(tiled.levels)} if tiled.scales else {"data": tiled.levels[0]}
    )
    return Case(name, tiled.internal, pixels, **more)


def bad(name: str, tiled: Tiled, *refused: str, **more: Any) -> Case:
    """Give a case that is refused with these words in the error."""
    return Case(name, tiled.internal, refused=refused or (" ",), **more)
