"""What OME-XML says of a file's images: their axes, which IFD holds which plane, channels, sizes.

May touch errors and the model's names.  The XML comes from the file that is being scanned, so it
is not trusted: document types (and with them entities) are refused, and so is every number that
no image can have.
Spec: https://docs.openmicroscopy.org/ome-model/6.3.1/ome-tiff/specification.html
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite, prod
from xml.etree import ElementTree as ET

from jnrrdz.core.ome import Axis, Channel
from jnrrdz.errors import MalformedError, UnsupportedError

FIELD = "ImageDescription"
MAX_BYTES = 1 << 28
MAX_PLANES = 1 << 24
ORDERS = {"XYCZT", "XYCTZ", "XYZCT", "XYZTC", "XYTCZ", "XYTZC"}
MICROMETER, SECOND = "µm", "s"


@dataclass(frozen=True)
class Block:
    """Planes that stand in consecutive IFDs of one file (one `TiffData`)."""

    first: tuple[int, ...]
    """Index of the first plane along each leading axis."""

    ifd: int
    count: int | None
    """None: as many as the file has."""

    file: str | None
    """The file's name; None for the file that holds the XML."""


@dataclass(frozen=True)
class OmeImage:
    """One `Image` with its `Pixels`."""

    name: str
    lead: str
    """Letters of the leading axes, slowest first."""

    sizes: tuple[int, ...]
    samples: int
    blocks: tuple[Block, ...]
    channels: tuple[Channel, ...]
    axes: Mapping[str, Axis]


def parse_ome(text: str) -> list[OmeImage]:
    """Return the images of an OME-XML document that have planes in TIFF files."""
    if len(text) > MAX_BYTES:
        raise UnsupportedError(f"OME-XML of {len(text)} characters, at most {MAX_BYTES} are read", field=FIELD)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise MalformedError("OME-XML with a document type, which may hide anything", field=FIELD)
    try:
        root = ET.fromstring(text.strip("\0 \r\n\t"))  # noqa: S314  without a document type there is nothing to expand
    except (ET.ParseError, ValueError) as error:
        raise MalformedError(f"OME-XML that is no XML: {error}", field=FIELD) from error
    found = []
    for image in _children(root, "Image"):
        for pixels in _children(image, "Pixels"):
            one = _image(root, image, pixels)
            if one.blocks:
                found.append(one)
    return found


def _children(element: ET.Element, tag: str) -> Iterator[ET.Element]:
    """Yield the children of a name, whatever the schema's namespace."""
    return (child for child in element if child.tag.rpartition("}")[2] == tag)


def _image(root: ET.Element, image: ET.Element, pixels: ET.Element) -> OmeImage:
    order = pixels.get("DimensionOrder", "")
    if order not in ORDERS:
        raise MalformedError(f"DimensionOrder {order!r}", field=FIELD)
    channels = list(_children(pixels, "Channel"))
    samples = {_integer(channel, "SamplesPerPixel", 1) for channel in channels} or {1}
    if len(samples) > 1 or min(samples) < 1:
        raise UnsupportedError(f"channels of {sorted(samples)} samples a pixel in one image", field=FIELD)
    lead, each = order[:1:-1], samples.pop()
    sizes = tuple(_integer(pixels, f"Size{axis}", 0) // (each if axis == "C" else 1) for axis in lead)
    if min(sizes) < 1 or prod(sizes) > MAX_PLANES:
        raise MalformedError(f"{sizes} planes along {lead}; from 1 to {MAX_PLANES} are possible", field=FIELD)
    return OmeImage(
        name=image.get("Name") or "",
        lead=lead,
        sizes=sizes,
        samples=each,
        blocks=tuple(_block(root, data, lead) for data in _children(pixels, "TiffData")),
        channels=_channels(channels),
        axes=_axes(pixels),
    )


def _integer(element: ET.Element, name: str, default: int) -> int:
    text = element.get(name)
    try:
        value = default if text is None else int(text)
    except ValueError:
        raise MalformedError(f"{name} {text!r} is no number", field=FIELD) from None
    if not 0 <= value < 1 << 31:
        raise MalformedError(f"{name} {value}", field=FIELD)
    return value


def _block(root: ET.Element, data: ET.Element, lead: str) -> Block:
    first = tuple(_integer(data, f"First{axis}", 0) for axis in lead)
    single = 1 if data.get("IFD") is not None else None
    name = "PlaneCount" if data.get("PlaneCount") is not None else "NumPlanes"
    count = single if data.get(name) is None else _integer(data, name, 0)
    return Block(first, _integer(data, "IFD", 0), count, _file(root, data))


def _file(root: ET.Element, data: ET.Element) -> str | None:
    """Return the file that a block is in, None where it is this one."""
    for uuid in _children(data, "UUID"):
        own = (root.get("UUID") or "").strip().lower()
        if own and (uuid.text or "").strip().lower() == own:
            return None
        name = uuid.get("FileName")
        if not name:
            raise UnsupportedError(f"planes in a file known as {uuid.text!r} alone; a FileName would do", field=FIELD)
        if "/" in name or "\\" in name or name in {".", ".."}:
            raise UnsupportedError(
                f"planes in {name!r}: only files of the same directory are opened", field="UUID FileName"
            )
        return name
    return None


def _channels(elements: list[ET.Element]) -> tuple[Channel, ...]:
    """Return the channels; nothing where none has a name or a colour."""
    if not any(element.get("Name") or element.get("Color") for element in elements):
        return ()
    return tuple(
        Channel(element.get("Name") or element.get("ID") or f"channel_{number}", _colour(element.get("Color")))
        for number, element in enumerate(elements)
    )


def _colour(text: str | None) -> str | None:
    """Return RRGGBB of a colour that is the signed 32-bit number RRGGBBAA."""
    try:
        number = None if text is None else int(text)
    except ValueError:
        return None
    return None if number is None else f"{(number >> 8) & 0xFFFFFF:06X}"


def _axes(pixels: ET.Element) -> dict[str, Axis]:
    """Return the distances that are known, with their units."""
    names = {axis.lower(): (f"PhysicalSize{axis}", f"PhysicalSize{axis}Unit", MICROMETER) for axis in "XYZ"}
    names["t"] = ("TimeIncrement", "TimeIncrementUnit", SECOND)
    found = {}
    for axis, (size, unit, default) in names.items():
        step = _positive(pixels.get(size))
        if step is not None:
            found[axis] = Axis(axis, step, pixels.get(unit, default))
    return found


def _positive(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if isfinite(number) and number > 0 else None
