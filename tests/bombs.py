"""Sources of a few bytes that claim, or would become, gigabytes; each is made as bytes, by hand."""

import json
import struct

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HUGE = (1 << 31) - 1


def _text(value):
    data = value.encode()
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


def netcdf3(records, dimensions, variables):
    """Return a CDF-2 header; a variable is a name with the numbers of its dimensions."""
    data = b"CDF\x02" + struct.pack(">I", records)
    data += struct.pack(">II", 10, len(dimensions))
    for number, size in enumerate(dimensions):
        data += _text(f"d{number}") + struct.pack(">I", size)
    data += bytes(8)
    data += struct.pack(">II", 11, len(variables))
    for name, axes in variables:
        data += _text(name) + struct.pack(f">I{len(axes)}I", len(axes), *axes)
        data += bytes(8) + struct.pack(">IIQ", 1, 4, 512)
    return data


def netcdf3_records(folder):
    """A classic file of one variable with two milliards of records."""
    path = folder / "records.nc"
    path.write_bytes(netcdf3(HUGE, [0], [("v", [0])]).ljust(2048, b"\0"))
    return path


def netcdf3_many_record_variables(folder):
    """A classic file of twelve variables with 16 million records each."""
    path = folder / "variables.nc"
    names = [(f"v{number}", [0]) for number in range(12)]
    path.write_bytes(netcdf3((1 << 24) - 1, [0], names).ljust(2048, b"\0"))
    return path


def netcdf3_dimensions(folder):
    """A classic file of twelve variables of 2^62 elements, which would be cut into slabs."""
    path = folder / "dimensions.nc"
    names = [(f"v{number}", [0, 1]) for number in range(12)]
    path.write_bytes(netcdf3(0, [HUGE, HUGE], names).ljust(2048, b"\0"))
    return path


N5 = {"dimensions": [1 << 14, 1 << 13], "blockSize": [1, 1], "dataType": "uint8", "compression": {"type": "raw"}}


def n5(folder, names):
    """An N5 container of data sets with 2^27 blocks, one of which is there."""
    root = folder / "volume.n5"
    for name in names:
        (root / name / "5").mkdir(parents=True)
        (root / name / "attributes.json").write_text(json.dumps(N5))
        (root / name / "5" / "3").write_bytes(struct.pack(">HHIIB", 0, 2, 1, 1, 7))
    (root / "attributes.json").write_text('{"n5": "2.0.0"}')
    return root


def n5_alone(folder):
    """One data set."""
    return n5(folder, ["a"])


def n5_six(folder):
    """Six data sets."""
    return n5(folder, [f"a{number}" for number in range(6)])


def zarr2(folder):
    """A Zarr v2 group of six arrays with 2^27 chunks, one of which is there."""
    root = folder / "two.zarr"
    for number in range(6):
        (root / f"a{number}").mkdir(parents=True)
        document = {"zarr_format": 2, "shape": [1 << 14, 1 << 13], "chunks": [1, 1], "dtype": "|u1", "order": "C"}
        document |= {"compressor": None, "filters": None, "fill_value": 0}
        (root / f"a{number}" / ".zarray").write_text(json.dumps(document))
        (root / f"a{number}" / "3.5").write_bytes(b"\x07")
    (root / ".zgroup").write_text('{"zarr_format": 2}')
    return root


