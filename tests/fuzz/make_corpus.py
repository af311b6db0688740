"""Write the seeds of the fuzzer, small files by other libraries, to the folder `corpus` beside this module.

`python tests/fuzz/make_corpus.py`: run it where a seed is added.  The seeds are committed: what a finding was made
from stays what it was.
"""

import base64
import gzip
import io
import json
import struct
import tempfile
from pathlib import Path

import glymur
import imagecodecs
import nrrd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import rasterio
import rasterio.shutil
import tifffile
from rasterio.transform import from_origin

import jnrrdz
from jnrrdz.core.zarr_json import dumps
from jnrrdz.formats.guest_messages import tree_message
from jnrrdz.formats.scanning import scan
from jnrrdz.options import Access, ScanOptions
from tests.fuzz.targets import BREAK, CORPUS, PLACE
from tests.writers import gdal_bytes, n5_dataset, tiff_bytes

Y, X = np.mgrid[:20, :18]
PICTURE = (X * 3 + Y * 5).astype("u1")


def put(target: str, name: str, data: bytes) -> None:
    """Write a seed."""
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def by_gdal(driver: str, dtype: str = "uint8", count: int = 1, **options: object) -> bytes:
    """Return a small file of one of GDAL's drivers."""
    bands = np.stack([PICTURE + band for band in range(count)])
    return gdal_bytes(bands.astype(dtype), driver=driver, **options)


def tiffs() -> None:
    """Write TIFFs: each compression, predictors, planes, places, OME and shaped series."""
    tiled = {"tiled": True, "blockxsize": 16, "blockysize": 16}
    place = {"crs": "EPSG:32633", "transform": from_origin(300000, 4900020, 10, 20), "nodata": 3}
    for compress in ("deflate", "lzw", "packbits", "zstd", "lzma", "lerc", "lerc_deflate", "lerc_zstd", "none"):
        put("tiff", f"{compress}.tif", by_gdal("GTiff", compress=compress, **tiled))
    put(
        "tiff",
        "place.tif",
        by_gdal("GTiff", "uint16", compress="deflate", predictor=2, overviews=(2,), **tiled, **place),
    )
    put("tiff", "float.tif", by_gdal("GTiff", "float32", compress="zstd", predictor=3, blockysize=7))
    put("tiff", "big.tif", by_gdal("GTiff", "int16", 2, compress="lzw", bigtiff="YES", endianness="BIG"))
    put("tiff", "planes.tif", by_gdal("GTiff", "uint8", 3, compress="deflate", interleave="band", blockysize=8))
    put("tiff", "jpeg.tif", by_gdal("GTiff", "uint8", 3, compress="jpeg", photometric="ycbcr", **tiled))
    put("tiff", "webp.tif", by_gdal("GTiff", "uint8", 4, compress="webp", webp_lossless=True, **tiled))
    put("tiff", "alpha-lerc.tif", by_gdal("GTiff", "uint8", 2, compress="lerc_zstd", alpha="yes", **tiled))
    put("tiff", "one-bit.tif", by_gdal("GTiff", nbits=1, compress="ccittfax4"))
    put("tiff", "twelve-bits.tif", by_gdal("GTiff", "uint16", nbits=12))
    for name, code in (("jpegxl", "jpegxl"), ("jpeg2000", "jpeg2000"), ("png", "png")):
        put("tiff", f"{name}.tif", tiff_bytes(PICTURE, compression=code))
    stack = np.stack([PICTURE] * 4).reshape(2, 2, 20, 18)
    put("tiff", "ome.tif", tiff_bytes(stack, ome=True, metadata={"axes": "CZYX", "SignificantBits": 5}))
    put("tiff", "imagej.tif", tiff_bytes(stack, imagej=True, metadata={"axes": "ZCYX"}))
    put("tiff", "shaped.tif", tiff_bytes(stack))


