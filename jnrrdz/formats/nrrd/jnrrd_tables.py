"""Lengths of the lists in a JNRRD's tiling: a value for each tile, or for each level.

May touch errors and the tiling's own modules; opens nothing.  Rules in docs/formats/jnrrd.md.
"""

from jnrrdz.errors import MalformedError
from jnrrdz.formats.nrrd.jnrrd_levels import Tiling

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