def zarr3(folder):
    """A Zarr v3 group of six arrays with 2^27 chunks, one of which is there."""
    root = folder / "three.zarr"
    grid = {"name": "regular", "configuration": {"chunk_shape": [1, 1]}}
    for number in range(6):
        (root / f"a{number}" / "c" / "3").mkdir(parents=True)
        document = {"zarr_format": 3, "node_type": "array", "shape": [1 << 14, 1 << 13], "data_type": "uint8"}
        document |= {"chunk_grid": grid, "chunk_key_encoding": {"name": "default"}, "fill_value": 0}
        document |= {"codecs": [{"name": "bytes"}], "attributes": {}}
        (root / f"a{number}" / "zarr.json").write_text(json.dumps(document))
        (root / f"a{number}" / "c" / "3" / "5").write_bytes(b"\x07")
    (root / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    return root


DMRPP = """<?xml version="1.0"?>
<Dataset xmlns="http://xml.opendap.org/ns/DAP/4.0#" xmlns:dmrpp="http://xml.opendap.org/dap/dmrpp/1.0.0#"
 dapVersion="4.0" name="a.h5">{}</Dataset>"""
VARIABLE = """<Float32 name="v{number}"><Dim size="{size}"/><dmrpp:chunks>
<dmrpp:chunkDimensionSizes>1</dmrpp:chunkDimensionSizes>
<dmrpp:chunk offset="0" nBytes="4" chunkPositionInArray="[{last}]"/></dmrpp:chunks></Float32>"""


def dmrpp(folder, size, count):
    """A DMR++ document of variables whose last chunk alone is there."""
    variables = [VARIABLE.format(number=number, size=size, last=size - 1) for number in range(count)]
    (folder / "a.h5").write_bytes(bytes(64))
    path = folder / "a.h5.dmrpp"
    path.write_text(DMRPP.format("".join(variables)))
    return path


def dmrpp_one(folder):
    """One variable of 2^26 chunks."""
    return dmrpp(folder, 1 << 26, 1)


def dmrpp_many(folder):
    """Eight variables of 2^24 chunks."""
    return dmrpp(folder, 1 << 24, 8)


def hdf5_chunks(folder):
    """An HDF5 of six data sets with 2^24 chunks, of which one is there."""
    path = folder / "chunks.h5"
    with h5py.File(path, "w") as file:
        for number in range(6):
            data = file.create_dataset(f"v{number}", (1 << 24,), "u1", chunks=(1,))
            data[5] = 7
    return path


def hdf5_absent(folder):
    """An HDF5 of six data sets without a byte stored, of 2^24 elements."""
    path = folder / "absent.h5"
    with h5py.File(path, "w") as file:
        for number in range(6):
            file.create_dataset(f"v{number}", (1 << 24,), "u1", chunks=(1,))
        file["a"] = np.arange(9)
    return path


def netcdf3_allowed(folder):
    """As many records as the budget leaves."""
    path = folder / "allowed.nc"
    path.write_bytes(netcdf3(1 << 20, [0], [("v", [0])]).ljust(2048, b"\0"))
    return path


def dmrpp_allowed(folder):
    """As many chunks as the budget leaves."""
    return dmrpp(folder, 1 << 22, 1)


def hdf5_allowed(folder):
    """As many chunks as the budget leaves."""
    path = folder / "allowed.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("v", (1 << 22,), "u1", chunks=(1,))
        data[5] = 7
    return path


def siz(width, height, components=1):
    """A SIZ segment of one tile."""
    body = b"\x07\x01\x01" * components
    return (
        struct.pack(">HHH8IH", 0xFF51, 38 + len(body), 0, width, height, 0, 0, width, height, 0, 0, components) + body
    )


def cod(levels, block, precincts=(), layers=1):
    """A COD segment."""
    body = struct.pack(">BBHB", bool(precincts), 0, layers, 0) + bytes([levels, block - 2, block - 2, 0, 1, *precincts])
    return struct.pack(">HH", 0xFF52, 2 + len(body)) + body


def j2k(path, *segments, levels=0):
    """A codestream of one tile without packets."""
    qcd = bytes([0x40, *[0x48] * (3 * levels + 1)])
    head = b"\xff\x4f" + b"".join(segments) + struct.pack(">HH", 0xFF5C, 2 + len(qcd)) + qcd
    tile = struct.pack(">HHHIBB", 0xFF90, 10, 0, 14, 0, 1) + b"\xff\x93"
    path.write_bytes(head + tile + b"\xff\xd9")
    return path


def j2k_samples(folder):
    """A codestream of 90 bytes for 2^29 samples."""
    return j2k(folder / "samples.j2k", siz(1 << 15, 1 << 14), cod(0, 6))


def j2k_blocks(folder):
    """A codestream of 90 bytes for 2^22 code-blocks of 4 x 4 samples."""
    return j2k(folder / "blocks.j2k", siz(1 << 13, 1 << 13), cod(0, 2))


def j2k_precincts(folder):
    """A codestream of 90 bytes for 2^22 precincts of one sample."""
    return j2k(folder / "precincts.j2k", siz(1 << 11, 1 << 11), cod(0, 6, [0]))


def tiff_description(folder):
    """A TIFF of 1 GiB that is one ImageDescription, nearly all of it a hole."""
    path = folder / "description.tif"
    tags = {256: (3, 1, 1), 257: (3, 1, 1), 258: (3, 1, 8), 259: (3, 1, 1), 262: (3, 1, 1)}
    tags |= {270: (2, 1 << 30, 4096), 273: (4, 1, 8), 277: (3, 1, 1), 278: (3, 1, 1), 279: (4, 1, 1)}
    entries = b"".join(struct.pack("<HHII", tag, *values) for tag, values in sorted(tags.items()))
    head = b"II*\0" + struct.pack("<I", 16) + bytes(8)
    with path.open("wb") as file:
        file.write(head + struct.pack("<H", len(tags)) + entries + bytes(4))
        file.seek(4096)
        file.write(b"words")
        file.truncate(4096 + (1 << 30))
    return path


def tiff_pages(folder):
    """A TIFF of 500,000 pages that share all of their values."""
    path = folder / "pages.tif"
    tags = {256: (3, 1, 1), 257: (3, 1, 1), 258: (3, 1, 8), 262: (3, 1, 1), 273: (4, 1, 8), 279: (4, 1, 1)}
    entries = b"".join(struct.pack("<HHII", tag, *values) for tag, values in sorted(tags.items()))
    page = struct.pack("<H", len(tags)) + entries
    size, count = len(page) + 4, 500_000
    data = bytearray(b"II*\0" + struct.pack("<I", 16) + bytes(8))
    data += b"".join(page + struct.pack("<I", 16 + (number + 1) * size) for number in range(count - 1))
    path.write_bytes(data + page + bytes(4))
    return path


def array_document(shape, chunks):
    """The zarr.json of an array."""
    grid = {"name": "regular", "configuration": {"chunk_shape": chunks}}
    document = {"zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "uint8", "chunk_grid": grid}
    document |= {"chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [{"name": "bytes"}]}
    return document | {"attributes": {}, "dimension_names": ["y", "x"]}


GROUP = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}})