def pictures() -> None:
    """Write JPEG 2000 and NITF."""
    rgb = np.stack([PICTURE, PICTURE + 9, PICTURE * 2], axis=-1)
    put("jpeg2000", "grey.j2k", imagecodecs.jpeg2k_encode(PICTURE, level=0, codecformat="j2k"))
    put("jpeg2000", "rgb.jp2", imagecodecs.jpeg2k_encode(rgb, level=0, codecformat="jp2", mct=True))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.j2k"
        glymur.Jp2k(path, data=PICTURE, tilesize=(8, 8), numres=2, plt=True, tlm=True)
        put("jpeg2000", "tiles.j2k", path.read_bytes())
    put("jpeg2000", "signed.jp2", imagecodecs.jpeg2k_encode(PICTURE.astype("i2") - 99, level=0, codecformat="jp2"))
    put(
        "jpeg2000",
        "gdal.jp2",
        by_gdal("JP2OpenJPEG", "uint16", 3, crs="EPSG:32633", transform=from_origin(3e5, 49e5, 10, 20)),
    )
    put(
        "nitf",
        "plain.ntf",
        by_gdal("NITF", "uint8", 3, IC="NC", ICORDS="D", transform=from_origin(3, 49, 0.1, 0.1), crs="EPSG:4326"),
    )
    put("nitf", "blocks.ntf", by_gdal("NITF", "int16", 2, BLOCKXSIZE=8, BLOCKYSIZE=8))
    with tempfile.TemporaryDirectory() as folder:
        path, copy = Path(folder) / "a.tif", Path(folder) / "a.ntf"
        path.write_bytes(by_gdal("GTiff"))
        for name, code in (("jpeg", "C3"), ("jpeg2000", "C8")):
            rasterio.shutil.copy(path, copy, driver="NITF", IC=code)
            put("nitf", f"{name}.ntf", copy.read_bytes())


