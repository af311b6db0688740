"""Which images of a TIFF are pictures of their own, and which are overviews or masks of another.

May touch the TIFF layout and the neighbours it is given.  Overviews stand in the chain after their
image, below it as SubIFDs, or in a file of their own (`.ovr`); masks likewise (`.msk`).  The files
beside a local source are always looked for, as GDAL does; for a remote one each look is a request,
made only where the user asks for it.
Spec: TIFF 6.0 (NewSubfileType), https://gdal.org/en/stable/drivers/raster/gtiff.html#overviews
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from jnrrdz.formats.neighbours import Neighbours, beside
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Tag
from jnrrdz.formats.tiff.tiff_image import TiffImage, tiff_image
from jnrrdz.options import ScanOptions
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
