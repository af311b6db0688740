"""A TIFF's images to virtual groups: which pages are images of their own, which are overviews of another.

May touch the TIFF layout, the model, and the read-ahead it is given.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf,
https://docs.ogc.org/is/21-026/21-026.html (Cloud Optimized GeoTIFF)
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.layout.tiff import TiffLayout
from jnrrdz.layout.tiff_image import TiffImage, tiff_image
from jnrrdz.layout.tiff_tags import Tag
from jnrrdz.model.array import Node, VirtualGroup
from jnrrdz.scan.neighbours import Neighbours
from jnrrdz.scan.options import ScanOptions
from jnrrdz.scan.tiff.arrays import Place, virtual_array
from jnrrdz.scan.tiff.geo import Geo, geo_of, levels_attributes
from jnrrdz.source.readahead import ReadAhead

VARIABLE = "data"
MASK = "mask"
MASK_MEANING = {"flag_values": [0, 1], "flag_meanings": "transparent opaque", "standard_name": "quality_flag"}


@dataclass
class Picture:
    """An image, the smaller versions of it, finest first, and their transparency masks."""

    main: TiffImage
    reduced: list[TiffImage] = field(default_factory=list)
    masks: list[TiffImage] = field(default_factory=list)

    def mask_of(self, image: TiffImage) -> TiffImage | None:
        """Return the mask of one level: the one of its size."""
        size = (image.length, image.width)
        return next((mask for mask in self.masks if (mask.length, mask.width) == size), None)


def scan_tiff(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:
    """Return the group of a TIFF: its only image, or a group for each of its images."""
    try:
        layout = TiffLayout(read, read.size)
        pictures = _pictures(layout, options)
        if not pictures:
            raise MalformedError("no image in it", field="IFD")
        if len(pictures) == 1:
            return _picture_group(layout, pictures[0], url)
        return _pages(layout, pictures, url)
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__


def _pages(layout: TiffLayout, pictures: list[Picture], url: str) -> VirtualGroup:
    """Return a group for each image; one that cannot be read is named in the attributes, unless it is the first."""
    children: dict[str, Node] = {}
    refused: list[dict[str, str]] = []
    for number, picture in enumerate(pictures):
        name = f"page_{number}"
        try:
            children[name] = _picture_group(layout, picture, url)
        except UnsupportedError as error:
            if number == 0:
                raise
            refused.append({"image": name, "reason": str(error)})
    return VirtualGroup(children, {"refused": refused} if refused else {})


def _pictures(layout: TiffLayout, options: ScanOptions) -> list[Picture]:
    """Return the images of the chain, each with the reduced ones that follow it or hang below it."""
    found: list[Picture] = []
    for ifd in layout.chain():
        image = tiff_image(layout, ifd)
        if image.is_mask:
            if found:
                found[-1].masks.append(image)
            continue
        if image.is_reduced and found:
            found[-1].reduced.append(image)
            continue
        found.append(Picture(image, list(_below(layout, image)) if options.overviews else []))
    for picture in found:
        picture.reduced = list(_levels(picture)) if options.overviews else []
    return found


def _below(layout: TiffLayout, image: TiffImage) -> Iterable[TiffImage]:
    """Yield the reduced images among an image's SubIFDs."""
    for start in layout.ints(image.ifd, Tag.SubIFDs):
        for ifd in layout.chain(start):
            sub = tiff_image(layout, ifd)
            if sub.is_reduced and not sub.is_mask:
                yield sub


def _levels(picture: Picture) -> Iterable[TiffImage]:
    """Yield the reduced images that are levels of the main one: same samples, ever smaller."""
    main = picture.main
    last = (main.length, main.width)
    for image in sorted(picture.reduced, key=lambda image: -image.width * image.length):
        size = (image.length, image.width)
        same = (image.samples, image.bits, image.formats) == (main.samples, main.bits, main.formats)
        if same and size != last and size[0] <= last[0] and size[1] <= last[1]:
            last = size
            yield image


def _picture_group(layout: TiffLayout, picture: Picture, url: str) -> VirtualGroup:
    """Return the group of one image: its variable, or a group for each level."""
    geo = geo_of(layout, picture.main)
    if not picture.reduced:
        return _level(layout, picture, picture.main, url, geo)
    images = [picture.main, *picture.reduced]
    children: dict[str, Node] = {
        str(number): _level(layout, picture, image, url, geo) for number, image in enumerate(images)
    }
    return VirtualGroup(children, levels_attributes(geo, [(image.length, image.width) for image in images]))


def _level(layout: TiffLayout, picture: Picture, image: TiffImage, url: str, geo: Geo) -> VirtualGroup:
    """Return the group of one level: its variable, its mask, and the grid mapping."""
    shape = (image.length, image.width)
    here = geo.at_level((picture.main.length, picture.main.width), shape)
    attributes = here.array_attributes()
    mask = picture.mask_of(image)
    children: dict[str, Node] = {}
    if mask is not None:
        children[MASK] = virtual_array(layout, mask, Place(url, mask, {**attributes, **MASK_MEANING}))
        attributes = {**attributes, "ancillary_variables": MASK}
    data = virtual_array(layout, image, Place(url, picture.main, attributes))
    return VirtualGroup({VARIABLE: data, **children, **here.variables()}, here.group_attributes(shape))
