"""Names of the files of external tiles: a pattern's, and those that a list gives.

May touch errors and the layout's own modules; opens nothing.  Rules in docs/formats/jnrrd.md.  Tiles are numbered
as in a table of offsets: dimension 0 fastest, the stored levels one after another.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from string import Formatter
from typing import Any

from jnrrdz.errors import MalformedError
from jnrrdz.formats.nrrd.header import MOST_FILES
from jnrrdz.formats.nrrd.tiling import TileLevel, Tiling

SPATIAL = ("x", "y", "z")
_WIDE = re.compile(r"\d{4}")
LEVEL, INDEX = "l", "i"

type Part = tuple[str, str, str, str | None]
"""Text, and behind it a placeholder's name, format and conversion."""

type Axis = int | str
"""What a placeholder stands for: a dimension's number, `l` or `i`."""


def tile_names(tiling: Tiling, labels: Sequence[str]) -> list[str | None]:
    """Return the name of every tile's file: the list's, else the pattern's, else None."""
    if tiling.tiles > MOST_FILES:
        raise tiling.error(f"{tiling.tiles} external tiles; {MOST_FILES} are the most", "sizes")
    names: list[str | None] = [None] * tiling.tiles
    if "pattern" in tiling.keys:
        names = list(_pattern_names(tiling, _pieces(tiling, labels)))
        _refuse_twins(tiling, names)
    for tile, name in _listed(tiling).items():
        names[tile] = name
    return names


def first_name(tiling: Tiling, labels: Sequence[str]) -> str | None:
    """Return the name of the first tile's file where a pattern gives it."""
    if "pattern" not in tiling.keys or "files" in tiling.keys:
        return None
    return next(_pattern_names(tiling, _pieces(tiling, labels)))


@dataclass(frozen=True)
class _Piece:
    """Text, and the number behind it; None at a pattern's end."""

    text: str
    axis: Axis | None
    spec: str


def _placeholders(count: int, labels: Sequence[str]) -> tuple[Mapping[str, Axis], set[str]]:
    """Return what placeholders stand for, and those that could stand for two things."""
    found: dict[str, Axis] = {INDEX: INDEX, LEVEL: LEVEL}
    found |= {f"d{number}": number for number in range(count)}
    found |= dict(zip(SPATIAL, range(count), strict=False))
    unclear = set()
    for number, label in enumerate(labels):
        if label and found.setdefault(label, number) != number:
            unclear.add(label)
    return found, unclear


def _pieces(tiling: Tiling, labels: Sequence[str]) -> list[_Piece]:
    pattern = tiling.keys["pattern"]
    known, unclear = _placeholders(len(tiling.stored[0].axes), labels)
    try:
        parsed = list(Formatter().parse(pattern))
    except ValueError as error:
        raise tiling.error(f"{pattern!r:.200}: {error}", "pattern") from None
    unknown = sorted({name for _, name, _, _ in parsed if name is not None and name not in known})
    if unknown:
        spelt = ", ".join(f"{{{name}}}" for name in unknown)
        raise tiling.error(f"unknown placeholders {spelt}; there are {_spelt(known)}", "pattern")
    doubtful = sorted({name for _, name, _, _ in parsed if name in unclear})
    if doubtful:
        message = (
            f"{{{doubtful[0]}}} is one dimension by its name and another by its label; {{d0}}, {{d1}}, ... are clear"
        )
        raise tiling.error(message, "pattern")
    pieces: list[_Piece] = []
    text = ""
    for literal, name, spec, conversion in parsed:
        text += literal  # `{{` ends a piece of text without a placeholder behind it
        if name is not None:
            pieces.append(_piece(tiling, known, (text, name, spec or "", conversion)))
            text = ""
    return [*pieces, _Piece(text, None, "")]


def _spelt(known: Mapping[str, Axis]) -> str:
    return ", ".join(f"{{{name}}}" for name in known)


def _piece(tiling: Tiling, known: Mapping[str, Axis], part: Part) -> _Piece:
    text, name, spec, conversion = part
    if conversion or "{" in spec or _WIDE.search(spec) or not _formats(spec):
        shown = f"{{{name}{f'!{conversion}' if conversion else ''}:{spec}}}"
        raise tiling.error(f"{shown}: no format of whole numbers; {{{name}:03d}} is one", "pattern")
    return _Piece(text, known[name], spec)


