"""XML from strangers: what it holds, and what is refused before it can do harm."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.core.limits import DEEPEST, XML_BYTES
from jnrrdz.core.xml_tree import parse_xml
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError

BOMB = '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;">]><a>&c;</a>'

REFUSED = [
    (BOMB, UnsupportedError, "document type"),
    ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', UnsupportedError, "document type"),
    ("<a>&unknown;</a>", MalformedError, "undefined entity"),
    ("<a><b></a>", MalformedError, "mismatched tag"),
    ("", MalformedError, "no element"),
    ("no markup", MalformedError, "syntax error"),
    ("<a>\x00</a>", MalformedError, "not well-formed"),
    ("<a/><b/>", MalformedError, "junk"),
    ("<a>" * (DEEPEST + 1) + "</a>" * (DEEPEST + 1), UnsupportedError, "nested"),
]


@pytest.mark.parametrize(("text", "kind", "says"), REFUSED)
def test_refused(text, kind, says):
    with pytest.raises(kind, match=says) as caught:
        parse_xml(text, "FIELD")
    assert caught.value.field == "FIELD"


def test_too_long_is_refused_before_it_is_parsed():
    with pytest.raises(UnsupportedError, match="bytes of XML"):
        parse_xml("<a>" + " " * XML_BYTES + "</a>", "FIELD")


def test_depth_that_is_allowed():
    root = parse_xml("<a>" * DEEPEST + "</a>" * DEEPEST, "FIELD")
    assert root.tag == "a"


def test_markup_is_kept_as_it_is_spelt():
    root = parse_xml('<a>  <b x="é">1 &amp; 2</b><c/> </a>', "FIELD")
    assert root.markup == '<b x="é">1 &amp; 2</b><c/>'
    assert root.children[0].text == "1 & 2"
    assert root.children[0].markup == ""


def test_text_loses_white_space_in_front_only():
    assert parse_xml("<a>\n  b c \n</a>", "FIELD").text == "b c \n"


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), max_size=20)
names = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)
elements = st.recursive(
    st.tuples(names, st.dictionaries(names, texts, max_size=3), texts, st.just([])),
    lambda below: st.tuples(names, st.dictionaries(names, texts, max_size=3), texts, st.lists(below, max_size=3)),
    max_leaves=10,
)


def built(node):
    tag, attributes, text, children = node
    element = ET.Element(tag, attributes)
    element.text = text
    element.extend(built(child) for child in children)
    return element


def shown(element):
    return (element.tag, element.attributes, element.text, [shown(child) for child in element.children])


def stripped(node):
    tag, attributes, text, children = node
    return (tag, attributes, text.lstrip(), [stripped(child) for child in children])


@given(elements)
def test_equals_what_another_library_wrote(node):
    text = ET.tostring(built(node), encoding="unicode")
    assert shown(parse_xml(text, "FIELD")) == stripped(node)


@given(st.text(max_size=200) | st.text("<>&;/!a [\"'=", max_size=60))
def test_any_text_is_a_tree_or_an_error_of_ours(text):
    try:
        parse_xml(text, "FIELD")
    except JnrrdzError:
        return
    ET.fromstring(text)


@pytest.mark.parametrize("declared", ["UTF-9", "utf-16", "latin-1", "IBM037"])
def test_the_encoding_that_a_document_declares_is_past(declared):
    """The text was decoded before: what it says of its bytes is true no more."""
    assert parse_xml(f'<?xml version="1.0" encoding="{declared}"?><a>é</a>', "tag").text == "é"
