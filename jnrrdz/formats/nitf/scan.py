"""A NITF's image segments to virtual groups: a group each, and what the file says beside its pixels.

Headers, extensions and other segments become attributes, every field under its own name.  They never cost the
pixels: what cannot be read is named in the attribute `metadata_refused` and in a warning.

Smaller versions of an image may stand in files of their own beside it: R-sets, named with `.r1`, `.r2` and
so on in place of `.r0`, or behind the whole name where it has no `.r0`.  They are looked for beside a local
source, and beside a remote one where that is asked for: each look is a request.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1), MIL-STD-2500A (NITF 2.0),
https://gdal.org/en/stable/drivers/raster/nitf.html (R-sets)
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.georeference import Georeference, Rpc, level_affine
from jnrrdz.core.pyramid import raster_pyramid
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, NoImageError, UnsupportedError
from jnrrdz.formats.jpeg2000.codestream import find_codestream
from jnrrdz.formats.jpeg2000.scan import (
    COMPOSITE,
    VARIABLE,
    components_name,
    composite_array,
    composite_grids,
    level_arrays,
    read_codestream,
)
from jnrrdz.formats.neighbours import Neighbours, beside
from jnrrdz.formats.nitf.arrays import (
    CODESTREAMS,
    Presentation,
    join_images,
    joined_array,
    read_mask,
    segment_array,
    whole_image,
)
from jnrrdz.formats.nitf.blocks import check_place
from jnrrdz.formats.nitf.georeference import PlaceSources, chip_rpc, find_georeference, parse_rpc
from jnrrdz.formats.nitf.header import (
    NITF20,
    NITF21,
    Extension,
    NitfLayout,
    ReadRange,
    Segment,
    header_cursor,
    parse_extension,
    parse_nitf,
)
from jnrrdz.formats.nitf.image import Mask, NitfImage, colour_attributes, pad_value, parse_colours, parse_image
from jnrrdz.formats.nitf.tre import Tre, base64_text, describe_tre, split_tres
from jnrrdz.formats.rpc_files import RPC_TXT, find_rpc
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.url import local_path

XML = "XML_DATA_CONTENT"
SICD_20 = {"SICD_XML", "SIDD_XML"}
"""Names that the first versions of SICD and SIDD gave to their XML's segment."""

MAX_XML = 8 << 20
MAX_TEXT = 1 << 16
HIDDEN = {"UDHDL", "UDHOFL", "XHDL", "XHDLOFL", "UDIDL", "UDOFL", "IXSHDL", "IXSOFL", "NICOM", "NBANDS", "XBANDS"}
"""Lengths and counts, of use only to who reads the bytes."""

VERSIONS = (NITF20, NITF21)
SECURITY = {f"{prefix}SDEVT" for prefix in "FI"} | {
    f"{prefix}{field.name}" for version in VERSIONS for field in version.security for prefix in "FI"
}
_LENGTHS = {name for version in VERSIONS for group in version.segments for name, _ in (group.subheader, group.data)}
_LENGTH = re.compile(rf"({'|'.join(_LENGTHS)})[0-9]{{3}}")
"""The names of segments' lengths in the file header."""


@dataclass
class Notes:
    """What could not be understood, each thing once."""

    refused: dict[str, None] = field(default_factory=dict)

    def add(self, reasons: Iterable[str]) -> None:
        """Note reasons, and warn of them."""
        for reason in reasons:
            if reason not in self.refused:
                warnings.warn(f"metadata are left out: {reason}", stacklevel=4)
                self.refused[reason] = None

    def attributes(self) -> dict[str, Any]:
        """Return the attribute that lists them."""
        return {"metadata_refused": list(self.refused)} if self.refused else {}


def split_security(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a header's fields with those of security apart, and without empty ones and lengths."""
    kept = {
        name: value for name, value in drop_empty(fields).items() if name not in HIDDEN and not _LENGTH.fullmatch(name)
    }
    security = {name: value for name, value in kept.items() if name in SECURITY}
    header = {name: value for name, value in kept.items() if name not in SECURITY}
    return {"nitf": header, **({"security": security} if security else {})}


def drop_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value != ""}


