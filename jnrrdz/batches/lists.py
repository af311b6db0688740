"""A list of sources: one on each line of a file, or of what comes through a pipe.

May touch fsspec and stdin.  Empty lines and those that start with `#` are passed over.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import fsspec

from jnrrdz.batches.item import Found
from jnrrdz.errors import MalformedError
from jnrrdz.sources import faults

STDIN = "-"
_LONGEST = 1 << 16
"""Bytes of a line: longer ones are no URL, but a file of another kind."""


def lines(name: str, storage_options: Mapping[str, Any] | None = None) -> Iterator[Found]:
    """Yield the sources that a list names, while it is still being written if need be."""
    if name == STDIN:
        yield from _found(sys.stdin.buffer, "stdin")
        return
    with faults.told(name, "reading the list"), fsspec.open(name, "rb", **(storage_options or {})) as stream:
        yield from _found(stream, name)


def _found(stream: Any, name: str) -> Iterator[Found]:
    number = 0
    while line := stream.readline(_LONGEST):
        number += 1
        if len(line) == _LONGEST:
            raise MalformedError(f"line {number} is longer than any URL; a list has one on each line", url=name)
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise MalformedError(f"line {number} is no UTF-8 text: {error}", url=name) from error
        if text and not text.startswith("#"):
            yield Found(text)
