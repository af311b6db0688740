"""NDPI's two departures from TIFF: offsets of 64 bits in a classic file, and tiles inside one JPEG.

May touch the TIFF layout and the planes of this folder.  After its entries an IFD has a link of 8
bytes and then the upper 32 bits of every entry's value.  A level is one JPEG whose restart
intervals serve as tiles: each decodes by itself behind the header of the whole, its size changed.
Spec: https://openslide.org/formats/hamamatsu/
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jnrrdz.core.array import VirtualArray
from jnrrdz.core.codec import TiffTileConfig
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.formats.tiff.planes import Keyframe
from jnrrdz.formats.tiff.structure import Entry, Ifd, ReadRange, TiffLayout
from jnrrdz.formats.tiff.tags import Compression, FieldType
from jnrrdz.formats.tiff.tiff_image import TiffImage, sample_dtype

MARK = 65420
"""A tag that all NDPI files have."""

HEADER = 12


class NdpiLayout(TiffLayout):
    """The directories of an NDPI file."""

    def __init__(self, read: ReadRange, size: int) -> None:
        super().__init__(read, size)
        self.first = int.from_bytes(self.exactly(4, 8, "first IFD"), "little")

    def ifd(self, offset: int) -> Ifd:
        """Return the IFD at `offset`, its values where they really are."""
        plain = super().ifd(offset)
        start = offset + 2
        count = int.from_bytes(self.exactly(offset, 2, "IFD entry count"), "little")
        end = start + 12 * count
        tail = self.exactly(end, 8 + 4 * count, "IFD upper halves")
        high = np.frombuffer(tail, "<u4", offset=8).astype(np.int64) << 32
        body = np.frombuffer(self.exactly(start, 12 * count, "IFD entries"), "<u2").reshape(count, 6)
        uppers = dict(zip(reversed(body[:, 0].tolist()), reversed(high.tolist()), strict=True))
        entries = {tag: self._moved(entry, start, end, uppers[tag]) for tag, entry in plain.entries.items()}
        return Ifd(offset, entries, int.from_bytes(tail[:8], "little"))

    def _moved(self, entry: Entry, start: int, end: int, upper: int) -> Entry:
        if not start <= entry.position < end:
            return entry._replace(position=entry.position + upper)
        if entry.type != FieldType.ASCII:
            return entry
        # texts never stand in the IFD, however short
        return entry._replace(position=upper + int.from_bytes(self.exactly(entry.position, 4, entry.name), "little"))


def ndpi_layout(read: ReadRange, layout: TiffLayout) -> NdpiLayout | None:
    """Return the layout of an NDPI file, None for any other; no further read tells them apart below 4 GB."""
    if layout.big or layout.order != "<" or layout.size < HEADER:
        return None
    if layout.size >> 32 and _far(layout):
        found = NdpiLayout(read, layout.size)
        return found if MARK in found.ifd(found.first) else None
    return NdpiLayout(read, layout.size) if layout.first and MARK in layout.ifd(layout.first) else None


def _far(layout: TiffLayout) -> bool:
    """Whether the first 8 bytes behind the magic are an offset beyond 4 GB; those of a TIFF are absurd as one."""
    first = int.from_bytes(layout.exactly(4, 8, "first IFD"), "little")
    return 1 << 32 <= first < layout.size


@dataclass(frozen=True)
class JpegTiles:
    """The tiles that tifffile finds in a level's JPEG."""

    width: int
    length: int
    header: bytes

    @classmethod
    def of(cls, page: Any) -> "JpegTiles | None":
        """Return the tiles of one of tifffile's pages, None where it is stored in another way."""
        header = page.jpegheader
        return None if header is None else cls(page.tilewidth, page.tilelength, header)

    def keyframe(self, image: TiffImage) -> Keyframe:
        """Return what all pages are like whose JPEG has these tiles."""
        tiled = replace(image, tiled=True, segment_width=self.width, segment_length=self.length)
        config = TiffTileConfig(
            tile_width=self.width,
            tile_height=self.length,
            image_width=image.width,
            image_height=image.length,
            compression=Compression.JPEG,
            photometric=image.photometric,
            samples_per_pixel=image.samples,
            bits_per_sample=image.bits,
            sample_format=image.formats,
            jpeg_header=self.header,
        )
        lead: Mapping[str, int] = {"band": image.samples} if image.samples > 1 else {}
        alone = VirtualArray(
            shape=(*lead.values(), image.length, image.width),
            dtype=sample_dtype(image),
            chunks=(*lead.values(), self.length, self.width),
            codecs=(config.to_spec(),),
            refs=ChunkRefs.empty(tiled.segments),
            dimension_names=(*lead, "y", "x"),
        )
        return Keyframe(tiled, alone, config)
