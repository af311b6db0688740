import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.manifests.documents import ChunkKeys
from jnrrdz.manifests.json_refs import first_line, read_rows

URL = "s3://bucket/a;b,c 1.tif"
LIMIT = 2**62 - 1
KEYS = ChunkKeys.encoded("data", (30, 40), "default", "/")


def text_of(rows, url=URL, prefix="data/c/"):
    return ",\n".join(f'"{prefix}{i}/{j}":["{url}",{offset},{length}]' for i, j, offset, length in rows).encode()


def read(text, keys=KEYS):
    line = first_line(text)
    return None if line is None else read_rows(text, line, keys, LIMIT)


numbers = st.sampled_from([0, 1, 9, 10, 100, 12345, 2**53 + 1, LIMIT]) | st.integers(0, LIMIT)
rows = st.lists(st.tuples(st.integers(0, 29), st.integers(0, 39), numbers, numbers), min_size=1, max_size=6)


@given(rows, st.sampled_from([URL, "a", "é/0.tif"]))
def test_uniform_lines_are_read(found, url):
    read_back = read(text_of(found, url))
    assert read_back.chunks.tolist() == [40 * i + j for i, j, _, _ in found]
    assert read_back.offset.tolist() == [offset for _, _, offset, _ in found]
    assert read_back.length.tolist() == [length for _, _, _, length in found]


@given(rows, st.data())
def test_what_is_read_is_what_json_says(found, data):
    """Bytes changed at random are either not taken, or mean the same to a JSON reader."""
    text = bytearray(text_of(found))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + 1] = data.draw(
            st.sampled_from([b"", b"0", b"1", b",", b"/", b";", b"\n", b'"', b"]", b"-", b".", b"00"])
        )
    rows_read = read(bytes(text))
    if rows_read is None:
        return
    pairs = json.loads(b"{" + text + b"}", object_pairs_hook=list)
    url = first_line(bytes(text)).url
    triples = zip(rows_read.chunks.tolist(), rows_read.offset.tolist(), rows_read.length.tolist(), strict=True)
    assert [(KEYS.key(chunk), [url, offset, length]) for chunk, offset, length in triples] == pairs


@pytest.mark.parametrize(
    "text",
    [
        text_of([(0, 0, 1, 2)]) + b",\n" + text_of([(0, 1, 1, 2)], "other"),
        text_of([(0, 0, 1, 2)]) + b",\n" + text_of([(0, 1, 1, 2)], prefix="date/c/"),
        text_of([(30, 0, 1, 2)]),
        text_of([(0, 0, 1, 2**62)]),
        text_of([(0, 0, 1, 10**30)]),
        text_of([(0, 0, -1, 2)]),
        text_of([(0, 0, "01", 2)]),
        text_of([(0, 0, "00", 0)]),
        text_of([(0, "00", 1, 2)]),
        text_of([("", 0, 1, 2)]),
        text_of([(0, 0, 1, "")]),
        text_of([(0, 0, 1, 2.5)]),
        text_of([(0, 0, 1, "2,3")]),
        text_of([(0, 0, 1, 2)]) + b"\n" + text_of([(0, 1, 1, 2)]),
        text_of([(0, 0, 1, 2)], "a\\u0041"),
        text_of([(0, 0, 1, 2)]).replace(b"s3", b"\xff"),
        b'"data/c/0/0":["u",1,2],\n"data/c/0/1":["u",1,2\n0/2":["u",1,2]',
        b'"data/c/0/0":"inline"',
        b'"data/c/0/0":["url"]',
        b"",
    ],
)
def test_other_lines_are_left_to_a_json_reader(text):
    assert read(text) is None
