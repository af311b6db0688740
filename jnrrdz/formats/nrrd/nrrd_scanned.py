"""NRRD and JNRRD to a virtual group.

May touch errors, sources, the layout and the model.  Follows http://teem.sourceforge.net/nrrd/format.html and
docs/formats/jnrrd.md for what becomes of a JNRRD.
"""

from jnrrdz.core.array import VirtualGroup
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.nrrd.axes import VARIABLE, kept, meaning_of
from jnrrdz.formats.nrrd.common_header import Header
from jnrrdz.formats.nrrd.files import Beside
from jnrrdz.formats.nrrd.jnrrd import read_lines
from jnrrdz.formats.nrrd.jnrrd_header import jnrrd_header
from jnrrdz.formats.nrrd.jnrrd_keys import resolved
from jnrrdz.formats.nrrd.jnrrd_tiling import tiling_of
from jnrrdz.formats.nrrd.nrrd_header import read_header
from jnrrdz.formats.nrrd.places import Folder
from jnrrdz.formats.nrrd.plain import plain_array
from jnrrdz.formats.nrrd.tile_files import external_places
from jnrrdz.formats.nrrd.tile_places import internal_places
from jnrrdz.formats.nrrd.tiled import tiled_group
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead


def scan_jnrrd(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:
    """Return the virtual group of a JNRRD, tiled or not."""
    try:
        lines = read_lines(read)
        document = resolved(lines.items)
        header = jnrrd_header(document, lines.data_start)
        tile = document.tile
        tiling = None if tile is None else tiling_of(*tile, header)
        beside = Beside(read, url, neighbours, Folder(url, options.allow))
        if tiling is None:
            return _plain_group(header, beside, "jnrrd")
        if tiling.keys["storage"] == "external":
            places = external_places(tiling, header, beside, allow_missing=options.allow_missing)
        else:
            places = internal_places(tiling, header, beside)
        return tiled_group(header, tiling, places, overviews=options.overviews)
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__


def scan_nrrd(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:
    """Return the virtual group of a classic NRRD, its data behind the header or in files beside it."""
    try:
        header = read_header(read)
        beside = Beside(read, url, neighbours, Folder(url, options.allow))
        return _plain_group(header, beside, "nrrd")
    except JnrrdzError as error:
        raise error.at(url=url) from error.__cause__


def _plain_group(header: Header, beside: Beside, name: str) -> VirtualGroup:
    meaning = meaning_of(header)
    array = plain_array(header, beside, meaning)
    return VirtualGroup({VARIABLE: array}, {name: kept(header.attributes), **meaning.single_attributes(array.shape)})
