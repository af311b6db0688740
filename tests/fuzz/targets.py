"""What a fuzzer feeds: a function of bytes for each format, parser, codec and form of a manifest.

A target returns how many arrays it read something of; it raises a JnrrdzError for what cannot be read, and nothing
else whatever the bytes are.  Seeds of formats are in `corpus/TARGET`; seeds of codecs are the chunks of those files.
"""

import asyncio
import atexit
import base64
import json
import math
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import zarr

import jnrrdz
from jnrrdz.core.crs import cf_attributes, crs_from_geokeys
from jnrrdz.core.crs_geokeys import parse_geokeys, placement
from jnrrdz.core.json_schema import parse_json
from jnrrdz.core.xml_tree import parse_xml
from jnrrdz.formats.guest_messages import group_from_message
from jnrrdz.formats.nitf.tre import describe_tre, split_tres
from jnrrdz.formats.tiff.ome import parse_ome
from jnrrdz.options import ServeOptions
from jnrrdz.server.app import App

CORPUS = Path(__file__).parent / "corpus"
WHOLE = 1 << 20
"""Bytes of an array that is read whole; of a larger one the first and the last pixel."""

ARRAYS = 12
"""Arrays of a file that are read."""

BREAK = b"\n--\n"
"""Stands between the files of a seed that has several."""

FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # thousands of files a second are written

type Target = Callable[[bytes], int]


def read_some(group: zarr.Group) -> int:
    """Read some pixels of each array; return how many arrays gave any."""
    arrays = 0
    members = (node for _, node in group.members(max_depth=None) if isinstance(node, zarr.Array) and node.ndim)
    for array, _ in zip(members, range(ARRAYS), strict=False):
        places: list[Any] = [Ellipsis] if array.nbytes <= WHOLE else [(0,) * array.ndim, (-1,) * array.ndim]
        try:
            for place in places:
                array[place]
        except jnrrdz.JnrrdzError as error:
            assert str(error)  # noqa: PT017  an error is as good as pixels, if it is one of ours
        else:
            arrays += 1
    return arrays


def image(suffix: str, data: bytes) -> int:
    """Scan a file and read it."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        path = Path(folder) / f"a{suffix}"
        path.write_bytes(data)
        return read_some(jnrrdz.open_group(jnrrdz.scan(path)))


def n5(data: bytes) -> int:
    """Scan an N5 data set of two dimensions, its attributes and then a block, and read it."""
    attributes, _, block = data.partition(BREAK)
    with tempfile.TemporaryDirectory(dir=FOLDER, suffix=".n5") as folder:
        first = Path(folder) / "a" / "0" / "0"
        first.parent.mkdir(parents=True)
        first.write_bytes(block)
        (Path(folder) / "attributes.json").write_bytes(b'{"n5":"2.0.0"}')
        (Path(folder) / "a" / "attributes.json").write_bytes(attributes)
        return read_some(jnrrdz.open_group(jnrrdz.scan(folder)))


def manifest_json(data: bytes) -> int:
    """Open a JSON manifest and read it; chunks stand in it."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        path = Path(folder) / "refs.json"
        path.write_bytes(data)
        return read_some(jnrrdz.open_group(path))


def manifest_parquet(data: bytes) -> int:
    """Open a Parquet manifest of one array, its metadata and then its references, and read it."""
    metadata, _, table = data.partition(BREAK)
    with tempfile.TemporaryDirectory(dir=FOLDER, suffix=".parquet") as folder:
        (Path(folder) / "data").mkdir()
        (Path(folder) / ".zmetadata").write_bytes(metadata)
        (Path(folder) / "data" / "refs.0.parq").write_bytes(table)
        return read_some(jnrrdz.open_group(folder))


