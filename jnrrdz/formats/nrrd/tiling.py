"""What a JNRRD's tiling is: levels, their grids, and which part of a tile each chunk is.

The extension's keys are checked against its JSON Schema (jnrrd_tile.schema.json beside this module), every problem
at once and by the names in the file; the checks know what that schema uses of
https://json-schema.org/draft/2020-12, and are fast on tables of a million numbers, which general validators are not.
Then the lengths of all lists are checked, and levels and grids follow.

Rules in docs/formats/jnrrd.md; vectors are in the file's order, dimension 0 first, with an entry for every
dimension, tiled or not.
"""

import json
import math
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from jnrrdz.core.limits import Budget, Resource
from jnrrdz.core.pyramid import Method
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nrrd.header import Header

DEFAULT_METHOD: Method = "average"

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
    def choice_count(self) -> int:
        """The number of choices, which a header of a few bytes can make billions."""
        of_last_tile = self.chunks - (self.count - 1)
        is_like_first = self.count == 1 or self.last == self.tile
        return of_last_tile if is_like_first else of_last_tile + 1

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Stored size and first element of every chunk's tile, each once."""
        return tuple(dict.fromkeys(map(self.choice, (0, *range(self.count - 1, self.chunks)))))

    @property
    def chunks(self) -> int:
        """Chunks along the axis: some may be of the last tile, behind its first stride."""
        return -(-self.size // self.chunk)

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
    first: int = 0
    """Tiles of the stored levels before."""

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

    method: Method = DEFAULT_METHOD
    budget: Budget | None = None
    """What the source may take; None for a tiling that is written."""

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


MOST_SPELT = 8
"""Problems that are spelt out."""

type Schema = Mapping[str, Any]
type Problems = Iterator[tuple[str, str]]
"""Where, and what."""


@cache
def schema() -> Schema:
    """Return the schema of the extension's keys without their prefix."""
    text = resources.files("jnrrdz.formats.nrrd").joinpath("jnrrd_tile.schema.json").read_text("utf-8")
    rules: Schema = json.loads(text)
    return rules


def check_tile(tile: Mapping[str, Any], prefix: str) -> None:
    """Refuse keys that the schema refuses; the error names every field as the file does."""
    problems = list(_problems(tile, schema(), ""))
    if not problems:
        return
    names = list(dict.fromkeys(f"{prefix}:{place}" if place else f"{prefix}:" for place, _ in problems))
    texts = [f"{prefix}:{place}: {text}" if len(names) > 1 else text for place, text in problems[:MOST_SPELT]]
    more = f"; and {len(problems) - MOST_SPELT} more" if len(problems) > MOST_SPELT else ""
    raise MalformedError("; ".join(texts) + more, field=", ".join(names[:MOST_SPELT]))


def _problems(value: Any, rule: Schema, place: str) -> Problems:
    """Yield what is wrong with a value; of its members only where the value itself is right."""
    if "$ref" in rule:
        rule = schema()["$defs"][rule["$ref"].rpartition("/")[2]]
    text = _own_problem(value, rule)
    if text is not None:
        yield place, text
        return
    if "const" in rule and value != rule["const"]:
        yield place, f"{reprlib.repr(value)} is not {rule['const']}"
    if not rule.keys().isdisjoint(_OF_MEMBERS):
        yield from _member_problems(value, rule, f"{place}." if place else "")
    if "items" in rule:
        yield from _item_problems(value, rule["items"], place)
    if "anyOf" in rule:
        yield from _alternative_problems(value, rule["anyOf"], place)
    for case in rule.get("allOf", ()):
        if not list(_problems(value, case["if"], place)):
            yield from _problems(value, case["then"], place)


_OF_MEMBERS = ("required", "properties", "dependentRequired")


def _member_problems(value: Any, rule: Schema, prefix: str) -> Problems:
    for name in rule.get("required", ()):
        if name not in value:
            yield prefix + name, "missing"
    for name, inner in rule.get("properties", {}).items():
        if name in value:
            yield from _problems(value[name], inner, prefix + name)
    for name, needed in rule.get("dependentRequired", {}).items():
        missing = [other for other in needed if other not in value] if name in value else []
        yield from ((prefix + other, f"missing, which {name} needs") for other in missing)


def _own_problem(value: Any, rule: Schema) -> str | None:
    """Return what is wrong with a value itself."""
    kinds = rule.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if kinds and not any(_TYPES[kind](value) for kind in kinds):
        return f"{reprlib.repr(value)} is no {' or '.join(kinds)}"
    if "enum" in rule and not any(value == known and type(value) is type(known) for known in rule["enum"]):
        return f"{reprlib.repr(value)}; there are {', '.join(map(str, rule['enum']))}"
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
        return f"{reprlib.repr(value)} names something twice"
    return None


def _item_problems(value: list[Any], rule: Schema, place: str) -> Problems:
    least = rule.get("minimum", 0)
    if rule.get("type") == "integer" and set(map(type, value)) <= {int} and min(value, default=least) >= least:
        return
    for number, item in enumerate(value):
        yield from _problems(item, rule, f"{place}[{number}]")


def _alternative_problems(value: Any, rules: list[Schema], place: str) -> Problems:
    """Yield what is wrong with every alternative."""
    problems = [list(_problems(value, rule, place)) for rule in rules]
    if not all(problems):
        return
    # what came closest: the alternative whose own type is right, else all of them, by the fields that they are about
    deep = next((listed for listed in problems if listed[0][0] != place and "[" in listed[0][0]), None)
    if deep is not None and isinstance(value, list):
        yield from deep
        return
    firsts = [listed[0] for listed in problems]
    places = list(dict.fromkeys(where for where, _ in firsts))
    if len(places) > 1:
        yield from ((where, f"{text}; one of {', '.join(places)} is enough") for where, text in firsts)
    else:
        yield places[0], " or ".join(dict.fromkeys(text for _, text in firsts))


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


def tiling_of(prefix: str, keys: Mapping[str, Any], header: Header, budget: Budget | None = None) -> Tiling | None:
    """Return the tiling that a header's keys say; None where they say that there is none."""
    if not keys or keys.get("enabled") is False:
        return None
    check_tile(keys, prefix)
    extension = _Extension(prefix, keys, header)
    extension.check_lengths()
    scales = extension.scales()
    stored, virtual = extension.numbers(len(scales))
    is_ceil, levels = extension.rounded(scales, stored)
    computed = tuple(extension.computed(number, scales, stored, is_ceil=is_ceil) for number in virtual)
    compression = keys.get("compression")
    if header.encoding not in {"raw", compression}:
        said = f"{prefix}:compression is {compression or 'missing'}"
        raise UnsupportedError(f"{header.encoding}, where {said}; raw, or the same, is read", field="encoding")
    method = keys.get("downsample_method", DEFAULT_METHOD)
    dimensions = tuple(keys["dimensions"])
    tiling = Tiling(prefix, keys, dimensions, compression or "raw", levels, computed, len(scales), method, budget)
    if budget is not None:
        budget.charge(Resource.TILES, tiling.tiles, field=f"{prefix}:sizes")
    wrong = {}
    for name in PER_TILE:
        if name in keys and len(keys[name]) != tiling.tiles:
            wrong[name] = f"{len(keys[name])} entries of {tiling.tiles} tiles"
    lengths = {tiling.total, len(tiling.stored)}
    for name, known in (*((name, lengths) for name in _PER_LEVEL), ("level_tile_sizes", {tiling.total})):
        if name in keys and len(keys[name]) not in known:
            wrong[name] = f"{len(keys[name])} entries of {tiling.total} levels"
    _refuse(prefix, wrong)
    return tiling


def _refuse(prefix: str, wrong: Mapping[str, str]) -> None:
    """Refuse keys, all that are wrong at once."""
    names = [f"{prefix}:{name}" for name in wrong]
    texts = list(wrong.values())
    if len(wrong) > 1:
        texts = [f"{name}: {text}" for name, text in zip(names, texts, strict=True)]
    if wrong:
        raise MalformedError("; ".join(texts), field=", ".join(names))


@dataclass(frozen=True)
class _Extension:
    """The extension's keys, which the schema allows, beside the header that they stand in."""

    prefix: str
    keys: Mapping[str, Any]
    header: Header

    def _error(self, message: str, *names: str) -> MalformedError:
        return MalformedError(message, field=", ".join(f"{self.prefix}:{name}" for name in names))

    def check_lengths(self) -> None:
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
        _refuse(self.prefix, wrong)

    def scales(self) -> tuple[Sizes, ...]:
        """Return the scale of every level along every dimension."""
        dimensions, count = self.keys["dimensions"], len(self.header.sizes)
        ones = (1,) * count
        listed = self.keys.get("level_scales")
        if listed is None:
            return (ones,)
        levels = self.keys.get("levels", len(listed))
        if len(listed) != levels:
            raise self._error(f"{len(listed)} scales of {levels} levels", "level_scales")
        scales = []
        for number, entry in enumerate(listed):
            along = entry if isinstance(entry, list) else [entry] * len(dimensions)
            if isinstance(entry, list) and len(entry) == count:
                scales.append(tuple(entry))
                continue
            if len(along) != len(dimensions):
                message = f"{len(along)} numbers for {len(dimensions)} tiled dimensions"
                raise self._error(message, f"level_scales[{number}]")
            of_tiled = dict(zip(dimensions, along, strict=True))
            scales.append(tuple(of_tiled.get(dimension, 1) for dimension in range(count)))
        if scales[0] != ones:
            raise self._error(f"{listed[0]}; level 0 has the full resolution, which is 1", "level_scales[0]")
        return tuple(scales)

    def numbers(self, levels: int) -> tuple[list[int], list[int]]:
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

    def rounded(self, scales: Sequence[Sizes], stored: Sequence[int]) -> tuple[bool, tuple[TileLevel, ...]]:
        """Return whether sizes of levels are rounded up, and the levels: down, unless only up fits the table."""
        down, up = (self._levels(scales, stored, is_ceil=is_ceil) for is_ceil in (False, True))
        counts = [sum(level.tiles for level in levels) for levels in (down, up)]
        unlapped = sum(math.prod(-(-axis.size // axis.tile) for axis in level.axes) for level in down)
        table = next((name for name in PER_TILE if name in self.keys), None)
        if table is not None:
            length = len(self.keys[table])
            fits, is_ceil = length in counts, length != counts[0]
        else:  # a list of all files tells, where there is no pattern
            is_listed = self.keys["storage"] == "external" and "pattern" not in self.keys
            length = len(self.keys.get("files", ())) if is_listed else -1
            fits, is_ceil = length != unlapped or unlapped in counts, length == counts[1] != counts[0]
        if not fits:
            message = f"{length} entries of {' or '.join(map(str, dict.fromkeys(counts)))} tiles"
            if any(self.keys.get("overlap", ())) and unlapped not in counts:
                message += f"; {unlapped} tiles there would be if they were counted as if they did not overlap"
            raise self._error(message, table or "files")
        return is_ceil, up if is_ceil else down

    def _levels(self, scales: Sequence[Sizes], stored: Sequence[int], *, is_ceil: bool) -> tuple[TileLevel, ...]:
        levels: list[TileLevel] = []
        for number in stored:
            first = levels[-1].first + levels[-1].tiles if levels else 0
            levels.append(TileLevel(number, scales[number], self._axes(number, scales[number], is_ceil=is_ceil), first))
        return tuple(levels)

    def _axes(self, number: int, scale: Sizes, *, is_ceil: bool) -> tuple[TileAxis, ...]:
        """Return the axes of a level, whose sizes are 1 at the least."""
        is_variable = self.keys.get("edge_handling", "pad") == "variable"
        sizes = [
            -(-size // by) if is_ceil else max(1, size // by) for size, by in zip(self.header.sizes, scale, strict=True)
        ]
        axes = [TileAxis(size, size, 0, is_variable=False) for size in sizes]
        overlaps = self.keys.get("overlap") or [0] * len(self.keys["dimensions"])
        name, tiles = "sizes", self.keys["sizes"]
        listed = self.keys.get("level_tile_sizes")
        if listed is not None:
            if number >= len(listed):
                raise self._error(f"{len(listed)} entries, none for level {number}", "level_tile_sizes")
            name, tiles = f"level_tile_sizes[{number}]", listed[number]
        for dimension, tile, overlap in zip(self.keys["dimensions"], tiles, overlaps, strict=True):
            if overlap >= tile:
                raise self._error(f"{overlap} of tiles of {tile} along dimension {dimension}; less", "overlap", name)
            axes[dimension] = TileAxis(sizes[dimension], tile, overlap, is_variable)
        return tuple(axes)

    def computed(self, number: int, scales: Sequence[Sizes], stored: Sequence[int], *, is_ceil: bool) -> ComputedLevel:
        """Return a virtual level: from the nearest stored finer one whose scale divides its own."""
        own = scales[number]
        for source in sorted(stored, reverse=True):
            base = scales[source]
            divides = all(coarse % fine == 0 for coarse, fine in zip(own, base, strict=True))
            if source < number and divides and base != own:
                factors = tuple(coarse // fine for coarse, fine in zip(own, base, strict=True))
                axes = self._axes(number, own, is_ceil=is_ceil)
                tile = tuple(min(axis.chunk, axis.size) for axis in axes)
                return ComputedLevel(number, source, factors, tuple(axis.size for axis in axes), tile)
        raise self._error(f"level {number} of scale {list(own)}; no stored finer one divides it", "levels_virtual")
