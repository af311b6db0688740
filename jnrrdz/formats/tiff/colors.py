"""What colour each band shows, by the names that rasterio gives to GDAL's interpretations.

May touch the TIFF layout's facts.  GDAL's rules are followed, except that CMYK and Lab are not
turned into RGB: the bands are what is stored.
Spec: TIFF 6.0 (PhotometricInterpretation, ExtraSamples), https://gdal.org/en/stable/drivers/raster/gtiff.html
"""

from collections.abc import Sequence
from typing import Any

from jnrrdz.formats.tiff.tags import ExtraSample, Photometric
from jnrrdz.formats.tiff.tiff_image import TiffImage

COLORS: dict[int, tuple[str, ...]] = {
    Photometric.MINISBLACK: ("gray",),
    Photometric.MINISWHITE: ("gray",),
    Photometric.PALETTE: ("palette",),
    Photometric.RGB: ("red", "green", "blue"),
    Photometric.YCBCR: ("red", "green", "blue"),  # as which it is read
    Photometric.SEPARATED: ("cyan", "magenta", "yellow", "black"),
}
"""The colours of the first samples; further ones are alpha or undefined."""

RENAMED = {"ycbcr_y": "Y", "ycbcr_cb": "Cb", "ycbcr_cr": "Cr", "otherir": "other_ir"}
"""GDAL's names in lower case, where rasterio has others."""

NAMED = frozenset(
    {
        "undefined",
        "gray",
        "palette",
        "red",
        "green",
        "blue",
        "alpha",
        "hue",
        "saturation",
        "lightness",
        "cyan",
        "magenta",
        "yellow",
        "black",
        "pan",
        "coastal",
        "rededge",
        "nir",
        "swir",
        "mwir",
        "lwir",
        "tir",
        "ir",
        "sar_ka",
        "sar_k",
        "sar_ku",
        "sar_x",
        "sar_c",
        "sar_s",
        "sar_l",
        "sar_p",
    }
)
"""GDAL's names in lower case, where rasterio has the same."""

PLAIN = {Photometric.MINISBLACK, Photometric.RGB, Photometric.YCBCR, Photometric.PALETTE}
"""Interpretations that the colours say already; all others are named in an attribute."""

COLOR_SAMPLES: dict[int, int] = {
    Photometric.MINISWHITE: 1,
    Photometric.MINISBLACK: 1,
    Photometric.PALETTE: 1,
    Photometric.RGB: 3,
    Photometric.YCBCR: 3,
    Photometric.CIELAB: 3,
    Photometric.ICCLAB: 3,
    Photometric.ITULAB: 3,
    Photometric.LOGLUV: 3,
    Photometric.SEPARATED: 4,
    Photometric.MASK: 4,
}
"""How many samples are colours, where libtiff knows."""

ALPHAS = {ExtraSample.ASSOCALPHA, ExtraSample.UNASSALPHA}


def color_attributes(
    image: TiffImage, extra: Sequence[int], said: Sequence[str | None], *, has_table: bool
) -> dict[str, Any]:
    """Return the interpretation of each band: what the metadata say (`said`), else what the tags do."""
    base = ("palette",) if has_table else COLORS.get(image.photometric, ())
    names = [base[index] if index < len(base) else _extra(image, extra, index) for index in range(image.samples)]
    for index, text in enumerate(said):
        if text is not None and not (has_table and image.bits[0] == 1):  # two colours stay two colours
            names[index] = color_name(text) or "undefined"
    found: dict[str, Any] = {"colorinterp": names}
    if image.photometric in Photometric and image.photometric not in PLAIN:
        found["photometric"] = Photometric(image.photometric).name
    if ExtraSample.ASSOCALPHA in extra:
        found["alpha_premultiplied"] = True
    return found


def _extra(image: TiffImage, extra: Sequence[int], index: int) -> str:
    # a list too short begins after the colours (libtiff), one too long ends with the last sample (GDAL)
    colors = COLOR_SAMPLES.get(image.photometric, image.samples)
    place = index - min(image.samples - len(extra), colors)
    return "alpha" if 0 <= place < len(extra) and extra[place] in ALPHAS else "undefined"


def color_name(text: str) -> str | None:
    """Return rasterio's name of what GDAL calls a colour interpretation, None for what is none."""
    name = text.strip().lower()
    return RENAMED.get(name, name if name in NAMED else None)
