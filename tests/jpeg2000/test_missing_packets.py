"""Reduced levels of tiles whose later packets are not in the chunk, beside OpenJPEG's own reduced reads."""

import itertools
import re
import shutil
import struct
import subprocess

import imagecodecs
import numpy as np
import pytest

import jnrrdz
from jnrrdz.formats.jpeg2000.codestream import parse_codestream

COMPRESS, DECOMPRESS = shutil.which("opj_compress"), shutil.which("opj_decompress")
pytestmark = pytest.mark.skipif(
    not (COMPRESS and DECOMPRESS),
    reason="opj_compress is not installed: Debian's libopenjp2-tools",
)

SHAPE = (150, 170)
SAMPLINGS = {
    "grey": "170,150,1,8,u",
    "colour": "170,150,3,8,u",
    "subsampled": "170,150,3,8,u@1x1:2x2:2x2",
}
ORDERS = {"RLCP": ["-p", "RLCP"], "RPCL": ["-p", "RPCL"], "LRCP": ["-p", "LRCP"]}
TILES = {"one tile": [], "tiles": ["-t", "32,32"]}
MARKERS = {
    "plain": [],
    "EPH": ["-EPH"],
    "SOP, EPH, PLT": ["-SOP", "-EPH", "-PLT"],
    "layers": ["-r", "20,5,1", "-EPH"],
}


def planes(sampling):
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    noise = np.random.default_rng(1).normal(0, 6, (3, *SHAPE))
    waves = 128 + 60 * np.sin(x / 9) + 40 * np.cos(y / 11) + noise
    pixels = np.clip(waves, 0, 255).astype("u1")
    steps = {"grey": [1], "colour": [1, 1, 1], "subsampled": [1, 2, 2]}[sampling]
    return [plane[::step, ::step] for plane, step in zip(pixels[: len(steps)], steps, strict=True)]


def compressed(folder, sampling, *options):
    raw, path = folder / "pixels.raw", folder / "image.j2k"
    raw.write_bytes(b"".join(plane.tobytes() for plane in planes(sampling)))
    arguments = ["-i", raw, "-F", SAMPLINGS[sampling], "-o", path]
    arguments += ["-n", "6", "-b", "16,16", *options]
    subprocess.run([COMPRESS, *map(str, arguments)], check=True, capture_output=True, timeout=60)
    return path


def by_openjpeg(folder, path, level, components):
    """Return the samples of some components at a level; None where OpenJPEG fails."""
    for old in folder.glob("plane*.pgx"):
        old.unlink()
    arguments = ["-i", path, "-r", level, "-o", folder / "plane.pgx"]
    if components:
        arguments += ["-c", ",".join(map(str, components))]
    run = subprocess.run([DECOMPRESS, *map(str, arguments)], capture_output=True, timeout=60, check=False)
    if run.returncode:
        return None
    return [pgx(one) for one in sorted(folder.glob("plane*.pgx"))]


def pgx(path):
    data = path.read_bytes()
    head = re.match(rb"PG (?:ML|LM) [+-]? ?\d+ (\d+) (\d+)\n", data)
    shape = int(head[2]), int(head[1])
    return np.frombuffer(data, "u1", offset=head.end()).reshape(shape)


def components_of(name):
    named = re.match(r"components?_(\d)(?:_(\d))?/", name)
    return range(int(named[1]), int(named[2] or named[1]) + 1) if named else ()


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_each_level_is_openjpegs(tmp_path, sampling, order, tiles):
    compared = 0
    parts = [[], ["-TP", "R"]]
    for part, marker in itertools.product(parts, MARKERS):
        # opj_compress writes broken tile-parts of subsampled components
        if part and sampling == "subsampled" and (order, tiles) != ("RPCL", "one tile"):
            continue
        options = [*ORDERS[order], *TILES[tiles], *part, *MARKERS[marker]]
        path = compressed(tmp_path, sampling, *options)
        jnrrdz.index(path, tmp_path / "refs.json", overwrite=True)
        group = jnrrdz.open_group(tmp_path / "refs.json")
        for name, array in group.members(max_depth=None):
            if not name.endswith("/data") or name.startswith("composite"):
                continue
            level = int(name.split("/")[-2])
            expected = by_openjpeg(tmp_path, path, level, components_of(name))
            if expected is None:
                assert (sampling, tiles, level) == ("subsampled", "tiles", 5)
                continue
            pixels = array[...]
            pixels = pixels if pixels.ndim == 3 else pixels[np.newaxis]
            for ours, theirs in zip(pixels, expected, strict=True):
                cut = theirs[: ours.shape[0], : ours.shape[1]]
                np.testing.assert_array_equal(ours, cut, f"{name} {options}")
            compared += 1
    assert compared >= 20


def with_coc(data, *, in_tiles, count_parts):
    """Return a codestream with COC, which repeats COD, in the main or each tile's header."""
    first = data.index(b"\xff\x90\0\x0a")
    at = data.index(b"\xff\x52", 0, first)
    cod = data[at : at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")]
    body = bytes([0, cod[4] & 1]) + cod[9:]
    coc = b"\xff\x53" + struct.pack(">H", len(body) + 2) + body
    pieces, at = [data[:first] + (b"" if in_tiles else coc)], first
    while data[at : at + 2] == b"\xff\x90":
        marker, size, tile, length, part, count = struct.unpack_from(">HHHIBB", data, at)
        body = data[at + 12 : at + length]
        if in_tiles and part == 0:
            body = coc + body
        count = count if count_parts else 0
        head = struct.pack(">HHHIBB", marker, size, tile, len(body) + 12, part, count)
        pieces.append(head + body)
        at += length
    return b"".join([*pieces, data[at:]])


@pytest.mark.filterwarnings("ignore:tiles stay whole")
@pytest.mark.parametrize("count_parts", [True, False])
@pytest.mark.parametrize("in_tiles", [True, False])
def test_tiles_with_a_coding_of_their_own_are_read_whole(tmp_path, in_tiles, count_parts):
    path = compressed(tmp_path, "colour", "-p", "RLCP", "-TP", "R", "-EPH", "-t", "64,64")
    data = with_coc(path.read_bytes(), in_tiles=in_tiles, count_parts=count_parts)
    path.write_bytes(data)
    for wish in ("auto", "always"):
        jnrrdz.index(path, tmp_path / "refs.json", precinct_windows=wish, overwrite=True)
        group = jnrrdz.open_group(tmp_path / "refs.json")
        for level in range(6):
            pixels = group[f"{level}/data"][...]
            whole = imagecodecs.jpeg2k_decode(data, skipres=level, planar=True)
            expected = whole[:, : pixels.shape[1], : pixels.shape[2]]
            np.testing.assert_array_equal(pixels, expected)

    # over a network the index reads one tile's header
    def fetch(spans):
        return [data[start:stop] for start, stop in spans]

    far = parse_codestream(lambda start, stop: data[start:stop], 0, len(data), fetch=fetch)
    assert far.is_split is not in_tiles
