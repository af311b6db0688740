"""What OME-XML says of a file's images: their axes, which IFD holds which plane, channels, sizes.

May touch errors and the model's names.  The XML comes from the file that is being scanned, so it
is not trusted: document types (and with them entities) are refused, and so is every number that
no image can have.
Spec: https://docs.openmicroscopy.org/ome-model/6.3.1/ome-tiff/specification.html

OME-TIFF to series: planes gathered from the IFDs, and the files, that the OME-XML names.

May touch the TIFF layout, neighbours of the source, and the pages and planes of this folder.  A
plane that no block of the XML covers is missing; a file that it names and that is not there is an
error, because its planes are not known to be absent.
Spec: https://docs.openmicroscopy.org/ome-model/6.3.1/ome-tiff/specification.html
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite, prod
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import VirtualGroup
from jnrrdz.core.ome import Axis, Channel
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.tiff.image import TiffImage
from jnrrdz.formats.tiff.metadata import TEXTS, bounded_text, meaning_of
from jnrrdz.formats.tiff.pages import NAMES, Gathered, Level, Numbers, Pages, check_levels
from jnrrdz.formats.tiff.stack import Series, file_group, refusal
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Tag
from jnrrdz.options import ScanOptions

FIELD = "ImageDescription"
MAX_BYTES = 1 << 28
MAX_PLANES = 1 << 24
ORDERS = {"XYCZT", "XYCTZ", "XYZCT", "XYZTC", "XYTCZ", "XYTZC"}
MICROMETER, SECOND = "µm", "s"


@dataclass(frozen=True)
class Block:
    """Planes that stand in consecutive IFDs of one file (one `TiffData`)."""

    first: tuple[int, ...]
    """Index of the first plane along each leading axis."""

    ifd: int
    count: int | None
    """None: as many as the file has."""

    file: str | None
    """The file's name; None for the file that holds the XML."""


@dataclass(frozen=True)
class OmeImage:
    """One `Image` with its `Pixels`."""

    name: str
    lead: str
    """Letters of the leading axes, slowest first."""

    sizes: tuple[int, ...]
    samples: int
    blocks: tuple[Block, ...]
    channels: tuple[Channel, ...]
    axes: Mapping[str, Axis]


def parse_ome(text: str) -> list[OmeImage]:
    """Return the images of an OME-XML document that have planes in TIFF files."""
    if len(text) > MAX_BYTES:
        raise UnsupportedError(f"OME-XML of {len(text)} characters, at most {MAX_BYTES} are read", field=FIELD)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise MalformedError("OME-XML with a document type, which may hide anything", field=FIELD)
    try:
        root = ET.fromstring(text.strip("\0 \r\n\t"))  # noqa: S314  without a document type there is nothing to expand
    except (ET.ParseError, ValueError) as error:
        raise MalformedError(f"OME-XML that is no XML: {error}", field=FIELD) from error
    found = []
    for image in _children(root, "Image"):
        for pixels in _children(image, "Pixels"):
            one = _image(root, image, pixels)
            if one.blocks:
                found.append(one)
    return found


def _children(element: ET.Element, tag: str) -> Iterator[ET.Element]:
    """Yield the children of a name, whatever the schema's namespace."""
    return (child for child in element if child.tag.rpartition("}")[2] == tag)


