"""OME-TIFF to series: planes gathered from the IFDs, and the files, that the OME-XML names.

May touch the TIFF layout, neighbours of the source, and the pages and planes of this folder.  A
plane that no block of the XML covers is missing; a file that it names and that is not there is an
error, because its planes are not known to be absent.
Spec: https://docs.openmicroscopy.org/ome-model/6.3.1/ome-tiff/specification.html
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.array import VirtualGroup
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.tiff.assembly import Series, check_levels, file_group, refusal
from jnrrdz.formats.tiff.axes import NAMES
from jnrrdz.formats.tiff.chain import Pages, main_chain, pages_at
from jnrrdz.formats.tiff.description import TEXTS, bounded_text
from jnrrdz.formats.tiff.meaning import meaning_of
from jnrrdz.formats.tiff.ome_xml import FIELD, Block, OmeImage, parse_ome
from jnrrdz.formats.tiff.planes import Keyframe, Level
from jnrrdz.formats.tiff.stack import gathered, sub_ifds
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Tag
from jnrrdz.options import ScanOptions

MOST_KINDS = 1 << 12
DOCUMENT = "ome_xml"
"""The attribute that holds the XML as it is, where whole documents are asked for."""

DESCRIPTION = TEXTS[Tag.ImageDescription]
MAX_MISSING = 1 << 24
"""Chunks of planes that no file holds: more are no acquisition that was cut short."""

type Numbers = NDArray[np.intp]
type Parts = list[tuple[Pages, Numbers]]
"""The pages of each file, and which of them every plane is."""


@dataclass
class Files:
    """The files of a series by name, each opened once."""

    layout: TiffLayout
    url: str
    neighbours: Neighbours
    opened: dict[str | None, Pages] = field(default_factory=dict)

    def pages(self, name: str | None) -> Pages:
        """Return the pages of a file of the same directory; None is the file itself."""
        if name is not None and name == _name_of(self.url):
            name = None
        if name not in self.opened:
            self.opened[name] = self._open(name)
        return self.opened[name]

    def _open(self, name: str | None) -> Pages:
        if name is None:
            return Pages(self.layout, self.url, main_chain(self.layout), kinds=MOST_KINDS)
        url = _beside(self.url, name)
        read = self.neighbours.open(url)
        if read is None:
            raise UnsupportedError(f"planes are in {name!r}, which is not beside it", url=self.url, field=FIELD)
        layout = TiffLayout(read, read.size)
        return Pages(layout, read.source.url, main_chain(layout), kinds=MOST_KINDS)


def _name_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def _beside(url: str, name: str) -> str:
    path, question, query = url.partition("?") if url.lower().startswith("http") else (url, "", "")
    folder, slash, _ = path.rpartition("/")
    return f"{folder}{slash}{name}{question}{query}"


def ome_group(layout: TiffLayout, url: str, neighbours: Neighbours, options: ScanOptions) -> VirtualGroup | None:
    """Return the group of an OME-TIFF, None where its XML describes no plane of a TIFF."""
    files = Files(layout, url, neighbours)
    text = bounded_text(layout, layout.ifd(layout.first), Tag.ImageDescription) or ""
    series: list[Series] = []
    refused: list[dict[str, str]] = []
    for number, image in enumerate(parse_ome(text)):
        try:
            series.append(_series(files, image, options))
        except UnsupportedError as error:
            if number == 0:
                raise
            refused.append(refusal(image.name or f"series_{number}", error))
    if not series:
        return None
    whole = file_group(series, refused)
    return VirtualGroup(whole.children, {**whole.attributes, DOCUMENT: text}) if options.embedded else whole


def _series(files: Files, image: OmeImage, options: ScanOptions) -> Series:
    parts = _parts(files, image)
    full = _level(image, parts, None)
    below = [_level(image, lower, full.key) for lower in _below(parts)] if options.overviews else []
    meaning = meaning_of(parts[0][0].layout, full.key.image, replace(options, expand_palette=False, embedded=False))
    meaning.group.pop(DESCRIPTION, None)
    return Series(image.name, check_levels([full, *below]), image.axes, image.channels, meaning=meaning)


def _parts(files: Files, image: OmeImage) -> Parts:
    """Return for every file which of its pages each plane is, -1 for a plane that it does not hold."""
    total = prod(image.sizes)
    found: dict[str, tuple[Pages, Numbers]] = {}
    for block in image.blocks:
        pages, start = files.pages(block.file), _start(image, block)
        count = _count(block, pages, total - start)
        for _, other in found.values():
            other[start : start + count] = -1
        _, numbers = found.setdefault(pages.url, (pages, np.full(total, -1, np.intp)))
        numbers[start : start + count] = np.arange(block.ifd, block.ifd + count)
    held = [(pages, numbers) for pages, numbers in found.values() if (numbers >= 0).any()]
    if not held:
        raise MalformedError(f"no plane of image {image.name!r} is there", field=FIELD)
    return held


def _start(image: OmeImage, block: Block) -> int:
    """Return a block's first plane in C order of the leading axes."""
    if any(first >= size for first, size in zip(block.first, image.sizes, strict=True)):
        raise MalformedError(f"planes at {block.first} of {image.sizes} along {image.lead}", field=FIELD)
    return int(np.ravel_multi_index(block.first, image.sizes))


