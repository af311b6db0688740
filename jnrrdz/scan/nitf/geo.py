"""Where an image segment lies on the Earth, as the variable and the attributes that readers look for.

May touch the NITF layout and the model.  The corners of IGEOLO are an affine where they are those of
one to a quarter of a pixel, as GDAL has it, else control points.  What cannot be understood never
costs the pixels: it is named in an attribute and a warning.
"""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jnrrdz.errors import JnrrdzError
from jnrrdz.layout.nitf_igeolo import Corners, parse_igeolo
from jnrrdz.layout.nitf_image import NitfImage
from jnrrdz.layout.nitf_rpc import Rpc, rpc_at
from jnrrdz.model.array import Node, VirtualArray
from jnrrdz.model.codec import bytes_
from jnrrdz.model.conventions import (
    GRID_MAPPING,
    Affine,
    Level,
    grid_mapping,
    level_affine,
    multiscales,
    spatial,
)
from jnrrdz.model.crs import Crs
from jnrrdz.model.crs_wkt import crs_from_wkt
from jnrrdz.model.refs import ChunkRefs

type Shape = tuple[int, int]
type Gcp = tuple[float, float, float, float, float]
"""Column and row (pixel corners), x, y, z."""

TOLERANCE = 0.25
"""Of a pixel, by which a corner may lie beside where an affine puts it."""


@dataclass(frozen=True)
class Geo:
    """A CRS, and an affine or control points, each where the segment gives one."""

    crs: Crs | None = None
    affine: Affine | None = None
    gcps: tuple[Gcp, ...] = ()
    rpc: Rpc | None = None
    refused: str | None = None
    """Why the place could not be understood."""

    @property
    def known(self) -> bool:
        """Whether there is anything to write."""
        return self.crs is not None or self.rpc is not None

    def at_level(self, full: Shape, level: Shape) -> "Geo":
        """Return the same place at the pixel size of a smaller version."""
        if full == level:
            return self
        rows, columns = level[0] / full[0], level[1] / full[1]
        affine = None if self.affine is None else level_affine(self.affine, full, level)
        gcps = tuple((column * columns, row * rows, x, y, z) for column, row, x, y, z in self.gcps)
        rpc = None if self.rpc is None else rpc_at(self.rpc, (rows, columns))
        return replace(self, affine=affine, gcps=gcps, rpc=rpc)

    def array_attributes(self) -> dict[str, Any]:
        """Return what the pixels' variable says."""
        return {"grid_mapping": GRID_MAPPING} if self.known else {}

    def variables(self) -> dict[str, Node]:
        """Return the grid mapping variable: a scalar without bytes, all is in its attributes."""
        if not self.known:
            return {}
        attributes = grid_mapping(self.crs, self.affine, self.gcps)
        if self.rpc is not None:
            # rioxarray writes and reads them as JSON text
            attributes["rpcs"] = json.dumps({name.lower(): value for name, value in self.rpc.items()})
        codecs = (bytes_("little"),)
        scalar = VirtualArray((), np.dtype("i8"), (), codecs, ChunkRefs.empty(1), (), np.int64(0), attributes)
        return {GRID_MAPPING: scalar}

    def group_attributes(self, shape: Shape) -> dict[str, Any]:
        """Return the conventions' attributes of a group that holds one level."""
        found: dict[str, Any] = {} if self.refused is None else {"georeference_refused": self.refused}
        if self.rpc is not None:
            found["rpc"] = self.rpc
        return found | spatial(shape, self.affine, self.crs)


def geo_of(image: NitfImage, rpc: Rpc | None, *, is_20: bool) -> Geo:
    """Return where an image lies, as far as its corners can be understood."""
    try:
        corners = parse_igeolo(image.text("IGEOLO"), image.text("ICORDS"), is_20=is_20)
        if corners is None:
            return Geo(rpc=rpc)
        crs = crs_from_wkt(f"EPSG:{corners.epsg}", "IGEOLO")
    except JnrrdzError as error:
        warnings.warn(f"the georeference is left out: {error}", stacklevel=2)
        return Geo(rpc=rpc, refused=str(error))
    affine = affine_of(corners, (image.rows, image.columns))
    gcps = () if affine is not None else control_points(corners, (image.rows, image.columns))
    return Geo(crs, affine, gcps, rpc)


def _centres(shape: Shape) -> list[tuple[float, float]]:
    """Return column and row of the corner pixels' centres, in IGEOLO's order."""
    rows, columns = shape
    return [(0.5, 0.5), (columns - 0.5, 0.5), (columns - 0.5, rows - 0.5), (0.5, rows - 0.5)]


def control_points(corners: Corners, shape: Shape) -> tuple[Gcp, ...]:
    """Return the corners as control points."""
    return tuple((*place, *point, 0.0) for place, point in zip(_centres(shape), corners.points, strict=True))


def affine_of(corners: Corners, shape: Shape) -> Affine | None:
    """Return the affine that has the corners where they are; None where there is none."""
    rows, columns = shape
    if rows < 2 or columns < 2:  # noqa: PLR2004  a line has no other side
        return None
    places = np.array([(column, row, 1.0) for column, row in _centres(shape)])
    points = np.array(corners.points)
    # three corners fix it, and with four of equal weight the deviations share out
    found = np.linalg.lstsq(places, points, rcond=None)[0]
    (a, d), (b, e), (c, f) = found.tolist()
    pixel = max(abs(a) + abs(b), abs(d) + abs(e))
    if pixel == 0 or abs(a * e - b * d) < np.finfo(float).tiny:
        return None
    if float(np.abs(places @ found - points).max()) > TOLERANCE * min(np.hypot(a, d), np.hypot(b, e)):
        return None
    return _straight((a, b, c, d, e, f), pixel)


def _straight(affine: Affine, pixel: float) -> Affine:
    """Return an affine whose rows and columns follow the axes exactly, where they do but for rounding."""
    a, b, c, d, e, f = affine
    least = pixel * 1e-9
    return (
        0.0 if abs(a) < least else a,
        0.0 if abs(b) < least else b,
        c,
        0.0 if abs(d) < least else d,
        0.0 if abs(e) < least else e,
        f,
    )


def levels_attributes(geo: Geo, shapes: Sequence[Shape]) -> dict[str, Any]:
    """Return the attributes of a group whose children `0`, `1`, ... are levels of these shapes, finest first."""
    full = shapes[0]
    levels = [
        Level(
            name=str(number),
            shape_yx=shape,
            affine=geo.at_level(full, shape).affine,
            scale_yx=(finer[0] / shape[0], finer[1] / shape[1]),
            derived_from=None if number == 0 else str(number - 1),
        )
        for number, (finer, shape) in enumerate(zip([full, *shapes], shapes, strict=False))
    ]
    return multiscales(levels, geo.crs)
