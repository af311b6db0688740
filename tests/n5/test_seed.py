"""The proposals' third example, N5: as proposed it reads wrong, as the READMEs have it now it reads right.

tensorstore writes the datasets and judges the blocks that zarr writes.
"""

import base64
import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import tensorstore
import z5py
import zarr
from zarr.codecs import BytesCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.core.buffer import cpu
from zarr.storage import LocalStore, MemoryStore

from jnrrdz.codecs.steps import OffsetCodec, PadCodec

DOCS = Path(__file__).parents[2] / "docs" / "codecs"
N5 = "Reading N5 in place"
ZSTD = {"type": "zstd", "level": 3}
SQUARE = {"dimensions": [1024, 1024], "blockSize": [64, 64]}
OBLONG = {"dimensions": [100, 48], "blockSize": [32, 16]}


def example(name, heading):
    """Return the JSON that follows a heading of a codec's README."""
    text = (DOCS / name / "README.md").read_text("utf-8")
    _, section = text.split(f"\n### {heading}\n", 1)
    return json.loads(re.search(r"^```json\n(.*?)^```", section, re.DOTALL | re.MULTILINE).group(1))


def n5_spec(path, metadata, compression):
    return {
        "driver": "n5",
        "kvstore": {"driver": "file", "path": f"{path}/"},
        "metadata": {**metadata, "dataType": "uint16", "compression": compression},
    }


def n5_dataset(path, metadata):
    """Return an N5 dataset of tensorstore's, and its values in the axis order of N5."""
    values = np.random.default_rng(2).integers(1, 65536, metadata["dimensions"], "u2")
    spec = n5_spec(path, metadata, ZSTD)
    tensorstore.open(spec, create=True).result().write(values).result()
    return values


def n5_zarr_json(name, metadata):
    """Return the README's zarr.json for that dataset; as it stands for the example's own shape."""
    document = example(name, N5)
    document["shape"] = metadata["dimensions"]
    document["chunk_grid"]["configuration"]["chunk_shape"] = metadata["blockSize"]
    header = struct.pack(">HHII", 0, 2, *metadata["blockSize"])
    document["codecs"][-1]["configuration"]["prefix" if name == "offset" else "padding"] = base64.b64encode(
        header
    ).decode()
    return document


def opened_in_place(path, document, mode="r"):
    (path / "zarr.json").write_text(json.dumps(document))
    return zarr.open_array(LocalStore(path), mode=mode)


def as_proposed(document):
    """Return the document as the proposal has it: the same without the transposition."""
    assert document["codecs"][0]["name"] == "transpose"
    return {**document, "codecs": document["codecs"][1:]}


@pytest.mark.parametrize("name", ["offset", "pad"])
def test_the_readmes_n5_example_is_of_the_proposals_dataset(name):
    assert n5_zarr_json(name, SQUARE) == example(name, N5)


@pytest.mark.parametrize("metadata", [SQUARE, OBLONG], ids=["square", "oblong"])
@pytest.mark.parametrize("name", ["offset", "pad"])
def test_n5_in_place_reads_right(name, metadata, tmp_path):
    values = n5_dataset(tmp_path, metadata)
    array = opened_in_place(tmp_path, n5_zarr_json(name, metadata))
    np.testing.assert_array_equal(array[...], values)


@pytest.mark.parametrize("metadata", [SQUARE, OBLONG], ids=["square", "oblong"])
@pytest.mark.parametrize("name", ["offset", "pad"])
def test_n5_reversed_to_c_order_reads_right(name, metadata, tmp_path):
    values = n5_dataset(tmp_path, metadata)
    document = as_proposed(n5_zarr_json(name, metadata))
    document["shape"] = metadata["dimensions"][::-1]
    document["chunk_grid"]["configuration"]["chunk_shape"] = metadata["blockSize"][::-1]
    blocks = {"zarr.json": cpu.Buffer.from_bytes(json.dumps(document).encode())}
    for block in tmp_path.glob("*/*"):
        blocks[f"{block.name}/{block.parent.name}"] = cpu.Buffer.from_bytes(block.read_bytes())
    array = zarr.open_array(MemoryStore(blocks), mode="r")
    np.testing.assert_array_equal(array[...], values.T)


@pytest.mark.parametrize("name", ["offset", "pad"])
def test_the_proposals_n5_example_reads_every_block_transposed(name, tmp_path):
    values = n5_dataset(tmp_path, SQUARE)
    array = opened_in_place(tmp_path, as_proposed(n5_zarr_json(name, SQUARE)))
    read = array[...]
    assert not np.array_equal(read, values)
    assert not np.array_equal(read, values.T)
    blocks = values.reshape(16, 64, 16, 64).swapaxes(1, 3).reshape(1024, 1024)
    np.testing.assert_array_equal(read, blocks)


