"""Files that must be refused, each with the field that is wrong named as it stands in the file."""

import bz2
import gzip
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lz4.frame
import zstandard

from tests.nrrd.examined_levels import pyramid
from tests.nrrd.examiner import PACK, Case, Tiled, bad, values

WHOLE = values((10, 7), "uint16")
TABLE = [0, 24, 48, 72, 96, 120, 144, 168, 192]
MANY = 10**30


def _changed(name: str, change: dict[str, Any], *refused: str, **own: Any) -> Case:
    """Give a case of 10 x 7 in tiles of 4 x 3 with keys changed; the first of them is the one at fault."""
    named = {key if ":" in key or key in CORE else f"tile:{key}": value for key, value in change.items()}
    return bad(name, Tiled(levels=[WHOLE], tile=(4, 3), change=named, **own), *(refused or (next(iter(named)),)))


CORE = ("jnrrd", "type", "dimension", "sizes", "endian", "encoding", "extensions", "byte_skip", "data_file")


def core_fields() -> list[Case]:
    """Core fields missing, of a wrong type, unknown."""
    table: tuple[tuple[str, Any], ...] = (
        ("type", None), ("type", "float8"), ("type", 7), ("type", "block"), ("type", "bfloat16"), ("type", ["uint8"]),
        ("dimension", None), ("dimension", 3), ("dimension", 0), ("dimension", -2), ("dimension", "2"),
        ("dimension", 2.5), ("dimension", True),
        ("endian", None), ("endian", "middle"), ("endian", 1),
        ("encoding", "ascii"), ("encoding", "hex"), ("encoding", "rar"), ("encoding", 5), ("encoding", "gzip"),
        ("byte_skip", "x"),
        ("extensions", ["tile"]), ("extensions", {"tile": 5}),
    )  # fmt: skip
    cases = [_changed(f"core-{key}-{value}"[:40], {key: value}) for key, value in table]
    wrong = (None, [10], [10, 7, 1], [10, 0], [10, -7], [10, 7.5], [10, "7"], "10 7", [10, True], [10, None], [MANY, 7])
    cases += [_changed(f"core-sizes-{value}"[:40], {"s:x": 1, "sizes": value}, "sizes") for value in wrong]
    return [
        *cases,
        _changed("core-byte-skip-below", {"byte_skip": -2}, offsets=False),
        _changed("tile-sizes-vast", {"tile:sizes": [MANY, 3]}, "sizes", offsets=False),
        _changed("core-byte-skip-vast", {"byte_skip": MANY}, offsets=False),
        _changed("core-byte-skip-beyond", {"byte_skip": 10**9}, offsets=False),
        _changed("encoding-other-than-compression", {"encoding": "bzip2"}, compression="gzip"),
    ]


def tile_fields() -> list[Case]:
    """Required and optional fields missing, of a wrong type, out of their range."""
    wrong: dict[str, tuple[Any, ...]] = {
        "enabled": (None, "yes", 1, [True]),
        "dimensions": (None, [], [0, 0], [1, 0], [0, 2], [-1, 0], [0, 1.0], ["0", "1"], [0], [0, True], "01", MANY),
        "sizes": (None, [], [4], [4, 3, 1], [4, 0], [4, -3], [4, 2.5], [4, "3"], 4, [4, None], [True, 3]),
        "storage": (None, "elsewhere", 1, "Internal"),
        "format": ("packed", 3),
        "edge_handling": ("wrap", 1),
        "padding_value": ("x", [0], 70000, -1, 1.5, float("nan"), MANY),
        "overlap": ([1], [1, 1, 1], [-1, 0], [4, 0], [0, 3], [0, 9], [0.5, 0], "1", 1, [True, 0]),
        "compression": ("zip", 5, ["gzip"], "GZIP"),
        "compression_levels": ([1], "9", [-1] * 9, [1.5] * 9),
        "offset_table": (TABLE[:8], [*TABLE, 216], [-1, *TABLE[1:]], [*TABLE[:8], 10**7], [*TABLE[:8], MANY],
                         [0.5, *TABLE[1:]], ["0", *TABLE[1:]], [None, *TABLE[1:]], [True, *TABLE[1:]], 7, "0", {}, []),
        "size_table": ([24] * 8, [24] * 10, [24] * 8 + [0], [24] * 8 + [-24], [24] * 8 + [25], [24] * 8 + [23],
                       [24] * 8 + [10**7], [24] * 8 + [MANY], [24.5] * 9, ["24"] * 9, 24, [True] * 9, []),
        "metadata": ("x", [1] * 9),
        "levels": (0, -1, 1.5, "2", [2], MANY),
    }  # fmt: skip
    return [
        _changed(f"{key}-{at}", {f"tile:{key}": value})
        for key, values in wrong.items()
        for at, value in enumerate(values)
    ]


