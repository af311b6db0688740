"""NDPI's two departures from TIFF: offsets of 64 bits in a classic file, and tiles inside one JPEG.

May touch the TIFF layout and the planes of this folder.  After its entries an IFD has a link of 8
bytes and then the upper 32 bits of every entry's value.  A level is one JPEG whose restart
intervals serve as tiles: each decodes by itself behind the header of the whole, its size changed.
Spec: https://openslide.org/formats/hamamatsu/

A read-ahead as a file object, for libraries that read from one.

May touch numpy and the read-ahead it is given.

Series of microscopy and slide formats, as tifffile finds them: which IFDs make which image.

May touch tifffile, the TIFF layout, and the pages and planes of this folder.  tifffile knows the
formats; that the pages of a series can stand in one array is checked here, and where it says that
an image is larger than the file, it is not believed.
Spec: https://github.com/cgohlke/tifffile (the formats have no common one)
"""

import io
import struct
import warnings
from collections.abc import Buffer, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, prod
from typing import Any
from xml.etree.ElementTree import ParseError

import numpy as np
import tifffile

from jnrrdz.core.arrays import VirtualArray, VirtualGroup
from jnrrdz.core.codecs import TiffTileConfig
from jnrrdz.core.ome import Axis, Channel
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.arrays import sample_dtype
from jnrrdz.formats.tiff.image import TiffImage, strip_bytes, tiff_image
from jnrrdz.formats.tiff.metadata import meaning_of
from jnrrdz.formats.tiff.pages import Column, Gathered, Keyframe, Level, Pages, axis_names, check_levels
from jnrrdz.formats.tiff.stack import Series, file_group, refusal
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Compression
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead


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
            codecs=(config,),
            refs=ChunkRefs.empty(tiled.segments),
            dimension_names=(*lead, "y", "x"),
        )
        return Keyframe(tiled, alone, config)


class RangeFile(io.RawIOBase):
    """Bytes of a source from a position that moves; nothing is written."""

    def __init__(self, read: ReadAhead, name: str) -> None:
        super().__init__()
        self.name = name
        self._read = read
        self._at = 0

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def seekable(self) -> bool:
        """Return that it is."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position from the start, from here, or from the end."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._read.size}[whence]
        if base + offset < 0:
            raise ValueError(f"a position of {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Buffer) -> int:
        """Fill a buffer, of whatever items, as far as the source goes."""
        view = np.frombuffer(buffer, np.uint8)
        data = self._read(self._at, self._at + len(view))
        view[: len(data)] = np.frombuffer(data, np.uint8)
        self._at += len(data)
        return len(data)


TIFFFILE_ERRORS = (
    tifffile.TiffFileError,
    ParseError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    AssertionError,
    NotImplementedError,
    RuntimeError,
    ArithmeticError,
    MemoryError,
    struct.error,
)
"""What tifffile raises at headers that it did not expect."""

MOST_KINDS = 64
MAX_PLANES = 1 << 24
ORDINARY = {"uniform", "generic", "geotiff", ""}
"""tifffile's names for files that are of no such format."""

OWN_NAMES = {"Baseline", "Thumbnail", "Label", "Macro", "Map"}
"""Names that tifffile gives, in lower case here: no file spells them so."""

CORRECTED = {"lsm", "ndpi"}
"""Formats whose IFDs say wrong offsets, lengths or samples, which tifffile corrects."""

FLAGS: Mapping[str, Any] = {
    "ndpi": {"is_ndpi": True},  # tifffile would go by the name's ending
    "scanimage": {"is_scanimage": False},  # while opening: tifffile would compute offsets from the first IFDs
}

TIMED = {"imagej", "lsm"}
"""Formats that give times in seconds and do not say so."""


def vendor_group(read: ReadAhead, layout: TiffLayout, url: str, kind: str, options: ScanOptions) -> VirtualGroup | None:
    """Return the group of a file of one of the formats, None where tifffile sees an ordinary TIFF."""
    file: Any = RangeFile(read, url.rpartition("/")[2])
    try:
        with tifffile.TiffFile(file, _multifile=False, **FLAGS.get(kind, {})) as opened:
            tif: Any = opened
            tif.is_scanimage = kind == "scanimage"
            found = list(tif.series)
            if not found or found[0].kind in ORDINARY:
                warnings.warn(f"its {kind} metadata make no series: pages are read as they are", stacklevel=2)
                return None
            return _group(found, layout, url, options)
    except TIFFFILE_ERRORS as error:
        raise MalformedError(f"its {kind} metadata make no series: {error!r}", url=url) from error