def volumes() -> None:
    """Write NRRD, JNRRD and N5."""
    volume = np.arange(60, dtype=">i2").reshape(3, 4, 5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.nrrd"
        for encoding in ("raw", "gzip", "bzip2"):
            header = {"encoding": encoding, "space": "left-posterior-superior", "kinds": ["domain"] * 3}
            nrrd.write(str(path), volume, header)
            put("nrrd", f"{encoding}.nrrd", path.read_bytes())
        head = {
            "jnrrd": "0004",
            "type": "int16",
            "dimension": 3,
            "endian": "little",
            "sizes": [5, 4, 3],
            "encoding": "raw",
        }
        lines = "".join(json.dumps({name: value}) + "\n" for name, value in head.items())
        put("jnrrd", "plain.jnrrd", lines.encode() + b"\n" + volume.astype("<i2").tobytes())
        (Path(folder) / "p.tif").write_bytes(by_gdal("GTiff", "uint16"))
        jnrrdz.tile(f"{folder}/p.tif", f"{folder}/t.jnrrd", tile=(8, 8), levels=2)
        put("jnrrd", "tiles.jnrrd", Path(folder, "t.jnrrd").read_bytes())
        for name in ("raw", "gzip", "bzip2", "xz", "blosc"):
            compression = {"type": name}
            if name == "blosc":
                compression |= {"cname": "lz4", "clevel": 3, "shuffle": 1}
            values = np.arange(30, dtype="u2").reshape(6, 5)
            root = n5_dataset(Path(folder) / name, values, [4, 3], compression)
            put("n5", f"{name}.bin", (root / "attributes.json").read_bytes() + BREAK + (root / "0" / "0").read_bytes())


def manifests_and_parts() -> None:
    """Write manifests of those files, and what parsers take."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "a.tif"
        source.write_bytes(by_gdal("GTiff", "uint16", compress="deflate"))
        jnrrdz.index(source, f"{folder}/refs.json")
        document = json.loads(Path(folder, "refs.json").read_text())
        document["refs"].pop("data/c/0/0")
        put("manifest-json", "missing.json", json.dumps(document).encode())
        inline = {"zarr.json": json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}})}
        meta = {"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8", "fill_value": 0}
        meta |= {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}, "attributes": {}}
        meta |= {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}}
        for name, codecs, chunk in (
            ("bytes", [{"name": "bytes"}], "base64:AAE="),
            (
                "gzip",
                [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}],
                "base64:" + base64.b64encode(gzip.compress(b"ab", mtime=0)).decode(),
            ),
            ("text", [{"name": "bytes"}], "ab"),
        ):
            refs = inline | {"data/zarr.json": json.dumps(meta | {"codecs": codecs}), "data/c/0": chunk}
            put("manifest-json", f"{name}.json", json.dumps({"version": 1, "refs": refs}).encode())
        template = {
            "version": 1,
            "templates": {"u": "a.tif"},
            "refs": inline
            | {"data/zarr.json": json.dumps(meta | {"codecs": [{"name": "bytes"}]}), "data/c/0": ["{{u}}", 0, 2]},
        }
        put("manifest-json", "templates.json", json.dumps(template).encode())
        arrays = {
            "zarr.json": json.loads(inline["zarr.json"]),
            "data/zarr.json": meta | {"codecs": [{"name": "bytes"}]},
        }
        columns = {"path": pa.nulls(2, pa.string()), "offset": [0, 0], "size": [0, 0], "raw": [b"ab", b"cd"]}
        pq.write_table(pa.table(columns), f"{folder}/refs.0.parq")
        metadata = json.dumps({"metadata": arrays, "record_size": 2}).encode()
        put("manifest-parquet", "plain.bin", metadata + BREAK + Path(folder, "refs.0.parq").read_bytes())
    with tifffile.TiffFile(io.BytesIO((CORPUS / "tiff" / "ome.tif").read_bytes())) as file:
        put("ome-xml", "tifffile.xml", (file.ome_metadata or "").encode())
        put("xml", "tifffile.xml", (file.ome_metadata or "").encode())
    for epsg in (32633, 4326, 3857, 2056, 3035, 5041):
        data = by_gdal("GTiff", crs=f"EPSG:{epsg}", transform=from_origin(3, 49, 1, 1))
        with tifffile.TiffFile(io.BytesIO(data)) as file:
            tags = {tag.code: tag.value for tag in file.pages[0].tags}
        keys = struct.pack(f"<{len(tags[34735])}H", *tags[34735])
        doubles = tags.get(34736, ())
        put(
            "geokeys",
            f"{epsg}.bin",
            keys + BREAK + struct.pack(f"<{len(doubles)}d", *doubles) + BREAK + tags.get(34737, "").encode(),
        )
    put("tres", "blocka.bin", b"BLOCKA00123" + b"01" + b"00020" + b"00018" + b"0" * 111)
    put("tres", "rpc.bin", b"RPC00B01041" + b"1" * 1041)
    put("tres", "unknown.bin", b"ABCDEF00004abcd" + b"AIMIDB00089" + b"0" * 89)


REQUESTS = {
    "index": ["GET", "/index.json", "", "host: localhost"],
    "group": ["GET", "/big.tif/zarr.json", "", "host: localhost"],
    "chunk": ["GET", "/big.tif/data/c/0/0", "", "host: localhost:80", "range: bytes=0-9"],
    "preview": ["GET", "/big.tif/preview.png", "size=64", "host: localhost", "accept: image/png"],
    "folder": ["HEAD", "/", "", "host: localhost", "accept: text/html", 'if-none-match: "a"'],
    "options": ["OPTIONS", "/big.tif", "", "host: localhost", "origin: http://localhost:1"],
    "metrics": ["GET", "/metrics", "", "host: localhost", "accept-encoding: gzip"],
}


def requests() -> None:
    """Write requests to a server, and answers of a worker process."""
    for name, lines in REQUESTS.items():
        put("serve-request", f"{name}.txt", "\n".join(lines).encode())
    with tempfile.TemporaryDirectory() as folder:
        for name in ("ome.tif", "planes.tif", "deflate.tif", "float.tif"):
            source = Path(folder) / name
            source.write_bytes((CORPUS / "tiff" / name).read_bytes())
            group = scan(str(source), ScanOptions(), Access()).group
            group = group.with_refs(lambda refs: refs.moved(dict.fromkeys(refs.named, PLACE)))
            document, columns = tree_message(group)
            put("guest-message", f"{name}.bin", dumps(document).encode() + BREAK + columns)


if __name__ == "__main__":
    tiffs()
    pictures()
    volumes()
    manifests_and_parts()
    requests()
