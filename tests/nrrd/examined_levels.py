"""Tiled files with levels, stored and virtual."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import ndimage

from tests.nrrd.examiner import Case, Tiled, good, values

Array = np.ndarray[Any, Any]


def level_sizes(sizes: Sequence[int], scale: Sequence[int], *, ceil: bool = False) -> list[int]:
    """Give a level's sizes in the file's order: floor (but one at least), or ceil."""
    return [-(-size // by) if ceil else max(1, size // by) for size, by in zip(sizes, scale, strict=True)]


def pyramid(sizes: Sequence[int], scales: Sequence[Any], dtype: str = "uint8", *, ceil: bool = False) -> list[Array]:
    """Give levels whose voxels have nothing to do with each other."""
    every = [[scale] * len(sizes) if isinstance(scale, int) else scale for scale in scales]
    return [values(level_sizes(sizes, scale, ceil=ceil), dtype, at + 1) for at, scale in enumerate(every)]


def reduced(whole: Array, scale: Sequence[int], method: str, *, ceil: bool = False) -> Array:
    """Reduce block by block: the oracle, voxel after voxel; `scale` in the file's order."""
    sizes = level_sizes(whole.shape[::-1], scale, ceil=ceil)
    found = np.empty(sizes[::-1], whole.dtype)
    for place in np.ndindex(*found.shape):
        window = tuple(slice(at * by, (at + 1) * by) for at, by in zip(place, scale[::-1], strict=True))
        found[place] = _one(whole[window], method)
    return found


def _one(block: Array, method: str) -> Any:
    if method == "mode":
        kinds, counts = np.unique(block, return_counts=True)
        return kinds[counts.argmax()]
    if method != "average":
        return getattr(block, method)()
    if block.dtype.kind in "iu":
        total, count = sum(int(voxel) for voxel in block.ravel()), block.size
        down, left = divmod(total, count)
        return down + (2 * left > count or (2 * left == count and down % 2))
    return block.mean(dtype=np.complex128 if block.dtype.kind == "c" else np.float64)


def stored() -> list[Case]:
    """Levels in the file: scalar and per-axis scales, floor and ceil, own tile sizes, the stored ones alone."""
    table: tuple[tuple[str, Sequence[int], Sequence[Any], bool], ...] = (
        ("scalar", (16, 12), [1, 2, 4], False),
        ("floor", (17, 13), [1, 2, 4], False),
        ("ceil", (17, 13), [1, 2, 4], True),
        ("per-axis", (16, 12, 6), [[1, 1, 1], [2, 2, 1], [4, 4, 2]], False),
        ("per-axis-ceil", (17, 9, 5), [[1, 1, 1], [2, 2, 1], [4, 4, 2]], True),
        ("floor-to-one", (16, 3), [1, 2, 4, 8], False),
        ("odd-scales", (18, 12), [1, 3, 5], False),
        ("1d", (33,), [1, 2, 16], False),
        ("4d", (8, 6, 4, 4), [1, 2], False),
        ("5d", (4, 4, 4, 2, 2), [1, 2], False),
    )
    ways: tuple[tuple[str, dict[str, Any]], ...] = (
        ("raw", {}),
        ("zstd", {"compression": "zstd", "edges": "variable"}),
        ("chunked", {"form": "chunked", "shuffle": 4, "compression": "gzip"}),
        ("no-offsets", {"offsets": False, "endian": "big"}),
    )
    cases = []
    for (name, sizes, scales, ceil), (way, choice) in itertools.product(table, ways):
        if way == "no-offsets" and ceil:
            continue
        levels = pyramid(sizes, scales, "int16", ceil=ceil)
        tile = tuple([4, 3, 2, 2, 2][: len(sizes)])
        cases.append(good(f"levels-{name}-{way}", Tiled(levels=levels, tile=tile, scales=scales, **choice)))
    levels = pyramid((16, 12), [1, 2, 4])
    own = Tiled(levels=levels, tile=(8, 4), scales=[1, 2, 4], tiles_by_level=[[8, 4], [4, 4], [2, 2]])
    wrong = {"tile:level_offsets": [7, 8, 9]}
    over = Tiled(levels=levels, tile=(5, 4), scales=[1, 2, 4], overlap=(2, 1), compression="lz4")
    untiled = pyramid((16, 12, 3), [[1, 1, 1], [2, 2, 1]])
    single = Tiled(levels=levels[:1], tile=(4, 4), extra={"tile:levels": 1, "tile:level_scales": [1]})
    cases += [
        good("levels-one", single),
        good("level-tile-sizes", own),
        good("level-offsets-advisory", Tiled(levels=levels, tile=(4, 4), scales=[1, 2, 4], extra=wrong)),
        good("levels-overlap", over),
        good("scalar-scale-untiled-axis", Tiled(levels=untiled, tile=(4, 4), dims=(0, 1), scales=[1, 2])),
    ]
    return cases


def _kept(name: str, stored_at: Sequence[int], fields: dict[str, Any], **choice: Any) -> Case:
    """Give a case of levels 1, 2, 4, 8 of which some are stored and no other is there."""
    levels = pyramid((24, 17), [1, 2, 4, 8], "int16")
    tiled = Tiled(levels=[levels[at] for at in stored_at], tile=(4, 3), **choice)
    tiled.extra = {"tile:levels": 4, "tile:level_scales": [1, 2, 4, 8]} | fields
    return Case(name, tiled.internal, {f"{at}/data": levels[at] for at in stored_at})


