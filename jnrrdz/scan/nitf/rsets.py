"""Smaller versions of an image in files of their own beside it: R-sets, `.r0`, `.r1`, `.r2` and so on.

May touch the model and the neighbours that the scan was given.  They are looked for beside a local
source, and beside a remote one where that is asked for: each look is a request.
Spec: https://gdal.org/en/stable/drivers/raster/nitf.html (R-sets)
"""

from collections.abc import Callable, Iterator
from typing import cast

from jnrrdz.errors import JnrrdzError
from jnrrdz.model.array import Node, VirtualArray, VirtualGroup
from jnrrdz.model.conventions import Level, multiscales
from jnrrdz.scan.neighbours import Neighbours, beside
from jnrrdz.scan.options import ScanOptions
from jnrrdz.source.readahead import ReadAhead
from jnrrdz.source.url import local_path

type ScanFile = Callable[[ReadAhead, str, ScanOptions], VirtualGroup]

FULL = ".r0"
MAX_LEVELS = 32
IMAGE, VARIABLE = "image_0", "data"


def with_rsets(
    group: VirtualGroup, url: str, options: ScanOptions, neighbours: Neighbours, scan: ScanFile
) -> VirtualGroup:
    """Return a file's group with the files beside it as levels of its first image, where it is an R-set's first."""
    if not _is_first(url) or not options.overviews or not (options.sidecars or local_path(url) is not None):
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


def _is_first(url: str) -> bool:
    return url.partition("::")[0].partition("?")[0].lower().endswith(FULL)


def _levels(
    image: VirtualGroup, url: str, options: ScanOptions, neighbours: Neighbours, scan: ScanFile
) -> Iterator[VirtualGroup]:
    """Yield the levels that are there, as long as each is smaller than the one before."""
    last = _array(image)
    for number in range(1, MAX_LEVELS):
        place = beside(url, f".r{number}", replace=True)
        read = neighbours.open(place)
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
        yield VirtualGroup(level.children, _place(level))


def _array(group: VirtualGroup) -> VirtualArray:
    return cast("VirtualArray", group.children[VARIABLE])


def _is_smaller(here: VirtualArray, last: VirtualArray) -> bool:
    alike = here.dtype == last.dtype and here.shape[:-2] == last.shape[:-2]
    sizes = list(zip(here.shape[-2:], last.shape[-2:], strict=True))
    return alike and here.shape != last.shape and all(size <= before for size, before in sizes)


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
    shapes = [_array(level).shape[-2:] for level in levels]
    return multiscales(
        [
            Level(
                name=str(number),
                shape_yx=(shape[0], shape[1]),
                scale_yx=(finer[0] / shape[0], finer[1] / shape[1]),
                derived_from=None if number == 0 else str(number - 1),
            )
            for number, (finer, shape) in enumerate(zip([shapes[0], *shapes], shapes, strict=False))
        ]
    )
