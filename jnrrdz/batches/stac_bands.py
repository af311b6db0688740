"""What a STAC item says of the bands of an asset, and an image with what its file does not say.

Names, nodata, scale and offset stand in `bands` (STAC 1.1, with what all bands share above it, and the raster
extension 2), or in `raster:bands` and `eo:bands` (1.0).  The file goes first: an item fills in what is missing, and
where both say something else, a warning names both.
Specs: https://github.com/radiantearth/stac-spec/blob/v1.1.0/commons/common-metadata.md#bands,
https://github.com/stac-extensions/raster
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.bands import ADD_OFFSET, BAND, OFFSETS, SCALE_FACTOR, SCALES, by_band
from jnrrdz.core.json_schema import is_number
from jnrrdz.core.tree import VirtualGroup

type Json = Mapping[str, Any]

NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
NODATA = "_FillValue"
BANDS = "bands"
"""What of a source's `told` has the bands of its asset."""

PLACE = ("y", "x")


class ItemBand(NamedTuple):
    """One band of an asset; None where the item does not say."""

    name: str | None = None
    nodata: float | None = None
    scale: float | None = None
    offset: float | None = None


def bands_of(asset: Json) -> tuple[ItemBand, ...]:
    """Return the bands of an asset; one stands for all where only what they share is known."""
    lists = [_list(asset, name) for name in ("bands", "raster:bands", "eo:bands")]
    count = max(map(len, lists))
    padded = [[*own, *({} for _ in range(count - len(own)))] for own in lists]
    bands = tuple(_band(asset, *own) for own in zip(*padded, strict=True)) or (_band(asset, {}, {}, {}),)
    return bands if any(band != ItemBand() for band in bands) else ()


def _list(asset: Json, name: str) -> list[Json]:
    value = asset.get(name)
    return [band if isinstance(band, Mapping) else {} for band in value] if isinstance(value, list) else []


def _band(asset: Json, band: Json, raster: Json, eo: Json) -> ItemBand:
    name = band.get("name", eo.get("name"))
    return ItemBand(
        name if isinstance(name, str) else None,
        _number(band.get("nodata"), raster.get("nodata"), asset.get("nodata")),
        _number(band.get("raster:scale"), raster.get("scale"), asset.get("raster:scale")),
        _number(band.get("raster:offset"), raster.get("offset"), asset.get("raster:offset")),
    )


def _number(*values: Any) -> float | None:
    """Return the first value that is a number."""
    for value in values:
        if isinstance(value, str) and value.lower() in NOT_FINITE:
            return NOT_FINITE[value.lower()]
        if is_number(value):
            number: float = value
            return number
    return None


def with_bands(group: VirtualGroup, bands: Sequence[ItemBand]) -> VirtualGroup:
    """Return an image with what an item says of its bands where the file says nothing of it."""
    if not bands:
        return group
    return group.with_arrays(lambda _, array: _with_bands(array, bands) if _is_image(array) else array)


def _is_image(array: VirtualArray) -> bool:
    """Whether an array is pixels: not a coordinate, a mask or labels."""
    is_flags = any(name.startswith("flag_") for name in array.attributes)
    return array.dimension_names[-2:] == PLACE and not is_flags and array.dtype.kind in "iuf"


def _with_bands(array: VirtualArray, bands: Sequence[ItemBand]) -> VirtualArray:
    count = array.shape[array.dimension_names.index(BAND)] if BAND in array.dimension_names else 1
    if len(bands) not in {1, count}:
        _warn(f"{len(bands)} bands in the STAC item, {count} in the file: what it says of them is left out")
        return array
    each = [*bands] * (count // len(bands))
    return _with_scale(_with_nodata(array, each), each)


def _with_nodata(array: VirtualArray, bands: Sequence[ItemBand]) -> VirtualArray:
    stated = {repr(band.nodata): band.nodata for band in bands if band.nodata is not None}
    if not stated:
        return array
    if len(stated) > 1:
        _warn(f"nodata of bands differ in the STAC item ({', '.join(stated)}): left out, an array has one")
        return array
    (value,) = stated.values()
    own = array.attributes.get(NODATA)
    if own is not None:
        if not _is_same(own, value):
            _warn(f"nodata is {own} in the file and {value} in the STAC item: the file's is taken")
        return array
    held = _held(value, array.dtype)
    if held is None:
        _warn(f"nodata {value} of the STAC item is no {array.dtype}: left out")
        return array
    return replace(array, fill_value=held, attributes={**array.attributes, NODATA: held})


def _held(value: float, dtype: np.dtype[Any]) -> Any:
    """Return a number in a type that holds it, None where it does not."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        is_held = math.isfinite(value) and value == int(value) and limits.min <= value <= limits.max
        return dtype.type(int(value)) if is_held else None
    with np.errstate(over="ignore"):
        held = dtype.type(value)
    return held if np.isfinite(held) or not math.isfinite(value) else None


def _is_same(own: Any, value: float) -> bool:
    try:
        number = float(own)
    except (TypeError, ValueError):
        return False
    return number == value or (math.isnan(number) and math.isnan(value)) or np.float32(number) == np.float32(value)


def _with_scale(array: VirtualArray, bands: Sequence[ItemBand]) -> VirtualArray:
    if all(band.scale is None and band.offset is None for band in bands):
        return array
    stated = [(1.0 if one.scale is None else one.scale, 0.0 if one.offset is None else one.offset) for one in bands]
    own = _own_scales(array.attributes, len(bands))
    if own is not None:
        if any(not np.allclose(mine, theirs, rtol=1e-6, atol=0) for mine, theirs in zip(own, stated, strict=True)):
            text = f"scale and offset are {_shown(own)} in the file and {_shown(stated)} in the STAC item"
            _warn(f"{text}: the file's are taken")
        return array
    if not all(math.isfinite(number) and scale for scale, offset in stated for number in (scale, offset)):
        _warn(f"scale and offset {_shown(stated)} of the STAC item are no numbers to scale by: left out")
        return array
    if set(stated) == {(1, 0)}:
        return array
    if len(set(stated)) == 1:
        scale, offset = stated[0]
        scaling: dict[str, Any] = {SCALE_FACTOR: float(scale), ADD_OFFSET: float(offset)}
    else:
        scaling = {SCALES: [float(scale) for scale, _ in stated], OFFSETS: [float(offset) for _, offset in stated]}
    return replace(array, attributes={**array.attributes, **scaling})


def _own_scales(attributes: Mapping[str, Any], count: int) -> list[tuple[float, float]] | None:
    """Return scale and offset of each band as the file has them, None where it says nothing."""
    spread = by_band(attributes, count)
    if SCALES not in spread and OFFSETS not in spread:
        return None
    scales = spread.get(SCALES, [1.0] * count)
    offsets = spread.get(OFFSETS, [0.0] * count)
    return list(zip(scales, offsets, strict=False))


def _shown(pairs: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{scale:g} and {offset:g}" for scale, offset in dict.fromkeys(pairs))


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=2)
