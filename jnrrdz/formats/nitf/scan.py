"""One image, of one segment or of several that are parts of it, to a group: pixels, levels, place, meaning.

May touch the NITF layout, codestreams and the model.

Smaller versions of an image in files of their own beside it: R-sets, `.r1`, `.r2` and so on.

They have the name of the first file with `.r1` in place of `.r0`, or behind it where it has no `.r0`.

May touch the model and the neighbours that the scan was given.  They are looked for beside a local
source, and beside a remote one where that is asked for: each look is a request.
Spec: https://gdal.org/en/stable/drivers/raster/nitf.html (R-sets)

A NITF's image segments to virtual groups: a group each, and what the file says beside its pixels.

May touch the NITF layout, codestreams, the model, and the read-ahead and neighbours it is given.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1), MIL-STD-2500A (NITF 2.0)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from jnrrdz.core.arrays import Node, VirtualArray, VirtualGroup
from jnrrdz.core.crs import Crs
from jnrrdz.core.crs_geokeys import Affine
from jnrrdz.core.georeference import GRID_MAPPING, Georeference, Rpc, grid_mapping, level_affine, spatial
from jnrrdz.core.pyramid import raster_pyramid
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.codestream import find_codestream
from jnrrdz.formats.jpeg2000.scan import level_arrays, read_codestream
from jnrrdz.formats.neighbours import Neighbours, beside
from jnrrdz.formats.nitf.arrays import (
    CODESTREAMS,
    Wanted,
    joined_array,
    joined_images,
    mask_of,
    segment_array,
    whole_image,
)
from jnrrdz.formats.nitf.attributes import Extras, Notes, extras_of, file_attributes, image_attributes
from jnrrdz.formats.nitf.fields import NITF20
from jnrrdz.formats.nitf.georeference import PlaceSources, chipped, geo_of, rpc_of
from jnrrdz.formats.nitf.header import NitfLayout, ReadRange, parse_nitf
from jnrrdz.formats.nitf.image import Mask, NitfImage, colour_attributes, pad_value, parse_image, table_of
from jnrrdz.formats.nitf.tre import Tre, describe_tre, split_tres
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.url import local_path

VARIABLE = "data"
RPCS = {"RPC00A", "RPC00B"}
CHIP = "ICHIPB"


@dataclass(frozen=True, eq=False)
class File:
    """The file that images stand in."""

    read: ReadAhead
    url: str
    options: ScanOptions
    layout: NitfLayout
    extras: Extras

    @property
    def file_tres(self) -> list[Tre]:
        """The extensions of the file header; what is wrong with them is said elsewhere."""
        return split_tres(self.layout.tres + self.extras.of_file(), [])


def image_group(file: File, members: Sequence[NitfImage]) -> VirtualGroup:
    """Return the group of one image: its variable, or a group for each of its levels."""
    image, notes = members[0], Notes()
    about, tres = image_attributes(image, file.extras.of_image(image.segment.number), notes)
    sources = PlaceSources(_within(file), file.file_tres, tres, file.layout.version is NITF20)
    geo = geo_of(whole_image(members), _rpc(tres, notes), sources)
    if len(members) > 1:
        about["segments"] = [one.segment.number for one in members]
    levels = _levels(file, members)
    about |= notes.attributes()
    pyramid = raster_pyramid([_level_group(level, geo, levels[0]) for level in levels], geo.crs)
    return VirtualGroup(pyramid.children, {**about, **pyramid.attributes})


def _within(file: File) -> ReadRange:
    """Return what reads bytes as far as there are such."""
    size = file.layout.size
    return lambda start, stop: file.read(start, stop) if 0 <= start < stop <= size else b""


def _rpc(tres: Sequence[Tre], notes: Notes) -> Rpc | None:
    """Return the sensor's model for the pixels of this image."""
    try:
        rpc = next((rpc_of(tre) for tre in tres if tre.tag in RPCS), None)
    except JnrrdzError as error:
        notes.add([str(error)])
        return None
    chip = next((describe_tre(tre, []).get("fields") for tre in tres if tre.tag == CHIP), None)
    return rpc if rpc is None or chip is None else chipped(rpc, chip)


def _size(arrays: Sequence[VirtualArray]) -> tuple[int, int]:
    return arrays[0].shape[-2], arrays[0].shape[-1]


def _level_group(arrays: Sequence[VirtualArray], geo: Georeference, full: Sequence[VirtualArray]) -> VirtualGroup:
    """Return the group of one level: its variable, others of other sizes, and the grid mapping."""
    here = geo.at_level(_size(full), _size(arrays))
    children: dict[str, Node] = {
        VARIABLE if number == 0 else f"{VARIABLE}_{number}": replace(
            array, attributes={**here.array_attributes(), **array.attributes}
        )
        for number, array in enumerate(arrays)
    }
    return VirtualGroup({**children, **here.variables()}, here.group_attributes(_size(arrays)))


def _levels(file: File, members: Sequence[NitfImage]) -> list[list[VirtualArray]]:
    """Return the arrays of every level, finest first."""
    image = members[0]
    table = table_of(image)
    expand = file.options.expand_palette and table is not None and len(image.bands[0].luts) > 1
    attributes = {"colorinterp": ["red", "green", "blue"]} if expand else colour_attributes(image, table)
    wanted = Wanted(file.url, attributes, table if expand else None)
    if image.compression in CODESTREAMS:
        return _codestream_levels(file, image, wanted)
    if len(members) > 1:
        return [[joined_array(members, wanted)]]
    return [[segment_array(file.read, image, wanted)]]


