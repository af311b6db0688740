"""What the headers of a NITF say of the file and of its image segments, as attributes have it.

The scanner records a header's fields by their names, {"IID1": "...", "ILOC": "0000000000"},
in the attribute `nitf`, and the security fields in `security`.  Spec: MIL-STD-2500C.
"""

import re
from collections.abc import Mapping
from typing import Any

from jnrrdz.core.json_schema import as_object, as_objects, without_empty
from jnrrdz.core.markings import SECURITY
from jnrrdz.records import record

type Json = dict[str, Any]

NITF = "nitf"

_COUNT = re.compile(r"[+-]?\d+")
_ROW_DIGITS, _PLACE_DIGITS = 5, 10
"""Digits of ILOC: of the row, and of row and column."""


@record(eq=False)
class Segment:
    """An image segment by its header."""

    header: Mapping[str, Any]
    """Fields by their names."""
    security: Mapping[str, Any]
    tres: tuple[str, ...]
    """Tags of its registered extensions."""
    place: tuple[int, int] | None = None
    """Row and column on the plane that the segments share."""

    @property
    def location(self) -> list[int] | None:
        """Row and column from the segment that this one is attached to."""
        text = str(self.header.get("ILOC", ""))
        digits = (text[:_ROW_DIGITS], text[_ROW_DIGITS:_PLACE_DIGITS])
        if not all(_COUNT.fullmatch(part) for part in digits):
            return None
        return [int(part) for part in digits]

    def to_json(self) -> Json:
        """Return what the header says first, as `jnrrdz info` has it."""
        header = self.header
        members = {
            "id": header.get("IID1"),
            "compression": header.get("IC"),
            "representation": header.get("IREP"),
            "category": header.get("ICAT"),
            "display_level": header.get("IDLVL"),
            "attached_to": header.get("IALVL"),
            "magnification": header.get("IMAG"),
            "source": header.get("ISORCE"),
            "classification": self.security.get("ISCLAS"),
            "location": self.location,
            "tres": list(self.tres),
            "header": {**header, **self.security},
            "place": None if self.place is None else list(self.place),
        }
        return without_empty(members)


def segment_of(
    attributes: Mapping[str, Any],
    place: tuple[int, int] | None = None,
) -> Segment | None:
    """Return the segment that attributes of an image describe, None where they hold no header of one."""
    header = attributes.get(NITF)
    if not isinstance(header, dict) or "NROWS" not in header:
        return None
    security = as_object(attributes.get(SECURITY))
    return Segment(header, security, _tres(attributes), place)


def segment_places(
    attributes: Mapping[str, Mapping[str, Any]],
) -> dict[str, tuple[int, int]]:
    """Return row and column of a NITF's images on the plane that they share, from the lowest to the topmost.

    ILOC counts from the image that IALVL names (MIL-STD-2500C, 4.4); the names are those of the attributes.
    A ValueError where the fields are no numbers.
    """
    by_level: dict[int, tuple[str, Json]] = {}
    for name, members in attributes.items():
        header = members.get(NITF)
        if isinstance(header, dict) and "IDLVL" in header:
            by_level[int(header["IDLVL"])] = name, header
    places = {}
    for level, (name, header) in sorted(by_level.items()):
        row = column = 0
        at: Json | None = header
        visited = {level}
        while at is not None:
            digits = str(at.get("ILOC") or "").rjust(_PLACE_DIGITS, "0")
            row += int(digits[:_ROW_DIGITS])
            column += int(digits[_ROW_DIGITS:])
            parent = int(at.get("IALVL", 0) or 0)
            at = by_level[parent][1] if parent in by_level and parent not in visited else None
            visited.add(parent)
        places[name] = (row, column)
    return places


@record(eq=False)
class NitfFile:
    """A NITF by its file header."""

    header: Mapping[str, Any]
    security: Mapping[str, Any]
    date: str | None
    """When the file was made, in ISO 8601."""
    tres: tuple[str, ...]
    counts: Mapping[str, int]
    """How many graphics, labels and texts there are next to the images."""

    def to_json(self) -> Json:
        """Return what the header says first, as `jnrrdz info` has it."""
        header = self.header
        version = "".join(str(header.get(name, "")) for name in ("FHDR", "FVER"))
        members = {
            "version": version,
            "title": header.get("FTITLE"),
            "date": self.date,
            "classification": self.security.get("FSCLAS"),
            "station": header.get("OSTAID"),
            "tres": list(self.tres),
            "header": {**header, **self.security},
            **{name: count or None for name, count in self.counts.items()},
        }
        return without_empty(members)


def nitf_file(attributes: Mapping[str, Any]) -> NitfFile | None:
    """Return the file that attributes of the root describe, None where they hold no file header."""
    header = attributes.get(NITF)
    if not isinstance(header, dict) or "FHDR" not in header:
        return None
    counts = {name: len(as_objects(attributes.get(name))) for name in ("graphics", "labels", "texts")}
    security = as_object(attributes.get(SECURITY))
    return NitfFile(header, security, file_date(attributes), _tres(attributes), counts)


def _tres(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    extensions = as_objects(attributes.get("tres"))
    return tuple(str(extension["tag"]) for extension in extensions if "tag" in extension)


_PLAIN = re.compile(r"\d{14}|\d{8}")
"""Dates of NITF 2.1: CCYYMMDDhhmmss, of which a part may be hyphens."""


def moment(text: Any) -> str | None:
    """Return a date of NITF 2.1 in ISO 8601, as far as it is known; another one as it stands."""
    if not isinstance(text, str) or not text.strip(" -"):
        return None
    if not _PLAIN.fullmatch(text.replace("-", "0")):
        return text.strip()
    digits = text.partition("-")[0]
    day = "-".join(filter(None, (digits[:4], digits[4:6], digits[6:8])))
    clock = ":".join(filter(None, (digits[8:10], digits[10:12], digits[12:14])))
    return f"{day}T{clock}Z" if clock else day


def file_date(attributes: Mapping[str, Any]) -> str | None:
    """Return when a file was made by the attributes of its root, None where they do not say it."""
    header = attributes.get("nitf")
    return moment(header.get("FDT")) if isinstance(header, Mapping) else None
