"""The values along an axis as a coordinate variable that xarray decodes, and back; texts as values.

Times are integers with units, as in https://cfconventions.org/cf-conventions/cf-conventions.html#time-coordinate, in
the coarsest unit that is exact.  Zarr v3 has no core data type for text: labels are an attribute of the group.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import BYTES, bytes_
from jnrrdz.core.describe import Image, taken
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.segments import file_date
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import MalformedError, UnrepresentableError

type Values = NDArray[Any]
"""int64, float64, datetime64 or text."""

type Meaning = Literal["date", "number", "text"]

UNITS = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
COARSE = {"days": 86400, "hours": 3600, "minutes": 60}
CALENDARS = {"standard", "gregorian", "proleptic_gregorian"}

_SINCE = re.compile(r"([a-z]+) since (\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d)?)(?:\.0+)?(?: ?(?:Z|UTC|\+00:00))?")
_DATE = re.compile(
    r"(\d{4})([-:/_.]?)(\d\d)\2(\d\d)"
    r"(?:[T _-]?(\d\d)[:_]?(\d\d)(?:[:_]?(\d\d)(?:[.,](\d{1,9}))?)?)?"
    r"(?:(Z)|([+-])(\d\d):?(\d\d))?"
)


@dataclass(frozen=True, eq=False)
class Coordinate:
    """Values along an axis, and what else is said of them."""

    values: Values
    attributes: Mapping[str, Any]


# Where the text of a value stands


METADATA = "metadata"


@dataclass(frozen=True)
class Rule:
    """Where the coordinate of each group stands, and what it means."""

    pattern: re.Pattern[str] | None = None
    """Finds it in a name; without a pattern it is the time in the metadata."""
    meaning: Meaning | None = None
    option: str = "--coord-from"
    """What asks for it."""

    def text(self, name: str, group: VirtualGroup) -> str:
        """Return the text of one group's coordinate."""
        if self.pattern is not None:
            match = self.pattern.search(name)
            if match is None or not match[1]:
                raise UnrepresentableError(f"{self.option} {self.pattern.pattern} finds nothing in its name")
            return match[1]
        nodes = [group, *(node for _, node in group.walk())]
        times = dict.fromkeys(time for node in nodes if (time := taken(node.attributes)) is not None)
        date = file_date(group.attributes)
        if not times and date is not None:
            return date
        if len(times) != 1:
            tells = f"several times: {', '.join(times)}" if times else "no time"
            raise UnrepresentableError(
                f"its metadata tell {tells} at which it was taken; {self.option} REGEX reads names"
            )
        return next(iter(times))

    def values(self, texts: Sequence[str]) -> Values:
        """Return what the texts stand for."""
        return parsed(texts, self.meaning)


def rule_of(coord_from: str, option: str = "--coord-from") -> Rule:
    """Return what `--coord-from`, or another option, asks for: "metadata", or a regular expression with one group.

    A group called `date`, `number` or `text` says what it finds, where that could be mistaken.
    """
    if coord_from == METADATA:
        return Rule(meaning="date", option=option)
    try:
        pattern = re.compile(coord_from)
    except re.error as error:
        raise MalformedError(f"not a regular expression: {error}", field=option) from error
    if pattern.groups != 1:
        has = f"{pattern.groups} pairs" if pattern.groups else "no pair"
        raise MalformedError(
            f"{coord_from} has {has} of ( ); put one round the part that is the value, such as '({coord_from})'"
            if not pattern.groups
            else f"{coord_from} has {has} of ( ); one is to stand round the part that is the value, (?: ) round others",
            field=option,
        )
    names = [name for name in get_args(Meaning.__value__) if name in pattern.groupindex]
    return Rule(pattern, names[0] if names else None, option)


# Texts to values


def parsed(texts: Sequence[str], meaning: Meaning | None = None) -> Values:
    """Return what texts stand for: dates if all of them are some, else numbers if all are, else text.

    Dates are ISO 8601, with or without separators; without an offset they count as UTC.  `meaning`
    says which is meant, and what is no such value is then an error.
    """
    readers: dict[Meaning, Callable[[str], Any]] = {"date": _date, "number": _number, "text": str}
    for name in (meaning,) if meaning else readers:
        found = [readers[name](text) for text in texts]
        strange = [text for text, value in zip(texts, found, strict=True) if value is None]
        if not strange:
            return column(found)
        if meaning:
            raise MalformedError(f"{', '.join(map(repr, strange[:5]))}: not a {meaning}", field="coordinate")
    raise MalformedError("no values", field="coordinate")


