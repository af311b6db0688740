"""Every codec's schema.json: a schema that takes what jnrrdz emits and reads, and nothing else."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from jnrrdz.core.codecs import OffsetConfig, PadConfig
from jnrrdz.errors import MalformedError

DOCS = Path(__file__).parents[2] / "docs" / "codecs"
NAMES = sorted(path.parent.name for path in DOCS.glob("*/README.md"))
FROM_JSON = {"offset": OffsetConfig.from_json, "pad": PadConfig.from_json}


def schema(name):
    return json.loads((DOCS / name / "schema.json").read_text("utf-8"))


def is_valid(name, entry):
    return Draft202012Validator(schema(name)).is_valid(entry)


def readme_entries(name):
    """Return every entry of the named codec in its README's JSON."""
    text = (DOCS / name / "README.md").read_text("utf-8")
    blocks = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", text, re.DOTALL | re.MULTILINE)]
    return [entry for block in blocks for entry in objects(block) if entry.get("name") == name]


def objects(value):
    """Yield every JSON object in a JSON value."""
    if isinstance(value, dict):
        yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(child)


def test_both_codecs_are_documented():
    assert {"offset", "pad"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_is_one(name):
    document = schema(name)
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(document)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "entry",
    [{}, [], None, "some-other-codec", {"name": "some-other-codec"}, {"name": "some-other-codec", "configuration": {}}],
    ids=json.dumps,
)
def test_the_schema_refuses_what_is_no_entry_of_this_codec(name, entry):
    assert not is_valid(name, entry)


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_refuses_unknown_keys(name):
    entries = readme_entries(name)
    assert entries
    for entry in entries:
        assert is_valid(name, entry)
        assert not is_valid(name, {**entry, "surplus": 1})
        assert not is_valid(name, {**entry, "configuration": {**entry.get("configuration", {}), "surplus": 1}})


@given(nbytes=st.integers(0, 2**40))
def test_what_the_builders_emit_without_a_literal_validates(nbytes):
    assert is_valid("offset", OffsetConfig(nbytes).to_json())
    assert is_valid("pad", PadConfig("start", nbytes).to_json())


@given(literal=st.binary(max_size=100), location=st.sampled_from(["start", "end"]))
def test_what_the_builders_emit_with_a_literal_validates(literal, location):
    assert is_valid("offset", OffsetConfig(len(literal), literal).to_json())
    assert is_valid("pad", PadConfig(location, len(literal), literal).to_json())


LENGTHS = [0, 1, 2**40, -1, True, "1", None, 0.5, [1]]
LITERALS = [
    "",
    "AA==",
    "AAA=",
    "AAAA",
    "AAAAAA==",
    "A",
    "AA",
    "AA=",
    "AB==",
    "AAB=",
    "AA==\n",
    " AA==",
    "-_-_",
    "AA==AA==",
]
STRANGE_LITERALS = [None, 0, ["AA=="], {}]


def agrees(name, configuration):
    """Whether the schema and the codec say the same of it; of a literal's length only the codec can tell."""
    try:
        FROM_JSON[name](configuration)
    except MalformedError as error:
        expected = "bytes long, but" in error.message
    else:
        expected = True
    return is_valid(name, {"name": name, "configuration": configuration}) is expected


@pytest.mark.parametrize("length", LENGTHS, ids=repr)
def test_schema_and_codec_agree_on_lengths(length):
    assert agrees("offset", {"offset": length})
    assert agrees("pad", {"location": "end", "nbytes": length})


@pytest.mark.parametrize("literal", [*LITERALS, *STRANGE_LITERALS], ids=repr)
def test_schema_and_codec_agree_on_literals(literal):
    assert agrees("offset", {"offset": 1, "prefix": literal})
    assert agrees("pad", {"location": "start", "nbytes": 1, "padding": literal})


@given(literal=st.text("AQgwEB+/=\n é", max_size=9))
def test_schema_and_codec_agree_on_any_literal(literal):
    assert agrees("offset", {"offset": 1, "prefix": literal})


@pytest.mark.parametrize(
    "configuration",
    [{}, {"location": "end"}, {"nbytes": 1}]
    + [{"location": location, "nbytes": 1} for location in ("start", "end", "middle", "Start", "", None, 0, ["end"])],
    ids=json.dumps,
)
def test_schema_and_codec_agree_on_locations(configuration):
    assert agrees("pad", configuration)


def test_the_schema_in_the_proposals_text_refuses_its_own_examples():
    proposed = {
        "name": "offset",
        "configuration": {"offset": {"type": "integer", "minimum": 0}, "prefix": {"type": "string"}},
        "required": ["offset"],
    }
    validator = Draft202012Validator(proposed)
    example = {"name": "offset", "configuration": {"offset": 16, "prefix": "TVlfQ1VTVE9NX0hFQURFUg=="}}
    assert not validator.is_valid(example)
    assert validator.is_valid({"offset": "x"})
    assert is_valid("offset", example)
    assert not is_valid("offset", {"offset": "x"})
