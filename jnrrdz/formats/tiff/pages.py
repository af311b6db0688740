"""Pages that are alike: which of them make one array, and where the segments of all of them are.

Parsing a page in full costs a fifth of a millisecond, and a stack may have a hundred thousand; but the
pages that one writer wrote differ in little more than addresses.  So IFDs are compared as bytes, and
one page of each kind is parsed.  Everything about pages is a column here, one row a page.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.formats.tiff.arrays import own_nodata, virtual_array
from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.formats.tiff.image import TiffImage, segment_tags, segments, tiff_image
from jnrrdz.formats.tiff.schemes import Compression
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Tag
from jnrrdz.formats.tiff_directory import ITEMSIZE, NUMPY_CODE
from jnrrdz.records import record

type Column = NDArray[np.int64]
type Numbers = NDArray[np.intp]
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
    Tag.DocumentName,
    Tag.HostComputer,
    Tag.XMP,
    Tag.ExifIFD,
    Tag.ICCProfile,
}
"""Tags that change nothing in how a page's pixels are read."""

COMPARED = set(Tag) - ADDRESSES - SAID_OF_A_PAGE
"""Every other tag that jnrrdz reads; a tag that it does not know cannot make a difference."""


@record(eq=False)
class Kind:
    """Pages that differ in addresses and words only."""

    pages: Numbers
    """Their numbers, ascending."""

    entries: Rows
    """(pages, entries, bytes of an entry)"""


def rows_alike(rows: Rows) -> list[Numbers]:
    """Return the numbers of equal rows, a list for each different row, by their first ones."""
    width, data = rows.shape[1], rows.tobytes()
    numbers: dict[bytes, list[int]] = {}
    for row in range(len(rows)):
        numbers.setdefault(data[row * width : (row + 1) * width], []).append(row)
    return [np.array(alike, np.intp) for alike in numbers.values()]


