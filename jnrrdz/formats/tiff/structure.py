"""The structure of a TIFF or BigTIFF: header, chains of IFDs, values of tags; and where NDPI departs from it.

Bytes come through `read(start, stop)`.  Counts and offsets are checked against the size of the
source before anything is read or allocated.  An IFD is read once, as the bytes that it is stored in:
stacks of pages are compared by these (`pages`), an IFD that is looked at in full is parsed once.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf,
https://libtiff.gitlab.io/libtiff/specification/bigtiff.html, https://openslide.org/formats/hamamatsu/ (NDPI)
"""

import struct
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.tags import ITEMSIZE, NUMPY_CODE, FieldType, SubfileType, Tag, name_of

type ReadRange = Callable[[int, int], bytes]

MAGIC = {b"II*\0": ("<", False), b"MM\0*": (">", False), b"II+\0": ("<", True), b"MM\0+": (">", True)}
MAX_IFDS = 1 << 20
MAX_ENTRIES = 1 << 12  # 65,535 would be legal; real files have tens of tags

HEAD = 32 * 1024
"""Bytes at the start of a source, read once: most headers are there, and need no further call."""

FEW = 64
"""Values that are unpacked without an array, which costs several times what they do."""

STRUCT_CODE = {"u1": "B", "i1": "b", "u2": "H", "i2": "h", "u4": "I", "i4": "i", "u8": "Q", "i8": "q"}
INTEGER_CODE = {int(kind): STRUCT_CODE[code] for kind, code in NUMPY_CODE.items() if code in STRUCT_CODE}
"""How `struct` spells the field types whose values are single integers."""


class Entry(NamedTuple):
    """One tag of an IFD: where its values stand, not yet read."""

    tag: int
    type: int
    count: int  # type: ignore[assignment] # a tuple's method of that name is not needed
    position: int
    """Offset of the first value in the source (inside the IFD where they fit there)."""

    @property
    def nbytes(self) -> int:
        """Bytes of all values; types that nobody knows have one byte each."""
        return self.count * ITEMSIZE.get(self.type, 1)


@dataclass(frozen=True)
class Ifd:
    """One image file directory."""

    offset: int
    stored: bytes
    """Its bytes: the number of entries, the entries, the link to the next IFD."""

    entries: Mapping[int, Entry]


