"""Facts as text for people: aligned tables, sizes, shapes, codecs in a few words.

May touch the numbers' names in the TIFF layout tables.  Everything returned is printable, whatever a
manifest holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jnrrdz.cli.console import printable
from jnrrdz.formats.tiff.tags import Compression, Predictor, name_of

_UNITS = ("kB", "MB", "GB", "TB", "PB", "EB")
_STEP = 1000
_LONGEST = 40  # characters of a codec's setting that a line can bear


def counted(number: int, noun: str) -> str:
    """Return `1 chunk`, `2,000 chunks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(nbytes: int | None) -> str:
    """Return a number of bytes in three digits or so."""
    if nbytes is None:
        return "unknown"
    if nbytes < _STEP:
        return f"{nbytes} B"
    value, units = float(nbytes), iter(_UNITS)
    unit = ""
    # 999.95 would be rounded to 1000.0 of the smaller unit
    while value >= _STEP - 0.05 and (larger := next(units, None)):
        value, unit = value / _STEP, larger
    return f"{value:,.1f} {unit}"


def sides(shape: Sequence[int]) -> str:
    """Return `1000 x 1200`."""
    return " x ".join(map(str, shape)) or "scalar"


def table(rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """Return lines with the columns aligned, those in `right` at their right edges."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = set(right)
    return [
        "  ".join(
            cell.rjust(width) if column in numeric else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def codec(entry: Mapping[str, Any]) -> str:
    """Return a codec with what matters of its configuration."""
    name = str(entry["name"])
    configuration = entry.get("configuration") or {}
    if name.rpartition("/")[2] == "tiff-tile":
        return f"{name} ({_tiff(configuration)})"
    plain = {key: value for key, value in configuration.items() if isinstance(value, str | int | float)}
    shown = ", ".join(f"{key} {value}" for key, value in plain.items() if len(str(value)) <= _LONGEST)
    return f"{name} ({shown})" if shown else name


def _tiff(configuration: Mapping[str, Any]) -> str:
    compression, predictor = configuration.get("compression", 1), configuration.get("predictor", 1)
    words = [name_of(Compression, compression) if isinstance(compression, int) else str(compression)]
    if isinstance(predictor, int) and predictor in Predictor and predictor != Predictor.NONE:
        words.append(f"predictor {Predictor(predictor).name}")
    return ", ".join(words)
