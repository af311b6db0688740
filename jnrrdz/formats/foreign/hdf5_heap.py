"""Global heaps of HDF5, whose objects are followed before the HDF5 library does.

The library goes from object to object by their sizes, and never ends at one whose size
leads nowhere.  A collection is found where the library reads it: it begins with a
signature.

Follows "Disk Format: Level 1E - Global Heap" of
https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t4.html
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from jnrrdz.errors import MalformedError, UnsupportedError

SIGNATURE = b"GCOL"
VERSION = 1

HEADER = 16
"""Bytes before a collection's objects, and before the data of an object."""

SIZE = 8
"""Where the size of a collection or an object begins in its header."""

ALIGNED = 8
ADDRESSES = 1 << 64
MOST_BYTES = 1 << 26
"""Bytes of collections of a file; HDF5 makes each of 4096, or as large as an object."""

type ReadSpan = Callable[[int, int], bytes]


@dataclass
class Heaps:
    """The collections of one file."""

    read: ReadSpan
    width: int = 8
    """Bytes of a size, which the superblock gives."""
    _checked: set[int] = field(default_factory=set)
    _bytes: int = 0

    def check(self, data: bytes, start: int) -> None:
        """Refuse bytes that the library reads if it would not end at a heap in them."""
        place = data.find(SIGNATURE)
        while place >= 0:
            offset = start + place
            if offset not in self._checked:
                self._checked.add(offset)
                self._check_collection(offset)
            place = data.find(SIGNATURE, place + 1)

    def _check_collection(self, offset: int) -> None:
        header = self.read(offset, offset + HEADER)
        if len(header) < HEADER or header[len(SIGNATURE)] != VERSION:
            return  # the library refuses it
        size = _number(header, SIZE, self.width)
        if not self.read(offset + size - 1, offset + size):
            return  # the library refuses it
        self._bytes += size
        if self._bytes > MOST_BYTES:
            text = f"global heaps of {self._bytes} bytes, of no more than {MOST_BYTES}"
            raise UnsupportedError(text, offset=offset, field=SIGNATURE.decode())
        collection = self.read(offset, offset + size)
        stuck = _stuck(collection, self.width)
        if stuck is not None:
            text = "an object of a global heap whose size leads nowhere"
            raise MalformedError(text, offset=offset + stuck, field=SIGNATURE.decode())


def _number(data: bytes, start: int, width: int) -> int:
    return int.from_bytes(data[start : start + width], "little")


def _stuck(collection: bytes, width: int) -> int | None:
    """Return the object from which the library comes to no later one, if there is one."""
    place = HEADER
    while place + HEADER <= len(collection):
        step = _number(collection, place + SIZE, width)
        is_free = collection[place : place + 2] == b"\0\0"
        if not is_free:
            step = HEADER + -(-step // ALIGNED) * ALIGNED
        step %= ADDRESSES
        if step == 0 or step >= ADDRESSES // 2:
            return place
        place += step
    return None