def _image(root: ET.Element, image: ET.Element, pixels: ET.Element) -> OmeImage:
    order = pixels.get("DimensionOrder", "")
    if order not in ORDERS:
        raise MalformedError(f"DimensionOrder {order!r}", field=FIELD)
    channels = list(_children(pixels, "Channel"))
    samples = {_integer(channel, "SamplesPerPixel", 1) for channel in channels} or {1}
    if len(samples) > 1 or min(samples) < 1:
        raise UnsupportedError(f"channels of {sorted(samples)} samples a pixel in one image", field=FIELD)
    lead, each = order[:1:-1], samples.pop()
    sizes = tuple(_integer(pixels, f"Size{axis}", 0) // (each if axis == "C" else 1) for axis in lead)
    if min(sizes) < 1 or prod(sizes) > MAX_PLANES:
        raise MalformedError(f"{sizes} planes along {lead}; from 1 to {MAX_PLANES} are possible", field=FIELD)
    return OmeImage(
        name=image.get("Name") or "",
        lead=lead,
        sizes=sizes,
        samples=each,
        blocks=tuple(_block(root, data, lead) for data in _children(pixels, "TiffData")),
        channels=_channels(channels),
        axes=_axes(pixels),
    )


def _integer(element: ET.Element, name: str, default: int) -> int:
    text = element.get(name)
    try:
        value = default if text is None else int(text)
    except ValueError:
        raise MalformedError(f"{name} {text!r} is no number", field=FIELD) from None
    if not 0 <= value < 1 << 31:
        raise MalformedError(f"{name} {value}", field=FIELD)
    return value


def _block(root: ET.Element, data: ET.Element, lead: str) -> Block:
    first = tuple(_integer(data, f"First{axis}", 0) for axis in lead)
    single = 1 if data.get("IFD") is not None else None
    name = "PlaneCount" if data.get("PlaneCount") is not None else "NumPlanes"
    count = single if data.get(name) is None else _integer(data, name, 0)
    return Block(first, _integer(data, "IFD", 0), count, _file(root, data))


def _file(root: ET.Element, data: ET.Element) -> str | None:
    """Return the file that a block is in, None where it is this one."""
    for uuid in _children(data, "UUID"):
        own = (root.get("UUID") or "").strip().lower()
        if own and (uuid.text or "").strip().lower() == own:
            return None
        name = uuid.get("FileName")
        if not name:
            raise UnsupportedError(f"planes in a file known as {uuid.text!r} alone; a FileName would do", field=FIELD)
        if "/" in name or "\\" in name or name in {".", ".."}:
            raise UnsupportedError(
                f"planes in {name!r}: only files of the same directory are opened", field="UUID FileName"
            )
        return name
    return None


def _channels(elements: list[ET.Element]) -> tuple[Channel, ...]:
    """Return the channels; nothing where none has a name or a colour."""
    if not any(element.get("Name") or element.get("Color") for element in elements):
        return ()
    return tuple(
        Channel(element.get("Name") or element.get("ID") or f"channel_{number}", _colour(element.get("Color")))
        for number, element in enumerate(elements)
    )


def _colour(text: str | None) -> str | None:
    """Return RRGGBB of a colour that is the signed 32-bit number RRGGBBAA."""
    try:
        number = None if text is None else int(text)
    except ValueError:
        return None
    return None if number is None else f"{(number >> 8) & 0xFFFFFF:06X}"


def _axes(pixels: ET.Element) -> dict[str, Axis]:
    """Return the distances that are known, with their units."""
    names = {axis.lower(): (f"PhysicalSize{axis}", f"PhysicalSize{axis}Unit", MICROMETER) for axis in "XYZ"}
    names["t"] = ("TimeIncrement", "TimeIncrementUnit", SECOND)
    found = {}
    for axis, (size, unit, default) in names.items():
        step = _positive(pixels.get(size))
        if step is not None:
            found[axis] = Axis(axis, step, pixels.get(unit, default))
    return found


def _positive(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if isfinite(number) and number > 0 else None


MOST_KINDS = 1 << 12
DOCUMENT = "ome_xml"
"""The attribute that holds the XML as it is, where whole documents are asked for."""

DESCRIPTION = TEXTS[Tag.ImageDescription]
MAX_MISSING = 1 << 24
"""Chunks of planes that no file holds: more are no acquisition that was cut short."""

type Parts = list[tuple[Pages, Numbers]]
"""The pages of each file, and which of them every plane is."""


@dataclass
class Files:
    """The files of a series by name, each opened once."""

    layout: TiffLayout
    url: str
    neighbours: Neighbours
    opened: dict[str | None, Pages] = field(default_factory=dict)

    def pages(self, name: str | None) -> Pages:
        """Return the pages of a file of the same directory; None is the file itself."""
        if name is not None and name == _name_of(self.url):
            name = None
        if name not in self.opened:
            self.opened[name] = self._open(name)
        return self.opened[name]

    def _open(self, name: str | None) -> Pages:
        if name is None:
            return Pages(self.layout, self.url, self.layout.main, kinds=MOST_KINDS)
        url = _beside(self.url, name)
        read = self.neighbours.open(url)
        if read is None:
            raise UnsupportedError(f"planes are in {name!r}, which is not beside it", url=self.url, field=FIELD)
        layout = TiffLayout(read, read.size)
        return Pages(layout, read.source.url, layout.main, kinds=MOST_KINDS)


def _name_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def _beside(url: str, name: str) -> str:
    path, question, query = url.partition("?") if url.lower().startswith("http") else (url, "", "")
    folder, slash, _ = path.rpartition("/")
    return f"{folder}{slash}{name}{question}{query}"


def ome_group(layout: TiffLayout, url: str, neighbours: Neighbours, options: ScanOptions) -> VirtualGroup | None:
    """Return the group of an OME-TIFF, None where its XML describes no plane of a TIFF."""
    files = Files(layout, url, neighbours)
    text = bounded_text(layout, layout.ifd(layout.first), Tag.ImageDescription) or ""
    series: list[Series] = []
    refused: list[dict[str, str]] = []
    for number, image in enumerate(parse_ome(text)):
        try:
            series.append(_series(files, image, options))
        except UnsupportedError as error:
            if number == 0:
                raise
            refused.append(refusal(image.name or f"series_{number}", error))
    if not series:
        return None
    whole = file_group(series, refused)
    return VirtualGroup(whole.children, {**whole.attributes, DOCUMENT: text}) if options.embedded else whole


def _series(files: Files, image: OmeImage, options: ScanOptions) -> Series:
    parts = _parts(files, image)
    full = _level(image, parts, None)
    below = [_level(image, lower, full.key.image) for lower in _below(parts)] if options.overviews else []
    meaning = meaning_of(parts[0][0].layout, full.key.image, replace(options, expand_palette=False, embedded=False))
    meaning.group.pop(DESCRIPTION, None)
    return Series(image.name, check_levels([full, *below]), image.axes, image.channels, meaning=meaning)


def _parts(files: Files, image: OmeImage) -> Parts:
    """Return for every file which of its pages each plane is, -1 for a plane that it does not hold."""
    total = prod(image.sizes)
    found: dict[str, tuple[Pages, Numbers]] = {}
    for block in image.blocks:
        pages, start = files.pages(block.file), _start(image, block)
        count = _count(block, pages, total - start)
        for _, other in found.values():
            other[start : start + count] = -1
        _, numbers = found.setdefault(pages.url, (pages, np.full(total, -1, np.intp)))
        numbers[start : start + count] = np.arange(block.ifd, block.ifd + count)
    held = [(pages, numbers) for pages, numbers in found.values() if (numbers >= 0).any()]
    if not held:
        raise MalformedError(f"no plane of image {image.name!r} is there", field=FIELD)
    return held


def _start(image: OmeImage, block: Block) -> int:
    """Return a block's first plane in C order of the leading axes."""
    if any(first >= size for first, size in zip(block.first, image.sizes, strict=True)):
        raise MalformedError(f"planes at {block.first} of {image.sizes} along {image.lead}", field=FIELD)
    return int(np.ravel_multi_index(block.first, image.sizes))


def _count(block: Block, pages: Pages, room: int) -> int:
    """Return how many planes of a block there are; an acquisition that was cut short has fewer than its XML says."""
    wanted = min(len(pages) if block.count is None else block.count, room)
    there = max(min(wanted, len(pages) - block.ifd), 0)
    if there < wanted and block.count is not None:
        warnings.warn(
            f"OME-XML wants IFDs {block.ifd} to {block.ifd + wanted - 1} of {pages.url}, which has {len(pages)}: "
            "the others are missing",
            stacklevel=2,
        )
    return there


def _level(image: OmeImage, parts: Parts, main: TiffImage | None) -> Level:
    """Return one level of an image, from the pages of all its files."""
    found = [_gathered(image, pages, numbers[numbers >= 0], main) for pages, numbers in parts]
    first, planes = found[0][0], prod(image.sizes)
    there = sum(int((numbers >= 0).sum()) for _, numbers in parts)
    if (planes - there) * first.image.segments > MAX_MISSING:
        raise MalformedError(f"image {image.name!r} of {planes} planes, of which {there} are there", field=FIELD)
    offsets, lengths = np.zeros((2, planes, first.image.segments), np.int64)
    source = np.zeros(planes, np.int32)
    for place, ((pages, numbers), (key, starts, sizes)) in enumerate(zip(parts, found, strict=True)):
        differs = first.difference(key)
        if differs is not None:
            raise _differing(image, f"{pages.url} has {differs}")
        held = numbers >= 0
        offsets[held], lengths[held], source[held] = starts, sizes, place
    lead = tuple((NAMES[axis], size) for axis, size in zip(image.lead, image.sizes, strict=True))
    return Level(first, lead, tuple(pages.url for pages, _ in parts), source, offsets, lengths)


def _gathered(image: OmeImage, pages: Pages, numbers: Numbers, main: TiffImage | None) -> Gathered:
    found = pages.gathered(numbers, main)
    if isinstance(found, str):
        raise _differing(image, found)
    return found


def _differing(image: OmeImage, what: str) -> UnsupportedError:
    return UnsupportedError(f"image {image.name!r} is of pages that differ: {what}", field="IFD")


def _below(parts: Parts) -> Iterator[Parts]:
    """Yield the pages of every smaller version, one level after the other; nothing where planes have not as many."""
    columns = [pages.sub_ifds(numbers[numbers >= 0]) for pages, numbers in parts]
    depths = {0 if column is None else column.shape[1] for column in columns}
    for depth in range(depths.pop() if len(depths) == 1 else 0):
        yield [
            _lower(pages, numbers, column[:, depth])
            for (pages, numbers), column in zip(parts, columns, strict=True)
            if column is not None
        ]


def _lower(pages: Pages, numbers: Numbers, offsets: NDArray[np.int64]) -> tuple[Pages, Numbers]:
    """Return the pages at SubIFDs, and which of them each plane is."""
    below = np.full_like(numbers, -1)
    below[numbers >= 0] = np.arange(len(offsets))
    return Pages(pages.layout, pages.url, offsets.tolist(), kinds=MOST_KINDS), below
