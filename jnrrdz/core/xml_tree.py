"""XML from strangers as a small tree: no entities, no document types, bounded in size and depth.

An entity can name a file or grow without end, so a declaration of one is refused before it is read; the five that XML
itself has are read.  Spec: https://www.w3.org/TR/xml/
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from jnrrdz.core.limits import DEEPEST, XML_BYTES, XML_ELEMENTS
from jnrrdz.errors import MalformedError, UnsupportedError


@dataclass(slots=True)
class Element:
    """One element: its attributes, its own text, and the elements in it."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Element"] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    document: bytes = b""
    """The document that it is part of."""

    start: int = 0
    """Offset of its start tag in the document."""

    stop: int = 0
    """Offset of its end tag."""

    @property
    def markup(self) -> str:
        """All that stands between its tags, as it is spelt; empty where it holds text only."""
        inner = self.document[self.children[0].start : self.stop] if self.children else b""
        return inner.decode().strip()

    @property
    def text(self) -> str:
        """Its own text, without white space in front, as GDAL reads it."""
        return "".join(self.pieces).lstrip()

    def named(self, tag: str) -> Iterator["Element"]:
        """Yield its children of one name."""
        return (child for child in self.children if child.tag == tag)

    def text_of(self, tag: str) -> str | None:
        """Return the text of its first child of one name, None where there is none or it is empty."""
        return next((child.text for child in self.named(tag)), "") or None


def parse_xml(text: str, field_name: str) -> Element:
    """Return the root element of a document; errors name the field that holds it."""
    data = text.encode(errors="replace")
    if len(data) > XML_BYTES:
        raise UnsupportedError(f"{len(data)} bytes of XML, no more than {XML_BYTES} are read", field=field_name)
    path = [Element("")]  # the elements that are open, outermost first
    count = 0
    parser = expat.ParserCreate("utf-8")  # as encoded above, whatever the document declares

    def refuse(name: str, *_: object) -> NoReturn:
        raise UnsupportedError(f"XML that declares a document type or an entity ({name})", field=field_name)

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > XML_ELEMENTS:
            raise UnsupportedError(f"XML of more than {XML_ELEMENTS} elements", field=field_name)
        if len(path) > DEEPEST:
            raise UnsupportedError(f"XML nested more than {DEEPEST} deep", field=field_name)
        element = Element(tag, attributes, document=data, start=parser.CurrentByteIndex)
        path[-1].children.append(element)
        path.append(element)

    def end(_tag: str) -> None:
        path.pop().stop = parser.CurrentByteIndex

    def add_text(piece: str) -> None:
        path[-1].pieces.append(piece)

    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = add_text
    try:
        parser.Parse(data, True)  # noqa: FBT003  # expat's own signature: this is all
    except expat.ExpatError as error:
        raise MalformedError(f"not XML: {error}", field=field_name) from error
    return path[0].children[0]
