"""The structure of a TIFF or BigTIFF: header, chain of IFDs, values of tags.

May touch numpy, errors and the tables in `tiff_tags`; bytes come through `read(start, stop)`.
Counts and offsets are checked against the size of the source before anything is read or allocated.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf,
https://libtiff.gitlab.io/libtiff/specification/bigtiff.html
"""

import struct
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.tags import NUMPY_CODE, FieldType, Tag, name_of

type ReadRange = Callable[[int, int], bytes]

MAGIC = {b"II*\0": ("<", False), b"MM\0*": (">", False), b"II+\0": ("<", True), b"MM\0+": (">", True)}
MAX_IFDS = 1 << 20
MAX_ENTRIES = 1 << 12  # 65,535 would be legal; real files have tens of tags


ITEMSIZE = {int(kind): np.dtype(code).itemsize for kind, code in NUMPY_CODE.items()}
"""Bytes of one value of each field type that is known."""

STRUCT_CODE = {"u1": "B", "i1": "b", "u2": "H", "i2": "h", "u4": "I", "i4": "i", "u8": "Q", "i8": "q"}
INTEGER_CODE = {int(kind): STRUCT_CODE[code] for kind, code in NUMPY_CODE.items() if code in STRUCT_CODE}
"""How `struct` spells the field types whose values are single integers."""

FEW = 64
"""Values that are unpacked without an array, which costs several times what they do."""

KEPT = 8
"""Directories that a layout keeps: the first ones are looked at again and again."""


class Entry(NamedTuple):
    """One tag of an IFD: where its values stand, not yet read."""

    tag: int
    type: int
    count: int  # type: ignore[assignment] # a tuple's method of that name is not needed
    position: int
    """Offset of the first value in the source (inside the IFD where they fit there)."""

    @property
    def name(self) -> str:
        """The tag's name, for messages."""
        return name_of(Tag, self.tag)


@dataclass(frozen=True)
class Ifd:
    """One image file directory."""

    offset: int
    entries: Mapping[int, Entry]
    next: int

    def __contains__(self, tag: int) -> bool:
        return tag in self.entries