def file_attributes(read: ReadRange, layout: NitfLayout, overflow: bytes, notes: Notes) -> dict[str, Any]:
    """Return what the file says of itself: its header, its extensions, and its segments without pixels."""
    attributes = split_security(layout.fields)
    notes.add(layout.problems)
    problems: list[str] = []
    tres = [describe_tre(tre, problems) for tre in split_tres(layout.tres + overflow, problems)]
    notes.add(problems)
    others = {
        "tres": tres,
        "graphics": _headers(read, layout, ("graphic", "symbol"), notes),
        "labels": _headers(read, layout, ("label",), notes),
        "texts": _headers(read, layout, ("text",), notes),
    }
    return attributes | {name: values for name, values in others.items() if values}


def _headers(read: ReadRange, layout: NitfLayout, kinds: tuple[str, ...], notes: Notes) -> list[dict[str, Any]]:
    headers = []
    for segment in (segment for kind in kinds for segment in layout.of(kind)):
        try:
            headers.append(_header(read, layout, segment))
        except JnrrdzError as error:
            notes.add([str(error)])
    return headers


def _header(read: ReadRange, layout: NitfLayout, segment: Segment) -> dict[str, Any]:
    version = layout.version
    tables = {"text": version.text, "label": version.label}.get(segment.kind, version.graphic) or version.graphic
    prefix = {"text": "T", "label": "L"}.get(segment.kind, "S")
    cursor = header_cursor(read, layout, segment, f"{segment.kind} {segment.number}")
    cursor.take(tables[0])
    version.read_security(cursor, prefix)
    cursor.take(tables[1])
    fields = {name: value for name, value in drop_empty(cursor.fields).items() if not name.endswith("HDL")}
    if segment.kind in {"text", "label"} and segment.data_length <= MAX_TEXT and segment.stop <= layout.size:
        fields["text"] = read(segment.data, segment.stop).decode("latin-1")
    return fields


def image_attributes(image: NitfImage, overflow: bytes, notes: Notes) -> tuple[dict[str, Any], list[Tre]]:
    """Return what a segment's header says, and its extensions."""
    problems: list[str] = []
    tres = split_tres(image.tres, problems) + split_tres(overflow, problems)
    attributes = split_security(image.fields) | {"bands": [drop_empty(band.fields) for band in image.bands]}
    luts = [[base64_text(lut) for lut in band.luts] for band in image.bands]
    if any(luts):
        attributes["luts"] = luts
    if any(image.comments):
        attributes["comments"] = list(image.comments)
    if tres:
        attributes["tres"] = [describe_tre(tre, problems) for tre in tres]
    notes.add(image.problems)
    notes.add(problems)
    return attributes, tres


@dataclass
class Extras:
    """What data extension segments hold: extensions that had no room, and XML."""

    overflow: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    """By kind of header and number, from 1; 0 is the file's own."""

    xml: list[str] = field(default_factory=list)
    others: list[dict[str, Any]] = field(default_factory=list)

    def add(self, read: ReadRange, layout: NitfLayout, extension: Extension) -> None:
        """Add what a data extension segment holds."""
        segment, fields = extension.segment, extension.fields
        stop = min(segment.stop, layout.size)
        is_short = segment.data_length <= MAX_XML
        if extension.name in layout.version.overflow and is_short:
            item = fields.get("DESITEM")
            key = (str(fields.get("DESOFLW", "")), item if isinstance(item, int) else 0)
            self.overflow.setdefault(key, []).append(read(segment.data, stop))
            return
        self.others.append(drop_empty(fields))
        if extension.name in {XML, *SICD_20} and is_short:
            self.xml.append(read(segment.data, stop).decode("utf-8", "replace").rstrip("\0 "))

    def of_image(self, number: int) -> bytes:
        """Return the extensions of the image of this number, from 0."""
        return self._joined(("UDID", number + 1), ("IXSHD", number + 1))

    def of_file(self) -> bytes:
        """Return the extensions of the file header."""
        return self._joined(("UDHD", 0), ("XHD", 0))

    def _joined(self, *keys: tuple[str, int]) -> bytes:
        return b"".join(part for key in keys for part in self.overflow.get(key, ()))


