"""What headers, extensions and other segments say, as attributes: every field under its own name.

May touch the NITF layout and errors.  Nothing here ever costs the pixels: what cannot be read is
named in the attribute `metadata_refused` and in a warning.
"""

import base64
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.nitf.header import Extension, NitfLayout, ReadRange, Segment, header_cursor, parse_extension
from jnrrdz.formats.nitf.image import NitfImage
from jnrrdz.formats.nitf.tre import Tre, describe_tre, split_tres

XML = "XML_DATA_CONTENT"
SICD_20 = {"SICD_XML", "SIDD_XML"}
"""Names that the first versions of SICD and SIDD gave to their XML's segment."""

MAX_XML = 8 << 20
MAX_TEXT = 1 << 16
SECURITY_TAIL = 3
HIDDEN = {"UDHDL", "UDHOFL", "XHDL", "XHDLOFL", "UDIDL", "UDOFL", "IXSHDL", "IXSOFL", "NICOM", "NBANDS", "XBANDS"}
"""Lengths and counts, of use only to who reads the bytes."""

SECURITY = {
    name
    for prefix in ("F", "I")
    for name in (
        *(f"{prefix}S{rest}" for rest in ("CLAS", "CLSY", "CODE", "CTLH", "REL", "DCTP", "DCDT", "DCXM", "DG")),
        *(f"{prefix}S{rest}" for rest in ("DGDT", "CLTX", "CATP", "CAUT", "CRSN", "SRDT", "CTLN")),
        *(f"{prefix}S{rest}" for rest in ("CAUT", "CTLN", "DWNG", "DEVT")),
    )
}


@dataclass
class Notes:
    """What could not be understood, each thing once."""

    refused: list[str] = field(default_factory=list)

    def add(self, reasons: Iterable[str]) -> None:
        """Note reasons, and warn of them."""
        for reason in reasons:
            if reason not in self.refused:
                warnings.warn(f"metadata are left out: {reason}", stacklevel=4)
                self.refused.append(reason)

    def attributes(self) -> dict[str, Any]:
        """Return the attribute that lists them."""
        return {"metadata_refused": self.refused} if self.refused else {}


