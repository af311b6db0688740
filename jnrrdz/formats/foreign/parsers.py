"""VirtualiZarr's parsers: how they read a source, and the formats of one call, netCDF-3, FITS and DMR++.

A parser asks a registry for the object store of a URL, and reads that store's object by ranges, or as a file.  Here
every URL leads to the one source that is being scanned, read with our own requests, credentials, retries and address
guard: nothing that a file says makes a parser open something else.

FITS' scaled integers, which the parser makes floats of, stay what is stored, with CF's attributes for the scale.
DMR++ describes another file, the one of its name without `.dmrpp`, which has to lie beside it.  Interfaces:
https://developmentseed.org/obspec/latest/ and https://obspec-utils.readthedocs.io/en/latest/api/protocols/
"""

import io
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.limits import XML_BYTES, Budget, Resource
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.core.xml_tree import parse_xml
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.formats.foreign.fits_cards import CARD, check_headers
from jnrrdz.formats.foreign.groups import Conversion, converted
from jnrrdz.formats.foreign.netcdf3_header import check_header
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.options import ScanOptions
from jnrrdz.sources.ranges import MOST
from jnrrdz.sources.readahead import FIRST, ReadAhead
from jnrrdz.sources.url import without_query

if TYPE_CHECKING:
    from virtualizarr.manifests import ManifestArray, ManifestGroup

LIBRARIES = ("astropy.io.fits", "virtualizarr.parsers")
"""What a worker process imports before it is given a file."""

SOURCE = "jnrrdz://source"
"""What parsers are told that the source is called; in references it stands for the source."""

BLOCK = 256 * 1024
"""Bytes of a request where a parser jumps about: headers of HDF5 lie scattered through the file."""

BROKEN = (
    *(ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, NameError),
    *(NotImplementedError, OSError, RecursionError, RuntimeError, SyntaxError, TypeError, ValueError),
)
"""What parsers raise of files that they cannot read; each has ways of its own."""


@dataclass
class Reader:
    """The source's bytes as a read-only file, a few blocks kept; it keeps the error that reading it ended with."""

    read_range: ReadAhead
    failure: JnrrdzError | None = None
    blanked: frozenset[int] = frozenset()
    """Offsets of cards of FITS that a parser must not see: it reads blanks there."""

    stop: int | None = None
    """Where a parser sees the source end, where that is not its own end."""

    check: Callable[[bytes, int], None] | None = None
    """Refuses bytes, which begin at an offset, before a parser gets them."""

    _place: int = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes, all that are left where no number is given."""
        stop = MOST if size is None or size < 0 else self._place + size
        data = self.span(self._place, min(stop, self.size))
        self._place += len(data)
        return data

    def span(self, start: int, stop: int) -> bytes:
        """Return the bytes of a span."""
        try:
            data = self.read_range(start, max(start, min(stop, self.size)))
            if self.check is not None:
                self.check(data, start)
        except JnrrdzError as error:
            self.failure = error  # HDF5 may say no more than that it cannot read
            raise
        return self._with_blanks(data, start) if self.blanked else data

    def _with_blanks(self, data: bytes, start: int) -> bytes:
        """Return bytes of the source with blanks in place of cards."""
        changed = bytearray(data)
        stop = start + len(data)
        for offset in self.blanked:
            first, last = max(offset, start), min(offset + CARD, stop)
            if first < last:
                changed[first - start : last - start] = b" " * (last - first)
        return bytes(changed)

    @property
    def size(self) -> int:
        """The source's size, as far as a parser sees it."""
        size = self.read_range.size
        return size if self.stop is None else min(self.stop, size)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place."""
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        return self._place

    def tell(self) -> int:
        """Return the place."""
        return self._place


@dataclass(frozen=True)
class Whole:
    """All bytes of an object, as a store's `get` answers."""

    data: bytes

    def buffer(self) -> bytes:
        """Return the bytes."""
        return self.data