class Pages:
    """The pages whose IFDs are at some offsets, whatever links them, by kinds."""

    def __init__(self, layout: TiffLayout, url: str, offsets: Sequence[int]) -> None:
        self.layout = layout
        self.url = url
        self.offsets = offsets
        self.kinds: list[Kind] = []
        self.kind = np.zeros(len(offsets), np.intp)
        """The kind of each page."""
        self.row = np.zeros(len(offsets), np.intp)
        self._columns: dict[int, tuple[Column, Column]] = {}
        self._below: dict[int, Column | None] = {}
        self._images: dict[int, TiffImage] = {}
        stored = [layout.stored(offset) for offset in offsets]
        sizes = np.fromiter(map(len, stored), np.int64, len(stored))
        for size in dict.fromkeys(sizes.tolist()):
            numbers = np.flatnonzero(sizes == size)
            data = b"".join(stored[page] for page in numbers)
            rows = np.frombuffer(data, np.uint8).reshape(len(numbers), size)
            inside = rows[:, layout.count_width : -layout.link_width]
            self._add_kinds(numbers, inside.reshape(len(numbers), -1, layout.entry_width))

    def __len__(self) -> int:
        return len(self.offsets)

    def _add_kinds(self, numbers: Numbers, entries: Rows) -> None:
        """Add the kinds of pages whose IFDs have equally many entries."""
        for outline in rows_alike(self._outlines(entries)):
            for alike in rows_alike(self._values(entries[outline])):
                rows = outline[alike]
                self.kind[numbers[rows]] = len(self.kinds)
                self.row[numbers[rows]] = np.arange(len(rows))
                self.kinds.append(Kind(numbers[rows], entries[rows]))

    def _outlines(self, entries: Rows) -> Rows:
        """Return the tags of each page, with type and count of those that matter."""
        outlines = entries[:, :, : -self.layout.room].copy()
        tags = self._numbers(entries[:, :, :2].tobytes(), "u2").reshape(outlines.shape[:2])
        outlines[~np.isin(tags, list(COMPARED | ADDRESSES)), 2:] = 0
        return outlines.reshape(len(entries), -1)

    def _values(self, entries: Rows) -> Rows:
        """Return the values that are compared of pages with one outline; digests of long ones."""
        columns = [np.empty((len(entries), 0), np.uint8)]
        for place, tag in enumerate(self._numbers(entries[0, :, :2], "u2").tolist()):
            if tag not in COMPARED:
                continue
            values, nbytes = entries[:, place, -self.layout.room :], self._nbytes(entries[0, place])
            if nbytes <= self.layout.room:
                columns.append(values[:, :nbytes])
            elif (values != values[0]).any():
                positions = map(self.layout.number, map(bytes, values))
                digests = b"".join(self.layout.digest(position, nbytes) for position in positions)
                columns.append(np.frombuffer(digests, np.uint8).reshape(len(entries), -1))
        return np.concatenate(columns, axis=1)

    def _numbers(self, data: Rows | bytes, code: str) -> Column:
        """Return the numbers of a type that bytes are."""
        return np.frombuffer(bytes(data), self.layout.order + code).astype(np.int64)

    def _nbytes(self, entry: Rows) -> int:
        room = self.layout.room
        kind, count = (self.layout.number(bytes(part)) for part in (entry[2:4], entry[4:-room]))
        return count * ITEMSIZE.get(kind, 1)

    def _value(self, entry: Rows, nbytes: int) -> bytes:
        position = self.layout.number(bytes(entry[-self.layout.room :]))
        return self.layout.exactly(position, nbytes, "IFD value")

    def image(self, page: int) -> TiffImage:
        """Return the facts of one page."""
        return tiff_image(self.layout, self.layout.ifd(self.offsets[page]))

    def image_of(self, kind: int) -> TiffImage:
        """Return the facts of the first page of a kind."""
        if kind not in self._images:
            self._images[kind] = self.image(int(self.kinds[kind].pages[0]))
        return self._images[kind]

    @property
    def images(self) -> list[TiffImage]:
        """The facts of the first page of every kind."""
        return [self.image_of(kind) for kind in range(len(self.kinds))]

    def values(self, number: int, tag: int) -> Column | None:
        """Return the integers of one tag for all pages of a kind, a row a page; None where there are none."""
        kind = self.kinds[number]
        tags = self._numbers(kind.entries[0, :, :2], "u2").tolist()
        if tag not in tags:
            return None
        entries = kind.entries[:, tags.index(tag)]
        code = NUMPY_CODE.get(self.layout.number(bytes(entries[0, 2:4])), "")
        nbytes, room = self._nbytes(entries[0]), self.layout.room
        if not nbytes or code[:1] not in {"u", "i"}:
            return None
        if nbytes <= room:
            data = entries[:, -room:][:, :nbytes].tobytes()
        else:
            data = b"".join(self._value(entry, nbytes) for entry in entries)
        return self._numbers(data, code).reshape(len(kind.pages), -1)

    def columns(self, number: int) -> tuple[Column, Column]:
        """Return offsets and lengths (pages, segments) of all pages of a kind."""
        if number not in self._columns:
            columns = self._listed(number)
            if columns is None:  # page by page, with the repairs and refusals of `segments`
                ranges = [segments(self.layout, self.image(int(page))) for page in self.kinds[number].pages]
                columns = np.stack([each.offsets for each in ranges]), np.stack([each.lengths for each in ranges])
            self._columns[number] = columns
        return self._columns[number]

    def _listed(self, number: int) -> tuple[Column, Column] | None:
        """Return the columns where every page lists all its segments and all are in the source, else None."""
        image, size = self.image_of(number), self.layout.size
        tags = segment_tags(image)
        offsets, lengths = (self.values(number, tag) for tag in tags)
        need = image.segments
        if offsets is None or lengths is None or min(offsets.shape[1], lengths.shape[1]) < need:
            return None
        offsets, lengths = offsets[:, :need], lengths[:, :need]
        if min(offsets.min(), lengths.min()) < 0 or (offsets >= size).any():
            return None
        if ((offsets == 0) != (lengths == 0)).any():  # what `segments` refuses or estimates
            return None
        if image.compression == Compression.NONE:
            lengths = np.where(lengths > 0, np.minimum(lengths, image.row_bytes * image.segment_length), lengths)
        return offsets, np.minimum(lengths, size - offsets)

    def _by_kind(self, numbers: Numbers) -> dict[int, Numbers]:
        """Return for each kind of some pages the places in `numbers` that have it, the first page's kind first."""
        kinds = self.kind[numbers]
        order = np.argsort(kinds, kind="stable")
        starts = np.flatnonzero(np.diff(kinds[order], prepend=-1))
        places = np.split(order, starts[1:])
        return {int(kinds[each[0]]): each for each in sorted(places, key=lambda each: int(each[0]))}

    def sub_ifds(self, numbers: Numbers) -> Column | None:
        """Return where the SubIFDs of some pages are, a row a page; None where they have not as many each."""
        places = self._by_kind(numbers)
        for kind in places:
            if kind not in self._below:
                self._below[kind] = self.values(kind, Tag.SubIFDs)
        columns = {kind: self._below[kind] for kind in places}
        widths = {0 if column is None else column.shape[1] for column in columns.values()}
        if len(widths) != 1:
            return None
        result = np.zeros((len(numbers), widths.pop()), np.int64)
        for kind, column in columns.items():
            if column is not None:
                result[places[kind]] = column[self.row[numbers[places[kind]]]]
        return None if (result < 0).any() else result

    def gathered(self, numbers: Numbers, main: TiffImage | None = None) -> "Gathered | str":
        """Return what some pages (smaller versions of `main`) share and their columns, or what they do not share."""
        places = self._by_kind(numbers)
        keys = (Keyframe.of(self.layout, self.image_of(kind), self.url, main) for kind in places)
        first = next(keys)
        for key in keys:
            difference = first.difference(key)
            if difference is not None:
                return f"the IFD at {key.image.ifd.offset} has {difference}"
        self.layout.count_segments(len(numbers) * first.image.segments, first.image.ifd.offset)
        offsets, lengths = np.zeros((2, len(numbers), first.image.segments), np.int64)
        for kind, here in places.items():
            rows = self.row[numbers[here]]
            offsets[here], lengths[here] = (column[rows] for column in self.columns(kind))
        return first, offsets, lengths


