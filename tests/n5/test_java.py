"""Datasets as Java's N5 writes them: documents letter by letter, blocks byte by byte, no writer of this machine's."""

import bz2
import gzip
import io
import json
import lzma
import struct
import zlib

import imagecodecs
import numcodecs
import numpy as np
import pytest
import xxhash
import zstandard

import jnrrdz

VALUES = (np.random.default_rng(5).integers(0, 9, (300, 70)) * 1111).astype("u2")
BLOCK = (128, 64)


def lz4_block_stream(size, compress=imagecodecs.lz4_encode):
    """Return what LZ4BlockOutputStream writes with blocks of a size: several, a checksum each, an empty one last."""

    def pack(data):
        level = max(0, (size - 1).bit_length() - 10)
        out = b""
        for first in range(0, len(data), size):
            part = data[first : first + size]
            packed = bytes(compress(part))
            method, stored = (0x20, packed) if len(packed) < len(part) else (0x10, part)
            check = xxhash.xxh32_intdigest(part, 0x9747B28C) & 0x0FFFFFFF
            out += b"LZ4Block" + struct.pack("<BIII", method | level, len(stored), len(part), check) + stored
        return out + b"LZ4Block" + struct.pack("<BIII", 0x10 | level, 0, 0, 0)

    return pack


def zstd_stream(**parameters):
    def pack(data):
        compressor = zstandard.ZstdCompressor(
            compression_params=zstandard.ZstdCompressionParameters.from_level(3, **parameters)
        ).compressobj()
        half = len(data) // 2
        return (
            compressor.compress(data[:half])
            + compressor.flush(1)
            + compressor.compress(data[half:])
            + compressor.flush()
        )

    return pack


def named_gzip(data):
    out = io.BytesIO()
    with gzip.GzipFile("block", "wb", 1, out, mtime=0) as file:
        file.write(data)
    return out.getvalue()


def blosc(**told):
    def pack(data):
        codec = numcodecs.Blosc(**told)
        return bytes(codec.encode(np.frombuffer(data, "u1")))  # JBlosc is not told the size of elements

    return pack


def xz(**told):
    return lambda data: lzma.compress(data, lzma.FORMAT_XZ, **told)


COMPRESSIONS = {
    "raw": ('{"type":"raw"}', bytes),
    "gzip": ('{"type":"gzip","useZlib":false,"level":-1}', gzip.compress),
    "gzip, named": ('{"type":"gzip","level":1}', named_gzip),
    "gzip, zlib": ('{"type":"gzip","useZlib":true,"level":-1}', zlib.compress),
    "gzip, zlib stored": ('{"type":"gzip","useZlib":true,"level":0}', lambda data: zlib.compress(data, 0)),
    "bzip2": ('{"type":"bzip2","blockSize":9}', bz2.compress),
    "bzip2, small": ('{"type":"bzip2","blockSize":1}', lambda data: bz2.compress(data, 1)),
    "xz": ('{"type":"xz","preset":6}', xz(preset=6)),
    "xz, extreme": ('{"type":"xz","preset":9}', xz(preset=9 | lzma.PRESET_EXTREME)),
    "xz, sha256": ('{"type":"xz","preset":0}', xz(preset=0, check=lzma.CHECK_SHA256)),
    "xz, no check": ('{"type":"xz","preset":0}', xz(preset=0, check=lzma.CHECK_NONE)),
    "zstd": ('{"type":"zstd","level":3,"nbWorkers":0}', zstd_stream(write_content_size=False)),
    "zstd, checksum": ('{"type":"zstd","level":-5,"nbWorkers":2}', zstd_stream(write_checksum=True)),
    "zstd, long": ('{"type":"zstd","level":22}', zstd_stream(window_log=27)),
    "blosc": (
        '{"type":"blosc","cname":"blosclz","clevel":6,"shuffle":0,"blocksize":0,"nthreads":1}',
        blosc(cname="blosclz", clevel=6, shuffle=0),
    ),
    "blosc, bits": (
        '{"type":"blosc","cname":"zstd","clevel":9,"shuffle":2,"blocksize":512,"nthreads":4,"typesize":2}',
        blosc(cname="zstd", clevel=9, shuffle=2, blocksize=512),
    ),
    "blosc, stored": (
        '{"type":"blosc","cname":"lz4","clevel":0,"shuffle":1,"blocksize":0,"nthreads":1}',
        blosc(cname="lz4", clevel=0, shuffle=1),
    ),
    "lz4": ('{"type":"lz4","blockSize":65536}', lz4_block_stream(65536)),
    "lz4, smallest": ('{"type":"lz4","blockSize":64}', lz4_block_stream(64)),
    "lz4, no power of two": ('{"type":"lz4","blockSize":1500}', lz4_block_stream(1500)),
    "lz4, largest": ('{"type":"lz4","blockSize":33554432}', lz4_block_stream(1 << 25)),
    "lz4, stored": ('{"type":"lz4","blockSize":1024}', lz4_block_stream(1024, lambda part: part + b"longer")),
}
DOCUMENT = '{{"dataType":"{}","compression":{},"blockSize":{},"dimensions":{}}}'


