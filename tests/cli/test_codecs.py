"""`jnrrdz codecs`: what it calls readable decodes, and what it calls missing does not."""

import json
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import tifffile
import zarr.registry

import jnrrdz
from jnrrdz.commands.codecs import unreadable
from jnrrdz.formats.tiff.schemes import SCHEMES, Compression


@pytest.fixture(scope="module")
def survey():
    from click.testing import CliRunner  # noqa: PLC0415  once a module

    from jnrrdz.cli import cli  # noqa: PLC0415  the same

    return json.loads(CliRunner().invoke(cli, ["codecs", "--json"]).stdout)


def is_refused(codec, name):
    """Whether a codec is refused by its name, whatever its configuration."""
    try:
        codec.from_dict({"name": name})
    except jnrrdz.UnsupportedError:
        return True
    except (jnrrdz.JnrrdzError, TypeError):
        return False
    return False


def test_codecs_are_those_that_zarr_finds(survey):
    for codec in survey["codecs"]:
        found = zarr.registry.get_codec_class(codec["name"])
        assert found.__module__.startswith("jnrrdz.")
        assert codec["readable"] != is_refused(found, codec["name"])
    assert {"offset", "pad", "tiff-tile"} <= {codec["name"] for codec in survey["codecs"] if codec["readable"]}


NOT_PYTHON = {"libopenjp2"}


def test_versions(survey):
    for library in survey["libraries"]:
        if library["name"] not in NOT_PYTHON:
            assert library["version"] == version(library["name"])


def test_libopenjp2_that_is_missing_says_how_to_get_it(run, monkeypatch):
    from glymur.lib import openjp2  # noqa: PLC0415  half a second that other tests need not pay

    monkeypatch.setattr(openjp2, "OPENJP2", None)
    (line,) = [line for line in run("codecs").stdout.splitlines() if line.startswith("libopenjp2")]
    assert line.split()[1] == "missing"
    assert "apt-get install libopenjp2-7" in line


def test_a_manifest_of_components_that_differ_asks_for_libopenjp2(run, monkeypatch, tmp_path):
    from glymur.lib import openjp2  # noqa: PLC0415  see above

    golden = Path(__file__).parents[1] / "jpeg2000" / "golden"
    for name in ("subsampled", "odd_tiles"):
        jnrrdz.index(str(golden / f"{name}.j2k"), tmp_path / f"{name}.json")
    monkeypatch.setattr(openjp2, "OPENJP2", None)
    answer = run("codecs", "--check", tmp_path / "subsampled.json", code=1)
    assert "apt-get install libopenjp2-7" in answer.stdout
    run("codecs", "--check", tmp_path / "odd_tiles.json")


def test_library_that_is_missing_says_how_to_get_it(run, monkeypatch):
    def absent(name):
        if name == "icechunk":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(import_module("jnrrdz.commands.codecs"), "version", absent)
    (line,) = [line for line in run("codecs").stdout.splitlines() if line.startswith("icechunk")]
    assert line.split()[1] == "missing"
    assert "pip install 'jnrrdz[icechunk]'" in line


@pytest.mark.parametrize(
    "scheme", ["lzw", "deflate", "packbits", "zstd", "lzma", "jpeg", "webp", "jpegxl", "png", "lerc"]
)
def test_compressions_called_readable_decode(survey, tmp_path, pixels, scheme):
    image = np.stack([pixels[:64, :64].astype("u1")] * 3, axis=-1)
    options = {"compressionargs": {"lossless": True}} if scheme in {"webp", "jpegxl"} else {}
    tifffile.imwrite(tmp_path / "a.tif", image, tile=(32, 32), photometric="rgb", compression=scheme, **options)
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        number, expected = int(file.pages.first.compression), file.pages.first.asarray()
    (told,) = [entry for entry in survey["tiff_compressions"] if entry["number"] == number]
    assert told["readable"]
    try:
        found = jnrrdz.open_group(tmp_path / "a.tif")["data"][:]
    except jnrrdz.UnsupportedError as error:
        pytest.fail(f"called readable, but {error}")
    assert np.array_equal(np.moveaxis(found, 0, -1), expected)


def test_every_compression_is_listed_and_those_without_decoder_say_why(survey):
    listed = {entry["number"]: entry for entry in survey["tiff_compressions"]}
    assert set(listed) == {int(scheme) for scheme in Compression}
    for entry in listed.values():
        assert entry["readable"] == (entry["reason"] is None)
    assert listed[Compression.JETRAW]["readable"] == imagecodecs.JETRAW.available


@pytest.mark.parametrize(
    "scheme", [number for number, scheme in SCHEMES.items() if scheme.decoder not in {"NONE", "TIFF"}]
)
def test_decoders_are_those_that_tifffile_calls(scheme):
    called = tifffile.TIFF.DECOMPRESSORS[scheme]
    own = getattr(imagecodecs, SCHEMES[scheme].decoder)
    if own.available:
        names = {SCHEMES[scheme].decoder.lower(), {"JPEG8": "jpeg"}.get(SCHEMES[scheme].decoder)}
        assert called.__name__.removesuffix("_decode") in names
    else:
        with pytest.raises(ImportError):
            called(b"")


