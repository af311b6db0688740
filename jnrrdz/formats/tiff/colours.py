"""What colour each band shows, by the names that rasterio gives to GDAL's interpretations.

May touch the TIFF layout's facts.  GDAL's rules are followed, except that CMYK and Lab are not
turned into RGB: the bands are what is stored.
Spec: TIFF 6.0 (PhotometricInterpretation, ExtraSamples), https://gdal.org/en/stable/drivers/raster/gtiff.html

What the values of a palette or a bilevel image look like: 8-bit colours, as GDAL gives them.

May touch the TIFF layout and the model.  ColorMap holds 16 bits a channel.  Which 8 of them are meant cannot be
told from the tag, so GDAL's rule is followed, since files are seen through it: values that all
fit in 8 bits are taken as they are, multiples of 256 are divided by it, all others by 257.
Spec: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf (ColorMap)
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import TiffTileConfig
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.image import TiffImage
from jnrrdz.formats.tiff.structure import TiffLayout
from jnrrdz.formats.tiff.tags import ExtraSample, Photometric, Tag

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


type Table = NDArray[np.uint8]
"""Entries by channels: red, green, blue."""

MAX_GREY_BITS = 8  # a longer list of greys says no more than the name of the interpretation
MAX_PALETTE_BITS = 16
CHANNELS = 3
OPAQUE = 255
MAX_FLAGS = 256


def palette_of(layout: TiffLayout, image: TiffImage) -> Table | None:
    """Return the colours of an image's values, None where they are no palette's."""
    bits = image.bits[0]
    if image.samples != 1:
        return None
    if bits == 1 and image.photometric in {Photometric.MINISBLACK, Photometric.PALETTE}:
        if image.photometric == Photometric.PALETTE and Tag.ColorMap in image.ifd:
            return _color_map(layout, image)
        return _greys(bits)
    if image.photometric == Photometric.PALETTE:
        return _color_map(layout, image)
    if image.photometric == Photometric.MINISWHITE and bits <= MAX_GREY_BITS:
        return _greys(bits)[::-1]
    return None


def _greys(bits: int) -> Table:
    steps = (1 << bits) - 1
    levels = (OPAQUE * np.arange(steps + 1) // steps).astype(np.uint8)
    return np.repeat(levels[:, np.newaxis], CHANNELS, axis=1)


def _color_map(layout: TiffLayout, image: TiffImage) -> Table:
    bits = image.bits[0]
    if bits > MAX_PALETTE_BITS:
        raise UnsupportedError(f"a palette of {bits} bits", offset=image.ifd.offset, field="ColorMap")
    values = layout.array(image.ifd, Tag.ColorMap, limit=CHANNELS << bits)
    if values is None or values.dtype.kind != "u" or values.size != CHANNELS << bits:
        found = f"{0 if values is None else values.size} values where {CHANNELS << bits} belong"
        raise MalformedError(found, offset=image.ifd.offset, field="ColorMap")
    return (values.reshape(CHANNELS, -1).T // _divisor(values)).astype(np.uint8)


def _divisor(values: NDArray[Any]) -> int:
    if values.max() <= OPAQUE:
        return 1
    return 256 if not (values % 256).any() else 257


def palette_attributes(
    table: Sequence[Sequence[int]], *, transparent: int | None = None, names: Sequence[str] = ()
) -> dict[str, Any]:
    """Return colours as attributes: `color_table` as GDAL has it (with opacity), and CF's flags.

    `transparent` is the value that marks missing pixels, `names` say what the values mean.
    """
    entries = [[*(int(channel) for channel in entry), OPAQUE][: CHANNELS + 1] for entry in table]
    if transparent is not None and 0 <= transparent < len(entries):
        entries[transparent][CHANNELS] = 0
    found: dict[str, Any] = {"color_table": entries}
    if len(entries) <= MAX_FLAGS:
        colors = [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue, _ in entries]
        found |= {"flag_values": list(range(len(entries))), "flag_colors": " ".join(colors)}
    return found | flag_meanings(names)


def flag_meanings(names: Sequence[str]) -> dict[str, Any]:
    """Return what the values 0, 1, ... mean as CF has it: one word each."""
    if not names:
        return {}
    words = ["_".join(name.split()) or f"value_{value}" for value, name in enumerate(names)]
    return {"flag_values": list(range(len(words))), "flag_meanings": " ".join(words)}


def bilevel_names(table: Table) -> tuple[str, ...]:
    """Return `black` and `white` in the order of the values 0 and 1; nothing for other colours."""
    names: dict[tuple[int, ...], str] = {(0, 0, 0): "black", (OPAQUE, OPAQUE, OPAQUE): "white"}
    found = tuple(names.get(tuple(map(int, entry)), "") for entry in table)
    return found if set(found) == {"black", "white"} and len(found) == len(names) else ()


def expanded(array: VirtualArray, table: Table) -> VirtualArray:
    """Return an array of indices as one of colours: bands red, green and blue, 8 bits each."""
    config = TiffTileConfig.from_json(array.codecs[0].configuration)
    attributes = {name: value for name, value in array.attributes.items() if name != "_FillValue"}
    if "_FillValue" in array.attributes:
        attributes["nodata"] = str(int(array.fill_value))
    return replace(
        array,
        shape=(CHANNELS, *array.shape),
        dtype=np.dtype("u1"),
        chunks=(CHANNELS, *array.chunks),
        codecs=(replace(config, palette=table.tobytes()).to_spec(),),
        dimension_names=("band", *array.dimension_names),
        fill_value=_missing_color(array, table),
        attributes=attributes,
    )


def _missing_color(array: VirtualArray, table: Table) -> Any:
    """Return the one number that chunks that are not there read as; their colour has three."""
    if (np.diff(array.refs.indptr) > 0).all():
        return np.uint8(0)
    red, green, blue = table[int(array.fill_value)].tolist()
    if not red == green == blue:
        raise UnsupportedError(
            f"missing tiles of colour {(red, green, blue)}: Zarr's fill value is one number for all bands; "
            "read the indices instead",
            field="ColorMap",
        )
    return np.uint8(red)
