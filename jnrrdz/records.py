"""Frozen dataclasses that take a third of the time to make, for what every command imports.

`dataclass(frozen=True)` compiles six methods for each class.  The index of a small file met some ninety of them, whose
compiling took longer than importing numpy.  A record compiles `__init__` alone, which fills `__dict__`; the other
methods are shared.  It is a dataclass in all else: `fields`, `replace` and `asdict` take it.
docs/decisions/034-imports-where-they-are-met.md

Records of formats and codecs name functions by `module:name`; `resolved` imports them.
"""

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from functools import cache
from pkgutil import resolve_name
from reprlib import recursive_repr
from typing import Any, dataclass_transform, overload

resolved: Callable[[str], Callable[..., Any]] = cache(resolve_name)
"""Returns what `module:name` names; batches and stores ask for the same names again and again."""


@overload
def record[T](cls: type[T], /) -> type[T]: ...
@overload
def record[T](*, eq: bool = True) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record[T](cls: type[T] | None = None, /, *, eq: bool = True) -> Any:
    """Return a class as `dataclass(frozen=True, eq=eq)` does.

    Parameters
    ----------
    cls
        The class, where the decorator stands without options.
    eq
        Whether records with equal fields are equal, and have one hash; else each is equal to itself alone.
    """
    if cls is None:
        return lambda decorated: _made(decorated, eq=eq)
    return _made(cls, eq=eq)


def _made[T](cls: type[T], *, eq: bool) -> type[T]:
    shared: dict[str, Any] = {"__repr__": _repr, "__setattr__": _set_once, "__delattr__": _keep}
    if eq:
        shared |= {"__eq__": _equals, "__hash__": _hash}
    # Python itself sets `__hash__` to None in a class that has `__eq__`
    lacking = [name for name in shared if vars(cls).get(name) is None]
    made = dataclass(init=False, eq=False, repr=False)(cls)
    made.__init__ = _initializer(made)  # type: ignore[method-assign]
    for name in lacking:
        setattr(made, name, shared[name])
    return made


def _initializer(made: type[Any]) -> Callable[..., None]:
    """Return the `__init__` of a record, which calls nothing to set a field.

        def __init__(self, number, name=default_name, notes=default_notes):
            members = self.__dict__
            members["number"] = number
            members["name"] = name
            members["notes"] = make_notes() if notes is default_notes else notes

    Its globals are the defaults.
    """
    names: dict[str, Any] = {}
    parameters = ["self"]
    lines = ["members = self.__dict__"]
    for each in fields(made):
        default, factory = f"default_{each.name}", f"make_{each.name}"
        parameter = value = each.name
        if each.default_factory is not MISSING:
            names |= {default: MISSING, factory: each.default_factory}
            value = f"{factory}()"
            if each.init:
                value += f" if {each.name} is {default} else {each.name}"
        elif each.default is not MISSING:
            names[default] = each.default
        elif not each.init:
            continue
        if default in names:
            parameter += f"={default}"
        if each.init:
            parameters.append(parameter)
        lines.append(f"members[{each.name!r}] = {value}")
    if hasattr(made, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n    ".join([f"def __init__({', '.join(parameters)}):", *lines])
    exec(body, names)  # noqa: S102  names of fields, as the standard library has it
    initializer: Callable[..., None] = names["__init__"]
    initializer.__qualname__ = f"{made.__qualname__}.__init__"
    return initializer


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, each.name) for each in fields(self) if each.compare)


def _equals(self: Any, other: object) -> Any:
    if self is other:
        return True
    return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({shown})"


def _set_once(self: Any, name: str, value: Any) -> None:
    """Set a field that `__init__` leaves to `__post_init__`; the others have their values by then."""
    members = self.__dict__
    if name in members or name not in self.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    members[name] = value


def _keep(_: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
