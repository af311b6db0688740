"""A picture of what a source holds: small, from the coarsest level that suffices, in the colours that it says.

What is nodata, masked or without alpha is transparent.  The colours are those of
the palette, of the bands' interpretation, of the channels of a microscope in their windows, or greys; numbers beyond a
byte are stretched.  A file whose segments lie on one plane (NITF: ILOC, IALVL, IDLVL) is shown as that plane.
"""

import math
import os
import struct
import threading
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from jnrrdz.api import open_stored
from jnrrdz.commands.preview_planes import Pixels, Plane, View, cost, thinned
from jnrrdz.core.bands import BAND_AXES, Colours
from jnrrdz.core.describe import MASK, Image
from jnrrdz.core.hierarchy import PLANE, HierarchyNode
from jnrrdz.core.ome import Channel, stated_channels
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.manifests.atomic import new_file
from jnrrdz.manifests.manifest import manifest_form
from jnrrdz.options import Access, Codecs, PrecinctWindows, ScanOptions, StorageOptions
from jnrrdz.store.group import reference_array
from jnrrdz.store.store import ReferenceStore

PERCENTILES = (2.0, 98.0)
MOST = 1 << 14
"""Pixels along a side of a picture."""

INLINE = 192
"""Pixels along a side of the picture that a notebook shows of a scan."""

INLINE_BYTES = 16 << 20
INLINE_SECONDS = 3.0

COLOURS = ("red", "green", "blue")
INKS = ("cyan", "magenta", "yellow", "black")

_BEGINNING = 33
"""Bytes of a PNG's signature and first chunk, IHDR: https://www.w3.org/TR/png-3/#5Chunk-layout."""

_KEYWORD = b"tEXtSoftware\0jnrrdz"
_SOFTWARE = struct.pack(">I", len(_KEYWORD) - 4) + _KEYWORD + struct.pack(">I", zlib.crc32(_KEYWORD))


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

    most_bytes: int | None = None
    """Refuse a picture for which chunks of more bytes have to be decoded; by default none is too large."""

    def __post_init__(self) -> None:
        if not 1 <= self.size <= MOST:
            raise UnsupportedError(f"{self.size}; a picture has 1 to {MOST} pixels a side", field="size")
        if self.bands is not None and (len(self.bands) not in {1, 3} or min(self.bands) < 1):
            raise UnsupportedError(f"{list(self.bands)}; one band or three, counted from 1", field="bands")


@dataclass(frozen=True)
class Picture:
    """Pixels of red, green, blue and alpha, of which notebooks show the PNG."""

    rgba: NDArray[np.uint8]
    """Rows by columns by four: red, green, blue and alpha."""

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


