"""Lower levels of far files whose manifest refers to whole tiles: their first reader finds where they end."""

import imagecodecs
import numpy as np
import pytest

import jnrrdz
from jnrrdz.formats.jpeg2000 import levels
from tests.jpeg2000.images import LOSSLESS, encoded, image

TILES = {"BLOCKXSIZE": "512", "BLOCKYSIZE": "512", "RESOLUTIONS": "6", "PRECINCTS": "{32768,32768}", "TLM": "YES"}
KINDS = {
    "plain": {},
    "PLT": {"PLT": "YES"},
    "EPH": {"EPH": "YES"},
    "SOP and EPH": {"SOP": "YES", "EPH": "YES"},
    "precincts": {"PRECINCTS": "{64,64},{64,64},{64,64},{64,64},{64,64},{64,64}", "PROGRESSION": "RPCL"},
    "every block style": {"CODEBLOCK_STYLE": "63"},
    "layers": {"REVERSIBLE": "NO", "QUALITY": "5,30", "PROGRESSION": "RLCP"},
}
SIDE = 1100


@pytest.fixture
def served(http_server, tmp_path):
    """Index a file with TLM over HTTP; return its group, and what a read costs."""

    def index(name, **options):
        data = encoded(tmp_path, image((1, SIDE, SIDE), "uint16"), **{**LOSSLESS, **TILES, **KINDS[name], **options})
        http_server.files["/a.j2k"] = data
        jnrrdz.index(f"{http_server.url}/a.j2k", tmp_path / "refs.json", overwrite=True)
        return data, jnrrdz.open_group(tmp_path / "refs.json")

    def cost(function):
        requests, nbytes = len(http_server.log), http_server.body_bytes
        pixels = function()
        return pixels, len(http_server.log) - requests, http_server.body_bytes - nbytes

    return index, cost


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("denser", [levels.DENSER, 0.01], ids=["guessed well", "guessed too small"])
def test_a_level_is_that_of_the_whole_and_costs_less(served, monkeypatch, name, denser):
    monkeypatch.setattr(levels, "DENSER", denser)
    index, cost = served
    data, group = index(name)
    for level in range(6):
        pixels, _, nbytes = cost(lambda level=level: group[f"{level}/data"][...])
        expected = imagecodecs.jpeg2k_decode(data, skipres=level)
        np.testing.assert_array_equal(pixels, expected[: pixels.shape[0], : pixels.shape[1]])
        if level > levels.LOW and denser >= 1:
            assert nbytes < len(data) / 3


def test_ends_are_looked_up_once(served):
    index, cost = served
    _, group = index("plain")
    array = group["3/data"]
    first, requests, nbytes = cost(lambda: array[:100])
    # one for the first chunk, and the others at once
    assert requests <= 6
    again, requests, _ = cost(lambda: array[:100])
    assert requests == 0
    np.testing.assert_array_equal(first, again)
    assert nbytes > 0


def test_a_manifest_that_refers_to_heads_is_read_as_it_is(http_server, tmp_path):
    data = encoded(tmp_path, image((1, SIDE, SIDE), "uint8"), **{**LOSSLESS, **TILES, "TLM": "NO", "PLT": "YES"})
    (tmp_path / "a.j2k").write_bytes(data)
    jnrrdz.index(tmp_path / "a.j2k", tmp_path / "local.json")
    text = (tmp_path / "local.json").read_text()
    http_server.files["/a.j2k"] = data
    assert text.count("a.j2k") > 1
    group = jnrrdz.open_group(tmp_path / "local.json")
    expected = imagecodecs.jpeg2k_decode(data, skipres=3)
    np.testing.assert_array_equal(group["3/data"][...], expected)


def test_a_damaged_head_is_an_error(served, http_server):
    index, _ = served
    data, group = index("plain")
    at = data.index(b"\xff\x93") + 2
    http_server.files["/a.j2k"] = data[:at] + b"\xff\x7f" * 300 + data[at + 600 :]
    with pytest.raises(jnrrdz.JnrrdzError):
        group["4/data"][...]


def test_levels_of_a_stack_cost_no_more(served, http_server, tmp_path):
    index, cost = served
    data, _ = index("plain")
    http_server.files["/b.j2k"] = data
    jnrrdz.index(f"{http_server.url}/b.j2k", tmp_path / "b.json")
    jnrrdz.merge(
        [str(tmp_path / "refs.json"), str(tmp_path / "b.json")], str(tmp_path / "both.json"), concat_dim="time"
    )
    array = jnrrdz.open_group(tmp_path / "both.json")["4/data"]
    pixels, _, nbytes = cost(lambda: array[...])
    expected = imagecodecs.jpeg2k_decode(data, skipres=4)
    np.testing.assert_array_equal(pixels, np.stack([expected, expected]))
    assert nbytes < len(data) / 4