class TiffLayout:
    """The directories of one source and the values of their tags, read on demand."""

    def __init__(self, read: ReadRange, size: int) -> None:
        self._read = read
        self._kept: dict[int, Ifd] = {}
        self.size = size
        head = read(0, min(16, size))
        if head[:4] not in MAGIC:
            raise MalformedError("not a TIFF: no II*, MM*, II+ or MM+ at its start", offset=0, field="header")
        self.order, self.big = MAGIC[head[:4]]
        need = 16 if self.big else 8
        if len(head) < need:
            raise MalformedError(f"a header of {len(head)} bytes where {need} are needed", offset=0, field="header")
        if self.big and struct.unpack(self.order + "HH", head[4:8]) != (8, 0):
            raise MalformedError("a BigTIFF whose offsets are not 8 bytes", offset=4, field="header")
        self.first: int = struct.unpack(self.order + "Q", head[8:16])[0] if self.big else self._long(head[4:8])

    def _long(self, data: bytes) -> int:
        return int(struct.unpack(self.order + "I", data)[0])

    def exactly(self, start: int, length: int, field: str) -> bytes:
        """Return `length` bytes at `start`, or an error that names the field."""
        if start < 0 or length < 0 or start + length > self.size:
            raise MalformedError(
                f"{length} bytes would end at {start + length}, the source has {self.size}", offset=start, field=field
            )
        data = self._read(start, start + length)
        if len(data) != length:
            raise MalformedError(f"read {len(data)} of {length} bytes", offset=start, field=field)
        return data

    def chain(self, start: int | None = None) -> Iterator[Ifd]:
        """Yield the IFDs of the main chain (or of one that begins at `start`), refusing loops."""
        offset, seen = self.first if start is None else start, set[int]()
        while offset:
            if offset in seen:
                raise MalformedError("the chain of IFDs runs in a loop", offset=offset, field="IFD")
            if len(seen) >= MAX_IFDS:
                raise MalformedError(f"more than {MAX_IFDS} IFDs", offset=offset, field="IFD")
            if seen and offset + 2 > self.size:
                # a first image whole, and then a link to nowhere: GDAL and tifffile read the image
                warnings.warn(f"the next IFD would begin at {offset}, the source has {self.size} bytes", stacklevel=2)
                return
            seen.add(offset)
            ifd = self.ifd(offset)
            yield ifd
            offset = ifd.next

    def ifd(self, offset: int) -> Ifd:
        """Return the IFD at `offset`."""
        found = self._kept.get(offset)
        if found is None:
            found = self._parsed(offset)
            if len(self._kept) < KEPT:
                self._kept[offset] = found
        return found

    def _parsed(self, offset: int) -> Ifd:
        width, code, step = (8, "Q", 20) if self.big else (2, "H", 12)
        count = struct.unpack(self.order + code, self.exactly(offset, width, "IFD entry count"))[0]
        if not 0 < count <= MAX_ENTRIES:
            raise MalformedError(f"{count} entries in an IFD", offset=offset, field="IFD entry count")
        start = offset + width
        body = self.exactly(start, count * step, "IFD entries")
        entries = {entry.tag: entry for entry in reversed(list(self._entries(body, start, step)))}
        return Ifd(offset, entries, self._next(start + count * step))

    def _next(self, position: int) -> int:
        """Return the next IFD's offset; a file that ends where it should stand has no next one."""
        width = 8 if self.big else 4
        if position + width > self.size:
            return 0
        data = self.exactly(position, width, "next IFD")
        return int.from_bytes(data, "little" if self.order == "<" else "big")

    def _entries(self, body: bytes, start: int, step: int) -> Iterator[Entry]:
        form = self.order + ("HHQQ" if self.big else "HHII")
        room = 8 if self.big else 4
        here = start - room
        for tag, kind, count, value in struct.iter_unpack(form, body):
            here += step
            yield Entry(tag, kind, count, here if count * ITEMSIZE.get(kind, 1) <= room else value)

    @staticmethod
    def itemsize(kind: int) -> int:
        """Return the bytes of one value of a field type; 1 for types that nobody knows."""
        return ITEMSIZE.get(kind, 1)

    def array(self, ifd: Ifd, tag: int, *, limit: int | None = None) -> NDArray[Any] | None:
        """Return a tag's values as an array (at most `limit` of them), None where the tag is absent."""
        entry = ifd.entries.get(tag)
        if entry is None:
            return None
        if entry.type not in NUMPY_CODE:
            raise UnsupportedError(f"field type {entry.type}", offset=entry.position, field=entry.name)
        count = entry.count if limit is None else min(entry.count, limit)
        data = self.exactly(entry.position, count * self.itemsize(entry.type), entry.name)
        code = NUMPY_CODE[entry.type]
        values = np.frombuffer(data, self.order + code[-2:])
        return values.reshape(-1, 2) if len(code) == 3 else values  # noqa: PLR2004  rationals are pairs

    def ints(self, ifd: Ifd, tag: int, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return the values of a short integer tag."""
        entry = ifd.entries.get(tag)
        if entry is None:
            return default
        code = INTEGER_CODE.get(entry.type)
        if code is not None and entry.count <= FEW:
            data = self.exactly(entry.position, entry.count * ITEMSIZE[entry.type], entry.name)
            return struct.unpack(f"{self.order}{entry.count}{code}", data)
        return self._many_ints(ifd, tag)

    def _many_ints(self, ifd: Ifd, tag: int) -> tuple[int, ...]:
        values = self.array(ifd, tag, limit=1 << 16)
        assert values is not None  # noqa: S101  the tag is there
        if values.dtype.kind not in "iu":
            raise MalformedError(
                f"{FieldType(ifd.entries[tag].type).name} values where integers belong",
                offset=ifd.entries[tag].position,
                field=ifd.entries[tag].name,
            )
        return tuple(values.ravel().tolist())

    def integer(self, ifd: Ifd, tag: int, default: int) -> int:
        """Return the first value of an integer tag."""
        values = self.ints(ifd, tag)
        return values[0] if values else default

    def floats(self, ifd: Ifd, tag: int) -> tuple[float, ...]:
        """Return the values of a numeric tag as floats; rationals are divided."""
        values = self.array(ifd, tag, limit=1 << 20)
        if values is None or values.dtype.kind == "S":
            return ()
        if values.dtype.kind in "iu" and ifd.entries[tag].type in {FieldType.RATIONAL, FieldType.SRATIONAL}:
            pairs = values.astype(float)
            return tuple((pairs[:, 0] / np.where(pairs[:, 1] == 0, np.nan, pairs[:, 1])).tolist())
        return tuple(values.astype(float).ravel().tolist())

    def raw(self, ifd: Ifd, tag: int) -> bytes | None:
        """Return a tag's values as they are stored."""
        entry = ifd.entries.get(tag)
        if entry is None:
            return None
        return self.exactly(entry.position, entry.count * self.itemsize(entry.type), entry.name)

    def text(self, ifd: Ifd, tag: int) -> str | None:
        """Return a text tag up to its first NUL, as UTF-8 or else Latin-1."""
        data = self.raw(ifd, tag)
        if data is None:
            return None
        data = data.split(b"\0", 1)[0]
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data.decode("latin-1")
