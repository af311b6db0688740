"""A picture of what a source holds: small, from the coarsest level that suffices, in the colours that it says.

Rows and columns are thinned out or averaged while they are read, a strip of chunks at a time, so that memory is
bounded by the picture and a strip.  What is nodata, masked or without alpha is transparent.  The colours are those of
the palette, of the bands' interpretation, of the channels of a microscope in their windows, or greys; numbers beyond a
byte are stretched.  A file whose segments lie on one plane (NITF: ILOC, IALVL, IDLVL) is shown as that plane.
"""

import math
import os
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import imagecodecs
import numpy as np
import zarr
from numpy.typing import NDArray

from jnrrdz.api import open_stored
from jnrrdz.core.arrays import VirtualGroup
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.manifests.atomic import new_file
from jnrrdz.options import Access, OpenChoices, ScanOptions, with_choices
from jnrrdz.store.group import ReferenceGroup, reference_group
from jnrrdz.store.store import ReferenceStore
from jnrrdz.store.xarray import default_group

STRIP = 32 << 20
"""Bytes of an array that are read at once, where its chunks are no larger."""

PERCENTILES = (2.0, 98.0)
MOST = 1 << 14
"""Pixels along a side of a picture."""

PLANE = ("y", "x")
COLOURS = ("red", "green", "blue")
INKS = ("cyan", "magenta", "yellow", "black")
BANDS = ("band", "c")

_BEGINNING = 33
"""Bytes of a PNG's signature and first chunk, IHDR: https://www.w3.org/TR/png-3/#5Chunk-layout."""

_KEYWORD = b"tEXtSoftware\0jnrrdz"
_SOFTWARE = struct.pack(">I", len(_KEYWORD) - 4) + _KEYWORD + struct.pack(">I", zlib.crc32(_KEYWORD))

type Pixels = NDArray[Any]


@dataclass(frozen=True)
class PreviewOptions:
    """What a picture shows, and how large."""

    size: int = 512
    """Pixels along the longer side; an image of fewer is shown as it is."""

    bands: Sequence[int] | None = None
    """One band, or three for red, green and blue, counted from 1."""

    group: str | None = None
    """The group to show, not the first image."""

    stretch: str | None = None
    """`LOW,HIGH` in per cent of the pixels, or `min,max`; bytes are shown as they are where none is asked for."""

    at: Mapping[str, int] = field(default_factory=dict)
    """Indices along further axes, such as `{"t": 0, "z": 12}`; else the first, and the middle of z."""

    def __post_init__(self) -> None:
        if not 1 <= self.size <= MOST:
            raise UnsupportedError(f"{self.size}; a picture has 1 to {MOST} pixels a side", field="size")
        if self.bands is not None and (len(self.bands) not in {1, 3} or min(self.bands) < 1):
            raise UnsupportedError(f"{list(self.bands)}; one band or three, counted from 1", field="bands")


@dataclass(frozen=True)
class Picture:
    """Pixels of red, green, blue and alpha, of which notebooks show the PNG."""

    rgba: NDArray[np.uint8]

    @property
    def png(self) -> bytes:
        """The picture as a PNG file, which says that jnrrdz made it."""
        data = bytes(imagecodecs.png_encode(self.rgba))
        return data[:_BEGINNING] + _SOFTWARE + data[_BEGINNING:]

    def _repr_png_(self) -> bytes:
        return self.png

    def __repr__(self) -> str:
        height, width, _ = self.rgba.shape
        return f"<Picture of {width}x{height} pixels>"

    def save(self, path: str | Path) -> None:
        """Write the PNG to a file; one that jnrrdz made before is replaced, and nothing else."""
        with new_file(os.fspath(path), replaces=is_picture) as file:
            file.write(self.png)


def is_picture(head: bytes) -> bool:
    """Whether a file is a picture that jnrrdz made, by its first bytes."""
    return head[_BEGINNING:].startswith(_SOFTWARE)


def preview(
    src: str | Path | VirtualGroup,
    options: PreviewOptions | None = None,
    *,
    access: Access | None = None,
    **choices: Unpack[OpenChoices],
) -> Picture:
    """Return a picture of a source or manifest.

    Keywords are the members of `Access` and `ScanOptions`; `options` say what is shown.
    """
    wanted, reach = with_choices(choices, ScanOptions(), access or Access())
    return picture_of(open_stored(src, options=wanted, access=reach), options or PreviewOptions())


