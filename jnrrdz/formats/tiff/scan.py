"""A TIFF's images to virtual groups: which are pictures of their own, and which are levels or masks of another.

A picture is its variable, or a group for each of its levels.  Overviews stand in the chain after their
image, below it as SubIFDs, or in a file of their own (`.ovr`); masks likewise (`.msk`).  The files beside
a local source are always looked for, as GDAL does; for a remote one each look is a request, made only
where the user asks for it.  Series are told by the first IFD alone: by tags and by the beginnings of texts
that tifffile goes by too.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf (NewSubfileType),
https://docs.ogc.org/is/21-026/21-026.html (Cloud Optimized GeoTIFF),
https://gdal.org/en/stable/drivers/raster/gtiff.html#overviews
"""

import re
import warnings
from dataclasses import dataclass, field, replace
from math import prod

from jnrrdz.core.georeference import Georeference
from jnrrdz.core.pyramid import raster_pyramid
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.neighbours import Neighbours, beside
from jnrrdz.formats.tiff.arrays import own_nodata, virtual_array
from jnrrdz.formats.tiff.georeference import Sidecars, geo_of, sidecars_of
from jnrrdz.formats.tiff.image import TiffImage, sound_image, sound_images
from jnrrdz.formats.tiff.metadata import Meaning, bounded, expanded, meaning_of
from jnrrdz.formats.tiff.structure import Ifd, NdpiLayout, TiffLayout, ndpi_layout
from jnrrdz.formats.tiff.tags import Tag
from jnrrdz.options import ScanOptions
from jnrrdz.records import record
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.url import local_path

OVERVIEWS = ".ovr"
MASKS = ".msk"
VARIABLE = "data"
MASK = "mask"

BY_TAG = {
    34412: "lsm",
    33628: "stk",
    34362: "fluoview",
    51123: "micromanager",
    65420: "ndpi",
    43314: "nih",
    33560: "sis",
    33471: "sis",
}
"""Private tags that only one format has."""

BY_TEXT: dict[int, dict[str, str]] = {
    Tag.ImageDescription: {
        "ImageJ=": "imagej",
        '{"shape"': "shaped",
        "shape=(": "shaped",
        "Aperio ": "svs",
        "Mikroscan Image Structure": "mikroscan",
        "Motic ": "motic",
        "state.": "scanimage",
    },
    Tag.Software: {
        "SI.": "scanimage",
        "PerkinElmer-QPI": "qpi",
        "Philips DP": "philips",
        "IndicaLabsImageWriter": "indica",
        "MedScan": "trestle",
        "ScanOutputManager": "bif",
    },
    Tag.Make: {"Huron ": "huron"},
}
"""How a tag's text begins in the files of a format."""

BY_END = {"OME>": "ome", "</scn>": "scn"}
"""How ImageDescription ends."""

GEOREFERENCED = {Tag.GeoKeyDirectory, Tag.ModelPixelScale, Tag.ModelTiepoint, Tag.ModelTransformation}


@record(eq=False)
class Stored:
    """An image and the file that it stands in."""

    image: TiffImage
    layout: TiffLayout
    url: str

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.image.length, self.image.width

    def leave_out(self, error: JnrrdzError, name: str = "") -> None:
        """Note that the image cannot be read, unless it is the first of the file that is scanned."""
        offset = self.image.ifd.offset
        if offset == self.layout.first and not self.layout.name:
            raise error
        self.layout.leave_out(name or f"IFD at {offset}", error)


@dataclass
class Picture:
    """An image, the smaller versions of it, finest first, and their transparency masks."""

    name: str
    """The group that it becomes in a file of several, by its number among the file's images."""

    main: Stored
    reduced: list[Stored] = field(default_factory=list)
    masks: list[Stored] = field(default_factory=list)
    others: list[Stored] = field(default_factory=list)
    """Images in SubIFDs that are neither."""

    def add(self, stored: Stored) -> None:
        """Add an image by its NewSubfileType."""
        if stored.image.is_mask:
            self.masks.append(stored)
        elif stored.image.is_reduced:
            self.reduced.append(stored)
        else:
            self.others.append(stored)