def preview(  # noqa: PLR0913  the signature is the documentation
    src: str | Path | VirtualGroup,
    *,
    size: int = 512,
    bands: Sequence[int] | None = None,
    group: str | None = None,
    stretch: str | None = None,
    at: Mapping[str, int] | None = None,
    most_bytes: int | None = None,
    overviews: bool = True,
    embedded: bool = False,
    expand_palette: bool = False,
    physical: bool = False,
    sidecars: bool = False,
    codecs: Codecs = "auto",
    chain: str | None = None,
    stack_timepoints: bool = False,
    precinct_windows: PrecinctWindows | None = None,
    tile_part_table: str | None = None,
    allow_missing: bool = False,
    allow_odd_blocks: bool = False,
    object_versions: bool = True,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
    source_options: StorageOptions = None,
    template_overrides: Mapping[str, str] | None = None,
) -> Picture:
    """Return a picture of a source or manifest.

    Parameters
    ----------
    src
        The path or URL of a manifest or of a source, or what `scan` returned.
    size
        Pixels along the longer side; an image of fewer is shown as it is.
    bands
        One band, or three for red, green and blue, counted from 1.
    group
        The group to show; the full-resolution image by default.
    stretch
        `LOW,HIGH` in per cent of the pixels, or `min,max`; by default bytes are shown
        as they are, others from 2 to 98 per cent.
    at
        Indices along further axes, such as `{"t": 0, "z": 12}`; by default the first,
        and the middle of z.
    most_bytes
        Refuse a picture for which chunks of more bytes have to be decoded; by default
        none is too large.
    overviews
        Take the smaller versions of an image that the file holds.
    embedded
        Take whole documents that the file carries: colour profile (ICC), XMP, EXIF.
    expand_palette
        Return colours in place of the indices into a palette.
    physical
        Return values after scale, offset and nodata, as floats with NaN, in place of
        those that are stored.
    sidecars
        Read `.tfw`, `.aux.xml`, `.RPB`, `_RPC.TXT`, `.ovr` and `.msk` files next to the
        source.
    codecs
        `auto` takes Zarr's own codecs wherever they are exact, `standard` Zarr's own or
        raises an error that gives the reason, `proposal` those of the format's
        proposal, one family for a whole archive.
    chain
        Codecs for the headers of N5 blocks: `pad`, `offset` or `n5_default`; by default
        those that read them right.
    stack_timepoints
        Stack the timepoints of a BigDataViewer container along an axis `t`.
    precinct_windows
        Cut JPEG 2000 tiles into windows of precincts: large tiles whose packets are
        cheap to find (`auto`, the default), all (`always`), or none (`never`).
    tile_part_table
        A Parquet table on this machine that lists the tile-parts of JPEG 2000 files,
        in place of the walk through a file without TLM.
    allow_missing
        Read tiles whose files are missing as the fill value.
    allow_odd_blocks
        Accept N5 blocks of another shape than `blockSize`: larger ones are cropped,
        shorter ones padded.
    object_versions
        Record the listed state of each of a container's objects, so that a replaced one
        is noticed; this costs some bytes for each chunk.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the source or the manifest that you name.
    source_options
        fsspec's options for the sources that a manifest names.
    template_overrides
        Values for the templates of a manifest's URLs, by their names: `{"base":
        "s3://bucket/scenes/"}` for `{{base}}a.tif`; by default the manifest's own.
    """
    how = PreviewOptions(size, bands, group, stretch, at or {}, most_bytes)
    options = ScanOptions(
        overviews=overviews,
        embedded=embedded,
        expand_palette=expand_palette,
        physical=physical,
        sidecars=sidecars,
        codecs=codecs,
        chain=chain,
        stack_timepoints=stack_timepoints,
        precinct_windows=precinct_windows,
        tile_part_table=tile_part_table,
        allow_missing=allow_missing,
        allow_odd_blocks=allow_odd_blocks,
        object_versions=object_versions,
    )
    access = Access(
        allow=allow,
        storage_options=storage_options,
        source_options=source_options,
        template_overrides=template_overrides,
    )
    is_scanned = not isinstance(src, VirtualGroup) and manifest_form(os.fspath(src)) is None
    if codecs == "auto" and is_scanned:
        # nobody else reads these, and deflate takes half the time
        options = replace(options, codecs="proposal")
    return picture_of(open_stored(src, options=options, access=access), how)


def picture_of(store: ReferenceStore, how: PreviewOptions) -> Picture:
    """Return a picture of what a store holds."""
    try:
        if how.group is None and (placed := _placed_images(store)):
            return Picture(_laid_out(store, placed, how))
        path = store.manifest.hierarchy.choice().path if how.group is None else how.group.strip("/")
        image = _image_in(store, path)
        rgba = _drawn(store, image, how, None).rgba(how.stretch)
        return Picture(_upright(rgba, image))
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        # attributes are the manifest's own words: colours that are none, places that are no numbers
        raise MalformedError(f"the attributes make no picture: {error!r}", url=str(store)) from error


def inline(group: VirtualGroup) -> bytes | None:
    """Return a small picture for a notebook, None where it would take long, read much, or cannot be made."""
    made: list[bytes] = []

    def draw() -> None:
        with suppress(JnrrdzError, OSError):
            made.append(preview(group, size=INLINE, most_bytes=INLINE_BYTES).png)

    thread = threading.Thread(target=draw, daemon=True, name="jnrrdz-inline")
    thread.start()
    thread.join(INLINE_SECONDS)
    return made[0] if made else None


def _image_in(store: ReferenceStore, group: str) -> Image:
    """Return the image of a group, its finest level first, that makes a picture."""
    hierarchy = store.manifest.hierarchy
    if group not in hierarchy.nodes:
        raise hierarchy.no_such_group(group, str(store))
    images = hierarchy.images_in(group)
    if not images:
        raise UnsupportedError("nothing to show: no array of two axes or more", url=str(store), field=group or "/")
    return hierarchy.image_at(images[0].path)


@dataclass(frozen=True)
class _Drawing:
    """The planes of an image, what they mean, and where a mask hides them."""

    meaning: "_Meaning"
    planes: Sequence[Plane]
    colours: Colours
    hidden: NDArray[np.bool_] | None = None

    def rgba(self, stretch: str | None) -> NDArray[np.uint8]:
        """Return red, green, blue and alpha."""
        rgba = self.meaning.rgba(self.planes, self.colours, stretch)
        if self.hidden is not None:
            rgba[self.hidden, 3] = 0
        return rgba