def picture_of(store: ReferenceStore, how: PreviewOptions) -> Picture:
    """Return a picture of what a store holds."""
    try:
        if how.group is None and (segments := _segments(store)):
            return Picture(_laid_out(store, segments, how))
        path = default_group(store) if how.group is None else how.group.strip("/")
        return Picture(_shown(store, path, how, None))
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        # attributes are the manifest's own words: colours that are none, places that are no numbers
        raise MalformedError(f"the attributes make no picture: {error!r}", url=str(store)) from error


def _shown(store: ReferenceStore, path: str, how: PreviewOptions, shape: tuple[int, int] | None) -> NDArray[np.uint8]:
    """Return the colours of an image, in a size that is given or that the options ask for."""
    name, finest = _variable(store, path)
    full = finest.shape[-2:] if shape is None else shape
    scale = min(1.0, how.size / max(full)) if shape is None else 1.0
    height, width = (max(1, round(size * scale)) for size in full)
    place, array = _level(store, path, name, finest, (height, width))
    attributes = {**dict(finest.attrs), **dict(array.attrs)}
    meaning = _Meaning.of(store, path, finest, how)
    planes = [_thinned(array, index, (height, width), average=meaning.kind != "palette") for index in meaning.indices]
    rgba = meaning.colours(planes, attributes, how)
    mask = _mask(store, place)
    if mask is not None and mask.shape[-2:] == array.shape[-2:]:
        rgba[..., 3] = np.where(_thinned(mask, (), (height, width), average=False).data == 0, 0, rgba[..., 3])
    return _upright(rgba, store, path)


def _variable(store: ReferenceStore, path: str) -> tuple[str, "zarr.Array[Any]"]:
    """Return the picture among the arrays of a group."""
    group = _group(store, path)
    arrays = [(name, array) for name, array in group.arrays() if array.ndim > 1 and name != "mask"]
    if not arrays:
        raise UnsupportedError("nothing to show: no array of two axes or more", url=str(store), field=path or "/")
    return max(arrays, key=lambda item: item[1].shape[-1] * item[1].shape[-2])


def _group(store: ReferenceStore, path: str) -> ReferenceGroup:
    if not store.manifest.documents.node(path):
        raise UnsupportedError("no such group", url=str(store), field=path or "/")
    return reference_group(store, path)


def _mask(store: ReferenceStore, path: str) -> "zarr.Array[Any] | None":
    """Return the mask beside an image."""
    return dict(_group(store, path).arrays()).get("mask")


def _level(
    store: ReferenceStore, path: str, name: str, finest: "zarr.Array[Any]", shape: tuple[int, int]
) -> tuple[str, "zarr.Array[Any]"]:
    """Return the coarsest level of an image that has as many rows and columns as are asked for, and its group."""
    parent, _, own = path.rpartition("/")
    scales = store.manifest.documents.node(parent).get("attributes", {}).get("multiscales", {})
    layout = scales.get("layout", []) if isinstance(scales, dict) else []
    assets = [level["asset"] for level in layout if isinstance(level, dict) and isinstance(level.get("asset"), str)]
    best = path, finest
    for asset in assets if own in assets else []:
        place = f"{parent}/{asset}".strip("/")
        node = store.manifest.documents.node(f"{place}/{name}")
        if node.get("node_type") != "array":
            continue  # computed, or of another kind
        array = _group(store, place)[name]
        if not isinstance(array, zarr.Array) or array.shape[:-2] != finest.shape[:-2]:
            continue
        if shape[0] <= array.shape[-2] and shape[1] <= array.shape[-1] < best[1].shape[-1]:
            best = place, array
    return best


@dataclass(frozen=True)
class _Plane:
    """A band, thinned out, and where it has pixels."""

    data: Pixels
    there: NDArray[np.bool_]
    is_bytes: bool
    """Whether its numbers, or those that it has the means of, are bytes."""


