"""Classes and bits of quality bands as CF's flags.

A field of several bits has an entry for each of its values: `flag_masks` selects the
bits, `flag_values` is what they hold.
Specs: https://cfconventions.org/cf-conventions/cf-conventions.html#flags,
Landsat 8-9 Collection 2 Level 2 Science Product Guide (LSDS-1619),
Landsat 4-7 Collection 2 Level 2 Science Product Guide (LSDS-1618)
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from jnrrdz.formats.products.product import Attributes

type Field = tuple[int, int, str]
"""Mask, value and meaning."""

SCL = (
    "nodata",
    "saturated_defective",
    "dark_feature_shadow",
    "cloud_shadow",
    "vegetation",
    "not_vegetated",
    "water",
    "unclassified",
    "cloud_medium_proba",
    "cloud_high_proba",
    "thin_cirrus",
    "snow_ice",
)
"""The scene classification of Sentinel-2, by number, for documents without a list."""


def classes(meanings: Mapping[int, str]) -> Attributes:
    """Return the attributes of numbers that are classes."""
    return {
        "flag_values": list(meanings),
        "flag_meanings": " ".join(meanings.values()),
    }


def bit_fields(fields: Iterable[Field]) -> Attributes:
    """Return the attributes of numbers that are bits."""
    masks, values, meanings = zip(*sorted(fields), strict=True)
    return {
        "flag_masks": list(masks),
        "flag_values": list(values),
        "flag_meanings": " ".join(meanings),
    }


def _bits(meanings: Mapping[int, str]) -> list[Field]:
    """Return the fields of single bits."""
    return [(1 << bit, 1 << bit, meaning) for bit, meaning in meanings.items()]


def _levels(bit: int, name: str, levels: Mapping[int, str]) -> list[Field]:
    """Return the fields of two bits, the lower of which is `bit`."""
    mask = 3 << bit
    return [(mask, value << bit, f"{level}_{name}") for value, level in levels.items()]


_CONFIDENCE = {1: "low", 2: "medium", 3: "high"}
_OTHER_CONFIDENCE = {1: "low", 3: "high"}

_PIXEL = _bits(
    {
        0: "fill",
        1: "dilated_cloud",
        3: "cloud",
        4: "cloud_shadow",
        5: "snow",
        6: "clear",
        7: "water",
    }
)
_PIXEL_CONFIDENCE = [
    *_levels(8, "cloud_confidence", _CONFIDENCE),
    *_levels(10, "cloud_shadow_confidence", _OTHER_CONFIDENCE),
    *_levels(12, "snow_ice_confidence", _OTHER_CONFIDENCE),
]
_OLI_PIXEL = [
    *_PIXEL,
    *_bits({2: "cirrus"}),
    *_PIXEL_CONFIDENCE,
    *_levels(14, "cirrus_confidence", _OTHER_CONFIDENCE),
]
_OLI_SATURATION = _bits(
    {
        **{bit: f"band_{bit + 1}_saturated" for bit in range(7)},
        8: "band_9_saturated",
        11: "terrain_occlusion",
    }
)
_TM_SATURATION = _bits(
    {
        **{bit: f"band_{bit + 1}_saturated" for bit in range(7)},
        9: "dropped_pixel",
    }
)
_ETM_SATURATION = _bits(
    {
        **{bit: f"band_{bit + 1}_saturated" for bit in range(5)},
        5: "band_6_low_gain_saturated",
        6: "band_7_saturated",
        8: "band_6_high_gain_saturated",
        9: "dropped_pixel",
    }
)
_AEROSOL = [
    *_bits(
        {0: "fill", 1: "valid_aerosol_retrieval", 2: "water", 5: "interpolated_aerosol"}
    ),
    *_levels(6, "aerosol", {0: "climatology", **_CONFIDENCE}),
]
_CLOUD_QA = _bits(
    {
        0: "dark_dense_vegetation",
        1: "cloud",
        2: "cloud_shadow",
        3: "adjacent_to_cloud",
        4: "snow",
        5: "water",
    }
)

LANDSAT: Mapping[tuple[str, str], list[Field]] = MappingProxyType(
    {
        ("QA_PIXEL", "OLI"): _OLI_PIXEL,
        ("QA_PIXEL", "ETM"): [*_PIXEL, *_PIXEL_CONFIDENCE],
        ("QA_PIXEL", "TM"): [*_PIXEL, *_PIXEL_CONFIDENCE],
        ("QA_PIXEL", "MSS"): _bits({0: "fill", 3: "cloud"}),
        ("QA_RADSAT", "OLI"): _OLI_SATURATION,
        ("QA_RADSAT", "ETM"): _ETM_SATURATION,
        ("QA_RADSAT", "TM"): _TM_SATURATION,
        ("SR_QA_AEROSOL", "OLI"): _AEROSOL,
        ("SR_CLOUD_QA", "ETM"): _CLOUD_QA,
        ("SR_CLOUD_QA", "TM"): _CLOUD_QA,
    }
)
"""The fields of Landsat's quality bands by the band's name and the sensor."""

QUALITY_BANDS = frozenset(name for name, _ in LANDSAT)