def _group(found: Sequence[Any], layout: TiffLayout, url: str, options: ScanOptions) -> VirtualGroup | None:
    """Return the group of the series, None where tifffile computes pixels from what is stored, or has one page."""
    if any(one.transform is not None for one in found):
        return None
    series: list[Series] = []
    refused: list[dict[str, str]] = []
    for number, one in enumerate(found):
        name = one.name.lower() if one.name in OWN_NAMES else one.name
        try:
            series.append(_series(layout, url, one, name, options))
        except UnsupportedError as error:
            if number == 0:
                raise
            refused.append(refusal(name or f"series_{number}", error))
    first = series[0]
    if (
        len(series) == len(first.levels) == 1
        and found[0].kind == "shaped"
        and prod(s for _, s in first.levels[0].lead) == 1
    ):
        return None
    return file_group(series, refused)


def _series(layout: TiffLayout, url: str, found: Any, name: str, options: ScanOptions) -> Series:
    full = _level(layout, url, found, found.kind, None)
    below = (
        [_level(layout, url, level, found.kind, full.key.image) for level in found.levels[1:]]
        if options.overviews
        else []
    )
    levels = check_levels([full, *below])
    names = _names(found)
    meaning = meaning_of(layout, full.key.image, replace(options, expand_palette=False))
    return Series(name, levels, _axes(found, names), _channels(found), _attributes(found), meaning=meaning)


def _level(layout: TiffLayout, url: str, found: Any, kind: str, main: TiffImage | None) -> Level:
    """Return one level of one of tifffile's series; only the whole series knows its kind."""
    image = _image(layout, found, kind)
    lead, band = _lead(found, image)
    planes = prod(size for _, size in lead)
    if planes > MAX_PLANES:
        raise MalformedError(f"{planes} planes, at most {MAX_PLANES} are possible", offset=image.ifd.offset)
    if found.dataoffset is not None and planes > 1 and not image.tiled:
        key = Keyframe.of(layout, image, url, main)
        offsets, lengths = _contiguous(layout, image, found.dataoffset, planes)
    else:
        key, offsets, lengths = _paged(layout, url, found, _Wanted(image, kind, planes, main))
    return Level(key, lead, (url,), np.zeros(planes, np.int32), offsets, lengths, band)


def _image(layout: TiffLayout, found: Any, kind: str) -> TiffImage:
    """Return the facts of a level's pages, as tifffile corrects them where it must."""
    image = tiff_image(layout, layout.ifd(found.keyframe.offset))
    if kind not in CORRECTED:
        return image
    page = found.keyframe
    bits = page.bitspersample
    samples = page.samplesperpixel
    return replace(
        image,
        samples=samples,
        bits=tuple(bits) if isinstance(bits, tuple) else (bits,) * samples,
        formats=(image.formats * samples)[:samples],
        photometric=int(page.photometric),
    )


def _lead(found: Any, image: TiffImage) -> tuple[tuple[tuple[str, int], ...], str]:
    """Return the axes that the pages of a series run along, and the name of the one along a page's samples."""
    sizes = [size for size in found.shape if size != 1]
    page = [size for size in found.keyframe.shape if size != 1]
    ahead = len(sizes) - len(page)
    if ahead < 0 or sizes[ahead:] != page:
        raise UnsupportedError(
            f"a series of shape {found.shape} of pages of {found.keyframe.shape}", offset=image.ifd.offset
        )
    names = _names(found)
    return tuple(zip(names[:ahead], sizes[:ahead], strict=True)), "c" if "c" in names[ahead:] else "band"


def _names(found: Any) -> tuple[str, ...]:
    return axis_names([letter for letter, size in zip(found.axes, found.shape, strict=True) if size != 1])


def _contiguous(layout: TiffLayout, image: TiffImage, start: int, planes: int) -> tuple[Column, Column]:
    """Return the strips of planes that stand one after the other, which the IFDs need not list."""
    samples, full = image.grid[0], strip_bytes(image)
    plane = int(full.sum())
    if start + planes * samples * plane > layout.size:
        raise MalformedError(
            f"{planes} planes of {samples * plane} bytes from {start} on, where the source has {layout.size} bytes",
            offset=image.ifd.offset,
        )
    tops = start + np.arange(planes * samples, dtype=np.int64)[:, None] * plane
    offsets = tops + np.concatenate(([0], np.cumsum(full)[:-1]))
    return offsets.reshape(planes, -1), np.broadcast_to(full, offsets.shape).reshape(planes, -1)