def _thinned(array: "zarr.Array[Any]", index: tuple[Any, ...], shape: tuple[int, int], *, average: bool) -> _Plane:
    """Return a plane of an array in another size: each pixel the mean of those that it stands for, or one of them."""
    rows, columns = array.shape[-2:]
    height, width = shape
    factors = max(1, rows // height), max(1, columns // width)
    if not average:
        factors = 1, 1
    step = max(array.chunks[-2], 1)
    per_row = max(columns * array.dtype.itemsize, 1)
    strip = max(step, STRIP // per_row // step * step)
    y = ((np.arange(height) + 0.5) * rows / height).astype(np.int64)
    x = ((np.arange(width) + 0.5) * columns / width).astype(np.int64)
    data = np.zeros(shape, np.float64 if (average and factors != (1, 1)) or array.dtype.kind == "c" else array.dtype)
    there = np.zeros(shape, bool)
    fill = array.attrs.get("_FillValue")
    for first in range(0, rows, strip):
        targets = np.flatnonzero((y >= first) & (y < first + strip))
        if not len(targets):
            continue
        piece = np.asarray(array[(*index, slice(first, min(first + strip, rows)), slice(None))])
        present = _present(piece, None if fill is None else array.fill_value)
        piece = np.abs(piece) if piece.dtype.kind == "c" else piece  # a radar image's amplitude
        data[targets], there[targets] = _picked(piece, present, y[targets] - first, x, factors)
    return _Plane(data, there, array.dtype == np.uint8)


def _present(piece: Pixels, fill: Any) -> NDArray[np.bool_]:
    present = np.ones(piece.shape, bool)
    if piece.dtype.kind in "fc":
        present &= ~np.isnan(piece)
    if fill is not None and fill == fill:  # noqa: PLR0124  NaN, which is gone already
        present &= piece != fill
    return present


def _picked(
    piece: Pixels, present: NDArray[np.bool_], y: Pixels, x: Pixels, factors: tuple[int, int]
) -> tuple[Pixels, NDArray[np.bool_]]:
    """Return the pixels at some rows and columns, each the mean of a block around it."""
    if factors == (1, 1):
        return piece[np.ix_(y, x)], present[np.ix_(y, x)]
    down, across = factors
    tops = np.clip(y - down // 2, 0, max(piece.shape[0] - down, 0))
    lefts = np.clip(x - across // 2, 0, max(piece.shape[1] - across, 0))
    total = np.zeros((len(y), len(x)))
    count = np.zeros((len(y), len(x)), np.int64)
    for row in range(min(down, piece.shape[0])):
        line, known = piece[tops + row], present[tops + row]
        kept = np.where(known, line, 0).astype(np.float64)
        sums = np.concatenate([np.zeros((len(y), 1)), np.cumsum(kept, axis=1)], axis=1)
        counts = np.concatenate([np.zeros((len(y), 1), np.int64), np.cumsum(known, axis=1)], axis=1)
        ends = np.minimum(lefts + across, piece.shape[1])
        total += sums[:, ends] - sums[:, lefts]
        count += counts[:, ends] - counts[:, lefts]
    return total / np.maximum(count, 1), count > 0


@dataclass(frozen=True)
class _Meaning:
    """Which planes of an array a picture needs, and what they are."""

    indices: tuple[tuple[int, ...], ...]
    kind: str
    channels: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, store: ReferenceStore, path: str, array: "zarr.Array[Any]", how: PreviewOptions) -> "_Meaning":
        """Return what an image's attributes say of its bands."""
        names = _axes(array)
        if unknown := sorted(set(how.at) - set(names[:-2])):
            raise UnsupportedError(f"no axis {unknown[0]}; there are {', '.join(names[:-2]) or 'none'}", field="at")
        band = next((axis for axis, name in enumerate(names[:-2]) if name in BANDS and name not in how.at), None)
        count = 1 if band is None else array.shape[band]
        at = _indices(names, array.shape, how.at)

        def planes(numbers: Sequence[int]) -> tuple[tuple[int, ...], ...]:
            return tuple(tuple(number if axis == band else one for axis, one in enumerate(at)) for number in numbers)

        if how.bands is not None:
            if max(how.bands) > count:
                raise UnsupportedError(f"{max(how.bands)}; there are {count}", field="bands")
            return cls(planes([number - 1 for number in how.bands]), "rgb" if len(how.bands) > 1 else "grey")
        channels = _channels(store, path, count)
        if channels:
            shown = [number for number, channel in enumerate(channels) if channel.get("active", True)] or [0]
            return cls(planes(shown), "channels", channels=tuple(channels[number] for number in shown))
        if isinstance(array.attrs.get("color_table"), list):
            return cls(planes([0]), "palette")
        roles = array.attrs.get("colorinterp")
        return cls._by_roles(roles if isinstance(roles, list) and len(roles) == count else [], planes)

    @classmethod
    def _by_roles(
        cls, roles: Sequence[Any], planes: Callable[[Sequence[int]], tuple[tuple[int, ...], ...]]
    ) -> "_Meaning":
        """Return what the interpretation of each band makes of them; the first one is grey where it says nothing."""
        if list(roles[: len(INKS)]) == list(INKS):
            return cls(planes(range(len(INKS))), "inks")
        kind, wanted = "rgb", [roles.index(colour) for colour in COLOURS if colour in roles]
        if len(wanted) < len(COLOURS):
            kind, wanted = "grey", [next((number for number, role in enumerate(roles) if role != "alpha"), 0)]
        if "alpha" in roles and roles.index("alpha") not in wanted:
            return cls(planes([*wanted, roles.index("alpha")]), f"{kind} and alpha")
        return cls(planes(wanted), kind)

    def colours(
        self, planes: Sequence[_Plane], attributes: Mapping[str, Any], how: PreviewOptions
    ) -> NDArray[np.uint8]:
        """Return red, green, blue and alpha of the planes."""
        rgba = np.zeros((*planes[0].data.shape, 4), np.uint8)
        has_alpha = self.kind.endswith("alpha")
        shown = planes[:-1] if has_alpha else planes
        there = np.logical_or.reduce([plane.there for plane in shown])
        rgba[..., 3] = np.where(there, 255, 0)
        if has_alpha:
            rgba[..., 3] = np.where(there, _opacity(planes[-1].data), 0)
        if self.kind == "palette":
            table = np.array(attributes["color_table"], np.uint8)
            found = table[np.clip(planes[0].data.astype(np.int64), 0, len(table) - 1)]
            rgba[..., :3] = found[..., :3]
            rgba[..., 3] = np.where(there, found[..., 3] if found.shape[-1] > len(COLOURS) else 255, 0)
        elif self.kind == "channels":
            total = np.zeros((*there.shape, 3))
            for plane, channel in zip(planes, self.channels, strict=True):
                total += _windowed(plane, channel)[..., None] * _colour(channel)
            rgba[..., :3] = np.clip(total, 0, 255).round()
        elif self.kind == "inks":
            light = [255.0 - _bytes(plane, how.stretch) for plane in shown]
            rgba[..., :3] = np.stack([colour * light[3] / 255 for colour in light[:3]], axis=-1).round()
        else:
            scaled = [_bytes(plane, how.stretch) for plane in shown]
            rgba[..., :3] = np.stack(scaled if len(scaled) > 1 else scaled * 3, axis=-1)
            if attributes.get("photometric") == "MINISWHITE":
                rgba[..., :3] = 255 - rgba[..., :3]
        return rgba


def _axes(array: "zarr.Array[Any]") -> list[str]:
    names = [str(name) for name in getattr(array.metadata, "dimension_names", None) or []]
    return names if len(names) == array.ndim else [*(f"axis_{number}" for number in range(array.ndim - 2)), *PLANE]


def _indices(names: Sequence[str], shape: Sequence[int], at: Mapping[str, int]) -> tuple[int, ...]:
    """Return an index along each axis but the plane's: the one that is asked for, the middle of z, else the first."""
    indices = []
    for name, size in zip(names[:-2], shape, strict=False):
        index = at.get(name, size // 2 if name == "z" else 0)
        if not 0 <= index < size:
            raise UnsupportedError(f"{name}={index}; there are 0 to {size - 1}", field="at")
        indices.append(index)
    return tuple(indices)


def _channels(store: ReferenceStore, path: str, count: int) -> list[Mapping[str, Any]]:
    """Return the channels of OME-Zarr, none where an image has none."""
    for place in (path, path.rpartition("/")[0]):
        ome = store.manifest.documents.node(place).get("attributes", {}).get("ome", {})
        channels = ome.get("omero", {}).get("channels", []) if isinstance(ome, dict) else []
        if isinstance(channels, list) and len(channels) == count:
            return channels
    return []


def _windowed(plane: _Plane, channel: Mapping[str, Any]) -> NDArray[np.float64]:
    window = channel.get("window", {})
    low, high = float(window.get("start", 0)), float(window.get("end", 1))
    return np.clip((plane.data.astype(np.float64) - low) / ((high - low) or 1.0), 0, 1)


def _colour(channel: Mapping[str, Any]) -> NDArray[np.float64]:
    text = str(channel.get("color", "FFFFFF"))
    return np.array([int(text[at : at + 2], 16) for at in (0, 2, 4)], np.float64)


def _bytes(plane: _Plane, stretch: str | None) -> NDArray[np.uint8]:
    """Return numbers as greys from 0 to 255: bytes as they are, others stretched."""
    data, values = plane.data.astype(np.float64), plane.data[plane.there]
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    if not finite.size or (stretch is None and plane.is_bytes):
        return np.asarray(np.nan_to_num(data).round(), np.uint8)
    low, high = _limits(finite, stretch)
    scaled = np.clip((data - low) / ((high - low) or 1.0), 0, 1)
    return (np.nan_to_num(scaled) * 255).round().astype(np.uint8)


def _opacity(data: Pixels) -> NDArray[np.uint8]:
    """Return alpha as a byte; where it is never more than 1 it is a bit, whatever the type."""
    values = np.nan_to_num(data.astype(np.float64))
    most = 1.0 if values.max(initial=0) <= 1 or data.dtype.kind == "f" else float(np.iinfo(data.dtype).max)
    return np.asarray(np.clip(values / most * 255, 0, 255).round(), np.uint8)


def _limits(values: Pixels, stretch: str | None) -> tuple[float, float]:
    if stretch == "min,max":
        return float(values.min()), float(values.max())
    try:
        low, high = (float(part) for part in stretch.split(",")) if stretch else PERCENTILES
    except ValueError:
        low, high = math.nan, math.nan
    if not 0 <= low < high <= 100:  # noqa: PLR2004  per cent
        raise UnsupportedError(f"{stretch!r}; LOW,HIGH in per cent such as 2,98, or min,max", field="stretch")
    return tuple(map(float, np.percentile(values, (low, high))))  # type: ignore[return-value]


def _upright(rgba: NDArray[np.uint8], store: ReferenceStore, path: str) -> NDArray[np.uint8]:
    """Return the picture with north up and west on the left, where the affine says otherwise."""
    mapping = store.manifest.documents.node(f"{path}/spatial_ref".lstrip("/")).get("attributes", {})
    numbers = [float(text) for text in str(mapping.get("GeoTransform", "")).split()]
    if len(numbers) == 6 and not numbers[2] and not numbers[4]:  # noqa: PLR2004  an affine
        rgba = rgba[::-1] if numbers[5] > 0 else rgba
        rgba = rgba[:, ::-1] if numbers[1] < 0 else rgba
    return np.ascontiguousarray(rgba)


@dataclass(frozen=True)
class _Segment:
    """An image of a file whose images lie on one plane."""

    path: str
    top: int
    left: int
    shape: tuple[int, int]


def _segments(store: ReferenceStore) -> list[_Segment]:
    """Return where the images of a NITF lie, from the lowest to the topmost; none where there is but one."""
    nodes = store.manifest.documents.nodes()
    images = {path: node["attributes"]["nitf"] for path, node in nodes.items() if "IDLVL" in _header(node)}
    if len(images) < 2:  # noqa: PLR2004  one needs no place
        return []
    by_level = {int(header["IDLVL"]): (path, header) for path, header in images.items()}
    found = []
    for level, (path, header) in sorted(by_level.items()):
        top = left = 0
        at, seen = header, {level}
        while at is not None:
            rows, columns = _location(at.get("ILOC"))
            top, left = top + rows, left + columns
            parent = int(at.get("IALVL", 0) or 0)
            at = by_level[parent][1] if parent in by_level and parent not in seen else None
            seen.add(parent)
        below = [name for name in nodes if name.startswith(f"{path}/") and nodes[name].get("node_type") == "group"]
        place = f"{path}/0" if f"{path}/0" in below else path
        rows, columns = _variable(store, place)[1].shape[-2:]
        found.append(_Segment(place, top, left, (rows, columns)))
    return found


def _header(node: Mapping[str, Any]) -> Mapping[str, Any]:
    header = node.get("attributes", {}).get("nitf", {})
    return header if isinstance(header, dict) else {}


def _location(text: Any) -> tuple[int, int]:
    """Return row and column of ILOC: five characters each, a sign among them."""
    if isinstance(text, list | tuple):
        return int(text[0]), int(text[1])
    digits = str(text or "").rjust(10, "0")
    return int(digits[:5]), int(digits[5:])


def _laid_out(store: ReferenceStore, segments: Sequence[_Segment], how: PreviewOptions) -> NDArray[np.uint8]:
    """Return a picture of all segments, each where it lies, the topmost over the others."""
    top, left = min(one.top for one in segments), min(one.left for one in segments)
    height = max(one.top + one.shape[0] for one in segments) - top
    width = max(one.left + one.shape[1] for one in segments) - left
    scale = min(1.0, how.size / max(height, width))
    canvas = np.zeros((max(1, round(height * scale)), max(1, round(width * scale)), 4), np.uint8)
    for one in segments:
        first = round((one.top - top) * scale), round((one.left - left) * scale)
        size = max(1, round(one.shape[0] * scale)), max(1, round(one.shape[1] * scale))
        rgba = _shown(store, one.path, how, size)
        place = canvas[first[0] : first[0] + size[0], first[1] : first[1] + size[1]]
        rgba = rgba[: place.shape[0], : place.shape[1]]
        np.copyto(place, rgba, where=rgba[..., 3:] > 0)
    return canvas
