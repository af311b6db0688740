"""Images whose pixels are plain, read through our manifests by readers without a line of ours in them.

fsspec and zarr read the manifest where jnrrdz cannot be imported, GDAL's Zarr driver reads it too; tensorstore and
zarrita.js get its documents as they are, and the bytes that its references name, as files of a folder.
"""

import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nrrd
import numpy as np
import pytest
import rasterio
import SimpleITK
import tensorstore
import tifffile
import z5py

import jnrrdz
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.standard import ANY, GDAL, ZARR, verdicts
from tests import writers
from tests.nrrd.tiled_files import core, keys, stored, tiles_of, write

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow"),  # pynrrd's
    pytest.mark.filterwarnings("ignore::UserWarning"),  # the corpus' files have much to be warned of
]

CLIENTS = Path(__file__).parents[1] / "clients"
CORPUS = os.environ.get("JNRRDZ_CORPUS")
TYPES = ("u1", "i1", ">u2", "<i2", ">u4", "<i4", "<u8", ">i8", "<f2", ">f4", "<f8", "<c8", ">c16")
TILED = {"tile": (32, 16)}
PLACES = ("data", "0/data", "page_0/data", "page_0/0/data", "image_0/data", "v/data")
"""Where an image's first array stands."""

needs_zarrita = pytest.mark.skipif(
    shutil.which("node") is None or not (CLIENTS / "node_modules" / "zarrita").is_dir(),
    reason="node or tests/clients/node_modules is missing: tests/system.sh installs them",
)


def noise(shape, dtype="u2"):
    return np.random.default_rng(len(shape)).integers(0, 100, shape).astype(dtype)


def by_tifffile(folder):
    """Write the images and return each one's pixels, bands first, by the path."""
    found = {}

    def add(name, pixels, **options):
        path = folder / f"{name}.tif"
        order = ">" if pixels.dtype.byteorder == ">" else "<"
        tifffile.imwrite(path, pixels, byteorder=order, **options)
        is_chunky = options.get("photometric") == "rgb" and options.get("planarconfig") != "separate"
        found[path] = np.moveaxis(pixels, -1, 0) if is_chunky else pixels

    for dtype in TYPES:
        add(f"raw-{dtype.strip('<>')}", noise((64, 48), dtype), **TILED)
    for scheme in (None, "zlib", "zstd"):
        add(f"grey-{scheme}", noise((64, 48), ">u2"), compression=scheme, **TILED)
        add(f"chunky-{scheme}", noise((64, 48, 3)), photometric="rgb", compression=scheme, **TILED)
        add(f"edges-{scheme}", noise((50, 37, 3)), photometric="rgb", compression=scheme, **TILED)
        planar = {"photometric": "rgb", "planarconfig": "separate"}
        add(f"planar-{scheme}", noise((3, 64, 48)), compression=scheme, **planar, **TILED)
        add(f"strips-{scheme}", noise((64, 48)), compression=scheme, rowsperstrip=16)
    add("one-strip", noise((37, 53, 3), "u1"), photometric="rgb")
    add("rows", noise((4000, 300, 3), "u1"), photometric="rgb", rowsperstrip=7)
    add("pages", noise((5, 64, 48, 3)), photometric="rgb", compression="zstd", **TILED)
    found[folder / "pages.tif"] = np.moveaxis(noise((5, 64, 48, 3)), -1, 1)
    return found


def by_gdal(folder):
    """Write with GDAL: sparse tiles, old deflate, a mask's nodata."""
    found = {}
    pixels = noise((64, 64)).astype("u2")
    pixels[:32, :32] = 0
    tiles = {"tiled": True, "blockxsize": 32, "blockysize": 32, "sparse_ok": True}
    for scheme in ("none", "deflate", "zstd"):
        path = folder / f"sparse-{scheme}.tif"
        found[writers.geotiff(path, pixels, compress=scheme, **tiles)] = pixels
        path = folder / f"filled-{scheme}.tif"
        found[writers.geotiff(path, pixels, compress=scheme, nodata=0, **tiles)] = pixels
    return found


def by_gdal_as_nitf(folder):
    """Write NITF with GDAL: each interleave, blocks and none, several types."""
    found = {}
    for dtype in ("u1", "u2", "i2", "i4", "f4", "f8", "c8"):
        path = folder / f"{dtype}.ntf"
        pixels = noise((64, 48), dtype)
        writers.gdal_image(path, pixels, driver="NITF", BLOCKXSIZE=16, BLOCKYSIZE=32)
        found[path] = pixels
    for name, options in {"one-block": {}, "blocks": {"BLOCKXSIZE": 16, "BLOCKYSIZE": 32}}.items():
        path = folder / f"{name}.ntf"
        pixels = noise((3, 64, 48), "u1")
        writers.gdal_image(path, pixels, driver="NITF", **options)
        found[path] = pixels
    return found


