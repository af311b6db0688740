"""What headers, extensions and other segments say, as attributes: every field under its own name.

Nothing here ever costs the pixels: what cannot be read is named in the attribute `metadata_refused` and
in a warning.
"""

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.nitf.fields import NITF20, NITF21
from jnrrdz.formats.nitf.header import Extension, NitfLayout, ReadRange, Segment, header_cursor, parse_extension
from jnrrdz.formats.nitf.image import NitfImage
from jnrrdz.formats.nitf.tre import Tre, base64_text, describe_tre, split_tres

XML = "XML_DATA_CONTENT"
SICD_20 = {"SICD_XML", "SIDD_XML"}
"""Names that the first versions of SICD and SIDD gave to their XML's segment."""

MAX_XML = 8 << 20
MAX_TEXT = 1 << 16
HIDDEN = {"UDHDL", "UDHOFL", "XHDL", "XHDLOFL", "UDIDL", "UDOFL", "IXSHDL", "IXSOFL", "NICOM", "NBANDS", "XBANDS"}
"""Lengths and counts, of use only to who reads the bytes."""

VERSIONS = (NITF20, NITF21)
SECURITY = {f"{prefix}SDEVT" for prefix in "FI"} | {
    f"{prefix}{field.name}" for version in VERSIONS for field in version.security for prefix in "FI"
}
_LENGTHS = {name for version in VERSIONS for group in version.segments for name, _ in (group.subheader, group.data)}
_LENGTH = re.compile(rf"({'|'.join(_LENGTHS)})[0-9]{{3}}")
"""The names of segments' lengths in the file header."""


@dataclass
class Notes:
    """What could not be understood, each thing once."""

    refused: dict[str, None] = field(default_factory=dict)

    def add(self, reasons: Iterable[str]) -> None:
        """Note reasons, and warn of them."""
        for reason in reasons:
            if reason not in self.refused:
                warnings.warn(f"metadata are left out: {reason}", stacklevel=4)
                self.refused[reason] = None

    def attributes(self) -> dict[str, Any]:
        """Return the attribute that lists them."""
        return {"metadata_refused": list(self.refused)} if self.refused else {}


def split_security(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a header's fields with those of security apart, and without empty ones and lengths."""
    kept = {
        name: value for name, value in drop_empty(fields).items() if name not in HIDDEN and not _LENGTH.fullmatch(name)
    }
    security = {name: value for name, value in kept.items() if name in SECURITY}
    header = {name: value for name, value in kept.items() if name not in SECURITY}
    return {"nitf": header, **({"security": security} if security else {})}


def drop_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value != ""}


def file_attributes(read: ReadRange, layout: NitfLayout, overflow: bytes, notes: Notes) -> dict[str, Any]:
    """Return what the file says of itself: its header, its extensions, and its segments without pixels."""
    attributes = split_security(layout.fields)
    notes.add(layout.problems)
    problems: list[str] = []
    tres = [describe_tre(tre, problems) for tre in split_tres(layout.tres + overflow, problems)]
    notes.add(problems)
    others = {
        "tres": tres,
        "graphics": _headers(read, layout, ("graphic", "symbol"), notes),
        "labels": _headers(read, layout, ("label",), notes),
        "texts": _headers(read, layout, ("text",), notes),
    }
    return attributes | {name: values for name, values in others.items() if values}


def _headers(read: ReadRange, layout: NitfLayout, kinds: tuple[str, ...], notes: Notes) -> list[dict[str, Any]]:
    headers = []
    for segment in (segment for kind in kinds for segment in layout.of(kind)):
        try:
            headers.append(_header(read, layout, segment))
        except JnrrdzError as error:
            notes.add([str(error)])
    return headers


def _header(read: ReadRange, layout: NitfLayout, segment: Segment) -> dict[str, Any]:
    version = layout.version
    tables = {"text": version.text, "label": version.label}.get(segment.kind, version.graphic) or version.graphic
    prefix = {"text": "T", "label": "L"}.get(segment.kind, "S")
    cursor = header_cursor(read, layout, segment, f"{segment.kind} {segment.number}")
    cursor.take(tables[0])
    version.read_security(cursor, prefix)
    cursor.take(tables[1])
    fields = {name: value for name, value in drop_empty(cursor.fields).items() if not name.endswith("HDL")}
    if segment.kind in {"text", "label"} and segment.data_length <= MAX_TEXT and segment.stop <= layout.size:
        fields["text"] = read(segment.data, segment.stop).decode("latin-1")
    return fields


def image_attributes(image: NitfImage, overflow: bytes, notes: Notes) -> tuple[dict[str, Any], list[Tre]]:
    """Return what a segment's header says, and its extensions."""
    problems: list[str] = []
    tres = split_tres(image.tres, problems) + split_tres(overflow, problems)
    attributes = split_security(image.fields) | {"bands": [drop_empty(band.fields) for band in image.bands]}
    luts = [[base64_text(lut) for lut in band.luts] for band in image.bands]
    if any(luts):
        attributes["luts"] = luts
    if any(image.comments):
        attributes["comments"] = list(image.comments)
    if tres:
        attributes["tres"] = [describe_tre(tre, problems) for tre in tres]
    notes.add(image.problems)
    notes.add(problems)
    return attributes, tres


@dataclass
class Extras:
    """What data extension segments hold: extensions that had no room, and XML."""

    overflow: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    """By kind of header and number, from 1; 0 is the file's own."""

    xml: list[str] = field(default_factory=list)
    others: list[dict[str, Any]] = field(default_factory=list)

    def add(self, read: ReadRange, layout: NitfLayout, extension: Extension) -> None:
        """Add what a data extension segment holds."""
        segment, fields = extension.segment, extension.fields
        stop = min(segment.stop, layout.size)
        is_short = segment.data_length <= MAX_XML
        if extension.name in layout.version.overflow and is_short:
            item = fields.get("DESITEM")
            key = (str(fields.get("DESOFLW", "")), item if isinstance(item, int) else 0)
            self.overflow.setdefault(key, []).append(read(segment.data, stop))
            return
        self.others.append(drop_empty(fields))
        if extension.name in {XML, *SICD_20} and is_short:
            self.xml.append(read(segment.data, stop).decode("utf-8", "replace").rstrip("\0 "))

    def of_image(self, number: int) -> bytes:
        """Return the extensions of the image of this number, from 0."""
        return self._joined(("UDID", number + 1), ("IXSHD", number + 1))

    def of_file(self) -> bytes:
        """Return the extensions of the file header."""
        return self._joined(("UDHD", 0), ("XHD", 0))

    def _joined(self, *keys: tuple[str, int]) -> bytes:
        return b"".join(part for key in keys for part in self.overflow.get(key, ()))


def read_extras(read: ReadRange, layout: NitfLayout, notes: Notes) -> Extras:
    """Return what the data extension segments hold."""
    extras = Extras()
    for segment in layout.of("extension"):
        try:
            extras.add(read, layout, parse_extension(read, layout, segment))
        except JnrrdzError as error:
            notes.add([str(error)])
    return extras
