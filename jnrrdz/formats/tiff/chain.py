"""Chains of many IFDs, read fast: which pages are alike, and the segments of all of them as columns.

May touch the TIFF layout.  Parsing a page in full costs a fifth of a millisecond, and a stack may
have a hundred thousand; but the pages that one writer wrote differ in little more than addresses.
So the IFDs are compared as bytes, and one page of each kind is parsed.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError
from jnrrdz.formats.tiff.arrays import Column
from jnrrdz.formats.tiff.image import TiffImage, segments, tiff_image
from jnrrdz.formats.tiff.structure import MAX_ENTRIES, MAX_IFDS, Ifd, TiffLayout
from jnrrdz.formats.tiff.tags import NUMPY_CODE, Compression, SubfileType, Tag

type Rows = NDArray[np.uint8]

ADDRESSES = {Tag.StripOffsets, Tag.StripByteCounts, Tag.TileOffsets, Tag.TileByteCounts, Tag.SubIFDs}
"""Tags whose values differ from page to page, but not their number."""

SAID_OF_A_PAGE = {
    Tag.ImageDescription,
    Tag.Make,
    Tag.Model,
    Tag.Software,
    Tag.DateTime,
    Tag.Artist,
    Tag.Copyright,
    Tag.XResolution,
    Tag.YResolution,
    Tag.ResolutionUnit,
}
"""Tags that change nothing in how a page's pixels are read."""

COMPARED = set(Tag) - ADDRESSES - SAID_OF_A_PAGE
"""Every other tag that jnrrdz reads; a tag that it does not know cannot make a difference."""


@dataclass(frozen=True)
class Chain:
    """The IFDs of a chain as they are stored, each with its offset."""

    offsets: list[int]
    raw: list[bytes]


def main_chain(layout: TiffLayout) -> Chain:
    """Return the whole main chain, refusing loops."""
    width, _, room = _sizes(layout)
    found = Chain([], [])
    seen, offset = set[int](), layout.first
    while offset:
        if offset in seen:
            raise MalformedError("the chain of IFDs runs in a loop", offset=offset, field="IFD")
        if len(seen) >= MAX_IFDS:
            raise MalformedError(f"more than {MAX_IFDS} IFDs", offset=offset, field="IFD")
        if seen and offset + width > layout.size:
            break  # TiffLayout.chain says why and warns
        seen.add(offset)
        found.offsets.append(offset)
        found.raw.append(raw_ifd(layout, offset))
        offset = _integer(layout, found.raw[-1][-room:])
    return found


def has_images(layout: TiffLayout, chain: Chain, least: int) -> bool:
    """Whether a chain has so many pages that are no smaller versions or masks, as the first tag of each tells."""
    width, step, room = _sizes(layout)
    smaller = SubfileType.REDUCED | SubfileType.MASK
    found = 0
    for raw in chain.raw:
        tag = _integer(layout, raw[width : width + 2])
        value = _integer(layout, raw[width + step - room :][:4])
        found += not (tag == Tag.NewSubfileType and value & smaller)
        if found >= least:
            return True
    return False


def raw_ifd(layout: TiffLayout, offset: int) -> bytes:
    """Return an IFD as it is stored, the link to the next one included (0 where the source ends before it)."""
    width, step, room = _sizes(layout)
    count = int.from_bytes(layout.exactly(offset, width, "IFD entry count"), "little" if layout.order == "<" else "big")
    if not 0 < count <= MAX_ENTRIES:
        raise MalformedError(f"{count} entries in an IFD", offset=offset, field="IFD entry count")
    whole = width + count * step + room
    if offset + whole > layout.size:
        return layout.exactly(offset, whole - room, "IFD entries") + bytes(room)
    return layout.exactly(offset, whole, "IFD entries")


def _integer(layout: TiffLayout, data: bytes) -> int:
    return int.from_bytes(data, "little" if layout.order == "<" else "big")


def _sizes(layout: TiffLayout) -> tuple[int, int, int]:
    """Return the bytes of an entry count, of an entry, and of an offset."""
    return (8, 20, 8) if layout.big else (2, 12, 4)


@dataclass(frozen=True, eq=False)
class Kind:
    """Pages that differ in addresses and words only."""

    pages: NDArray[np.intp]
    """Their numbers in the chain, ascending."""

    entries: Rows
    """(pages, entries, bytes of an entry)"""


