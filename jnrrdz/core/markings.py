"""Security markings of files that are put together: none is lost, and the highest classification holds for all.

The attribute `security` has the fields of a NITF's header by their names (MIL-STD-2500C, tables A-1 and A-3).
"""

from collections.abc import Mapping, Sequence
from typing import Any

SECURITY = "security"
"""The attribute of one file's marking; of several files, what they have in common and the highest classification."""

SECURITIES = "securities"
"""The attribute that lists the markings of several files."""

CLASSES = "URCST"
"""Unclassified, restricted, confidential, secret, top secret."""


def combined(markings: Sequence[Any]) -> dict[str, Any]:
    """Return the attributes of files with these markings, None for a file without one."""
    stated = [marking for marking in markings if isinstance(marking, Mapping)]
    if not stated:
        return {}
    first = dict(stated[0])
    if all(marking == first for marking in markings):
        return {SECURITY: first}
    common = {name: value for name, value in first.items() if all(one.get(name) == value for one in stated)}
    names = dict.fromkeys(name for marking in stated for name in marking if name.endswith("SCLAS"))
    highest = {name: max((str(one.get(name, "")) for one in stated), key=_rank) for name in names}
    return {SECURITY: common | highest, SECURITIES: list(markings)}


def _rank(letter: str) -> int:
    """Return how high a classification is; one that is not known is above all."""
    return CLASSES.find(letter) if letter in CLASSES else len(CLASSES)
