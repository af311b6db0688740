"""Layouts of extensions against GDAL: bytes made from its table, and the values that it finds in them."""

import json
import random
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import jbpy
import pytest
import rasterio

from jnrrdz.errors import MalformedError
from jnrrdz.formats.nitf.tre import Tre, describe_tre, parse_layout, read_fields
from jnrrdz.formats.nitf.tre_tables import DES, TRES

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

SPEC = ET.parse(Path(rasterio.__file__).parent / "gdal_data" / "nitf_spec.xml").getroot()
KNOWN = {tre.get("name"): tre for tre in SPEC.iter("tre")}


class Made:
    """Bytes that follow one entry of GDAL's table, with fields that others depend on at values that they ask for."""

    def __init__(self, entry, seed):
        self.random = random.Random(seed)
        self.values = {}
        self.counts = {}
        self.counters = {name for loop in entry.iter("loop") for name in re.findall(r"[A-Z]\w*", asked(loop))}
        self.lengths = {one.get("length_var") for one in entry.iter("field") if one.get("length_var")}
        self.wanted = {}
        for condition in entry.iter("if"):
            for name, _, value in asked_tests(condition.get("cond")):
                # where the table spells blanks out GDAL compares them with text that it has trimmed
                self.wanted.setdefault(name, []).extend([value] * (not value or bool(value.strip())))
        self.data = b"".join(self.parts(entry))

    def parts(self, parent):
        for item in parent:
            if item.tag == "field":
                yield self.field(item)
            elif item.tag == "loop":
                for _ in range(self.times(asked(item))):
                    yield from self.parts(item)
            elif item.tag == "if" and self.holds(item.get("cond")):
                yield from self.parts(item)

    def times(self, formula):
        words = re.sub(r"[A-Z]\w*", lambda name: str(int(self.values[name[0]])), formula).replace("/", "//")
        return eval(words)

    def holds(self, text):
        found = [self.is_true(*test) for test in asked_tests(text)]
        return all(found) if " AND " in text else any(found)

    def is_true(self, name, sign, value):
        if sign == ":":
            return bool(int(self.values[name]) >> int(value) & 1)
        return (str(self.values[name]).strip() == value.strip()) is (sign == "=")

    def field(self, item):
        name, kind = item.get("name"), item.get("type", "string")
        width = int(item.get("length") or self.values[item.get("length_var")])
        if kind in {"UnsignedInt_BigEndian", "bitmask"}:
            big = name not in self.counters | self.lengths
            number = self.random.randrange(1 << 8 * width) if big else self.random.randrange(1, 3)
            self.values[name] = number
            return number.to_bytes(width, "big")
        if kind.startswith("IEEE754"):
            return bytes.fromhex("3fc00000" if width == 4 else "bff8000000000000")
        text = self.text(name, kind, width)
        self.values[name] = text
        assert len(text) == width
        return text.encode()

    def text(self, name, kind, width):
        if not name and kind == "string":
            return " " * width
        if name in self.wanted and name not in self.counters | self.lengths:
            return self.random.choice([*self.wanted[name], "Q" * width])[:width].ljust(width)
        if name in self.counters | self.lengths:
            return self.counts.setdefault(name, f"{self.random.randrange(1, 4):0{width}}")
        if kind == "integer":
            return f"{self.random.randrange(10 ** min(width, 9)):0{width}}"
        if kind == "real":
            return f"{self.random.random() * 8:+.1f}".ljust(width, "0")[:width] if width > 3 else "7" * width
        return "".join(self.random.choices("ABCDEFGHKLM", k=width))


def asked(loop):
    return loop.get("formula") or loop.get("counter") or loop.get("iterations")


def asked_tests(text):
    for part in re.split(" AND | OR ", text):
        name, sign, value = re.fullmatch(r"(\w+)(!=|>=|=|:)(.*)", part).groups()
        yield name, sign, value


def by_gdal(path):
    with rasterio.open(path) as dataset:
        tree = ET.fromstring("".join(dataset.tags(ns="xml:TRE").values()))
    return [item.get("value") for tre in tree.iter("tre") for item in tre.iter("field")]


def flat(value):
    if isinstance(value, dict):
        return [one for part in value.values() for one in flat(part)]
    return [one for part in value for one in flat(part)] if isinstance(value, list) else [value]


def plain(values):
    """Return values as text, numbers as their values, blanks left out."""
    found = []
    for value in values:
        try:
            found.append(f"{float(value):.6g}")
        except ValueError:
            found.append(value.strip())
    return [value for value in found if value]


@pytest.mark.parametrize("tag", sorted(TRES))
@pytest.mark.parametrize("seed", range(3))
def test_gdal_finds_the_same_values(tmp_path, write_tre, tag, seed):
    data = Made(KNOWN[tag], seed).data
    problems = []
    shown = describe_tre(Tre(tag, data), problems)
    assert problems == []
    path = tmp_path / "image.ntf"
    write_tre(path, tag, data)
    expected, found = plain(by_gdal(path)), plain(flat(shown["fields"]))
    if tag in {"RSMDCB", "RSMECB"}:  # images and parameters are told in two lists, which are one here
        expected, found = sorted(expected), sorted(found)
    assert found == expected
    json.dumps(shown, allow_nan=False)


