"""A JNRRD's tiling from the extension's keys: checked, levels and grids reckoned.

May touch errors; opens nothing.  Rules in docs/formats/jnrrd.md; vectors are in the file's order, dimension 0
first, with an entry for every dimension, tiled or not.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nrrd.common_header import Header
from jnrrdz.formats.nrrd.jnrrd_levels import (
    DEFAULT_METHOD,
    MOST_TILES,
    ComputedLevel,
    Sizes,
    TileAxis,
    TileLevel,
    Tiling,
)
from jnrrdz.formats.nrrd.jnrrd_schema import check_tile
from jnrrdz.formats.nrrd.jnrrd_tables import PER_TILE, check_tables


def tiling_of(prefix: str, keys: Mapping[str, Any], header: Header) -> Tiling | None:
    """Return the tiling that a header's keys say; None where they say that there is none."""
    if not keys or keys.get("enabled") is False:
        return None
    check_tile(keys, prefix)
    made = _Maker(prefix, keys, header).made()
    check_tables(made)
    return made


@dataclass(frozen=True)
class _Maker:
    prefix: str
    keys: Mapping[str, Any]
    header: Header

    def made(self) -> Tiling:
        self._check_lengths()
        scales = self._scales()
        stored, virtual = self._numbers(len(scales))
        is_ceil, levels = self._rounded(scales, stored)
        computed = tuple(self._computed(number, scales, stored, is_ceil=is_ceil) for number in virtual)
        return Tiling(
            self.prefix,
            self.keys,
            tuple(self.keys["dimensions"]),
            self._compression(),
            levels,
            computed,
            len(scales),
            self.keys.get("downsample_method", DEFAULT_METHOD),
        )

    def _error(self, message: str, *names: str) -> MalformedError:
        return MalformedError(message, field=", ".join(f"{self.prefix}:{name}" for name in names))

    def _check_lengths(self) -> None:
        """Refuse vectors that do not fit together, all that are wrong at once."""
        dimensions, count = self.keys["dimensions"], len(self.header.sizes)
        wrong = {}
        if dimensions != sorted(set(dimensions)) or dimensions[-1] >= count:
            wrong["dimensions"] = f"{dimensions}; ascending, each once, of the {count} there are"
        for name in ("sizes", "overlap"):
            if len(self.keys.get(name, dimensions)) != len(dimensions):
                counts = f"{len(self.keys[name])} numbers for {len(dimensions)} tiled dimensions"
                wrong[name] = f"{counts} ({self.prefix}:dimensions)"
        for number, sizes in enumerate(self.keys.get("level_tile_sizes", [])):
            if len(sizes) != len(dimensions):
                wrong[f"level_tile_sizes[{number}]"] = f"{len(sizes)} numbers for {len(dimensions)} tiled dimensions"
        if len(wrong) == 1:
            raise self._error(*wrong.values(), *wrong)
        if wrong:
            texts = (f"{self.prefix}:{name}: {text}" for name, text in wrong.items())
            raise self._error("; ".join(texts), *wrong)

    def _compression(self) -> str:
        encoding, found = self.header.encoding, self.keys.get("compression")
        if encoding not in {"raw", found}:
            said = f"{self.prefix}:compression is {found or 'missing'}"
            raise UnsupportedError(f"{encoding}, where {said}; raw, or the same, is read", field="encoding")
        return found or "raw"

    def _scales(self) -> tuple[Sizes, ...]:
        """Return the scale of every level along every dimension."""
        ones = (1,) * len(self.header.sizes)
        if "level_scales" not in self.keys:
            return (ones,)
        given = self.keys["level_scales"]
        levels = self.keys.get("levels", len(given))
        if len(given) != levels:
            raise self._error(f"{len(given)} scales of {levels} levels", "level_scales")
        scales = tuple(self._scale(scale, number) for number, scale in enumerate(given))
        if scales[0] != ones:
            raise self._error(f"{given[0]}; level 0 has the full resolution, which is 1", "level_scales[0]")
        return scales

    def _scale(self, scale: int | list[int], number: int) -> Sizes:
        dimensions, count = self.keys["dimensions"], len(self.header.sizes)
        if isinstance(scale, list) and len(scale) == count:
            return tuple(scale)
        if isinstance(scale, list) and len(scale) != len(dimensions):
            raise self._error(f"{len(scale)} numbers for {len(dimensions)} tiled dimensions", f"level_scales[{number}]")
        along = scale if isinstance(scale, list) else [scale] * len(dimensions)
        found = [1] * count
        for dimension, one in zip(dimensions, along, strict=True):
            found[dimension] = one
        return tuple(found)

    def _numbers(self, levels: int) -> tuple[list[int], list[int]]:
        """Return the numbers of stored and of virtual levels."""
        virtual = sorted(self.keys.get("levels_virtual", []))
        stored = sorted(self.keys.get("levels_stored", set(range(levels)) - set(virtual)))
        for name, numbers in (("levels_stored", stored), ("levels_virtual", virtual)):
            if numbers and numbers[-1] >= levels:
                raise self._error(f"level {numbers[-1]} of {levels}", name)
        both = sorted(set(stored) & set(virtual))
        if both:
            raise self._error(f"level {both[0]} is both", "levels_stored", "levels_virtual")
        if 0 in virtual:
            raise self._error("level 0, which no other level gives", "levels_virtual")
        if not stored:
            raise self._error("no level is stored", "levels_stored")
        return stored, virtual

    def _rounded(self, scales: Sequence[Sizes], stored: Sequence[int]) -> tuple[bool, tuple[TileLevel, ...]]:
        """Return whether sizes of levels are rounded up, and the levels: down, unless only up fits the table."""
        down, up = (
            tuple(self._level(number, scales[number], is_ceil=is_ceil) for number in stored)
            for is_ceil in (False, True)
        )
        counts = [sum(level.tiles for level in levels) for levels in (down, up)]
        is_ceil = self._is_ceil(*counts)
        other = sum(math.prod(-(-axis.size // axis.tile) for axis in level.axes) for level in down)
        if is_ceil is None or (self._listed == other and other not in counts):
            raise self._wrong_table(other, counts)
        if counts[is_ceil] > MOST_TILES:
            raise self._error(f"{counts[is_ceil]} tiles; {MOST_TILES} are the most", "sizes")
        return is_ceil, up if is_ceil else down

    def _is_ceil(self, down: int, up: int) -> bool | None:
        """Return which count of tiles a list has; None where it has neither."""
        name = self._table
        if name is not None:
            length = len(self.keys[name])
            return False if length == down else True if length == up else None
        return self._listed == up != down

    @property
    def _table(self) -> str | None:
        return next((name for name in PER_TILE if name in self.keys), None)

    @property
    def _listed(self) -> int | None:
        """How many files are listed, where nothing else tells of all tiles."""
        is_all = self.keys["storage"] == "external" and "pattern" not in self.keys and self._table is None
        return len(self.keys.get("files", ())) if is_all else None

    def _wrong_table(self, other: int, counts: Sequence[int]) -> MalformedError:
        """Return the error of a list of another length; `other` counts tiles as if they did not overlap."""
        name = self._table or "files"
        message = f"{len(self.keys[name])} entries of {' or '.join(map(str, dict.fromkeys(counts)))} tiles"
        if any(self.keys.get("overlap", ())) and other not in counts:
            message += f"; {other} tiles there would be if they were counted as if they did not overlap"
        return self._error(message, name)

    def _level(self, number: int, scale: Sizes, *, is_ceil: bool) -> TileLevel:
        sizes = _scaled(self.header.sizes, scale, is_ceil=is_ceil)
        is_variable = self.keys.get("edge_handling", "pad") == "variable"
        axes = [TileAxis(size, size, 0, is_variable=False) for size in sizes]
        overlaps = self.keys.get("overlap") or [0] * len(self.keys["dimensions"])
        name, tiles = self._tile_sizes(number)
        for dimension, tile, overlap in zip(self.keys["dimensions"], tiles, overlaps, strict=True):
            if overlap >= tile:
                raise self._error(f"{overlap} of tiles of {tile} along dimension {dimension}; less", "overlap", name)
            axes[dimension] = TileAxis(sizes[dimension], tile, overlap, is_variable)
        return TileLevel(number, scale, tuple(axes))

    def _tile_sizes(self, number: int) -> tuple[str, list[int]]:
        given = self.keys.get("level_tile_sizes")
        if given is None:
            return "sizes", self.keys["sizes"]
        if number >= len(given):
            raise self._error(f"{len(given)} entries, none for level {number}", "level_tile_sizes")
        return f"level_tile_sizes[{number}]", given[number]

    def _computed(self, number: int, scales: Sequence[Sizes], stored: Sequence[int], *, is_ceil: bool) -> ComputedLevel:
        """Return a virtual level: from the nearest stored finer one whose scale divides its own."""
        own = scales[number]
        for source in sorted(stored, reverse=True):
            base = scales[source]
            divides = all(coarse % fine == 0 for coarse, fine in zip(own, base, strict=True))
            if source < number and divides and base != own:
                factors = tuple(coarse // fine for coarse, fine in zip(own, base, strict=True))
                sizes = _scaled(self.header.sizes, own, is_ceil=is_ceil)
                tile = [axis.chunk for axis in self._level(number, own, is_ceil=is_ceil).axes]
                return ComputedLevel(number, source, factors, sizes, tuple(map(min, tile, sizes)))
        raise self._error(f"level {number} of scale {list(own)}; no stored finer one divides it", "levels_virtual")


def _scaled(sizes: Sizes, scale: Sizes, *, is_ceil: bool) -> Sizes:
    """Return the sizes of a level, 1 at the least."""
    if is_ceil:
        return tuple(-(-size // by) for size, by in zip(sizes, scale, strict=True))
    return tuple(max(1, size // by) for size, by in zip(sizes, scale, strict=True))