def virtual() -> list[Case]:
    """Levels made on demand, by each method, and from which level."""
    cases = [
        _kept("levels-stored-alone", (0, 2), {"tile:levels_stored": [0, 2]}),
        _kept("levels-stored-alone-zstd", (0, 1, 3), {"tile:levels_stored": [0, 1, 3]}, compression="zstd"),
    ]
    for method, dtype in itertools.product(
        ("average", "max", "min", "mode"), ("uint8", "int16", "uint64", "int64", "float32", "float64", "float16")
    ):
        whole = values((13, 10, 5), dtype)
        if method == "mode":
            whole = (np.abs(whole) > np.median(np.abs(whole))).astype(dtype)
        tiled = Tiled(levels=[whole], tile=(4, 3, 2), compression="gzip", endian="big")
        tiled.extra = {"tile:levels": 3, "tile:level_scales": [1, 2, 4], "tile:downsample_method": method}
        pixels = {"0/data": whole} | {f"{at}/data": reduced(whole, [by] * 3, method) for at, by in ((1, 2), (2, 4))}
        tiled.extra["tile:levels_virtual"] = [1, 2]
        near = 0 if method != "average" or dtype[0] in "ui" else 1e-6 if dtype != "float16" else 2e-3
        cases.append(Case(f"virtual-{method}-{dtype}", tiled.internal, pixels, near=near))
    return cases + _sources() + _smooth()


def _sources() -> list[Case]:
    """From which level a virtual one is made, and where ceil was chosen."""
    cases = []
    one, two = pyramid((24, 17), [1, 2], "int16")
    base = {"tile:levels": 3, "tile:downsample_method": "max"}
    nearest = base | {"tile:level_scales": [1, 2, 4], "tile:levels_stored": [0, 1], "tile:levels_virtual": [2]}
    made = Tiled(levels=[one, two], tile=(4, 3), extra=nearest)
    due = {"0/data": one, "1/data": two, "2/data": reduced(two, [2, 2], "max")}
    cases.append(Case("virtual-from-nearest", made.internal, due))
    dividing = nearest | {"tile:level_scales": [1, 2, 3]}
    due = {"0/data": one, "1/data": two, "2/data": reduced(one, [3, 3], "max")}
    cases.append(Case("virtual-from-dividing", Tiled(levels=[one, two], tile=(4, 3), extra=dividing).internal, due))
    between = base | {"tile:level_scales": [1, 2, 4], "tile:levels_stored": [0, 2], "tile:levels_virtual": [1]}
    four = values((6, 4), "int16", 5)
    due = {"0/data": one, "1/data": reduced(one, [2, 2], "max"), "2/data": four}
    cases.append(Case("virtual-between-stored", Tiled(levels=[one, four], tile=(4, 3), extra=between).internal, due))
    alone = {key: value for key, value in nearest.items() if key != "tile:levels_stored"}
    due = {"0/data": one, "1/data": two, "2/data": reduced(two, [2, 2], "max")}
    cases.append(Case("virtual-alone", Tiled(levels=[one, two], tile=(4, 3), extra=alone).internal, due))
    up = values((12, 9), "int16", 6)
    due = {"0/data": one, "1/data": up, "2/data": reduced(up, [2, 2], "max", ceil=True)}
    cases.append(Case("virtual-ceil-by-table", Tiled(levels=[one, up], tile=(4, 4), extra=nearest).internal, due))
    flat = values((16, 12, 3))
    scales = {"tile:level_scales": [[1, 1, 1], [2, 4, 1]], "tile:levels": 2, "tile:levels_virtual": [1]}
    due = {"0/data": flat, "1/data": reduced(flat, [2, 4, 1], "average")}
    cases.append(Case("virtual-per-axis", Tiled(levels=[flat], tile=(4, 4, 2), extra=scales).internal, due))
    untiled = {"tile:level_scales": [1, 2], "tile:levels": 2, "tile:levels_virtual": [1]}
    due = {"0/data": flat, "1/data": reduced(flat, [2, 2, 1], "average")}
    cases.append(
        Case("virtual-untiled-axis", Tiled(levels=[flat], tile=(4, 4), dims=(0, 1), extra=untiled).internal, due)
    )
    thin = values((16, 1), "int16")
    due = {"0/data": thin, "1/data": reduced(thin, [2, 2], "average")}
    cases.append(Case("virtual-floor-to-one", Tiled(levels=[thin], tile=(4, 1), extra=untiled).internal, due))
    over = Tiled(levels=[one], tile=(7, 5), overlap=(2, 1), compression="zstd", extra=untiled)
    due = {"0/data": one, "1/data": reduced(one, [2, 2], "average")}
    cases.append(Case("virtual-of-overlap", over.internal, due))
    sized = untiled | {"tile:level_tile_sizes": [[7, 5], [3, 2]]}
    cases.append(Case("virtual-own-tiles", Tiled(levels=[one], tile=(7, 5), extra=sized).internal, due))
    return cases


def _smooth() -> list[Case]:
    """Gaussian and lanczos of something smooth are near its averages."""
    cases = []
    for method, dtype in itertools.product(("gaussian", "lanczos"), ("uint8", "float32", "int16")):
        noise = np.random.default_rng(4).normal(size=(40, 48))
        smooth = ndimage.gaussian_filter(noise, 6, mode="nearest")
        whole = (100 + 60 * smooth / np.abs(smooth).max()).astype(dtype)
        extra = {"tile:levels": 2, "tile:level_scales": [1, 2], "tile:levels_virtual": [1]}
        tiled = Tiled(levels=[whole], tile=(16, 16), extra=extra | {"tile:downsample_method": method})
        due = {"0/data": whole, "1/data": reduced(whole, [2, 2], "average")}
        cases.append(Case(f"virtual-{method}-{dtype}", tiled.internal, due, near=3))
    return cases


CASES = [*stored(), *virtual()]
