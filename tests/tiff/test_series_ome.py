"""OME-TIFF: planes by the XML, over one file and several; what it says of axes and channels; what it may not say."""

import json
from contextlib import nullcontext

import numpy as np
import pytest
import tifffile

import jnrrdz
from jnrrdz.api import open_store
from jnrrdz.core.ome import Axis
from jnrrdz.formats.tiff.ome import parse_ome
from tests.writers import tiff_pages

HERE = "0a0a0a0a-0000-0000-0000-000000000001"
OTHER = "0a0a0a0a-0000-0000-0000-000000000002"


def pattern(*shape, dtype="u2", seed=0):
    return np.random.default_rng(seed).integers(0, 60000 if dtype == "u2" else 250, shape).astype(dtype)


def ome_xml(*images, uuid=HERE):
    return (
        '<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" '
        f'UUID="urn:uuid:{uuid}">{"".join(images)}</OME>'
    )


def image_xml(inner, *, name="img", order="XYCZT", x=30, y=20, z=1, c=1, t=1, extra=""):  # noqa: PLR0913  the attributes of Pixels
    return (
        f'<Image ID="Image:0" Name="{name}"><Pixels ID="Pixels:0" DimensionOrder="{order}" Type="uint16" SizeX="{x}" '
        f'SizeY="{y}" SizeZ="{z}" SizeC="{c}" SizeT="{t}" {extra}>{inner}</Pixels></Image>'
    )


SERIES = {
    "TZCYX": ((3, 4, 2, 20, 30), "TZCYX", {}),
    "CTZYX": ((2, 3, 4, 20, 30), "CTZYX", {}),
    "ZYX": ((5, 20, 30), "ZYX", {"compression": "zlib", "tile": (16, 16)}),
    "YX": ((20, 30), "YX", {}),
    "CYX": ((3, 20, 30), "CYX", {}),
    "RGB": ((20, 30, 3), "YXS", {"photometric": "rgb", "compression": "lzw"}),
    "RGB stack": ((4, 20, 30, 3), "ZYXS", {"photometric": "rgb", "tile": (16, 16), "compression": "zlib"}),
    "RGB planar": ((4, 3, 20, 30), "ZSYX", {"photometric": "rgb", "planarconfig": "separate"}),
}


@pytest.mark.parametrize("case", SERIES)
def test_series_read_as_tifffile_reads_them(tmp_path, assert_like_tifffile, case):
    shape, axes, options = SERIES[case]
    path = tmp_path / "a.ome.tif"
    options = {"photometric": "minisblack", **options}
    tifffile.imwrite(path, pattern(*shape), ome=True, metadata={"axes": axes}, **options)
    assert_like_tifffile(jnrrdz.open_dataset(path)["data"], path)


@pytest.mark.parametrize("order", ["XYCZT", "XYCTZ", "XYZCT", "XYZTC", "XYTCZ", "XYTZC"])
def test_planes_stand_where_the_order_of_dimensions_says(tmp_path, assert_like_tifffile, order):
    sizes = {"Z": 2, "C": 3, "T": 4}
    xml = ome_xml(image_xml("<TiffData/>", order=order, z=2, c=3, t=4))
    path = tiff_pages(tmp_path / "a.ome.tif", pattern(24, 20, 30), xml)
    found = jnrrdz.open_dataset(path)["data"]
    assert found.dims == ("t", "c", "z", "y", "x")
    assert_like_tifffile(found, path)
    plane = found.isel(t=1, c=2, z=1)
    first, second, third = order[2:]
    index = {"T": 1, "C": 2, "Z": 1}
    number = index[first] + sizes[first] * (index[second] + sizes[second] * index[third])
    np.testing.assert_array_equal(plane, pattern(24, 20, 30)[number])