def _drawn(store: ReferenceStore, image: Image, how: PreviewOptions, shape: tuple[int, int] | None) -> _Drawing:
    """Return the planes of an image, in a size that is given or that the options ask for."""
    full = image.finest.plane_shape
    size = shape or _scaled(full, min(1.0, how.size / max(full)))
    level = _level(image, size)
    meaning = _Meaning.of(image, how)
    average = meaning.kind != "palette" and image.level_method == "average"
    view = meaning.view(store, level)
    if how.most_bytes is not None and cost(view, meaning.bands, size) > how.most_bytes:
        field = image.finest.parent or "/"
        raise UnsupportedError(f"a picture takes more than {how.most_bytes} bytes", url=str(store), field=field)
    planes = thinned(view, meaning.bands, size, average=average)
    colours = Colours.of_attributes({**image.attributes, **level.attributes})
    return _Drawing(meaning, planes, colours, _hidden(store, level, size))


def _scaled(shape: tuple[int, int], scale: float) -> tuple[int, int]:
    return max(1, round(shape[0] * scale)), max(1, round(shape[1] * scale))


def _hidden(store: ReferenceStore, level: HierarchyNode, size: tuple[int, int]) -> NDArray[np.bool_] | None:
    """Return where the mask of a level hides it."""
    node = store.manifest.hierarchy.sibling(level, MASK)
    if node is None or not node.is_image or node.shape[-2:] != level.plane_shape:
        return None
    mask = reference_array(store, node.path)
    view = View(mask, mask.ndim - 2, mask.ndim - 1, at=(0,) * mask.ndim)
    return np.asarray(thinned(view, [0], size, average=False)[0].data == 0)


def _level(image: Image, shape: tuple[int, int]) -> HierarchyNode:
    """Return the coarsest level of an image that has as many rows and columns as are asked for."""
    finest = best = image.finest
    for level in image.levels:
        if level.axis_names != finest.axis_names or _others(level) != _others(finest):
            continue
        rows, columns = level.plane_shape
        if shape[0] <= rows and shape[1] <= columns < best.plane_shape[1]:
            best = level
    return best


def _others(level: HierarchyNode) -> list[int]:
    """Return the sides of all axes but the picture's; a level may be coarser along z."""
    return [
        size
        for axis, (name, size) in enumerate(zip(level.axis_names, level.shape, strict=True))
        if axis not in level.plane and name != "z"
    ]


def _check_places(finest: HierarchyNode, at: Mapping[str, int]) -> None:
    """Refuse indices along axes that an image does not have, or beyond their ends."""
    names = finest.axis_names
    further = [name for axis, name in enumerate(names) if axis not in finest.plane]
    unknown = sorted(set(at) - set(further))
    if unknown:
        raise UnsupportedError(
            f"no axis {unknown[0]}; the image has {', '.join(further) or 'none'} besides {' and '.join(PLANE)}",
            field="at",
        )
    for name, index in at.items():
        size = finest.shape[names.index(name)]
        if not 0 <= index < size:
            raise UnsupportedError(f"there is no {name}={index}; {name} goes from 0 to {size - 1}", field="at")


