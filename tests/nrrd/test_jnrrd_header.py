"""Headers of JNRRD by hand: lines, prefixes, nested and flattened keys, types, what is refused."""

import json
import math

import numpy as np
import pytest

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nrrd import JNRRD
from jnrrdz.formats.nrrd.header import LARGEST
from jnrrdz.formats.nrrd.jnrrd import DEEPEST, jnrrd_header, read_lines, resolved

URI = "https://jnrrd.org/extensions/tile/v1.0.0"
OTHER = "https://example.org/other/v2"
FIRST = ("jnrrd", "0004")
BASE = {"type": "uint16", "dimension": 2, "sizes": [6, 4], "endian": "little"}


def source(data):
    return lambda start, stop: data[start:stop]


def lines(*items, end="\n"):
    return "".join(json.dumps({name: value}) + end for name, value in items).encode()


def keys(*items):
    return resolved([FIRST, *items])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("behind", "skipped"),
    [
        (b"\ndata", 1),
        (b"\r\ndata", 2),
        (b"data", 0),
        (b"\xff\xfe{}\n", 0),
        (b"123\n", 0),
        (b"[1]\n", 0),
        (b'{"a\xff\n', 0),
        (b"{a: 1}\n", 0),
        (b"", 0),
        (b"\n\nx", 1),
        (b'\n{"a": 1}\n', 1),
        (b'\n{"a": 1\n', 1),
    ],
)
def test_where_the_header_ends(end, behind, skipped):
    head = lines(FIRST, ("type", "uint8"), end=end)
    found = read_lines(source(head + behind))
    assert found.items == (FIRST, ("type", "uint8"))
    assert found.data_start == len(head) + skipped


def test_a_last_line_without_an_end():
    assert read_lines(source(b'{"jnrrd": "0004"}\n{"a": 1}')).items == (FIRST, ("a", 1))


def test_numbers_that_json_has_not():
    found = read_lines(source(b'{"jnrrd": "0004"}\n{"a": [NaN, Infinity, -Infinity, null]}\n'))
    value = dict(found.items)["a"]
    assert math.isnan(value[0])
    assert value[1:] == [math.inf, -math.inf, None]


def test_a_header_longer_than_a_block():
    table = list(range(50000))
    head = lines(FIRST, ("a", table))
    found = read_lines(source(head + b"\nrest"))
    assert dict(found.items)["a"] == table
    assert found.data_start == len(head) + 1


def test_a_line_without_an_end_is_read_no_further_than_the_limit():
    asked = []

    def endless(start, stop):
        asked.append(stop)
        return (b'{"jnrrd": "0004"}\n{"a": "' + b"x" * stop)[start:stop]

    with pytest.raises(MalformedError, match="more than"):
        read_lines(endless)
    assert max(asked) <= LARGEST


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (b"", "jnrrd"),
        (b'{"type": "uint8"}\n{"jnrrd": "0004"}\n', "jnrrd"),
        (b'{"jnrrd": "0009"}\n', "jnrrd"),
        (b'{"jnrrd": 4}\n', "jnrrd"),
        (b'{"jnrrd": "0004"}\n{"a": 1, "b": 2}\n', "header"),
        (b'{"jnrrd": "0004"}\n{"deep": ' + b"[" * (DEEPEST + 2) + b"]" * (DEEPEST + 2) + b"}\n", "deep"),
        (b'{"jnrrd": "0004"}\n{"deep": ' + b"[" * 200000 + b"]" * 200000 + b"}\n", "deep"),
        (b'{"jnrrd": "0004"}\n{"a": ' + b"9" * 5000 + b"}\n", "header"),
        (b'{"jnrrd": "0004"}\n{"sizes": [6, 4\n', "sizes"),
        (b'{"jnrrd": "0004"}\n{"sizes": [6, 4', "sizes"),
        (b'{"jnrrd": "0004"}\n{"sizes": [6, 4]\n}\n', "sizes"),
        (b'{"jnrrd": "0004"}\n{"sizes": [6, \x004]}\n', "sizes"),
        (b'{"jnrrd": "0004"}\n{"units\n', "header"),
        (b'{"jnrrd": "0004"}\n{"units\xff": 1}\n', "units\ufffd"),
    ],
)
def test_lines_that_are_refused(text, field):
    with pytest.raises(MalformedError) as caught:
        read_lines(source(text))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("head", "expected"),
    [(b'{"jnrrd": "0004"}', True), (b' { "jnrrd":"0004"}', True), (b'{"nrrd": 1}', False), (b"NRRD0004\n", False)],
)
def test_how_it_is_told(head, expected):
    assert JNRRD.fits(head) is expected