def write(folder, values, block, compression, pack, *, mode=0):  # noqa: PLR0913  a dataset has that many
    """Write cut blocks as Java does."""
    folder.mkdir(parents=True, exist_ok=True)
    text = DOCUMENT.format(values.dtype, compression, json.dumps(list(block)), json.dumps(list(values.shape)))
    (folder / "attributes.json").write_text(text)
    for place in np.ndindex(*[-(-size // step) for size, step in zip(values.shape, block, strict=True)]):
        part = values[tuple(slice(at * step, (at + 1) * step) for at, step in zip(place, block, strict=True))]
        head = struct.pack(f">HH{part.ndim}I", mode, part.ndim, *part.shape)
        head += struct.pack(">I", part.size) if mode else b""
        file = folder.joinpath(*map(str, place))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(head + pack(part.T.astype(part.dtype.newbyteorder(">")).tobytes()))


@pytest.mark.parametrize("name", COMPRESSIONS)
@pytest.mark.parametrize("mode", [0, 1])
def test_compressions(tmp_path, name, mode):
    compression, pack = COMPRESSIONS[name]
    (tmp_path / "attributes.json").write_text('{"n5":"4.0.0"}')
    write(tmp_path / "v", VALUES, BLOCK, compression, pack, mode=mode)
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path)["v/data"][...], VALUES.T)


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_full_blocks_behind_a_skipped_header(tmp_path, name):
    compression, pack = COMPRESSIONS[name]
    values = VALUES[:256, :64]
    write(tmp_path / "v", values, BLOCK, compression, pack)
    array = jnrrdz.open_group(tmp_path / "v")["data"]
    names = {codec["name"] for codec in array.metadata.to_dict()["codecs"]}
    assert ("jnrrdz.lz4" in names) == ("pad" in names)
    assert not names & {"offset", "n5_default"}
    np.testing.assert_array_equal(array[...], values.T)


@pytest.mark.parametrize("axes", [5, 6])
def test_many_axes(tmp_path, axes):
    values = np.arange(3**axes, dtype="i4").reshape((3,) * axes) * -77
    write(tmp_path / "v", values, (2,) * axes, *COMPRESSIONS["gzip"])
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "v")["data"][...], values.T)


@pytest.mark.parametrize(
    "attributes",
    [
        '"n5":"4.0.0-alpha-8"',
        '"pixelResolution":{"unit":"nm","dimensions":[4.0,4.0]},"note":NaN,"downsamplingFactors":[1,1]',
        '"list":[Infinity,-Infinity],"name":"\\u003d\\u0027"',
        '"dimensions":[300.0,7e1]',  # Gson reads these as whole numbers
    ],
)
def test_what_stands_beside(tmp_path, attributes):
    write(tmp_path / "v", VALUES, BLOCK, *COMPRESSIONS["raw"])
    file = tmp_path / "v/attributes.json"
    file.write_text(f"{file.read_text()[:-1]},{attributes}}}")
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "v")["data"][...], VALUES.T)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('"uint16"', '"UINT16"'), "dataType: elements of type 'UINT16'"),
        (('"uint16"', '"string"'), "dataType: elements of type 'string'"),
        (('"uint16"', '"object"'), "dataType: elements of type 'object'"),
        (('"raw"', '"jpeg"'), "compression: 'jpeg'"),
        (('"dimensions":[300, 70]', '"dimensions":[300.5, 70]'), "dimensions"),
        (('"dimensions":[300, 70]', '"dimensions":[1e300, 70]'), "dimensions"),
    ],
)
def test_refused_by_name(tmp_path, change, said):
    write(tmp_path / "v", VALUES, BLOCK, *COMPRESSIONS["raw"])
    file = tmp_path / "v/attributes.json"
    text = file.read_text()
    assert change[0] in text
    file.write_text(text.replace(*change))
    with pytest.raises(jnrrdz.JnrrdzError, match=said):
        jnrrdz.scan(tmp_path / "v")


@pytest.mark.parametrize("count", [0, 8191, 8193, 1 << 31])
def test_a_block_with_another_number_of_elements_is_refused(tmp_path, count):
    write(tmp_path / "v", VALUES, BLOCK, *COMPRESSIONS["raw"], mode=1)
    file = tmp_path / "v/0/0"
    data = file.read_bytes()
    file.write_bytes(data[:12] + struct.pack(">I", count) + data[16:])
    with pytest.raises(jnrrdz.UnsupportedError, match=r"v/0/0 .*numElements: a block of"):
        jnrrdz.open_group(tmp_path / "v")["data"][...]


@pytest.mark.parametrize("damage", [slice(None, -21), slice(None, -30), slice(8, None)])
def test_damaged_lz4_streams_are_refused(tmp_path, damage):
    write(tmp_path / "v", VALUES, BLOCK, *COMPRESSIONS["lz4, no power of two"])
    file = tmp_path / "v/1/0"
    data = file.read_bytes()
    file.write_bytes(data[:12] + data[12:][damage])
    with pytest.raises(jnrrdz.JnrrdzError, match=r"v/1/0"):
        jnrrdz.open_group(tmp_path / "v")["data"][...]


def test_a_flipped_bit_in_an_lz4_stream_is_refused(tmp_path):
    write(tmp_path / "v", VALUES, BLOCK, *COMPRESSIONS["lz4, stored"])
    file = tmp_path / "v/1/0"
    data = bytearray(file.read_bytes())
    data[12 + 21 + 500] ^= 1
    file.write_bytes(data)
    with pytest.raises(jnrrdz.JnrrdzError, match=r"v/1/0 .*checksum"):
        jnrrdz.open_group(tmp_path / "v")["data"][...]