def _formats(spec: str) -> bool:
    try:
        format(0, spec)
    except ValueError:
        return False
    return True


def _pattern_names(tiling: Tiling, pieces: Sequence[_Piece]) -> Iterator[str]:
    used = {piece.axis for piece in pieces}
    if len(tiling.stored) > 1 and not used & {LEVEL, INDEX}:
        raise tiling.error(f"{tiling.keys['pattern']!r:.200}: several levels, but neither {{l}} nor {{i}}", "pattern")
    first = 0
    for level in tiling.stored:
        yield from _level_names(level, pieces, 0 if LEVEL in used else first)
        first += level.tiles


def _level_names(level: TileLevel, pieces: Sequence[_Piece], first: int) -> Iterator[str]:
    """Yield the names of a level's tiles; numbers are spelt once for each place along an axis."""
    last = len(level.axes) - 1
    tail = pieces[-1].text
    parts = [(piece, _numbers(level, piece)) for piece in pieces if piece.axis is not None]
    for number, index in enumerate(product(*(range(count) for count in reversed(level.counts))), first):
        texts = [
            piece.text + (format(number, piece.spec) if spelt is None else spelt[_place(piece.axis, index, last)])
            for piece, spelt in parts
        ]
        yield "".join(texts) + tail


def _numbers(level: TileLevel, piece: _Piece) -> list[str] | None:
    """Return a placeholder's texts; None for the index, which is another for every tile."""
    if piece.axis == INDEX:
        return None
    if isinstance(piece.axis, int):
        return [format(number, piece.spec) for number in range(level.counts[piece.axis])]
    return [format(level.number, piece.spec)]


def _place(axis: Axis | None, index: Sequence[int], last: int) -> int:
    return index[last - axis] if isinstance(axis, int) else 0


def _refuse_twins(tiling: Tiling, names: Sequence[str | None]) -> None:
    if len(set(names)) == len(names):
        return
    seen: set[str | None] = set()
    twin = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    raise tiling.error(f"{tiling.keys['pattern']!r:.200} names several tiles {twin!r:.200}", "pattern")


def _listed(tiling: Tiling) -> dict[int, str]:
    """Return the names that the list gives, by tiles' numbers."""
    found: dict[int, str] = {}
    for number, entry in enumerate(tiling.keys.get("files", ())):
        tile = _tile_of(tiling, entry, number)
        if tile in found:
            raise tiling.error(f"the tile of {found[tile]!r:.200} once more", f"files[{number}]")
        found[tile] = entry["file"]
    return found


def _tile_of(tiling: Tiling, entry: Mapping[str, Any], number: int) -> int:
    """Return the number of the tile that an entry of the list names."""
    wanted, first = entry.get("level", 0), 0
    for level in tiling.stored:
        if level.number == wanted:
            return first + _index_of(tiling, level, entry["indices"], number)
        first += level.tiles
    raise _unstored(tiling, wanted, number)


def _unstored(tiling: Tiling, wanted: int, number: int) -> MalformedError:
    stored = ", ".join(str(level.number) for level in tiling.stored)
    return tiling.error(f"level {wanted}; stored are {stored}", f"files[{number}].level")


def _index_of(tiling: Tiling, level: TileLevel, indices: Sequence[int], number: int) -> int:
    """Return a tile's number in its level; indices are those of the tiled dimensions, or of all."""
    dimensions = tiling.dimensions if len(indices) == len(tiling.dimensions) else range(len(level.axes))
    counts = [level.counts[dimension] for dimension in dimensions]
    if len(indices) != len(counts):
        message = f"{len(indices)} numbers for {len(tiling.dimensions)} tiled dimensions"
        raise tiling.error(message, f"files[{number}].indices")
    if any(index >= count for index, count in zip(indices, counts, strict=True)):
        message = f"{list(indices)} in a grid of {counts} tiles"
        raise tiling.error(message, f"files[{number}].indices")
    found = 0
    for index, count in zip(reversed(indices), reversed(counts), strict=True):
        found = found * count + index
    return found
