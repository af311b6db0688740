"""A few lines that read a tiled JNRRD by the specification alone: JSON lines, decompressors, numpy."""

import bz2
import gzip
import hashlib
import itertools
import json
import math
from pathlib import Path

import lz4.frame
import numpy as np
import zstandard

DECODE = {
    "raw": bytes,
    "gzip": gzip.decompress,
    "bzip2": bz2.decompress,
    "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
    "lz4": lz4.frame.decompress,
}


def header_of(path):
    """Return the keys, and where the data begin; every line is an object of one key, a blank one ends them."""
    found, at = {}, 0
    with Path(path).open("rb") as stream:
        for line in stream:
            at += len(line)
            if line == b"\n":
                return found, at
            (item,) = json.loads(line).items()
            assert item[0] not in found
            found[item[0]] = item[1]
    return found, at


def read(path):
    """Return the header and the levels, axes in C order (dimension 0 last)."""
    path = Path(path)
    header, start = header_of(path)
    data = path.read_bytes()
    assert header["jnrrd"] == "0004"
    assert header["extensions"] == {"tile": "https://jnrrd.org/extensions/tile/v1.0.0"}
    tile = {key.partition(":")[2]: value for key, value in header.items() if key.startswith("tile:")}
    sizes, scales = header["sizes"], tile.get("level_scales", [1])
    dtype = np.dtype(header["type"]).newbyteorder({"little": "<", "big": ">"}[header["endian"]])
    tiles_of = tile.get("level_tile_sizes", [tile["sizes"]] * len(scales))
    levels, number, end = [], 0, start
    for at, given in enumerate(scales):
        scale = given if isinstance(given, list) else [given] * len(sizes)
        dims = [max(1, size // by) for size, by in zip(sizes, scale, strict=True)]
        counts = [math.ceil(size / own) for size, own in zip(dims, tiles_of[at], strict=True)]
        level = np.empty(dims[::-1], dtype)
        if "level_offsets" in tile:
            assert tile["level_offsets"][at] == tile["offset_table"][number]
        for turned in itertools.product(*map(range, counts[::-1])):  # dimension 0 fastest
            index = turned[::-1]
            size = tile["size_table"][number]
            if tile["storage"] == "internal":
                offset = tile["offset_table"][number]
                assert offset == end  # contiguous
                end, stored = offset + size, data[offset : offset + size]
            else:
                names = {f"d{d}": i for d, i in enumerate(index)} | dict(zip("xyz", index, strict=False))
                stored = (path.parent / tile["pattern"].format(l=at, **names)).read_bytes()
            assert len(stored) == size
            entry = tile["metadata"][number]
            assert entry["checksum"] == hashlib.sha256(stored).hexdigest()
            elements = np.frombuffer(DECODE[tile["compression"]](stored), dtype).reshape(tiles_of[at][::-1])
            part = level[tuple(slice(i * t, (i + 1) * t) for i, t in zip(index, tiles_of[at], strict=True))[::-1]]
            inside = tuple(map(slice, part.shape))
            part[...] = elements[inside]
            if "min" in entry:
                assert (entry["min"], entry["max"]) == (part.min(), part.max())
            padding = np.ones(elements.shape, bool)
            padding[inside] = False
            assert (elements[padding] == tile["padding_value"]).all()
            number += 1
        levels.append(level)
    assert number == len(tile["size_table"]) == len(tile["metadata"])
    if tile["storage"] == "internal":
        assert end == len(data)
    else:
        assert start == len(data)
    return header, levels


def means(array, count, factors):
    """Return the levels that plain means give, each from the one before, integers rounded half to even."""
    found = [array]
    while len(found) < count:
        finer = found[-1]
        shape = [max(1, size // f) for size, f in zip(finer.shape, factors, strict=True)]
        level = np.empty(shape, array.dtype)
        for index in np.ndindex(*shape):
            block = finer[tuple(slice(i * f, (i + 1) * f) for i, f in zip(index, factors, strict=True))]
            if array.dtype.kind in "iu":
                total, n = sum(map(int, block.ravel())), block.size
                quotient, rest = divmod(total, n)
                level[index] = quotient + (2 * rest > n or (2 * rest == n and quotient % 2))
            else:
                level[index] = block.astype(np.result_type(array.dtype, np.float64)).mean()
        found.append(level)
    return found