class TiffLayout:
    """The directories of one source and the values of their tags, read on demand."""

    def __init__(self, read: ReadRange, size: int) -> None:
        self._read = read
        self._head = head = read(0, min(HEAD, size))
        self._stored: dict[int, bytes] = {}
        self._ifds: dict[int, Ifd] = {}
        self.size = size
        if head[:4] not in MAGIC:
            raise MalformedError("not a TIFF: no II*, MM*, II+ or MM+ at its start", offset=0, field="header")
        self.order, self.big = MAGIC[head[:4]]
        need = 16 if self.big else 8
        if len(head) < need:
            raise MalformedError(f"a header of {len(head)} bytes where {need} are needed", offset=0, field="header")
        if self.big and struct.unpack(self.order + "HH", head[4:8]) != (8, 0):
            raise MalformedError("a BigTIFF whose offsets are not 8 bytes", offset=4, field="header")
        self.count_width, self.entry_width, self.link_width = (8, 20, 8) if self.big else (2, 12, 4)
        self.room = self.link_width
        """Bytes of an entry's value field: what fits there stands there."""
        self.first = self.number(head[need - self.room : need])

    def number(self, data: bytes) -> int:
        """Return the unsigned integer that bytes are in this source's order."""
        return int.from_bytes(data, "little" if self.order == "<" else "big")

    def exactly(self, start: int, length: int, field: str | int) -> bytes:
        """Return `length` bytes at `start`, or an error that names the field (or the tag, given by number)."""
        stop = start + length
        if 0 <= start <= stop <= len(self._head):
            return self._head[start:stop]
        name = name_of(Tag, field) if isinstance(field, int) else field
        if start < 0 or length < 0 or stop > self.size:
            raise MalformedError(
                f"{length} bytes would end at {stop}, the source has {self.size}", offset=start, field=name
            )
        data = self._read(start, stop)
        if len(data) != length:
            raise MalformedError(f"read {len(data)} of {length} bytes", offset=start, field=name)
        return data

    @cached_property
    def main(self) -> list[int]:
        """The offsets of the IFDs of the main chain."""
        return self.chain(self.first)

    def has_pages(self, least: int) -> bool:
        """Whether so many IFDs of the main chain are no smaller versions or masks, as the first tag of each tells."""
        smaller = SubfileType.REDUCED | SubfileType.MASK
        count, at = 0, self.count_width
        for stored in map(self.stored, self.main):
            tag, value = self.number(stored[at : at + 2]), self.number(stored[at + self.entry_width - self.room :][:4])
            count += not (tag == Tag.NewSubfileType and value & smaller)
            if count >= least:
                return True
        return False

    def chain(self, offset: int) -> list[int]:
        """Return the offsets of the IFDs of a chain that begins at an offset, refusing loops."""
        seen = dict[int, None]()
        while offset:
            if offset in seen:
                raise MalformedError("the chain of IFDs runs in a loop", offset=offset, field="IFD")
            if len(seen) >= MAX_IFDS:
                raise MalformedError(f"more than {MAX_IFDS} IFDs", offset=offset, field="IFD")
            if seen and offset + self.count_width > self.size:
                # a first image whole, and then a link to nowhere: GDAL and tifffile read the image
                warnings.warn(f"the next IFD would begin at {offset}, the source has {self.size} bytes", stacklevel=2)
                break
            seen[offset] = None
            offset = self.number(self.stored(offset)[-self.link_width :])
        return list(seen)

    def stored(self, offset: int) -> bytes:
        """Return an IFD as it is stored, with the link to the next one (0 where the source ends before it)."""
        stored = self._stored.get(offset)
        if stored is not None:
            return stored
        head = self.exactly(offset, self.count_width, "IFD entry count")
        count = self.number(head)
        if not 0 < count <= MAX_ENTRIES:
            raise MalformedError(f"{count} entries in an IFD", offset=offset, field="IFD entry count")
        start, nbytes = offset + self.count_width, count * self.entry_width
        if start + nbytes + self.link_width > self.size:
            stored = head + self.exactly(start, nbytes, "IFD entries") + bytes(self.link_width)
        else:
            stored = head + self.exactly(start, nbytes + self.link_width, "IFD entries")
        self._stored[offset] = stored
        return stored

    def ifd(self, offset: int) -> Ifd:
        """Return the IFD at an offset."""
        if offset not in self._ifds:
            self._ifds[offset] = self._parse(offset)
        return self._ifds[offset]

    def _parse(self, offset: int) -> Ifd:
        stored = self.stored(offset)
        here = offset + self.count_width - self.room
        entries: dict[int, Entry] = {}
        form = self.order + ("HHQQ" if self.big else "HHII")
        for tag, kind, count, value in struct.iter_unpack(form, stored[self.count_width : -self.link_width]):
            here += self.entry_width
            if tag not in entries:  # the first of two counts
                is_here = count * ITEMSIZE.get(kind, 1) <= self.room
                entries[tag] = Entry(tag, kind, count, here if is_here else value)
        return Ifd(offset, stored, entries)

    def _data(self, ifd: Ifd, entry: Entry, length: int) -> bytes:
        """Return the first bytes of an entry's values."""
        start = entry.position - ifd.offset
        if 0 <= start <= start + length <= len(ifd.stored) - self.link_width:
            return ifd.stored[start : start + length]
        return self.exactly(entry.position, length, entry.tag)

    def array(self, ifd: Ifd, tag: int, *, limit: int | None = None) -> NDArray[Any] | None:
        """Return a tag's values as an array (at most `limit` of them), None where the tag is absent."""
        entry = ifd.entries.get(tag)
        if entry is None:
            return None
        if entry.type not in NUMPY_CODE:
            raise UnsupportedError(f"field type {entry.type}", offset=entry.position, field=name_of(Tag, tag))
        count = entry.count if limit is None else min(entry.count, limit)
        code = NUMPY_CODE[entry.type]
        values = np.frombuffer(self._data(ifd, entry, count * ITEMSIZE[entry.type]), self.order + code[-2:])
        return values.reshape(-1, 2) if len(code) == 3 else values  # noqa: PLR2004  rationals are pairs

    def ints(self, ifd: Ifd, tag: int, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return the values of a short integer tag."""
        entry = ifd.entries.get(tag)
        if entry is None:
            return default
        code = INTEGER_CODE.get(entry.type)
        if code is not None and entry.count <= FEW:
            return struct.unpack(f"{self.order}{entry.count}{code}", self._data(ifd, entry, entry.nbytes))
        values = self.array(ifd, tag, limit=1 << 16)
        if values is None or values.dtype.kind not in "iu":
            raise MalformedError(
                f"{FieldType(entry.type).name} values where integers belong",
                offset=entry.position,
                field=name_of(Tag, tag),
            )
        return tuple(values.ravel().tolist())

    def all_ints(self, ifd: Ifd, tags: Iterable[int]) -> dict[int, tuple[int, ...]]:
        """Return the values of those of some short integer tags that are there."""
        return {tag: self.ints(ifd, tag) for tag in tags if tag in ifd.entries}

    def integer(self, ifd: Ifd, tag: int, default: int) -> int:
        """Return the first value of an integer tag."""
        values = self.ints(ifd, tag)
        return values[0] if values else default

    def floats(self, ifd: Ifd, tag: int) -> tuple[float, ...]:
        """Return the values of a numeric tag as floats; rationals are divided."""
        values = self.array(ifd, tag, limit=1 << 20)
        if values is None or values.dtype.kind == "S":
            return ()
        if values.ndim > 1:
            pairs = values.astype(float)
            return tuple((pairs[:, 0] / np.where(pairs[:, 1] == 0, np.nan, pairs[:, 1])).tolist())
        return tuple(values.astype(float).tolist())

    def raw(self, ifd: Ifd, tag: int) -> bytes | None:
        """Return a tag's values as they are stored."""
        entry = ifd.entries.get(tag)
        return None if entry is None else self._data(ifd, entry, entry.nbytes)

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


NDPI = 65420
"""A tag that all NDPI files have."""

NDPI_HEADER = 12


class NdpiLayout(TiffLayout):
    """The directories of an NDPI file, a classic TIFF with offsets of 64 bits.

    After its entries an IFD has a link of 8 bytes and then the upper 32 bits of every entry's value.
    """

    def __init__(self, read: ReadRange, size: int) -> None:
        super().__init__(read, size)
        self.link_width = 8
        self.first = self.number(self.exactly(4, 8, "first IFD"))

    def _parse(self, offset: int) -> Ifd:
        """Return the IFD at `offset`, its values where they really are."""
        plain = super()._parse(offset)
        tags = np.frombuffer(plain.stored[2:-8], "<u2").reshape(-1, 6)[:, 0].tolist()
        start = offset + 2
        end = start + 12 * len(tags)
        upper = np.frombuffer(self.exactly(end + 8, 4 * len(tags), "IFD upper halves"), "<u4").astype(np.int64) << 32
        uppers = dict(zip(reversed(tags), reversed(upper.tolist()), strict=True))
        entries = dict(plain.entries)
        for tag, entry in plain.entries.items():
            if not start <= entry.position < end:
                entries[tag] = entry._replace(position=entry.position + uppers[tag])
            elif entry.type == FieldType.ASCII:  # texts never stand in the IFD, however short
                low = self.number(self._data(plain, entry, 4))
                entries[tag] = entry._replace(position=uppers[tag] + low)
        return replace(plain, entries=entries)


def ndpi_layout(read: ReadRange, layout: TiffLayout) -> NdpiLayout | None:
    """Return the layout of an NDPI file, None for any other; no further read tells them apart below 4 GB."""
    if layout.big or layout.order != "<" or layout.size < NDPI_HEADER:
        return None
    # the first 8 bytes behind the magic are an offset beyond 4 GB; those of a TIFF are absurd as one
    if layout.size >> 32 and 1 << 32 <= layout.number(layout.exactly(4, 8, "first IFD")) < layout.size:
        far = NdpiLayout(read, layout.size)
        return far if NDPI in far.ifd(far.first).entries else None
    return NdpiLayout(read, layout.size) if layout.first and NDPI in layout.ifd(layout.first).entries else None
