"""JPEG tables of a TIFF put back into its tiles, by reference: where the tables stand in the file.

May touch sources, the TIFF layout and the model.  A TIFF may hold the tables of all its tiles once,
in the tag JPEGTables; the codec then has them in its configuration, which arrays of several files
share.  A chunk of two ranges, the tables' and the tile's, needs no configuration.
Spec: https://www.awaresystems.be/imaging/tiff/specification/TIFFTechNote2.txt
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jnrrdz.core.concat_refs import with_tables
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from jnrrdz.formats.tiff.structure import Ifd, TiffLayout
from jnrrdz.formats.tiff.tags import Tag
from jnrrdz.sources.base import ByteSource
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.guard import AddressGuard
from jnrrdz.sources.readahead import ReadAhead

SOI, EOI = b"\xff\xd8", b"\xff\xd9"
HEAD = 12
JFIF = slice(6, 10)


@dataclass
class TableFinder:
    """Gives the chunks of an array the tables that stand in the same file."""

    options: Mapping[str, Any] | None = None
    guards: dict[str, AddressGuard | None] = field(default_factory=dict)
    """With what each source is to be opened."""

    def __call__(self, refs: ChunkRefs, tables: str) -> ChunkRefs:
        """Return references of whole JPEG streams; what cannot be one is an error."""
        data = base64.b64decode(tables)
        if not refs.sources:
            return refs
        if len(refs.sources) > 1:
            raise UnrepresentableError("the files' JPEG tables differ, and these are of one file of several")
        (url,) = refs.sources
        source = open_source(url, storage_options=self.options, guard=self.guards.get(url))
        try:
            return with_tables(refs, url, _position(source, refs, data), data)
        except JnrrdzError as error:
            raise error.at(url=url) from error.__cause__
        finally:
            source.close()


def _position(source: ByteSource, refs: ChunkRefs, tables: bytes) -> int:
    """Return where the tables stand in a TIFF."""
    layout = TiffLayout(ReadAhead(source), source.validators.size)
    places = [
        ifd.entries[Tag.JPEGTables].position for ifd in _ifds(layout) if layout.raw(ifd, Tag.JPEGTables) == tables
    ]
    if not places or tables[:2] != SOI or tables[-2:] != EOI:
        raise UnrepresentableError("its JPEG tables are no JPEG stream in the file any more", field="JPEGTables")
    start = int(refs.offset[np.argmin(refs.offset)])
    (head,) = source.read([(start, start + HEAD)])
    # a JFIF marker says which colours they are, but only as the first segment
    if head[:2] != SOI or head[JFIF] == b"JFIF":
        raise UnrepresentableError("its tiles cannot follow the JPEG tables in one stream", offset=start)
    return places[0]


def _ifds(layout: TiffLayout) -> Iterator[Ifd]:
    """Yield the directories of the chain, and those of smaller versions that hang below them."""
    for ifd in layout.chain():
        yield ifd
        for start in layout.ints(ifd, Tag.SubIFDs):
            yield from layout.chain(start)
