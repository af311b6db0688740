"""Rational polynomial coefficients: the tag RPCCoefficientTag, and the same as GDAL's text items.

May touch errors only.  92 doubles: two errors, five offsets, five scales, four polynomials of 20.
Spec: http://geotiff.maptools.org/rpc_prop.html

Files beside a TIFF that say where it lies and what it means: `.aux.xml` and world files.

May touch the layouts and the neighbours that the scan was given.  They are looked for only when
asked: each costs a request where nothing is there.  What is wrong in one never costs the pixels.
Spec: https://gdal.org/en/stable/drivers/raster/wld.html,
https://gdal.org/en/stable/user/raster_data_model.html#pam-gdal-persistent-auxiliary-metadata

Where a TIFF lies on the Earth, as the variable and the attributes that readers look for.

May touch the TIFF layout, the model, and what stands beside the file.  That goes before the file's
own tags, as GDAL has it; a world file counts only where nothing else gives an affine.  What cannot
be understood of a CRS never costs the pixels: it is named in an attribute and a warning.
"""

import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jnrrdz.core.arrays import Node, VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.crs import Crs, crs_from_geokeys, crs_from_wkt, height_unit
from jnrrdz.core.crs_geokeys import Affine, GeoKeys, Georeference, georeference, parse_geokeys
from jnrrdz.core.georeference import GRID_MAPPING, Level, grid_mapping, level_affine, multiscales, spatial
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.xml_tree import MAX_BYTES
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.neighbours import Neighbours, beside
from jnrrdz.formats.tiff.gdal_metadata import PAM, GdalMetadata, parse_pam
from jnrrdz.formats.tiff.image import TiffImage
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Tag

type Rpc = dict[str, float | list[float]]
"""GDAL's item names to numbers."""

SINGLE = (
    "ERR_BIAS",
    "ERR_RAND",
    "LINE_OFF",
    "SAMP_OFF",
    "LAT_OFF",
    "LONG_OFF",
    "HEIGHT_OFF",
    "LINE_SCALE",
    "SAMP_SCALE",
    "LAT_SCALE",
    "LONG_SCALE",
    "HEIGHT_SCALE",
)
"""The first numbers of the tag, in its order."""

POLYNOMIALS = ("LINE_NUM_COEFF", "LINE_DEN_COEFF", "SAMP_NUM_COEFF", "SAMP_DEN_COEFF")
TERMS = 20
COUNT = len(SINGLE) + TERMS * len(POLYNOMIALS)
OPTIONAL = {"ERR_BIAS", "ERR_RAND"}
FIELD = "RPCCoefficientTag"


def rpc_from_tag(values: Sequence[float]) -> Rpc:
    """Return the coefficients that the tag holds."""
    if len(values) != COUNT:
        raise MalformedError(f"{len(values)} numbers where {COUNT} belong", field=FIELD)
    if not all(map(math.isfinite, values)):
        raise MalformedError("a coefficient that is no finite number", field=FIELD)
    found: Rpc = dict(zip(SINGLE, map(float, values), strict=False))
    for index, name in enumerate(POLYNOMIALS):
        start = len(SINGLE) + index * TERMS
        found[name] = [float(number) for number in values[start : start + TERMS]]
    return found


def rpc_from_items(items: Mapping[str, str]) -> Rpc:
    """Return the coefficients of GDAL's metadata domain `RPC`."""
    found: Rpc = {}
    for name in (*SINGLE, *POLYNOMIALS):
        count = TERMS if name in POLYNOMIALS else 1
        if name not in items and name in OPTIONAL:
            continue
        numbers = _numbers(name, items.get(name, ""), count)
        found[name] = numbers if name in POLYNOMIALS else numbers[0]
    return found


def _numbers(name: str, text: str, count: int) -> list[float]:
    try:
        numbers = [float(part) for part in text.split()]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise MalformedError(f"{text[:80]!r} is not {count} numbers", field=f"RPC item {name}")
    return numbers


WORLD_NUMBERS = 6
WORLD_BYTES = 4096


@dataclass
class Sidecars:
    """What the files beside a source say, each None where there is none, and why some could not be read."""

    pam: GdalMetadata | None = None
    world: Affine | None = None
    refused: list[str] = field(default_factory=list)


def sidecars_of(url: str, neighbours: Neighbours) -> Sidecars:
    """Return what stands beside a TIFF, as GDAL looks for it."""
    found = Sidecars()
    try:
        text = _text(neighbours, beside(url, PAM), MAX_BYTES)
        found.pam = None if text is None else parse_pam(text)
    except JnrrdzError as error:
        _refuse(found, error.at(url=beside(url, PAM)))
    for candidate in _world_files(url):
        try:
            text = _text(neighbours, candidate, WORLD_BYTES)
            if text is not None:
                found.world = world_affine(text)
                break
        except JnrrdzError as error:
            _refuse(found, error.at(url=candidate))
    return found


def _refuse(found: Sidecars, error: JnrrdzError) -> None:
    warnings.warn(f"a file beside the image is left out: {error}", stacklevel=3)
    found.refused.append(str(error))


def _text(neighbours: Neighbours, url: str, limit: int) -> str | None:
    read = neighbours.open(url)
    if read is None:
        return None
    if read.size > limit:
        raise MalformedError(f"{read.size} bytes, no more than {limit} are read")
    data = read(0, read.size)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _world_files(url: str) -> Iterator[str]:
    """Yield the names that a world file may have: `.tfw`, `.tifw`, `.wld`, in the case of the image's ending."""
    name = url.partition("::")[0].partition("?")[0].rpartition("/")[2]
    ending = name.rpartition(".")[2] if "." in name else ""
    if not ending:
        return
    for other in (f"{ending[0]}{ending[-1]}", ending, "wld"):
        world = other if other == "wld" else f"{other}w"
        yield beside(url, f".{world.upper() if ending.isupper() else world}", replace=True)


def world_affine(text: str) -> Affine:
    """Return the affine, for pixel corners, of the six lines of a world file, which are for centres."""
    try:
        a, d, b, e, c, f = (float(line.replace(",", ".")) for line in text.split()[:WORLD_NUMBERS])
    except ValueError as error:
        raise MalformedError("a world file has six numbers, a line each", field="world file") from error
    if not all(map(math.isfinite, (a, b, c, d, e, f))) or a * e == b * d:
        raise MalformedError(f"a world file of {(a, d, b, e, c, f)} maps the image onto a line", field="world file")
    return (a, b, c - (a + b) / 2, d, e, f - (d + e) / 2)


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
        rpc = rpc_from_tag(layout.floats(ifd, Tag.RPCCoefficientTag)) if Tag.RPCCoefficientTag in ifd.entries else None
    except JnrrdzError as error:
        return Geo(refused=_warned(error))
    says_point = Tag.GeoKeyDirectory in ifd.entries
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
    if Tag.GeoKeyDirectory not in ifd.entries:
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
