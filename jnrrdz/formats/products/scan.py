"""A product's document to one tree; its images are scanned by their own formats."""

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.neighbours import Neighbours, in_folder_of
from jnrrdz.formats.products import landsat, sentinel2
from jnrrdz.formats.products.assemble import ScannedImage, assemble, scanned_image
from jnrrdz.formats.products.product import Product, ProductImage
from jnrrdz.formats.scanning import file_format
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.url import local_path

MOST_BYTES = 16 << 20
"""Bytes of a document; Sentinel-2's have 60 kB."""

AT_ONCE = 8
"""Images of a remote product that are scanned together."""


def scan_sentinel2(
    read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours
) -> VirtualGroup:
    """Return the tree of a Sentinel-2 product by its `MTD_MSI*.xml`."""
    return _scan(sentinel2.parse_product, read, url, options, neighbours)


def scan_landsat(
    read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours
) -> VirtualGroup:
    """Return the tree of a Landsat product by its `*_MTL.xml` or `*_MTL.json`."""
    return _scan(landsat.parse_product, read, url, options, neighbours)


def _scan(
    parse: Callable[[bytes], Product],
    read: ReadAhead,
    url: str,
    options: ScanOptions,
    neighbours: Neighbours,
) -> VirtualGroup:
    if read.size > MOST_BYTES:
        message = f"a document of {read.size} bytes, no more than {MOST_BYTES} are read"
        raise UnsupportedError(message, url=url)
    product = parse(read(0, read.size))
    images = _Images(url, options, neighbours)
    jobs = 1 if local_path(url) is not None else AT_ONCE
    with ThreadPoolExecutor(jobs) as threads:
        scanned = list(threads.map(images.scan, product.images))
    return assemble(product, [image for image in scanned if image is not None])


class _Images:
    """The files of a product, next to its document."""

    def __init__(self, url: str, options: ScanOptions, neighbours: Neighbours) -> None:
        self.url = url
        # the groups of other resolutions take the place of levels
        self.options = replace(options, overviews=False, allow_missing=False)
        self.may_be_missing = options.allow_missing
        self.neighbours = neighbours

    def scan(self, image: ProductImage) -> ScannedImage | None:
        """Return one image, None where its file is absent and may be."""
        place = in_folder_of(self.url, image.path)
        read = self.neighbours.open(place)
        if read is None:
            if self.may_be_missing:
                text = f"{image.path} does not exist: {image.name} is left out"
                warnings.warn(text, UserWarning, stacklevel=2)
                return None
            remedy = "--allow-missing (allow_missing=True) leaves it out"
            message = f"{image.path} does not exist; {remedy}"
            raise MalformedError(message, field=image.member)
        found = read.source.url
        fmt = file_format(read, found)
        if fmt.document is not None or fmt.is_guest:
            message = f"{image.path} is of the format {fmt.name}; an image is needed"
            raise UnsupportedError(message, field=image.member)
        scan = partial(fmt.call, "scan", read, found, self.options, self.neighbours)
        try:
            return scanned_image(image, scan())
        except JnrrdzError as error:
            raise error.at(url=found) from error.__cause__