def by_nrrd_writers(folder):
    """Write raw NRRD with pynrrd and SimpleITK, in both byte orders, attached and detached."""
    found = {}
    for dtype, ending in itertools.product(("<u1", ">i2", "<u4", ">f4", "<f8"), ("nrrd", "nhdr")):
        pixels = noise((7, 20, 30), dtype)
        path = folder / f"{dtype[1:]}.{ending}"
        nrrd.write(str(path), pixels, {"encoding": "raw"}, index_order="C")
        found[path] = pixels
    path = folder / "itk.nrrd"
    found[path] = noise((7, 20, 30), "i2")
    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(found[path]), str(path), useCompression=False)
    return found


def by_bytes_as_jnrrd(folder):
    """Write tiles of JNRRD by numpy alone, plain and packed as Zarr packs; nobody else writes such files."""
    found = {}
    for packed, endian in itertools.product(("raw", "gzip", "zstd"), ("little", "big")):
        path = folder / f"{packed}-{endian}.jnrrd"
        found[path] = noise((6, 24, 32))
        blobs = [stored(part, endian, packed) for _, part in tiles_of(found[path], (8, 12, 3))]
        own = {"format": "chunked", "edge_handling": "pad", "compression": packed}
        write(path, core(found[path], endian) | keys((8, 12, 3), **own), blobs)
    return found


def by_n5_writers(folder):
    """Write full blocks of N5 with tensorstore and z5py: every compression that Zarr has, several types."""
    found = {}
    blosc = {"type": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1, "blocksize": 0}
    gzip = {"type": "gzip", "level": 5}
    for compression in ({"type": "raw"}, gzip, {**gzip, "useZlib": True}, {"type": "zstd", "level": 3}, blosc):
        for dtype in ("uint8", "int16", "uint32", "float64"):
            name = compression["type"] + ("-zlib" if "useZlib" in compression else "")
            path = folder / f"{name}-{dtype}.n5"
            found[path] = noise((6, 24, 32), dtype) + 1
            writers.n5_dataset(path, found[path].T, [8, 12, 3], compression)
    for compression in ("raw", "gzip"):
        path = folder / f"z5-{compression}.n5"
        found[path] = noise((6, 24, 32), "uint16") + 1
        with z5py.File(str(path), mode="w", use_zarr_format=False) as container:
            container.create_dataset("v", data=found[path], chunks=(3, 12, 8), compression=compression)
    return found


def by_corpus():
    """Return the corpus' files that are plain by their tags, each with its pixels as jnrrdz reads them by `tiff-tile`.

    That these are right, the conformance run shows.
    """
    found = {}
    for line in (Path(CORPUS) / "expected.jsonl").read_text().splitlines():
        row = json.loads(line)
        facts = row.get("facts", {})
        is_plain = facts.get("compression") in (1, 8, 32946, 50000) and facts.get("predictor", 1) == 1
        is_plain = is_plain and facts.get("bits") in (8, 16, 32, 64, 128) and facts.get("sampleformat") != 5
        if row["readable"] and is_plain and not facts.get("short_strip"):
            found[Path(CORPUS) / row["file"]] = None
    return found


class Manifests:
    """The manifests of images, their arrays, and what each of them holds."""

    def __init__(self, folder, images):
        self.folder = folder
        self.arrays = []
        for number, (image, known) in enumerate(images.items()):
            manifest = folder / f"{number}.json"
            try:
                jnrrdz.index(image, manifest)
            except jnrrdz.JnrrdzError:
                if known is None:  # a corpus' file that no manifest can be made of
                    continue
                raise
            group = jnrrdz.open_group(str(image), codecs="proposal")
            path = next((place for place in PLACES if place in group), None)
            if path is not None:
                pixels = np.ascontiguousarray(group[path][...] if known is None else known)
                document = json.loads(json.loads(manifest.read_text())["refs"][f"{path}/zarr.json"])
                self.arrays.append((image, manifest, path, pixels, document))

    def verdict(self, document, reader):
        codecs = [CodecSpec(each["name"], each.get("configuration", {})) for each in document["codecs"]]
        known = {each.reader: each for each in verdicts(codecs, document["data_type"], is_single=True)}
        return known[reader]

    def as_folder(self, manifest):
        """Return a folder with the manifest's keys as files: documents as they are, chunks as references say."""
        root = self.folder / manifest.stem
        if not root.exists():
            for key, value in json.loads(manifest.read_text())["refs"].items():
                (root / key).parent.mkdir(parents=True, exist_ok=True)
                data = value.encode() if isinstance(value, str) else None
                if data is None:
                    url, offset, length = value
                    with Path(url.removeprefix("file://")).open("rb") as file:
                        file.seek(offset)
                        data = file.read(length)
                (root / key).write_bytes(data)
        return root