def together() -> list[Case]:
    """What fields say together."""
    several = {"sizes": [4, 0], "dimensions": [0, 0], "storage": "moon", "compression": "rar", "edge_handling": 5}
    big = {"sizes": [100_000, 100_000], "tile:sizes": [100_000, 50_000]}
    cases = [
        _changed("several-at-once", {f"tile:{key}": value for key, value in several.items()},
                 *(f"tile:{key}" for key in several)),
        _changed("several-core-and-tile", {"type": "float8", "tile:overlap": [-1, 0]}, "type"),
        _changed("chunked-compressed-no-sizes", {"size_table": None}, compression="gzip", form="chunked"),
        _changed("chunked-no-offsets", {"offset_table": None}, form="chunked"),
        _changed("compressed-no-tables", {"offset_table": None}, compression="zstd", sizes=False),
        _changed("ten-gigabytes", big, offsets=False),
        _changed("ten-gigabytes-two-offsets", big | {"tile:offset_table": [0, 9]}, "offset_table"),
        _changed("quintillion-tiles", {"tile:sizes": [1, 1], "sizes": [10**9, 10**9]}, offsets=False),
        _changed("sizes-overflow", {"sizes": [2**40, 2**40], "tile:sizes": [2**39, 2**39]}, offsets=False),
        _changed("index-two-past-the-end", {"tile:sizes[3]": 4}, "tile:sizes"),
        _changed("index-far-past-the-end", {"tile:sizes[999999999999]": 4}, "tile:sizes"),
        _changed("index-negative", {"tile:sizes[-1]": 4}, "tile:sizes"),
        _changed("size-table-of-larger-raw", {"size_table": [48] * 9}, gap=400),
    ]  # fmt: skip
    for shared, table, ours, other in (((2, 1), 9, "12", "9"), ((1, 1), 9, "9", "9")):
        if ours == other:
            continue
        own = {"offset_table": list(range(1000, 1000 + 24 * table, 24)), "overlap": list(shared)}
        cases.append(_changed(f"overlap-other-reading-{shared}", own, "offset_table", ours, other, tail=b"x" * 999))
    return cases


def levels() -> list[Case]:
    """Levels that contradict themselves."""
    three = pyramid((17, 13), [1, 2, 4], "int16")
    table: tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...] = (
        ("no-scales", {"level_scales": None}, ("level_scales",)),
        ("scales-short", {"level_scales": [1, 2]}, ("level_scales",)),
        ("scales-long", {"level_scales": [1, 2, 4, 8]}, ("level_scales",)),
        ("scales-zero", {"level_scales": [1, 0, 4]}, ("level_scales",)),
        ("scales-negative", {"level_scales": [1, -2, 4]}, ("level_scales",)),
        ("scales-float", {"level_scales": [1, 1.5, 4]}, ("level_scales",)),
        ("scales-text", {"level_scales": "1 2 4"}, ("level_scales",)),
        ("scales-vector-short", {"level_scales": [[1, 1], [2], [4, 4]]}, ("level_scales",)),
        ("scales-vector-zero", {"level_scales": [[1, 1], [2, 0], [4, 4]]}, ("level_scales",)),
        ("scales-first-two", {"level_scales": [2, 2, 4]}, ("level_scales",)),
        ("scales-first-vector", {"level_scales": [[1, 2], [2, 2], [4, 4]]}, ("level_scales",)),
        ("tile-sizes-short", {"level_tile_sizes": [[4, 4]]}, ("level_tile_sizes",)),
        ("tile-sizes-zero", {"level_tile_sizes": [[4, 4], [4, 0], [4, 4]]}, ("level_tile_sizes",)),
        ("tile-sizes-flat", {"level_tile_sizes": [4, 4, 4]}, ("level_tile_sizes",)),
        ("both", {"levels_stored": [0, 1, 2], "levels_virtual": [1]}, ("levels_",)),
        ("neither", {"levels_stored": [0, 1], "levels_virtual": []}, ("offset_table",)),
        ("stored-out-of-range", {"levels_stored": [0, 1, 3]}, ("levels_stored",)),
        ("stored-negative", {"levels_stored": [0, 1, -1]}, ("levels_stored",)),
        ("stored-twice", {"levels_stored": [0, 1, 1]}, ("levels_stored",)),
        ("stored-text", {"levels_stored": "0"}, ("levels_stored",)),
        ("virtual-out-of-range", {"levels_virtual": [9]}, ("levels_virtual",)),
        ("virtual-zero", {"levels_virtual": [0]}, ("levels_virtual",)),
        ("method-unknown", {"downsample_method": "median"}, ("downsample_method",)),
        ("method-number", {"downsample_method": 2}, ("downsample_method",)),
        ("level-offsets-text", {"level_offsets": ["a", "b", "c"]}, ("level_offsets",)),
        ("stored-alone-table-of-all", {"levels_stored": [0, 2]}, ("offset_table",)),
        ("quality-number", {"level_quality": [1, 2, 3]}, ("level_quality",)),
    )
    cases = []
    for name, change, refused in table:
        named = {f"tile:{key}": value for key, value in change.items()}
        tiled = Tiled(levels=three, tile=(4, 3), scales=[1, 2, 4], change=named)
        cases.append(bad(f"levels-{name}", tiled, *(f"tile:{word}" for word in refused)))
    odd = [three[0], values((13, 10), "int16"), three[2]]
    cases.append(bad("levels-neither-floor-nor-ceil", Tiled(levels=odd, tile=(4, 3), scales=[1, 2, 4]), "offset_table"))
    rows = [values((24, 17)), values((12, 9))]
    variable = {"tile": (4, 3), "scales": [1, 2], "edges": "variable"}
    cases.append(bad("levels-ceil-by-size-alone", Tiled(levels=rows, sizes=True, **variable), "size_table"))
    return cases


