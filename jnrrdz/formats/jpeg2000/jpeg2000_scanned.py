"""A codestream, bare or in JP2, JPX or JPH boxes, to virtual groups: a group for each resolution level.

May touch the layouts of JPEG 2000, the model, and the read-ahead that it is given.
Spec: ITU-T T.800, T.814; docs/formats/jpeg2000.md
"""

from collections.abc import Sequence

from jnrrdz.core.array import Node, VirtualArray, VirtualGroup
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.jpeg2000.codestream_scanned import codestream_array, component_groups, level_count
from jnrrdz.formats.jpeg2000.composite import composite_array, composite_levels, is_converted
from jnrrdz.formats.jpeg2000.geo import Geo, geo_of
from jnrrdz.formats.jpeg2000.jp2_boxes import Boxes
from jnrrdz.formats.jpeg2000.jpeg2000_header import find_codestream, parse_codestream
from jnrrdz.formats.jpeg2000.meaning import Meaning, meaning_of
from jnrrdz.formats.jpeg2000.windows import Windows
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.url import local_path

VARIABLE = "data"
COMPOSITE = "composite"


def scan_jpeg2000(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:  # noqa: ARG001  no file beside one is looked for yet
    """Return the group of a file: its only image, or a group for each of its images."""
    far = local_path(url) is None
    try:
        start, stop, boxes = find_codestream(read, 0, read.size)
        spans = [(start, stop)] if boxes is None else boxes.codestreams
        heads = options.precinct_windows == "always"
        found = [parse_codestream(read, *span, far=far, heads=heads) for span in spans]
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
    # the first group is what a reader shows who names none
    return VirtualGroup({**_composite(windows, boxes, geo, options), **images})


def _composite(windows: Windows, boxes: Boxes | None, geo: Geo, options: ScanOptions) -> dict[str, Node]:
    """Return the group of all components together, where they can be brought to one grid."""
    codestream = windows.codestream
    count = composite_levels(codestream) if options.overviews else min(composite_levels(codestream), 1)
    if not count:
        return {}
    meaning = meaning_of(codestream, boxes, range(len(codestream.siz.components)), options)
    attributes, is_rgb = meaning.array | geo.array_attributes(), is_converted(codestream, boxes)
    arrays = [
        composite_array(codestream, windows.url, level=level, is_rgb=is_rgb, attributes=attributes)
        for level in range(count)
    ]
    return {COMPOSITE: _levels(arrays, geo, meaning)}


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
    siz = codestream.siz
    full = siz.y.size(min(one.dy for one in siz.components)), siz.x.size(min(one.dx for one in siz.components))
    return _levels(arrays, geo.at_level(full, (arrays[0].shape[-2], arrays[0].shape[-1])), meaning)


def _levels(arrays: Sequence[VirtualArray], geo: Geo, meaning: Meaning) -> VirtualGroup:
    """Return the group of the only array, or of a group for each level, finest first."""
    shapes = [(array.shape[-2], array.shape[-1]) for array in arrays]
    levels: list[VirtualGroup] = []
    for array, shape in zip(arrays, shapes, strict=True):
        here = geo.at_level(shapes[0], shape)
        about = {} if levels else meaning.group
        children: dict[str, Node] = {VARIABLE: array, **here.variables()}
        levels.append(VirtualGroup(children, {**about, **here.group_attributes(shape)}))
    if len(levels) == 1:
        return levels[0]
    named: dict[str, Node] = {str(number): level for number, level in enumerate(levels)}
    return VirtualGroup(named, geo.levels_attributes(shapes))