@pytest.fixture
def write_tre():
    def write(path, tag, data):
        file = jbpy.Jbp()
        file["FileHeader"]["FDT"].value = "20200102030405"
        file["FileHeader"]["OSTAID"].value = "test"
        file["FileHeader"]["NUMI"].value = 1
        file["FileHeader"]["LI001"].value = 4
        subheader = file["ImageSegments"][0]["subheader"]
        fields = {"IC": "NC", "NBANDS": 1, "NROWS": 2, "NCOLS": 2, "NPPBH": 2, "NPPBV": 2, "NBPR": 1, "NBPC": 1}
        fields |= {"IID1": "test", "IREP": "MONO", "NBPP": 8, "ABPP": 8, "IDLVL": 1, "IALVL": 0, "ILOC": (0, 0)}
        for name, value in fields.items():
            subheader[name].value = value
        tre = jbpy.core.UnknownTre(tag)
        tre["TREL"].value = len(data)
        tre["TREDATA"].value = data
        subheader["UDIDL"].value = 4
        subheader["UDID"].append(tre)
        file.finalize()
        with path.open("wb") as out:
            file.dump(out)
            out.seek(file["ImageSegments"][0]["Data"].get_offset())
            out.write(bytes(4))

    return write


@pytest.mark.parametrize("tag", sorted(TRES))
def test_every_cut_is_a_problem_and_never_an_error(tag):
    data = Made(KNOWN[tag], 5).data
    for length in range(0, len(data), max(len(data) // 25, 1)):
        problems = []
        shown = describe_tre(Tre(tag, data[:length]), problems)
        assert {"text", "base64"} & set(shown)
        assert problems
        assert tag in problems[0]


@pytest.mark.parametrize(
    ("text", "data", "expected"),
    [
        ("A:2 B:2# C:4~", b"x 07-1.5", {"A": "x", "B": 7, "C": -1.5}),
        ("A:2# B:3~", b"--nan", {"A": "--", "B": "nan"}),
        ("N:1# V:2[N]", b"2abcd", {"N": 2, "V": ["ab", "cd"]}),
        ("N:1# V:1#[tri(N)]", b"3123456", {"N": 3, "V": [1, 2, 3, 4, 5, 6]}),
        ("N:1# G*N-1{ L:1# T:L }", b"31a2bc", {"N": 3, "G": [{"L": 1, "T": "a"}, {"L": 2, "T": "bc"}]}),
        (
            "N:1# G*N{ A:1 } H:1 G*N{ B:1 }",
            b"2abhcd",
            {"N": 2, "G": [{"A": "a", "B": "c"}, {"A": "b", "B": "d"}], "H": "h"},
        ),
        ("N:1# G*N{ K:1# } G*N{ V:1[K] }", b"213abcd", {"N": 2, "G": [{"K": 1, "V": ["a"]}, {"K": 3, "V": [*"bcd"]}]}),
        ("M:1u ?M:7{ A:1 } ?M:0{ B:1 }", b"\x80a", {"M": 128, "A": "a"}),
        ("A:1 B:1 ?A!=U&B!=Y{ C:1 } ?A=U|B=X{ D:1 }", b"QXcd", {"A": "Q", "B": "X", "C": "c", "D": "d"}),
        ("A:1 B:1 ?A!=U&B!=Y{ C:1 } ?A=U|B=X{ D:1 }", b"QY  ", {"A": "Q", "B": "Y"}),
        ("A:4f B:8f", b"\x3f\x80\0\0" + b"\x7f\xf0" + bytes(6), {"A": 1.0, "B": "inf"}),
        ("L:1# X:Lx Y:2x", b"1z\x00\x01", {"L": 1, "X": "z", "Y": {"base64": "AAE="}}),
        ("?SIZE>=3{ A:1 } ?SIZE>=5{ B:1 }", b"a", {"A": "a"}),
    ],
)
def test_the_words_of_a_layout(text, data, expected):
    assert read_fields("TEST", parse_layout(text), data, {"SIZE": 4}) == expected


@pytest.mark.parametrize(
    ("text", "data", "message"),
    [
        ("A:2", b"abc", "3 bytes, its fields take 2"),
        ("A:3", b"ab", "3 bytes where 2 are left"),
        ("N:1 V:1[N]", b"x", "'x' is no count"),
        ("V:1[N]", b"x", "no field N"),
        ("N:9# V:0[N]", b"999999999", "more fields than 9 bytes"),
        ("N:5# G*N{ H*N{ I*N{ A:0 } } }", b"99999", "more fields than 5 bytes"),
        ("A:3f", b"abc", "a number of 3 bytes"),
    ],
)
def test_what_does_not_follow_a_layout_is_refused(text, data, message):
    with pytest.raises(MalformedError, match=message):
        read_fields("TEST", parse_layout(text), data)


@pytest.mark.parametrize("name", DES)
def test_layouts_of_headers_are_words(name):
    assert parse_layout(DES[name])


@pytest.mark.parametrize("text", [*TRES.values(), *DES.values()])
def test_no_list_takes_the_name_of_a_field_beside_it(text):
    def check(body):
        names = [(item.name, type(item)) for item in body if hasattr(item, "name")]
        kinds = {name: {kind for other, kind in names if other == name} for name, _ in names}
        assert all(len(kind) == 1 for kind in kinds.values())
        for item in body:
            check(getattr(item, "body", ()))

    check(parse_layout(text))


def test_a_word_that_is_none():
    with pytest.raises(ValueError, match="no word"):
        parse_layout("A5")
