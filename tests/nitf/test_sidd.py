"""SIDD files that sarkit writes: every segment against the pixels that went in, the XML and its header's fields."""

import numpy as np
import pytest
import xarray as xr

import jnrrdz
from tests.nitf.by_sarkit import SARKIT, corners

pytestmark = SARKIT

URN = "urn:SIDD:3.0.0"
CORNERS = corners("s:")
SIDD = (
    '<SIDD xmlns="{urn}" xmlns:s="urn:SICommon:1.0"><Display><PixelType>{kind}</PixelType></Display>'
    "<GeoData><ImageCorners>{corners}</ImageCorners></GeoData>"
    "<Measurement><PixelFootprint><s:Row>{rows}</s:Row><s:Col>{columns}</s:Col></PixelFootprint></Measurement>"
    "<ExploitationFeatures><Collection><Information><SensorName>test</SensorName>"
    "<CollectionDateTime>2020-01-02T03:04:05Z</CollectionDateTime></Information></Collection></ExploitationFeatures>"
    "</SIDD>"
)
RGB = np.dtype([(name, "u1") for name in "RGB"])
TYPES = {"MONO8I": np.uint8, "MONO16I": np.uint16, "MONO8LU": np.uint8, "RGB8LU": np.uint8, "RGB24I": RGB}


def pixels_of(kind, shape, seed):
    random, dtype = np.random.default_rng(seed), np.dtype(TYPES[kind])
    if dtype.names is None:
        return random.integers(0, np.iinfo(dtype).max, shape, dtype)
    return random.integers(0, 256, (*shape, 3), np.uint8).view(dtype)[..., 0]


def stored(pixels):
    """Return pixels as jnrrdz has them: bands first."""
    return pixels if pixels.dtype.names is None else np.stack([pixels[name] for name in pixels.dtype.names])


def table_of(kind):
    ramp = np.arange(256, dtype=np.uint8)
    if kind == "MONO8LU":
        return ramp[::-1].copy()
    if kind != "RGB8LU":
        return None
    return np.stack([ramp, ramp[::-1], ramp // 2], axis=-1).copy().view(RGB)[:, 0]


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes images with a legend each and elevations, in segments of few bytes."""
    import lxml.etree  # noqa: PLC0415  these come with sarkit
    import sarkit.sidd as sidd  # noqa: PLC0415, PLR0402

    secret = {"security": {"clas": "U"}}

    def product(kind, pixels, legend):
        rows, columns = pixels.shape
        text = SIDD.format(urn=URN, kind=kind, rows=rows, columns=columns, corners=CORNERS)
        legends = [sidd.NitfLegendMetadata(2, 3, *legend.shape, secret)]
        tree = lxml.etree.ElementTree(lxml.etree.fromstring(text))
        return sidd.NitfProductImageMetadata(
            xmltree=tree,
            im_subheader_part=secret,
            de_subheader_part=secret,
            legends=legends,
            lookup_table=table_of(kind),
        )

    def made(images, heights, part_bytes):
        monkeypatch.setattr(sidd._io.siddconst, "LI_MAX", part_bytes)  # noqa: SLF001  real ones are 10 GB
        metadata = sidd.NitfMetadata(
            file_header_part={"ostaid": "test", **secret},
            images=[product(*image) for image in images],
            ded=sidd.NitfDedMetadata(*heights.shape, secret),
        )
        path = tmp_path / "sidd.nitf"
        with path.open("wb+") as file, sidd.NitfWriter(file, metadata) as writer:
            for number, (_, pixels, legend) in enumerate(images):
                writer.write_image(number, pixels)
                writer.write_legend(number, 0, legend)
            writer.write_ded(heights)
        return path

    return made


@pytest.mark.parametrize("part_bytes", [10_000_000, 700])
@pytest.mark.parametrize("kind", TYPES)
def test_every_segment_of_a_sidd(write, open_nitf, kind, part_bytes):
    # a legend is as wide as its image, and of its type: nothing but its category tells it from a part
    images = [(kind, pixels_of(kind, (50, 20), seed), pixels_of(kind, (7, 20), seed + 10)) for seed in (1, 2)]
    heights = np.random.default_rng(3).integers(-500, 9000, (6, 5)).astype(np.int16)
    path = write(images, heights, part_bytes)
    group = open_nitf(path)
    expected = [stored(pixels) for _, *both in images for pixels in both] + [heights]
    assert sorted(group) == [f"image_{number}" for number in range(5)]
    for number, pixels in enumerate(expected):
        found = group[f"image_{number}/data"]
        np.testing.assert_array_equal(found[...], pixels)
        assert found.dtype == pixels.dtype
        assert ("segments" in group[f"image_{number}"].attrs) is (part_bytes == 700 and number in {0, 2})


def test_the_xml_and_what_its_header_says(write, open_nitf):
    group = open_nitf(write([("MONO8I", *(np.zeros((4, 6), np.uint8),) * 2)], np.zeros((2, 2), np.int16), 10_000))
    assert group.attrs["xml"] == [SIDD.format(urn=URN, kind="MONO8I", rows=4, columns=6, corners=CORNERS)]
    (header,) = group.attrs["extensions"]
    assert (header["DESID"], header["DESSHFT"], header["DESSHTN"]) == ("XML_DATA_CONTENT", "XML", URN)
    assert header["DESCRC"] == "99999"
    assert header["DESSHLPG"].startswith("+01.00000000+002.00000000+01.00000000+003.00000000+00.50000000")
    assert group["image_1"].attrs["nitf"]["ICAT"] == "LEG"


@pytest.mark.parametrize("part_bytes", [10_000_000, 700])
def test_an_image_of_parts_lies_where_a_whole_one_does(write, tmp_path, part_bytes):
    pixels = pixels_of("MONO8I", (50, 20), 1)
    path = write([("MONO8I", pixels, pixels[:7])], np.zeros((2, 2), np.int16), part_bytes)
    out = tmp_path / "refs.json"
    jnrrdz.index(path, out)
    with xr.open_dataset(out) as found:
        np.testing.assert_array_equal(found["data"], pixels)
        west, step = (float(text) for text in found["spatial_ref"].attrs["GeoTransform"].split()[:2])
    assert step == pytest.approx(1 / 19, rel=1e-3)
    assert west == pytest.approx(2 - step / 2, abs=1e-3)


@pytest.mark.parametrize("part_bytes", [10_000_000, 700])
def test_a_table_of_colours_is_read(write, open_nitf, part_bytes):
    pixels = pixels_of("RGB8LU", (50, 20), 1)
    path = write([("RGB8LU", pixels, pixels[:7])], np.zeros((2, 2), np.int16), part_bytes)
    found = open_nitf(path, expand_palette=True)["image_0/data"]
    np.testing.assert_array_equal(found[...], stored(table_of("RGB8LU")[pixels]))
