"""The extensions whose layouts are strict, against jbpy: every field's name and value, and what is an error."""

import base64
import io
import logging
import math
import random

import jbpy.core
import pytest

from jnrrdz.formats.nitf.tre import Tre, describe_tre, parse_layout
from jnrrdz.formats.nitf.tre_tables import STRICT, TRES

KNOWN = jbpy.core.available_tres()
HEAD = 2
"""Fields of jbpy's groups that are not the extension's own: its tag and its length."""

COUNTS = {"J2KLRA": "NLAYERS_O", "PRJPSB": "NUM_PRJ", "REGPTB": "NUM_PTS"}

INTEGERS = (b"0", b"7", b"12", b"+5", b"-4", b" 3", b"3 ", b"1_0")
REALS = (b"0.5", b"+12.25", b"-1.5E2", b".5", b"7.", b" 1.5", b"2 ", b"nan", b"-inf", b"1_0.5")
TEXTS = (b"ABC", b" A", b"A.b-9", b"~")
NONSENSE = (b"x", b"--1", b"1,5", b"\xe9", b"\0", b" ", b"1__0", b"-1")


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(logging.getLogger("jbpy"), "disabled", True)
    for name in ("core", "extensions.tre.RPC00B"):
        monkeypatch.setattr(logging.getLogger(f"jbpy.{name}"), "disabled", True)


def by_jbpy(tag, data):
    """Return the fields that jbpy reads, as JSON has them; None where it fails or reads another number of bytes."""
    whole = tag.encode().ljust(6) + f"{len(data):05}".encode() + data
    try:
        group = KNOWN[tag]().load(io.BytesIO(whole))
        fields = {name: group[name].value for name in list(group)[HEAD:]}
    except (ValueError, RuntimeError, AssertionError):
        return None
    # jbpy takes a negative count for none
    if group.get_size() != len(whole) or fields.get(COUNTS.get(tag), 0) < 0:
        return None
    return {name: as_json(group[name], value) for name, value in fields.items()}


def as_json(field, value):
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return field.encoded_value.decode("latin-1").strip()
    return value


def by_jnrrdz(tag, data):
    problems = []
    shown = describe_tre(Tre(tag, data), problems)
    assert bool(problems) is ("fields" not in shown)
    return shown.get("fields")


def record(tag, chance):
    """Return bytes for each field of an extension, in widths that jbpy's fields have."""
    group = KNOWN[tag]()
    if tag in COUNTS:
        group[COUNTS[tag]].value = chance.randrange(0, 8)
    if tag == "J2KLRA":
        group["ORIG"].value = chance.randrange(0, 4)
    fixed = {COUNTS.get(tag), "ORIG"}
    return [group[name].encoded_value if name in fixed else content(group[name], chance) for name in list(group)[HEAD:]]


def content(field, chance):
    if field.nullable and chance.random() < 0.2:
        return b" " * field.size
    kind = type(field._converter).__name__  # noqa: SLF001  nothing else tells it
    if kind == "Bytes":
        return chance.randbytes(field.size)
    choices = {"Integer": INTEGERS, "StringAscii": TEXTS}.get(kind, REALS)
    text = chance.choice([choice for choice in choices if len(choice) <= field.size] or [b"4"])
    if kind == "Integer" and text.lstrip(b"+-").isdigit():
        return text.zfill(field.size)
    return text.ljust(field.size)


def test_jbpy_knows_what_is_strict():
    assert set(STRICT) == set(KNOWN)
    assert not set(STRICT) & set(TRES)


@pytest.mark.parametrize("tag", STRICT)
def test_every_field_is_the_one_that_jbpy_reads(tag):
    chance = random.Random(tag)
    for _ in range(60):
        data = b"".join(record(tag, chance))
        expected = by_jbpy(tag, data)
        fields = by_jnrrdz(tag, data)
        assert expected is not None
        assert fields == expected
        assert list(fields) == list(expected)
        assert [type(value) for value in fields.values()] == [type(value) for value in expected.values()]


@pytest.mark.parametrize("tag", STRICT)
def test_nonsense_in_a_field_is_an_error_where_it_is_one_for_jbpy(tag):
    chance = random.Random(tag)
    errors = 0
    for _ in range(150):
        parts = record(tag, chance)
        number = chance.randrange(len(parts))
        parts[number] = chance.choice(NONSENSE).ljust(len(parts[number]))[: len(parts[number])]
        data = b"".join(parts)
        expected = by_jbpy(tag, data)
        assert by_jnrrdz(tag, data) == expected
        errors += expected is None
    assert errors


@pytest.mark.parametrize("tag", STRICT)
def test_another_length_is_an_error(tag):
    data = b"".join(record(tag, random.Random(tag)))
    for wrong in (*(data[:length] for length in range(len(data))), data + b" ", data + b"\0\0", data + data):
        assert by_jbpy(tag, wrong) is None
        assert by_jnrrdz(tag, wrong) is None


def test_a_count_below_zero_is_an_error():
    data = b"0" + b"01" + b"00003" + b"-01"
    assert by_jnrrdz("J2KLRA", data) is None
    assert by_jnrrdz("REGPTB", b"-001") is None


def test_a_value_of_the_wrong_type_is_named():
    problems = []
    assert describe_tre(Tre("STDIDC", b"x" * 89), problems)["text"] == "x" * 89
    assert problems == ["STDIDC OP_NUM: invalid literal for int() with base 10: b'xxx'"]


@pytest.mark.parametrize("text", STRICT.values())
def test_strict_layouts_are_words(text):
    assert parse_layout(text)
