"""A codestream, bare or in JP2, JPX or JPH boxes, to virtual groups: a group for each resolution level.

May touch the layouts of JPEG 2000, the model, and the read-ahead that it is given.
Spec: ITU-T T.800, T.814; docs/formats/jpeg2000.md
"""

from collections.abc import Sequence

from jnrrdz.errors import JnrrdzError
from jnrrdz.layout.jp2_boxes import Boxes
from jnrrdz.layout.jpeg2000 import find_codestream, parse_codestream
from jnrrdz.model.array import Node, VirtualGroup
from jnrrdz.scan.codestream import codestream_array, component_groups, level_count
from jnrrdz.scan.jpeg2000.geo import Geo, geo_of
from jnrrdz.scan.jpeg2000.meaning import Meaning, meaning_of
from jnrrdz.scan.neighbours import Neighbours
from jnrrdz.scan.options import ScanOptions
from jnrrdz.scan.windows import Windows
from jnrrdz.source.readahead import ReadAhead
from jnrrdz.source.url import local_path

VARIABLE = "data"


def scan_jpeg2000(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:  # noqa: ARG001  no file beside one is looked for yet
    """Return the group of a file: its only image, or a group for each of its images."""
    far = local_path(url) is None
    try:
        start, stop, boxes = find_codestream(read, 0, read.size)
        spans = [(start, stop)] if boxes is None else boxes.codestreams
        found = [parse_codestream(read, *span, far=far) for span in spans]
        cuts = [Windows(one, read, url, options.precinct_windows or "auto", far=far) for one in found]
        if len(cuts) == 1:
            return _file(cuts[0], boxes, options)
        # what the boxes say, they say of the first one
        images = [_file(one, None if number else boxes, options) for number, one in enumerate(cuts)]
        return VirtualGroup({f"image_{number}": image for number, image in enumerate(images)})
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__


def _file(windows: Windows, boxes: Boxes | None, options: ScanOptions) -> VirtualGroup:
    """Return the group of one codestream: its image, or one for each size that its components have."""
    codestream = windows.codestream
    geo = geo_of(boxes)
    groups = component_groups(codestream)
    images = {
        f"component_{names[0]}" if len(names) == 1 else f"components_{names[0]}_{names[-1]}": _image(
            windows, names, (geo, meaning_of(codestream, boxes, names, options)), options
        )
        for names in groups
    }
    if len(images) == 1:
        return next(iter(images.values()))
    return VirtualGroup(dict(images))


def _image(windows: Windows, names: Sequence[int], known: tuple[Geo, Meaning], options: ScanOptions) -> VirtualGroup:
    """Return the group of some components: their variable, or a group for each level."""
    (geo, meaning), codestream = known, windows.codestream
    count = level_count(codestream, names) if options.overviews else 1
    arrays = [
        codestream_array(
            codestream,
            windows.url,
            level=level,
            components=names,
            attributes=meaning.array | geo.array_attributes(),
            palette=meaning.palette,
            windows=windows,
        )
        for level in range(count)
    ]
    shapes = [(array.shape[-2], array.shape[-1]) for array in arrays]
    levels: list[VirtualGroup] = []
    for array, shape in zip(arrays, shapes, strict=True):
        here = geo.at_level(shapes[0], shape)
        about = {} if levels else meaning.group
        children: dict[str, Node] = {VARIABLE: array, **here.variables()}
        levels.append(VirtualGroup(children, {**about, **here.group_attributes(shape)}))
    if count == 1:
        return levels[0]
    named: dict[str, Node] = {str(number): level for number, level in enumerate(levels)}
    return VirtualGroup(named, geo.levels_attributes(shapes))
