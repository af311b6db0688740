"""The keys of a tiled JNRRD's header, in their order: those that are known before the data, and the tables.

May touch this folder's modules and the model.  Vectors are turned here to the header's order.
"""

from jnrrdz.commands.meaning import Keys, axis_keys, axis_names, kept_attributes
from jnrrdz.commands.run import Run
from jnrrdz.formats.nrrd.grid import Sizes
from jnrrdz.formats.nrrd.header_tiling import EXTENSION, PREFIX, VERSION, Table


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