@dataclass(frozen=True)
class _Meaning:
    """Which bands of an array a picture needs, where it is cut along further axes, and what the bands are."""

    bands: tuple[int, ...]
    kind: str
    at: Mapping[str, int]
    channels: tuple[Channel, ...] = ()

    @classmethod
    def of(cls, image: Image, how: PreviewOptions) -> "_Meaning":
        """Return what an image's attributes say of its bands."""
        _check_places(image.finest, how.at)
        axis = None if image.band_axis is None else image.axis_names[image.band_axis]
        chosen = None if axis is None else how.at.get(axis)
        count = image.band_count
        if how.bands is not None:
            if max(how.bands) > count:
                raise UnsupportedError(
                    f"there is no band {max(how.bands)}; the image has {count} band{'' if count == 1 else 's'}",
                    field="bands",
                )
            kind = "rgb" if len(how.bands) > 1 else "grey"
            return cls(tuple(number - 1 for number in how.bands), kind, how.at)
        channels = stated_channels(image.attributes)
        if channels and len(channels) == count:
            active = [number for number, channel in enumerate(channels) if channel.is_active]
            shown = [chosen] if chosen is not None else active or [0]
            return cls(tuple(shown), "channels", how.at, tuple(channels[number] for number in shown))
        if chosen is not None:
            return cls((chosen,), "grey", how.at)
        if image.colours.table is not None:
            return cls((0,), "palette", how.at)
        roles = [band.colour for band in image.bands]
        bands, kind = _by_roles(roles if any(roles) else [], axis, count)
        return cls(bands, kind, how.at)

    def view(self, store: ReferenceStore, level: HierarchyNode) -> View:
        """Return the array of a level, cut where the picture is: the first along further axes, the middle of z."""
        names = level.axis_names
        at = [self.at.get(name, size // 2 if name == "z" else 0) for name, size in zip(names, level.shape, strict=True)]
        axes = (axis for axis, name in enumerate(names) if name in BAND_AXES and axis not in level.plane)
        return View(reference_array(store, level.path), *level.plane, next(axes, None), tuple(at))

    def rgba(self, planes: Sequence[Plane], colours: Colours, stretch: str | None) -> NDArray[np.uint8]:
        """Return red, green, blue and alpha of the planes."""
        rgba = np.zeros((*planes[0].data.shape, 4), np.uint8)
        has_alpha = self.kind.endswith("alpha")
        shown = planes[:-1] if has_alpha else planes
        there = np.logical_or.reduce([plane.there for plane in shown])
        rgba[..., 3] = np.where(there, 255, 0)
        if has_alpha:
            rgba[..., 3] = np.where(there, _opacity(planes[-1]), 0)
        if self.kind == "palette":
            table = np.array(colours.table, np.uint8)
            found = table[np.clip(planes[0].data.astype(np.int64), 0, len(table) - 1)]
            rgba[..., :3] = found[..., :3]
            rgba[..., 3] = np.where(there, found[..., 3] if found.shape[-1] > len(COLOURS) else 255, 0)
        elif self.kind == "channels":
            total = np.zeros((*there.shape, 3))
            for plane, channel in zip(planes, self.channels, strict=True):
                text = channel.colour or "FFFFFF"
                colour = np.array([int(text[at : at + 2], 16) for at in (0, 2, 4)], np.float64)
                total += _windowed(plane, channel, stretch)[..., None] * colour
            rgba[..., :3] = np.clip(total, 0, 255).round()
        elif self.kind == "inks":
            light = [255.0 - _bytes(plane, stretch) for plane in shown]
            rgba[..., :3] = np.stack([colour * light[3] / 255 for colour in light[:3]], axis=-1).round()
        else:
            scaled = [_bytes(plane, stretch) for plane in shown]
            rgba[..., :3] = np.stack(scaled if len(scaled) > 1 else scaled * 3, axis=-1)
            if colours.photometric == "MINISWHITE":
                rgba[..., :3] = 255 - rgba[..., :3]
        return rgba


def _by_roles(roles: Sequence[Any], axis: str | None, count: int) -> tuple[tuple[int, ...], str]:
    """Return the bands that the interpretation of each names, and what they make; else the first one is grey."""
    if list(roles[: len(INKS)]) == list(INKS):
        return tuple(range(len(INKS))), "inks"
    kind, wanted = "rgb", [roles.index(colour) for colour in COLOURS if colour in roles]
    if not roles and axis == "c" and count == len(COLOURS):
        wanted = list(range(count))  # colours of NRRD, which names no bands
    if len(wanted) < len(COLOURS):
        kind, wanted = "grey", [next((number for number, role in enumerate(roles) if role != "alpha"), 0)]
    if "alpha" in roles and roles.index("alpha") not in wanted:
        return (*wanted, roles.index("alpha")), f"{kind} and alpha"
    return tuple(wanted), kind


def _windowed(plane: Plane, channel: Channel, stretch: str | None) -> NDArray[np.float64]:
    low, high = float(channel.window.get("start", 0)), float(channel.window.get("end", 1))
    whole = np.iinfo(plane.dtype) if plane.dtype.kind in "iu" and plane.dtype.itemsize > 1 else None
    # a window that is the range of the type says nothing of the numbers
    if stretch is not None or (whole is not None and low <= whole.min and high >= whole.max):
        return _bytes(plane, stretch) / np.float64(255)
    return np.clip((plane.data.astype(np.float64) - low) / ((high - low) or 1.0), 0, 1)


def _bytes(plane: Plane, stretch: str | None) -> NDArray[np.uint8]:
    """Return numbers as greys from 0 to 255: bytes as they are, others stretched."""
    data = plane.data.astype(np.float64)
    if plane.limits is None and stretch is None and plane.dtype == np.uint8:
        return np.asarray(data.round(), np.uint8)
    low, high = plane.limits or _limits(_values([plane]), stretch)
    scaled = np.clip((data - low) / ((high - low) or 1.0), 0, 1)
    return (np.nan_to_num(scaled) * 255).round().astype(np.uint8)


def _values(planes: Sequence[Plane]) -> Pixels:
    """Return the numbers of planes that are there, and finite."""
    values = np.concatenate([plane.data[plane.there] for plane in planes])
    return values[np.isfinite(values)] if values.dtype.kind == "f" else values


def _opacity(plane: Plane) -> NDArray[np.uint8]:
    """Return alpha as a byte; where it is never more than 1 it is a bit, whatever the type."""
    values = np.nan_to_num(plane.data.astype(np.float64))
    most = 1.0 if values.max(initial=0) <= 1 or plane.dtype.kind not in "iu" else float(np.iinfo(plane.dtype).max)
    return np.asarray(np.clip(values / most * 255, 0, 255).round(), np.uint8)


def _limits(values: Pixels, stretch: str | None) -> tuple[float, float]:
    if values.dtype.kind == "b" or not values.size:
        return 0.0, 1.0
    if stretch == "min,max":
        return float(values.min()), float(values.max())
    try:
        low, high = (float(part) for part in stretch.split(",")) if stretch else PERCENTILES
    except ValueError:
        low, high = math.nan, math.nan
    if not 0 <= low < high <= 100:  # noqa: PLR2004  per cent
        raise UnsupportedError(f"{stretch!r}; LOW,HIGH in per cent such as 2,98, or min,max", field="stretch")
    return tuple(map(float, np.percentile(values, (low, high))))  # type: ignore[return-value]


def _upright(rgba: NDArray[np.uint8], image: Image) -> NDArray[np.uint8]:
    """Return the picture with north up and west on the left, where the affine says otherwise."""
    transform = image.transform
    if transform is not None and not transform.is_rotated:
        rgba = rgba[::-1] if transform.row_y > 0 else rgba
        rgba = rgba[:, ::-1] if transform.column_x < 0 else rgba
    return np.ascontiguousarray(rgba)


@dataclass(frozen=True)
class _PlacedImage:
    """An image of a file whose images are on one plane."""

    image: Image
    top: int
    left: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.image.finest.plane_shape


def _placed_images(store: ReferenceStore) -> list[_PlacedImage]:
    """Return the images of a NITF, from the lowest to the topmost; none where there is but one."""
    hierarchy = store.manifest.hierarchy
    places = hierarchy.segment_places
    if len(places) <= 1:
        return []
    return [
        _PlacedImage(_image_in(store, hierarchy.choice(path).path), row, column)
        for path, (row, column) in places.items()
    ]


def _laid_out(store: ReferenceStore, placed: Sequence[_PlacedImage], how: PreviewOptions) -> NDArray[np.uint8]:
    """Return a picture of all images, each where it is, the topmost over the others."""
    top, left = min(one.top for one in placed), min(one.left for one in placed)
    height = max(one.top + one.shape[0] for one in placed) - top
    width = max(one.left + one.shape[1] for one in placed) - left
    scale = min(1.0, how.size / max(height, width))
    plane = _scaled((height, width), scale)
    places, drawings = [], []
    for one in placed:
        size = _scaled(one.shape, scale)
        row, column = (
            min(round(first * scale), most - 1)
            for first, most in zip((one.top - top, one.left - left), plane, strict=True)
        )
        places.append((slice(row, row + size[0]), slice(column, column + size[1])))
        drawings.append(_drawn(store, one.image, how, size))
    canvas = np.zeros((*plane, 4), np.uint8)
    for part, drawing in zip(places, _alike(drawings, how.stretch), strict=True):
        place = canvas[part]
        rgba = drawing.rgba(how.stretch)[: place.shape[0], : place.shape[1]]
        np.copyto(place, rgba, where=rgba[..., 3:] > 0)
    return canvas


def _alike(drawings: Sequence[_Drawing], stretch: str | None) -> list[_Drawing]:
    """Return drawings of one kind with one black and one white: segments of one picture have no seams."""
    kinds = {(each.meaning.kind, tuple(plane.dtype for plane in each.planes)) for each in drawings}
    if len(kinds) > 1 or (stretch is None and drawings[0].planes[0].dtype == np.uint8):
        return list(drawings)
    bands = zip(*(each.planes for each in drawings), strict=True)
    limits = [_limits(_values(planes), stretch) for planes in bands]
    return [
        replace(each, planes=[replace(plane, limits=one) for plane, one in zip(each.planes, limits, strict=True)])
        for each in drawings
    ]
