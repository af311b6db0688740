"""The images of a product as one tree: a group for each size of pixels.

    10m/  B02(y, x)  B03(y, x)  TCI(band, y, x)  spatial_ref
    20m/  B05(y, x)  SCL(y, x)  spatial_ref

The group of the red band comes first, which is what opens where no group is named; then
the finer ones.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.bands import ADD_OFFSET, OFFSETS, SCALE_FACTOR, SCALES
from jnrrdz.core.georeference import GRID_MAPPING, geo_transform
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.products.product import (
    COMMON_NAME,
    PRODUCT,
    Attributes,
    Product,
    ProductImage,
)
from jnrrdz.records import record

NODATA = "_FillValue"
PLANE = ("y", "x")
PACKING = (SCALE_FACTOR, ADD_OFFSET, SCALES, OFFSETS)
FIRST = "red"
"""The common name of the band whose group opens where no group is named."""


@record(eq=False)
class ScannedImage:
    """One image of a product, with what its file holds."""

    image: ProductImage
    group: VirtualGroup
    array: VirtualArray
    mapping: VirtualArray
    """The grid mapping."""

    resolution: float
    """Metres of a pixel."""

    @property
    def group_name(self) -> str:
        """The name of its group, such as `10m`."""
        return f"{self.resolution:g}m"


def scanned_image(image: ProductImage, group: VirtualGroup) -> ScannedImage:
    """Return an image of a product with the group that its file is."""
    arrays = [
        child
        for child in group.children.values()
        if isinstance(child, VirtualArray) and child.dimension_names[-2:] == PLANE
    ]
    if len(arrays) != 1:
        message = f"{image.path} holds no image or several; one is needed"
        raise UnsupportedError(message, field=image.member)
    (array,) = arrays
    mapping = group.children.get(str(array.attributes.get("grid_mapping")))
    transform = None
    if isinstance(mapping, VirtualArray):
        transform = geo_transform(mapping.attributes)
    if not isinstance(mapping, VirtualArray) or transform is None:
        message = f"{image.path} has no CRS and affine transform"
        raise MalformedError(message, field=image.member)
    resolution = abs(transform.column_x)
    return ScannedImage(image, group, array, mapping, resolution)


def assemble(product: Product, images: Iterable[ScannedImage]) -> VirtualGroup:
    """Return the tree of a product, of those of its images that are given."""
    by_name: dict[str, list[ScannedImage]] = {}
    for scanned in images:
        by_name.setdefault(scanned.group_name, []).append(scanned)
    if not by_name:
        raise MalformedError("none of the images of the product exists")

    def rank(name: str) -> tuple[bool, float]:
        members = by_name[name]
        common = (each.image.attributes.get(COMMON_NAME) for each in members)
        return FIRST not in common, members[0].resolution

    children: dict[str, Node] = {}
    for name in sorted(by_name, key=rank):
        group = _group(by_name[name])
        # who opens one group sees the date and the product, too
        attributes = {**group.attributes, **product.attributes}
        children[name] = replace(group, attributes=attributes)
    return VirtualGroup(children, product.attributes)


def _group(images: list[ScannedImage]) -> VirtualGroup:
    """Return the group of the images of one resolution, which share a grid."""
    first = images[0]
    children: dict[str, Node] = {}
    attributes = dict(first.group.attributes)
    for scanned in images:
        image = scanned.image
        if image.name in children:
            message = f"two images {image.name} of {scanned.group_name}"
            raise MalformedError(message, field=image.member)
        if not _is_same_grid(scanned, first):
            message = f"{image.path} is not on the grid of {first.image.path}"
            raise UnsupportedError(message, field=image.member)
        children[image.name] = _variable(scanned)
        others = scanned.group.attributes
        attributes = {
            name: value
            for name, value in attributes.items()
            if name in others and others[name] == value
        }
    children[GRID_MAPPING] = first.mapping
    return VirtualGroup(children, attributes)


def _is_same_grid(one: ScannedImage, other: ScannedImage) -> bool:
    is_same_place = one.mapping.attributes == other.mapping.attributes
    return is_same_place and one.array.shape[-2:] == other.array.shape[-2:]


def _variable(scanned: ScannedImage) -> VirtualArray:
    """Return an image with the attributes that the product's document gives it."""
    image, array = scanned.image, scanned.array
    given = _without_own_packing(scanned)
    mapped = {"grid_mapping": GRID_MAPPING, "coordinates": GRID_MAPPING}
    attributes = {**array.attributes, **given, **mapped}
    if image.is_flags:
        # decoding would make floats of the missing ones, in which no bit can be tested
        if NODATA in attributes:
            attributes["nodata"] = attributes.pop(NODATA)
        return replace(array, attributes=attributes)
    return _with_nodata(replace(array, attributes=attributes), image)


def _without_own_packing(scanned: ScannedImage) -> Attributes:
    """Return the document's attributes; a scale of the file itself comes first."""
    given = dict(scanned.image.attributes)
    own = scanned.array.attributes
    if not any(name in own for name in PACKING):
        return given
    if not _is_same_packing(own, given):
        _warn(
            f"{scanned.image.path}: the scale of the file is not the one of "
            f"{scanned.image.member} in the product's metadata; the file's is used"
        )
    return {name: value for name, value in given.items() if name not in PACKING}


def _is_same_packing(own: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    defaults = {SCALE_FACTOR: 1.0, ADD_OFFSET: 0.0}
    pairs = [
        (own.get(name, value), given.get(name, value))
        for name, value in defaults.items()
    ]
    return all(np.isclose(mine, theirs, rtol=1e-6, atol=0) for mine, theirs in pairs)


def _with_nodata(array: VirtualArray, image: ProductImage) -> VirtualArray:
    """Return an image with the document's nodata where its file has none."""
    value = image.nodata
    if value is None:
        return array
    own = array.attributes.get(NODATA)
    if own is not None:
        if own != value:
            _warn(
                f"{image.path}: nodata is {own} in the file and {value:g} in the "
                "product's metadata; the file's is used"
            )
        return array
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        if not limits.min <= value <= limits.max:
            return array  # no pixel is missing
    held = array.dtype.type(value)
    attributes = {**array.attributes, NODATA: held}
    return replace(array, fill_value=held, attributes=attributes)


def images_of(root: VirtualGroup) -> Iterator[tuple[str, VirtualGroup]]:
    """Yield the images of a product by their paths, such as `10m/B04`, as trees.

    Pictures (TCI) are left out: their bands are made of others.
    """
    records = {record.url: record for record in root.sources}
    for path, array in root.arrays():
        if array.dimension_names != PLANE:
            continue
        name = path.rpartition("/")[0]
        group = root.at(name)
        if not isinstance(group, VirtualGroup):
            continue
        mapping = group.children[GRID_MAPPING]
        children: dict[str, Node] = {
            path.rpartition("/")[2]: array,
            GRID_MAPPING: mapping,
        }
        attributes = {
            name: value for name, value in group.attributes.items() if name != PRODUCT
        }
        sources = tuple(records[url] for url in array.refs.sources if url in records)
        yield path, VirtualGroup(children, attributes, sources, root.origin)


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=2)
