"""SICD files that sarkit writes: the array, joined from its segments, against the pixels that went in."""

import numpy as np
import pytest

from tests.nitf.by_sarkit import SARKIT, corners

pytestmark = SARKIT

URN = "urn:SICD:1.4.0"
CORNERS = corners("")
SICD = (
    '<SICD xmlns="{urn}"><ImageData><PixelType>{kind}</PixelType><NumRows>{rows}</NumRows><NumCols>{columns}</NumCols>'
    "</ImageData><GeoData><ImageCorners>{corners}</ImageCorners></GeoData>"
    "<Timeline><CollectStart>2020-01-02T03:04:05Z</CollectStart></Timeline></SICD>"
)


def sicd(path, pixels, kind, part_bytes, monkeypatch):
    """Write a SICD whose segments have at most so many bytes."""
    import lxml.etree  # noqa: PLC0415  these come with sarkit
    import sarkit.sicd  # noqa: PLC0415

    monkeypatch.setattr(sarkit.sicd._io.sicdconst, "IS_SIZE_MAX", part_bytes)  # noqa: SLF001  real ones are 10 GB
    text = SICD.format(urn=URN, kind=kind, rows=pixels.shape[0], columns=pixels.shape[1], corners=CORNERS)
    secret = sarkit.sicd.NitfSecurityFields(clas="U")
    metadata = sarkit.sicd.NitfMetadata(
        xmltree=lxml.etree.ElementTree(lxml.etree.fromstring(text)),
        file_header_part=sarkit.sicd.NitfFileHeaderPart(ostaid="test", security=secret),
        im_subheader_part=sarkit.sicd.NitfImSubheaderPart(isorce="test", security=secret),
        de_subheader_part=sarkit.sicd.NitfDeSubheaderPart(security=secret),
    )
    with path.open("wb+") as file, sarkit.sicd.NitfWriter(file, metadata) as writer:
        writer.write_image(pixels)


@pytest.mark.parametrize("part_bytes", [10_000_000, 1500])
@pytest.mark.parametrize("kind", ["RE32F_IM32F", "RE16I_IM16I", "AMP8I_PHS8I"])
def test_a_sicd_is_one_array(tmp_path, open_nitf, monkeypatch, kind, part_bytes):
    random, shape = np.random.default_rng(4), (50, 20)
    if kind == "RE32F_IM32F":
        pixels = (random.normal(size=shape) + 1j * random.normal(size=shape)).astype(np.complex64)
        expected = pixels
    else:
        sample, names = (np.int16, ("real", "imag")) if kind == "RE16I_IM16I" else (np.uint8, ("amp", "phase"))
        parts = random.integers(0, 200, (*shape, 2)).astype(sample)
        pixels = np.empty(shape, [(name, sample) for name in names])
        for number, name in enumerate(names):
            pixels[name] = parts[..., number]
        expected = parts[..., 0] + 1j * parts[..., 1] if kind == "RE16I_IM16I" else parts.transpose(2, 0, 1)
    path = tmp_path / "sicd.nitf"
    sicd(path, pixels, kind, part_bytes, monkeypatch)
    group = open_nitf(path)
    assert list(group) == ["image_0"]
    np.testing.assert_array_equal(group["image_0/data"][...], expected)
    assert ("segments" in group["image_0"].attrs) is (part_bytes == 1500)
    assert group.attrs["xml"][0].startswith("<SICD")
    assert kind in group.attrs["xml"][0]
