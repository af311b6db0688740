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

from jnrrdz.core.array import Node, VirtualArray
from jnrrdz.core.codec import bytes_
from jnrrdz.core.crs import Crs
from jnrrdz.core.crs_parts import made, registered
from jnrrdz.core.georeference import GRID_MAPPING, Affine, Level, grid_mapping, level_affine, multiscales, spatial
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.formats.nitf.nitf_geosde import MapPlace
from jnrrdz.formats.nitf.nitf_igeolo import FIELD, Corners
from jnrrdz.formats.nitf.nitf_image import NitfImage
from jnrrdz.formats.nitf.nitf_rpc import Rpc, rpc_at
from jnrrdz.formats.nitf.places import Said, crs_in_words, place_of

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
    """Why a place could not be understood."""

    remark: str | None = None
    """What was done with it."""

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
        if self.remark is not None:
            found["georeference_remark"] = self.remark
        if self.rpc is not None:
            found["rpc"] = self.rpc
        return found | spatial(shape, self.affine, self.crs)


def geo_of(image: NitfImage, rpc: Rpc | None, said: Said) -> Geo:
    """Return where an image lies, as far as that can be understood."""
    found = place_of(image, said)
    for reason in found.refused:
        warnings.warn(f"a georeference is left out: {reason}", stacklevel=2)
    refused = "; ".join(found.refused) or None
    place, shape = found.place, (image.rows, image.columns)
    if place is None:
        return Geo(rpc=rpc, refused=refused)
    if isinstance(place, MapPlace):
        return Geo(crs_in_words(place.proj), place.affine, (), rpc, refused)
    crs = registered_crs(place.epsg) if place.proj is None else crs_in_words(place.proj)
    affine = affine_of(place, shape)
    gcps = () if affine is not None else control_points(place, shape)
    return Geo(crs, affine, gcps, rpc, refused, found.remark)


def registered_crs(epsg: int) -> Crs:
    """Return the CRS of an EPSG code."""
    wkt: str = made(registered("crs", epsg, FIELD), FIELD).to_wkt(version="WKT2_2019")
    return Crs(wkt, f"EPSG:{epsg}")


def _marks(corners: Corners, shape: Shape) -> list[tuple[float, float]]:
    """Return column and row of what the corners are of, in IGEOLO's order: pixels' centres, or the outline."""
    (rows, columns), inset = shape, _inset(corners)
    right, bottom = columns - inset, rows - inset
    return [(inset, inset), (right, inset), (right, bottom), (inset, bottom)]


def _inset(corners: Corners) -> float:
    return 0.0 if corners.at_edges else 0.5


def control_points(corners: Corners, shape: Shape) -> tuple[Gcp, ...]:
    """Return the corners as control points."""
    return tuple((*place, *point, 0.0) for place, point in zip(_marks(corners, shape), corners.points, strict=True))


def affine_of(corners: Corners, shape: Shape) -> Affine | None:
    """Return the affine that has the corners where they are; None where there is none."""
    rows, columns = shape
    high, wide = rows - 2 * _inset(corners), columns - 2 * _inset(corners)
    if not high or not wide:  # a line has no other side
        return None
    upper_left, upper_right, lower_right, lower_left = points = np.array(corners.points)
    # of four corners of equal weight this is the least squares' solution
    across = (upper_right - upper_left + lower_right - lower_left) / (2 * wide)
    down = (lower_left - upper_left + lower_right - upper_right) / (2 * high)
    start = points.mean(axis=0) - across * (columns / 2) - down * (rows / 2)
    found = np.array([[column, row] for column, row in _marks(corners, shape)]) @ np.array([across, down]) + start
    pixel = (np.abs(across).sum() + np.abs(down).sum()) / 2
    if pixel == 0 or np.isclose(across[0] * down[1], across[1] * down[0], rtol=1e-9, atol=0):
        return None
    if float(np.abs(found - points).max()) > TOLERANCE * pixel:
        return None
    (a, d), (b, e), (c, f) = across.tolist(), down.tolist(), start.tolist()
    return (a, b, c, d, e, f)


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
