"""A stack of many small files, written by hand: each a TIFF of two by two plain tiles."""

import os
import struct
from pathlib import Path

import numpy as np

COUNT, TILE = 300, 16
WRITTEN = 1_700_000_000
"""When each file says that it was written."""


def pixels(member, seed=0):
    """Return what is in a file."""
    return np.random.default_rng([seed, member]).integers(1, 255, (2 * TILE, 2 * TILE)).astype("u1")


def write_scene(folder, member, seed=0, written=WRITTEN, gap=0):
    """Write a file; `gap` bytes stand before its pixels."""
    tiles = pixels(member, seed).reshape(2, TILE, 2, TILE).swapaxes(1, 2).reshape(4, -1)
    short = {256: 2 * TILE, 257: 2 * TILE, 258: 8, 259: 1, 262: 1, 277: 1, 322: TILE, 323: TILE}
    at = 8 + 2 + 12 * (len(short) + 2) + 4
    begin = at + 32 + gap
    offsets = [begin + number * TILE * TILE for number in range(4)]
    tags = {tag: (4, 1, value) for tag, value in short.items()} | {324: (4, 4, at), 325: (4, 4, at + 16)}
    head = struct.pack("<2sHIH", b"II", 42, 8, len(tags))
    head += b"".join(struct.pack("<HHII", tag, *tags[tag]) for tag in sorted(tags)) + bytes(4)
    head += struct.pack("<8I", *offsets, *[TILE * TILE] * 4) + bytes(gap)
    path = Path(folder) / f"scene_{member:03}.tif"
    path.write_bytes(head + tiles.tobytes())
    os.utime(path, (written, written))
