"""The keys of a tiled JNRRD's header, in their order: those that are known before the data, and the tables.

May touch this folder's modules and the model.  Vectors are turned here to the header's order.

A tiled, multi-resolution JNRRD of anything that jnrrdz opens: `tile`.

May touch the api, read, downsample, codecs, write.atomic and errors.  The one module of the library that copies
pixels: the format has no other writer.  Follows docs/formats/jnrrd.md and docs/howto/tile.md.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jnrrdz.commands.tile_pixels import Keys, Pixels, axis_keys, axis_names, default_factors, kept_attributes, opened
from jnrrdz.commands.tile_run import InFile, InFolder, Progress, Run, fill_in, folder_of, new_files, pattern_of
from jnrrdz.downsample import Downsampling
from jnrrdz.errors import JnrrdzError, UnrepresentableError, UnsupportedError
from jnrrdz.formats.nrrd.header import MOST_AXES
from jnrrdz.formats.nrrd.jnrrd import TYPES
from jnrrdz.formats.nrrd.write import EXTENSION, PREFIX, VERSION, Header, Packer, Sizes, Table, padding_of
from jnrrdz.formats.nrrd.write import levels as levels_of
from jnrrdz.sources.url import place as place_of


def known_keys(run: Run, pattern: str | None) -> Keys:
    """Return the keys that are known before the data; with a pattern tiles are files."""
    pixels, finest = run.pixels, run.levels[0]
    core: Keys = [
        ("jnrrd", VERSION),
        ("type", pixels.dtype.name),
        ("dimension", len(finest.shape)),
        ("sizes", _turned(finest.shape)),
        ("endian", run.packer.endian),
        ("encoding", "raw"),
        *axis_keys(pixels, axis_names(pixels)),
        *kept_attributes(pixels),
        ("extensions", {PREFIX: EXTENSION}),
    ]
    return core + [(f"{PREFIX}:{name}", value) for name, value in _tile_keys(run, pattern)]


def _tile_keys(run: Run, pattern: str | None) -> Keys:
    finest = run.levels[0]
    found: Keys = [
        ("enabled", True),
        ("dimensions", list(range(len(finest.shape)))),
        ("sizes", _turned(finest.tile)),
        ("storage", "internal" if pattern is None else "external"),
        ("format", "contiguous") if pattern is None else ("pattern", pattern),
        ("compression", run.packer.compression),
        ("edge_handling", "pad"),
        ("padding_value", run.packer.padding),
    ]
    if len(run.levels) > 1:
        found += [
            ("levels", len(run.levels)),
            ("level_scales", [_scale(level.scale) for level in run.levels]),
            ("downsample_method", run.method),
        ]
    if any(level.tile != finest.tile for level in run.levels):
        found.append(("level_tile_sizes", [_turned(level.tile) for level in run.levels]))
    return found


def _turned(sizes: Sizes) -> list[int]:
    return list(reversed(sizes))


def _scale(scale: Sizes) -> int | list[int]:
    """Return one number where all axes have the same."""
    return scale[0] if len(set(scale)) == 1 else _turned(scale)


def tables_of(run: Run, *, external: bool) -> list[Table]:
    """Return the tables of all tiles, and how wide their numbers can get."""
    most = sum(level.tiles * run.packer.most_bytes(level.tile) for level in run.levels)
    digits = len(str(most + HEADROOM))
    size = len(str(max(run.packer.most_bytes(level.tile) for level in run.levels)))
    found = [Table("size_table", run.tiles, size), Table("metadata", run.tiles, run.packer.widest_entry())]
    if external:
        return found
    levels = [Table("level_offsets", len(run.levels), digits)] if len(run.levels) > 1 else []
    return [*levels, Table("offset_table", run.tiles, digits), *found]


HEADROOM = 1 << 26
"""The largest header, which is part of every offset."""


type Options = Mapping[str, Any] | None


@dataclass(frozen=True)
class Tiled:
    """What a run wrote; sizes in the header's order, dimension 0 (which varies fastest) first."""

    output: str
    sizes: tuple[int, ...]
    tile: tuple[int, ...]
    levels: int
    tiles: int
    nbytes: int
    """Bytes of all tiles as they are stored."""


