"""A NITF's image segments to virtual groups: a group each, and what the file says beside its pixels.

May touch the NITF layout, codestreams, the model, and the read-ahead and neighbours it is given.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1), MIL-STD-2500A (NITF 2.0)
"""

from jnrrdz.core.array import Node, VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.nitf.attributes import Notes, extras_of, file_attributes
from jnrrdz.formats.nitf.groups import File, image_group
from jnrrdz.formats.nitf.header import parse_nitf
from jnrrdz.formats.nitf.joined import joined_images
from jnrrdz.formats.nitf.nitf_image import parse_image
from jnrrdz.formats.nitf.rsets import with_rsets
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead

IMAGE = "image_"


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
            refused.append({"image": f"{IMAGE}{segment.number}", "reason": str(error)})
    for number, members in joined_images(images):
        try:
            children[f"{IMAGE}{number}"] = image_group(file, members)
        except (MalformedError, UnsupportedError) as error:
            first = first or error
            refused.append({"image": f"{IMAGE}{number}", "reason": str(error)})
    if first is not None and not children:
        raise first
    return children, refused
