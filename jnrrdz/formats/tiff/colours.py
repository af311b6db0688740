"""What colour each band shows, and what the values of a palette or a bilevel image look like.

Bands have the names that rasterio gives to GDAL's interpretations.  GDAL's rules are followed, except
that CMYK and Lab are not turned into RGB: the bands are what is stored.  ColorMap holds 16 bits a channel.
Which 8 of them are meant cannot be told from the tag, so GDAL's rule is followed, since files are seen through
it: values that all fit in 8 bits are taken as they are, multiples of 256 are divided by it, all others by 257.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf (PhotometricInterpretation, ExtraSamples,
ColorMap), https://gdal.org/en/stable/drivers/raster/gtiff.html
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import TiffTileConfig
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.gdal_metadata import BandMetadata
from jnrrdz.formats.tiff.image import TiffImage
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import ExtraSample, Photometric, Tag

COLOURS: dict[int, tuple[str, ...]] = {
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

COLOUR_SAMPLES: dict[int, int] = {
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


type Table = NDArray[np.uint8]
"""Entries by channels: red, green, blue."""

MAX_GREY_BITS = 8  # a longer list of greys says no more than the name of the interpretation
MAX_PALETTE_BITS = 16
CHANNELS = 3
OPAQUE = 255
MAX_FLAGS = 256


def colour_attributes(
    image: TiffImage,
    extra: Sequence[int],
    bands: Sequence[BandMetadata],
    table: Table | None,
    transparent: int | None = None,
) -> dict[str, Any]:
    """Return the interpretation of each band, and the colours of a palette.

    What the metadata of the bands say goes before what the tags do (`extra` are ExtraSamples, `table` is
    ColorMap or what stands in for it).  `transparent` is the value that marks missing pixels.
    """
    outer, names = bands[0].colour_table, bands[0].categories
    has_table = table is not None or bool(outer)
    base = ("palette",) if has_table else COLOURS.get(image.photometric, ())
    # a list too short begins after the colours (libtiff), one too long ends with the last sample (GDAL)
    start = min(image.samples - len(extra), COLOUR_SAMPLES.get(image.photometric, image.samples))
    others = {start + place: "alpha" for place, kind in enumerate(extra) if kind in ALPHAS}
    shown = [*base, *(others.get(index, "undefined") for index in range(len(base), image.samples))][: image.samples]
    for index, band in enumerate(bands):
        if band.colour is not None and not (has_table and image.bits[0] == 1):  # two colours stay two colours
            shown[index] = colour_name(band.colour) or "undefined"
    attributes: dict[str, Any] = {"colorinterp": shown}
    if image.photometric in Photometric and image.photometric not in PLAIN:
        attributes["photometric"] = Photometric(image.photometric).name
    if ExtraSample.ASSOCALPHA in extra:
        attributes["alpha_premultiplied"] = True
    if outer:
        return attributes | _palette_attributes(outer, None, names)
    if table is not None:
        colours = table.tolist()
        if not names and sorted(colours) == [[0] * CHANNELS, [OPAQUE] * CHANNELS]:
            names = ("white", "black") if colours[0][0] else ("black", "white")
        return attributes | _palette_attributes(colours, transparent, names)
    return attributes | _flag_meanings(names)


def colour_name(text: str) -> str | None:
    """Return rasterio's name of what GDAL calls a colour interpretation, None for what is none."""
    name = text.strip().lower()
    return RENAMED.get(name, name if name in NAMED else None)


def palette_of(layout: TiffLayout, image: TiffImage) -> Table | None:
    """Return the colours of an image's values, None where they are no palette's."""
    bits, kind = image.bits[0], image.photometric
    if image.samples != 1:
        return None
    if kind == Photometric.PALETTE and (bits > 1 or Tag.ColorMap in image.ifd.entries):
        if bits > MAX_PALETTE_BITS:
            raise UnsupportedError(f"a palette of {bits} bits", offset=image.ifd.offset, field="ColorMap")
        values = layout.array(image.ifd, Tag.ColorMap, limit=CHANNELS << bits)
        if values is None or values.dtype.kind != "u" or values.size != CHANNELS << bits:
            reason = f"{0 if values is None else values.size} values where {CHANNELS << bits} belong"
            raise MalformedError(reason, offset=image.ifd.offset, field="ColorMap")
        divisor = 1 if values.max() <= OPAQUE else 257 if (values % 256).any() else 256
        return (values.reshape(CHANNELS, -1).T // divisor).astype(np.uint8)
    is_bilevel = bits == 1 and kind in {Photometric.MINISBLACK, Photometric.PALETTE}
    is_inverted = kind == Photometric.MINISWHITE and bits <= MAX_GREY_BITS
    if not (is_bilevel or is_inverted):
        return None
    steps = (1 << bits) - 1
    levels = (OPAQUE * np.arange(steps + 1) // steps).astype(np.uint8)
    return np.repeat((levels[::-1] if is_inverted else levels)[:, np.newaxis], CHANNELS, axis=1)


def _palette_attributes(
    table: Sequence[Sequence[int]], transparent: int | None, names: Sequence[str]
) -> dict[str, Any]:
    """Return colours as attributes: `color_table` as GDAL has it (with opacity), and CF's flags."""
    entries = [[*(int(channel) for channel in entry), OPAQUE][: CHANNELS + 1] for entry in table]
    if transparent is not None and 0 <= transparent < len(entries):
        entries[transparent][CHANNELS] = 0
    attributes: dict[str, Any] = {"color_table": entries}
    if len(entries) <= MAX_FLAGS:
        colours = [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue, _ in entries]
        attributes |= {"flag_values": list(range(len(entries))), "flag_colors": " ".join(colours)}
    return attributes | _flag_meanings(names)


def _flag_meanings(names: Sequence[str]) -> dict[str, Any]:
    """Return what the values 0, 1, ... mean as CF has it: one word each."""
    if not names:
        return {}
    words = ["_".join(name.split()) or f"value_{value}" for value, name in enumerate(names)]
    return {"flag_values": list(range(len(words))), "flag_meanings": " ".join(words)}


def expanded(array: VirtualArray, table: Table) -> VirtualArray:
    """Return an array of indices as one of colours: bands red, green and blue, 8 bits each."""
    config = cast("TiffTileConfig", array.codecs[0])
    attributes = {name: value for name, value in array.attributes.items() if name != "_FillValue"}
    if "_FillValue" in array.attributes:
        attributes["nodata"] = str(int(array.fill_value))
    fill = 0
    if (np.diff(array.refs.indptr) == 0).any():
        # the one number that chunks that are not there read as; their colour has three
        fill, green, blue = table[int(array.fill_value)].tolist()
        if not fill == green == blue:
            raise UnsupportedError(
                f"missing tiles of colour {(fill, green, blue)}: Zarr's fill value is one number for all bands; "
                "read the indices instead",
                field="ColorMap",
            )
    return replace(
        array,
        shape=(CHANNELS, *array.shape),
        dtype=np.dtype("u1"),
        chunks=(CHANNELS, *array.chunks),
        codecs=(replace(config, palette=table.tobytes()),),
        dimension_names=("band", *array.dimension_names),
        fill_value=np.uint8(fill),
        attributes=attributes,
    )