@record(eq=False)
class Keyframe:
    """What every page of a level is like."""

    image: TiffImage
    alone: VirtualArray
    """The array that the page would be by itself."""

    config: TiffTileConfig
    """How one segment is decoded."""

    @classmethod
    def of(cls, layout: TiffLayout, image: TiffImage, url: str, main: TiffImage | None = None) -> "Keyframe":
        """Return the facts of one page (a smaller version of `main`); what cannot be read is refused here."""
        inherited = None if main is None else own_nodata(layout, main)
        alone = virtual_array(layout, image, url, {}, inherited)
        config = cast("TiffTileConfig", alone.codecs[0])
        return cls(image, alone, replace(config, tile_height=image.segment_length))

    def difference(self, other: "Keyframe") -> str | None:
        """Return what forbids that two pages stand in one array, None where nothing does."""
        mine, yours = self.alone, other.alone
        pairs = {
            "shape": (mine.shape, yours.shape),
            "type": (mine.dtype, yours.dtype),
            "nodata": (str(mine.fill_value), str(yours.fill_value)),
            "tiles or strips": (self.image.grid, other.image.grid),
        }
        for name, (first, second) in pairs.items():
            if first != second:
                return f"{name} {second} where the first has {first}"
        return None if self.config == other.config else "another compression or codec configuration"


type Gathered = tuple[Keyframe, Column, Column]
"""What pages share, their offsets and lengths (pages, segments)."""