def scan_tiff(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:
    """Return the group of a TIFF: its only image, or a group for each of its images."""
    try:
        layout = TiffLayout(read, read.size)
        group = _file_group(read, layout, url, options, neighbours)
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__
    return with_left_out(group, layout)


def _file_group(
    read: ReadAhead, layout: TiffLayout, url: str, options: ScanOptions, neighbours: Neighbours
) -> VirtualGroup:
    series = _series_group(read, layout, url, options, neighbours)
    if series is not None:
        return series
    pictures = find_pictures(layout, url, options, neighbours)
    if not pictures:
        raise MalformedError("no image in it", field="IFD")
    beside = sidecars_of(url, neighbours) if options.sidecars else Sidecars()
    if len(pictures) == 1:
        return _picture_group(pictures[0], options, beside)
    return _pages(pictures, options, beside)


SHOWN = 3
"""Directories that a warning names; the attribute `refused` has all of them."""


def with_left_out(group: VirtualGroup, layout: TiffLayout) -> VirtualGroup:
    """Return the group with the attribute `refused`, after one warning of all directories left out."""
    if not layout.left_out:
        return group
    reasons = [f"{name}: {reason}" for name, reason in layout.left_out.items()]
    more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
    warnings.warn(f"left out, not readable: {'; '.join(reasons[:SHOWN])}{more}", stacklevel=2)
    refused = list(group.attributes.get("refused", ()))
    refused += [{"image": name, "reason": reason} for name, reason in layout.left_out.items()]
    return replace(group, attributes={**group.attributes, "refused": refused})


def _series_group(
    read: ReadAhead, layout: TiffLayout, url: str, options: ScanOptions, neighbours: Neighbours
) -> VirtualGroup | None:
    """Return the group of a file that is a series or a stack, None for any other TIFF."""
    layout, kind = with_kind(read, layout)
    group: VirtualGroup | None = None
    # imported here: most TIFFs are neither, and a batch's workers start sooner
    if kind == "ome":
        from jnrrdz.formats.tiff.ome import ome_group  # noqa: PLC0415

        group = ome_group(layout, url, neighbours, options)
    elif kind is not None and neighbours.guest is not None:
        group = neighbours.guest(VENDOR, read, url, options, neighbours)
    elif kind is not None:
        group = _vendor_group(read, layout, url, kind, options)
    if group is None and not isinstance(layout, NdpiLayout) and layout.has_pages(2):
        from jnrrdz.formats.tiff.series import stack_group  # noqa: PLC0415

        try:
            group = stack_group(layout, url, options)
        except (MalformedError, UnsupportedError):
            return None  # one of its pages: by themselves, the others can be read
    return group


def with_kind(read: ReadAhead, layout: TiffLayout) -> tuple[TiffLayout, str | None]:
    """Return the layout by which a file is read, and the format that tifffile knows."""
    layout = ndpi_layout(read, layout) or layout
    kind = kind_of(layout, layout.ifd(layout.first)) if layout.first else None
    layout.has_booleans = kind == "shaped"  # tifffile writes nothing else in one bit
    if kind == "shaped" and is_one_page(layout, layout.ifd(layout.first)):
        kind = None
    return layout, kind


VENDOR = "jnrrdz.formats.tiff.vendor:scan_vendor"

_SHAPE = re.compile(r'\{"shape": \[([0-9, ]{1,200})\]')


def is_one_page(layout: TiffLayout, first: Ifd) -> bool:
    """Whether a file that tifffile wrote holds one page, which is an ordinary TIFF."""
    match = _SHAPE.match(layout.text(first, Tag.ImageDescription) or "")
    if match is None or layout.has_pages(2) or Tag.SubIFDs in first.entries:
        return False
    image = sound_image(layout, layout.first)
    shape = [int(size) for size in match[1].split(",")]
    return image is not None and prod(shape) == image.width * image.length * image.samples


def _vendor_group(
    read: ReadAhead, layout: TiffLayout, url: str, kind: str, options: ScanOptions
) -> VirtualGroup | None:
    # most TIFFs are of no such format, and a batch's workers start sooner without it
    from jnrrdz.formats.tiff.vendor import vendor_group  # noqa: PLC0415

    return vendor_group(read, layout, url, kind, options)


def kind_of(layout: TiffLayout, first: Ifd) -> str | None:
    """Return the format that the first IFD speaks of."""
    entries = first.entries
    if not GEOREFERENCED.isdisjoint(entries):
        return None  # a map, whatever wrote it
    for tag, kind in BY_TAG.items():
        if tag in entries:
            return kind
    texts: dict[int, str] = {}
    for tag in BY_TEXT:
        try:
            text = bounded(layout.text, first, Tag(tag))
            texts[tag] = text or ""
        except (MalformedError, UnsupportedError):
            continue  # one that cannot be read says nothing of the format, and costs no pixels
    for tag, text in texts.items():
        for beginning, kind in BY_TEXT[tag].items():
            if text.startswith(beginning):
                return kind
    text = texts.get(Tag.ImageDescription, "")[-64:].strip()
    return next((kind for end, kind in BY_END.items() if text.endswith(end)), None)


def find_pictures(layout: TiffLayout, url: str, options: ScanOptions, neighbours: Neighbours) -> list[Picture]:
    """Return the pictures of a file, each with its levels and masks.

    Every image is in one of them: a SubIFD that is no smaller version, and a smaller
    version that is no level (a thumbnail of other samples), are pictures themselves.
    """
    pictures = _chained_pictures(layout, url)
    if pictures and (options.sidecars or local_path(url) is not None):
        for ending, images in ((OVERVIEWS, pictures[0].reduced), (MASKS, pictures[0].masks)):
            path = beside(url, ending)
            read = neighbours.open(path) if ending == MASKS or options.overviews else None
            if read is not None:
                outer = TiffLayout(read, read.size, left_out=layout.left_out, name=ending)
                images += [Stored(image, outer, path) for image in sound_images(outer, outer.main)]
    whole: list[Picture] = []
    for picture in pictures:
        levels = _levels(picture)
        _leave_out_masks(picture, [picture.main, *levels])
        alone = list(picture.others)
        for stored in {*picture.reduced} - {*levels}:
            if stored.layout is layout:
                alone.append(stored)
            else:
                reason = "no smaller version of the image"
                stored.leave_out(UnsupportedError(reason, field="NewSubfileType"))
        alone.sort(key=lambda stored: stored.image.ifd.offset)
        picture.reduced = levels if options.overviews else []
        whole.append(picture)
        for number, stored in enumerate(alone):
            whole.append(Picture(f"{picture.name}_sub_{number}", stored))
    # a file that begins with a thumbnail, as DNG does, is opened at what the thumbnail shows
    return sorted(whole, key=lambda picture: picture.main.image.is_reduced)


def _chained_pictures(layout: TiffLayout, url: str) -> list[Picture]:
    """Return the pictures of the main chain, each with all that belongs to it."""
    pictures: list[Picture] = []
    number = 0
    for offset in layout.main:
        image = sound_image(layout, offset)
        if image is None:
            number += layout.is_page(offset)
            continue
        stored = Stored(image, layout, url)
        if pictures and (image.is_mask or image.is_reduced):
            pictures[-1].add(stored)
            continue
        picture = Picture(f"page_{number}", stored)
        number += 1
        pictures.append(picture)
        for each in sound_images(layout, layout.sub_ifds(image.ifd)):
            picture.add(Stored(each, layout, url))
    return pictures


def _levels(picture: Picture) -> list[Stored]:
    """Return the reduced images that are levels of the main one: same samples, ever smaller."""
    main, last = picture.main.image, picture.main.size
    levels: list[Stored] = []
    for stored in sorted(picture.reduced, key=lambda stored: -stored.image.width * stored.image.length):
        image, size = stored.image, stored.size
        same = (image.samples, image.bits, image.formats) == (main.samples, main.bits, main.formats)
        if same and size != last and size[0] <= last[0] and size[1] <= last[1]:
            last = size
            levels.append(stored)
    return levels


def _leave_out_masks(picture: Picture, levels: list[Stored]) -> None:
    """Note the masks of a picture that are of no level's size."""
    sizes = {level.size for level in levels}
    for mask in picture.masks:
        if mask.size not in sizes:
            text = f"a mask of {mask.image.width} x {mask.image.length} pixels, as no image has them"
            mask.leave_out(UnsupportedError(text, field="NewSubfileType"))


def _pages(pictures: list[Picture], options: ScanOptions, beside: Sidecars) -> VirtualGroup:
    """Return a group for each image; one that cannot be read is named in the attributes, unless it is the first."""
    children: dict[str, Node] = {}
    for picture in pictures:
        # the files beside a TIFF speak of its first image
        own = beside if picture is pictures[0] else Sidecars()
        try:
            children[picture.name] = _picture_group(picture, options, own)
        except (MalformedError, UnsupportedError) as error:
            picture.main.leave_out(error, picture.name)
    return VirtualGroup(children)


def _picture_group(picture: Picture, options: ScanOptions, beside: Sidecars) -> VirtualGroup:
    """Return the group of one image: its variable, or a group for each level."""
    geo = geo_of(picture.main.layout, picture.main.image, beside)
    meaning = meaning_of(picture.main.layout, picture.main.image, options, beside, unit=geo.height_unit)
    levels = [_level(picture, picture.main, geo, meaning)]
    for stored in picture.reduced:
        try:
            levels.append(_level(picture, stored, geo, meaning))
        except (MalformedError, UnsupportedError) as error:
            stored.leave_out(error)
    pyramid = raster_pyramid(levels, geo.crs)
    refused = {} if geo.refused is None else {"georeference_refused": geo.refused}
    return VirtualGroup(pyramid.children, {**pyramid.attributes, **refused})


def _level(picture: Picture, stored: Stored, geo: Georeference, meaning: Meaning) -> VirtualGroup:
    """Return the group of one level: its variable, its mask, and the grid mapping."""
    is_full, size = stored is picture.main, stored.size
    here = geo.at_level(picture.main.size, size)
    attributes = here.array_attributes()
    children: dict[str, Node] = {}
    mask = next((mask for mask in picture.masks if mask.size == size), None)
    if mask is not None:  # bits, or the bytes 0 and 255
        opaque = (1 << mask.image.bits[0]) - 1
        flags = {"flag_values": [0, opaque], "flag_meanings": "transparent opaque", "standard_name": "quality_flag"}
        try:
            children[MASK] = virtual_array(mask.layout, mask.image, mask.url, {**attributes, **flags})
            attributes = {**attributes, "ancillary_variables": MASK}
        except (MalformedError, UnsupportedError) as error:
            mask.leave_out(error)
    attributes |= meaning.array
    if is_full:
        attributes |= meaning.full
    nodata = meaning.nodata
    for level in (stored, picture.main):
        if not nodata and Tag.GDAL_NODATA in level.image.ifd.entries:
            nodata = own_nodata(level.layout, level.image)
    data = virtual_array(stored.layout, stored.image, stored.url, attributes, nodata)
    if meaning.table is not None:
        data = expanded(data, meaning.table)
    about = {**(meaning.group if is_full else {}), **here.group_attributes(size)}
    return VirtualGroup({VARIABLE: data, **children, **here.variables()}, about)
