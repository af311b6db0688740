"""XML from strangers as a small tree: no entities, no document types, bounded in size and depth.

An entity can name a file or grow without end, so a declaration of one is refused before it is read; the five that XML
itself has are read.  Spec: https://www.w3.org/TR/xml/
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from jnrrdz.errors import MalformedError, UnsupportedError

MAX_BYTES = 16 << 20
MAX_DEPTH = 64


@dataclass
class Element:
    """One element: its attributes, its own text, and the elements in it."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Element"] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    start: int = 0
    """Offset of its start tag in the document."""
    markup: str = ""
    """All that stands between its tags, as it is spelt; empty where it holds text only."""

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


class _Builder:
    """Keeps the elements that are open while expat walks through the document."""

    def __init__(self, data: bytes, field_name: str) -> None:
        self.data = data
        self.field = field_name
        self.open = [Element("")]
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def _refuse(self, name: str, *_: object) -> NoReturn:
        raise UnsupportedError(f"XML that declares a document type or an entity ({name})", field=self.field)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self.open) > MAX_DEPTH:
            raise UnsupportedError(f"XML nested more than {MAX_DEPTH} deep", field=self.field)
        element = Element(tag, attributes, start=self.parser.CurrentByteIndex)
        self.open[-1].children.append(element)
        self.open.append(element)

    def _text(self, text: str) -> None:
        self.open[-1].pieces.append(text)

    def _end(self, _tag: str) -> None:
        element = self.open.pop()
        if element.children:
            inner = self.data[element.children[0].start : self.parser.CurrentByteIndex]
            element.markup = inner.decode().strip()


def parse_xml(text: str, field_name: str) -> Element:
    """Return the root element of a document; errors name the field that holds it."""
    data = text.encode(errors="replace")
    if len(data) > MAX_BYTES:
        raise UnsupportedError(f"{len(data)} bytes of XML, no more than {MAX_BYTES} are read", field=field_name)
    builder = _Builder(data, field_name)
    try:
        builder.parser.Parse(data, True)  # noqa: FBT003  # expat's own signature: this is all
    except expat.ExpatError as error:
        raise MalformedError(f"not XML: {error}", field=field_name) from error
    return builder.open[0].children[0]
