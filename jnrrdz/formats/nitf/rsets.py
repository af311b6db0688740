"""Smaller versions of an image in files of their own beside it: R-sets, `.r1`, `.r2` and so on.

They have the name of the first file with `.r1` in place of `.r0`, or behind it where it has no `.r0`.

May touch the model and the neighbours that the scan was given.  They are looked for beside a local
source, and beside a remote one where that is asked for: each look is a request.
Spec: https://gdal.org/en/stable/drivers/raster/nitf.html (R-sets)
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

from jnrrdz.core.array import Node, VirtualArray, VirtualGroup
from jnrrdz.core.crs import Crs
from jnrrdz.core.georeference import GRID_MAPPING, Affine, Level, grid_mapping, level_affine, multiscales, spatial
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.neighbours import Neighbours, beside
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.url import local_path

type ScanFile = Callable[[ReadAhead, str, ScanOptions], VirtualGroup]

MAX_LEVELS = 32
IMAGE, VARIABLE = "image_0", "data"


def with_rsets(
    group: VirtualGroup, url: str, options: ScanOptions, neighbours: Neighbours, scan: ScanFile
) -> VirtualGroup:
    """Return a file's group with the files beside it as levels of its first image, where it is an R-set's first."""
    if not options.overviews or not (options.sidecars or local_path(url) is not None):
        return group
    image = group.children.get(IMAGE)
    if not isinstance(image, VirtualGroup) or VARIABLE not in image.children:
        return group
    smaller = list(_levels(image, url, options, neighbours, scan))
    if not smaller:
        return group
    levels = [VirtualGroup({**image.children}, _place(image)), *smaller]
    children: dict[str, Node] = {str(number): level for number, level in enumerate(levels)}
    about = {name: value for name, value in image.attributes.items() if name not in _place(image)}
    pyramid = VirtualGroup(children, {**about, **_multiscales(levels)})
    return VirtualGroup({**group.children, IMAGE: pyramid}, group.attributes)


def _places(url: str, number: int) -> list[str]:
    """Return where a smaller version may stand: the name's ending in the case that it has."""
    path = url.partition("::")[0]
    ending = (path.partition("?")[0] if "://" in path else path).rpartition(".")[2]
    if ending in {"r0", "R0"}:
        return [beside(url, f".{ending[0]}{number}", replace=True)]
    if ending[:1] in {"r", "R"} and ending[1:].isdigit():  # itself one
        return []
    return [beside(url, f".{letter}{number}") for letter in ("rR" if ending.isupper() else "r")]


def _levels(
    image: VirtualGroup, url: str, options: ScanOptions, neighbours: Neighbours, scan: ScanFile
) -> Iterator[VirtualGroup]:
    """Yield the levels that are there, as long as each is smaller than the one before."""
    last = _array(image)
    for number in range(1, MAX_LEVELS):
        there = ((place, neighbours.open(place)) for place in _places(url, number))
        place, read = next(((place, read) for place, read in there if read is not None), ("", None))
        if read is None:
            return
        try:
            level = scan(read, place, options).children.get(IMAGE)
        except JnrrdzError as error:
            raise error.at(url=place) from error.__cause__
        if not isinstance(level, VirtualGroup) or not isinstance(level.children.get(VARIABLE), VirtualArray):
            return
        here = _array(level)
        if not _is_smaller(here, last):
            return
        last = here
        yield _placed(VirtualGroup(level.children, _place(level)), image)


def _array(group: VirtualGroup) -> VirtualArray:
    return cast("VirtualArray", group.children[VARIABLE])


def _is_smaller(here: VirtualArray, last: VirtualArray) -> bool:
    alike = here.dtype == last.dtype and here.shape[:-2] == last.shape[:-2]
    sizes = list(zip(here.shape[-2:], last.shape[-2:], strict=True))
    return alike and here.shape != last.shape and all(size <= before for size, before in sizes)


def _placed(level: VirtualGroup, image: VirtualGroup) -> VirtualGroup:
    """Return a level with the image's place, in its own pixels, where it does not say where it lies."""
    full, crs = _affine(image), _crs(image)
    if GRID_MAPPING in level.children or full is None or crs is None:
        return level
    shape, array = _shape(level), _array(level)
    affine = level_affine(full, _shape(image), shape)
    mapping = replace(cast("VirtualArray", image.children[GRID_MAPPING]), attributes=grid_mapping(crs, affine))
    pixels = replace(array, attributes={"grid_mapping": GRID_MAPPING, **array.attributes})
    children: dict[str, Node] = {**level.children, VARIABLE: pixels, GRID_MAPPING: mapping}
    return VirtualGroup(children, {**level.attributes, **spatial(shape, affine, crs)})


def _shape(group: VirtualGroup) -> tuple[int, int]:
    rows, columns = _array(group).shape[-2:]
    return rows, columns


def _affine(group: VirtualGroup) -> Affine | None:
    found = group.attributes.get("spatial:transform")
    return None if found is None else cast("Affine", tuple(found))


def _crs(group: VirtualGroup) -> Crs | None:
    mapping = group.children.get(GRID_MAPPING)
    wkt = mapping.attributes.get("spatial_ref") if isinstance(mapping, VirtualArray) else None
    return None if wkt is None else Crs(wkt, group.attributes.get("proj:code"))


def _place(group: VirtualGroup) -> dict[str, object]:
    """Return the attributes that say where a level lies."""
    kept = (
        "proj:",
        "spatial:",
        "zarr_conventions",
        "rpc",
        "georeference_refused",
        "georeference_remark",
        "AREA_OR_POINT",
    )
    return {name: value for name, value in group.attributes.items() if name.startswith(kept)}


def _multiscales(levels: list[VirtualGroup]) -> dict[str, object]:
    shapes = [_shape(level) for level in levels]
    found = [
        Level(
            name=str(number),
            shape_yx=shape,
            affine=_affine(level),
            scale_yx=(finer[0] / shape[0], finer[1] / shape[1]),
            derived_from=None if number == 0 else str(number - 1),
        )
        for number, (level, finer, shape) in enumerate(zip(levels, [shapes[0], *shapes], shapes, strict=False))
    ]
    return multiscales(found, _crs(levels[0]))
