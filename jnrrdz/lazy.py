"""Modules that are imported where they are first used: PEP 562 for packages, and what stands for a library.

A caller imports the package at its top and pays for a module where it calls a function of it, as in
`commands.merge.merge(...)`.  Type checkers read the same names under `TYPE_CHECKING`.
"""

from collections.abc import Callable, Collection
from importlib import import_module
from types import ModuleType
from typing import Any


def modules(package: str, names: Collection[str]) -> Callable[[str], ModuleType]:
    """Return the `__getattr__` of a package, which imports its modules of these names."""

    def imported(name: str) -> ModuleType:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    return imported


class _Library(ModuleType):
    """A module whose members are looked up in the library of its name."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def library(name: str) -> Any:
    """Return what stands for a library that is slow to import, or may be missing; its first member imports it."""
    return _Library(name)
