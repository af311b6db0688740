"""Which TIFFs are series: microscopy formats by their first IFD, and stacks of pages that all agree.

May touch the TIFF layout and the modules of this folder.  The first IFD alone decides about the
formats, by tags and by the beginnings of texts that tifffile goes by too; an ordinary TIFF of one
image costs no further read.
"""

from jnrrdz.core.array import VirtualGroup
from jnrrdz.errors import MalformedError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.tiff.assembly import file_group
from jnrrdz.formats.tiff.ndpi import NdpiLayout, ndpi_layout
from jnrrdz.formats.tiff.stack import stack_series
from jnrrdz.formats.tiff.structure import Ifd, TiffLayout
from jnrrdz.formats.tiff.tags import Tag
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead

BY_TAG = {
    34412: "lsm",
    33628: "stk",
    34362: "fluoview",
    51123: "micromanager",
    65420: "ndpi",
    43314: "nih",
    33560: "sis",
    33471: "sis",
}
"""Private tags that only one format has."""

BY_TEXT = {
    Tag.ImageDescription: {
        "ImageJ=": "imagej",
        '{"shape"': "shaped",
        "shape=(": "shaped",
        "Aperio ": "svs",
        "Mikroscan Image Structure": "mikroscan",
        "Motic ": "motic",
        "state.": "scanimage",
    },
    Tag.Software: {
        "SI.": "scanimage",
        "PerkinElmer-QPI": "qpi",
        "Philips DP": "philips",
        "IndicaLabsImageWriter": "indica",
        "MedScan": "trestle",
        "ScanOutputManager": "bif",
    },
    Tag.Make: {"Huron ": "huron"},
}
"""How a tag's text begins in the files of a format."""

BY_END = {"OME>": "ome", "</scn>": "scn"}
"""How ImageDescription ends."""

GEOREFERENCED = {Tag.GeoKeyDirectory, Tag.ModelPixelScale, Tag.ModelTiepoint, Tag.ModelTransformation}


def series_group(
    read: ReadAhead, layout: TiffLayout, url: str, options: ScanOptions, neighbours: Neighbours
) -> VirtualGroup | None:
    """Return the group of a file that is a series or a stack, None for any other TIFF."""
    layout = ndpi_layout(read, layout) or layout
    kind = kind_of(layout, layout.ifd(layout.first)) if layout.first else None
    found: VirtualGroup | None = None
    # imported here: most TIFFs are neither, and a batch's workers start sooner
    if kind == "ome":
        from jnrrdz.formats.tiff.ome import ome_group  # noqa: PLC0415

        found = ome_group(layout, url, neighbours, options)
    elif kind is not None:
        from jnrrdz.formats.tiff.vendor import vendor_group  # noqa: PLC0415

        found = vendor_group(read, layout, url, kind, options)
    if found is not None or not layout.first or isinstance(layout, NdpiLayout):
        return found
    stack = stack_series(layout, url, options)
    return None if stack is None else file_group([stack])


def kind_of(layout: TiffLayout, first: Ifd) -> str | None:
    """Return the format that the first IFD speaks of."""
    if any(tag in first for tag in GEOREFERENCED):
        return None  # a map, whatever wrote it
    for tag, kind in BY_TAG.items():
        if tag in first:
            return kind
    for tag, beginnings in BY_TEXT.items():
        text = _text(layout, first, tag)
        for beginning, kind in beginnings.items():
            if text.startswith(beginning):
                return kind
    text = _text(layout, first, Tag.ImageDescription)[-64:].strip()
    return next((kind for end, kind in BY_END.items() if text.endswith(end)), None)


def _text(layout: TiffLayout, first: Ifd, tag: int) -> str:
    """Return a text; one that cannot be read says nothing of the format, and costs no pixels."""
    try:
        return layout.text(first, tag) or ""
    except MalformedError:
        return ""
