"""OME-TIFF: planes gathered from the IFDs, and the files, that the OME-XML names.

A plane that no block of the XML covers is missing; a file that it names and that is not there is an
error, because its planes are not known to be absent.
Modulo annotations make axes of their own of what stands in Z, C or T in turns.
Spec: https://docs.openmicroscopy.org/ome-model/6.3.1/ome-tiff/specification.html,
https://ome-model.readthedocs.io/en/stable/developers/6d-7d-and-8d-storage.html
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite, prod
from xml.etree import ElementTree as ET

import numpy as np

from jnrrdz.core.limits import LIMITS, OME_XML_BYTES, PLANES, XML_BYTES, Resource
from jnrrdz.core.ome import Axis, Channel
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.tiff.gdal_metadata import finite_number
from jnrrdz.formats.tiff.image import TiffImage
from jnrrdz.formats.tiff.metadata import TEXTS, Meaning, bounded, iso_time, meaning_of
from jnrrdz.formats.tiff.pages import Numbers, Pages
from jnrrdz.formats.tiff.series import NAMES, Level, Series, axis_names, check_levels, file_group, refusal
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Tag
from jnrrdz.options import ScanOptions
from jnrrdz.records import record
from jnrrdz.redact import hidden
from jnrrdz.sources.readahead import ReadAhead

FIELD = "ImageDescription"
ORDERS = {"XYCZT", "XYCTZ", "XYZCT", "XYZTC", "XYTCZ", "XYTZC"}
MICROMETER, SECOND = "µm", "s"
MODULO = "openmicroscopy.org/omero/dimension/modulo"
"""The namespace of annotations that divide axes."""

ALONG = "ModuloAlong"
MODULO_TYPES = {NAMES[letter]: letter for letter in "APRHEV"}
"""The letters of the types of Modulo axes; any other type is `other`."""

RANGE = {"Start": "0", "Step": "1", "End": None}
"""The attributes of a Modulo axis that has numbers, and what they are by default."""


@record
class Block:
    """Planes that stand in consecutive IFDs of one file (one `TiffData`)."""

    first: tuple[int, ...]
    """Index of the first plane along each leading axis."""

    ifd: int
    count: int | None
    """None: as many as the file has."""

    file: str | None
    """The file's name; None for the file that holds the XML."""

    is_named: bool = True
    """Whether the XML says which file it is."""


@record
class Modulo:
    """The axis inside of Z, C or T, of which it is the faster part (one `ModuloAlong`)."""

    letter: str
    size: int
    axis: Axis


@record
class OmeImage:
    """One `Image` with its `Pixels`."""

    name: str
    lead: str
    """Letters of the leading axes, slowest first."""

    sizes: tuple[int, ...]
    parts: tuple[tuple[str, int], ...]
    """Name and size of each leading axis once Modulo annotations have divided those of `lead`."""

    samples: int
    blocks: tuple[Block, ...]
    channels: tuple[Channel, ...]
    axes: Mapping[str, Axis]
    significant_bits: int | None = None
    acquired: str | None = None
    """When it was taken, in ISO 8601."""


@record
class OmeDocument:
    """One OME-XML document."""

    text: str
    uuid: str
    """Of the TIFF that the document is in."""

    images: tuple[OmeImage, ...]
    """Those that have planes in TIFF files."""

    companions: tuple[str, ...] = ()
    """The files that have the metadata, where the document is a `BinaryOnly`."""


def parse_ome(text: str, companion_of: str | None = None) -> OmeDocument:
    """Return an OME-XML document; `companion_of` is the UUID of the TIFF whose companion file it is."""
    root = _root(text)
    uuid = root.get("UUID") or ""
    if companion_of is not None:
        uuid = companion_of
    moduli = _moduli(root)
    images = [
        _image(uuid, image, pixels, moduli)
        for image in _children(root, "Image")
        for pixels in _children(image, "Pixels")
    ]
    companions = tuple(element.get("MetadataFile") or "" for element in _children(root, "BinaryOnly"))
    return OmeDocument(text, uuid, tuple(image for image in images if image.blocks), companions)


