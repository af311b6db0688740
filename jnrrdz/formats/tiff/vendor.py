"""Series of microscopy and slide formats, as tifffile finds them: which IFDs make which image.

tifffile knows the formats; that the pages of a series can stand in one array is checked here, and where
it says that an image is larger than the file, it is not believed.  A level of NDPI is one JPEG whose restart
intervals serve as tiles: each decodes by itself behind the header of the whole, its size changed.
Spec: https://github.com/cgohlke/tifffile (the formats have no common one), https://openslide.org/formats/hamamatsu/
"""

import io
import struct
import warnings
from collections.abc import Buffer, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import isfinite, prod
from typing import Any
from xml.etree.ElementTree import ParseError

import numpy as np
import tifffile

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.limits import PLANES
from jnrrdz.core.ome import Axis, Channel
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.tiff.codecs import TiffTileConfig
from jnrrdz.formats.tiff.image import TiffImage, strip_bytes, tiff_image
from jnrrdz.formats.tiff.imagej import imagej_axes
from jnrrdz.formats.tiff.metadata import meaning_of
from jnrrdz.formats.tiff.pages import ADDRESSES, Column, Gathered, Keyframe, Pages
from jnrrdz.formats.tiff.scan import with_kind, with_left_out
from jnrrdz.formats.tiff.schemes import Compression
from jnrrdz.formats.tiff.series import Level, Series, axis_names, check_levels, file_group, refusal
from jnrrdz.formats.tiff.structure import Ifd, TiffLayout
from jnrrdz.formats.tiff.tags import Tag, name_of, sample_dtype
from jnrrdz.options import ScanOptions
from jnrrdz.records import record
from jnrrdz.sources.readahead import ReadAhead


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

MAX_VALUE = 1 << 26
"""Bytes of a tag that is no list of segments; formats keep tables in private tags."""

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

TIMED = {"lsm"}
"""Formats that give times in seconds and do not say so."""