def test_pyramid_of_subifds(tmp_path, assert_like_tifffile):
    path, pixels = tmp_path / "a.ome.tif", pattern(2, 3, 64, 96)
    options = {"tile": (16, 16), "compression": "zlib", "photometric": "minisblack"}
    with tifffile.TiffWriter(path, ome=True) as tif:
        tif.write(pixels, subifds=2, metadata={"axes": "CZYX", "PhysicalSizeX": 0.5}, **options)
        for step in (2, 4):
            tif.write(pixels[..., ::step, ::step], subfiletype=1, **options)
    tree = jnrrdz.open_datatree(path)
    for level in range(3):
        assert_like_tifffile(tree[f"{level}"]["data"], path, level=level)
    (multiscale,) = jnrrdz.scan(path).attributes["ome"]["multiscales"]
    assert [entry["path"] for entry in multiscale["datasets"]] == ["0/data", "1/data", "2/data"]
    scales = [entry["coordinateTransformations"][0]["scale"] for entry in multiscale["datasets"]]
    assert scales == [[1, 1, 1, 0.5], [1, 1, 2, 1.0], [1, 1, 4, 2.0]]
    assert list(jnrrdz.scan(path, overviews=False).children) == ["data"]


def test_smaller_image_of_another_type_is_no_level(tmp_path):
    path, pixels = tmp_path / "a.ome.tif", pattern(2, 64, 96)
    options = {"tile": (16, 16), "photometric": "minisblack"}
    with tifffile.TiffWriter(path, ome=True) as tif:
        tif.write(pixels, subifds=2, metadata={"axes": "ZYX"}, **options)
        tif.write(pattern(2, 32, 48, dtype="u1"), subfiletype=1, **options)
        tif.write(pixels[:, ::4, ::4], subfiletype=1, **options)
    with pytest.warns(UserWarning, match="left out: 48 x 32 at"):
        group = jnrrdz.open_group(path)
    assert sorted(group.group_keys()) == ["0", "1"]
    np.testing.assert_array_equal(group["1/data"][...], pixels[:, ::4, ::4])


def test_images_are_groups_by_their_names(tmp_path, assert_like_tifffile):
    path = tmp_path / "a.ome.tif"
    with tifffile.TiffWriter(path, ome=True) as tif:
        tif.write(pattern(2, 20, 30), metadata={"axes": "CYX", "Name": "cells"})
        tif.write(pattern(3, 10, 15, seed=1), metadata={"axes": "ZYX", "Name": "a/b"})
        tif.write(pattern(12, 15, seed=2), metadata={"axes": "YX", "Name": "cells"})
    tree = jnrrdz.open_datatree(path)
    assert len(tree.children) == 3
    for number, name in enumerate(["cells", "a_b", "cells_2"]):
        assert_like_tifffile(tree[name]["data"], path, series=number)
    assert_like_tifffile(jnrrdz.open_dataset(path)["data"], path, series=0)


CHANNELS = (
    '<Channel ID="C:0" Name="DAPI" Color="65535" SamplesPerPixel="1"/>'
    '<Channel ID="C:1" Name="GFP" Color="16711935" SamplesPerPixel="1"/>'
    '<Channel ID="C:2" Color="-16776961" SamplesPerPixel="1"/>'
)
SIZES = (
    'PhysicalSizeX="0.5" PhysicalSizeY="250" PhysicalSizeYUnit="nm" PhysicalSizeZ="2" TimeIncrement="100" '
    'TimeIncrementUnit="ms"'
)


def test_channels_sizes_and_units_are_ome_zarr(tmp_path):
    xml = ome_xml(image_xml(CHANNELS + "<TiffData/>", c=3, z=2, t=2, extra=SIZES))
    path = tiff_pages(tmp_path / "a.ome.tif", pattern(12, 20, 30), xml)
    group = jnrrdz.scan(path)
    ome = group.attributes["ome"]
    assert ome["version"] == "0.5"
    assert ome["multiscales"][0]["axes"] == [
        {"name": "t", "type": "time", "unit": "millisecond"},
        {"name": "c", "type": "channel"},
        {"name": "z", "type": "space", "unit": "micrometer"},
        {"name": "y", "type": "space", "unit": "nanometer"},
        {"name": "x", "type": "space", "unit": "micrometer"},
    ]
    (level,) = ome["multiscales"][0]["datasets"]
    assert level["coordinateTransformations"] == [{"type": "scale", "scale": [100.0, 1.0, 2.0, 250.0, 0.5]}]
    channels = [(channel["label"], channel["color"]) for channel in ome["omero"]["channels"]]
    assert channels == [("DAPI", "0000FF"), ("GFP", "00FF00"), ("C:2", "FF0000")]
    axes = group.children["data"].attributes["axes"]
    assert axes["c"] == {"labels": ["DAPI", "GFP", "C:2"]}
    assert axes["x"] == {"step": 0.5, "unit": "µm", "start": 0.0}


