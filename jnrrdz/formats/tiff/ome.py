"""OME-TIFF: planes gathered from the IFDs, and the files, that the OME-XML names.

A plane that no block of the XML covers is missing; a file that it names and that is not there is an
error, because its planes are not known to be absent.
Spec: https://docs.openmicroscopy.org/ome-model/6.3.1/ome-tiff/specification.html
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from xml.etree import ElementTree as ET

import numpy as np

from jnrrdz.core.arrays import VirtualGroup
from jnrrdz.core.ome import Axis, Channel
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.tiff.gdal_metadata import finite_number
from jnrrdz.formats.tiff.metadata import TEXTS, bounded, meaning_of
from jnrrdz.formats.tiff.pages import NAMES, Level, Numbers, Pages, check_levels
from jnrrdz.formats.tiff.stack import Series, file_group, refusal
from jnrrdz.formats.tiff.structure import TiffImage, TiffLayout
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
    images = [
        _image(root, image, pixels) for image in _children(root, "Image") for pixels in _children(image, "Pixels")
    ]
    return [image for image in images if image.blocks]


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
    blocks = []
    for data in _children(pixels, "TiffData"):
        first = tuple(_integer(data, f"First{axis}", 0) for axis in lead)
        name = "NumPlanes" if data.get("PlaneCount") is None else "PlaneCount"
        single = None if data.get("IFD") is None else 1
        count = single if data.get(name) is None else _integer(data, name, 0)
        blocks.append(Block(first, _integer(data, "IFD", 0), count, _file(root, data)))
    return OmeImage(
        name=image.get("Name") or "",
        lead=lead,
        sizes=sizes,
        samples=each,
        blocks=tuple(blocks),
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
    channels = []
    for number, element in enumerate(elements):
        try:
            # the signed 32-bit number RRGGBBAA
            colour = f"{(int(element.get('Color', '')) >> 8) & 0xFFFFFF:06X}"
        except ValueError:
            colour = None
        channels.append(Channel(element.get("Name") or element.get("ID") or f"channel_{number}", colour))
    return tuple(channels)


def _axes(pixels: ET.Element) -> dict[str, Axis]:
    """Return the distances that are known, with their units."""
    names = {axis.lower(): (f"PhysicalSize{axis}", f"PhysicalSize{axis}Unit", MICROMETER) for axis in "XYZ"}
    names["t"] = ("TimeIncrement", "TimeIncrementUnit", SECOND)
    axes = {}
    for axis, (size, unit, default) in names.items():
        step = finite_number(pixels.get(size))
        if step is not None and step > 0:
            axes[axis] = Axis(axis, step, pixels.get(unit, default))
    return axes


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
        is_remote = self.url.lower().startswith("http")
        path, question, query = self.url.partition("?")
        if name == path.rpartition("/")[2]:
            name = None
        if name in self.opened:
            return self.opened[name]
        layout, url = self.layout, self.url
        if name is not None:
            folder, slash, _ = (path if is_remote else self.url).rpartition("/")
            read = self.neighbours.open(f"{folder}{slash}{name}{question + query if is_remote else ''}")
            if read is None:
                raise UnsupportedError(f"planes are in {name!r}, which is not beside it", url=self.url, field=FIELD)
            layout, url = TiffLayout(read, read.size), read.source.url
        self.opened[name] = Pages(layout, url, layout.main, kinds=MOST_KINDS)
        return self.opened[name]


def ome_group(layout: TiffLayout, url: str, neighbours: Neighbours, options: ScanOptions) -> VirtualGroup | None:
    """Return the group of an OME-TIFF, None where its XML describes no plane of a TIFF."""
    files = Files(layout, url, neighbours)
    text = bounded(layout.text, layout.ifd(layout.first), Tag.ImageDescription) or ""
    series: list[Series] = []
    refused: list[dict[str, str]] = []
    for number, image in enumerate(parse_ome(text)):
        try:
            parts = _parts(files, image)
            full = _level(image, parts, None)
            main = full.key.image
            below = [_level(image, lower, main) for lower in _below(parts)] if options.overviews else []
            plain = replace(options, expand_palette=False, embedded=False)
            meaning = meaning_of(parts[0][0].layout, main, plain)
            meaning.group.pop(DESCRIPTION, None)
            levels = check_levels([full, *below])
            series.append(Series(image.name, levels, image.axes, image.channels, meaning=meaning))
        except UnsupportedError as error:
            if number == 0:
                raise
            refused.append(refusal(image.name or f"series_{number}", error))
    if not series:
        return None
    whole = file_group(series, refused)
    return VirtualGroup(whole.children, {**whole.attributes, DOCUMENT: text}) if options.embedded else whole


def _parts(files: Files, image: OmeImage) -> Parts:
    """Return for every file which of its pages each plane is, -1 for a plane that it does not hold."""
    total = prod(image.sizes)
    parts: dict[str, tuple[Pages, Numbers]] = {}
    for block in image.blocks:
        pages = files.pages(block.file)
        if any(first >= size for first, size in zip(block.first, image.sizes, strict=True)):
            raise MalformedError(f"planes at {block.first} of {image.sizes} along {image.lead}", field=FIELD)
        start = int(np.ravel_multi_index(block.first, image.sizes))
        wanted = min(len(pages) if block.count is None else block.count, total - start)
        count = max(min(wanted, len(pages) - block.ifd), 0)
        if count < wanted and block.count is not None:  # an acquisition that was cut short
            warnings.warn(
                f"OME-XML wants IFDs {block.ifd} to {block.ifd + wanted - 1} of {pages.url}, which has {len(pages)}: "
                "the others are missing",
                stacklevel=2,
            )
        for _, other in parts.values():
            other[start : start + count] = -1
        _, numbers = parts.setdefault(pages.url, (pages, np.full(total, -1, np.intp)))
        numbers[start : start + count] = np.arange(block.ifd, block.ifd + count)
    held = [(pages, numbers) for pages, numbers in parts.values() if (numbers >= 0).any()]
    if not held:
        raise MalformedError(f"no plane of image {image.name!r} is there", field=FIELD)
    return held


def _level(image: OmeImage, parts: Parts, main: TiffImage | None) -> Level:
    """Return one level of an image, from the pages of all its files."""

    def refuse(difference: str) -> UnsupportedError:
        return UnsupportedError(f"image {image.name!r} is of pages that differ: {difference}", field="IFD")

    gathered = []
    for pages, numbers in parts:
        shared = pages.gathered(numbers[numbers >= 0], main)
        if isinstance(shared, str):
            raise refuse(shared)
        gathered.append(shared)
    first, planes = gathered[0][0], prod(image.sizes)
    there = sum(int((numbers >= 0).sum()) for _, numbers in parts)
    if (planes - there) * first.image.segments > MAX_MISSING:
        raise MalformedError(f"image {image.name!r} of {planes} planes, of which {there} are there", field=FIELD)
    offsets, lengths = np.zeros((2, planes, first.image.segments), np.int64)
    source = np.zeros(planes, np.int32)
    for place, ((pages, numbers), (key, starts, nbytes)) in enumerate(zip(parts, gathered, strict=True)):
        difference = first.difference(key)
        if difference is not None:
            raise refuse(f"{pages.url} has {difference}")
        held = numbers >= 0
        offsets[held], lengths[held], source[held] = starts, nbytes, place
    lead = tuple((NAMES[axis], size) for axis, size in zip(image.lead, image.sizes, strict=True))
    return Level(first, lead, tuple(pages.url for pages, _ in parts), source, offsets, lengths)


def _below(parts: Parts) -> Iterator[Parts]:
    """Yield the pages of every smaller version, one level after the other; nothing where planes have not as many."""
    columns = [pages.sub_ifds(numbers[numbers >= 0]) for pages, numbers in parts]
    depths = {0 if column is None else column.shape[1] for column in columns}
    for depth in range(depths.pop() if len(depths) == 1 else 0):
        lower: Parts = []
        for (pages, numbers), column in zip(parts, columns, strict=True):
            if column is None:
                continue
            below = np.full_like(numbers, -1)
            below[numbers >= 0] = np.arange(len(column))
            offsets = column[:, depth].tolist()
            lower.append((Pages(pages.layout, pages.url, offsets, kinds=MOST_KINDS), below))
        yield lower