def read_extras(read: ReadRange, layout: NitfLayout, notes: Notes) -> Extras:
    """Return what the data extension segments hold."""
    extras = Extras()
    for segment in layout.of("extension"):
        try:
            extras.add(read, layout, parse_extension(read, layout, segment))
        except JnrrdzError as error:
            notes.add([str(error)])
    return extras


type Levels = list[list[VirtualArray]]
"""The arrays of each level: one, or one for each size that components have."""

IMAGE = "image_"
FIRST_IMAGE = "image_0"
RPCS = {"RPC00A", "RPC00B"}
CHIP = "ICHIPB"
MAX_LEVELS = 32


@dataclass(frozen=True, eq=False)
class File:
    """The file that images stand in."""

    read: ReadAhead
    url: str
    options: ScanOptions
    layout: NitfLayout
    extras: Extras
    tres: Sequence[Tre]
    """The extensions of the file header."""
    rpc: Rpc | None = None
    """The sensor's model of the first image in a file next to this one, which goes before its extensions."""


@dataclass(frozen=True, eq=False)
class Image:
    """One image: its attributes, where it lies, the arrays of its finest level, and the groups of its levels."""

    attributes: Mapping[str, Any]
    geo: Georeference
    arrays: Sequence[VirtualArray]
    levels: list[VirtualGroup]
    components: Mapping[str, list[VirtualGroup]] = field(default_factory=dict)
    """The levels of the components of a codestream, where they differ in size: the image is all of them together."""

    def group(self) -> VirtualGroup:
        """Return the group of the image: its variable, or a group for each of its levels.

        An image of components of several sizes is in groups as they are in a JPEG 2000 file.
        """
        pyramid = raster_pyramid(self.levels, self.geo.crs)
        if not self.components:
            return VirtualGroup(pyramid.children, {**self.attributes, **pyramid.attributes})
        parts = {name: raster_pyramid(levels, self.geo.crs) for name, levels in self.components.items()}
        return VirtualGroup({COMPOSITE: pyramid, **parts}, self.attributes)


