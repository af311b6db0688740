"""What an index of a large file costs over HTTP, and what its lower levels cost to read."""

import struct

import imagecodecs
import numpy as np
import pytest
from rasterio.transform import from_origin

import jnrrdz
from tests import writers

SIDE, TILE = 8192, 512
COUNT = (SIDE // TILE) ** 2
SOT = b"\xff\x90\0\x0a"
NOISE = {"noise": 256, "a picture's noise": 48}


def tiles_again(values, *, listed):
    """A codestream of 256 tiles, all of them the same one, and the pixels of that tile."""
    pixels = np.random.default_rng(7).integers(0, values, (TILE, TILE), np.uint8)
    one = imagecodecs.jpeg2k_encode(pixels, codecformat="j2k", reversible=True, level=0, resolutions=6)
    first = one.find(SOT)
    header, part = bytearray(one[:first]), one[first:-2]
    struct.pack_into(">8I", header, 8, SIDE, SIDE, 0, 0, TILE, TILE, 0, 0)
    if listed:
        entries = b"".join(struct.pack(">BI", tile, len(part)) for tile in range(COUNT))
        header += struct.pack(">HHBB", 0xFF55, 4 + len(entries), 0, 0x50) + entries
    sots = (SOT + struct.pack(">HIBB", tile, len(part), 0, 1) for tile in range(COUNT))
    return bytes(header) + b"".join(sot + part[12:] for sot in sots) + b"\xff\xd9", pixels


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("listed", [True, False], ids=["TLM", "walk"])
def test_an_index_of_256_tiles_takes_few_requests(http_server, tmp_path, noise, listed):
    data, pixels = tiles_again(NOISE[noise], listed=listed)
    http_server.files["/a.j2k"] = data
    jnrrdz.index(f"{http_server.url}/a.j2k", tmp_path / "refs.json")
    assert len(http_server.log) <= (2 if listed else COUNT + 80)
    # long tile-parts are looked for at several places
    assert http_server.body_bytes <= (64 << 10 if listed else len(data) * 0.15)
    array = jnrrdz.open_group(tmp_path / "refs.json")["0/data"]
    assert (array.shape, array.chunks) == ((SIDE, SIDE), (TILE, TILE))
    np.testing.assert_array_equal(array[-TILE:, 3 * TILE : 4 * TILE], pixels)


def by_resolution(path):
    """A file whose tiles have a tile-part for each resolution."""
    rows, columns = np.mgrid[:1024, :1024]
    noise = np.random.default_rng(3).integers(0, 12, (3, 1024, 1024))
    bands = (100 + 60 * np.sin(rows / 40) * np.cos(columns / 70) + noise).astype(np.uint8)
    options = {"QUALITY": "100", "REVERSIBLE": "YES", "YCBCR420": "NO", "RESOLUTIONS": "6"}
    tiles = {"TILED": "YES", "BLOCKXSIZE": "512", "BLOCKYSIZE": "512"}
    layout = {"PROGRESSION": "RLCP", "TILEPARTS": "RESOLUTIONS", **tiles, "transform": from_origin(0, 0, 2, 2)}
    return writers.gdal_image(path, bands, driver="JP2OpenJPEG", **options, **layout).read_bytes()


def test_a_level_of_tile_parts_by_resolution_costs_the_bytes_of_its_own(http_server, tmp_path):
    data = by_resolution(tmp_path / "a.jp2")
    assert data.count(SOT) == 4 * 6
    http_server.files["/a.jp2"] = data
    jnrrdz.index(f"{http_server.url}/a.jp2", tmp_path / "refs.json")
    group = jnrrdz.open_group(tmp_path / "refs.json")
    http_server.body_bytes = 0
    pixels = group["2/data"][...]
    assert http_server.body_bytes <= len(data) / 10
    np.testing.assert_array_equal(pixels, imagecodecs.jpeg2k_decode(data, skipres=2, planar=True))
    assert pixels.shape == (3, 256, 256)