def _count(block: Block, pages: Pages, room: int) -> int:
    """Return how many planes of a block there are; an acquisition that was cut short has fewer than its XML says."""
    wanted = min(len(pages) if block.count is None else block.count, room)
    there = max(min(wanted, len(pages) - block.ifd), 0)
    if there < wanted and block.count is not None:
        warnings.warn(
            f"OME-XML wants IFDs {block.ifd} to {block.ifd + wanted - 1} of {pages.url}, which has {len(pages)}: "
            "the others are missing",
            stacklevel=2,
        )
    return there


def _level(image: OmeImage, parts: Parts, main: Keyframe | None) -> Level:
    """Return one level of an image, from the pages of all its files."""
    found = [_gathered(image, pages, numbers[numbers >= 0], main) for pages, numbers in parts]
    first, planes = found[0][0], prod(image.sizes)
    there = sum(int((numbers >= 0).sum()) for _, numbers in parts)
    if (planes - there) * first.image.segments > MAX_MISSING:
        raise MalformedError(f"image {image.name!r} of {planes} planes, of which {there} are there", field=FIELD)
    offsets, lengths = np.zeros((2, planes, first.image.segments), np.int64)
    source = np.zeros(planes, np.int32)
    for place, ((pages, numbers), (key, starts, sizes)) in enumerate(zip(parts, found, strict=True)):
        differs = first.difference(key)
        if differs is not None:
            raise _differing(image, f"{pages.url} has {differs}")
        held = numbers >= 0
        offsets[held], lengths[held], source[held] = starts, sizes, place
    lead = tuple((NAMES[axis], size) for axis, size in zip(image.lead, image.sizes, strict=True))
    return Level(first, lead, tuple(pages.url for pages, _ in parts), source, offsets, lengths)


def _gathered(
    image: OmeImage, pages: Pages, numbers: Numbers, main: Keyframe | None
) -> tuple[Keyframe, NDArray[np.int64], NDArray[np.int64]]:
    found = gathered(pages, numbers, main)
    if isinstance(found, str):
        raise _differing(image, found)
    return found


def _differing(image: OmeImage, what: str) -> UnsupportedError:
    return UnsupportedError(f"image {image.name!r} is of pages that differ: {what}", field="IFD")


def _below(parts: Parts) -> Iterator[Parts]:
    """Yield the pages of every smaller version, one level after the other; nothing where planes have not as many."""
    columns = [sub_ifds(pages, numbers[numbers >= 0]) for pages, numbers in parts]
    depths = {0 if column is None else column.shape[1] for column in columns}
    for depth in range(depths.pop() if len(depths) == 1 else 0):
        yield [
            _lower(pages, numbers, column[:, depth])
            for (pages, numbers), column in zip(parts, columns, strict=True)
            if column is not None
        ]


def _lower(pages: Pages, numbers: Numbers, offsets: NDArray[np.int64]) -> tuple[Pages, Numbers]:
    """Return the pages at SubIFDs, and which of them each plane is."""
    below = np.full_like(numbers, -1)
    below[numbers >= 0] = np.arange(len(offsets))
    return pages_at(pages.layout, pages.url, offsets.tolist(), kinds=MOST_KINDS), below
