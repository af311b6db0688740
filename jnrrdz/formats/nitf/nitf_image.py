"""An image segment's subheader as facts: size, blocks, bands, pixels, and the extensions that it carries.

May touch errors, the field tables and the file's structure.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1, table 5.13), MIL-STD-2500A (NITF 2.0)
"""

from dataclasses import dataclass, field

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nitf.header import NitfLayout, ReadRange, Segment, extensions, header_cursor
from jnrrdz.formats.nitf.nitf_fields import Cursor, Fields, integer
from jnrrdz.formats.nitf.nitf_tables import BAND, IMAGE_BLOCKS, IMAGE_SHAPE

UNCOMPRESSED = {"NC", "NM"}
COMMENT = 80
CORNERS = 60
MANY_BANDS = 5


@dataclass(frozen=True)
class Band:
    """What is said of one band, and its lookup tables, one after the other."""

    fields: Fields
    luts: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class NitfImage:
    """One image segment."""

    segment: Segment
    fields: Fields
    bands: tuple[Band, ...]
    comments: tuple[str, ...]
    tres: bytes
    problems: list[str] = field(default_factory=list)

    def _number(self, name: str) -> int:
        return integer(self.fields, name, self.what)

    def text(self, name: str) -> str:
        """Return a field as text."""
        return str(self.fields.get(name, ""))

    @property
    def what(self) -> str:
        """The image, for messages."""
        return f"image {self.segment.number}"

    @property
    def rows(self) -> int:
        """Rows of the image."""
        return self._number("NROWS")

    @property
    def columns(self) -> int:
        """Columns of the image."""
        return self._number("NCOLS")

    @property
    def bits(self) -> int:
        """Bits that a pixel of one band takes."""
        return self._number("NBPP")

    @property
    def grid(self) -> tuple[int, int]:
        """Blocks down and across, as the header has them."""
        return self._number("NBPC"), self._number("NBPR")

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of a block; 0 in the header stands for a side too long for its four digits."""
        down, across = self.grid
        rows = self._number("NPPBV") or (self.rows if down == 1 else 0)
        columns = self._number("NPPBH") or (self.columns if across == 1 else 0)
        return rows, columns

    @property
    def mode(self) -> str:
        """IMODE: how the bands are interleaved."""
        return self.text("IMODE")

    @property
    def compression(self) -> str:
        """IC."""
        return self.text("IC")

    @property
    def is_masked(self) -> bool:
        """Whether a mask table stands before the blocks."""
        return self.compression in {"NM", "M1", "M3", "M4", "M5", "M6", "M7", "M8", "MD"}


def parse_image(read: ReadRange, layout: NitfLayout, segment: Segment) -> NitfImage:
    """Return what the subheader of an image segment says, its sizes checked against each other."""
    cursor = header_cursor(read, layout, segment, f"image {segment.number}")
    cursor.take(layout.version.image)
    if cursor.found["IM"] != "IM":
        raise MalformedError(f"{cursor.found['IM']!r} where IM belongs", offset=segment.start, field=cursor.what)
    layout.version.security(cursor, "I")
    cursor.take(IMAGE_SHAPE)
    if (cursor.found["ICORDS"] or " ") != layout.version.no_coordinates:
        cursor.text("IGEOLO", CORNERS)
    comments = tuple(_comment(cursor) for _ in range(cursor.number("NICOM", 1)))
    if cursor.text("IC", 2) not in UNCOMPRESSED:
        cursor.text("COMRAT", 4)
    bands = _bands(cursor)
    cursor.take(IMAGE_BLOCKS)
    tres, problems = _tres(cursor)
    image = NitfImage(segment, cursor.found, bands, comments, tres, problems)
    _check(image)
    return image


def _comment(cursor: Cursor) -> str:
    return cursor.raw("ICOM", COMMENT).decode("latin-1").rstrip(" \0")


def _bands(cursor: Cursor) -> tuple[Band, ...]:
    count = cursor.number("NBANDS", 1) or cursor.number("XBANDS", MANY_BANDS)
    return tuple(_band(cursor) for _ in range(count))


def _band(cursor: Cursor) -> Band:
    own = Cursor(cursor.data, cursor.base, cursor.what, cursor.at)
    own.take(BAND)
    count = own.found.get("NLUTS")
    luts: tuple[bytes, ...] = ()
    if isinstance(count, int) and count:
        entries = own.number("NELUT", 5)
        luts = tuple(own.raw("LUTD", entries) for _ in range(count))
    cursor.at = own.at
    return Band(own.found, luts)


def _tres(cursor: Cursor) -> tuple[bytes, list[str]]:
    """Return the extensions, and what is wrong with them: that never costs the pixels."""
    found, problems = b"", []
    for length, overflow, name in (("UDIDL", "UDOFL", "UDID"), ("IXSHDL", "IXSOFL", "IXSHD")):
        try:
            found += extensions(cursor, length, overflow, name)
        except MalformedError as error:
            problems.append(str(error))
            break
    return found, problems


def _check(image: NitfImage) -> None:
    """Refuse sizes that contradict each other."""
    here = image.segment.start
    if not image.bands:
        raise MalformedError("no bands", offset=here, field=f"{image.what} NBANDS, XBANDS")
    for name, size in (("NROWS", image.rows), ("NCOLS", image.columns), ("NBPP", image.bits)):
        if size < 1:
            raise MalformedError(f"{size}", offset=here, field=f"{image.what} {name}")
    for axis, names in enumerate(("NBPC, NPPBV", "NBPR, NPPBH")):
        size, blocks, step = (image.rows, image.columns)[axis], image.grid[axis], image.block[axis]
        if blocks < 1 or step < 1 or blocks * step < size:
            found = f"{blocks} blocks of {step} pixels for {size}"
            raise MalformedError(found, offset=here, field=f"{image.what} {names}")
    if image.mode not in {"B", "P", "R", "S"}:
        raise UnsupportedError(f"{image.mode!r}; B, P, R and S are read", offset=here, field=f"{image.what} IMODE")
