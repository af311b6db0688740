"""What a JNRRD's tiling is: levels, their grids, and which part of a tile each chunk is.

May touch errors; opens nothing.  Rules in docs/formats/jnrrd.md; vectors are in the file's order, dimension 0
first, with an entry for every dimension, tiled or not.

Lengths of the lists in a JNRRD's tiling: a value for each tile, or for each level.

May touch errors and the tiling's own modules; opens nothing.  Rules in docs/formats/jnrrd.md.

The tiling extension's keys checked against its JSON Schema: every problem at once, by the names in the file.

May touch errors and the schema beside it (jnrrd_tile.schema.json).  Understands what that schema uses of
https://json-schema.org/draft/2020-12, and is fast on tables of a million numbers, which general validators
are not.

A JNRRD's tiling from the extension's keys: checked, levels and grids reckoned.

May touch errors; opens nothing.  Rules in docs/formats/jnrrd.md; vectors are in the file's order, dimension 0
first, with an entry for every dimension, tiled or not.
"""

import json
import math
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nrrd.header import Header

MOST_TILES = 1 << 26
DEFAULT_METHOD = "average"

type Sizes = tuple[int, ...]
type Choice = tuple[int, int]


@dataclass(frozen=True)
class TileAxis:
    """One axis of one level."""

    size: int
    tile: int
    overlap: int
    is_variable: bool

    @property
    def count(self) -> int:
        """Tiles along the axis; one where it is not larger than the overlap."""
        return max(1, -(-(self.size - self.overlap) // (self.tile - self.overlap)))

    @property
    def stride(self) -> int:
        """How far apart tiles begin."""
        return self.tile - self.overlap

    @property
    def last(self) -> int:
        """What is stored of the last tile."""
        return self.size - (self.count - 1) * self.stride if self.is_variable else self.tile

    @property
    def chunk(self) -> int:
        """Size of the chunks: the stride, or all of the only tile."""
        return self.last if self.count == 1 else self.stride

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Stored size and first element of every chunk's tile, each once."""
        return tuple(dict.fromkeys(map(self.choice, self._distinct)))

    @property
    def chunks(self) -> int:
        """Chunks along the axis: some may be of the last tile, behind its first stride."""
        return -(-self.size // self.chunk)

    @property
    def _distinct(self) -> range | tuple[int, ...]:
        return (0, *range(self.count - 1, self.chunks))

    def tile_of(self, chunk: int) -> int:
        """Return the tile that a chunk is read from."""
        return min(chunk, self.count - 1)

    def choice(self, chunk: int) -> Choice:
        """Return what is stored of a chunk's tile, and where in it the chunk begins."""
        tile = self.tile_of(chunk)
        return (self.last if tile == self.count - 1 else self.tile), (chunk - tile) * self.chunk


@dataclass(frozen=True)
class TileLevel:
    """One stored level."""

    number: int
    scale: Sizes
    axes: tuple[TileAxis, ...]

    @property
    def sizes(self) -> Sizes:
        """Elements along each dimension."""
        return tuple(axis.size for axis in self.axes)

    @property
    def counts(self) -> Sizes:
        """Tiles along each dimension."""
        return tuple(axis.count for axis in self.axes)

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return math.prod(self.counts)


@dataclass(frozen=True)
class ComputedLevel:
    """One virtual level: what it is made from, and how much coarser than that it is."""

    number: int
    source: int
    factors: Sizes
    sizes: Sizes
    tile: Sizes


@dataclass(frozen=True)
class Tiling:
    """A tiling, checked."""

    prefix: str
    keys: Mapping[str, Any]
    dimensions: Sizes
    compression: str
    stored: tuple[TileLevel, ...]
    virtual: tuple[ComputedLevel, ...] = ()
    total: int = 1
    """Levels that there are, stored or not."""

    method: str = field(default=DEFAULT_METHOD)

    @property
    def tiles(self) -> int:
        """Tiles of all stored levels."""
        return sum(level.tiles for level in self.stored)

    def error(self, message: str, name: str) -> MalformedError:
        """Return the error about one of the extension's keys."""
        return MalformedError(message, field=f"{self.prefix}:{name}")


PER_TILE = ("offset_table", "size_table", "metadata", "compression_levels")
"""Lists with a value for each stored tile; the first that is there tells how sizes of levels are rounded."""

_PER_LEVEL = ("level_offsets", "level_quality")


def check_tables(tiling: Tiling) -> None:
    """Refuse lists of other lengths, all that are wrong at once."""
    wrong = {name: f"{len(tiling.keys[name])} entries of {tiling.tiles} tiles" for name in _wrong_per_tile(tiling)}
    wrong |= {name: f"{len(tiling.keys[name])} entries of {tiling.total} levels" for name in _wrong_per_level(tiling)}
    if len(wrong) == 1:
        raise tiling.error(*wrong.values(), *wrong)
    if wrong:
        names = [f"{tiling.prefix}:{name}" for name in wrong]
        texts = (f"{name}: {text}" for name, text in zip(names, wrong.values(), strict=True))
        raise MalformedError("; ".join(texts), field=", ".join(names))


def _wrong_per_tile(tiling: Tiling) -> list[str]:
    return [name for name in PER_TILE if len(tiling.keys.get(name, range(tiling.tiles))) != tiling.tiles]


def _wrong_per_level(tiling: Tiling) -> list[str]:
    """Return lists that have a value neither for each level nor for each stored one; tile sizes are for each."""
    lengths = {tiling.total, len(tiling.stored)}
    wrong = [name for name in _PER_LEVEL if name in tiling.keys and len(tiling.keys[name]) not in lengths]
    if len(tiling.keys.get("level_tile_sizes", range(tiling.total))) != tiling.total:
        wrong.append("level_tile_sizes")
    return wrong


MOST = 8
"""Problems that are spelt out."""

type Schema = Mapping[str, Any]
type Problems = Iterator[tuple[str, str]]
"""Where, and what."""


@cache
def schema() -> Schema:
    """Return the schema of the extension's keys without their prefix."""
    text = resources.files("jnrrdz.formats.nrrd").joinpath("jnrrd_tile.schema.json").read_text("utf-8")
    found: Schema = json.loads(text)
    return found


def check_tile(tile: Mapping[str, Any], prefix: str) -> None:
    """Refuse keys that the schema refuses; the error names every field as the file does."""
    problems = list(_problems(tile, schema(), ""))
    if not problems:
        return
    names = list(dict.fromkeys(f"{prefix}:{place}" if place else f"{prefix}:" for place, _ in problems))
    texts = [f"{prefix}:{place}: {text}" if len(names) > 1 else text for place, text in problems[:MOST]]
    more = f"; and {len(problems) - MOST} more" if len(problems) > MOST else ""
    raise MalformedError("; ".join(texts) + more, field=", ".join(names[:MOST]))


def _problems(value: Any, rule: Schema, place: str) -> Problems:
    """Yield what is wrong with a value; of its members only where the value itself is right."""
    if "$ref" in rule:
        rule = schema()["$defs"][rule["$ref"].rpartition("/")[2]]
    text = _own(value, rule)
    if text is not None:
        yield place, text
        return
    for keyword, check in _INSIDE.items():
        if keyword in rule:
            yield from check(value, rule[keyword], place)


def _own(value: Any, rule: Schema) -> str | None:
    """Return what is wrong with a value itself."""
    kinds = rule.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if kinds and not any(_TYPES[kind](value) for kind in kinds):
        return f"{_shown(value)} is no {' or '.join(kinds)}"
    if "enum" in rule and not any(value == known and type(value) is type(known) for known in rule["enum"]):
        return f"{_shown(value)}; there are {', '.join(map(str, rule['enum']))}"
    if "minimum" in rule and value < rule["minimum"]:
        return f"{value}; {rule['minimum']} is the least"
    if "maximum" in rule and value > rule["maximum"]:
        return f"{value}; {rule['maximum']} is the most"
    return _wrong_length(value, rule)


def _wrong_length(value: Any, rule: Schema) -> str | None:
    if len(value) < rule.get("minItems", 0) if isinstance(value, list) else value == "" and "minLength" in rule:
        return "empty"
    if isinstance(value, list) and len(value) > rule.get("maxItems", len(value)):
        return f"{len(value)} entries; {rule['maxItems']} are the most"
    if rule.get("uniqueItems") and len(set(map(repr, value))) < len(value):
        return f"{_shown(value)} names something twice"
    return None


def _items(value: list[Any], rule: Schema, place: str) -> Problems:
    if rule.get("type") == "integer" and _are_integers(value, rule.get("minimum", 0)):
        return
    for number, item in enumerate(value):
        yield from _problems(item, rule, f"{place}[{number}]")


def _are_integers(value: list[Any], least: int) -> bool:
    return set(map(type, value)) <= {int} and min(value, default=least) >= least


def _properties(value: Mapping[str, Any], rules: Mapping[str, Schema], place: str) -> Problems:
    for name, rule in rules.items():
        if name in value:
            yield from _problems(value[name], rule, f"{place}.{name}" if place else name)


def _required(value: Mapping[str, Any], names: list[str], place: str) -> Problems:
    for name in names:
        if name not in value:
            yield (f"{place}.{name}" if place else name), "missing"


def _dependent(value: Mapping[str, Any], rules: Mapping[str, list[str]], place: str) -> Problems:
    for name, needed in rules.items():
        if name in value:
            for other in needed:
                if other not in value:
                    yield (f"{place}.{other}" if place else other), f"missing, which {name} needs"


def _any_of(value: Any, rules: list[Schema], place: str) -> Problems:
    found = [list(_problems(value, rule, place)) for rule in rules]
    if all(found):
        # what came closest: the alternative whose own type is right, else all of them
        deep = next((problems for problems in found if problems[0][0] != place and "[" in problems[0][0]), None)
        yield from (
            deep if deep is not None and isinstance(value, list) else _either([problems[0] for problems in found])
        )


def _either(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return what is wrong with every alternative: by the fields that it is about."""
    places = list(dict.fromkeys(place for place, _ in found))
    if len(places) > 1:
        return [(place, f"{text}; one of {', '.join(places)} is enough") for place, text in found]
    return [(places[0], " or ".join(dict.fromkeys(text for _, text in found)))]


def _all_of(value: Any, rules: list[Schema], place: str) -> Problems:
    for rule in rules:
        if not list(_problems(value, rule["if"], place)):
            yield from _problems(value, rule["then"], place)


def _const(value: Any, wanted: Any, place: str) -> Problems:
    if value != wanted:
        yield place, f"{_shown(value)} is not {wanted}"


def _shown(value: Any) -> str:
    return reprlib.repr(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "null": lambda value: value is None,
    "number": lambda value: _is_integer(value) or isinstance(value, float),
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}
_INSIDE: Mapping[str, Callable[[Any, Any, str], Problems]] = {
    "const": _const,
    "required": _required,
    "properties": _properties,
    "items": _items,
    "dependentRequired": _dependent,
    "anyOf": _any_of,
    "allOf": _all_of,
}


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
