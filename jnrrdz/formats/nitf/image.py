"""An image segment's subheader: size, blocks, bands, types of samples, pad pixel, mask and colours.

A masked image has a table before its blocks: where each block stands, and the pad pixel.  Offsets count
from where the blocks begin, as IMDATOFF says; where that is inside the tables, they begin behind them.
A lookup table of red, green and blue is GDAL's colour table; one of a single band is a list of grey values.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1, tables 5.13 and 5.14; PVTYPE, NBPP, TPXCD),
MIL-STD-2500A (NITF 2.0)
"""

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.colours import CHANNELS, palette_attributes
from jnrrdz.formats.nitf.header import (
    BAND,
    BYTE,
    IMAGE_BLOCKS,
    IMAGE_SHAPE,
    Cursor,
    Fields,
    NitfLayout,
    ReadRange,
    Segment,
    header_cursor,
    read_tres,
    sample_type,
)

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
    end: int = 0
    """Where the fields of the subheader end in the source."""

    problems: list[str] = field(default_factory=list)

    def _number(self, name: str) -> int:
        value = self.fields.get(name)
        if not isinstance(value, int):
            raise MalformedError(f"{value!r} is no number", field=f"{self.what} {name}")
        return value

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
    layout.version.read_security(cursor, "I")
    cursor.take(IMAGE_SHAPE)
    if (cursor.fields["ICORDS"] or " ") != layout.version.no_coordinates:
        cursor.text("IGEOLO", CORNERS)
    comments = [cursor.raw("ICOM", COMMENT) for _ in range(cursor.number("NICOM", 1))]
    if cursor.text("IC", 2) not in UNCOMPRESSED:
        cursor.text("COMRAT", 4)
    count = cursor.number("NBANDS", 1) or cursor.number("XBANDS", MANY_BANDS)
    bands = tuple(_band(cursor) for _ in range(count))
    cursor.take(IMAGE_BLOCKS)
    tres, problems = read_tres(cursor, ("UDIDL", "UDOFL", "UDID"), ("IXSHDL", "IXSOFL", "IXSHD"))
    texts = tuple(comment.decode("latin-1").rstrip(" \0") for comment in comments)
    image = NitfImage(segment, cursor.fields, bands, texts, tres, cursor.offset, problems)
    _check(image)
    return image


def _band(cursor: Cursor) -> Band:
    own = Cursor(cursor.data, cursor.base, cursor.what, cursor.at)
    own.take(BAND)
    count = own.fields.get("NLUTS")
    luts: tuple[bytes, ...] = ()
    if isinstance(count, int) and count:
        entries = own.number("NELUT", 5)
        luts = tuple(own.raw("LUTD", entries) for _ in range(count))
    cursor.at = own.at
    return Band(own.fields, luts)


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
            raise MalformedError(
                f"{blocks} blocks of {step} pixels for {size}", offset=here, field=f"{image.what} {names}"
            )
    if image.mode not in {"B", "P", "R", "S"}:
        raise UnsupportedError(f"{image.mode!r}; B, P, R and S are read", offset=here, field=f"{image.what} IMODE")


HEAD = struct.Struct(">IHHH")
NOT_RECORDED = 0xFFFF_FFFF
OFFSET_BYTES = 4
FIELD = "mask table"


@dataclass(frozen=True, eq=False)
class Mask:
    """Where the blocks stand."""

    start: int
    """Where the blocks begin in the source."""

    end: int
    """Where the mask itself ends."""

    offsets: NDArray[np.int64] | None
    """Each block's offset from there, -1 where it is not recorded; None where all are, in order."""

    padded: NDArray[np.bool_] | None
    """Whether a block holds pad pixels; None where nothing is said of it."""

    pad_bits: int = 0
    pad: bytes = b""
    """The pad pixel, in as many bytes as it needs."""


