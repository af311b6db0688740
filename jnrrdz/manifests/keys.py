"""How the chunk keys of an array are spelt, and which chunk each one names.

May touch numpy and errors only.  Follows the chunk key encodings of the Zarr v3 core specification
(https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#chunk-key-encoding).  A manifest
holds millions of keys, so they are read in bulk from their bytes, not one by one.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError, UnsupportedError

_DIGITS = b"0123456789"
_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,18})", re.ASCII)
_LONGEST = 18  # digits that every int64 can hold
_MOST_CHUNKS = 2**62  # so that a chunk's number is always an int64
_MOST_AXES = 64  # numpy's own limit


@dataclass(frozen=True)
class ChunkKeys:
    """The keys of one array: a prefix, then one index per axis."""

    grid: tuple[int, ...]
    prefix: str
    """Everything before the first index, the array's path included."""
    separator: str

    @classmethod
    def encoded(cls, path: str, grid: tuple[int, ...], encoding: str, separator: str) -> "ChunkKeys":
        """Return the keys of the array at `path` under one of Zarr's chunk key encodings."""
        folder = f"{path}/" if path else ""
        if separator not in {"/", "."}:
            raise MalformedError(f"a chunk key separator {separator!r}; Zarr has '/' and '.'", field="separator")
        if math.prod(grid) >= _MOST_CHUNKS or len(grid) > _MOST_AXES:
            raise UnsupportedError(f"a chunk grid of {grid}; the chunks are numbered in 62 bits", field="shape")
        if encoding == "default":
            return cls(grid, f"{folder}c{separator}" if grid else f"{folder}c", separator)
        if encoding == "v2":
            return cls(grid, folder if grid else f"{folder}0", separator)
        raise UnsupportedError(f"chunk key encoding {encoding!r}; known are default and v2", field="chunk_key_encoding")

    @cached_property
    def chunks(self) -> int:
        """Number of chunks of the grid."""
        return math.prod(self.grid)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """What one step along each axis adds to a chunk's number."""
        return tuple(math.prod(self.grid[axis + 1 :]) for axis in range(len(self.grid)))

    def number(self, key: str) -> int | None:
        """Return the C-order number of the chunk that a key names, None where it names none."""
        if not self.grid:
            return 0 if key == self.prefix else None
        if not key.startswith(self.prefix):
            return None
        parts = key[len(self.prefix) :].split(self.separator)
        if len(parts) != len(self.grid) or not all(map(_INDEX.fullmatch, parts)):
            return None
        index = [int(part) for part in parts]
        if any(at >= size for at, size in zip(index, self.grid, strict=True)):
            return None
        return sum(at * stride for at, stride in zip(index, self.strides, strict=True))

    def numbers(self, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return the C-order numbers of many chunks; a key that names none is an error that quotes it."""
        found = self.numbers_of_all(keys)
        return np.array([self.strict_number(key) for key in keys], np.int64) if found is None else found

    def strict_number(self, key: str) -> int:
        """Return the C-order number of the chunk that a key names; a key that names none is an error."""
        number = self.number(key)
        if number is None:
            raise MalformedError(f"not a chunk of a grid of {self.grid} with keys like {self.key(0)}", field=key)
        return number

    def numbers_of_all(self, keys: Sequence[str]) -> NDArray[np.int64] | None:
        """Return the C-order numbers of many chunks; None where any of the keys names none."""
        if not self.grid:
            return None
        text = "\n" + "\n".join(keys) + "\n"
        lead = f"\n{self.prefix}"
        if text.count(lead) < len(keys):
            return None
        index = read_indices(text.replace(lead, "\n").encode(), len(keys), len(self.grid), self.separator.encode())
        return None if index is None else self.numbers_at(index)

    def numbers_at(self, index: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the C-order numbers of chunks from a row of indices each; None where one is outside the grid."""
        if (index >= np.array(self.grid, np.int64)).any():
            return None
        return index @ np.array(self.strides, np.int64)

    def key(self, number: int) -> str:
        """Return the key of one chunk."""
        index = []
        for size in reversed(self.grid):
            number, at = divmod(number, size) if size else (0, 0)
            index.append(str(at))
        return self.prefix + self.separator.join(reversed(index))


def read_indices(text: bytes, rows: int, axes: int, separator: bytes) -> NDArray[np.int64] | None:
    """Read lines of indices with separators between them, or return None where the text is anything else."""
    if text.translate(None, _DIGITS + separator + b"\n"):
        return None
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data < ord("0"))
    if len(ends) != rows * axes + 1:
        return None
    marks = data[ends[1:]].reshape(rows, axes)
    if (marks[:, -1] != ord("\n")).any() or (marks[:, :-1] != ord(separator)).any():
        return None
    starts, lengths = ends[:-1] + 1, np.diff(ends) - 1
    if not rows or lengths.min() < 1 or lengths.max() > _LONGEST or ((data[starts] == ord("0")) & (lengths > 1)).any():
        return None
    return _digits(data, starts, lengths).reshape(rows, axes)


def _digits(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the decimal numbers that start at `starts` and are `lengths` digits long."""
    value = np.zeros(len(starts), np.int64)
    for place in range(int(lengths.max())):
        inside = lengths > place
        value[inside] = value[inside] * 10 + (data[starts[inside] + place] - ord("0"))
    return value
