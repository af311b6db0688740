"""Where a TIFF lies on the Earth: its tags, and the files beside it (`.aux.xml`, world files, RPC files).

What stands beside the file goes before its own tags, as GDAL has it; a world file counts only where nothing
else gives an affine, and RPCs of an `.aux.xml` only where neither the tag nor an RPC file has some.  The files
are looked for only when asked: each costs a request where nothing is there.
What cannot be understood never costs the pixels: it is named in an attribute and a warning.
Rational polynomial coefficients are 92 doubles in a tag of their own, or text beside the file.
Spec: https://docs.ogc.org/is/19-008r4/19-008r4.html (GeoTIFF), http://geotiff.maptools.org/rpc_prop.html,
https://gdal.org/en/stable/drivers/raster/wld.html,
https://gdal.org/en/stable/user/raster_data_model.html#pam-gdal-persistent-auxiliary-metadata
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from jnrrdz.core.crs import crs_from_geokeys, crs_from_wkt
from jnrrdz.core.crs_geokeys import Affine, GeoKeys, parse_geokeys, placement
from jnrrdz.core.georeference import Georeference, Rpc
from jnrrdz.core.limits import XML_BYTES
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.neighbours import Neighbours, beside
from jnrrdz.formats.rpc_files import POLYNOMIALS, RPB, RPC_TXT, SINGLE, TERMS, find_rpc, parse_rpc_items
from jnrrdz.formats.tiff.gdal_metadata import PAM, GdalMetadata, parse_pam
from jnrrdz.formats.tiff.image import TiffImage
from jnrrdz.formats.tiff.structure import Ifd, TiffLayout
from jnrrdz.formats.tiff.tags import Tag

COUNT = len(SINGLE) + TERMS * len(POLYNOMIALS)
FIELD = "RPCCoefficientTag"


def rpc_from_tag(values: Sequence[float]) -> Rpc:
    """Return the coefficients that the tag holds."""
    if len(values) != COUNT:
        raise MalformedError(f"{len(values)} numbers where {COUNT} belong", field=FIELD)
    if not all(map(math.isfinite, values)):
        raise MalformedError("a coefficient that is no finite number", field=FIELD)
    rpc: Rpc = dict(zip(SINGLE, map(float, values), strict=False))
    for index, name in enumerate(POLYNOMIALS):
        start = len(SINGLE) + index * TERMS
        rpc[name] = [float(number) for number in values[start : start + TERMS]]
    return rpc


WORLD_NUMBERS = 6
WORLD_BYTES = 4096


@dataclass
class Sidecars:
    """What the files beside a source say, each None where there is none, and why some could not be read."""

    pam: GdalMetadata | None = None
    world: Affine | None = None
    rpc: Rpc | None = None
    refused: list[str] = field(default_factory=list)


def sidecars_of(url: str, neighbours: Neighbours) -> Sidecars:
    """Return what stands beside a TIFF, as GDAL looks for it."""
    sidecars = Sidecars()
    path = beside(url, PAM)
    try:
        text = _text(neighbours, path, XML_BYTES)
        sidecars.pam = None if text is None else parse_pam(text)
    except JnrrdzError as error:
        _refuse(sidecars, error.at(url=path))
    name = url.partition("::")[0].partition("?")[0].rpartition("/")[2]
    ending = name.rpartition(".")[2] if "." in name else ""
    # `.tfw`, `.tifw`, `.wld`, in the case of the image's ending
    for extension in (f"{ending[0]}{ending[-1]}w", f"{ending}w", "wld") if ending else ():
        path = beside(url, f".{extension.upper() if ending.isupper() else extension}", replace=True)
        try:
            text = _text(neighbours, path, WORLD_BYTES)
            if text is not None:
                sidecars.world = world_affine(text)
                break
        except JnrrdzError as error:
            _refuse(sidecars, error.at(url=path))
    sidecars.rpc, refused = find_rpc(url, neighbours, (*RPB, *RPC_TXT))
    sidecars.refused += refused
    return sidecars


def _refuse(sidecars: Sidecars, error: JnrrdzError) -> None:
    warnings.warn(f"a file beside the image is left out: {error}", stacklevel=3)
    sidecars.refused.append(str(error))


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


def world_affine(text: str) -> Affine:
    """Return the affine, for pixel corners, of the six lines of a world file, which are for centres."""
    try:
        a, d, b, e, c, f = (float(line.replace(",", ".")) for line in text.split()[:WORLD_NUMBERS])
    except ValueError as error:
        raise MalformedError("a world file has six numbers, a line each", field="world file") from error
    if not all(map(math.isfinite, (a, b, c, d, e, f))) or a * e == b * d:
        raise MalformedError(f"a world file of {(a, d, b, e, c, f)} maps the image onto a line", field="world file")
    return (a, b, c - (a + b) / 2, d, e, f - (d + e) / 2)


def geo_of(layout: TiffLayout, image: TiffImage, beside: Sidecars | None = None) -> Georeference:
    """Return where an image lies, as far as its tags and the files beside it can be understood."""
    geo, beside = _by_tags(layout, image.ifd), beside or Sidecars()
    if beside.pam is not None:
        try:
            geo = _by_pam(geo, beside.pam)
        except JnrrdzError as error:
            geo = replace(geo, refused=_warned(error))
    if geo.affine is None and not geo.gcps and beside.world is not None:
        geo = replace(geo, affine=beside.world)
    return geo if beside.rpc is None else replace(geo, rpc=beside.rpc)


def _by_tags(layout: TiffLayout, ifd: Ifd) -> Georeference:
    """Return where an image lies, as its tags say."""
    keys, crs, refused = GeoKeys(), None, None
    try:
        if Tag.GeoKeyDirectory in ifd.entries:
            text = (layout.raw(ifd, Tag.GeoAsciiParams) or b"").decode("latin-1")
            numbers, doubles = layout.ints(ifd, Tag.GeoKeyDirectory), layout.floats(ifd, Tag.GeoDoubleParams)
            keys = parse_geokeys(numbers, doubles, text)
    except JnrrdzError as error:
        refused = _warned(error)
    try:
        scale, tiepoints, matrix = (
            layout.floats(ifd, tag) for tag in (Tag.ModelPixelScale, Tag.ModelTiepoint, Tag.ModelTransformation)
        )
        place = placement(keys, scale, tiepoints, matrix)
        rpc = rpc_from_tag(layout.floats(ifd, Tag.RPCCoefficientTag)) if Tag.RPCCoefficientTag in ifd.entries else None
    except JnrrdzError as error:
        return Georeference(refused=_warned(error))
    try:
        crs = crs_from_geokeys(keys)
    except JnrrdzError as error:
        refused = _warned(error)
    pixel: Literal["Area", "Point"] = "Point" if place.is_point else "Area"
    registration = pixel if Tag.GeoKeyDirectory in ifd.entries else None
    return Georeference(crs, place.affine, place.gcps, rpc, registration, refused)


def _by_pam(geo: Georeference, pam: GdalMetadata) -> Georeference:
    """Return where an image lies with what its `.aux.xml` says of it."""
    if pam.affine is not None:
        geo = replace(geo, affine=pam.affine, gcps=())
    elif pam.gcps:
        geo = replace(geo, affine=None, gcps=pam.gcps)
    point = pam.items.get("", {}).get("AREA_OR_POINT")
    if point is not None:
        geo = replace(geo, registration="Point" if point == "Point" else "Area")
    crs = geo.crs if pam.wkt is None else crs_from_wkt(pam.wkt, PAM)
    # of coefficients those of the tag go first, as GDAL has it
    has_rpc = geo.rpc is None and "RPC" in pam.items
    return replace(geo, crs=crs, rpc=parse_rpc_items(pam.items["RPC"]) if has_rpc else geo.rpc)


def _warned(error: JnrrdzError) -> str:
    warnings.warn(f"the georeference is left out: {error}", stacklevel=3)
    return str(error)
