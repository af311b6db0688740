"""Which images of a TIFF are pictures of their own, and which are overviews or masks of another.

May touch the TIFF layout and the neighbours it is given.  Overviews stand in the chain after their
image, below it as SubIFDs, or in a file of their own (`.ovr`); masks likewise (`.msk`).  The files
beside a local source are always looked for, as GDAL does; for a remote one each look is a request,
made only where the user asks for it.
Spec: TIFF 6.0 (NewSubfileType), https://gdal.org/en/stable/drivers/raster/gtiff.html#overviews

Which TIFFs are series: microscopy formats by their first IFD, and stacks of pages that all agree.

May touch the TIFF layout and the modules of this folder.  The first IFD alone decides about the
formats, by tags and by the beginnings of texts that tifffile goes by too; an ordinary TIFF of one
image costs no further read.

A TIFF's images to virtual groups: a picture is its variable, or a group for each of its levels.

May touch the TIFF layout, the model, and the read-ahead and neighbours it is given.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf,
https://docs.ogc.org/is/21-026/21-026.html (Cloud Optimized GeoTIFF)
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from jnrrdz.core.arrays import Node, VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.neighbours import Neighbours, beside
from jnrrdz.formats.tiff.arrays import Place, nodata_text, virtual_array
from jnrrdz.formats.tiff.colours import expanded
from jnrrdz.formats.tiff.georeference import Geo, Sidecars, geo_of, levels_attributes, sidecars_of
from jnrrdz.formats.tiff.image import TiffImage, tiff_image
from jnrrdz.formats.tiff.metadata import Meaning, meaning_of
from jnrrdz.formats.tiff.stack import file_group, stack_series
from jnrrdz.formats.tiff.structure import Ifd, TiffLayout
from jnrrdz.formats.tiff.tags import Tag
from jnrrdz.formats.tiff.vendor import NdpiLayout, ndpi_layout
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.url import local_path

OVERVIEWS = ".ovr"
MASKS = ".msk"


@dataclass(frozen=True)
class Stored:
    """An image and the file that it stands in."""

    image: TiffImage
    layout: TiffLayout
    url: str

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.image.length, self.image.width


@dataclass
class Picture:
    """An image, the smaller versions of it, finest first, and their transparency masks."""

    main: Stored
    reduced: list[Stored] = field(default_factory=list)
    masks: list[Stored] = field(default_factory=list)

    @property
    def levels(self) -> list[Stored]:
        """The image and its smaller versions."""
        return [self.main, *self.reduced]

    def mask_of(self, level: Stored) -> Stored | None:
        """Return the mask of one level: the one of its size."""
        return next((mask for mask in self.masks if mask.size == level.size), None)


def find_pictures(layout: TiffLayout, url: str, options: ScanOptions, neighbours: Neighbours) -> list[Picture]:
    """Return the pictures of a file, each with its levels and masks."""
    found = _in_chain(layout, url, options)
    if found and (options.sidecars or local_path(url) is not None):
        _add_external(found[0], url, options, neighbours)
    for picture in found:
        picture.reduced = list(_levels(picture)) if options.overviews else []
    return found


def _in_chain(layout: TiffLayout, url: str, options: ScanOptions) -> list[Picture]:
    found: list[Picture] = []
    for ifd in layout.chain():
        stored = Stored(tiff_image(layout, ifd), layout, url)
        if stored.image.is_mask:
            if found:
                found[-1].masks.append(stored)
        elif stored.image.is_reduced and found:
            found[-1].reduced.append(stored)
        else:
            found.append(Picture(stored, list(_below(stored)) if options.overviews else []))
    return found


def _below(stored: Stored) -> Iterator[Stored]:
    """Yield the reduced images among an image's SubIFDs."""
    layout = stored.layout
    for start in layout.ints(stored.image.ifd, Tag.SubIFDs):
        for ifd in layout.chain(start):
            image = tiff_image(layout, ifd)
            if image.is_reduced and not image.is_mask:
                yield Stored(image, layout, stored.url)


def _add_external(picture: Picture, url: str, options: ScanOptions, neighbours: Neighbours) -> None:
    """Add what stands in the files beside the source."""
    if options.overviews:
        picture.reduced += _images_of(beside(url, OVERVIEWS), neighbours)
    picture.masks += _images_of(beside(url, MASKS), neighbours)


def _images_of(url: str, neighbours: Neighbours) -> list[Stored]:
    read = neighbours.open(url)
    if read is None:
        return []
    layout = TiffLayout(read, read.size)
    return [Stored(tiff_image(layout, ifd), layout, url) for ifd in layout.chain()]


def _levels(picture: Picture) -> Iterable[Stored]:
    """Yield the reduced images that are levels of the main one: same samples, ever smaller."""
    main, last = picture.main.image, picture.main.size
    for stored in sorted(picture.reduced, key=lambda stored: -stored.image.width * stored.image.length):
        image, size = stored.image, stored.size
        same = (image.samples, image.bits, image.formats) == (main.samples, main.bits, main.formats)
        if same and size != last and size[0] <= last[0] and size[1] <= last[1]:
            last = size
            yield stored


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

BY_TEXT = {
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


def series_group(
    read: ReadAhead, layout: TiffLayout, url: str, options: ScanOptions, neighbours: Neighbours
) -> VirtualGroup | None:
    """Return the group of a file that is a series or a stack, None for any other TIFF."""
    layout = ndpi_layout(read, layout) or layout
    kind = kind_of(layout, layout.ifd(layout.first)) if layout.first else None
    found: VirtualGroup | None = None
    # imported here: most TIFFs are neither, and a batch's workers start sooner
    if kind == "ome":
        from jnrrdz.formats.tiff.ome import ome_group  # noqa: PLC0415

        found = ome_group(layout, url, neighbours, options)
    elif kind is not None:
        from jnrrdz.formats.tiff.vendor import vendor_group  # noqa: PLC0415

        found = vendor_group(read, layout, url, kind, options)
    if found is not None or not layout.first or isinstance(layout, NdpiLayout):
        return found
    stack = stack_series(layout, url, options)
    return None if stack is None else file_group([stack])


def kind_of(layout: TiffLayout, first: Ifd) -> str | None:
    """Return the format that the first IFD speaks of."""
    if any(tag in first for tag in GEOREFERENCED):
        return None  # a map, whatever wrote it
    for tag, kind in BY_TAG.items():
        if tag in first:
            return kind
    for tag, beginnings in BY_TEXT.items():
        text = _text(layout, first, tag)
        for beginning, kind in beginnings.items():
            if text.startswith(beginning):
                return kind
    text = _text(layout, first, Tag.ImageDescription)[-64:].strip()
    return next((kind for end, kind in BY_END.items() if text.endswith(end)), None)


def _text(layout: TiffLayout, first: Ifd, tag: int) -> str:
    """Return a text; one that cannot be read says nothing of the format, and costs no pixels."""
    try:
        return layout.text(first, tag) or ""
    except MalformedError:
        return ""


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