MODULO_AXES = {
    "lifetimes alone": ((5, 20, 30), "HYX"),
    "lifetimes in time": ((3, 5, 20, 30), "THYX"),
    "angles of slices, phases of times": ((2, 3, 4, 2, 20, 30), "TPZAYX"),
    "wavelengths of channels": ((2, 5, 20, 30), "CEYX"),
    "all three": ((2, 3, 2, 2, 3, 2, 20, 30), "TQCPZRYX"),
    "samples": ((2, 3, 20, 30, 3), "TAYXS"),
}


@pytest.mark.parametrize("case", MODULO_AXES)
def test_modulo_axes_are_those_of_tifffile(tmp_path, assert_like_tifffile, case):
    shape, axes = MODULO_AXES[case]
    path, options = tmp_path / "a.ome.tif", {"photometric": "rgb" if "S" in axes else "minisblack"}
    tifffile.imwrite(path, pattern(*shape), ome=True, metadata={"axes": axes}, **options)
    assert_like_tifffile(jnrrdz.open_dataset(path)["data"], path)


def modulo_xml(inner, pixels, *, where="Image"):
    """Return the XML of an image and an annotation of it, which both elements may refer to."""
    reference = '<AnnotationRef ID="Annotation:3"/>'
    image = pixels.replace(f"</{where}>", f"{reference}</{where}>")
    annotation = (
        '<StructuredAnnotations><XMLAnnotation ID="Annotation:3" '
        'Namespace="openmicroscopy.org/omero/dimension/modulo"><Value>'
        f'<Modulo namespace="http://www.openmicroscopy.org/Schemas/Additions/2011-09">{inner}</Modulo>'
        "</Value></XMLAnnotation></StructuredAnnotations>"
    )
    return ome_xml(image, annotation)


ALONG = (
    '<ModuloAlongZ Type="angle" Unit="degree"><Label>45</Label><Label>90</Label></ModuloAlongZ>'
    '<ModuloAlongT Type="lifetime" TypeDescription="TCSPC" Unit="ps" Start="100" Step="50" End="200"/>'
    '<ModuloAlongC Type="event" Start="0" End="1"/>'
)