def parse_mask(read: ReadRange, start: int, stop: int, blocks: int) -> Mask:
    """Return the mask of an image of `blocks` blocks, whose data are the bytes from `start` to `stop`."""
    head = _exactly(read, start, stop, HEAD.size)
    offset, block_bytes, pad_bytes, pad_bits = HEAD.unpack(head)
    for name, width in (("BMRLNTH", block_bytes), ("TMRLNTH", pad_bytes)):
        if width not in {0, OFFSET_BYTES}:
            raise MalformedError(f"{width}, not 0 or {OFFSET_BYTES}", offset=start, field=f"{FIELD} {name}")
    at = start + HEAD.size
    pad = _exactly(read, at, stop, -(-pad_bits // 8))
    at += len(pad)
    offsets, at = _table(read, at, stop, blocks if block_bytes else 0)
    padded, at = _table(read, at, stop, blocks if pad_bytes else 0)
    begin = max(start + offset, at)
    if begin > stop:
        raise MalformedError(f"{offset}, {stop - start} bytes of data", offset=start, field=f"{FIELD} IMDATOFF")
    return Mask(begin, at, offsets, None if padded is None else padded >= 0, pad_bits, pad)


def _exactly(read: ReadRange, start: int, stop: int, length: int) -> bytes:
    data = read(start, start + length) if start + length <= stop else b""
    if len(data) != length:
        raise MalformedError(f"{length} bytes would end behind the image's data", offset=start, field=FIELD)
    return data


def _table(read: ReadRange, at: int, stop: int, blocks: int) -> tuple[NDArray[np.int64] | None, int]:
    """Return a table of offsets, -1 for none, and where it ends."""
    if not blocks:
        return None, at
    data = _exactly(read, at, stop, blocks * OFFSET_BYTES)
    values = np.frombuffer(data, ">u4").astype(np.int64)
    values[values == NOT_RECORDED] = -1
    return values, at + len(data)


def sample_dtype(image: NitfImage) -> np.dtype[Any]:
    """Return the narrowest type that holds a sample."""
    dtype = sample_type(image.text("PVTYPE"), image.bits)
    if dtype is None:
        raise UnsupportedError(
            f"{image.text('PVTYPE')!r} of {image.bits} bits; INT, SI and B of up to 64, R of 16, 32 and 64, "
            "C of 64 and 128 are read",
            offset=image.segment.start,
            field=f"{image.what} PVTYPE, NBPP",
        )
    return dtype


def pad_value(mask: Mask | None, image: NitfImage, dtype: np.dtype[Any]) -> Any:
    """Return what marks pixels that have no value, None where nothing does."""
    if mask is None or not mask.pad:
        return None
    if dtype.kind in "fc" and len(mask.pad) == dtype.itemsize:
        return np.frombuffer(mask.pad, dtype.newbyteorder(">")).astype(dtype)[0]
    # the pad pixel's bits as a number: in whole bytes they stand as PJUST has it
    value, spare = int.from_bytes(mask.pad, "big"), len(mask.pad) * BYTE - image.bits
    is_left = spare > 0 and not value & ((1 << spare) - 1)
    if is_left and (image.text("PJUST") == "L" or value >> image.bits):  # what is too large cannot stand on the right
        value >>= spare
    if dtype.kind == "i" and value >> (image.bits - 1) & 1:
        value -= 1 << image.bits
    try:
        return dtype.type(value)
    except OverflowError:
        raise MalformedError(
            f"a pad pixel {value} for samples of {image.bits} bits", offset=image.segment.data, field="TPXCD"
        ) from None


type Table = NDArray[np.uint8]
"""Entries by red, green and blue."""

CADRG_ENTRIES = 217
INDEX_VALUES = 256

BANDS = {"R": "red", "G": "green", "B": "blue", "M": "gray", "Y": "Y", "Cb": "Cb", "Cr": "Cr"}
"""IREPBAND to the names that rasterio gives to interpretations."""


def parse_colours(image: NitfImage) -> Table | None:
    """Return the colours of an image of one band, None where it has none."""
    if len(image.bands) != 1:
        return None
    luts = image.bands[0].luts
    if len(luts) not in {1, CHANNELS} or not luts[0]:
        return None
    columns = [np.frombuffer(lut, np.uint8) for lut in (luts * CHANNELS if len(luts) == 1 else luts)]
    return np.stack(columns, axis=1)


def missing_index(image: NitfImage, table: Table | None) -> int | None:
    """Return the value of pixels that are not stored where no pad pixel says it: one without a colour, as GDAL has it.

    None where there is no table, or no such value.  The last of 217 entries means no colour if it is black (CADRG).
    """
    if table is None or image.bits != BYTE or len(table) >= INDEX_VALUES - 1:
        return None
    is_cadrg = len(table) == CADRG_ENTRIES and not table[-1].any()
    return len(table) - 1 if is_cadrg else len(table)


def colour_attributes(image: NitfImage, table: Table | None) -> dict[str, Any]:
    """Return the interpretation of each band, and a table's colours."""
    if table is None:
        return {"colorinterp": [_interpretation(image, number) for number in range(len(image.bands))]}
    attributes: dict[str, Any] = {"colorinterp": ["palette" if len(image.bands[0].luts) == CHANNELS else "gray"]}
    return attributes | palette_attributes(table.tolist())


def _interpretation(image: NitfImage, number: int) -> str:
    """Return the name of a band's IREPBAND."""
    representation = str(image.bands[number].fields.get("IREPBAND", "")).strip()
    if representation in BANDS:
        # libjpeg gives red, green and blue for what is stored as YCbCr
        colours = ("red", "green", "blue")
        is_jpeg = image.compression in {"C3", "M3"} and image.mode == "P" and len(image.bands) == CHANNELS
        is_luma_chroma = representation in {"Y", "Cb", "Cr"}
        return colours[number] if is_jpeg and is_luma_chroma else BANDS[representation]
    return "gray" if len(image.bands) == 1 and image.text("IREP") == "MONO" else "undefined"
