"""Untiled JNRRD, its bytes made by numpy alone, read as they were written."""

import json

import imagecodecs
import numpy as np
import pytest

import jnrrdz
from jnrrdz.api import open_group


@pytest.mark.parametrize(("kind", "endian"), [("uint16", "big"), ("float32", "little"), ("complex64", "big")])
def test_raw_data_read_exactly(tmp_path, kind, endian):
    expected = (np.arange(5 * 701 * 333) % 9973).reshape(5, 701, 333).astype(kind)
    core = {"jnrrd": "0004", "type": kind, "dimension": 3, "sizes": [333, 701, 5], "endian": endian}
    header = "".join(json.dumps({name: value}) + "\n" for name, value in core.items())
    order = ">" if endian == "big" else "<"
    path = tmp_path / "a.jnrrd"
    path.write_bytes(header.encode() + b"\n" + expected.astype(expected.dtype.newbyteorder(order)).tobytes())
    array = open_group(path)["data"]
    np.testing.assert_array_equal(array[:], expected)
    assert array.metadata.dimension_names == ("z", "y", "x")


PIXELS = (np.arange(5 * 71 * 33) % 9973).reshape(5, 71, 33).astype("u2")
ENCODE = {"zstd": imagecodecs.zstd_encode, "lz4": imagecodecs.lz4f_encode}
SKIPPABLE = b"\x50\x2a\x4d\x18\4\0\0\0abcd"


def packed(path, data, encoding, **more):
    core = {"jnrrd": "0004", "type": "uint16", "dimension": 3, "sizes": [33, 71, 5], "endian": "little"}
    lines = [json.dumps({name: value}) + "\n" for name, value in {**core, "encoding": encoding, **more}.items()]
    path.write_bytes("".join(lines).encode() + b"\n" + data)
    return path


FRAMES = {
    "one": lambda encode, data: encode(data),
    "two": lambda encode, data: encode(data[:1000]) + encode(data[1000:]),
    "behind one that is skipped": lambda encode, data: SKIPPABLE + encode(data),
}


@pytest.mark.filterwarnings("ignore:encoding:UserWarning")
@pytest.mark.parametrize("frames", FRAMES)
@pytest.mark.parametrize("encoding", ["zstd", "lz4", "ZSTD", "Lz4"])
def test_compressed_data_read_exactly(tmp_path, encoding, frames):
    data = FRAMES[frames](ENCODE[encoding.lower()], PIXELS.tobytes())
    path = packed(tmp_path / "a.jnrrd", data, encoding)
    np.testing.assert_array_equal(open_group(path)["data"][:], PIXELS)
    jnrrdz.index(path, tmp_path / "refs.json")
    np.testing.assert_array_equal(open_group(tmp_path / "refs.json")["data"][2], PIXELS[2])


@pytest.mark.filterwarnings("ignore:encoding:UserWarning")
def test_compressed_data_in_files(tmp_path):
    for encoding, encode in ENCODE.items():
        names = [f"{number}.{encoding}" for number in range(5)]
        for name, plane in zip(names, PIXELS, strict=True):
            (tmp_path / name).write_bytes(encode(plane.tobytes()))
        path = packed(tmp_path / f"{encoding}.jnrrd", b"", encoding, data_files=names)
        np.testing.assert_array_equal(open_group(path)["data"][:], PIXELS)


@pytest.mark.filterwarnings("ignore:encoding:UserWarning")
def test_bytes_to_skip_stand_in_what_zstd_makes(tmp_path):
    data = b"abc" + PIXELS.tobytes()
    path = packed(tmp_path / "a.jnrrd", ENCODE["zstd"](data), "zstd", byte_skip=3)
    np.testing.assert_array_equal(open_group(path)["data"][:], PIXELS)
    path = packed(tmp_path / "b.jnrrd", ENCODE["lz4"](data), "lz4", byte_skip=3)
    with pytest.raises(jnrrdz.UnsupportedError, match="byte_skip: 3 behind lz4"):
        jnrrdz.scan(path)


DAMAGES = {
    "short": lambda encode, data: encode(data[:-2]),
    "long": lambda encode, data: encode(data + b"ab"),
    "cut": lambda encode, data: encode(data)[:-9],
    "of something else": lambda _, data: data,
}


@pytest.mark.filterwarnings("ignore:encoding:UserWarning")
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("encoding", ["zstd", "lz4"])
def test_damaged_compressed_data(tmp_path, encoding, damage):
    path = packed(tmp_path / "a.jnrrd", DAMAGES[damage](ENCODE[encoding], PIXELS.tobytes()), encoding)
    with pytest.raises(jnrrdz.JnrrdzError):
        open_group(path)["data"][:]