def json_empty(folder):
    """A JSON manifest of six arrays with 2^27 chunks and no reference."""
    refs = {"zarr.json": GROUP}
    for number in range(6):
        refs[f"a{number}/zarr.json"] = json.dumps(array_document([1 << 14, 1 << 13], [1, 1]))
    path = folder / "empty.json"
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    return path


def json_gen(folder):
    """A manifest of kerchunk's that generates a million references in each of sixty entries."""
    refs = {"zarr.json": GROUP, "a/zarr.json": json.dumps(array_document([1 << 27, 1], [1, 1]))}
    entry = {"url": "{{u}}", "offset": "{{i}}", "length": "1"}
    ranges = [{"i": {"start": start << 20, "stop": (start + 1) << 20}} for start in range(60)]
    gen = [{"key": "a/c/{{i}}/0", **entry, "dimensions": each} for each in ranges]
    path = folder / "gen.json"
    path.write_text(json.dumps({"version": 1, "templates": {"u": "a.bin"}, "gen": gen, "refs": refs}))
    return path


def json_templates(folder):
    """A manifest whose long template each of its references repeats."""
    refs = {"zarr.json": GROUP, "a/zarr.json": json.dumps(array_document([1 << 14, 1], [1, 1]))}
    refs |= {f"a/c/{number}/0": ["{{u}}" * 64 + str(number), 0, 1] for number in range(1 << 14)}
    path = folder / "templates.json"
    path.write_text(json.dumps({"version": 1, "templates": {"u": "x" * (1 << 16)}, "refs": refs}))
    return path