def split_security(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a header's fields with those of security apart, and without empty ones and lengths."""
    plain = {name: value for name, value in fields.items() if name not in HIDDEN and not _is_length(name)}
    kept = {name: value for name, value in plain.items() if value != ""}
    security = {name: value for name, value in kept.items() if name in SECURITY}
    header = {name: value for name, value in kept.items() if name not in SECURITY}
    return {"nitf": header, **({"security": security} if security else {})}


def _is_length(name: str) -> bool:
    """Whether a field of the file header is a segment's length."""
    stem, digits = name[:-SECURITY_TAIL], name[-SECURITY_TAIL:]
    return digits.isdigit() and stem in {
        *("LISH", "LI", "LSSH", "LS", "LTSH", "LT", "LDSH", "LD", "LRESH", "LRE", "LLSH", "LL")
    }


def file_attributes(read: ReadRange, layout: NitfLayout, overflow: bytes, notes: Notes) -> dict[str, Any]:
    """Return what the file says of itself: its header, its extensions, and its segments without pixels."""
    found = split_security(layout.fields)
    notes.add(layout.problems)
    tres = tre_attributes(layout.tres + overflow, notes)
    others = {
        "graphics": _headers(read, layout, ("graphic", "symbol"), notes),
        "labels": _headers(read, layout, ("label",), notes),
        "texts": _headers(read, layout, ("text",), notes),
    }
    return {**found, **tres, **{name: values for name, values in others.items() if values}}


def _headers(read: ReadRange, layout: NitfLayout, kinds: tuple[str, ...], notes: Notes) -> list[dict[str, Any]]:
    found = []
    for segment in (one for kind in kinds for one in layout.of(kind)):
        try:
            found.append(_header(read, layout, segment))
        except JnrrdzError as error:
            notes.add([str(error)])
    return found


def _header(read: ReadRange, layout: NitfLayout, segment: Segment) -> dict[str, Any]:
    version = layout.version
    tables = {"text": version.text, "label": version.label}.get(segment.kind, version.graphic) or version.graphic
    prefix = {"text": "T", "label": "L"}.get(segment.kind, "S")
    cursor = header_cursor(read, layout, segment, f"{segment.kind} {segment.number}")
    cursor.take(tables[0])
    version.security(cursor, prefix)
    cursor.take(tables[1])
    kept = {name: value for name, value in cursor.found.items() if value != "" and not name.endswith("HDL")}
    if segment.kind in {"text", "label"} and segment.data_length <= MAX_TEXT and segment.stop <= layout.size:
        kept["text"] = read(segment.data, segment.stop).decode("latin-1")
    return kept


def image_attributes(image: NitfImage, overflow: bytes, notes: Notes) -> tuple[dict[str, Any], list[Tre]]:
    """Return what a segment's header says, and its extensions."""
    found = split_security(image.fields)
    notes.add(image.problems)
    problems: list[str] = []
    tres = split_tres(image.tres, problems) + split_tres(overflow, problems)
    shown = [describe_tre(tre, problems) for tre in tres]
    notes.add(problems)
    comments = {"comments": list(image.comments)} if any(image.comments) else {}
    bands = [{name: value for name, value in band.fields.items() if value != ""} for band in image.bands]
    luts = [[base64.b64encode(lut).decode("ascii") for lut in band.luts] for band in image.bands]
    told = {"bands": bands, **({"luts": luts} if any(luts) else {})}
    return {**found, **told, **comments, **({"tres": shown} if shown else {})}, tres


def tre_attributes(data: bytes, notes: Notes) -> dict[str, Any]:
    """Return the extensions of a header."""
    problems: list[str] = []
    shown = [describe_tre(tre, problems) for tre in split_tres(data, problems)]
    notes.add(problems)
    return {"tres": shown} if shown else {}


@dataclass
class Extras:
    """What data extension segments hold: extensions that had no room, and XML."""

    overflow: dict[tuple[str, int], bytes] = field(default_factory=dict)
    """By kind of header and number, from 1; 0 is the file's own."""

    xml: list[str] = field(default_factory=list)
    others: list[dict[str, Any]] = field(default_factory=list)

    def of_image(self, number: int) -> bytes:
        """Return the extensions of the image of this number, from 0."""
        return b"".join(self.overflow.get((kind, number + 1), b"") for kind in ("UDID", "IXSHD"))

    def of_file(self) -> bytes:
        """Return the extensions of the file header."""
        return b"".join(self.overflow.get((kind, 0), b"") for kind in ("UDHD", "XHD"))


def extras_of(read: ReadRange, layout: NitfLayout, notes: Notes) -> Extras:
    """Return what the data extension segments hold."""
    found = Extras()
    for segment in layout.of("extension"):
        try:
            extension = parse_extension(read, layout, segment)
            _add(found, read, layout, extension)
        except JnrrdzError as error:
            notes.add([str(error)])
    return found


def _add(found: Extras, read: ReadRange, layout: NitfLayout, extension: Extension) -> None:
    segment = extension.segment
    stop = min(segment.stop, layout.size)
    is_short = segment.data_length <= MAX_XML
    if extension.name in layout.version.overflow and is_short:
        item = extension.fields.get("DESITEM")
        key = (str(extension.fields.get("DESOFLW", "")), item if isinstance(item, int) else 0)
        found.overflow[key] = found.overflow.get(key, b"") + read(segment.data, stop)
        return
    kept = {name: value for name, value in extension.fields.items() if value != ""}
    found.others.append(kept)
    if extension.name in {XML, *SICD_20} and is_short:
        found.xml.append(read(segment.data, stop).decode("utf-8", "replace").rstrip("\0 "))