@pytest.mark.parametrize("prefix", ["tile", "t", "my-tiles"])
def test_a_prefix_is_known_by_its_uri(prefix):
    found = keys(("extensions", {prefix: URI}), (f"{prefix}:enabled", True), ("tile2:enabled", 3))
    assert found.tile == (prefix, {"enabled": True})


def test_declarations_are_united_wherever_they_stand():
    found = keys(("a:x", 1), ("extensions", {"a": OTHER}), ("t:enabled", True), ("extensions", {"t": URI}))
    assert found.extensions == {OTHER: {"x": 1}, URI: {"enabled": True}}


def test_the_word_tile_may_stand_for_another_extension():
    found = keys(("extensions", {"tile": OTHER, "x": URI}), ("tile:enabled", 5), ("x:enabled", True))
    assert found.tile == ("x", {"enabled": True})


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([("t:a", {"b": 1})], {"a": {"b": 1}}),
        ([("t:a.b", 1)], {"a": {"b": 1}}),
        ([("t", {"a": {"b": 1}})], {"a": {"b": 1}}),
        ([("t:a", [1, 2]), ("t:a[1]", 5)], {"a": [1, 5]}),
        ([("t:a[1]", 5), ("t:a", [1, 2])], {"a": [1, 5]}),
        ([("t:a", [1, 2]), ("t:a[2]", 5)], {"a": [1, 2, 5]}),
        ([("t:a[1]", 2), ("t:a[0]", 1)], {"a": [1, 2]}),
        ([("t:a[0].b", 1), ("t:a[0].c", 2), ("t:a[1].b", 3)], {"a": [{"b": 1, "c": 2}, {"b": 3}]}),
        ([("t:a.b", 2), ("t:a", {"b": 1, "c": 3})], {"a": {"b": 2, "c": 3}}),
        ([("t:a", {"b": 1, "c": 3}), ("t:a.b", 2)], {"a": {"b": 2, "c": 3}}),
        ([("t", {"a": 1}), ("t:a", 2)], {"a": 2}),
        ([("t:a.b", {"d": 2}), ("t:a", {"b": {"c": 1}})], {"a": {"b": {"c": 1, "d": 2}}}),
        ([("t:a[0]", {"c": 2}), ("t:a", [{"b": 1}])], {"a": [{"b": 1, "c": 2}]}),
        ([("t:a", 1), ("t:a", 1)], {"a": 1}),
        ([("t:a[1][0]", 3), ("t:a", [[1], [2]])], {"a": [[1], [3]]}),
    ],
)
def test_nested_and_flattened_are_the_same(items, expected):
    assert keys(("extensions", {"t": URI}), *items).tile == ("t", expected)


def test_core_keys_are_flattened_too():
    assert keys(("sizes[0]", 3), ("sizes[1]", 4), ("sizes[2]", 5)).core["sizes"] == [3, 4, 5]


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([("t:a[2]", 5)], "t:a[2]"),
        ([("t:a", [1]), ("t:a[2]", 5)], "t:a[2]"),
        ([("t:a", 1), ("t:a.b", 2)], "t:a.b"),
        ([("t:a", {"b": 1}), ("t:a[0]", 2)], "t:a[0]"),
        ([("t:a", 1), ("t:a", 2)], "t:a"),
        ([("t:a..b", 1)], "t:a..b"),
        ([("t:a[x]", 1)], "t:a[x]"),
        ([("t:", 1)], "t:"),
        ([("t:a[-1]", 1)], "t:a[-1]"),
        ([("tile:enabled", True)], "tile:enabled"),
        ([("extensions", {"t": OTHER})], "extensions"),
        ([("extensions", ["t"])], "extensions"),
        ([("extensions", {"u": 5})], "extensions"),
    ],
)
def test_keys_that_contradict_each_other(items, field):
    with pytest.raises(MalformedError) as caught:
        keys(("extensions", {"t": URI}), *items)
    assert caught.value.field == field


@pytest.mark.parametrize("part", [".a", "[0]"])
def test_paths_of_many_parts(part):
    assert keys(("a" + part * (DEEPEST - 1), 1)).core
    with pytest.raises(MalformedError, match=f"{DEEPEST} are the most"):
        keys(("a" + part * 1000, 1))


def test_another_version_of_the_tiling_is_refused():
    with pytest.raises(UnsupportedError, match="version 1"):
        keys(("extensions", {"t": "https://jnrrd.org/extensions/tile/v2.0.0"}))


