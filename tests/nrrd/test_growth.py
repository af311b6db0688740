"""What repeats in the headers of NRRD and JNRRD: a scan takes time in proportion to how often."""

import json

import pytest

import jnrrdz
from tests.growth import assert_linear

pytestmark = pytest.mark.filterwarnings("ignore:encoding:UserWarning")
CLASSIC = "NRRD0004\ntype: uint8\ndimension: 1\nsizes: 8\nencoding: raw\n"
CORE = {"jnrrd": "0004", "type": "uint8", "dimension": 1, "sizes": [8], "encoding": "raw"}
URI = "https://jnrrd.org/extensions/tile/v1.0.0"


def lines(*more, **core):
    items = [*{**CORE, **core}.items(), *more]
    return "".join(f"{json.dumps({key: value})}\n" for key, value in items) + "\n" + "\0" * 64


def numbered(n):
    return {f"k{number}": number for number in range(n)}


def tiled(n, **keys):
    own = {"enabled": True, "dimensions": [0], "sizes": [1], "storage": "internal", "format": "chunked", **keys}
    named = [(f"tile:{key}", value) for key, value in own.items()]
    return lines(("extensions", {"tile": URI}), *named, sizes=[n]) + "\0" * (20 * n + 8000)


NRRD = {
    "pairs": (lambda n: CLASSIC + "".join(f"k{number}:=v\n" for number in range(n)) + "\n" + "\0" * 8, 3000),
    "comments": (lambda n: CLASSIC + "# words\n" * n + "\n" + "\0" * 8, 8000),
    "fields": (lambda n: CLASSIC + "".join(f"f{number}: v\n" for number in range(n)) + "\n" + "\0" * 8, 3000),
    "escapes": (lambda n: CLASSIC + "a:=" + "\\n" * n + "\n\n" + "\0" * 8, 20000),
    "words": (lambda n: CLASSIC + f"content: {'a ' * n}\n\n" + "\0" * 8, 20000),
    "lines to skip": (lambda n: CLASSIC + f"line skip: {n}\n\n" + "\n" * n + "\0" * 8, 8000),
}
JNRRD = {
    "keys": (lambda n: lines(*((f"k{number}", number) for number in range(n))), 1000),
    "keys in one": (lambda n: lines(*((f"a.k{number}", number) for number in range(n))), 1000),
    "items of a list": (lambda n: lines(*((f"a[{number}]", number) for number in range(n))), 1000),
    "a value": (lambda n: lines(("a", list(range(n)))), 10000),
    "an object twice": (lambda n: lines(("a", numbered(n)), ("a.b", numbered(n))), 1000),
    "declarations": (lambda n: lines(*(("extensions", {f"p{k}": f"https://a.b/{k}"}) for k in range(n))), 500),
    "tables": (lambda n: tiled(n, offset_table=list(range(20 * n + 4000, 21 * n + 4000)), size_table=[1] * n), 300),
}


@pytest.mark.parametrize("family", NRRD)
def test_nrrd(tmp_path, family):
    make, size = NRRD[family]
    check(tmp_path, "nrrd", make, size)


@pytest.mark.parametrize("family", JNRRD)
def test_jnrrd(tmp_path, family):
    make, size = JNRRD[family]
    check(tmp_path, "jnrrd", make, size)


def check(folder, ending, make, size):
    def written(n):
        path = folder / f"{n}.{ending}"
        path.write_text(make(n))
        return path

    assert_linear(written, jnrrdz.scan, size)


def test_files_that_a_header_lists(tmp_path):
    for number in range(8 * 40):
        (tmp_path / f"{number}.raw").write_bytes(b"1")

    def written(n):
        path = tmp_path / f"{n}.nhdr"
        names = "".join(f"{number}.raw\n" for number in range(n))
        path.write_text(f"NRRD0004\ntype: uint8\ndimension: 2\nsizes: 1 {n}\nencoding: raw\ndata file: LIST 1\n{names}")
        return path

    assert_linear(written, jnrrdz.scan, 40)
