"""Where a JP2 file's image lies: by GeoJP2 (a GeoTIFF in a box) or GMLJP2, in this order, as GDAL has it.

May touch the layouts and the model.  What cannot be understood never costs the pixels: it is named
in an attribute and a warning.
Spec: https://web.archive.org/web/2009/http://www.lizardtech.com/download/geo/geotiff_box.txt (GeoJP2)
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jnrrdz.core.array import Node, VirtualArray
from jnrrdz.core.codec import bytes_
from jnrrdz.core.crs import Crs, crs_from_geokeys
from jnrrdz.core.crs_epsg import crs_from_epsg, is_north_first
from jnrrdz.core.geokeys import Georeference, georeference, parse_geokeys
from jnrrdz.core.georeference import GRID_MAPPING, Level, grid_mapping, level_affine, multiscales, spatial
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.jpeg2000.gmljp2 import FIELD, GRID, parse_gml
from jnrrdz.formats.jpeg2000.jp2_boxes import Boxes
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Tag

type Shape = tuple[int, int]

GEOJP2 = bytes.fromhex("b14bf8bd083d4b43a5ae8cd7d5a6ce03")
NOWHERE = Georeference(None)
TEMPLATE_LIMIT = 1 << 20
"""A GeoJP2 box larger than this holds more than a template without pixels."""


@dataclass(frozen=True)
class Geo:
    """A CRS and an affine, each where the file gives one."""

    where: Georeference = NOWHERE
    crs: Crs | None = None
    refused: tuple[str, ...] = ()
    """Why something of it could not be understood."""

    @property
    def known(self) -> bool:
        """Whether there is anything to write."""
        return self.crs is not None or self.where.affine is not None or bool(self.where.gcps)

    def at_level(self, full: Shape, level: Shape) -> "Geo":
        """Return the same place at another level's pixel size."""
        if full == level:
            return self
        where = self.where
        affine = None if where.affine is None else level_affine(where.affine, full, level)
        rows, columns = level[0] / full[0], level[1] / full[1]
        gcps = tuple(point._replace(column=point.column * columns, row=point.row * rows) for point in where.gcps)
        return replace(self, where=replace(where, affine=affine, gcps=gcps))

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
        refused = {"georeference_refused": "; ".join(self.refused)} if self.refused else {}
        return refused | (
            spatial(shape, self.where.affine, self.crs, is_point=self.where.is_point) if self.known else {}
        )

    def levels_attributes(self, shapes: Sequence[Shape]) -> dict[str, Any]:
        """Return the attributes of a group whose children `0`, `1`, ... are levels of these shapes, finest first."""
        levels = [
            Level(
                name=str(number),
                shape_yx=shape,
                affine=self.at_level(shapes[0], shape).where.affine,
                scale_yx=(finer[0] / shape[0], finer[1] / shape[1]),
                derived_from=None if number == 0 else str(number - 1),
            )
            for number, (finer, shape) in enumerate(zip([shapes[0], *shapes], shapes, strict=False))
        ]
        return multiscales(levels, self.crs)


def geo_of(boxes: Boxes | None) -> Geo:
    """Return where an image lies, as far as the boxes can be understood."""
    if boxes is None:
        return Geo()
    refused: list[str] = []
    for read in (_geojp2, _gmljp2):
        try:
            found = read(boxes)
        except JnrrdzError as error:
            warnings.warn(f"the georeference is left out: {error}", stacklevel=2)
            refused.append(str(error))
            continue
        if found.known:
            return replace(found, refused=(*refused, *found.refused))
    return Geo(refused=tuple(refused))


def _geojp2(boxes: Boxes) -> Geo:
    """Return what the GeoTIFF in the first box of its kind says."""
    body = next((one for one in boxes.uuid(GEOJP2) if len(one) <= TEMPLATE_LIMIT), None)
    if not body:
        return Geo()
    layout = TiffLayout(lambda start, stop: body[start:stop], len(body))
    ifd = layout.ifd(layout.first)
    scale, ties, matrix = (
        layout.floats(ifd, tag) for tag in (Tag.ModelPixelScale, Tag.ModelTiepoint, Tag.ModelTransformation)
    )
    text = (layout.raw(ifd, Tag.GeoAsciiParams) or b"").decode("latin-1")
    directory = layout.ints(ifd, Tag.GeoKeyDirectory)
    keys = parse_geokeys(directory, layout.floats(ifd, Tag.GeoDoubleParams), text)
    where = georeference(keys, scale, ties, matrix)
    try:
        return Geo(where, crs_from_geokeys(keys))
    except JnrrdzError as error:
        warnings.warn(f"the CRS is left out: {error}", stacklevel=3)
        return Geo(where, refused=(str(error),))


def _gmljp2(boxes: Boxes) -> Geo:
    """Return what the first coverage in an XML box says."""
    for box in boxes.all(b"xml "):
        text = boxes.body(box).decode(errors="replace")
        grid = parse_gml(text) if GRID in text else None
        if grid is None:
            continue
        crs = None if grid.epsg is None else crs_from_epsg(grid.epsg, FIELD)
        if crs is not None and grid.by_register and is_north_first(crs):
            grid = grid.turned()
        return Geo(Georeference(grid.affine), crs)
    return Geo()
