"""One image, of one segment or of several that are parts of it, to a group: pixels, levels, place, meaning.

May touch the NITF layout, codestreams and the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jnrrdz.core.array import Node, VirtualArray, VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.jpeg2000.codestream_scanned import codestream_array, component_groups, level_count
from jnrrdz.formats.jpeg2000.jpeg2000_header import find_codestream, parse_codestream
from jnrrdz.formats.jpeg2000.windows import Windows
from jnrrdz.formats.nitf.arrays import CODESTREAMS, Wanted, mask_of, segment_array
from jnrrdz.formats.nitf.attributes import Extras, Notes, image_attributes
from jnrrdz.formats.nitf.colours_nitf import colour_attributes, table_of
from jnrrdz.formats.nitf.geo import Geo, geo_of, levels_attributes
from jnrrdz.formats.nitf.header import NitfLayout, ReadRange
from jnrrdz.formats.nitf.joined import joined_array, whole_image
from jnrrdz.formats.nitf.nitf20 import NITF20
from jnrrdz.formats.nitf.nitf_image import NitfImage
from jnrrdz.formats.nitf.nitf_mask import Mask
from jnrrdz.formats.nitf.nitf_rpc import Rpc, chipped, rpc_of
from jnrrdz.formats.nitf.nitf_tre import Tre, described, split_tres
from jnrrdz.formats.nitf.places import Said
from jnrrdz.formats.nitf.samples import pad_value
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
    said = Said(_within(file), file.file_tres, tres, file.layout.version is NITF20)
    geo = geo_of(whole_image(members), _rpc(tres, notes), said)
    if len(members) > 1:
        about["segments"] = [one.segment.number for one in members]
    levels = _levels(file, members)
    about |= notes.attributes()
    if len(levels) == 1:
        whole = _level_group(levels[0], geo, levels[0])
        return VirtualGroup(whole.children, {**about, **whole.attributes})
    children: dict[str, Node] = {
        str(number): _level_group(level, geo, levels[0]) for number, level in enumerate(levels)
    }
    return VirtualGroup(children, {**about, **levels_attributes(geo, [_size(level) for level in levels])})


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
    chip = next((described(tre, []).get("fields") for tre in tres if tre.tag == CHIP), None)
    return rpc if rpc is None or chip is None else chipped(rpc, chip)


def _size(arrays: Sequence[VirtualArray]) -> tuple[int, int]:
    return arrays[0].shape[-2], arrays[0].shape[-1]


def _level_group(arrays: Sequence[VirtualArray], geo: Geo, full: Sequence[VirtualArray]) -> VirtualGroup:
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
    far = local_path(file.url) is None
    heads = file.options.precinct_windows == "always"
    codestream = parse_codestream(file.read, start, stop, far=far, heads=heads)
    windows = Windows(codestream, file.read, file.url, file.options.precinct_windows or "auto", far=far)
    palette = None if wanted.palette is None else wanted.palette.tobytes()
    count = level_count(codestream) if file.options.overviews else 1
    found = []
    for level in range(count):
        arrays = [
            codestream_array(
                codestream,
                file.url,
                level=level,
                components=group,
                attributes=_of_bands(wanted.attributes, group, len(codestream.siz.components)),
                palette=palette,
                windows=windows,
            )
            for group in component_groups(codestream)
        ]
        found.append([_padded(array, mask, image) for array in arrays])
    _check_size(image, found[0][0])
    return found


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