def parquet_long(folder):
    """A Parquet manifest whose only record has 2^24 rows of one value."""
    root = folder / "long.parq"
    (root / "a").mkdir(parents=True)
    refs = {"zarr.json": json.loads(GROUP), "a/zarr.json": array_document([1 << 24, 1], [1, 1])}
    (root / ".zmetadata").write_text(json.dumps({"metadata": refs, "record_size": 1 << 24}))
    count = 1 << 24
    path = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, "i4")), pa.array(["a.bin"]))
    columns = {
        "path": path,
        "offset": np.zeros(count, "i8"),
        "size": np.ones(count, "i8"),
        "raw": pa.nulls(count, pa.binary()),
    }
    pq.write_table(pa.table(columns), root / "a" / "refs.0.parq", compression="zstd")
    return root


def parquet_missing(folder, record_size=100_000):
    """A Parquet manifest of six arrays with 2^27 chunks, none of whose records is there."""
    root = folder / "missing.parq"
    root.mkdir()
    refs = {"zarr.json": json.loads(GROUP)}
    for number in range(6):
        refs[f"a{number}/zarr.json"] = array_document([1 << 14, 1 << 13], [1, 1])
    (root / ".zmetadata").write_text(json.dumps({"metadata": refs, "record_size": record_size}))
    return root


def parquet_missing_long(folder):
    """The same with the longest records."""
    return parquet_missing(folder, 1 << 24)


def fits_axes(folder):
    """A FITS of twelve images of 2^60 elements."""
    path = folder / "axes.fits"
    side = 1 << 30

    def unit(first):
        cards = [first, "BITPIX  =                    8", "NAXIS   =                    2"]
        cards += [f"NAXIS1  = {side:20}", f"NAXIS2  = {side:20}", "END"]
        if first.startswith("XT"):
            cards[5:5] = ["PCOUNT  =                    0", "GCOUNT  =                    1"]
        return "".join(card.ljust(80) for card in cards).ljust(2880).encode()

    path.write_bytes(unit("SIMPLE  =                    T"))
    return path


def jnrrd_overlap(folder):
    """A JNRRD of 20,000 tiles that overlap by all but one element, so that they are 40 million chunks."""
    path = folder / "overlap.jnrrd"
    rows, tile = 10_000, 4_000
    header = {"jnrrd": "0004", "type": "uint8", "dimension": 2, "sizes": [tile + 1, rows], "encoding": "raw"}
    header["extensions"] = {"tile": "https://jnrrd.org/extensions/tile/v1.0.0"}
    keys = {"enabled": True, "dimensions": [0, 1], "sizes": [tile, 1], "overlap": [tile - 1, 0], "storage": "internal"}
    keys["offset_table"] = [1 << 18] * (2 * rows)
    header |= {f"tile:{name}": value for name, value in keys.items()}
    lines = "".join(json.dumps({name: value}) + "\n" for name, value in header.items())
    path.write_bytes((lines + "\n").encode().ljust((1 << 18) + tile, b"\0"))
    return path


BOMBS = {
    make.__name__: make
    for make in (
        *(netcdf3_records, netcdf3_many_record_variables, netcdf3_dimensions),
        *(n5_alone, n5_six, zarr2, zarr3),
        *(dmrpp_one, dmrpp_many, hdf5_chunks, hdf5_absent, fits_axes),
        *(netcdf3_allowed, dmrpp_allowed, hdf5_allowed),
        *(j2k_samples, j2k_blocks, j2k_precincts, jnrrd_overlap),
        *(tiff_description, tiff_pages),
        *(json_empty, json_gen, json_templates, parquet_long, parquet_missing, parquet_missing_long),
    )
}
