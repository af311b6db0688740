"""A TIFF's images to virtual groups: a picture is its variable, or a group for each of its levels.

May touch the TIFF layout, the model, and the read-ahead and neighbours it is given.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf,
https://docs.ogc.org/is/21-026/21-026.html (Cloud Optimized GeoTIFF)
"""

from jnrrdz.core.array import Node, VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.tiff.arrays import Place, virtual_array
from jnrrdz.formats.tiff.geo import Geo, geo_of, levels_attributes
from jnrrdz.formats.tiff.meaning import Meaning, meaning_of
from jnrrdz.formats.tiff.nodata import nodata_text
from jnrrdz.formats.tiff.palette_tiff import expanded
from jnrrdz.formats.tiff.pictures import Picture, Stored, find_pictures
from jnrrdz.formats.tiff.series import series_group
from jnrrdz.formats.tiff.sidecars import Sidecars, sidecars_of
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead

VARIABLE = "data"
MASK = "mask"
BILEVEL = 1


def scan_tiff(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:
    """Return the group of a TIFF: its only image, or a group for each of its images."""
    try:
        layout = TiffLayout(read, read.size)
        series = series_group(read, layout, url, options, neighbours)
        if series is not None:
            return series
        pictures = find_pictures(layout, url, options, neighbours)
        if not pictures:
            raise MalformedError("no image in it", field="IFD")
        beside = sidecars_of(url, neighbours) if options.sidecars else Sidecars()
        if len(pictures) == 1:
            return _picture_group(pictures[0], options, beside)
        return _pages(pictures, options, beside)
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__


def _pages(pictures: list[Picture], options: ScanOptions, beside: Sidecars) -> VirtualGroup:
    """Return a group for each image; one that cannot be read is named in the attributes, unless it is the first."""
    children: dict[str, Node] = {}
    refused: list[dict[str, str]] = []
    for number, picture in enumerate(pictures):
        name = f"page_{number}"
        try:
            # the files beside a TIFF speak of its first image
            children[name] = _picture_group(picture, options, Sidecars() if number else beside)
        except UnsupportedError as error:
            if number == 0:
                raise
            refused.append({"image": name, "reason": str(error)})
    return VirtualGroup(children, {"refused": refused} if refused else {})


def _picture_group(picture: Picture, options: ScanOptions, beside: Sidecars) -> VirtualGroup:
    """Return the group of one image: its variable, or a group for each level."""
    geo = geo_of(picture.main.layout, picture.main.image, beside)
    meaning = meaning_of(picture.main.layout, picture.main.image, options, beside, unit=geo.height_unit)
    if not picture.reduced:
        return _level(picture, picture.main, geo, meaning)
    children: dict[str, Node] = {
        str(number): _level(picture, stored, geo, meaning) for number, stored in enumerate(picture.levels)
    }
    return VirtualGroup(children, levels_attributes(geo, [stored.size for stored in picture.levels]))


def _level(picture: Picture, stored: Stored, geo: Geo, meaning: Meaning) -> VirtualGroup:
    """Return the group of one level: its variable, its mask, and the grid mapping."""
    here = geo.at_level(picture.main.size, stored.size)
    is_full = stored is picture.main
    attributes = here.array_attributes()
    children: dict[str, Node] = {}
    mask = picture.mask_of(stored)
    if mask is not None:
        meant = {**attributes, **_mask_meaning(mask)}
        children[MASK] = virtual_array(mask.layout, mask.image, Place(mask.url, mask.image, meant))
        attributes = {**attributes, "ancillary_variables": MASK}
    attributes |= meaning.variable(is_full=is_full)
    nodata = meaning.nodata or _nodata(stored) or _nodata(picture.main)
    data = virtual_array(stored.layout, stored.image, Place(stored.url, stored.image, attributes, nodata=nodata))
    if meaning.table is not None:
        data = expanded(data, meaning.table)
    about = {**(meaning.group if is_full else {}), **here.group_attributes(stored.size)}
    return VirtualGroup({VARIABLE: data, **children, **here.variables()}, about)


def _nodata(stored: Stored) -> str | None:
    return nodata_text(stored.layout, stored.image)


def _mask_meaning(mask: Stored) -> dict[str, object]:
    """Return what the values of a mask mean: bits, or the bytes 0 and 255."""
    opaque = 1 if mask.image.bits[0] == BILEVEL else (1 << mask.image.bits[0]) - 1
    return {"flag_values": [0, opaque], "flag_meanings": "transparent opaque", "standard_name": "quality_flag"}