def tile(  # noqa: PLR0913  what is written, and how things are reached
    src: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    tile: Sequence[int],
    compression: str = "zstd",
    levels: int = 1,
    method: str = "average",
    factors: Sequence[int] | None = None,
    endian: str = "little",
    external: bool = False,
    overwrite: bool = False,
    group: str | None = None,
    jobs: int = 2,
    allow: Sequence[str] = (),
    storage_options: Options = None,
    source_options: Options = None,
    target_options: Options = None,
    progress: Progress | None = None,
) -> Tiled:
    """Write the image of a source (or of a manifest, or a .npy file) as a tiled JNRRD.

    `tile` and `factors` are in the header's order: the axis that varies fastest (x) first.  Each level is
    made from the one before by `method`, coarser by `factors`: 2 along axes of space and 1 along others
    where they are not given.  With `external` tiles are files in a folder beside `out`.
    """
    source, target = os.fspath(src), os.fspath(out)
    if jobs < 1:
        raise UnsupportedError(f"{jobs} threads; one is the least", field="jobs")
    reaching = {"allow": allow, "storage_options": storage_options, "source_options": source_options}
    pixels = opened(source, group, reaching)
    try:
        plan = _planned(pixels, (tile, factors), (levels, method), (compression, endian), (jobs, progress))
        _check_target(pixels, target, external=external)
    except JnrrdzError as error:
        raise error.at(url=source) from error.__cause__
    nbytes = _written(plan, target, external, overwrite, target_options)
    finest = plan.levels[0]
    return Tiled(target, finest.shape[::-1], finest.tile[::-1], len(plan.levels), plan.tiles, nbytes)


def _planned(
    pixels: Pixels,
    sizes: tuple[Sequence[int], Sequence[int] | None],
    pyramid: tuple[int, str],
    form: tuple[str, str],
    doing: tuple[int, Progress | None],
) -> Run:
    """Return the run, everything refused that the format or the levels cannot have."""
    _check_array(pixels)
    shape = _per_axis(sizes[0], pixels, "tile")
    names = axis_names(pixels)
    factors = default_factors(names) if sizes[1] is None else _per_axis(sizes[1], pixels, "factors")
    found = levels_of(pixels.shape, shape, pyramid[0], factors)
    dtype = pixels.dtype.newbyteorder("=")
    packer = Packer(dtype, form[1], form[0], padding_of(pixels.fill_value))
    packer.most_bytes(found[0].tile)
    Downsampling(pyramid[1], factors, pixels.shape, dtype, pixels.missing)  # refuses by name, before anything is read
    return Run(pixels, found, packer, pyramid[1], *doing)


def _check_array(pixels: Pixels) -> None:
    if pixels.dtype.name not in TYPES:
        raise UnrepresentableError(f"{pixels.dtype.name}; JNRRD has {', '.join(TYPES)}", field="type")
    if not 1 <= len(pixels.shape) <= MOST_AXES or 0 in pixels.shape:
        raise UnrepresentableError(
            f"an array of shape {pixels.shape}; JNRRD has 1 to {MOST_AXES} axes, none of them empty", field="sizes"
        )


def _per_axis(numbers: Sequence[int], pixels: Pixels, field: str) -> Sizes:
    """Return one number for each axis, turned from the header's order to the array's."""
    names = ",".join(reversed(axis_names(pixels)))
    if len(numbers) != len(pixels.shape):
        given = ",".join(map(str, numbers))
        raise UnsupportedError(f"{given}: {len(numbers)} numbers for {len(pixels.shape)} axes ({names})", field=field)
    if any(number < 1 for number in numbers):
        raise UnsupportedError(f"{','.join(map(str, numbers))}; numbers from 1 on are needed", field=field)
    return tuple(int(number) for number in reversed(numbers))


def _check_target(pixels: Pixels, target: str, *, external: bool) -> None:
    """Refuse an output that what is read would be replaced by."""
    own = place_of(target)
    folder = place_of(folder_of(target)) if external else own
    if any(place == own or place.within(folder) for place in map(place_of, pixels.urls)):
        raise UnrepresentableError(f"{target} is read itself and would be replaced; name another output")


def _written(run: Run, target: str, external: bool, overwrite: bool, options: Options) -> int:  # noqa: FBT001
    """Write header and tiles, and return the bytes of the tiles."""
    turned = tuple(reversed(axis_names(run.pixels)))
    pattern = pattern_of(turned, run.packer.compression) if external else None
    shown = None if pattern is None else f"{folder_of(target).rpartition('/')[2]}/{pattern}"
    header = Header(known_keys(run, shown), tables_of(run, external=external))
    with new_files(target, external=external, overwrite=overwrite, storage_options=options) as (stream, folder):
        stream.write(b"\0" * header.length)
        first = [sum(one.tiles for one in run.levels[:number]) for number in range(len(run.levels))]
        place = InFile(stream, header.length, first) if folder is None else InFolder(folder, pattern or "")
        try:
            entries = run.write(place, stream.flush)
        finally:
            place.close()
        tables = {"offset_table": place.offsets, "size_table": place.sizes, "metadata": entries}
        tables["level_offsets"] = [] if external else [place.offsets[number] for number in first]
        fill_in(stream, header, tables)
    return sum(place.sizes)


__all__ = ["Tiled", "tile"]
