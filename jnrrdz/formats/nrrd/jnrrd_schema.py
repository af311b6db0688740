"""The tiling extension's keys checked against its JSON Schema: every problem at once, by the names in the file.

May touch errors and the schema beside it (jnrrd_tile.schema.json).  Understands what that schema uses of
https://json-schema.org/draft/2020-12, and is fast on tables of a million numbers, which general validators
are not.
"""

import json
import reprlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from jnrrdz.errors import MalformedError

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
