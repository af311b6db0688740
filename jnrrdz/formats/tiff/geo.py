"""Where a TIFF lies on the Earth, as the variable and the attributes that readers look for.

May touch the TIFF layout, the model, and what stands beside the file.  That goes before the file's
own tags, as GDAL has it; a world file counts only where nothing else gives an affine.  What cannot
be understood of a CRS never costs the pixels: it is named in an attribute and a warning.
"""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jnrrdz.core.array import Node, VirtualArray
from jnrrdz.core.codec import bytes_
from jnrrdz.core.crs import Crs, crs_from_geokeys
from jnrrdz.core.crs_wkt import crs_from_wkt, height_unit
from jnrrdz.core.geokeys import GeoKeys, Georeference, georeference, parse_geokeys
from jnrrdz.core.georeference import GRID_MAPPING, Level, grid_mapping, level_affine, multiscales, spatial
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.tiff.gdal_metadata import PAM, GdalMetadata
from jnrrdz.formats.tiff.sidecars import Sidecars
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Tag
from jnrrdz.formats.tiff.tiff_image import TiffImage
from jnrrdz.formats.tiff.tiff_rpc import Rpc, rpc_from_items, rpc_from_tag

type Shape = tuple[int, int]


@dataclass(frozen=True)
class Geo:
    """A CRS and an affine, each where the file gives one."""

    where: Georeference = field(default_factory=lambda: Georeference(None))
    crs: Crs | None = None
    refused: str | None = None
    """Why the CRS or the position could not be understood."""

    rpc: Rpc | None = None
    """The sensor's model."""

    says_point: bool = False
    """Whether the file says what a pixel is: an area or a point."""

    @property
    def known(self) -> bool:
        """Whether there is anything to write."""
        where = self.where
        return self.crs is not None or where.affine is not None or bool(where.gcps) or self.rpc is not None

    @property
    def height_unit(self) -> str | None:
        """The unit of heights, where the CRS has them."""
        return None if self.crs is None else height_unit(self.crs)

    def at_level(self, full: Shape, level: Shape) -> "Geo":
        """Return the same place at an overview's pixel size."""
        if full == level:
            return self
        rows, columns = level[0] / full[0], level[1] / full[1]
        where = self.where
        affine = None if where.affine is None else level_affine(where.affine, full, level)
        gcps = tuple(point._replace(column=point.column * columns, row=point.row * rows) for point in where.gcps)
        rpc = None if self.rpc is None else rpc_at(self.rpc, rows, columns)
        return replace(self, where=replace(where, affine=affine, gcps=gcps), rpc=rpc)

    def array_attributes(self) -> dict[str, Any]:
        """Return what the pixels' variable says."""
        return {"grid_mapping": GRID_MAPPING} if self.known else {}

    def variables(self) -> dict[str, Node]:
        """Return the grid mapping variable: a scalar without bytes, all is in its attributes."""
        if not self.known:
            return {}
        attributes = grid_mapping(self.crs, self.where.affine, self.where.gcps)
        if self.rpc is not None:
            # rioxarray writes and reads them as JSON text
            attributes["rpcs"] = json.dumps({name.lower(): value for name, value in self.rpc.items()})
        codecs = (bytes_("little"),)
        return {
            GRID_MAPPING: VirtualArray((), np.dtype("i8"), (), codecs, ChunkRefs.empty(1), (), np.int64(0), attributes)
        }

    def group_attributes(self, shape: Shape) -> dict[str, Any]:
        """Return the conventions' attributes of a group that holds one level."""
        found: dict[str, Any] = {} if self.refused is None else {"georeference_refused": self.refused}
        if not self.known:
            return found
        if self.rpc is not None:
            found["rpc"] = self.rpc
        found |= spatial(shape, self.where.affine, self.crs, is_point=self.where.is_point)
        found["AREA_OR_POINT"] = "Point" if self.where.is_point else "Area"
        return {name: value for name, value in found.items() if name != "AREA_OR_POINT" or self.says_point}


def geo_of(layout: TiffLayout, image: TiffImage, beside: Sidecars | None = None) -> Geo:
    """Return where an image lies, as far as its tags and the files beside it can be understood."""
    return _beside(_inside(layout, image), beside or Sidecars())


def _inside(layout: TiffLayout, image: TiffImage) -> Geo:
    """Return what the tags say."""
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
        rpc = rpc_from_tag(layout.floats(ifd, Tag.RPCCoefficientTag)) if Tag.RPCCoefficientTag in ifd else None
    except JnrrdzError as error:
        return Geo(refused=_warned(error))
    says_point = Tag.GeoKeyDirectory in ifd
    try:
        return Geo(where, crs_from_geokeys(keys), refused, rpc, says_point=says_point)
    except JnrrdzError as error:
        return Geo(where, None, _warned(error), rpc, says_point=says_point)


def _beside(inside: Geo, beside: Sidecars) -> Geo:
    """Return the same place with what the files beside the image say of it."""
    found, pam = inside, beside.pam
    if pam is not None:
        try:
            found = _by_pam(found, pam)
        except JnrrdzError as error:
            found = replace(found, refused=_warned(error))
    if found.where.affine is None and not found.where.gcps and beside.world is not None:
        found = replace(found, where=replace(found.where, affine=beside.world))
    return found


def _by_pam(geo: Geo, pam: GdalMetadata) -> Geo:
    where = geo.where
    if pam.affine is not None:
        where = replace(where, affine=pam.affine, gcps=())
    elif pam.gcps:
        where = replace(where, affine=None, gcps=pam.gcps)
    point = pam.items.get("", {}).get("AREA_OR_POINT")
    if point is not None:
        where = replace(where, is_point=point == "Point")
    crs = geo.crs if pam.wkt is None else crs_from_wkt(pam.wkt, PAM)
    rpc = rpc_from_items(pam.items["RPC"]) if "RPC" in pam.items else geo.rpc
    return replace(geo, where=where, crs=crs, rpc=rpc, says_point=geo.says_point or point is not None)


def rpc_at(rpc: Rpc, rows: float, columns: float) -> Rpc:
    """Return the coefficients for an image of other pixels; positions are those of pixel centres."""
    found = dict(rpc)
    for axis, factor in (("LINE", rows), ("SAMP", columns)):
        offset, scale = found[f"{axis}_OFF"], found[f"{axis}_SCALE"]
        if isinstance(offset, float) and isinstance(scale, float):
            found[f"{axis}_OFF"] = (offset + 0.5) * factor - 0.5
            found[f"{axis}_SCALE"] = scale * factor
    return found


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
