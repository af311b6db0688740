"""Every codec name and configuration, spelt once.

May touch errors only.  Scanners build the specifications here, codecs read them back; neither
knows the other.  Names follow docs/codecs/ (proposals) and the Zarr extension registry.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import Any

from jnrrdz.errors import MalformedError

OFFSET = "offset"
PAD = "pad"
TIFF_TILE = "tiff-tile"
BYTES = "bytes"
SCALE_OFFSET = "scale_offset"
CAST_VALUE = "cast_value"
LINEAR = "jnrrdz.linear"

type ScalarMap = Sequence[tuple[float | str, float | str]]
"""Pairs of a value and what it becomes, not finite ones as Zarr spells them."""

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class CodecSpec:
    """One entry of a Zarr v3 array's `codecs`."""

    name: str
    configuration: Mapping[str, Any] = field(default=_NONE)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as it stands in zarr.json."""
        if not self.configuration:
            return {"name": self.name}
        return {"name": self.name, "configuration": dict(self.configuration)}


def bytes_(endian: str | None) -> CodecSpec:
    """Return Zarr's own `bytes` codec, with an endianness where the type has one."""
    return CodecSpec(BYTES, {} if endian is None else {"endian": endian})


def offset(nbytes: int, prefix: bytes | None = None) -> CodecSpec:
    """Return the codec that skips (and writes) a header of `nbytes`."""
    literal = {} if prefix is None else {"prefix": base64.b64encode(prefix).decode("ascii")}
    return CodecSpec(OFFSET, {"offset": nbytes, **literal})


def pad(location: str, nbytes: int, padding: bytes | None = None) -> CodecSpec:
    """Return the codec that strips (and writes) `nbytes` at the start or the end."""
    literal = {} if padding is None else {"padding": base64.b64encode(padding).decode("ascii")}
    return CodecSpec(PAD, {"location": location, "nbytes": nbytes, **literal})


def scale_offset(scale: float, offset: float) -> CodecSpec:
    """Return Zarr's own codec that reads `stored / scale + offset`: a division, in the array's own type."""
    values = {"offset": (offset, 0), "scale": (scale, 1)}
    return CodecSpec(SCALE_OFFSET, {name: value for name, (value, default) in values.items() if value != default})


def linear(scale: Sequence[float], offset: Sequence[float], axis: int | None = None) -> CodecSpec:
    """Return the codec that reads `stored * scale + offset` in float64, with a value for each index of `axis`."""
    if axis is None:
        return CodecSpec(LINEAR, {"scale": scale[0], "offset": offset[0]})
    return CodecSpec(LINEAR, {"scale": list(scale), "offset": list(offset), "axis": axis})


def cast_value(
    data_type: str, *, out_of_range: str | None = None, encode: ScalarMap = (), decode: ScalarMap = ()
) -> CodecSpec:
    """Return Zarr's own codec that stores values as `data_type`, some of them as the maps say."""
    maps = {"encode": [list(pair) for pair in encode], "decode": [list(pair) for pair in decode]}
    maps = {name: pairs for name, pairs in maps.items() if pairs}
    clamp = {} if out_of_range is None else {"out_of_range": out_of_range}
    return CodecSpec(CAST_VALUE, {"data_type": data_type, **clamp, **({"scalar_map": maps} if maps else {})})


@dataclass(frozen=True)
class TiffTileConfig:
    """What a TIFF's IFD says that its tiles and strips do not: the configuration of `tiff-tile`.

    The members mirror the tags of the same names; rationals are numerators and denominators in
    turn.  `image_width` and `image_height` are those of the whole image: they tell which sizes a
    short tile at the right or lower edge may have.  `palette`, red, green and blue of each value in
    turn, asks for colours in place of indices.
    """

    tile_width: int
    tile_height: int
    image_width: int
    image_height: int
    byte_order: str = "little"
    compression: int = 1
    photometric: int = 1
    samples_per_pixel: int = 1
    bits_per_sample: tuple[int, ...] = (1,)
    sample_format: tuple[int, ...] = (1,)
    planar_config: int = 1
    predictor: int = 1
    fill_order: int = 1
    extra_samples: tuple[int, ...] = ()
    ycbcr_subsampling: tuple[int, ...] = ()
    ycbcr_coefficients: tuple[int, ...] = ()
    reference_black_white: tuple[int, ...] = ()
    t4_options: int | None = None
    lerc_parameters: tuple[int, ...] = ()
    jpeg_tables: bytes | None = None
    jpeg_header: bytes | None = None
    palette: bytes | None = None

    def to_spec(self) -> CodecSpec:
        """Return the codec's entry in zarr.json, without what is at its default."""
        found: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.default is MISSING or value != item.default or item.name in TIFF_TILE_ALWAYS:
                found[item.name] = _plain(value)
        return CodecSpec(TIFF_TILE, found)

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> "TiffTileConfig":
        """Return the checked configuration; every problem is reported, with its member."""
        known = {item.name: item for item in fields(cls)}
        problems = [f"unknown member {name!r}" for name in configuration if name not in known]
        values: dict[str, Any] = {}
        for name, item in known.items():
            if name in configuration:
                values[name] = _checked(name, configuration[name], problems)
            elif item.default is MISSING:
                problems.append(f"{name} is missing")
        if problems:
            raise MalformedError("; ".join(problems), field=TIFF_TILE)
        return cls(**values)


TIFF_TILE_ALWAYS = {"compression", "photometric", "bits_per_sample", "samples_per_pixel", "byte_order"}
"""Written even at their defaults, because a reader of the manifest wants to see them."""

TIFF_TILE_LISTS = {
    "bits_per_sample",
    "sample_format",
    "extra_samples",
    "ycbcr_subsampling",
    "ycbcr_coefficients",
    "reference_black_white",
    "lerc_parameters",
}
MAX_TAG_VALUE = (1 << 32) - 1
MAX_TAG_COUNT = 1 << 16


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return list(value) if isinstance(value, tuple) else value


def _checked(name: str, value: Any, problems: list[str]) -> Any:
    """Return one member of a configuration in its type here, or note what is wrong with it."""
    if name == "byte_order":
        if not isinstance(value, str) or value not in {"little", "big"}:
            problems.append(f"byte_order {value!r} is neither little nor big")
        return value
    if name in {"jpeg_tables", "jpeg_header", "palette"}:
        return _decoded(name, value, problems)
    if name in TIFF_TILE_LISTS:
        if not isinstance(value, list) or len(value) > MAX_TAG_COUNT or not all(map(_is_tag_value, value)):
            problems.append(f"{name} is not a list of tag values")
            return ()
        return tuple(value)
    if not _is_tag_value(value) or (name.endswith(("width", "height", "pixel")) and value < 1):
        problems.append(f"{name} {value!r} is not a tag's value")
    return value


def _is_tag_value(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TAG_VALUE


def _decoded(name: str, value: Any, problems: list[str]) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, TypeError):
        problems.append(f"{name} is not base64")
        return b""