@pytest.mark.parametrize("where", ["Image", "Pixels"])
@pytest.mark.parametrize("order", ["XYCZT", "XYCTZ", "XYZCT", "XYZTC", "XYTCZ", "XYTZC"])
def test_modulo_axes_in_every_order_of_dimensions(tmp_path, assert_like_tifffile, order, where):
    """Every plane where the specification has it: the Modulo index runs faster than that of its axis."""
    sizes = {"Z": 6, "C": 4, "T": 6}
    xml = modulo_xml(ALONG, image_xml("<TiffData/>", order=order, z=6, c=4, t=6), where=where)
    planes = pattern(144, 4, 6)
    path = tiff_pages(tmp_path / "a.ome.tif", planes, xml.replace('SizeX="30" SizeY="20"', 'SizeX="6" SizeY="4"'))
    found = jnrrdz.open_dataset(path)["data"]
    assert set(found.dims[:3]) == {"angle", "lifetime", "event"}
    assert found.dims[3:] == ("t", "c", "z", "y", "x")
    inner = {"Z": ("angle", 2), "C": ("event", 2), "T": ("lifetime", 3)}
    for axis, (name, size) in inner.items():
        assert (found.sizes[name], found.sizes[axis.lower()]) == (size, sizes[axis] // size)
    stored = planes.reshape(*(sizes[axis] for axis in order[:1:-1]), 4, 6)
    for index in np.ndindex(6, 4, 6):
        at = dict(zip("ZCT", index, strict=True))
        place = {name: at[axis] % size for axis, (name, size) in inner.items()}
        place |= {axis.lower(): at[axis] // size for axis, (_, size) in inner.items()}
        np.testing.assert_array_equal(found.isel(place), stored[tuple(at[axis] for axis in order[:1:-1])])
    if where == "Image":
        assert_like_tifffile(found, path)


def test_modulo_axes_have_coordinates(tmp_path):
    pixels = image_xml("<TiffData/>", z=6, c=4, t=6, extra='PhysicalSizeZ="2"')
    path = tiff_pages(tmp_path / "a.ome.tif", pattern(144, 20, 30), modulo_xml(ALONG, pixels))
    found = jnrrdz.open_dataset(path)
    assert found["angle"].values.tolist() == ["45", "90"]
    assert found["lifetime"].values.tolist() == [100.0, 150.0, 200.0]
    assert found["lifetime"].attrs == {"unit": "ps", "units": "ps"}
    assert found["event"].values.tolist() == [0.0, 1.0]
    assert found["z"].values.tolist() == [0.0, 2.0, 4.0]
    assert json.loads(found["data"].attrs["axes"])["angle"] == {"labels": ["45", "90"], "unit": "degree"}
    jnrrdz.index(path, tmp_path / "refs.json")
    assert jnrrdz.open_dataset(tmp_path / "refs.json").identical(found)


def test_modulo_axis_alone_is_ome_zarr(tmp_path):
    """One axis that is neither time, channel nor space is what OME-Zarr has room for; more leave its metadata out."""
    along = '<ModuloAlongT Type="lifetime" Start="100" Step="50" End="350"/>'
    path = tiff_pages(
        tmp_path / "a.ome.tif", pattern(12, 20, 30), modulo_xml(along, image_xml("<TiffData/>", z=2, t=6))
    )
    (multiscale,) = jnrrdz.scan(path).attributes["ome"]["multiscales"]
    assert multiscale["axes"][:2] == [{"name": "lifetime"}, {"name": "z", "type": "space"}]
    (level,) = multiscale["datasets"]
    assert level["coordinateTransformations"] == [
        {"type": "scale", "scale": [50.0, 1.0, 1.0, 1.0]},
        {"type": "translation", "translation": [100.0, 0.0, 0.0, 0.0]},
    ]
    path = tiff_pages(
        tmp_path / "b.ome.tif", pattern(144, 20, 30), modulo_xml(ALONG, image_xml("<TiffData/>", z=6, c=4, t=6))
    )
    assert "ome" not in jnrrdz.scan(path).attributes


def test_channels_that_wavelengths_divide(tmp_path):
    """Each wavelength is a `Channel` in the file; those of one channel share its name."""
    along = '<ModuloAlongC Type="lambda" Unit="nm" Start="500" Step="10.001" End="520"/>'
    channels = "".join(f'<Channel ID="C:{number}" Name="{"AB"[number // 3]}"/>' for number in range(6))
    pixels = image_xml(channels + "<TiffData/>", c=6)
    path = tiff_pages(tmp_path / "a.ome.tif", pattern(6, 20, 30), modulo_xml(along, pixels))
    found = jnrrdz.open_dataset(path)
    assert found["data"].dims == ("lambda", "c", "y", "x")
    assert found["c"].values.tolist() == ["A", "B"]
    np.testing.assert_allclose(found["lambda"], [500, 510.001, 520.002])
    path = tiff_pages(tmp_path / "b.ome.tif", pattern(6, 20, 30), modulo_xml(along, pixels.replace('"B"', '"C"', 1)))
    assert "c" not in jnrrdz.open_dataset(path).coords


STAYS_WHOLE = {
    "does not divide": ('<ModuloAlongT Type="phase" Start="0" End="3"/>', True),
    "no end": ('<ModuloAlongT Type="phase" Start="0"/>', False),
    "no number": ('<ModuloAlongT Type="phase" Start="a" End="2"/>', False),
    "no step": ('<ModuloAlongT Type="phase" Start="0" Step="0" End="2"/>', False),
    "backwards": ('<ModuloAlongT Type="phase" Start="5" End="0"/>', False),
    "endless": ('<ModuloAlongT Type="phase" Start="0" Step="1e-300" End="1e300"/>', False),
    "along x": ('<ModuloAlongX Type="phase" Start="0" End="2"/>', False),
}


@pytest.mark.parametrize("case", STAYS_WHOLE)
def test_annotations_that_divide_nothing_leave_the_axis_whole(tmp_path, case):
    along, warns = STAYS_WHOLE[case]
    path = tiff_pages(tmp_path / "a.ome.tif", pattern(6, 20, 30), modulo_xml(along, image_xml("<TiffData/>", t=6)))
    with pytest.warns(UserWarning, match="stays whole") if warns else nullcontext():
        found = jnrrdz.open_dataset(path)["data"]
    assert found.dims == ("t", "y", "x")
    np.testing.assert_array_equal(found, pattern(6, 20, 30))


def test_modulo_type_that_nobody_knows_is_other(tmp_path):
    along = '<ModuloAlongT Type="x" Start="0" End="2"/><ModuloAlongZ Type="dose" Start="0" End="1"/>'
    path = tiff_pages(
        tmp_path / "a.ome.tif", pattern(12, 20, 30), modulo_xml(along, image_xml("<TiffData/>", z=2, t=6))
    )
    found = jnrrdz.open_dataset(path)["data"]
    assert dict(found.sizes) == {"other": 3, "other_2": 2, "t": 2, "y": 20, "x": 30}
    np.testing.assert_array_equal(found.transpose("t", "other", "other_2", "y", "x"), pattern(2, 3, 2, 20, 30))


WINDOWS = {
    "uint16": ('SignificantBits="12"', "u2", (0, 65535, 0, 4095)),
    "int16": ('SignificantBits="12"', "i2", (-32768, 32767, -2048, 2047)),
    "all bits": ('SignificantBits="16"', "u2", (0, 65535, 0, 65535)),
    "more than the type has": ('SignificantBits="99"', "u2", (0, 65535, 0, 65535)),
    "not said": ("", "u2", (0, 65535, 0, 65535)),
}


@pytest.mark.parametrize("case", WINDOWS)
def test_window_of_a_channel_ends_with_its_significant_bits(tmp_path, case):
    said, dtype, expected = WINDOWS[case]
    xml = ome_xml(image_xml(CHANNELS + "<TiffData/>", c=3, extra=said))
    path = tiff_pages(tmp_path / "a.ome.tif", pattern(3, 20, 30, dtype="u2").astype(dtype), xml)
    for channel in jnrrdz.scan(path).attributes["ome"]["omero"]["channels"]:
        assert tuple(channel["window"][name] for name in ("min", "max", "start", "end")) == expected


def test_steps_of_the_finest_level_are_those_of_the_file(tmp_path):
    """No digit is lost on the way: the first time is 0, not 7e-18."""
    xml = ome_xml(image_xml("<TiffData/>", t=3, extra='TimeIncrement="0.1" PhysicalSizeX="0.29"'))
    found = jnrrdz.open_dataset(tiff_pages(tmp_path / "a.ome.tif", pattern(3, 20, 30), xml))
    assert found["t"].values.tolist() == [0.1 * number for number in range(3)]
    assert found["x"].values.tolist() == [0.29 * number for number in range(30)]


def test_first_written_plane_comes_first_in_no_order_but_the_xml(tmp_path):
    """Planes of an IFD each, in an order of their own, one of them nowhere."""
    blocks = "".join(
        f'<TiffData IFD="{ifd}" FirstZ="{z}" FirstC="0" FirstT="0" PlaneCount="1"/>'
        for ifd, z in [(0, 3), (1, 0), (2, 1)]
    )
    path = tiff_pages(tmp_path / "a.ome.tif", pattern(3, 20, 30), ome_xml(image_xml(blocks, z=4)))
    found = jnrrdz.open_group(path)["data"]
    pages = pattern(3, 20, 30)
    for z, page in [(0, pages[1]), (1, pages[2]), (2, np.zeros((20, 30))), (3, pages[0])]:
        np.testing.assert_array_equal(found[z], page)
    assert jnrrdz.scan(path).children["data"].refs.counts.tolist() == [1, 1, 0, 1]


def test_acquisition_cut_short_warns_and_misses_planes(tmp_path):
    xml = ome_xml(image_xml('<TiffData IFD="0" PlaneCount="6"/>', t=6))
    path = tiff_pages(tmp_path / "a.ome.tif", pattern(4, 20, 30), xml, compression="zlib")
    with pytest.warns(UserWarning, match="has 4"):
        found = jnrrdz.scan(path).children["data"]
    assert found.refs.counts.tolist() == [1, 1, 1, 1, 0, 0]


def two_files(folder, *, second="b.ome.tif"):
    blocks = "".join(
        f'<TiffData FirstT="{t}" IFD="0" PlaneCount="2"><UUID FileName="{name}">urn:uuid:{uuid}</UUID></TiffData>'
        for t, name, uuid in [(0, "a.ome.tif", HERE), (1, second, OTHER)]
    )
    image = image_xml(blocks, z=2, t=2, extra='PhysicalSizeX="0.5"')
    tiff_pages(folder / "a.ome.tif", pattern(2, 20, 30), ome_xml(image))
    tiff_pages(folder / "b.ome.tif", pattern(2, 20, 30, seed=1), ome_xml(image, uuid=OTHER))
    return folder / "a.ome.tif"


def test_planes_of_several_files(tmp_path, assert_like_tifffile):
    path = two_files(tmp_path)
    assert_like_tifffile(jnrrdz.open_dataset(path)["data"], path)
    found = jnrrdz.open_dataset(path)["data"]
    np.testing.assert_array_equal(found, np.stack([pattern(2, 20, 30), pattern(2, 20, 30, seed=1)]))


def test_every_file_stands_in_the_table_of_sources(tmp_path):
    path = two_files(tmp_path)
    jnrrdz.index(path, tmp_path / "refs.json")
    sources = jnrrdz.open_group(tmp_path / "refs.json").attrs["jnrrdz"]["sources"]
    names = {record["url"].rpartition("/")[2]: record["size"] for record in sources}
    assert names == {name: (tmp_path / name).stat().st_size for name in ("a.ome.tif", "b.ome.tif")}
    second = jnrrdz.open_dataset(tmp_path / "refs.json")["data"].isel(t=1)
    np.testing.assert_array_equal(second, pattern(2, 20, 30, seed=1))


def test_file_that_is_not_there_is_named(tmp_path):
    path = two_files(tmp_path, second="gone.ome.tif")
    with pytest.raises(jnrrdz.UnsupportedError, match=r"gone\.ome\.tif"):
        jnrrdz.scan(path)


@pytest.mark.parametrize("name", ["../b.ome.tif", "/etc/passwd", "..\\b.ome.tif", ".."])
def test_files_elsewhere_are_not_opened(tmp_path, name):
    (tmp_path / "in").mkdir()
    tiff_pages(tmp_path / "b.ome.tif", pattern(2, 20, 30), "")
    path = two_files(tmp_path / "in", second=name)
    with pytest.raises(jnrrdz.UnsupportedError, match="same directory"):
        jnrrdz.scan(path)


def test_pages_of_one_image_that_differ_are_refused(tmp_path):
    path = tmp_path / "a.ome.tif"
    with tifffile.TiffWriter(path) as tif:
        tif.write(
            pattern(20, 30),
            description=ome_xml(image_xml("<TiffData/>", z=2)).encode(),
            metadata=None,
            photometric="minisblack",
        )
        tif.write(pattern(20, 30), metadata=None, compression="zlib", photometric="minisblack")
    with pytest.raises(jnrrdz.UnsupportedError, match="compression"):
        jnrrdz.scan(path)


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE OME [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]><OME>&c;</OME>'
)
BAD = {
    "bomb": (BOMB, "document type"),
    "not XML": ("<OME><Image></OME>", "no XML"),
    "huge": (ome_xml(image_xml("<TiffData/>", z=2_000_000_000, t=2_000_000_000)), "planes"),
    "missing by the million": (ome_xml(image_xml('<TiffData IFD="0"/>', z=16_000_000, t=1)), None),
    "none": (ome_xml(image_xml("<TiffData/>", z=0)), "planes"),
    "number": (ome_xml(image_xml('<TiffData IFD="x"/>')), "IFD 'x'"),
    "negative": (ome_xml(image_xml('<TiffData IFD="-1"/>')), "IFD -1"),
    "order": (ome_xml(image_xml("<TiffData/>", order="XXYCZ")), "DimensionOrder"),
    "place": (ome_xml(image_xml('<TiffData FirstZ="5"/>', z=3)), "planes at"),
    "no plane": (ome_xml(image_xml('<TiffData IFD="9" PlaneCount="0"/>', z=3)), "no plane"),
}


@pytest.mark.parametrize("case", BAD)
def test_impossible_xml_is_refused(tmp_path, case):
    text, says = BAD[case]
    path = tiff_pages(tmp_path / "a.ome.tif", [np.zeros((400, 30), "u2")], text, rowsperstrip=1, compression="zlib")
    with pytest.raises(jnrrdz.MalformedError, match=says):
        jnrrdz.scan(path)


def test_xml_of_no_tiff_plane_leaves_the_pages(tmp_path):
    binary_only = '<OME xmlns="x"><BinaryOnly MetadataFile="m.ome" UUID="urn:uuid:1"/></OME>'
    path = tiff_pages(tmp_path / "a.ome.tif", pattern(2, 20, 30), binary_only)
    with pytest.warns(UserWarning, match=r"'m\.ome'"):
        found = jnrrdz.open_dataset(path)["data"]
    np.testing.assert_array_equal(found, pattern(2, 20, 30))


def test_parsed_facts():
    document = parse_ome(ome_xml(image_xml(CHANNELS + "<TiffData/>", c=3, z=2, t=2, extra=SIZES)))
    (image,) = document.images
    assert (image.lead, image.sizes, image.samples) == ("TZC", (2, 2, 3), 1)
    assert image.axes["t"] == Axis("t", 100.0, "ms")
    assert "bad" not in image.axes


def test_ome_zarr_reads_a_manifest(tmp_path):
    """The client of the format itself, on the store of a manifest: levels, pixels, axes, scales, names of channels."""
    reader, io = pytest.importorskip("ome_zarr.reader"), pytest.importorskip("ome_zarr.io")
    path, pixels = tmp_path / "a.ome.tif", pattern(2, 3, 64, 96)
    options = {"tile": (16, 16), "compression": "zlib", "photometric": "minisblack"}
    metadata = {"axes": "CZYX", "PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "µm", "Channel": {"Name": ["A", "B"]}}
    with tifffile.TiffWriter(path, ome=True) as tif:
        tif.write(pixels, subifds=1, metadata=metadata, **options)
        tif.write(pixels[..., ::2, ::2], subfiletype=1, **options)
    jnrrdz.index(path, tmp_path / "refs.json")
    (image,) = reader.Reader(io.ZarrLocation(open_store(tmp_path / "refs.json")))()
    for level, step in enumerate((1, 2)):
        np.testing.assert_array_equal(image.data[level].compute(), pixels[..., ::step, ::step])
    assert [axis["name"] for axis in image.metadata["axes"]] == ["c", "z", "y", "x"]
    assert image.metadata["channel_names"] == ["A", "B"]
    scales = [level[0]["scale"] for level in image.metadata["coordinateTransformations"]]
    assert scales == [[1, 1, 1, 0.5], [1, 1, 2, 1.0]]