@pytest.mark.parametrize("name", ["offset", "pad"])
def test_zstd_without_configuration_is_refused(name, tmp_path):
    document = n5_zarr_json(name, SQUARE)
    document["codecs"][2] = {"name": "zstd"}
    with pytest.raises(ValueError, match="'configuration'"):
        opened_in_place(tmp_path, document)


def n5_written(path, metadata, compression, codec, *compressors):
    """Return what zarr wrote as blocks of an N5 dataset, and what tensorstore reads there."""
    spec = n5_spec(path, metadata, compression)
    tensorstore.open(spec, create=True).result()
    values = np.random.default_rng(3).integers(1, 65536, metadata["dimensions"], "u2")
    array = zarr.create_array(
        LocalStore(path),
        shape=values.shape,
        dtype=values.dtype,
        chunks=tuple(metadata["blockSize"]),
        chunk_key_encoding={"name": "v2", "configuration": {"separator": "/"}},
        filters=TransposeCodec(order=(1, 0)),
        serializer=BytesCodec(endian="big"),
        compressors=[*compressors, codec],
        fill_value=0,
    )
    array[...] = values
    return values, tensorstore.open(spec).result().read().result()


def n5_header(chunk):
    """Return the header of an uncompressed block 32 wide, of as many rows as there are bytes for."""
    return struct.pack(">HHII", 0, 2, 32, len(chunk) // (32 * 2))


N5_HEADER = struct.pack(">HHII", 0, 2, 32, 16)


@pytest.mark.parametrize(
    "codec",
    [
        pytest.param(OffsetCodec(offset=12, prefix_func=n5_header), id="offset, function"),
        pytest.param(PadCodec(location="start", nbytes=12, padding_func=n5_header), id="pad, function"),
        pytest.param(OffsetCodec(offset=12, prefix=N5_HEADER), id="offset, literal"),
        pytest.param(PadCodec(location="start", nbytes=12, padding=N5_HEADER), id="pad, literal"),
    ],
)
def test_tensorstore_reads_the_blocks_that_zarr_wrote(codec, tmp_path):
    values, read = n5_written(tmp_path, OBLONG, {"type": "raw"}, codec)
    np.testing.assert_array_equal(read, values)


@pytest.mark.parametrize("name", ["offset", "pad"])
def test_tensorstore_reads_the_compressed_blocks_that_the_readme_writes(name, tmp_path):
    document = n5_zarr_json(name, OBLONG)
    spec = n5_spec(tmp_path, OBLONG, ZSTD)
    tensorstore.open(spec, create=True).result()
    values = np.random.default_rng(4).integers(1, 65536, OBLONG["dimensions"], "u2")
    opened_in_place(tmp_path, document, mode="r+")[...] = values
    read = tensorstore.open(spec).result().read().result()
    np.testing.assert_array_equal(read, values)


@pytest.mark.parametrize(
    "codec", [OffsetCodec(offset=12), PadCodec(location="start", nbytes=12)], ids=["offset", "pad"]
)
def test_blocks_written_without_a_literal_are_no_n5(codec, tmp_path):
    with pytest.raises(ValueError, match="0 dimensions but expected 2"):
        n5_written(tmp_path, OBLONG, ZSTD, codec, ZstdCodec(level=3))


@pytest.mark.parametrize(
    ("compression", "compressors"),
    [({"type": "raw"}, ()), (ZSTD, (ZstdCodec(level=3),)), ({"type": "gzip", "level": 5}, (GzipCodec(level=5),))],
    ids=["raw", "zstd", "gzip"],
)
def test_z5_reads_what_a_function_of_the_chunk_wrote(compression, compressors, tmp_path):
    seen = []

    def header(chunk):
        seen.append(len(chunk))
        return N5_HEADER

    path = tmp_path / "c.n5" / "v"
    values, read = n5_written(path, OBLONG, compression, OffsetCodec(offset=12, prefix_func=header), *compressors)
    assert len(seen) == 12
    np.testing.assert_array_equal(read, values)
    (tmp_path / "c.n5/attributes.json").write_text('{"n5": "2.0.0"}')  # z5 opens no container without
    (path / "zarr.json").unlink()  # nor a dataset that is Zarr as well
    dataset = z5py.File(str(tmp_path / "c.n5"), mode="r", use_zarr_format=False)["v"]
    np.testing.assert_array_equal(dataset[...], values.T)