@dataclass(frozen=True)
class Store:
    """An object store that has one object, the source; it is its own registry."""

    reader: Reader
    most: int = 1 << 28
    """Bytes that may be read whole."""

    def resolve(self, url: str) -> tuple["Store", str]:
        """Return the store and path of a URL."""
        return self, url

    def head(self, path: str) -> dict[str, Any]:
        """Return what is known of the object."""
        return {"path": path, "size": self.reader.size, "e_tag": None, "last_modified": None, "version": None}

    def get(self, path: str, *, options: object = None) -> Whole:
        """Return the whole object."""
        del path, options
        if self.reader.size > self.most:
            raise UnsupportedError(f"{self.reader.size} bytes, more than the {self.most} that are read whole")
        return Whole(self.reader.span(0, self.reader.size))

    def get_range(self, path: str, *, start: int, end: int | None = None, length: int | None = None) -> bytes:
        """Return the bytes of one range."""
        del path
        return self.reader.span(start, start + (length or 0) if end is None else end)

    def get_ranges(
        self,
        path: str,
        *,
        starts: Sequence[int],
        ends: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
    ) -> list[bytes]:
        """Return the bytes of several ranges."""
        del path
        stops = [a + n for a, n in zip(starts, lengths or (), strict=True)] if ends is None else ends
        return [self.reader.span(start, stop) for start, stop in zip(starts, stops, strict=True)]


@contextmanager
def parsing(read: ReadAhead, format_name: str, extra: str) -> Iterator[Reader]:
    """Yield the source's bytes for a parser; what it raises is an error that says what could not be read, and where.

    A package that is not installed is named with the extra that brings it.
    """
    own = read if read.size <= FIRST else ReadAhead(read.source, first=BLOCK)
    reader = Reader(own)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # parsers warn of data types that are left out here
            yield reader
    except JnrrdzError:
        raise
    except ImportError as error:
        message = f"{format_name} needs a package ({error}): pip install 'jnrrdz[{extra}]'"
        raise UnsupportedError(message) from error
    except NotImplementedError as error:
        raise reader.failure or UnsupportedError(f"VirtualiZarr does not read this: {_said(error)}") from error
    except BROKEN as error:
        raise reader.failure or MalformedError(f"not readable as {format_name}: {_said(error)}") from error
    finally:
        if own is not read:
            read.requests += own.requests
            read.bytes_read += own.bytes_read


SAID = 300


def _said(error: Exception) -> str:
    """Return what an error says, cut: parsers quote what they found."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text[:SAID]


def scan_netcdf3(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:
    """Return the variables of a netCDF classic file (CDF-1, 2 and 5)."""
    del options, neighbours
    budget = Budget(read.size, url)
    with parsing(read, "netCDF-3", "netcdf3") as reader:
        from virtualizarr.parsers import NetCDF3Parser  # noqa: PLC0415  may not be installed

        check_header(reader.span, reader.size, budget)
        found = _group_of(NetCDF3Parser(), Store(reader))
    return converted(found, Conversion({SOURCE: url}, {}, read, budget=budget))


def _group_of(parser: Any, store: Store, name: str = SOURCE) -> "ManifestGroup":
    """Return what a parser found; `ManifestStore` shows its group by no other name."""
    found: ManifestGroup = parser(name, store)._group  # noqa: SLF001
    return found


# FITS

FIXED = "numcodecs.fixedscaleoffset"
_BITPIX = {8: "u1", 16: "i2", 32: "i4", 64: "i8"}


class _Fits(Conversion):
    """HDUs of FITS: scaled integers stay integers."""

    def array(self, found: "ManifestArray", path: str) -> VirtualArray:
        """Return an array with the numbers that are stored."""
        document: dict[str, Any] = dict(found.metadata.to_dict())
        codecs = [dict(entry) for entry in document["codecs"]]
        header = document.get("attributes") or {}
        if codecs[0]["name"] != FIXED:
            return super().array(found, path)
        bitpix = header.get("BITPIX")
        if bitpix not in _BITPIX:
            raise UnrepresentableError(f"scaled numbers of BITPIX {bitpix}; integers alone are read")
        blank = {"_FillValue": int(header["BLANK"])} if "BLANK" in header else {}
        scaling = {"scale_factor": float(header.get("BSCALE", 1)), "add_offset": float(header.get("BZERO", 0))}
        attributes = {name: value for name, value in header.items() if name != "_FillValue"}
        stored = {
            **document,
            "data_type": np.dtype(_BITPIX[bitpix]).name,
            "fill_value": 0,
            "codecs": codecs[1:],
            "attributes": attributes | scaling | blank,
        }
        return super().array(replace_metadata(found, stored), path)


def replace_metadata(found: "ManifestArray", document: dict[str, Any]) -> "ManifestArray":
    """Return a parser's array with other metadata."""
    array: ManifestArray = type(found)(type(found.metadata).from_dict(document), found.manifest)
    return array