def scan_nitf(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:
    """Return the group of a NITF: a group for each image segment, `image_0`, `image_1` and so on."""
    try:
        rpc, refused = find_rpc(url, neighbours, RPC_TXT) if options.sidecars else (None, [])
        attributes, images = read_file(read, url, options, rpc)
        if refused:
            attributes["metadata_refused"] = [*attributes.get("metadata_refused", ()), *refused]
        first = images.get(FIRST_IMAGE)
        if first is not None and options.overviews and (options.sidecars or local_path(url) is not None):
            first.levels.extend(rset_levels(first, url, options, neighbours))
        return VirtualGroup({name: image.group() for name, image in images.items()}, attributes)
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__


def read_file(
    read: ReadAhead, url: str, options: ScanOptions, rpc: Rpc | None = None
) -> tuple[dict[str, Any], dict[str, Image]]:
    """Return what a file says of itself, and its images; one that cannot be read is named, unless none can."""
    layout = parse_nitf(read, read.size)
    segments = layout.of("image")
    if not segments:
        raise NoImageError("no image segment in it", field="NUMI")
    notes = Notes()
    extras = read_extras(read, layout, notes)
    attributes = file_attributes(read, layout, extras.of_file(), notes)
    # what is wrong with the extensions is among the notes
    file = File(read, url, options, layout, extras, split_tres(layout.tres + extras.of_file(), []), rpc)
    parsed: list[NitfImage] = []
    images: dict[str, Image] = {}
    failures: list[tuple[str, JnrrdzError]] = []
    for segment in segments:
        try:
            image = parse_image(read, layout, segment)
            check_place(read, layout, image)
            parsed.append(image)
        except (MalformedError, UnsupportedError) as error:
            failures.append((f"{IMAGE}{segment.number}", error))
    for number, members in join_images(parsed):
        try:
            images[f"{IMAGE}{number}"] = read_image(file, members)
        except (MalformedError, UnsupportedError) as error:
            failures.append((f"{IMAGE}{number}", error))
    if not images:
        raise failures[0][1]
    refused = [{"image": name, "reason": str(error)} for name, error in failures]
    for entry in refused:
        warnings.warn(f"{entry['image']} is left out: {entry['reason']}", stacklevel=3)
    lists = {"xml": extras.xml, "extensions": extras.others, **notes.attributes(), "refused": refused}
    return attributes | {name: values for name, values in lists.items() if values}, images


def read_image(file: File, members: Sequence[NitfImage]) -> Image:
    """Return one image, of one segment or of several that are parts of it."""
    image, notes, size = members[0], Notes(), file.layout.size
    attributes, tres = image_attributes(image, file.extras.of_image(image.segment.number), notes)
    sources = PlaceSources(
        lambda start, stop: file.read(start, stop) if 0 <= start < stop <= size else b"",
        file.tres,
        tres,
        file.layout.version is NITF20,
    )
    is_first = image.segment.number == 0
    rpc = file.rpc if is_first and file.rpc is not None else _rpc(tres, notes)
    geo = find_georeference(whole_image(members), rpc, sources)
    if len(members) > 1:
        attributes["segments"] = [member.segment.number for member in members]
    levels, components = _levels(file, members)
    full = _size(levels[0])
    groups, *parts = (
        [level_group(arrays, geo.at_level(full, _size(arrays))) for arrays in each]
        for each in (levels, *components.values())
    )
    named = dict(zip(components, parts, strict=True))
    return Image(attributes | notes.attributes(), geo, levels[0], groups, named)


def _rpc(tres: Sequence[Tre], notes: Notes) -> Rpc | None:
    """Return the sensor's model for the pixels of this image."""
    try:
        rpc = next((parse_rpc(tre) for tre in tres if tre.tag in RPCS), None)
    except JnrrdzError as error:
        notes.add([str(error)])
        return None
    chip = next((describe_tre(tre, []).get("fields") for tre in tres if tre.tag == CHIP), None)
    return rpc if rpc is None or chip is None else chip_rpc(rpc, chip)


def _size(arrays: Sequence[VirtualArray]) -> tuple[int, int]:
    return arrays[0].shape[-2], arrays[0].shape[-1]


def level_group(arrays: Sequence[VirtualArray], geo: Georeference) -> VirtualGroup:
    """Return the group of one level: its variable, others of other sizes, and the grid mapping."""
    children: dict[str, Node] = {}
    for number, array in enumerate(arrays):
        name = VARIABLE if number == 0 else f"{VARIABLE}_{number}"
        children[name] = replace(array, attributes={**geo.array_attributes(), **array.attributes})
    return VirtualGroup({**children, **geo.variables()}, geo.group_attributes(_size(arrays)))


def _levels(file: File, members: Sequence[NitfImage]) -> tuple[Levels, dict[str, Levels]]:
    """Return the arrays of every level, finest first; of components that differ in size their own ones too."""
    image = members[0]
    table = parse_colours(image)
    expand = file.options.expand_palette and table is not None and len(image.bands[0].luts) > 1
    attributes = {"colorinterp": ["red", "green", "blue"]} if expand else colour_attributes(image, table)
    presentation = Presentation(file.url, attributes, table if expand else None)
    if image.compression in CODESTREAMS:
        return _codestream_levels(file, image, presentation)
    if len(members) > 1:
        return [[joined_array(members, presentation)]], {}
    return [[segment_array(file.read, image, presentation)]], {}


def _codestream_levels(file: File, image: NitfImage, presentation: Presentation) -> tuple[Levels, dict[str, Levels]]:
    """Return the arrays of a JPEG 2000 codestream, which may stand bare or in a whole JP2."""
    mask = read_mask(file.read, image)
    begin = image.segment.data if mask is None else mask.start
    start, stop, _ = find_codestream(file.read, begin, min(image.segment.stop, file.layout.size))
    windows = read_codestream(file.read, start, stop, file.url, file.options)
    count = len(windows.codestream.siz.components)
    groups, grids = windows.codestream.component_groups, []
    by_size = [
        level_arrays(
            windows,
            components,
            attributes=_of_components(presentation.attributes, components, count),
            palette=None if presentation.palette is None else presentation.palette.tobytes(),
            overviews=file.options.overviews,
        )
        for components in groups
    ]
    if len(groups) > 1:
        grids = composite_grids(windows.codestream)[: None if file.options.overviews else 1]
    together = _of_components(presentation.attributes, range(count), count)
    composite = [composite_array(windows, grid, is_rgb=False, attributes=together) for grid in grids]
    # without one picture of all, a level that only some of the components have is none of the image
    whole = [[array] for array in composite] or [list(arrays) for arrays in zip(*by_size, strict=False)]
    levels = [[_padded(array, mask, image) for array in arrays] for arrays in whole]
    parts = {
        components_name(names): [[_padded(array, mask, image)] for array in arrays]
        for names, arrays in zip(groups, by_size, strict=True)
        if composite
    }
    rows, columns = _size(levels[0])
    if (rows, columns) != (image.rows, image.columns):  # it is not known which is meant
        raise MalformedError(
            f"a codestream of {rows} x {columns} pixels for {image.rows} x {image.columns}",
            offset=image.segment.data,
            field=f"{image.what} NROWS, NCOLS",
        )
    return levels, parts


def _padded(array: VirtualArray, mask: Mask | None, image: NitfImage) -> VirtualArray:
    """Return an array with the pad pixel as its fill value."""
    pad = pad_value(mask, image, array.dtype)
    if pad is None:
        return array
    return replace(array, fill_value=pad, attributes={**array.attributes, "_FillValue": pad})


def _of_components(attributes: Mapping[str, Any], group: Sequence[int], count: int) -> dict[str, Any]:
    """Return the attributes of some of `count` components; what the header says of another number is left out."""
    others = dict(attributes)
    names = others.pop("colorinterp", [])
    if len(names) == count:
        return {"colorinterp": [names[number] for number in group], **others}
    # a palette's colours are those of its one component
    return dict(attributes) if names == ["red", "green", "blue"] and count == 1 else others


def rset_levels(image: Image, url: str, options: ScanOptions, neighbours: Neighbours) -> Iterator[VirtualGroup]:
    """Yield the levels in files beside an image of one level, as long as each is smaller than the one before."""
    if len(image.levels) > 1:
        return
    last = image.arrays[0]
    for number in range(1, MAX_LEVELS):
        readers = ((place, neighbours.open(place)) for place in _rset_urls(url, number))
        place, read = next(((place, read) for place, read in readers if read is not None), ("", None))
        if read is None:
            return
        try:
            level = read_file(read, place, options)[1].get(FIRST_IMAGE)
        except JnrrdzError as error:
            raise error.at(url=place) from error.__cause__
        if level is None or len(level.levels) > 1:
            return
        shape, before = level.arrays[0].shape, last.shape
        if level.arrays[0].dtype != last.dtype or shape[:-2] != before[:-2] or shape == before:
            return
        if any(size > larger for size, larger in zip(shape[-2:], before[-2:], strict=True)):
            return
        last, geo = level.arrays[0], level.geo
        if not geo.known and image.geo.affine is not None:
            affine = level_affine(image.geo.affine, _size(image.arrays), _size(level.arrays))
            geo = replace(geo, crs=image.geo.crs, affine=affine, registration=image.geo.registration)
        yield level_group(level.arrays, geo)


def _rset_urls(url: str, number: int) -> list[str]:
    """Return where a smaller version may stand: the name's ending in the case that it has."""
    path = url.partition("::")[0]
    ending = (path.partition("?")[0] if "://" in path else path).rpartition(".")[2]
    if ending in {"r0", "R0"}:
        return [beside(url, f".{ending[0]}{number}", replace=True)]
    if ending[:1] in {"r", "R"} and ending[1:].isdigit():  # itself one
        return []
    return [beside(url, f".{letter}{number}") for letter in ("rR" if ending.isupper() else "r")]