def scan_vendor(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup | None:
    """Return the group of a file of one of the formats, None for others.

    A worker process calls it (`formats.guests`).
    """
    del neighbours
    layout, kind = with_kind(read, TiffLayout(read, read.size))
    if kind is None:
        return None
    group = vendor_group(read, layout, url, kind, options)
    return None if group is None else with_left_out(group, layout)


def vendor_group(read: ReadAhead, layout: TiffLayout, url: str, kind: str, options: ScanOptions) -> VirtualGroup | None:
    """Return the group of a file of one of the formats, None where tifffile sees an ordinary TIFF."""
    try:
        check_pages(layout)
    except MalformedError as error:
        tiff_image(layout, layout.ifd(layout.first))  # a damaged first page is an error
        warnings.warn(f"its {kind} metadata are not used, a page is damaged: {error}", stacklevel=2)
        return None
    file: Any = RangeFile(read, url.rpartition("/")[2])
    try:
        with tifffile.TiffFile(file, _multifile=False, **FLAGS.get(kind, {})) as opened:
            tif: Any = opened
            tif.is_scanimage = kind == "scanimage"
            series = list(tif.series)
            if not series or series[0].kind in ORDINARY:
                warnings.warn(f"its {kind} metadata make no series: pages are read as they are", stacklevel=2)
                return None
            return _group(series, layout, url, options)
    except TIFFFILE_ERRORS as error:
        raise MalformedError(f"its {kind} metadata make no series: {error!r}", url=url) from error


def check_pages(layout: TiffLayout) -> None:
    """Refuse pages that tifffile must not see: it believes negative sides, and reads values of any length."""
    pages = Pages(layout, "", layout.main)
    for kind in pages.kinds:
        ifd = layout.ifd(layout.main[int(kind.pages[0])])
        for offset in (ifd.offset, *layout.sub_ifds(ifd)):
            _check_page(layout, layout.ifd(offset))


def _check_page(layout: TiffLayout, ifd: Ifd) -> None:
    for entry in ifd.entries.values():
        if entry.tag not in ADDRESSES and entry.nbytes > MAX_VALUE:
            text = f"{entry.nbytes} bytes, no more than {MAX_VALUE} are read"
            raise MalformedError(text, offset=ifd.offset, field=name_of(Tag, entry.tag))
    with suppress(UnsupportedError):  # which concerns the series that has the page
        tiff_image(layout, ifd)


def _group(theirs: Sequence[Any], layout: TiffLayout, url: str, options: ScanOptions) -> VirtualGroup | None:
    """Return the group of the series, None where tifffile computes pixels from what is stored, or has one page."""
    if any(each.transform is not None for each in theirs):
        return None
    series: list[Series] = []
    refused: list[dict[str, str]] = []
    for number, each in enumerate(theirs):
        name = each.name.lower() if each.name in OWN_NAMES else each.name
        try:
            series.append(_series(_File(layout, url, each.kind), each, name, options))
        except UnsupportedError as error:
            if number == 0:
                raise
            refused.append(refusal(name or f"series_{number}", error))
    levels = series[0].levels
    is_alone = len(series) == len(levels) == 1 and prod(size for _, size in levels[0].lead) == 1
    return None if is_alone and theirs[0].kind == "shaped" else file_group(series, refused)


@record
class _File:
    """What holds a series."""

    layout: TiffLayout
    url: str
    kind: str
    """The format, which only the whole series knows."""


def _series(file: _File, theirs: Any, name: str, options: ScanOptions) -> Series:
    """Return one of tifffile's series as one of ours."""
    full = _level(file, theirs, None)
    below = [_level(file, level, full.key.image) for level in theirs.levels[1:]] if options.overviews else []
    meaning = meaning_of(file.layout, full.key.image, replace(options, expand_palette=False))
    labels = theirs.coords.get("C")
    has_labels = labels is not None and np.asarray(labels).dtype.kind == "U"
    attributes: dict[str, Any] = {"series": theirs.kind}
    magnification = theirs.attrs.get("magnification")
    if isinstance(magnification, int | float) and isfinite(magnification):
        attributes["magnification"] = float(magnification)
    return Series(
        name,
        check_levels([full, *below]),
        _axes(file, theirs),
        tuple(Channel(str(label)) for label in labels) if has_labels else (),
        attributes,
        meaning=meaning,
    )


def _level(file: _File, theirs: Any, main: TiffImage | None) -> Level:
    """Return one level of one of tifffile's series, a smaller version of `main` where that is given."""
    layout, page = file.layout, theirs.keyframe
    image = tiff_image(layout, layout.ifd(page.offset))
    if file.kind in CORRECTED:
        bits, samples = page.bitspersample, page.samplesperpixel
        image = replace(
            image,
            samples=samples,
            bits=tuple(bits) if isinstance(bits, tuple) else (bits,) * samples,
            formats=(image.formats * samples)[:samples],
            photometric=int(page.photometric),
        )
    sizes, own = ([size for size in shape if size != 1] for shape in (theirs.shape, page.shape))
    ahead = len(sizes) - len(own)
    if ahead < 0 or sizes[ahead:] != own:
        raise UnsupportedError(f"a series of shape {theirs.shape} of pages of {page.shape}", offset=image.ifd.offset)
    names, planes = _names(theirs), prod(sizes[:ahead])
    lead = tuple(zip(names[:ahead], sizes[:ahead], strict=True))
    if planes > PLANES:
        raise MalformedError(f"{planes} planes, at most {PLANES} are possible", offset=image.ifd.offset)
    if theirs.dataoffset is not None and planes > 1 and not image.tiled:
        key = Keyframe.of(layout, image, file.url, main)
        offsets, lengths = _contiguous(layout, image, theirs.dataoffset, planes)
    else:
        key, offsets, lengths = _paged(file, theirs, image, planes, main)
    band = "c" if "c" in names[ahead:] else "band"  # along the samples of a page
    return Level(key, lead, (file.url,), np.zeros(planes, np.int32), offsets, lengths, band)


def _names(theirs: Any) -> tuple[str, ...]:
    return axis_names([letter for letter, size in zip(theirs.axes, theirs.shape, strict=True) if size != 1])


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


def _paged(file: _File, level: Any, image: TiffImage, planes: int, main: TiffImage | None) -> Gathered:
    """Return what the pages of a level share, and their segments; a page that is not there has none."""
    pages = list(level)
    if len(pages) != planes:
        raise UnsupportedError(f"{len(pages)} pages for {planes} planes", offset=image.ifd.offset)
    there = [page for page in pages if page is not None]
    if any(page.parent is not level.keyframe.parent for page in there):
        raise UnsupportedError("pages in several files", url=file.url)
    if file.kind in CORRECTED or any(page.offset == 0 for page in there):
        gathered = _corrected(file, there, image, main)
    else:
        stored = Pages(file.layout, file.url, [page.offset for page in there])
        alike = stored.gathered(np.arange(len(stored)), main)
        if isinstance(alike, str):
            raise UnsupportedError(f"pages of one series that differ: {alike}", url=file.url, field="IFD")
        gathered = alike
    key, *own = gathered
    held = np.array([page is not None for page in pages])
    offsets, lengths = np.zeros((2, planes, key.image.segments), np.int64)
    offsets[held], lengths[held] = own
    return key, offsets, lengths


def _corrected(file: _File, pages: Sequence[Any], image: TiffImage, main: TiffImage | None) -> Gathered:
    """Return what tifffile says of pages."""
    tilings = {(page.keyframe.tilewidth, page.keyframe.tilelength, page.keyframe.jpegheader) for page in pages}
    if len({tiling if tiling[2] is not None else None for tiling in tilings}) > 1:
        raise UnsupportedError("pages of one series whose JPEG headers differ", url=file.url, field="StripOffsets")
    width, length, header = tilings.pop()
    if header is None:
        key = Keyframe.of(file.layout, image, file.url, main)
    else:
        key = _jpeg_keyframe(replace(image, tiled=True, segment_width=width, segment_length=length), header)
    need, here = key.image.segments, image.ifd.offset
    if any(len(page.dataoffsets) != need or len(page.databytecounts) != need for page in pages):
        raise UnsupportedError(f"pages that do not list {need} segments", offset=here)
    offsets = np.array([page.dataoffsets for page in pages], np.int64)
    lengths = np.array([page.databytecounts for page in pages], np.int64)
    if min(offsets.min(), lengths.min()) < 0 or (offsets + lengths > file.layout.size).any():
        raise MalformedError("segments beyond the end of the source", offset=here)
    return key, offsets, lengths


def _jpeg_keyframe(image: TiffImage, header: bytes) -> Keyframe:
    """Return what all pages are like that are one JPEG of tiles, each behind a header."""
    config = TiffTileConfig(
        tile_width=image.segment_width,
        tile_height=image.segment_length,
        image_width=image.width,
        image_height=image.length,
        compression=Compression.JPEG,
        photometric=image.photometric,
        samples_per_pixel=image.samples,
        bits_per_sample=image.bits,
        sample_format=image.formats,
        jpeg_header=header,
    )
    lead: Mapping[str, int] = {"band": image.samples} if image.samples > 1 else {}
    alone = VirtualArray(
        shape=(*lead.values(), image.length, image.width),
        dtype=sample_dtype(image.bits, image.formats),
        chunks=(*lead.values(), image.segment_length, image.segment_width),
        codecs=(config,),
        refs=ChunkRefs.empty(image.segments),
        dimension_names=(*lead, "y", "x"),
    )
    return Keyframe(image, alone, config)


def _axes(file: _File, theirs: Any) -> dict[str, Axis]:
    """Return the distances that the format gives, with their units; a resolution for printers is none."""
    if theirs.kind == "shaped":
        return {}
    if theirs.kind == "imagej":
        # tifffile calls x and y micrometres whatever their unit, and converts z alone
        return imagej_axes(file.layout, file.layout.ifd(file.layout.first))
    letters = [letter for letter, size in zip(theirs.axes, theirs.shape, strict=True) if size != 1]
    units: Mapping[str, str] = {**({"T": "s"} if theirs.kind in TIMED else {}), **theirs.coord_units}
    starts: Mapping[str, float] = theirs.coord_offsets
    return {
        name: Axis(name, float(step), units[letter], float(starts.get(letter, 0.0)))
        for letter, name in zip(letters, _names(theirs), strict=True)
        for step in [theirs.coord_scales.get(letter)]
        if step is not None and letter in units and isfinite(step) and step > 0
    }
