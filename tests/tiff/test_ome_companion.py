"""OME-TIFFs whose XML is in a companion file: the pixels and axes of the same XML inside of the file."""

import numpy as np
import pytest
import tifffile

import jnrrdz
from tests.writers import tiff_pages

OWN, OTHER, METADATA = (f"0a0a0a0a-0000-0000-0000-00000000000{number}" for number in range(3))
NAMESPACE = "http://www.openmicroscopy.org/Schemas/OME/2016-06"
PIXELS = np.random.default_rng(1).integers(0, 60000, (2, 3, 20, 30)).astype("u2")
"""Channels and times of a data set of two files, a file a channel."""

NAMES = ("a.ome.tif", "b.ome.tif")


def document(*, uuid, with_uuid=True):
    blocks = ""
    for channel, (name, own) in enumerate(zip(NAMES, (OWN, OTHER), strict=True)):
        place = f'<UUID FileName="{name}">urn:uuid:{own}</UUID>' if with_uuid else ""
        blocks += f'<TiffData FirstC="{channel}" IFD="0" PlaneCount="3">{place}</TiffData>'
    return (
        f'<?xml version="1.0"?><OME xmlns="{NAMESPACE}" UUID="urn:uuid:{uuid}"><Image ID="Image:0" Name="cells">'
        '<Pixels ID="Pixels:0" DimensionOrder="XYTCZ" Type="uint16" SizeX="30" SizeY="20" SizeZ="1" SizeC="2" '
        'SizeT="3" PhysicalSizeX="0.5" PhysicalSizeY="0.25"><Channel ID="C:0" Name="DAPI"/>'
        f'<Channel ID="C:1" Name="GFP"/>{blocks}</Pixels></Image></OME>'
    )


def binary_only(name, uuid):
    return (
        f'<OME xmlns="{NAMESPACE}" UUID="urn:uuid:{uuid}">'
        f'<BinaryOnly MetadataFile="{name}" UUID="urn:uuid:{METADATA}"/></OME>'
    )


def write(folder, descriptions):
    folder.mkdir()
    for name, planes, text in zip(NAMES, PIXELS, descriptions, strict=True):
        tiff_pages(folder / name, planes, description=text)
    return folder


@pytest.fixture
def folder(tmp_path):
    """Two files, their XML in a third."""
    name = "set.companion.ome"
    path = write(tmp_path / "set", [binary_only(name, uuid) for uuid in (OWN, OTHER)])
    (path / name).write_text(document(uuid=METADATA))
    return path


@pytest.mark.parametrize("name", NAMES)
def test_axes_and_pixels_are_those_of_the_same_xml_inside(tmp_path, folder, name):
    inside = write(tmp_path / "inside", [document(uuid=uuid) for uuid in (OWN, OTHER)])
    with tifffile.TiffFile(inside / NAMES[0]) as source:
        assert source.series[0].axes == "CTYX"
        expected = source.series[0].asarray()
    found = jnrrdz.open_dataset(folder / name)["data"]
    assert found.dims == ("t", "c", "y", "x")
    np.testing.assert_array_equal(found.transpose("c", "t", "y", "x"), expected)
    ours, theirs = jnrrdz.scan(folder / name), jnrrdz.scan(inside / name)
    assert ours.attributes["ome"] == theirs.attributes["ome"]
    names = {source.url.rpartition("/")[2] for source in ours.sources}
    assert names == {*NAMES, "set.companion.ome"}


def as_pages(path, words):
    """Return the pages of a file that are read without the XML, after a warning that names it."""
    with pytest.warns(UserWarning, match=words):
        found = jnrrdz.open_dataset(path)["data"]
    assert found.dims == ("page", "y", "x")
    np.testing.assert_array_equal(found, PIXELS[0])


def test_a_companion_that_is_absent_is_named(folder):
    (folder / "set.companion.ome").unlink()
    as_pages(folder / NAMES[0], r"'set\.companion\.ome': it is not beside")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"<OME", "no XML"),
        (b"\xff\xfe", "no UTF-8"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><OME/>', "document type"),
        (document(uuid=METADATA, with_uuid=False).encode(), "without UUID"),
    ],
)
def test_a_companion_that_is_no_use_is_named(folder, text, words):
    (folder / "set.companion.ome").write_bytes(text)
    as_pages(folder / NAMES[0], words)


def test_a_companion_that_is_too_large_is_not_read(folder):
    with (folder / "set.companion.ome").open("r+b") as file:
        file.truncate((16 << 20) + 1)
    as_pages(folder / NAMES[0], "no more than 16777216 are read")


@pytest.mark.parametrize("name", ["../secret.ome", "/etc/passwd", "..", "", "a\\\\b.ome"])
def test_a_companion_elsewhere_is_not_opened(tmp_path, name):
    (tmp_path / "secret.ome").write_text(document(uuid=METADATA))
    path = write(tmp_path / "set", [binary_only(name, uuid) for uuid in (OWN, OTHER)])
    as_pages(path / NAMES[0], "only files of the same directory")


def test_a_companion_of_a_companion_is_not_opened(folder):
    (folder / "set.companion.ome").write_text(binary_only("set.companion.ome", METADATA))
    as_pages(folder / NAMES[0], "describes no plane")