def _date(text: str) -> np.datetime64 | None:
    """Return a date with or without a time, in UTC."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return None
    year, _, month, day, hour, minute, second, fraction, _, sign, hours, minutes = found.groups()
    digits = (fraction or "").ljust(9, "0")
    try:
        when = np.datetime64(f"{year}-{month}-{day}T{hour or '00'}:{minute or '00'}:{second or '00'}.{digits}", "ns")
    except ValueError:
        return None
    if when.astype(str)[:4] != year:  # beyond the years that nanoseconds reach
        return None
    east = np.timedelta64(int(hours or 0) * 60 + int(minutes or 0), "m")
    return when + east if sign == "-" else when - east


def _number(text: str) -> float | None:
    try:
        return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII) else float(text)
    except ValueError:
        return None


def column(values: Sequence[Any]) -> Values:
    """Return values of one kind as int64, float64, datetime64 or text; a mixture is an error."""
    naive = [
        value.astimezone(UTC).replace(tzinfo=None)
        if isinstance(value, datetime) and value.tzinfo is not None
        else value
        for value in values
    ]
    plain = [np.datetime64(value) if isinstance(value, date) else value for value in naive]
    kinds = {np.asarray(value).dtype.kind for value in plain}
    found = np.array(plain if len(kinds) == 1 or (kinds and kinds <= {"i", "u", "f"}) else None)
    if found.dtype.kind == "M":
        return _coarsest(found)
    if found.dtype.kind in "iu" and found.min() >= -(2**63) and found.max() < 2**63:
        return found.astype(np.int64)
    if found.dtype.kind == "f" and np.isfinite(found).all():
        return found.astype(np.float64)
    if found.dtype.kind == "U":
        return found
    raise UnrepresentableError("coordinates have to be all numbers, all times or all texts", field="coordinate")


def _coarsest(times: Values) -> Values:
    """Return times in the coarsest of `UNITS` that holds them exactly."""
    if np.isnat(times).any():
        raise UnrepresentableError("a coordinate that is no time (NaT)", field="coordinate")
    for unit in UNITS.values():
        coarse = times.astype(f"M8[{unit}]")
        if (coarse == times).all():
            return coarse
    raise UnrepresentableError(f"times in {times.dtype}, finer than nanoseconds", field="coordinate")


# Values to a variable, and back


def labels_name(dim: str) -> str:
    """Return the name of the group attribute that holds the labels of an axis."""
    return f"{dim}_labels"


def variable(dim: str, coordinate: Coordinate, step: int | None = None) -> VirtualArray:
    """Return the coordinate variable of an axis, its values as inline chunks; texts cannot be one.

    All values are one chunk, or `step` of them each: the last chunk is filled up, so that it stays as long as it is
    when the axis grows.
    """
    values, attributes = coordinate.values, dict(coordinate.attributes)
    if values.dtype.kind == "M":
        unit = np.datetime_data(values.dtype)[0]
        name = next(name for name, short in UNITS.items() if short == unit)
        units = {"units": f"{name} since 1970-01-01", "calendar": "proleptic_gregorian"}
        attributes = {"standard_name": "time", **attributes, **units}
        values = values.astype(np.int64)
    size, fill = len(values), values.dtype.type(0)
    chunk = step or size
    parts = [values[first : first + chunk].astype(f"<{values.dtype.kind}8") for first in range(0, size, chunk)]
    data = {number: part.tobytes().ljust(chunk * 8, b"\0") for number, part in enumerate(parts)}
    refs = replace(ChunkRefs.empty(len(parts)), inline=data)
    return VirtualArray((size,), values.dtype, (chunk,), (bytes_("little"),), refs, (dim,), fill, attributes)


_WHOLE = 1 << 53
"""Below it a double that is whole is exactly the number that it was made of."""


def coordinate_of(group: VirtualGroup, dim: str) -> Coordinate | None:
    """Return the values along an axis that a group holds itself, None where it has none that can be read here."""
    array = group.children.get(dim)
    return _stated(array if isinstance(array, VirtualArray) else None, group.attributes, dim)


def coordinate_along(image: Image, dim: str) -> Coordinate | None:
    """Return the values along an axis of an image, None where its group has none that can be read here."""
    node = image.tree.sibling(image.finest, dim)
    array = None
    if node is not None and node.refs is not None:
        array = node.array
    return _stated(array, image.tree.group_attributes(image.finest), dim)


def _stated(
    array: VirtualArray | None,
    group_attributes: Mapping[str, Any],
    dim: str,
) -> Coordinate | None:
    """Return the values of a coordinate's array, else the labels that its group lists."""
    if array is None or array.dimension_names != (dim,):
        labels = group_attributes.get(labels_name(dim))
        is_text = isinstance(labels, list) and labels and all(isinstance(label, str) for label in labels)
        return Coordinate(np.array(labels), {}) if is_text else None
    numbers, attributes = _inline_values(array), array.attributes
    if numbers is None:
        return None
    # numbers that the attributes make no exact times stay numbers
    since = _SINCE.fullmatch(str(attributes.get("units", "")))
    if since is not None and numbers.dtype.kind == "f" and is_time(attributes):
        is_whole = (np.abs(numbers) < _WHOLE).all() and (numbers == np.floor(numbers)).all()
        numbers = numbers.astype(np.int64) if is_whole else numbers
    if since is None or not is_time(attributes) or numbers.dtype.kind not in "iu":
        return Coordinate(column(numbers.tolist()), attributes)
    step = np.timedelta64(COARSE.get(since[1], 1), UNITS.get(since[1], "s"))  # type: ignore[call-overload]
    times = np.datetime64(since[2].replace(" ", "T")) + numbers.astype(np.int64) * step
    others = {name: value for name, value in attributes.items() if name not in {"units", "calendar", "_FillValue"}}
    return Coordinate(_coarsest(times), others)


def _inline_values(array: VirtualArray) -> Values | None:
    codecs = [codec.name for codec in array.codecs]
    if codecs != [BYTES] or array.dtype.kind not in "iuf":
        return None
    inline = array.refs.columns().inline
    if len(inline) != array.refs.chunks:
        return None
    order: Literal["<", ">"] = ">" if array.codecs[0].configuration.get("endian") == "big" else "<"
    data = b"".join(inline[chunk] for chunk in range(array.refs.chunks))
    stored = array.dtype.newbyteorder(order)
    if len(data) != array.refs.chunks * array.chunks[0] * stored.itemsize:
        raise MalformedError(f"{len(data)} inline bytes for {array.shape[0]} coordinates", field="coordinate")
    return np.frombuffer(data, stored)[: array.shape[0]].astype(array.dtype)


def is_time(attributes: Mapping[str, Any]) -> bool:
    """Whether attributes make integers times that can be told exactly."""
    found = _SINCE.fullmatch(str(attributes.get("units", "")))
    return found is not None and found[1] in UNITS | COARSE and attributes.get("calendar", "standard") in CALENDARS
