"""A read-ahead as a file object, for libraries that read from one.

May touch numpy and the read-ahead it is given.
"""

import io
from collections.abc import Buffer

import numpy as np

from jnrrdz.sources.readahead import ReadAhead


class RangeFile(io.RawIOBase):
    """Bytes of a source from a position that moves; nothing is written."""

    def __init__(self, read: ReadAhead, name: str) -> None:
        super().__init__()
        self.name = name
        self._read = read
        self._at = 0

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def seekable(self) -> bool:
        """Return that it is."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position from the start, from here, or from the end."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._read.size}[whence]
        if base + offset < 0:
            raise ValueError(f"a position of {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Buffer) -> int:
        """Fill a buffer, of whatever items, as far as the source goes."""
        view = np.frombuffer(buffer, np.uint8)
        data = self._read(self._at, self._at + len(view))
        view[: len(data)] = np.frombuffer(data, np.uint8)
        self._at += len(data)
        return len(data)
