"""Files beside a TIFF that say where it lies and what it means: `.aux.xml` and world files.

May touch the layouts and the neighbours that the scan was given.  They are looked for only when
asked: each costs a request where nothing is there.  What is wrong in one never costs the pixels.
Spec: https://gdal.org/en/stable/drivers/raster/wld.html,
https://gdal.org/en/stable/user/raster_data_model.html#pam-gdal-persistent-auxiliary-metadata
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from jnrrdz.core.geokeys import Affine
from jnrrdz.core.xml_tree import MAX_BYTES
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.neighbours import Neighbours, beside
from jnrrdz.formats.tiff.gdal_metadata import PAM, GdalMetadata, parse_pam

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
