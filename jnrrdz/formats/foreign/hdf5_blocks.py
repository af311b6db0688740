"""Blocks of HDF5 whose numbers are checked before the HDF5 library believes them.

The library goes through a global heap by the sizes of its objects, and never ends at
one whose size leads nowhere.  It goes through the array of a data set's chunks up to a
number in the array's header.  Blocks are found where the library reads them: they begin
with signatures.

Follows "Disk Format: Level 1E - Global Heap", "Level 1 - Fixed Array Index" and
"Extensible Array Index" of
https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t4.html
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from jnrrdz.errors import MalformedError, UnsupportedError

HEAP = b"GCOL"
ARRAYS = {b"FAHD": 8, b"EAHD": 44}
"""Where the number of elements is in the header of an array, with sizes of 8 bytes."""

SIGNATURES = re.compile(b"GCOL|FAHD|EAHD")

HEADER = 16
"""Bytes before the objects of a heap, and before the data of an object."""

SIZE = 8
"""Where the size of a heap or an object begins in its header."""

ELEMENT = 6
"""Where the size of an array's elements is in its header, one byte."""

ALIGNED = 8
ADDRESSES = 1 << 64
MOST_HEAPS = 1 << 26
"""Bytes of the heaps of a file; HDF5 makes each of 4096, or as large as an object."""

MOST_ABSENT = 1 << 26
"""Elements of the arrays of a file for which it has no bytes: some seconds."""

type ReadSpan = Callable[[int, int], bytes]


@dataclass
class Blocks:
    """The blocks of one file."""

    read: ReadSpan
    file_size: int
    width: int = 8
    """Bytes of a size, which the superblock gives."""
    _checked: set[int] = field(default_factory=set)
    _heaps: int = 0
    _absent: int = 0

    def check(self, data: bytes, start: int) -> None:
        """Refuse bytes that the library reads if it would not end at a block in them."""
        for match in SIGNATURES.finditer(data):
            offset = start + match.start()
            if offset in self._checked:
                continue
            self._checked.add(offset)
            if match[0] == HEAP:
                self._check_heap(offset)
            else:
                self._check_array(offset, match[0])

    def _check_heap(self, offset: int) -> None:
        header = self.read(offset, offset + HEADER)
        size = _number(header, SIZE, self.width)
        name = HEAP.decode()
        if offset + size > self.file_size:
            text = f"a global heap of {size} bytes, beyond the end of the file"
            raise MalformedError(text, offset=offset, field=name)
        self._heaps += size
        if self._heaps > MOST_HEAPS:
            text = f"global heaps of {self._heaps} bytes, of no more than {MOST_HEAPS}"
            raise UnsupportedError(text, offset=offset, field=name)
        stuck = _stuck(self.read(offset, offset + size), self.width)
        if stuck is not None:
            text = "an object of a global heap whose size leads nowhere"
            raise MalformedError(text, offset=offset + stuck, field=name)

    def _check_array(self, offset: int, signature: bytes) -> None:
        place = ARRAYS[signature]
        if signature == b"EAHD":
            place -= 4 * (8 - self.width)  # behind four sizes
        header = self.read(offset, offset + place + self.width)
        count = _number(header, place, self.width)
        element = max(header[ELEMENT], 1) if len(header) > ELEMENT else 1
        self._absent += max(count - self.file_size // element, 0)
        if self._absent > MOST_ABSENT:
            text = f"an array of {count} chunks, for which the file has no bytes"
            raise UnsupportedError(text, offset=offset, field=signature.decode())


def _number(data: bytes, start: int, width: int) -> int:
    return int.from_bytes(data[start : start + width], "little")


def _stuck(heap: bytes, width: int) -> int | None:
    """Return the object from which the library comes to no later one, if there is one."""
    place = HEADER
    while place + HEADER <= len(heap):
        step = _number(heap, place + SIZE, width)
        is_free = heap[place : place + 2] == b"\0\0"
        if not is_free:
            step = HEADER + -(-step // ALIGNED) * ALIGNED
        step %= ADDRESSES
        if step == 0 or step >= ADDRESSES // 2:
            return place
        place += step
    return None