def _codestream_levels(file: File, image: NitfImage, wanted: Wanted) -> list[list[VirtualArray]]:
    """Return the arrays of a JPEG 2000 codestream, which may stand bare or in a whole JP2."""
    mask = mask_of(file.read, image)
    begin = image.segment.data if mask is None else mask.start
    start, stop, _ = find_codestream(file.read, begin, min(image.segment.stop, file.layout.size))
    windows = read_codestream(file.read, start, stop, file.url, file.options)
    count = len(windows.codestream.siz.components)
    by_size = [
        level_arrays(
            windows,
            components,
            attributes=_of_bands(wanted.attributes, components, count),
            palette=None if wanted.palette is None else wanted.palette.tobytes(),
            overviews=file.options.overviews,
        )
        for components in windows.codestream.component_groups
    ]
    # a level that only some of the components have is none of the image
    levels = [[_padded(array, mask, image) for array in arrays] for arrays in zip(*by_size, strict=False)]
    _check_size(image, levels[0][0])
    return levels


def _of_bands(attributes: Mapping[str, Any], group: Sequence[int], count: int) -> dict[str, Any]:
    """Return the attributes of some of `count` components; what the header says of another number is left out."""
    found = dict(attributes)
    names = found.pop("colorinterp", [])
    if len(names) == count:
        return {"colorinterp": [names[number] for number in group], **found}
    # a palette's colours are those of its one component
    return dict(attributes) if names == ["red", "green", "blue"] and count == 1 else found


def _check_size(image: NitfImage, array: VirtualArray) -> None:
    """Refuse a codestream of another size than the header says: it is not known which is meant."""
    if array.shape[-2:] != (image.rows, image.columns):
        raise MalformedError(
            f"a codestream of {array.shape[-2]} x {array.shape[-1]} pixels for {image.rows} x {image.columns}",
            offset=image.segment.data,
            field=f"{image.what} NROWS, NCOLS",
        )


def _padded(array: VirtualArray, mask: Mask | None, image: NitfImage) -> VirtualArray:
    """Return an array with the pad pixel as its fill value."""
    pad = pad_value(mask, image, array.dtype)
    if pad is None:
        return array
    return replace(array, fill_value=pad, attributes={**array.attributes, "_FillValue": pad})


type ScanFile = Callable[[ReadAhead, str, ScanOptions], VirtualGroup]

MAX_LEVELS = 32
IMAGE, RSETS_VARIABLE = "image_0", "data"


def with_rsets(
    group: VirtualGroup, url: str, options: ScanOptions, neighbours: Neighbours, scan: ScanFile
) -> VirtualGroup:
    """Return a file's group with the files beside it as levels of its first image, where it is an R-set's first."""
    if not options.overviews or not (options.sidecars or local_path(url) is not None):
        return group
    image = group.children.get(IMAGE)
    if not isinstance(image, VirtualGroup) or RSETS_VARIABLE not in image.children:
        return group
    smaller = list(_rsets_levels(image, url, options, neighbours, scan))
    if not smaller:
        return group
    levels = [VirtualGroup({**image.children}, _place(image)), *smaller]
    about = {name: value for name, value in image.attributes.items() if name not in _place(image)}
    levels_group = raster_pyramid(levels, _crs(image))
    pyramid = VirtualGroup(levels_group.children, {**about, **levels_group.attributes})
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


def _rsets_levels(
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
        if not isinstance(level, VirtualGroup) or not isinstance(level.children.get(RSETS_VARIABLE), VirtualArray):
            return
        here = _array(level)
        if not _is_smaller(here, last):
            return
        last = here
        yield _placed(VirtualGroup(level.children, _place(level)), image)


def _array(group: VirtualGroup) -> VirtualArray:
    return cast("VirtualArray", group.children[RSETS_VARIABLE])


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
    children: dict[str, Node] = {**level.children, RSETS_VARIABLE: pixels, GRID_MAPPING: mapping}
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


NITF_IMAGE = "image_"


def scan_nitf(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:
    """Return the group of a NITF: a group for each image segment, `image_0`, `image_1` and so on."""
    try:
        return with_rsets(_file_group(read, url, options), url, options, neighbours, _file_group)
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__


def _file_group(read: ReadAhead, url: str, options: ScanOptions) -> VirtualGroup:
    layout = parse_nitf(read, read.size)
    segments = layout.of("image")
    if not segments:
        raise UnsupportedError("no image segment in it", field="NUMI")
    notes = Notes()
    extras = extras_of(read, layout, notes)
    file = File(read, url, options, layout, extras)
    about = file_attributes(read, layout, extras.of_file(), notes)
    xml = {"xml": extras.xml} if extras.xml else {}
    others = {"extensions": extras.others} if extras.others else {}
    children, refused = _images(file)
    gone = {"refused": refused} if refused else {}
    return VirtualGroup(children, {**about, **xml, **others, **notes.attributes(), **gone})


def _images(file: File) -> tuple[dict[str, Node], list[dict[str, str]]]:
    """Return a group for each image; one that cannot be read is named, unless none can."""
    children: dict[str, Node] = {}
    refused: list[dict[str, str]] = []
    first: JnrrdzError | None = None
    images = []
    for segment in file.layout.of("image"):
        try:
            images.append(parse_image(file.read, file.layout, segment))
        except (MalformedError, UnsupportedError) as error:
            first = first or error
            refused.append({"image": f"{NITF_IMAGE}{segment.number}", "reason": str(error)})
    for number, members in joined_images(images):
        try:
            children[f"{NITF_IMAGE}{number}"] = image_group(file, members)
        except (MalformedError, UnsupportedError) as error:
            first = first or error
            refused.append({"image": f"{NITF_IMAGE}{number}", "reason": str(error)})
    if first is not None and not children:
        raise first
    return children, refused
