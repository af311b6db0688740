"""Formats of one call: netCDF-3, FITS and DMR++ by VirtualiZarr's parsers.

FITS' scaled integers, which the parser makes floats of, stay what is stored, with CF's attributes for the scale.
DMR++ describes another file, the one of its name without `.dmrpp`, which has to lie beside it.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from jnrrdz.core.arrays import VirtualArray, VirtualGroup
from jnrrdz.core.xml_tree import MAX_BYTES, parse_xml
from jnrrdz.errors import MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.formats.foreign.groups import Conversion, converted
from jnrrdz.formats.foreign.reading import SOURCE, Store, parsing
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.options import ScanOptions
from jnrrdz.sources.base import ReadAhead
from jnrrdz.sources.url import without_query

if TYPE_CHECKING:
    from virtualizarr.manifests import ManifestArray, ManifestGroup


def scan_netcdf3(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:
    """Return the variables of a netCDF classic file (CDF-1, 2 and 5)."""
    del options, neighbours
    with parsing(read, "netCDF-3", "netcdf3") as reader:
        from virtualizarr.parsers import NetCDF3Parser  # noqa: PLC0415  may not be installed

        found = _group_of(NetCDF3Parser(), Store(reader))
    return converted(found, Conversion({SOURCE: url}, {}, read))


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

        store = Store(reader)
        with fits.open(reader, lazy_load_hdus=False, do_not_scale_image_data=True) as hdus:
            for number, hdu in enumerate(hdus):
                name = hdu.name or str(number)
                if not hdu.is_image and hdu.header.get("NAXIS", 0):
                    tables.append(name)
        reader.seek(0)
        found = _group_of(FITSParser(skip_variables=tables), store)
    conversion = _Fits({SOURCE: url})
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
    with parsing(read, "DMR++", "virtualizarr") as reader:
        if reader.size > MAX_BYTES:
            raise UnsupportedError(f"a document of {reader.size} bytes, more than {MAX_BYTES}")
        parse_xml(reader.span(0, reader.size).decode(), "DMR++")  # bounds, and no entities
        from virtualizarr.parsers import DMRPPParser  # noqa: PLC0415  may not be installed

        found = _group_of(DMRPPParser(), Store(reader), SOURCE + DMRPP)
    if neighbours.open(data) is None:
        raise MalformedError(f"the file that it describes is not there: {data.rpartition('/')[2]}")
    return converted(found, Conversion({SOURCE: data}))
