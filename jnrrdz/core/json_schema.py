"""JSON that others wrote: parsed in one way, and checked by a schema where it enters.

A schema is made of checks.  A check takes a value of JSON and returns it, or raises a
MalformedError that says what the value is and what is needed.  The checks of objects
and lists put the path in front, so that the error's `field` is a place in the document:

    >>> codec = members({"name": TEXT}, {"configuration": OBJECT})
    >>> validate({"codecs": [{"name": 3}]}, members({"codecs": list_of(codec)}), "data/zarr.json")
    MalformedError: data/zarr.json: codecs[0].name: found 3; a text is needed

Members that a schema does not name pass.  Checks of codecs' own configurations are in
`configuration`, which refuses members that it does not know.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jnrrdz.errors import MalformedError

type Check = Callable[[Any], Any]
"""From a value of JSON to the same value, or to what it means; a MalformedError says what is needed."""

SHOWN = 40
"""Characters of a wrong value that an error shows."""

DEEPEST = 128
"""Levels of lists and objects of a document: parsers take more, what walks a document does not."""

LARGEST_SIZE = (1 << 63) - 1
"""The largest size of an axis: numpy counts in 64 bits."""


# Text to values


def parse_json(data: str | bytes, *, field: str | None = None, is_document: bool = True) -> Any:
    """Return the values of a JSON text, all of which can be written as strict JSON again.

    NaN and Infinity, which Python's and Java's writers write, become texts as Zarr spells
    them.  Nesting is bounded in a document; of references it is not looked at, since there
    may be millions.
    """
    try:
        value = json.loads(data, parse_constant=_same, parse_float=_number)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"not JSON: {error}", field=field) from error
    if is_document and _may_be_deep(data):
        _check_depth(value, field)
    if _has_surrogates(data):
        _check_unicode(value, field)
    return value


def _same(constant: str) -> str:
    return constant


def _number(text: str) -> float | str:
    number = float(text)
    if math.isfinite(number):
        return number
    return "Infinity" if number > 0 else "-Infinity"


def _may_be_deep(data: str | bytes) -> bool:
    """Whether a text opens more lists and objects than a document may have levels."""
    if isinstance(data, bytes):
        return data.count(b"[") + data.count(b"{") > DEEPEST
    return data.count("[") + data.count("{") > DEEPEST


def _check_depth(value: Any, field: str | None) -> None:
    """Refuse what is nested too deeply, level by level: recursion would end before."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            inner for container in level for inner in _values(container) if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return
    raise MalformedError(f"lists or objects nested more than {DEEPEST} deep", field=field)


def _values(container: Any) -> Iterable[Any]:
    if type(container) is dict:
        return container.values()
    return container if type(container) is list else ()


def _has_surrogates(data: str | bytes) -> bool:
    """Whether a text has the escape of a half of a character."""
    if isinstance(data, bytes):
        return b"\\ud" in data or b"\\uD" in data
    return "\\ud" in data or "\\uD" in data


def _check_unicode(value: Any, field: str | None) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        message = "a text with a half of a surrogate pair, which is not Unicode"
        raise MalformedError(message, field=field) from None
    except RecursionError:
        raise MalformedError("lists or objects nested too deeply", field=field) from None


# A value against a schema


def validate(value: Any, check: Check, document: str) -> Any:
    """Return the value of a document that a check accepts; its error names the document and the path in it."""
    try:
        return check(value)
    except MalformedError as error:
        error.field = f"{document}: {error.field}" if error.field else document
        raise