def bombs() -> list[Case]:
    """Tiles that inflate to more or less than they should, or not at all: known when they are read."""
    long: dict[str, Callable[[], bytes]] = {
        "gzip": lambda: gzip.compress(bytes(10**7)), "bzip2": lambda: bz2.compress(bytes(10**7)),
        "zstd": lambda: zstandard.compress(bytes(10**7)), "lz4": lambda: lz4.frame.compress(bytes(10**7)),
    }  # fmt: skip
    spoils: dict[str, Callable[[str], bytes]] = {
        "inflates": lambda name: long[name](),
        "one-more": lambda name: PACK[name](bytes(25)),
        "one-less": lambda name: PACK[name](bytes(23)),
        "cut": lambda name: PACK[name](bytes(range(24)))[:-6],
        "noise": lambda _: b"\x00\x01\x02\x03" * 8,
        "empty": lambda name: PACK[name](b""),
    }
    cases = []
    for (way, spoil), name, edges in itertools.product(spoils.items(), long, ("pad", "variable")):
        made = spoil(name)
        tiled = Tiled(levels=[WHOLE], tile=(4, 3), compression=name, edges=edges, spoil=_replaces(made))
        cases.append(bad(f"tile-{way}-{name}-{edges}", tiled, reading=True))
    for name, make in long.items():
        over = Tiled(levels=[WHOLE], tile=(4, 3), overlap=(1, 1), compression=name, spoil=_replaces(make()))
        cases.append(bad(f"tile-inflates-overlap-{name}", over, reading=True))
    return cases


def _replaces(made: bytes) -> Callable[[list[bytes]], None]:
    def spoil(blobs: list[bytes]) -> None:
        blobs[4] = made

    return spoil


def _cut(tiled: Tiled, name: str, *refused: str, off: int = 3, **more: Any) -> Case:
    """Give a case of a file that ends too early."""

    def make(folder: Path) -> Path:
        path = tiled.internal(folder)
        path.write_bytes(path.read_bytes()[:-off])
        return path

    return Case(name, make, refused=refused or ("jnrrd",), **more)


def truncated() -> list[Case]:
    """Files that end within a tile, or within the header."""
    two = {"levels": [WHOLE], "tile": (4, 3)}
    return [
        _cut(Tiled(**two), "truncated-raw", "tile:offset_table"),
        _cut(Tiled(**two, offsets=False), "truncated-no-offsets"),
        _cut(Tiled(**two, compression="zstd"), "truncated-zstd", "tile:"),
        _cut(Tiled(**two, overlap=(1, 1)), "truncated-overlap", "tile:offset_table"),
        _cut(Tiled(**two, compression="zstd", form="chunked"), "truncated-chunked", "tile:"),
        _cut(Tiled(**two, compression="gzip", sizes=False), "truncated-next-offset", reading=True, warns="size_table"),
        _cut(Tiled(**two), "truncated-header", off=700),
    ]


CASES = [*core_fields(), *tile_fields(), *together(), *levels(), *bombs(), *truncated()]