def geokeys(data: bytes) -> int:
    """Make a CRS of a GeoKey directory, of numbers and of text."""
    directory, _, rest = data.partition(BREAK)
    doubles, _, text = rest.partition(BREAK)
    shorts = struct.unpack(f"<{len(directory) // 2}H", directory[: len(directory) // 2 * 2])
    numbers = struct.unpack(f"<{len(doubles) // 8}d", doubles[: len(doubles) // 8 * 8])
    keys = parse_geokeys(shorts, numbers, text.decode("latin-1"))
    placement(keys, numbers[:3], numbers[:6], numbers[:16])
    crs = crs_from_geokeys(keys)
    return 0 if crs is None else len(cf_attributes(crs))


def tres(data: bytes) -> int:
    """Describe the extensions of a NITF header."""
    problems: list[str] = []
    return len([describe_tre(tre, problems) for tre in split_tres(data, problems)])


def ome_xml(data: bytes) -> int:
    """Parse OME-XML."""
    return len(parse_ome(data.decode("utf-8", errors="replace")).images)


def xml(data: bytes) -> int:
    """Parse the XML that boxes and tags hold."""
    parse_xml(data.decode("utf-8", errors="replace"), "a tag")
    return 1


PLACE = "/a.tif"
"""What a worker of the fuzzer was given to parse."""


def guest_message(data: bytes) -> int:
    """Take over what a worker process answers: a document, and columns of references."""
    text, _, columns = data.partition(BREAK)
    document = parse_json(text, field="tree")
    group = group_from_message(document, columns, frozenset({PLACE}))
    return len(group.arrays())


@cache
def served() -> App:
    """Return a server of one image and of a picture that is no source."""
    folder = Path(tempfile.mkdtemp(dir=FOLDER))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copy(CORPUS / "tiff" / "big.tif", folder)
    (folder / "other.png").write_bytes(b"\x89PNG")
    return App([str(folder)], ServeOptions())


STATUSES = {200, 204, 206, 303, 304, 308, 400, 403, 404, 405, 413, 416, 421, 429, 502, 503, 504}
"""What the server answers: 500 stands for an exception that nobody expected."""


def serve_request(data: bytes) -> int:
    """Answer a request: its method, its path, its query, and a header in each line."""
    method, path, query, *lines = [*data.split(b"\n"), b"", b""]
    pairs = [line.partition(b": ")[::2] for line in lines if line]
    headers = [(name.lower(), value) for name, value in pairs]
    scope = {
        "type": "http",
        "method": method.decode("latin-1"),
        "path": path.decode("utf-8", errors="replace"),
        "query_string": query,
        "headers": headers,
    }
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(SLOWEST)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(asyncio.wait_for(served()(scope, receive, send), SLOWEST))
    status = messages[0]["status"]
    assert status in STATUSES
    return int(status == HTTPStatus.OK)


SLOWEST = 15
"""Seconds in which a request is answered."""

FORMATS: dict[str, Target] = {
    "tiff": partial(image, ".tif"),
    "jpeg2000": partial(image, ".jp2"),
    "nitf": partial(image, ".ntf"),
    "nrrd": partial(image, ".nrrd"),
    "jnrrd": partial(image, ".jnrrd"),
    "n5": n5,
    "manifest-json": manifest_json,
    "manifest-parquet": manifest_parquet,
    "ome-xml": ome_xml,
    "xml": xml,
    "geokeys": geokeys,
    "tres": tres,
    "guest-message": guest_message,
    "serve-request": serve_request,
}


CODECS = ["blosc", "bytes", "gzip", "jbp-block", "jbp-jpeg", "jpeg2000"]
CODECS += ["numcodecs.bz2", "numcodecs.lzma", "pad", "tiff-tile", "zstd"]
"""Codecs that chunks of the corpus have."""


@dataclass(frozen=True)
class Sample:
    """An array's metadata, and a chunk of it as it is stored."""

    document: dict[str, Any]
    chunk: bytes


def _samples_of(path: Path) -> Iterator[Sample]:
    """Yield an array's metadata and first chunk for each array of a seed."""
    with tempfile.TemporaryDirectory() as folder:
        if path.parent.name == "n5":
            source = Path(folder) / "a.n5"
            (source / "a" / "0").mkdir(parents=True)
            attributes, _, block = path.read_bytes().partition(BREAK)
            (source / "attributes.json").write_bytes(b'{"n5":"2.0.0"}')
            (source / "a" / "attributes.json").write_bytes(attributes)
            (source / "a" / "0" / "0").write_bytes(block)
        else:
            source = Path(shutil.copy(path, folder))
        jnrrdz.index(source, f"{folder}/refs.json", codecs="proposal")
        refs = json.loads(Path(folder, "refs.json").read_text())["refs"]
        for name, text in refs.items():
            document = json.loads(text) if name.endswith("/zarr.json") else {}
            if document.get("node_type") != "array" or not document["shape"]:
                continue
            start = name.removesuffix("zarr.json") + "c/"
            entry = next(
                (value for key, value in refs.items() if key.startswith(start) and isinstance(value, list)), []
            )
            ranges = [entry[1:]] if len(entry) == 3 else entry[1] if len(entry) == 2 else []
            if ranges:
                whole = Path(entry[0].removeprefix("file://")).read_bytes()
                yield Sample(document, b"".join(whole[at : at + size] for at, size in ranges))


@cache
def samples() -> dict[str, list[Sample]]:
    """Return what the files of the corpus hold, by the name of each codec."""
    by_codec: dict[str, list[Sample]] = {}
    for path in sorted(CORPUS.glob("*/*")):
        if path.parent.name in {"tiff", "jpeg2000", "nitf", "nrrd", "jnrrd", "n5"}:
            for sample in _samples_of(path):
                if math.prod(sample.document["chunk_grid"]["configuration"]["chunk_shape"]) <= WHOLE:
                    for codec in sample.document["codecs"]:
                        by_codec.setdefault(codec["name"], []).append(sample)
    return by_codec


def as_manifest(name: str, data: bytes) -> bytes:
    """Return the JSON manifest that `codec` reads: one array of one chunk; the first byte chooses the array."""
    some = samples()[name]
    document, chunk = dict(some[(data[0] if data else 0) % len(some)].document), data[1:]
    document["shape"] = document["chunk_grid"]["configuration"]["chunk_shape"]
    key = "/".join(["data/c", *("0" * len(document["shape"]))])
    refs = {
        "zarr.json": json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}),
        "data/zarr.json": json.dumps(document),
        key: "base64:" + base64.b64encode(chunk).decode(),
    }
    return json.dumps({"version": 1, "refs": refs}).encode()


def codec(name: str, data: bytes) -> int:
    """Decode bytes as a chunk of an array that has the codec."""
    return manifest_json(as_manifest(name, data))


def codec_seeds(name: str) -> list[bytes]:
    """Return whole chunks for `codec`."""
    return [bytes([number]) + sample.chunk for number, sample in enumerate(samples()[name][:256])]


TARGETS: dict[str, Target] = FORMATS | {f"codec-{name}": partial(codec, name) for name in CODECS}


def seeds(name: str) -> list[bytes]:
    """Return whole inputs of a target."""
    if name.startswith("codec-"):
        return codec_seeds(name.removeprefix("codec-"))
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
