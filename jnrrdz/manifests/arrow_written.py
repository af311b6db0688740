"""Columns as Arrow arrays.

May touch numpy and pyarrow.  `pa.array` would do, but imports pandas when it is called first, which takes
longer than writing a million references.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_TYPES = {np.dtype(np.int32): pa.int32(), np.dtype(np.int64): pa.int64()}


def integers(column: NDArray[np.integer], present: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return a column of 32 or 64 bit integers, null where it is not `present`."""
    data = pa.py_buffer(np.ascontiguousarray(column))
    return pa.Array.from_buffers(_TYPES[column.dtype], len(column), [_bits(present), data])


def booleans(column: NDArray[np.bool_]) -> pa.Array:
    """Return a column of truth values."""
    return pa.Array.from_buffers(pa.bool_(), len(column), [None, _bits(column)])


def texts(values: Iterable[str]) -> pa.Array:
    """Return a column of texts, of at most 2 GB together."""
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(encoded), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )


def text(value: str) -> pa.Scalar:
    """Return one text, which stands for a column of it."""
    return texts([value])[0]


def joined(*columns: pa.Array | str) -> pa.Array:
    """Return the columns' texts one after another, row by row; a mere text stands in every row."""
    parts = [text(column) if isinstance(column, str) else column for column in columns]
    return pc.binary_join_element_wise(*parts, text(""))


def _bits(column: NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if column is None else pa.py_buffer(np.packbits(column, bitorder="little"))
