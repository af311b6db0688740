"""Tiled JNRRD files made by numpy alone: what the specification says, spelt once more for the tests.

Axes are in the file's order here, dimension 0 first; arrays are in C order, so dimension 0 is the last axis.
"""

import itertools
import json
import math
import warnings

import numpy as np

from tests.writers import PACK

URI = "https://jnrrd.org/extensions/tile/v1.0.0"


def volume(sizes, kind="uint16", seed=0):
    """Return an array of these sizes in C order, all sorts of values in it."""
    random = np.random.default_rng(seed)
    if kind.startswith("complex"):
        return (random.random(sizes[::-1]) + 1j * random.random(sizes[::-1])).astype(kind)
    if kind.startswith("float"):
        return random.random(sizes[::-1]).astype(kind)
    return random.integers(0, 100, sizes[::-1]).astype(kind)


def starts(size, tile, overlap):
    """Return where tiles begin along an axis."""
    return [n * (tile - overlap) for n in range(max(1, math.ceil((size - overlap) / (tile - overlap))))]


def tiles_of(array, tile, overlap=None, *, variable=False, padding=7):
    """Yield index (dimension 0 first) and elements of each tile, dimension 0 of the grid fastest."""
    sizes = array.shape[::-1]
    overlap = overlap or [0] * len(sizes)
    axes = [list(enumerate(starts(*one))) for one in zip(sizes, tile, overlap, strict=True)]
    for turned in itertools.product(*axes[::-1]):
        places = turned[::-1]
        cut = tuple(slice(start, min(start + t, n)) for (_, start), t, n in zip(places, tile, sizes, strict=True))
        part = array[cut[::-1]]
        if not variable:
            whole = np.full(tile[::-1], padding, array.dtype)
            whole[tuple(map(slice, part.shape))] = part
            part = whole
        yield tuple(index for index, _ in places), part


def stored(part, endian="little", compression="raw"):
    """Return the bytes of a tile."""
    return PACK[compression](part.astype(part.dtype.newbyteorder("<" if endian == "little" else ">")).tobytes())


def lines(fields):
    """Return header lines."""
    return "".join(json.dumps({name: value}) + "\n" for name, value in fields.items()).encode()


def core(array, endian="little", **more):
    """Return the core keys of an array."""
    sizes = list(array.shape[::-1])
    found = {"jnrrd": "0004", "type": array.dtype.name, "dimension": len(sizes), "sizes": sizes, "encoding": "raw"}
    return found | ({"endian": endian} if array.dtype.itemsize > 1 else {}) | more


def keys(tile, prefix="tile", **more):
    """Return the extension's keys; None leaves one out."""
    found = {"enabled": True, "dimensions": list(range(len(tile))), "sizes": list(tile), "storage": "internal"} | more
    named = {f"{prefix}:{name}": value for name, value in found.items() if value is not None}
    return {"extensions": {prefix: URI}} | named


def write(path, fields, blobs, *, tables=("offset_table", "size_table"), order=None, gap=b""):  # noqa: PLR0913  one each for what a file can differ in
    """Write a header with its tables and the tiles behind it.

    Offsets are found by writing the header again until it has room; it may then be a digit shorter.
    """
    order = list(range(len(blobs))) if order is None else order
    start = 0
    while True:
        offsets, at = [0] * len(blobs), start
        for number in order:
            offsets[number] = at
            at += len(blobs[number]) + len(gap)
        own = {"offset_table": offsets, "size_table": [len(blob) for blob in blobs]}
        head = lines(fields | {f"tile:{name}": own[name] for name in tables}) + b"\n"
        if len(head) <= start:
            break
        start = len(head)
    path.write_bytes(head.ljust(start, b"\0") + b"".join(blobs[number] + gap for number in order))
    return offsets


def quietly(function, *args, **options):
    """Call a function without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **options)