def digest(pixels):
    return hashlib.sha256(pixels.astype(pixels.dtype.newbyteorder("="))).hexdigest()


WRITERS = {
    "tifffile": by_tifffile,
    "gdal": by_gdal,
    "nitf": by_gdal_as_nitf,
    "nrrd": by_nrrd_writers,
    "jnrrd": by_bytes_as_jnrrd,
    "n5": by_n5_writers,
}


@pytest.fixture(scope="module", params=[*WRITERS, "corpus"])
def manifests(request, tmp_path_factory):
    """Return the manifests of many images, and the folder that they stand in."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "corpus":
        if CORPUS is None:
            pytest.skip("JNRRDZ_CORPUS says where the corpus is")
        return Manifests(folder, by_corpus())
    found = Manifests(folder, WRITERS[request.param](folder))
    assert len(found.arrays) > 1
    return found


def test_all_plain_images_have_codecs_of_zarrs_own(manifests):
    for image, _, _, _, document in manifests.arrays:
        names = {codec["name"] for codec in document["codecs"]}
        assert names <= {"transpose", "bytes", "zstd", "gzip", "blosc", "numcodecs.zlib"}, image


def test_zarr_reads_them_where_jnrrdz_cannot_be_imported(manifests):
    wanted = [(str(manifest), path) for _, manifest, path, _, _ in manifests.arrays]
    child = Path(__file__).with_name("zarr_alone.py")
    command = [sys.executable, "-P", str(child)]
    answer = subprocess.run(command, input=json.dumps(wanted), capture_output=True, text=True, check=True)
    first, *lines = answer.stdout.splitlines()
    assert first == "blocked"
    for (image, _, _, pixels, document), line in zip(manifests.arrays, lines, strict=True):
        assert manifests.verdict(document, ZARR).is_readable
        assert json.loads(line) == {"digest": digest(pixels)}, image


def test_gdal_reads_those_that_it_has_the_codecs_for(manifests):
    for image, manifest, path, pixels, document in manifests.arrays:
        name = f'ZARR:"/vsikerchunk_json_ref/{{{manifest}}}":/{path}'
        if not manifests.verdict(document, GDAL).is_readable:
            with pytest.raises(rasterio.errors.RasterioIOError, match="Unsupported codec"):
                rasterio.open(name)
        elif pixels.ndim <= 3:
            with rasterio.open(name) as source:
                read = source.read()
            np.testing.assert_array_equal(read.reshape(pixels.shape), pixels, str(image))


def test_tensorstore_reads_those_of_the_specification(manifests):
    for image, manifest, path, pixels, document in manifests.arrays:
        folder = manifests.as_folder(manifest) / path
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder}/"}}
        if any(codec["name"].startswith("numcodecs.") for codec in document["codecs"]):
            with pytest.raises(ValueError, match="numcodecs"):
                tensorstore.open(spec).result()
        else:
            read = tensorstore.open(spec).result().read().result()
            np.testing.assert_array_equal(read, pixels, str(image))


@needs_zarrita
def test_zarrita_reads_those_that_turn_axes_once(manifests):
    wanted = [
        {"root": str(manifests.as_folder(manifest)), "path": path} for _, manifest, path, _, _ in manifests.arrays
    ]
    command = ["node", str(CLIENTS / "read.mjs")]
    answer = subprocess.run(command, input=json.dumps(wanted), capture_output=True, text=True, check=True)
    lines = answer.stdout.splitlines()
    for (image, _, _, pixels, document), line in zip(manifests.arrays, lines, strict=True):
        verdict, read = manifests.verdict(document, ANY), json.loads(line)
        is_zlib = document["codecs"][-1]["name"] == "numcodecs.zlib"  # zarrita has it, others not
        odd = document["data_type"] in {"float16", "complex64", "complex128"}
        if odd:
            assert "unsupported dataType" in read["error"]
        elif verdict.is_readable or is_zlib:
            assert read.get("digest") == digest(pixels), image
        else:
            # where this fails, zarrita has learnt to take two transpositions: then say so in core/standard.py
            assert read["digest"] != digest(pixels), image
