"""GeoJP2: the GeoTIFF tags of the TIFF in its box, as tifffile writes them, whole and spoiled."""

import io

import pytest
import tifffile

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.metadata import GeoTag, geotiff_tags

TAGS = {
    GeoTag.ModelPixelScale: (12, (30.0, 30.0, 0.0)),
    GeoTag.ModelTiepoint: (12, (0.0, 0.0, 0.0, 500000.0, 4650000.0, 0.0)),
    GeoTag.GeoKeyDirectory: (3, (1, 1, 0, 1, 1024, 0, 1, 1)),
    GeoTag.GeoDoubleParams: (12, (6378137.0, 298.257223563)),
    GeoTag.GeoAsciiParams: (2, "WGS 84|"),
}


def template(byteorder="<", **options):
    """Return a TIFF of one pixel, with tags before and between those of GeoTIFF."""
    written = io.BytesIO()
    tags = [(int(tag), kind, 0 if kind == 2 else len(value), value, True) for tag, (kind, value) in TAGS.items()]
    with tifffile.TiffWriter(written, byteorder=byteorder, **options) as writer:
        writer.write(shape=(1, 1), dtype="u1", data=None, extratags=tags, metadata=None)
    return written.getvalue()


@pytest.mark.parametrize("bigtiff", [False, True])
@pytest.mark.parametrize("byteorder", ["<", ">"])
def test_the_tags_of_every_kind_of_tiff(byteorder, bigtiff):
    tags = geotiff_tags(template(byteorder, bigtiff=bigtiff))
    text = bytes(tags.pop(GeoTag.GeoAsciiParams))
    assert text.rstrip(b"\0") == b"WGS 84|"
    assert tags == {tag: value for tag, (kind, value) in TAGS.items() if kind != 2}


def entry_of(data, tag):
    return data.index(int(tag).to_bytes(2, "little"), 8)


def put(data, at, value, width):
    return data[:at] + value.to_bytes(width, "little") + data[at + width :]


SPOILED = {
    "no TIFF": (lambda data: b"GIF8" + data[4:], "not a TIFF"),
    "only a head": (lambda data: data[:6], "a header of 6 bytes where 8 are needed"),
    "a directory behind the end": (lambda data: put(data, 4, 1 << 30, 4), "IFD entry count: 2 bytes would end at"),
    "no entries": (lambda data: put(data, int.from_bytes(data[4:8], "little"), 0, 2), "0 entries in an IFD"),
    "60000 entries": (lambda data: put(data, int.from_bytes(data[4:8], "little"), 60000, 2), "60000 entries in an IFD"),
    "4000 entries": (lambda data: put(data, int.from_bytes(data[4:8], "little"), 4000, 2), "IFD entries: 48000 bytes"),
    "values behind the end": (
        lambda data: put(data, entry_of(data, GeoTag.ModelTiepoint) + 8, 1 << 31, 4),
        r"ModelTiepoint \(33922\): 48 bytes would end at 2147483696",
    ),
    "a billion values": (
        lambda data: put(data, entry_of(data, GeoTag.GeoDoubleParams) + 4, 1 << 30, 4),
        r"GeoDoubleParams \(34736\): 8589934592 bytes would end at",
    ),
    "keys that are no integers": (
        lambda data: put(data, entry_of(data, GeoTag.GeoKeyDirectory) + 2, 11, 2),
        r"GeoKeyDirectory \(34735\): FLOAT values where integers belong",
    ),
    "a type that no tag has": (
        lambda data: put(data, entry_of(data, GeoTag.ModelPixelScale) + 2, 99, 2),
        r"ModelPixelScale \(33550\): field type 99",
    ),
}


@pytest.mark.parametrize(("spoil", "words"), SPOILED.values(), ids=SPOILED)
def test_a_spoiled_tiff_is_refused_by_name(spoil, words):
    with pytest.raises((MalformedError, UnsupportedError), match=words):
        geotiff_tags(spoil(template()))


def test_a_bigtiff_has_offsets_of_eight_bytes():
    with pytest.raises(MalformedError, match="offsets are not 8 bytes"):
        geotiff_tags(put(template(bigtiff=True), 4, 4, 2))