def header(**changes):
    items = [(name, value) for name, value in (BASE | changes).items() if value is not ...]
    return jnrrd_header(keys(*items), 100)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((f"{sign}int{bits}",) * 2 for sign in ("", "u") for bits in (8, 16, 32, 64)),
        *((f"float{bits}",) * 2 for bits in (16, 32, 64)),
        ("complex64", "complex64"),
        ("complex128", "complex128"),
    ],
)
def test_types(name, expected):
    assert header(type=name).dtype == np.dtype(expected)


def test_what_need_not_be_said():
    found = header(type="uint8", endian=...)
    assert (found.encoding, found.endian, found.files, found.byte_skip) == ("raw", None, None, 0)


@pytest.mark.parametrize(
    ("changes", "error", "field"),
    [
        ({"type": ...}, MalformedError, "type"),
        ({"dimension": ...}, MalformedError, "dimension"),
        ({"sizes": ...}, MalformedError, "sizes"),
        ({"type": "bfloat16"}, UnsupportedError, "type"),
        ({"type": "block"}, UnsupportedError, "type"),
        ({"type": "uint17"}, MalformedError, "type"),
        ({"type": ["uint8"]}, MalformedError, "type"),
        ({"dimension": 3}, MalformedError, "sizes"),
        ({"dimension": 0}, MalformedError, "dimension"),
        ({"dimension": True}, MalformedError, "dimension"),
        ({"dimension": 2.0}, MalformedError, "dimension"),
        ({"sizes": "6 4"}, MalformedError, "sizes"),
        ({"sizes": [6, 0]}, MalformedError, "sizes"),
        ({"sizes": [6, -4]}, MalformedError, "sizes"),
        ({"sizes": [6, 4.5]}, MalformedError, "sizes"),
        ({"sizes": [6, True]}, MalformedError, "sizes"),
        ({"sizes": [6, None]}, MalformedError, "sizes"),
        ({"sizes": [2**60, 2**60]}, MalformedError, "sizes"),
        ({"endian": "middle"}, MalformedError, "endian"),
        ({"encoding": "ascii"}, UnsupportedError, "encoding"),
        ({"encoding": "hex"}, UnsupportedError, "encoding"),
        ({"encoding": 3}, UnsupportedError, "encoding"),
        ({"encoding": ["raw"]}, UnsupportedError, "encoding"),
        ({"endian": ["little"]}, MalformedError, "endian"),
        ({"byte_skip": -2}, MalformedError, "byte_skip"),
        ({"byte_skip": "3"}, MalformedError, "byte_skip"),
        ({"line_skip": -1}, MalformedError, "line_skip"),
        ({"data_file": 3}, MalformedError, "data_file"),
        ({"data_file": "a", "data_files": ["b"]}, MalformedError, "data_file, data_files"),
        ({"data_files": []}, MalformedError, "data_files"),
        ({"data_file_pattern": {"format": "a%d", "min": 0}}, MalformedError, "data_file_pattern"),
        ({"data_file_pattern": {"format": "a", "min": 0, "max": 3, "step": 1}}, MalformedError, "data_file_pattern"),
        ({"data_file_pattern": {"format": "%d", "min": 0, "max": 3, "step": 0}}, MalformedError, "data_file_pattern"),
        ({"data_file_pattern": {"format": "%d", "min": 0, "max": 1e9, "step": 1}}, MalformedError, "data_file_pattern"),
        ({"labels": ["x"]}, MalformedError, "labels"),
        ({"labels": [1, 2]}, MalformedError, "labels"),
        ({"spacings": ["a", 1]}, MalformedError, "spacings"),
        ({"space_directions": [[1, 0], 5]}, MalformedError, "space_directions"),
        ({"space_directions": [[1, 0], [0, 1]], "space_origin": [0, 0, 0]}, MalformedError, "space directions"),
    ],
)
def test_headers_that_are_refused(changes, error, field):
    with pytest.raises(error) as caught:
        header(**changes)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ({"format": "s%02d.raw", "min": 1, "max": 3, "step": 1}, ("s01.raw", "s02.raw", "s03.raw")),
        ({"format": "s%d.raw", "min": 4, "max": 0, "step": -2}, ("s4.raw", "s2.raw", "s0.raw")),
        ({"format": "s{:03d}.raw", "min": 1, "max": 2, "step": 1}, ("s001.raw", "s002.raw")),
    ],
)
def test_numbered_files(pattern, expected):
    assert header(data_file_pattern=pattern).files.names == expected