def scan_fits(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:
    """Return the images of a FITS file, an array for each HDU that holds one."""
    del options, neighbours
    tables: list[str] = []
    with parsing(read, "FITS", "fits") as reader:
        from astropy.io import fits  # noqa: PLC0415  may not be installed
        from virtualizarr.parsers import FITSParser  # noqa: PLC0415  the same

        headers = check_headers(reader.span, reader.size)
        reader.blanked, reader.stop = frozenset(headers.blanked), headers.stop
        store = Store(reader)
        with fits.open(reader, lazy_load_hdus=False, do_not_scale_image_data=True) as hdus:
            for number, hdu in enumerate(hdus):
                name = hdu.name or str(number)
                if not hdu.is_image and hdu.header.get("NAXIS", 0):
                    tables.append(name)
        reader.seek(0)
        found = _group_of(FITSParser(skip_variables=tables), store)
    conversion = _Fits({SOURCE: url}, budget=Budget(read.size, url))
    for offset, reason in headers.blanked.items():
        conversion.leave_out(f"card at byte {offset}", reason)
    for name in tables:
        conversion.leave_out(name, "a table")
    return converted(found, conversion)


# DMR++

DMRPP = ".dmrpp"


def scan_dmrpp(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:
    """Return what a DMR++ document says of the file beside it."""
    del options
    name = without_query(url)
    if not name.endswith(DMRPP):
        raise UnsupportedError(
            f"a DMR++ document whose name does not end in {DMRPP}: which file it describes is unknown"
        )
    data = name.removesuffix(DMRPP) + url[len(name) :]
    budget = Budget(read.size, url)
    with parsing(read, "DMR++", "virtualizarr") as reader:
        if reader.size > XML_BYTES:
            raise UnsupportedError(f"a document of {reader.size} bytes, more than {XML_BYTES}")
        parse_xml(reader.span(0, reader.size).decode(), "DMR++")  # bounds, and no entities
        found = _described(reader, budget)
    if neighbours.open(data) is None:
        raise MalformedError(f"the file that it describes is not there: {data.rpartition('/')[2]}")
    return converted(found, Conversion({SOURCE: data}, budget=budget))


def _described(reader: Reader, budget: Budget) -> "ManifestGroup":
    """Return what a document describes; a grid is charged before the parser makes columns for it."""
    from virtualizarr.manifests import ChunkManifest  # noqa: PLC0415  may not be installed
    from virtualizarr.parsers.dmrpp import DMRParser  # noqa: PLC0415  the same

    class Bounded(DMRParser):
        """VirtualiZarr's parser, which has no other place between a variable's chunks and its columns."""

        def _parse_chunks(self, chunks_tag: Any, chunks_shape: tuple[int, ...]) -> ChunkManifest:
            budget.charge(Resource.MISSING_CHUNKS, _grid_size(chunks_tag, chunks_shape), field=POSITION)
            return super()._parse_chunks(chunks_tag, chunks_shape)

    root = ET.fromstring(reader.span(0, reader.size))  # noqa: S314  `parse_xml` has refused entities
    found: ManifestGroup = Bounded(root, SOURCE).parse_dataset(Store(reader))._group  # type: ignore[arg-type]  # noqa: SLF001
    return found


POSITION = "chunkPositionInArray"


def _grid_size(chunks_tag: Any, chunk_shape: tuple[int, ...]) -> int:
    """Return how many chunks the parser makes room for: up to the last place along each axis."""
    last = [0] * len(chunk_shape)
    for tag in chunks_tag:
        text = tag.attrib.get(POSITION)
        if text is None:
            continue
        places = text[1:-1].split(",")
        for axis, size in enumerate(chunk_shape):
            last[axis] = max(last[axis], int(places[axis]) // size)
    return math.prod(place + 1 for place in last)
