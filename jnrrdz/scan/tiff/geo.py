"""Where a TIFF lies on the Earth, as the variable and the attributes that readers look for.

May touch the TIFF layout and the model.  What cannot be understood of a CRS never costs the
pixels: it is named in an attribute and a warning.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jnrrdz.errors import JnrrdzError
from jnrrdz.layout.geokeys import GeoKeys, Georeference, georeference, parse_geokeys
from jnrrdz.layout.tiff import TiffLayout
from jnrrdz.layout.tiff_image import TiffImage
from jnrrdz.layout.tiff_tags import Tag
from jnrrdz.model.array import Node, VirtualArray
from jnrrdz.model.codec import bytes_
from jnrrdz.model.conventions import GRID_MAPPING, Level, grid_mapping, level_affine, multiscales, spatial
from jnrrdz.model.crs import Crs, crs_from_geokeys
from jnrrdz.model.refs import ChunkRefs

type Shape = tuple[int, int]


@dataclass(frozen=True)
class Geo:
    """A CRS and an affine, each where the file gives one."""

    where: Georeference = field(default_factory=lambda: Georeference(None))
    crs: Crs | None = None
    refused: str | None = None
    """Why the CRS or the position could not be understood."""

    @property
    def known(self) -> bool:
        """Whether there is anything to write."""
        return self.crs is not None or self.where.affine is not None or bool(self.where.gcps)

    def at_level(self, full: Shape, level: Shape) -> "Geo":
        """Return the same place at an overview's pixel size."""
        if self.where.affine is None or full == level:
            return self
        return replace(self, where=replace(self.where, affine=level_affine(self.where.affine, full, level)))

    def array_attributes(self) -> dict[str, Any]:
        """Return what the pixels' variable says."""
        return {"grid_mapping": GRID_MAPPING} if self.known else {}

    def variables(self) -> dict[str, Node]:
        """Return the grid mapping variable: a scalar without bytes, all is in its attributes."""
        if not self.known:
            return {}
        attributes = grid_mapping(self.crs, self.where.affine, self.where.gcps)
        codecs = (bytes_("little"),)
        return {
            GRID_MAPPING: VirtualArray((), np.dtype("i8"), (), codecs, ChunkRefs.empty(1), (), np.int64(0), attributes)
        }

    def group_attributes(self, shape: Shape) -> dict[str, Any]:
        """Return the conventions' attributes of a group that holds one level."""
        refused = {} if self.refused is None else {"georeference_refused": self.refused}
        if not self.known:
            return refused
        return {**spatial(shape, self.where.affine, self.crs, is_point=self.where.is_point), **refused}


def geo_of(layout: TiffLayout, image: TiffImage) -> Geo:
    """Return where an image lies, as far as its tags can be understood."""
    ifd = image.ifd
    keys, refused = GeoKeys(), None
    try:
        keys = _keys(layout, image)
    except JnrrdzError as error:
        refused = _warned(error)
    try:
        scale, tiepoints, matrix = (
            layout.floats(ifd, tag) for tag in (Tag.ModelPixelScale, Tag.ModelTiepoint, Tag.ModelTransformation)
        )
        where = georeference(keys, scale, tiepoints, matrix)
    except JnrrdzError as error:
        return Geo(refused=_warned(error))
    try:
        return Geo(where, crs_from_geokeys(keys), refused)
    except JnrrdzError as error:
        return Geo(where, None, _warned(error))


def _keys(layout: TiffLayout, image: TiffImage) -> GeoKeys:
    ifd = image.ifd
    if Tag.GeoKeyDirectory not in ifd:
        return GeoKeys()
    text = (layout.raw(ifd, Tag.GeoAsciiParams) or b"").decode("latin-1")
    return parse_geokeys(layout.ints(ifd, Tag.GeoKeyDirectory), layout.floats(ifd, Tag.GeoDoubleParams), text)


def _warned(error: JnrrdzError) -> str:
    warnings.warn(f"the georeference is left out: {error}", stacklevel=3)
    return str(error)


def levels_attributes(geo: Geo, shapes: Sequence[Shape]) -> dict[str, Any]:
    """Return the attributes of a group whose children `0`, `1`, ... are levels of these shapes, finest first."""
    full = shapes[0]
    levels = [
        Level(
            name=str(number),
            shape_yx=shape,
            affine=geo.at_level(full, shape).where.affine,
            scale_yx=(finer[0] / shape[0], finer[1] / shape[1]),
            derived_from=None if number == 0 else str(number - 1),
        )
        for number, (finer, shape) in enumerate(zip([full, *shapes], shapes, strict=False))
    ]
    refused = {} if geo.refused is None else {"georeference_refused": geo.refused}
    return {**multiscales(levels, geo.crs), **refused}
