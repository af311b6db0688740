"""Numbers out of Arrow columns.

May touch pyarrow and numpy.  Arrow's own `to_numpy` and `fill_null` import pandas, which takes longer
than everything that a manifest needs.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def numbers[Kind: np.generic](column: pa.Array, kind: type[Kind]) -> NDArray[Kind]:
    """Return a copy of a column of numbers; what stands for nulls has no meaning."""
    values = np.frombuffer(column.buffers()[1], kind) if len(column) else np.empty(0, kind)
    return values[column.offset : column.offset + len(column)].copy()


def valid(column: pa.Array) -> NDArray[np.bool_]:
    """Return which values are not null."""
    return numbers(column.is_valid().cast(pa.uint8()), np.uint8).astype(bool)
