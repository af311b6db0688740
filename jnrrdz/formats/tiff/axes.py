"""The axes of a series: their names here, and the order in which an array has them.

May touch nothing.  The letters are those of tifffile and OME-XML; the names those of DESIGN: `t`,
`c`, `z`, `y`, `x`, and `band` for the samples of a pixel.
"""

from collections.abc import Sequence

NAMES = {
    "X": "x",
    "Y": "y",
    "Z": "z",
    "C": "c",
    "T": "t",
    "S": "band",
    "I": "page",
    "A": "angle",
    "P": "phase",
    "R": "tile",
    "H": "lifetime",
    "E": "lambda",
    "Q": "other",
    "L": "exposure",
    "V": "event",
    "M": "mosaic",
    "J": "column",
    "K": "row",
}
"""A letter's name; one that is not here is its own name, in lower case."""

LAST = ("t", "c", "band", "z", "y", "x")
"""The order that OME-Zarr asks for; all other axes come first, in the file's order."""


def axis_names(letters: Sequence[str]) -> tuple[str, ...]:
    """Return a name for each letter, the second of one name with a number behind it."""
    names: list[str] = []
    for letter in letters:
        name = NAMES.get(letter.upper(), letter.lower())
        again = sum(known == name or known.startswith(f"{name}_") for known in names)
        names.append(f"{name}_{again + 1}" if again else name)
    return tuple(names)


def order_of(names: Sequence[str]) -> tuple[int, ...]:
    """Return the places in `names`, in the order in which an array has them."""
    ranks = {name: rank for rank, name in enumerate(LAST, start=1)}
    return tuple(sorted(range(len(names)), key=lambda place: ranks.get(names[place], 0)))