def shown(value: object) -> str:
    """Return a value as an error shows it: cut, for it may be of any length."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def refused(value: object, needed: str) -> MalformedError:
    """Return the error for a value in place of one that is needed."""
    return MalformedError(f"found {shown(value)}; {needed} is needed")


def inside(error: MalformedError, place: str | int) -> MalformedError:
    """Return the error of a value with the place of that value in a list or an object put in front."""
    outer = f"[{place}]" if isinstance(place, int) else place
    inner = error.field or ""
    joint = "" if not inner or inner.startswith("[") else "."
    error.field = f"{outer}{joint}{inner}"
    return error


# Checks


def is_integer(value: object, least: float = 0, most: float = math.inf) -> bool:
    """Whether a value is an integer between two; true is an int to Python, but no number."""
    return type(value) is int and least <= value <= most


def is_number(value: object) -> bool:
    """Whether a value is a finite number that numpy holds; true is none."""
    if type(value) is int:
        return abs(value) <= LARGEST_SIZE
    return type(value) is float and math.isfinite(value)


def _anything(value: Any) -> Any:
    """Accept any value."""
    return value


def integer(least: int = 0, most: float = math.inf) -> Check:
    """Return the check of an integer."""
    is_open = most == math.inf
    needed = f"an integer of {least} or more" if is_open else f"an integer from {least} to {most}"

    def check(value: Any) -> Any:
        if not is_integer(value, least, most):
            raise refused(value, needed)
        return value

    return check


def _a_number(value: Any) -> Any:
    """Accept a finite number."""
    if not is_number(value):
        raise refused(value, "a finite number")
    return value


def _a_text(value: Any) -> str:
    """Accept a text."""
    if not isinstance(value, str):
        raise refused(value, "a text")
    return value


def _a_flag(value: Any) -> bool:
    """Accept true and false."""
    if not isinstance(value, bool):
        raise refused(value, "true or false")
    return value


def _an_object(value: Any) -> dict[str, Any]:
    """Accept an object with any members."""
    if not isinstance(value, dict):
        raise refused(value, "an object")
    return value


ANYTHING: Check = _anything
NUMBER: Check = _a_number
TEXT: Check = _a_text
FLAG: Check = _a_flag
OBJECT: Check = _an_object


def one_of(*choices: str | int) -> Check:
    """Return the check of a value that is one of these, and of its type."""
    needed = " or ".join(repr(choice if isinstance(choice, int) else str(choice)) for choice in choices)

    def check(value: Any) -> Any:
        for choice in choices:
            if value == choice and type(value) in {type(choice), str}:
                return choice
        raise refused(value, needed)

    return check


def nullable(check: Check) -> Check:
    """Return a check that accepts null, too."""

    def or_null(value: Any) -> Any:
        return None if value is None else check(value)

    return or_null


def list_of(item: Check, fewest: int = 0, most: int | None = None) -> Check:
    """Return the check of a list of items."""
    needed = f"a list of {fewest} or more" if fewest else "a list"
    if most is not None:
        needed = f"a list of {fewest} to {most}"

    def check(value: Any) -> Any:
        if not isinstance(value, list) or len(value) < fewest or (most is not None and len(value) > most):
            raise refused(value, needed)
        number = 0
        try:
            for number, entry in enumerate(value):  # noqa: B007  the error names it
                item(entry)
        except MalformedError as error:
            raise inside(error, number) from None
        return value

    return check


def object_of(item: Check) -> Check:
    """Return the check of an object whose members are all of one kind, whatever their names are."""

    def check(value: Any) -> Any:
        for name, entry in _an_object(value).items():
            _member(item, name, entry)
        return value

    return check


def members(needed: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """Return the check of an object by its members; others pass."""
    every = {**needed, **(optional or {})}

    def check(value: Any) -> Any:
        given = _an_object(value)
        if not needed.keys() <= given.keys():
            missing = next(name for name in needed if name not in given)
            raise inside(MalformedError("is missing"), missing)
        name = ""
        try:
            for name, item in every.items():
                if name in given:
                    item(given[name])
        except MalformedError as error:
            raise inside(error, name) from None
        return value

    return check


def _member(check: Check, name: str, value: Any) -> None:
    try:
        check(value)
    except MalformedError as error:
        raise inside(error, shown(name).strip("'\"")) from None


def by_member(name: str, checks: Mapping[str, Check]) -> Check:
    """Return the check of an object by the text of one member, which another check has accepted.

    Objects with a text that no check is for pass.
    """

    def check(value: Any) -> Any:
        chosen = checks.get(value[name])
        return value if chosen is None else chosen(value)

    return check


def by_name(configurations: Mapping[str, Check]) -> Check:
    """Return the check of a name with a configuration by the check of that name; bare names and other names pass."""

    def check(value: Any) -> Any:
        chosen = None if isinstance(value, str) else configurations.get(value["name"])
        if chosen is not None:
            _member(chosen, "configuration", value.get("configuration", {}))
        return value

    return check


def all_of(*checks: Check) -> Check:
    """Return the check of a value that each check accepts."""

    def each(value: Any) -> Any:
        for check in checks:
            check(value)
        return value

    return each


def text_or(check: Check) -> Check:
    """Return the check of a text, or of what another check accepts."""

    def either(value: Any) -> Any:
        return value if isinstance(value, str) else check(value)

    return either


# Attributes of others, which only describe: a wrong form is left out, and no error


def as_object(value: Any) -> dict[str, Any]:
    """Return an object of JSON; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; none for any other value."""
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict)]


def as_text(value: Any) -> str | None:
    """Return a text, None for any other value."""
    return value if isinstance(value, str) else None


def as_number(value: Any) -> float | int | None:
    """Return a number, None for any other value; true is none."""
    is_numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_numeric else None


def as_numbers(value: Any, count: int) -> tuple[float, ...] | None:
    """Return a list of this many numbers, None for any other value."""
    items = value if isinstance(value, list | tuple) else []
    if len(items) != count or any(as_number(item) is None for item in items):
        return None
    return tuple(items)


def without_empty(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that hold something: no None, no empty list, no empty object."""
    return {name: value for name, value in members.items() if value is not None and value not in ([], {})}
