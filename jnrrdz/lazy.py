"""Modules of a package that are imported where they are first used: PEP 562.

A package that a command line or another room enters gives its modules as attributes, so that a caller imports the
package at its top and pays for a module where it calls a function of it: `commands.merge.merge(...)`.
"""

from collections.abc import Callable, Collection
from importlib import import_module
from types import ModuleType


def modules(package: str, names: Collection[str]) -> Callable[[str], ModuleType]:
    """Return the `__getattr__` of a package, which imports its modules of these names.

    Type checkers read the names under `TYPE_CHECKING`.
    """

    def imported(name: str) -> ModuleType:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    return imported