@dataclass(frozen=True)
class _Wanted:
    """What the pages of a level should be."""

    image: TiffImage
    kind: str
    planes: int
    main: TiffImage | None


def _paged(layout: TiffLayout, url: str, found: Any, wanted: _Wanted) -> Gathered:
    """Return what the pages of a level share, and their segments; a page that is not there has none."""
    pages = list(found)
    if len(pages) != wanted.planes:
        raise UnsupportedError(f"{len(pages)} pages for {wanted.planes} planes", offset=wanted.image.ifd.offset)
    if any(page is not None and page.parent is not found.keyframe.parent for page in pages):
        raise UnsupportedError("pages in several files", url=url)
    held = np.array([page is not None for page in pages])
    there = [page for page in pages if page is not None]
    computed = wanted.kind in CORRECTED or any(page.offset == 0 for page in there)
    key, *own = (_corrected if computed else _as_stored)(layout, url, there, wanted)
    offsets, lengths = np.zeros((2, wanted.planes, key.image.segments), np.int64)
    offsets[held], lengths[held] = own
    return key, offsets, lengths


def _as_stored(layout: TiffLayout, url: str, pages: Sequence[Any], wanted: _Wanted) -> Gathered:
    """Return what the IFDs of pages say."""
    below = Pages(layout, url, [page.offset for page in pages], kinds=MOST_KINDS)
    result = below.gathered(np.arange(len(below)), wanted.main)
    if isinstance(result, str):
        raise UnsupportedError(f"pages of one series that differ: {result}", url=url, field="IFD")
    return result


def _corrected(layout: TiffLayout, url: str, pages: Sequence[Any], wanted: _Wanted) -> Gathered:
    """Return what tifffile says of pages."""
    found = {JpegTiles.of(page.keyframe) for page in pages}
    if len(found) > 1:
        raise UnsupportedError("pages of one series whose JPEG headers differ", url=url, field="StripOffsets")
    tiles = found.pop()
    key = Keyframe.of(layout, wanted.image, url, wanted.main) if tiles is None else tiles.keyframe(wanted.image)
    return key, *_columns(layout, key.image, pages)


def _columns(layout: TiffLayout, image: TiffImage, pages: Sequence[Any]) -> tuple[Column, Column]:
    """Return the segments as tifffile corrects them."""
    if any(len(page.dataoffsets) != image.segments or len(page.databytecounts) != image.segments for page in pages):
        raise UnsupportedError(f"pages that do not list {image.segments} segments", offset=image.ifd.offset)
    offsets = np.array([page.dataoffsets for page in pages], np.int64)
    lengths = np.array([page.databytecounts for page in pages], np.int64)
    if min(offsets.min(), lengths.min()) < 0 or (offsets + lengths > layout.size).any():
        raise MalformedError("segments beyond the end of the source", offset=image.ifd.offset)
    return offsets, lengths


def _axes(found: Any, names: Sequence[str]) -> dict[str, Axis]:
    """Return the distances that the format gives, with their units; a resolution for printers is none."""
    if found.kind == "shaped":
        return {}
    letters = [letter for letter, size in zip(found.axes, found.shape, strict=True) if size != 1]
    units: Mapping[str, str] = {**({"T": "s"} if found.kind in TIMED else {}), **found.coord_units}
    starts: Mapping[str, float] = found.coord_offsets
    return {
        name: Axis(name, float(step), units[letter], float(starts.get(letter, 0.0)))
        for letter, name in zip(letters, names, strict=True)
        for step in [found.coord_scales.get(letter)]
        if step is not None and letter in units and isfinite(step) and step > 0
    }


def _channels(found: Any) -> tuple[Channel, ...]:
    """Return the channels that the format names."""
    labels = found.coords.get("C")
    if labels is None or np.asarray(labels).dtype.kind != "U":
        return ()
    return tuple(Channel(str(label)) for label in labels)


def _attributes(found: Any) -> dict[str, Any]:
    """Return the format's name, and the magnification where it is known."""
    magnification = found.attrs.get("magnification")
    known = isinstance(magnification, int | float) and isfinite(magnification)
    return {"series": found.kind, **({"magnification": float(magnification)} if known else {})}