def _check_companion(images: tuple[OmeImage, ...]) -> None:
    """Refuse a companion file that does not say in which files the planes are."""
    if not images:
        raise UnsupportedError("it describes no plane of a TIFF", field="MetadataFile")
    if not all(block.is_named for image in images for block in image.blocks):
        raise UnsupportedError("TiffData without UUID: the file of its planes is not known", field="TiffData")


def _root(text: str) -> ET.Element:
    if len(text) > OME_XML_BYTES:
        raise UnsupportedError(f"OME-XML of {len(text)} characters, at most {OME_XML_BYTES} are read", field=FIELD)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise MalformedError("OME-XML with a document type, which may hide anything", field=FIELD)
    try:
        # without a document type there is nothing to expand
        return ET.fromstring(text.strip("\0 \r\n\t\ufeff"))  # noqa: S314
    except (ET.ParseError, ValueError) as error:
        raise MalformedError(f"OME-XML that is no XML: {error}", field=FIELD) from error


def _children(element: ET.Element, tag: str) -> Iterator[ET.Element]:
    """Yield the children of a name, whatever the schema's namespace."""
    return (child for child in element if child.tag.rpartition("}")[2] == tag)


def _moduli(root: ET.Element) -> dict[str, dict[str, Modulo]]:
    """Return by the annotation's ID what divides each axis."""
    return {
        annotation.get("ID", ""): {
            along.tag[-1]: modulo
            for value in _children(annotation, "Value")
            for holder in _children(value, "Modulo")
            for axis in "ZCT"
            for along in _children(holder, ALONG + axis)
            for modulo in [_modulo(along)]
            if modulo is not None
        }
        for annotations in _children(root, "StructuredAnnotations")
        for annotation in _children(annotations, "XMLAnnotation")
        if annotation.get("Namespace", "") == MODULO
    }


def _modulo(along: ET.Element) -> Modulo | None:
    """Return the axis that an element describes by labels or by numbers, None where it does neither."""
    letter = MODULO_TYPES.get(along.get("Type", "").strip().lower(), "Q")
    unit = along.get("Unit") or None
    labels = tuple((label.text or "").strip() for label in _children(along, "Label"))
    if labels:
        return Modulo(letter, len(labels), Axis(NAMES[letter], unit=unit, labels=labels))
    start, step, end = (finite_number(along.get(name, default)) for name, default in RANGE.items())
    if start is None or step is None or end is None or step <= 0:
        return None
    count = (end - start) / step  # the nearest whole number, as Bio-Formats has it: steps are often rounded
    if not isfinite(count) or count < 0:
        return None
    return Modulo(letter, round(count) + 1, Axis(NAMES[letter], step, unit, start))