class Pages:
    """The pages of one chain, by kinds."""

    def __init__(self, layout: TiffLayout, url: str, chain: Chain, *, kinds: int | None = None) -> None:
        self.layout = layout
        self.url = url
        self.chain = chain
        self.kinds: list[Kind] = []
        self.kind = np.full(len(chain.raw), -1, np.intp)
        """The kind of each page; -1 where there are more than `kinds` of them."""
        self.row = np.zeros(len(chain.raw), np.intp)
        self._columns: dict[int, tuple[Column, Column]] = {}
        self._sort(len(chain.raw) if kinds is None else kinds)

    def __len__(self) -> int:
        return len(self.chain.raw)

    def _sort(self, most: int) -> None:
        """Put every page to its kind."""
        sizes = np.fromiter(map(len, self.chain.raw), np.int64, len(self))
        for size in dict.fromkeys(sizes.tolist()):
            left = np.flatnonzero(sizes == size)
            entries = self._entries([self.chain.raw[page] for page in left])
            while len(left) and len(self.kinds) < most:
                alike = self._alike(entries)
                self.kind[left[alike]] = len(self.kinds)
                self.row[left[alike]] = np.arange(int(alike.sum()))
                self.kinds.append(Kind(left[alike], entries[alike]))
                left, entries = left[~alike], entries[~alike]

    def _entries(self, raw: list[bytes]) -> Rows:
        width, step, room = _sizes(self.layout)
        rows = np.frombuffer(b"".join(raw), np.uint8).reshape(len(raw), -1)
        return rows[:, width:-room].reshape(len(raw), -1, step)

    def _alike(self, entries: Rows) -> NDArray[np.bool_]:
        """Return which rows say the same as the first one in every tag that is compared."""
        alike: NDArray[np.bool_] = (entries[:, :, :2] == entries[0, :, :2]).all(axis=(1, 2))
        for place, tag in enumerate(self._numbers(entries[0, :, :2].tobytes(), "u2").tolist()):
            if tag in COMPARED or tag in ADDRESSES:
                alike &= (entries[:, place, 2 : -self._room] == entries[0, place, 2 : -self._room]).all(axis=1)
            if tag in COMPARED:
                self._compare(entries[:, place], alike)
        return alike

    def _compare(self, entries: Rows, alike: NDArray[np.bool_]) -> None:
        """Take from `alike` the rows whose value of one tag is not the first row's."""
        nbytes = self._nbytes(entries[0])
        if nbytes <= self._room:
            start = entries.shape[1] - self._room
            alike &= (entries[:, start : start + nbytes] == entries[0, start : start + nbytes]).all(axis=1)
            return
        elsewhere = np.flatnonzero(alike & (entries[:, -self._room :] != entries[0, -self._room :]).any(axis=1))
        if elsewhere.size:
            first = self._value(entries[0], nbytes)
            alike[elsewhere] = [self._value(entries[row], nbytes) == first for row in elsewhere]

    @property
    def _room(self) -> int:
        return 8 if self.layout.big else 4

    def _numbers(self, data: bytes, code: str) -> NDArray[np.int64]:
        return np.frombuffer(data, self.layout.order + code).astype(np.int64)

    def _nbytes(self, entry: Rows) -> int:
        kind = int(self._numbers(entry[2:4].tobytes(), "u2")[0])
        count = int(self._numbers(entry[4 : -self._room].tobytes(), f"u{self._room}")[0])
        return count * self.layout.itemsize(kind)

    def _value(self, entry: Rows, nbytes: int) -> bytes:
        position = _integer(self.layout, entry[-self._room :].tobytes())
        return self.layout.exactly(position, nbytes, "IFD value")

    def ifd(self, page: int) -> Ifd:
        """Return one page's IFD."""
        return self.layout.ifd(self.chain.offsets[page])

    def image(self, page: int) -> TiffImage:
        """Return the facts of one page."""
        return tiff_image(self.layout, self.ifd(page))

    @cached_property
    def images(self) -> list[TiffImage]:
        """The facts of the first page of every kind."""
        return [self.image(int(kind.pages[0])) for kind in self.kinds]

    def values(self, number: int, tag: int) -> Column | None:
        """Return the integers of one tag for all pages of a kind, a row a page; None where there are none."""
        kind = self.kinds[number]
        tags = self._numbers(kind.entries[0, :, :2].tobytes(), "u2").tolist()
        if tag not in tags:
            return None
        entries = kind.entries[:, tags.index(tag)]
        field = int(self._numbers(entries[0, 2:4].tobytes(), "u2")[0])
        nbytes, code = self._nbytes(entries[0]), NUMPY_CODE.get(field, "")
        if not nbytes or code[:1] not in {"u", "i"}:
            return None
        if nbytes <= self._room:
            start = entries.shape[1] - self._room
            data = entries[:, start : start + nbytes].tobytes()
        else:
            data = b"".join(self._value(entry, nbytes) for entry in entries)
        return self._numbers(data, code).reshape(len(kind.pages), -1)

    def columns(self, number: int) -> tuple[Column, Column]:
        """Return offsets and lengths (pages, segments) of all pages of a kind."""
        if number not in self._columns:
            self._columns[number] = self._fast(number) or self._slow(number)
        return self._columns[number]

    def _fast(self, number: int) -> tuple[Column, Column] | None:
        """Return the columns where every page lists all its segments and all are in the source, else None."""
        image = self.images[number]
        tags = (Tag.TileOffsets, Tag.TileByteCounts) if image.tiled else (Tag.StripOffsets, Tag.StripByteCounts)
        offsets, lengths = (self.values(number, tag) for tag in tags)
        need = image.segments
        if offsets is None or lengths is None or min(offsets.shape[1], lengths.shape[1]) < need:
            return None
        offsets, lengths = offsets[:, :need], lengths[:, :need]
        if min(offsets.min(), lengths.min()) < 0 or (offsets >= self.layout.size).any():
            return None
        if image.compression == Compression.NONE:
            lengths = np.where(lengths > 0, np.minimum(lengths, image.row_bytes * image.segment_length), lengths)
        return offsets, np.minimum(lengths, self.layout.size - offsets)

    def _slow(self, number: int) -> tuple[Column, Column]:
        """Return the columns page by page, with the layout's repairs and refusals."""
        found = [segments(self.layout, self.image(int(page))) for page in self.kinds[number].pages]
        return np.stack([each.offsets for each in found]), np.stack([each.lengths for each in found])

    def sub_ifds(self, number: int) -> Column | None:
        """Return where the SubIFDs of every page of a kind are (pages, SubIFDs)."""
        return self.values(number, Tag.SubIFDs)


def pages_at(layout: TiffLayout, url: str, offsets: Sequence[int], *, kinds: int | None = None) -> Pages:
    """Return the pages whose IFDs are at these offsets, whatever links them."""
    return Pages(layout, url, Chain(list(offsets), [raw_ifd(layout, at) for at in offsets]), kinds=kinds)
