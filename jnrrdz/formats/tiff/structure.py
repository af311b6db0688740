"""The structure of a TIFF or BigTIFF: header, chains of IFDs, values of tags.

Bytes come through `read(start, stop)`.  Counts and offsets are checked against the size of the source before anything
is read or allocated.  An IFD is read once, as the bytes that it is stored in: stacks of pages are compared by these
(`pages`), an IFD that is looked at in full is parsed once (`image`).

Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf,
https://libtiff.gitlab.io/libtiff/specification/bigtiff.html, https://openslide.org/formats/hamamatsu/ (NDPI)
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.limits import LIMITS, Resource
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.tiff.tags import SubfileType, Tag, name_of
from jnrrdz.formats.tiff_directory import ITEMSIZE, NUMPY_CODE, Entry, FieldType, parse_header
from jnrrdz.records import record

type ReadRange = Callable[[int, int], bytes]

MAX_IFDS = LIMITS[Resource.PAGES].free

HEAD = 32 * 1024
"""Bytes at the start of a source, read once: most headers are there, and need no further call."""

DIGEST = 16
"""Bytes of a digest: two different values have one with a chance of 2**-64."""

FEW = 64
"""Values that are unpacked without an array, which costs several times what they do."""

STRUCT_CODE = {"u1": "B", "i1": "b", "u2": "H", "i2": "h", "u4": "I", "i4": "i", "u8": "Q", "i8": "q"}
INTEGER_CODE = {int(kind): STRUCT_CODE[code] for kind, code in NUMPY_CODE.items() if code in STRUCT_CODE}
"""How `struct` spells the field types whose values are single integers."""


@record
class Ifd:
    """One image file directory."""

    offset: int
    stored: bytes
    """Its bytes: the number of entries, the entries, the link to the next IFD."""

    entries: Mapping[int, Entry]


class TiffLayout:
    """The directories of one source and the values of their tags, read on demand."""

    def __init__(
        self,
        read: ReadRange,
        size: int,
        *,
        left_out: dict[str, str] | None = None,
        name: str = "",
    ) -> None:
        self._read = read
        self._left = LIMITS[Resource.METADATA_BYTES].of_size(size)
        self._segments_left = LIMITS[Resource.CHUNKS].of_size(size)
        self._head = head = read(0, min(HEAD, size))
        self._stored: dict[int, bytes] = {}
        self._ifds: dict[int, Ifd] = {}
        self._digests: dict[tuple[int, int], bytes] = {}
        self.size = size
        self.name = name
        """What messages call the file where it is not the one that users named."""

        self.left_out = {} if left_out is None else left_out
        """Directories that cannot be read, by name, and the reason for each; those of sidecars too."""

        self.has_booleans = False
        """Whether samples of one bit are true and false, as the format says that wrote the file."""

        self.form, self.first = parse_header(head)
        self.order, self.big = self.form.order, self.form.is_big
        self.count_width, self.entry_width = self.form.count_width, self.form.entry_width
        self.room = self.link_width = self.form.room

    def number(self, data: bytes) -> int:
        """Return the unsigned integer that bytes are in the file's order."""
        return int.from_bytes(data, self.form.byteorder)

    def exactly(self, start: int, length: int, field: str | int) -> bytes:
        """Return `length` bytes at `start`, or an error that names the field (or the tag, given by number)."""
        stop = start + length
        if not 0 <= start <= stop <= self.size:
            text = f"{length} bytes would end at {stop}, but the source has only {self.size}"
            raise MalformedError(text, offset=start, field=_field_name(field))
        self._charge(length, start, field)
        if stop <= len(self._head):
            return self._head[start:stop]
        data = self._read(start, stop)
        if len(data) != length:
            text = f"read {len(data)} of {length} bytes"
            raise MalformedError(text, offset=start, field=_field_name(field))
        return data

    def _charge(self, nbytes: int, offset: int, field: str | int) -> None:
        """Count bytes of directories and values, and refuse more than a source of this size has."""
        self._left -= nbytes
        if self._left < 0:
            times = LIMITS[Resource.METADATA_BYTES].count
            text = f"directories with {times} times the {self.size} bytes of the source: they share their values"
            raise MalformedError(text, offset=offset, field=_field_name(field))

    def count_segments(self, number: int, offset: int) -> None:
        """Refuse more segments of all images together than a source of this size can list: they cost memory."""
        self._segments_left -= number
        if self._segments_left < 0:
            raise MalformedError(
                f"with {number} segments more, the images have more than a file of {self.size} bytes can list",
                offset=offset,
                field="IFD",
            )

    @cached_property
    def main(self) -> list[int]:
        """The offsets of the IFDs of the main chain."""
        return self.chain(self.first)

    def has_pages(self, least: int) -> bool:
        """Whether at least this many IFDs of the main chain are images of their own."""
        count = 0
        for offset in self.main:
            count += self.is_page(offset)
            if count >= least:
                return True
        return False

    def is_page(self, offset: int) -> bool:
        """Whether an IFD is no smaller version and no mask, by its first tag alone."""
        stored, at = self.stored(offset), self.count_width
        tag = self.number(stored[at : at + 2])
        value = self.number(stored[at + self.entry_width - self.room :][:4])
        smaller = SubfileType.REDUCED | SubfileType.MASK
        return not (tag == Tag.NewSubfileType and value & smaller)

    def chain(self, offset: int) -> list[int]:
        """Return the offsets of a chain of IFDs, which ends at the first link that leads to none."""
        seen = dict[int, None]()
        while offset:
            if len(seen) >= MAX_IFDS:
                raise MalformedError(f"more than {MAX_IFDS} IFDs", offset=offset, field="IFD")
            try:
                stored = self._next_stored(offset, seen)
            except MalformedError as error:
                if not seen:
                    raise
                self.leave_out(f"what follows the IFD at {next(reversed(seen))}", error)
                break
            seen[offset] = None
            offset = self.number(stored[-self.link_width :])
        return list(seen)

    def _next_stored(self, offset: int, seen: Mapping[int, None]) -> bytes:
        """Return the next IFD of a chain, as it is stored."""
        if offset in seen:
            raise MalformedError("the chain of IFDs runs in a loop", offset=offset, field="IFD")
        stored = self.stored(offset)
        self._charge(len(stored), offset, "IFD")  # many links may lead to one chain
        return stored

    def sub_ifds(self, ifd: Ifd) -> list[int]:
        """Return the offsets of all SubIFDs of an IFD, without those that cannot be read."""
        if Tag.SubIFDs not in ifd.entries:
            return []
        try:
            starts = self.ints(ifd, Tag.SubIFDs)
        except (MalformedError, UnsupportedError) as error:
            self.leave_out(f"SubIFDs of the IFD at {ifd.offset}", error)
            return []
        offsets = dict[int, None]()
        for start in starts:
            try:
                offsets |= dict.fromkeys(self.chain(start))
            except MalformedError as error:
                self.leave_out(f"IFD at {start}", error)
        return list(offsets)

    def leave_out(self, name: str, error: JnrrdzError) -> None:
        """Note a directory that cannot be read, unless it is a limit of the whole file that was reached."""
        if min(self._left, self._segments_left) < 0:
            raise error
        self.left_out.setdefault(f"{name} of {self.name}" if self.name else name, str(error))

    def stored(self, offset: int) -> bytes:
        """Return an IFD as it is stored, with the link to the next one (0 where the source ends before it)."""
        stored = self._stored.get(offset)
        if stored is not None:
            return stored
        head = self.exactly(offset, self.count_width, "IFD entry count")
        start, nbytes = offset + self.count_width, self.form.entry_bytes(head, offset)
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
        inside = stored[self.count_width : -self.link_width]
        return Ifd(offset, stored, self.form.entries(inside, offset + self.count_width))

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
        entry = ifd.entries.get(tag)
        if entry is not None and entry.type == FieldType.DOUBLE and entry.count <= FEW:
            return struct.unpack(f"{self.order}{entry.count}d", self._data(ifd, entry, entry.nbytes))
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

    def tag_digest(self, ifd: Ifd, tag: int) -> bytes | None:
        """Return what a tag's values are compared by, None where the tag is absent."""
        entry = ifd.entries.get(tag)
        if entry is None or entry.nbytes <= self.room:
            return self.raw(ifd, tag)
        return self.digest(entry.position, entry.nbytes)

    def digest(self, position: int, nbytes: int) -> bytes:
        """Return a digest of values, which are read once however many directories share them."""
        place = position, nbytes
        if place not in self._digests:
            values = self.exactly(position, nbytes, "IFD value")
            self._digests[place] = blake2b(values, digest_size=DIGEST).digest()
        return self._digests[place]

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


def _field_name(field: str | int) -> str:
    return name_of(Tag, field) if isinstance(field, int) else field


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