def _image(own: str, image: ET.Element, pixels: ET.Element, annotated: Mapping[str, Mapping[str, Modulo]]) -> OmeImage:
    order = pixels.get("DimensionOrder", "")
    if order not in ORDERS:
        raise MalformedError(f"DimensionOrder {order!r}", field=FIELD)
    channels = list(_children(pixels, "Channel"))
    samples = {_integer(channel, "SamplesPerPixel", 1) for channel in channels} or {1}
    if len(samples) > 1 or min(samples) < 1:
        raise UnsupportedError(f"channels of {sorted(samples)} samples a pixel in one image", field=FIELD)
    lead, each = order[:1:-1], samples.pop()
    sizes = tuple(_integer(pixels, f"Size{axis}", 0) // (each if axis == "C" else 1) for axis in lead)
    if min(sizes) < 1 or prod(sizes) > PLANES:
        raise MalformedError(f"{sizes} planes along {lead}; from 1 to {PLANES} are possible", field=FIELD)
    blocks = []
    for data in _children(pixels, "TiffData"):
        first = tuple(_integer(data, f"First{axis}", 0) for axis in lead)
        name = "NumPlanes" if data.get("PlaneCount") is None else "PlaneCount"
        single = None if data.get("IFD") is None else 1
        count = single if data.get(name) is None else _integer(data, name, 0)
        is_named = next(_children(data, "UUID"), None) is not None
        blocks.append(Block(first, _integer(data, "IFD", 0), count, _file(own, data), is_named))
    references = [*_children(image, "AnnotationRef"), *_children(pixels, "AnnotationRef")]
    moduli: dict[str, Modulo] = {}
    for reference in references:
        moduli |= annotated.get(reference.get("ID", ""), {})
    parts, axes = _divided(lead, sizes, moduli)
    bits = _integer(pixels, "SignificantBits", 0)
    return OmeImage(
        name=image.get("Name") or "",
        lead=lead,
        sizes=sizes,
        parts=parts,
        samples=each,
        blocks=tuple(blocks),
        channels=_of_runs(_channels(channels), dict(zip(lead, sizes, strict=True))["C"], dict(parts)["c"]),
        axes={**_axes(pixels), **axes},
        significant_bits=bits or None,
        acquired=next((iso_time(date.text or "") for date in _children(image, "AcquisitionDate")), None),
    )


def _divided(
    lead: str, sizes: tuple[int, ...], moduli: Mapping[str, Modulo]
) -> tuple[tuple[tuple[str, int], ...], dict[str, Axis]]:
    """Return names and sizes of all leading axes, each divided one before what it is divided by, and what is known."""
    found: list[tuple[str, int, Axis | None]] = []
    for letter, size in zip(lead, sizes, strict=True):
        modulo = moduli.get(letter)
        if modulo is None or size % modulo.size:
            found.append((letter, size, None))
        else:
            found += [(letter, size // modulo.size, None), (modulo.letter, modulo.size, modulo.axis)]
        if modulo is not None and size % modulo.size:
            text = f"OME-XML: {modulo.size} along {modulo.axis.name} do not divide Size{letter}={size}: it stays whole"
            warnings.warn(text, stacklevel=2)
    names = axis_names([letter for letter, _, _ in found])
    parts = tuple((name, size) for name, (_, size, _) in zip(names, found, strict=True))
    return parts, {name: replace(axis, name=name) for name, (_, _, axis) in zip(names, found, strict=True) if axis}


def _of_runs(channels: tuple[Channel, ...], planes: int, count: int) -> tuple[Channel, ...]:
    """Return the channels of an axis `c` from which a Modulo axis was taken; none where one has several names."""
    run = planes // count
    first = channels[::run]
    same = all(channel == first[number // run] for number, channel in enumerate(channels))
    return channels if run == 1 else first if same else ()


def _integer(element: ET.Element, name: str, default: int) -> int:
    text = element.get(name)
    try:
        value = default if text is None else int(text)
    except ValueError:
        raise MalformedError(f"{name} {text!r} is no number", field=FIELD) from None
    if not 0 <= value < 1 << 31:
        raise MalformedError(f"{name} {value}", field=FIELD)
    return value


def _file(own: str, data: ET.Element) -> str | None:
    """Return the file that a block is in, None where it is the one with the UUID `own`."""
    own = own.strip().lower()
    for uuid in _children(data, "UUID"):
        if own and (uuid.text or "").strip().lower() == own:
            return None
        name = uuid.get("FileName")
        if not name:
            raise UnsupportedError(f"planes in a file known as {uuid.text!r} alone; a FileName would do", field=FIELD)
        if not _is_file_name(name):
            raise UnsupportedError(
                f"planes in {name!r}: only files of the same directory are opened", field="UUID FileName"
            )
        return name
    return None


def _is_file_name(name: str) -> bool:
    """Whether a name is that of a file of the same directory."""
    return not (set("/\\") & set(name) or name in {"", ".", ".."})


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


DOCUMENT = "ome_xml"
"""The attribute that holds the XML as it is, where whole documents are asked for."""

DESCRIPTION = TEXTS[Tag.ImageDescription]
type Parts = list[tuple[Pages, Numbers, Numbers]]
"""The pages of each file, which planes it holds, and which of the pages each of these is."""


@dataclass
class Files:
    """The files of a series by name, each opened once."""

    layout: TiffLayout
    url: str
    neighbours: Neighbours
    opened: dict[str | None, Pages] = field(default_factory=dict)
    meanings: dict[tuple[str, int], Meaning] = field(default_factory=dict)
    nbytes: int = 0
    """The sizes of the files that are open."""

    missing: int = 0
    """Chunks of all images that no file holds."""

    present: int = 0
    """Chunks of all images that files hold."""

    def pages(self, name: str | None) -> Pages:
        """Return the pages of a file of the same directory; None is the file itself."""
        if name == self.url.partition("?")[0].rpartition("/")[2]:
            name = None
        if name in self.opened:
            return self.opened[name]
        layout, url = self.layout, self.url
        if name is not None:
            read = self.neighbour(name)
            if read is None:
                raise UnsupportedError(f"planes are in {name!r}, which is not beside it", url=self.url, field=FIELD)
            layout, url = TiffLayout(read, read.size), read.source.url
        self.opened[name] = Pages(layout, url, layout.main)
        self.nbytes += layout.size
        return self.opened[name]

    def neighbour(self, name: str) -> ReadAhead | None:
        """Return a reader of a file of the same directory, None where it is not there."""
        is_remote = self.url.lower().startswith("http")
        path, question, query = self.url.partition("?") if is_remote else (self.url, "", "")
        folder, slash, _ = path.rpartition("/")
        return self.neighbours.open(f"{folder}{slash}{name}{question}{query}")

    def meaning(self, pages: Pages, image: TiffImage, options: ScanOptions) -> Meaning:
        """Return what the tags of a page say but its description, which is the XML; images may share a page."""
        place = pages.url, image.ifd.offset
        if place not in self.meanings:
            plain = replace(options, expand_palette=False, embedded=False)
            self.meanings[place] = meaning_of(pages.layout, image, plain)
            self.meanings[place].group.pop(DESCRIPTION, None)
        return self.meanings[place]

    def count(self, segments: int, planes: int, there: int) -> None:
        """Count the chunks of one level; refuse more than files of this size are for."""
        self.missing += (planes - there) * segments
        self.present += there * segments
        most = LIMITS[Resource.MISSING_CHUNKS].of_size(self.nbytes)
        if self.missing > most:
            text = f"planes of {self.missing} chunks or more are missing; {most} may be"
            raise MalformedError(text, url=self.url, field=FIELD)
        if self.present > LIMITS[Resource.CHUNKS].of_size(
            self.nbytes
        ):  # an IFD has at least a byte for each of its chunks
            text = f"images of {self.present} chunks or more in files of {self.nbytes} bytes: they share planes"
            raise MalformedError(text, url=self.url, field=FIELD)


def ome_group(layout: TiffLayout, url: str, neighbours: Neighbours, options: ScanOptions) -> VirtualGroup | None:
    """Return the group of an OME-TIFF, None where its XML describes no plane of a TIFF."""
    files = Files(layout, url, neighbours)
    text = bounded(layout.text, layout.ifd(layout.first), Tag.ImageDescription) or ""
    document = parse_ome(text)
    for name in document.companions:
        document = _companion(files, name, document.uuid)
    series: list[Series] = []
    refused: list[dict[str, str]] = []
    for number, image in enumerate(document.images):
        try:
            parts = _parts(files, image)
            full = _level(files, image, parts, None)
            main = full.key.image
            below = [_level(files, image, lower, main) for lower in _below(parts)] if options.overviews else []
            meaning = files.meaning(parts[0][0], main, options)
            if image.acquired is not None:
                meaning = replace(meaning, group={**meaning.group, "datetime": image.acquired})
            series.append(
                Series(
                    image.name,
                    check_levels([full, *below]),
                    image.axes,
                    image.channels,
                    meaning=meaning,
                    significant_bits=image.significant_bits,
                )
            )
        except UnsupportedError as error:
            if number == 0:
                raise
            refused.append(refusal(image.name or f"series_{number}", error))
    if not series:
        return None
    whole = file_group(series, refused)
    return VirtualGroup(whole.children, {**whole.attributes, DOCUMENT: document.text}) if options.embedded else whole


def _companion(files: Files, name: str, uuid: str) -> OmeDocument:
    """Return the document of a companion file; an empty one, with a warning, where it cannot be read."""
    try:
        document = parse_ome(_companion_text(files, name), companion_of=uuid)
        _check_companion(document.images)
    except (MalformedError, UnsupportedError) as error:
        reason = f"its OME-XML is in {name!r}: {error.message}; pages are read without it"
        warnings.warn(reason, stacklevel=2)
        return OmeDocument("", uuid, ())
    return document


def _companion_text(files: Files, name: str) -> str:
    if not _is_file_name(name):
        raise UnsupportedError("only files of the same directory are opened", field="MetadataFile")
    read = files.neighbour(name)
    if read is None:
        raise UnsupportedError("it is not beside the file", field="MetadataFile")
    if read.size > XML_BYTES:
        raise UnsupportedError(f"{read.size} bytes, no more than {XML_BYTES} are read", field="MetadataFile")
    try:
        return read(0, read.size).decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"no UTF-8: {error.reason}", field="MetadataFile") from error


def _parts(files: Files, image: OmeImage) -> Parts:
    """Return what each file holds of an image; the last of the blocks that name a plane counts."""
    total, named = prod(image.sizes), 0
    opened: dict[str, int] = {}
    held: list[Pages] = []
    file, page = np.full(total, -1, np.int32), np.zeros(total, np.intp)
    for block in image.blocks:
        pages = files.pages(block.file)
        if any(first >= size for first, size in zip(block.first, image.sizes, strict=True)):
            raise MalformedError(f"planes at {block.first} of {image.sizes} along {image.lead}", field=FIELD)
        start = int(np.ravel_multi_index(block.first, image.sizes))
        wanted = min(len(pages) if block.count is None else block.count, total - start)
        count = max(min(wanted, len(pages) - block.ifd), 0)
        if count < wanted and block.count is not None:  # an acquisition that was cut short
            warnings.warn(
                f"OME-XML wants IFDs {block.ifd} to {block.ifd + wanted - 1} of {hidden(pages.url)}, which has "
                f"{len(pages)}: the others are missing",
                stacklevel=2,
            )
        named += count
        if named > PLANES:
            raise MalformedError(f"TiffData of image {image.name!r} name more than {PLANES} planes", field=FIELD)
        number = opened.setdefault(pages.url, len(held))
        if number == len(held):
            held.append(pages)
        file[start : start + count] = number
        page[start : start + count] = np.arange(block.ifd, block.ifd + count)
    planes = np.flatnonzero(file >= 0)
    if not len(planes):
        raise MalformedError(f"no plane of image {image.name!r} is there", field=FIELD)
    planes = planes[np.argsort(file[planes], kind="stable")]
    starts = np.flatnonzero(np.diff(file[planes], prepend=-1))
    return [(held[file[own[0]]], own, page[own]) for own in np.split(planes, starts[1:])]


def _level(files: Files, image: OmeImage, parts: Parts, main: TiffImage | None) -> Level:
    """Return one level of an image, from the pages of all its files."""

    def refuse(difference: str) -> UnsupportedError:
        return UnsupportedError(f"image {image.name!r} is of pages that differ: {difference}", field="IFD")

    gathered = []
    for pages, _, numbers in parts:
        shared = pages.gathered(numbers, main)
        if isinstance(shared, str):
            raise refuse(shared)
        gathered.append(shared)
    first, planes = gathered[0][0], prod(image.sizes)
    files.count(first.image.segments, planes, sum(len(own) for _, own, _ in parts))
    offsets, lengths = np.zeros((2, planes, first.image.segments), np.int64)
    source = np.zeros(planes, np.int32)
    for place, ((pages, own, _), (key, starts, nbytes)) in enumerate(zip(parts, gathered, strict=True)):
        difference = first.difference(key)
        if difference is not None:
            raise refuse(f"{pages.url} has {difference}")
        offsets[own], lengths[own], source[own] = starts, nbytes, place
    return Level(first, image.parts, tuple(pages.url for pages, _, _ in parts), source, offsets, lengths)


def _below(parts: Parts) -> Iterator[Parts]:
    """Yield the pages of every smaller version, one level after the other; nothing where planes have not as many."""
    columns = [pages.sub_ifds(numbers) for pages, _, numbers in parts]
    depths = {0 if column is None else column.shape[1] for column in columns}
    for depth in range(depths.pop() if len(depths) == 1 else 0):
        lower: Parts = []
        for (pages, own, _), column in zip(parts, columns, strict=True):
            if column is None:
                continue
            offsets = column[:, depth].tolist()
            lower.append((Pages(pages.layout, pages.url, offsets), own, np.arange(len(own))))
        yield lower
