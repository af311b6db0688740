"""Symbolic links beside and below a source: followed inside of its folder, and out of it only with leave."""

import os

import numpy as np
import pytest
import tifffile

import jnrrdz
from jnrrdz.errors import UntrustedSourceError
from tests import writers

PIXELS = np.arange(256, dtype="u1").reshape(16, 16)
WORLD = "2.5\n0\n0\n-2\n1000.5\n2000\n"
PAM = "<PAMDataset><GeoTransform>0, 2, 0, 9, 0, -2</GeoTransform></PAMDataset>"


def tiff(folder, name=None, content=None):
    tifffile.imwrite(folder / "a.tif", PIXELS, metadata=None)
    if content is not None:
        (folder / name).write_text(content)
    return folder / "a.tif"


def overview(folder):
    tifffile.imwrite(folder / "a.tif.ovr", PIXELS[::2, ::2], metadata=None, subfiletype=1)
    return tiff(folder)


def ome(folder):
    for name in ("a.ome.tif", "b.ome.tif"):
        tifffile.imwrite(folder / name, PIXELS, metadata=None, description=OME if name[0] == "a" else "")
    return folder / "a.ome.tif"


OME = """<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image ID="Image:0">
<Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint8" SizeX="16" SizeY="16" SizeZ="2" SizeC="1" SizeT="1">
<TiffData FirstZ="0"><UUID FileName="a.ome.tif">urn:uuid:1</UUID></TiffData>
<TiffData FirstZ="1"><UUID FileName="b.ome.tif">urn:uuid:2</UUID></TiffData></Pixels></Image></OME>"""


def nrrd(folder):
    (folder / "a.raw").write_bytes(PIXELS.tobytes())
    (folder / "a.nhdr").write_bytes(writers.nrrd_of(PIXELS, data_file="a.raw"))
    return folder / "a.nhdr"


def listed_nrrd(folder):
    (folder / "a.raw").write_bytes(PIXELS.tobytes())
    (folder / "a.nhdr").write_bytes(writers.nrrd_of(PIXELS, data_file="LIST\na.raw", end=""))
    return folder / "a.nhdr"


def n5(folder):
    """A group of one dataset, as tensorstore writes it."""
    writers.n5_dataset(folder / "c.n5/v", PIXELS, [8, 8], "raw")
    return writers.n5_attributes(folder / "c.n5", n5="2.0.0")


CASES = {
    "overviews": (overview, "a.tif.ovr", {}),
    "a world file": (lambda folder: tiff(folder, "a.tfw", WORLD), "a.tfw", {"sidecars": True}),
    "metadata of GDAL": (lambda folder: tiff(folder, "a.tif.aux.xml", PAM), "a.tif.aux.xml", {"sidecars": True}),
    "a file of OME": (ome, "b.ome.tif", {}),
    "the data of an NRRD header": (nrrd, "a.raw", {}),
    "the data of a list": (listed_nrrd, "a.raw", {}),
    "a block": (n5, "c.n5/v/1/0", {}),
    "a folder of blocks": (n5, "c.n5/v/1", {}),
    "a dataset": (n5, "c.n5/v", {}),
    "attributes": (n5, "c.n5/v/attributes.json", {}),
}
EACH = pytest.mark.parametrize(("make", "name", "options"), CASES.values(), ids=CASES)


def read(source, **options):
    """Return the values of all arrays."""
    group = jnrrdz.open_group(jnrrdz.scan(source, **options))
    return {name: array[...].tolist() for name, array in group.members(max_depth=None) if hasattr(array, "chunks")}


def move(old, new):
    """Put a file or folder elsewhere, and a link to it in its place."""
    new.parent.mkdir(parents=True, exist_ok=True)
    old.rename(new)
    old.symlink_to(os.path.relpath(new, old.parent))


@EACH
def test_a_link_out_of_the_folder_needs_leave(tmp_path, make, name, options):
    (tmp_path / "here").mkdir()
    source = make(tmp_path / "here")
    expected = read(source, **options)
    there = tmp_path / "there" / "x"
    move(tmp_path / "here" / name, there)
    if options:  # files that tell where an image lies are left out, if they cannot be read
        with pytest.warns(UserWarning, match=f"left out: .*leads out of the folder.*--allow {there}"):
            jnrrdz.scan(source, **options)
    else:
        with pytest.raises(UntrustedSourceError, match=f"leads out of the folder.*--allow {there}"):
            jnrrdz.scan(source)
    for allow in (str(there), f"{tmp_path}/there/", "*"):
        assert read(source, allow=[allow], **options) == expected
    with pytest.raises((UntrustedSourceError, UserWarning)):
        jnrrdz.scan(source, allow=[f"{tmp_path}/ther"], **options)


@EACH
def test_a_link_inside_of_the_folder_is_followed(tmp_path, make, name, options):
    source = make(tmp_path)
    expected = read(source, **options)
    inside = source if source.is_dir() else tmp_path
    move(tmp_path / name, inside / "v/kept/x" if source.is_dir() and name != "c.n5/v" else inside / "kept/x")
    found = read(source, **options)
    assert {name: found[name] for name in expected if name in found} == expected or name == "c.n5/v"


@EACH
def test_a_source_that_is_a_link_itself_has_the_folder_that_it_leads_to(tmp_path, make, name, options):
    del name
    (tmp_path / "data").mkdir()
    source = make(tmp_path / "data")
    expected = read(source, **options)
    (tmp_path / "farm").mkdir()
    for path in (tmp_path / "data").iterdir():
        (tmp_path / "farm" / path.name).symlink_to(path)
    assert read(tmp_path / "farm" / source.name, **options) == expected


def test_an_absent_file_behind_a_link_is_absent(tmp_path):
    source = tiff(tmp_path)
    (tmp_path / "a.tif.ovr").symlink_to("/nowhere/at/all")
    assert read(source) == {"data": PIXELS.tolist()}


def test_a_manifest_of_a_linked_file_is_read(tmp_path):
    (tmp_path / "farm").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "farm/link.tif").symlink_to(overview(tmp_path / "data"))
    jnrrdz.index(tmp_path / "farm/link.tif", tmp_path / "farm/refs.json")
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "farm/refs.json")["0/data"][...], PIXELS)


def test_index_in_place_takes_leave_too(tmp_path):
    (tmp_path / "here").mkdir()
    source = n5(tmp_path / "here")
    move(source / "v/1", tmp_path / "there")
    with pytest.raises(UntrustedSourceError):
        jnrrdz.api.index_in_place(source)
    assert jnrrdz.api.index_in_place(source, allow=[str(tmp_path / "there")])
