"""How much memory a source may take: the numbers, and the budget that counts what it takes.

A few bytes of a header can claim any number of chunks, tiles or records.  A scanner
makes a `Budget` from the number of bytes that the source has, and charges every count
before it makes a column, list or buffer of that length.  Memory thereby grows with the
source, and not with what the source claims.  docs/limits.md has the table of these
numbers; a test compares them.

Limits of a format's specification, such as 65,535 tiles of JPEG 2000, are in the
format's folder.
"""

from collections import Counter
from enum import Enum

from jnrrdz.errors import UnsupportedError
from jnrrdz.records import record


class Resource(Enum):
    """What is counted, in the words of messages."""

    CHUNKS = "chunks"
    MISSING_CHUNKS = "chunks without bytes"
    TILES = "tiles"
    PAGES = "pages"
    CODE_BLOCKS = "code-blocks and precincts"
    METADATA_BYTES = "bytes of directories and their values"
    GENERATED_REFERENCES = "generated references"
    NODES = "groups and arrays"
    DOCUMENTS = "metadata documents"


@record
class Limit:
    """The largest count of a source: a number that is free, and more by the bytes of the source."""

    free: int
    count: int = 0
    per_bytes: int = 1
    """The source may have `count` more for each `per_bytes` bytes: 1 for 16, for example."""

    what: str = ""
    """What takes memory, as docs/limits.md has it."""

    def of_size(self, size: int) -> int:
        """Return the largest count of a source of `size` bytes."""
        return self.free + size * self.count // self.per_bytes


LIMITS = {
    Resource.CHUNKS: Limit(
        1 << 20, 1, 1, "references to bytes: of TIFF, OME-TIFF, netCDF-3, and of arrays cut into slabs"
    ),
    Resource.MISSING_CHUNKS: Limit(
        1 << 22, 1, 16, "chunks that no bytes list: HDF5, DMR++, OME-TIFF, N5 and Zarr by HTTP"
    ),
    Resource.TILES: Limit(1 << 21, 1, 1, "tiles of a JNRRD, and the chunks that they are cut into"),
    Resource.PAGES: Limit(1 << 20, 0, 1, "directories of a TIFF"),
    Resource.CODE_BLOCKS: Limit(3 << 18, 1, 4, "parts of a JPEG 2000 tile that a decoder has in memory together"),
    Resource.METADATA_BYTES: Limit(1 << 26, 8, 1, "directories and values of a TIFF that are read, shared ones again"),
    Resource.GENERATED_REFERENCES: Limit(1 << 20, 0, 1, "references that `gen` of a kerchunk manifest describes"),
    Resource.NODES: Limit(1 << 17, 0, 1, "groups and data sets of an HDF5 file"),
    Resource.DOCUMENTS: Limit(1 << 20, 0, 1, "documents of attributes of an N5 or Zarr store"),
}
"""The limit of each kind."""

GRID_CHUNKS = 1 << 27
"""Chunks of one array's grid, stored or not.  N5, Zarr and manifests keep those that are stored."""

CHUNK_BYTES = 1 << 31
"""Bytes of one chunk: decoders and Zarr's buffers take no more."""

AXES = 64
"""Axes of an array: numpy's limit."""

DEEPEST = 64
"""Groups in groups, and elements of XML in elements."""

DOCUMENT_BYTES = 1 << 26
"""Bytes of one document of attributes of N5 or Zarr."""

XML_BYTES = 16 << 20
"""Bytes of one XML document, in a tag or a file next to the image."""

XML_ELEMENTS = 1 << 20
"""Elements of an XML document.  Each takes a hundred times the memory of the four bytes that spell it."""

OME_XML_BYTES = 1 << 28
"""Bytes of the OME-XML of a TIFF, which has an element for each plane."""

PLANES = 1 << 24
"""Planes of one image of an OME-TIFF or a vendor's TIFF."""

BOXES = 1 << 16
"""Boxes of a JP2."""

BOXES_DEEP = 16
"""Boxes of a JP2 in boxes."""

BOX_BYTES = 16 << 20
"""Bytes of a box of a JP2 that is read: colours, XML, positions."""

FITS_UNITS = 1 << 12
"""Header and data units of a FITS file."""

FITS_BLOCKS = 1 << 12
"""Blocks of all headers of a FITS file, 147,456 cards: astropy makes an object of each."""

RECORD_CHUNKS = 1 << 24
"""Chunks of one file of references: a column of one value takes next to no bytes."""

RECORD_BYTES = 1 << 30
"""Bytes of one file of references."""

LISTED_RECORDS = 1 << 20
"""Files of references of an array whose chunks are listed."""

RECORDS_AT_ONCE = 1 << 16
"""Files of references of one array that are read at once."""

FILE_SOURCES = 1 << 16
"""Sources in one file of the table of sources."""

SOURCE_FILE_BYTES = 1 << 26
"""Bytes of one file of the table of sources, stored and decoded."""

FIXED = {
    "chunks of the grid of an array": GRID_CHUNKS,
    "bytes of a chunk": CHUNK_BYTES,
    "axes of an array": AXES,
    "groups in groups": DEEPEST,
    "bytes of a metadata document": DOCUMENT_BYTES,
    "bytes of an XML document": XML_BYTES,
    "elements of an XML document": XML_ELEMENTS,
    "bytes of OME-XML": OME_XML_BYTES,
    "planes of an image": PLANES,
    "boxes of a JP2": BOXES,
    "boxes in boxes": BOXES_DEEP,
    "bytes of a box": BOX_BYTES,
    "header and data units": FITS_UNITS,
    "blocks of headers": FITS_BLOCKS,
    "chunks of a file of references": RECORD_CHUNKS,
    "bytes of a file of references": RECORD_BYTES,
    "files of references of an array": LISTED_RECORDS,
    "files of references at once": RECORDS_AT_ONCE,
    "sources of a file of the table": FILE_SOURCES,
    "bytes of a file of the table": SOURCE_FILE_BYTES,
}
"""The numbers that do not depend on the source, as docs/limits.md names them."""


class Budget:
    """What one source may still take."""

    def __init__(self, size: int, source: str | None = None) -> None:
        """Take the bytes of the source, and its URL for messages."""
        self.size = size
        self.source = source
        self._charged: Counter[Resource] = Counter()

    def most(self, kind: Resource) -> int:
        """Return the largest count of a kind."""
        return LIMITS[kind].of_size(self.size)

    def charged(self, kind: Resource) -> int:
        """Return what has been charged of a kind."""
        return self._charged[kind]

    def charge(self, kind: Resource, count: int, *, field: str | None = None, offset: int | None = None) -> None:
        """Count what is about to be made, and refuse what is more than the source may take.

        A refused count is not kept: an array can be left out and another one taken.
        """
        total = self._charged[kind] + count
        most = self.most(kind)
        if total > most:
            message = (
                f"{total} {kind.value}, and a source of {self.size} bytes may have {most}; "
                "if the source is sound, index parts of it, or convert it with the software that wrote it"
            )
            raise UnsupportedError(message, url=self.source, field=field, offset=offset)
        self._charged[kind] = total
