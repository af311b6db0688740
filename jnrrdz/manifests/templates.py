"""Texts of a manifest with names in them: `templates` that stand in URLs, and `gen`, references that are computed.

Follows https://fsspec.github.io/kerchunk/spec.html, where both are Jinja templates.  What a manifest says is never
given to Jinja: between `{{` and `}}` may stand a name, whole numbers with `+ - * // %`, a text with a number put in
(`'%03d' % i`), or a template called with values (`f(c='x')`).  Everything else is refused, and so is more than a
bounded number of references or bytes.
"""

import ast
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jnrrdz.errors import MalformedError, UnsupportedError

EXPANDED = 256 << 20
"""Bytes of texts that templates may expand to; a manifest of a few KB could ask for any number."""

MOST_GENERATED = 1 << 20
"""References that may be computed."""

LONGEST = 1000
"""Characters of an expression."""

type Value = int | str
type Values = Mapping[str, Any]

_FIELD = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NAME = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_NUMBERED = re.compile(r"[^%]*%(0?[1-9]?[0-9]?)d[^%]*")
"""Python's old way to put a number into a text, up to 99 characters wide."""

_LARGEST = 1 << 63
_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class Templates:
    """What stands for the names of templates in a manifest's texts."""

    def __init__(self, values: Values, overrides: Mapping[str, str] | None = None) -> None:
        self._values = {**values, **(overrides or {})}
        self._longest = max((len(value) for value in self._values.values() if isinstance(value, str)), default=0)
        self._expanded = 0

    def expand(self, text: str, names: Mapping[str, Value] | None = None) -> str:
        """Return a text with what stands between braces replaced; `names` stand before the templates' own."""
        if "{{" not in text:
            return text
        self._expanded += len(text) + text.count("{{") * max(self._longest, 20)
        if self._expanded > EXPANDED:
            raise MalformedError(f"templates that may expand to more than {EXPANDED} bytes", field="templates")
        expanded = _NAME.sub(lambda match: str(self._named(match[1], names or {})), text)
        if "{{" in expanded:
            expanded = _FIELD.sub(lambda match: str(self._computed(match[1], names or {}, text)), expanded)
        if "{{" in expanded:
            raise _refused(text)
        return expanded

    def _named(self, name: str, names: Mapping[str, Value]) -> Value:
        value = names.get(name, self._values.get(name))
        if not isinstance(value, str | int):
            message = f"no template of the name {name!r:.80}; --template NAME=URL (template_overrides=) gives it"
            raise MalformedError(message, field="templates")
        return value

    def _computed(self, expression: str, names: Mapping[str, Value], text: str) -> Value:
        """Return what an expression stands for."""
        try:
            tree = ast.parse(expression[: LONGEST + 1].strip(), mode="eval") if len(expression) <= LONGEST else None
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            tree = None
        if tree is None:
            raise _refused(text)
        return self._value(tree.body, names, text)

    def _value(self, node: ast.expr, names: Mapping[str, Value], text: str) -> Value:
        match node:
            case ast.Constant(value=int() | str() as value) if not isinstance(value, bool):
                return value
            case ast.Name(id=name):
                return self._named(name, names)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -_number(self._value(operand, names, text), text)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return _combined(self._value(left, names, text), op, self._value(right, names, text), text)
            case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
                given = {str(word.arg): self._value(word.value, names, text) for word in keywords}
                body = self._named(name, {})
                # what is called in it are values alone, so that no template leads to itself
                return Templates(given).expand(str(body))
        raise _refused(text)


def _combined(left: Value, op: ast.operator, right: Value, text: str) -> Value:
    """Return what an operator makes of two values."""
    if isinstance(left, str):
        if isinstance(op, ast.Mod) and isinstance(right, int) and _NUMBERED.fullmatch(left):
            return left % right
        raise _refused(text)
    try:
        found = _ARITHMETIC[type(op)](left, _number(right, text))
    except ZeroDivisionError:
        raise MalformedError("a division by zero", field=text[:200]) from None
    return _number(found, text)


def _number(value: Value, text: str) -> int:
    if not isinstance(value, int) or abs(value) >= _LARGEST:
        raise _refused(text)
    return value


def _refused(text: str) -> UnsupportedError:
    message = "a template that is more than names, whole numbers and a call with values"
    return UnsupportedError(message, field=text[:200])


def generated(entries: Any, templates: Templates) -> Iterator[tuple[str, list[Any]]]:
    """Yield the references that a manifest's `gen` stands for: each key with its URL, and its range if it has one."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise MalformedError("no list of references to compute", field="gen")
    count = 0
    for number, entry in enumerate(entries):
        where = f"gen[{number}]"
        texts = {name: entry[name] for name in ("key", "url", "offset", "length") if name in entry}
        is_complete = {"key", "url"} <= set(texts) and ("offset" in texts) == ("length" in texts)
        if not is_complete or not all(isinstance(text, str | int) for text in texts.values()):
            raise MalformedError("a key, a url, and both or none of offset and length are needed", field=where)
        axes = _axes(entry.get("dimensions"), where)
        count += math.prod(map(len, axes.values()))
        if count > MOST_GENERATED:
            raise UnsupportedError(f"more than {MOST_GENERATED} references to compute", field=where)
        for values in itertools.product(*axes.values()):
            names = dict(zip(axes, values, strict=True))
            made = {name: templates.expand(str(text), names) for name, text in texts.items()}
            place = [_whole(made[name], f"{where}.{name}") for name in ("offset", "length") if name in made]
            yield made["key"], [made["url"], *place]


def _axes(dimensions: Any, where: str) -> dict[str, Sequence[Value]]:
    """Return the values that each name of a generated reference takes."""
    axes: dict[str, Sequence[Value]] = {}
    for name, entry in (dimensions if isinstance(dimensions, dict) else {}).items():
        if isinstance(entry, list) and all(type(value) in {int, str} for value in entry):
            axes[name] = entry
            continue
        bounds = [entry.get(key, usual) for key, usual in _RANGE] if isinstance(entry, dict) else [None]
        if not all(type(bound) is int and abs(bound) < _LARGEST for bound in bounds) or bounds[2] == 0:
            raise MalformedError("a list, or start, stop and step are needed", field=f"{where}.dimensions.{name}")
        axes[name] = range(*bounds)
        if len(axes[name]) > MOST_GENERATED:
            raise UnsupportedError(f"more than {MOST_GENERATED} references to compute", field=where)
    if not axes:
        raise MalformedError("no dimensions", field=where)
    return axes


_RANGE = (("start", 0), ("stop", None), ("step", 1))


def _whole(text: str, where: str) -> int:
    if not re.fullmatch(r"\s*[0-9]{1,19}\s*", text, re.ASCII):
        raise MalformedError(f"{text!r:.80} is no whole number", field=where)
    return int(text)
