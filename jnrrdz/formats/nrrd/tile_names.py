"""Names of the files of external tiles: a pattern's, and those that a list gives.

Tiles are numbered as in a table of offsets: dimension 0 fastest, the stored levels one after another.  Rules in
docs/formats/jnrrd.md.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from string import Formatter

from jnrrdz.formats.nrrd.header import MOST_FILES
from jnrrdz.formats.nrrd.tiling import TileLevel, Tiling

SPATIAL = ("x", "y", "z")
_WIDE = re.compile(r"\d{4}")
LEVEL, INDEX = "l", "i"

type Axis = int | str
"""What a placeholder stands for: a dimension's number, `l` or `i`."""


def tile_names(tiling: Tiling, labels: Sequence[str]) -> list[str | None]:
    """Return the name of every tile's file: the list's, else the pattern's, else None."""
    if tiling.tiles > MOST_FILES:
        raise tiling.error(f"{tiling.tiles} external tiles; {MOST_FILES} are the most", "sizes")
    names: list[str | None] = [None] * tiling.tiles
    if "pattern" in tiling.keys:
        names = list(_pattern_names(tiling, _pieces(tiling, labels)))
        if len(set(names)) < len(names):
            twin = next(name for name, count in Counter(names).items() if count > 1)
            raise tiling.error(f"{tiling.keys['pattern']!r:.200} names several tiles {twin!r:.200}", "pattern")
    for number, name in _listed(tiling).items():
        names[number] = name
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
    known: dict[str, Axis] = {INDEX: INDEX, LEVEL: LEVEL}
    known |= {f"d{number}": number for number in range(count)}
    known |= dict(zip(SPATIAL, range(count), strict=False))
    unclear = {label for number, label in enumerate(labels) if label and known.setdefault(label, number) != number}
    return known, unclear


def _pieces(tiling: Tiling, labels: Sequence[str]) -> list[_Piece]:
    """Return the parts of the pattern."""
    pattern = tiling.keys["pattern"]
    known, unclear = _placeholders(len(tiling.stored[0].axes), labels)
    try:
        parsed = list(Formatter().parse(pattern))
    except ValueError as error:
        raise tiling.error(f"{pattern!r:.200}: {error}", "pattern") from None
    names = {name for _, name, _, _ in parsed if name is not None}
    unknown, doubtful = sorted(names - set(known)), sorted(names & unclear)
    if unknown:
        text = f"unknown placeholders {_spelt(unknown)}; there are {_spelt(known)}"
        raise tiling.error(text, "pattern")
    if doubtful:
        text = f"{{{doubtful[0]}}} is one dimension by its name and another by its label; {{d0}}, {{d1}}, ... are clear"
        raise tiling.error(text, "pattern")
    pieces: list[_Piece] = []
    text = ""
    for literal, name, spec, conversion in parsed:
        text += literal  # `{{` ends a piece of text without a placeholder behind it
        if name is None:
            continue
        if conversion or not _is_format(spec or ""):
            placeholder = f"{{{name}{f'!{conversion}' if conversion else ''}:{spec}}}"
            raise tiling.error(f"{placeholder}: no format of whole numbers; {{{name}:03d}} is one", "pattern")
        pieces.append(_Piece(text, known[name], spec or ""))
        text = ""
    return [*pieces, _Piece(text, None, "")]


def _spelt(names: Iterable[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)


def _is_format(spec: str) -> bool:
    """Whether a format is one of whole numbers, and of a width that names of files have."""
    if "{" in spec or _WIDE.search(spec):
        return False
    try:
        format(0, spec)
    except ValueError:
        return False
    return True


def _pattern_names(tiling: Tiling, pieces: Sequence[_Piece]) -> Iterator[str]:
    """Yield the names of all tiles; numbers are spelt once for each place along an axis."""
    used = {piece.axis for piece in pieces}
    if len(tiling.stored) > 1 and not used & {LEVEL, INDEX}:
        raise tiling.error(f"{tiling.keys['pattern']!r:.200}: several levels, but neither {{l}} nor {{i}}", "pattern")
    tail = pieces[-1].text
    for level in tiling.stored:
        last = len(level.axes) - 1
        first = 0 if LEVEL in used else level.first
        parts = [
            (piece, _numbers(level, piece), last - piece.axis if isinstance(piece.axis, int) else None)
            for piece in pieces[:-1]
        ]
        for number, index in enumerate(product(*(range(count) for count in reversed(level.counts))), first):
            texts = [
                piece.text
                + (format(number, piece.spec) if spelt is None else spelt[0 if place is None else index[place]])
                for piece, spelt, place in parts
            ]
            yield "".join(texts) + tail


def _numbers(level: TileLevel, piece: _Piece) -> list[str] | None:
    """Return a placeholder's texts; None for the index, which is another for every tile."""
    if piece.axis == INDEX:
        return None
    if isinstance(piece.axis, int):
        return [format(number, piece.spec) for number in range(level.counts[piece.axis])]
    return [format(level.number, piece.spec)]


def _listed(tiling: Tiling) -> dict[int, str]:
    """Return the names that the list gives, by tiles' numbers."""
    levels = {level.number: level for level in tiling.stored}
    names: dict[int, str] = {}
    for number, entry in enumerate(tiling.keys.get("files", ())):
        level = levels.get(entry.get("level", 0))
        if level is None:
            message = f"level {entry.get('level', 0)}; stored are {', '.join(map(str, levels))}"
            raise tiling.error(message, f"files[{number}].level")
        tile = level.first + _index_of(tiling, level, entry["indices"], number)
        if tile in names:
            raise tiling.error(f"the tile of {names[tile]!r:.200} once more", f"files[{number}]")
        names[tile] = entry["file"]
    return names


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
    place = 0
    for index, count in zip(reversed(indices), reversed(counts), strict=True):
        place = place * count + index
    return place