def checked(run, name, code):
    return json.loads(run("codecs", "--check", name, "--json", code=code).stdout)["codecs"]


def test_check_of_what_can_be_read(cog, run):
    run("-q", "index", cog, "-o", "refs.json")
    for name in ("refs.json", cog):
        rows = checked(run, name, 0)
        assert [(row["codec"]["name"], row["readable"]) for row in rows] == [("tiff-tile", True), ("bytes", True)]
        assert rows[0]["arrays"] == ["0/data", "1/data", "2/data"]


def changed(cog, run, change):
    """Index a file, and change the codecs of its full-resolution array."""
    run("-q", "index", cog, "-o", "refs.json", "--no-overviews")
    manifest = json.loads((cog.parent / "refs.json").read_text(encoding="utf-8"))
    document = json.loads(manifest["refs"]["data/zarr.json"])
    change(document["codecs"])
    manifest["refs"]["data/zarr.json"] = json.dumps(document)
    (cog.parent / "refs.json").write_text(json.dumps(manifest), encoding="utf-8")
    return "refs.json"


@pytest.mark.parametrize(
    ("codec", "words"),
    [
        ({"name": "nobody.knows"}, "no package that is installed registers the codec 'nobody.knows'"),
        ({"name": "numcodecs.nothing"}, "registers the codec"),
        ({"name": "offset", "configuration": {"offset": -1}}, "its configuration is refused"),
        ({"name": "https://awslabs.github.io/osml-imagery-io/codecs/dted"}, "is not read"),
        ({"name": "gzip", "configuration": {"level": 99}}, "its configuration is refused"),
    ],
)
def test_check_names_what_cannot_be_read(cog, run, codec, words):
    name = changed(cog, run, lambda codecs: codecs.append(codec))
    bad = [row for row in checked(run, name, 1) if not row["readable"]]
    assert [row["codec"]["name"] for row in bad] == [codec["name"]]
    assert words in bad[0]["reason"]
    assert "no   " in run("codecs", "--check", name, code=1).stdout


def test_check_looks_at_the_compression(cog, run):
    name = changed(cog, run, lambda codecs: codecs[0]["configuration"].update(compression=int(Compression.JETRAW)))
    (bad,) = [row for row in checked(run, name, 1) if not row["readable"]]
    assert bad["reason"].startswith("JETRAW (48124): this build of imagecodecs has no JETRAW")


@pytest.mark.parametrize(
    ("entry", "readable"),
    [
        ({"name": "numcodecs.zlib", "configuration": {"level": 1}}, True),
        ({"name": "zstd", "configuration": {"level": 1, "checksum": False}}, True),
        ({"name": "crc32c"}, True),
        ({"name": "numcodecs.packbits"}, False),
        ({"name": "vlen-bytes"}, False),
    ],
)
@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3 specification")
def test_codecs_of_others(entry, readable):
    assert (unreadable(entry) is None) == readable


def test_text_aligns(run):
    lines = run("codecs").stdout.splitlines()
    assert lines[0].startswith("jnrrdz ")
    assert any(line.split()[:3] == ["LZW", "(5)", "yes"] for line in lines)
    assert any(line.split()[:2] == ["tiff-tile", "yes"] for line in lines)


def test_ways_to_compress_a_nitf_are_those_that_its_scanner_knows(survey):
    from jnrrdz.formats.nitf import arrays  # noqa: PLC0415  once

    told = {one: row["readable"] for row in survey["nitf_compressions"] for one in row["name"].split(" ")[:1]}
    listed = {code.strip(",") for row in survey["nitf_compressions"] for code in row["name"].split()}
    assert {"NC", "NM", "C1", "M1", "C3", "M3", "C4", "M4", "C5", "M5", "I1", *arrays.CODESTREAMS} <= listed
    assert told["C6,"] is told["C7,"] is False
    for row in survey["nitf_compressions"]:
        assert row["readable"] == (row["reason"] is None)


def test_a_nitf_decoder_that_is_missing_says_how_to_get_it(run, monkeypatch):
    from glymur.lib import openjp2  # noqa: PLC0415  see above

    monkeypatch.setattr(imagecodecs.LJPEG, "available", False)
    monkeypatch.setattr(openjp2, "OPENJP2", None)
    lines = run("codecs").stdout.splitlines()
    (lossless,) = [line for line in lines if line.startswith("C5, M5")]
    (mixed,) = [line for line in lines if "mixed" in line]
    assert "no LJPEG" in lossless
    assert "pip install" in lossless
    assert "apt-get install libopenjp2-7" in mixed


def test_a_manifest_of_jpeg_blocks_asks_for_their_decoder(monkeypatch):
    entry = {"name": "jbp-jpeg", "configuration": {}}
    assert unreadable(entry) is None
    monkeypatch.setattr(imagecodecs.JPEG8, "available", False)
    assert "JPEG8" in unreadable(entry)
