"""Pages that all agree, as one array with a leading axis `page`; each may bring smaller versions of itself.

May touch the TIFF layout, and the pages and planes of this folder.  Anything that does not agree
(shape, samples, type, codec, place on the Earth) leaves the file to the caller, a group for a page.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jnrrdz.formats.tiff.assembly import Series, check_levels
from jnrrdz.formats.tiff.chain import Pages, has_images, main_chain, pages_at
from jnrrdz.formats.tiff.geo import geo_of
from jnrrdz.formats.tiff.meaning import meaning_of
from jnrrdz.formats.tiff.planes import Keyframe, Level
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import Photometric, Tag
from jnrrdz.options import ScanOptions

FEWEST = 2
MOST_KINDS = 64
"""Pages of more kinds than this are no stack."""

SAME = (
    Tag.ColorMap,
    Tag.GDAL_METADATA,
    Tag.ModelPixelScale,
    Tag.ModelTiepoint,
    Tag.ModelTransformation,
    Tag.GeoKeyDirectory,
    Tag.GeoDoubleParams,
    Tag.GeoAsciiParams,
)
"""Tags that do not decide how pixels are decoded, but what they mean and where they lie."""

type Numbers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class _Roles:
    """The numbers of the main pages, and of those that are the first, second, ... smaller version of each."""

    mains: Numbers
    reduced: list[Numbers]


def stack_series(layout: TiffLayout, url: str, options: ScanOptions) -> Series | None:
    """Return the stack that a file's pages are, None where they are not one."""
    first = layout.ifd(layout.first)
    if not first.next or first.next + 2 > layout.size:
        return None
    chain = main_chain(layout)
    if not has_images(layout, chain, FEWEST):
        return None
    pages = Pages(layout, url, chain, kinds=MOST_KINDS)
    roles = None if (pages.kind < 0).any() else _roles(pages)
    if roles is None or not _same_meaning(pages, roles.mains):
        return None
    full = stack_level(pages, roles.mains)
    below = None if full is None else _below(pages, roles) if options.overviews else []
    if full is None or below is None:
        return None
    image = full.key.image
    if options.expand_palette and image.photometric == Photometric.PALETTE:
        return None  # the codec of a palette gives three bands, which a page by itself has room for
    geo = geo_of(layout, image)
    meaning = meaning_of(layout, image, options, unit=geo.height_unit)
    return Series("", check_levels([full, *below]), geo=geo, meaning=meaning, is_ome=False)


def stack_level(pages: Pages, numbers: Numbers, main: Keyframe | None = None) -> Level | None:
    """Return the level that pages of a file make, None where they do not agree."""
    found = gathered(pages, numbers, main)
    if isinstance(found, str):
        return None
    key, offsets, lengths = found
    source = np.zeros(len(numbers), np.int32)
    return Level(key, (("page", len(numbers)),), (pages.url,), source, offsets, lengths)


def gathered(
    pages: Pages, numbers: Numbers, main: Keyframe | None = None
) -> tuple[Keyframe, NDArray[np.int64], NDArray[np.int64]] | str:
    """Return what pages share and their columns, or else what they do not share."""
    kinds = list(dict.fromkeys(pages.kind[numbers].tolist()))
    if -1 in kinds:
        return f"more than {len(pages.kinds)} kinds of pages"
    keys = [
        Keyframe.of(pages.layout, pages.images[kind], pages.url, None if main is None else main.image) for kind in kinds
    ]
    for key in keys[1:]:
        differs = keys[0].difference(key)
        if differs is not None:
            return f"the IFD at {key.image.ifd.offset} has {differs}"
    offsets = np.zeros((len(numbers), keys[0].image.segments), np.int64)
    lengths = np.zeros_like(offsets)
    for kind in kinds:
        places = np.flatnonzero(pages.kind[numbers] == kind)
        rows = pages.row[numbers[places]]
        found = pages.columns(kind)
        offsets[places], lengths[places] = found[0][rows], found[1][rows]
    return keys[0], offsets, lengths


def _roles(pages: Pages) -> _Roles | None:
    """Return which pages are images and which their smaller versions; None unless two agree and all have as many."""
    if any(image.is_mask for image in pages.images):
        return None
    is_reduced = np.array([image.is_reduced for image in pages.images])[pages.kind]
    mains = np.flatnonzero(~is_reduced)
    if len(mains) < FEWEST or mains[0] != 0:
        return None
    steps = np.diff(np.append(mains, len(pages)))
    if (steps != steps[0]).any():
        return None
    return _Roles(mains, [mains + step for step in range(1, int(steps[0]))])


def _same_meaning(pages: Pages, mains: Numbers) -> bool:
    """Whether all pages lie at the same place and mean the same, byte for byte."""
    kinds = dict.fromkeys(pages.kind[mains].tolist())
    images = [pages.images[kind] for kind in kinds]
    return len({tuple(pages.layout.raw(image.ifd, tag) for tag in SAME) for image in images}) == 1


def _below(pages: Pages, roles: _Roles) -> list[Level] | None:
    """Return the smaller versions of a stack: pages that follow each page, then SubIFDs; None where they disagree."""
    levels: list[Level | None] = []
    main = Keyframe.of(pages.layout, pages.images[int(pages.kind[roles.mains[0]])], pages.url)
    levels = [stack_level(pages, numbers, main) for numbers in roles.reduced]
    subs = sub_ifds(pages, roles.mains)
    if subs is None:
        return None
    for column in subs.T:
        below = pages_at(pages.layout, pages.url, column.tolist(), kinds=MOST_KINDS)
        if (below.kind < 0).any() or not all(image.is_reduced and not image.is_mask for image in below.images):
            return None
        levels.append(stack_level(below, np.arange(len(below)), main))
    found = [level for level in levels if level is not None]
    if len(found) < len(levels):
        return None
    return sorted(found, key=lambda level: -level.key.image.width * level.key.image.length)


def sub_ifds(pages: Pages, numbers: Numbers) -> NDArray[np.int64] | None:
    """Return where the SubIFDs of some pages are, a row a page; None where they have not as many each."""
    kinds = list(dict.fromkeys(pages.kind[numbers].tolist()))
    found = {kind: pages.sub_ifds(kind) for kind in kinds}
    widths = {0 if column is None else column.shape[1] for column in found.values()}
    if len(widths) != 1:
        return None
    result = np.zeros((len(numbers), widths.pop()), np.int64)
    for kind, column in found.items():
        places = np.flatnonzero(pages.kind[numbers] == kind)
        if column is not None:
            result[places] = column[pages.row[numbers[places]]]
    return None if (result < 0).any() else result
