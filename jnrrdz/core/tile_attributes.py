"""Attributes that tell of a level's tiles one by one, and of an image's levels.

Touches nothing.  Written by scanners of formats that have such values, left out of levels that are computed,
and compared by `verify`.  docs/formats/jnrrd.md tells them.
"""

TILE_CHECKSUMS = "tile_checksums"
"""SHA-256 of each tile's stored bytes as 64 hexadecimal digits, null where there is none."""

TILE_METADATA = "tile_metadata"
"""What a file says of each tile, null where it says nothing."""

TILE_COMPRESSION_LEVELS = "tile_compression_levels"
"""How hard each tile was compressed."""

PER_TILE = (TILE_CHECKSUMS, TILE_METADATA, TILE_COMPRESSION_LEVELS)
"""Attributes of a level's array: a list with a value for each tile, in C order of the grid of tiles."""

LEVEL_OFFSETS = "level_offsets"
"""Where a file says that each level begins: the byte's number by the name of the level's group."""

LEVEL_QUALITY = "level_quality"
"""What a file says of each level's quality, by the name of the level's group."""
