"""Tiled files that must read back exactly: types, dimensions, edges, tables, compression, overlap, header rules."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from tests.nrrd.examiner import PACK, URI, Case, Tiled, core, cut, good, header, raw, values

TYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
TYPES += ["float16", "float32", "float64", "complex64", "complex128"]
SIZES = ((11,), (11, 7), (9, 6, 5), (7, 5, 3, 4), (5, 4, 3, 3, 2))
TILES = ((4,), (4, 3), (4, 4, 2), (3, 5, 2, 3), (2, 3, 2, 3, 1))


def types() -> list[Case]:
    """Every type at both endians; one byte needs none."""
    cases = [
        good(f"type-{dtype}-{endian}", Tiled(levels=[values((7, 5), dtype)], tile=(3, 2), endian=endian))
        for dtype in TYPES
        for endian in ("little", "big")
    ]
    return cases + [
        good(f"type-{dtype}-no-endian", Tiled(levels=[values((7, 5), dtype)], tile=(3, 2), endian=None))
        for dtype in ("int8", "uint8")
    ]


def shapes() -> list[Case]:
    """One to five dimensions, edges padded and variable, raw and compressed, both endians."""
    cases = []
    for sizes, tile in zip(SIZES, TILES, strict=True):
        for edges, endian, packed in (("pad", "big", None), ("variable", "little", None), ("variable", "big", "zstd")):
            tiled = Tiled(levels=[values(sizes, "int16")], tile=tile, edges=edges, endian=endian, compression=packed)
            cases.append(good(f"{len(sizes)}d-{edges}-{endian}-{packed}", tiled))
    whole = values((6, 4), "uint16")
    cases += [
        good("one-tile-larger-than-all", Tiled(levels=[whole], tile=(16, 16))),
        good("one-tile-larger-variable", Tiled(levels=[whole], tile=(16, 16), edges="variable")),
        good("tiles-of-one-voxel", Tiled(levels=[whole], tile=(1, 1))),
        good("tile-exactly-all", Tiled(levels=[whole], tile=(6, 4))),
        good("variable-without-size-table", Tiled(levels=[values((7, 5))], tile=(3, 2), edges="variable", sizes=False)),
    ]
    return cases


def subsets() -> list[Case]:
    """tile:dimensions names some of the dimensions; the others are whole in each tile."""
    cases = []
    for dims, tile in (((0,), (3,)), ((1,), (2,)), ((2,), (2,)), ((0, 2), (4, 2)), ((1, 2), (3, 2))):
        name = "".join(map(str, dims))
        whole = values((7, 5, 3), "int32")
        cases.append(good(f"subset-{name}", Tiled(levels=[whole], tile=tile, dims=dims)))
        cases.append(
            good(
                f"subset-{name}-bz2", Tiled(levels=[whole], tile=tile, dims=dims, edges="variable", compression="bzip2")
            )
        )
    over = Tiled(levels=[values((7, 9, 3))], tile=(5,), dims=(1,), overlap=(2,))
    return [*cases, good("subset-overlap", over)]


def tables() -> list[Case]:
    """Where tiles are: computed, summed, from the next offset, shuffled, with gaps."""
    whole = values((10, 7), "uint16")
    cases = [
        good("no-offsets-raw", Tiled(levels=[whole], tile=(4, 3), offsets=False)),
        good("no-offsets-raw-variable", Tiled(levels=[whole], tile=(4, 3), offsets=False, edges="variable")),
        good("no-offsets-raw-size-table", Tiled(levels=[whole], tile=(4, 3), offsets=False, sizes=True)),
        good("offsets-gap", Tiled(levels=[whole], tile=(4, 3), gap=97)),
        good("tail-ignored", Tiled(levels=[whole], tile=(4, 3), tail=b"\x01" * 50)),
        good("chunked-raw-shuffled", Tiled(levels=[whole], tile=(4, 3), form="chunked", shuffle=3)),
        good("contiguous-raw-shuffled", Tiled(levels=[whole], tile=(4, 3), shuffle=3)),
        good(
            "byte-skip-no-offsets", Tiled(levels=[whole], tile=(4, 3), offsets=False, gap=13, extra={"byte_skip": 13})
        ),
        good("byte-skip-with-offsets", Tiled(levels=[whole], tile=(4, 3), extra={"byte_skip": 13})),
        good("format-missing", Tiled(levels=[whole], tile=(4, 3), change={"tile:format": None})),
        good("encoding-raw-named", Tiled(levels=[whole], tile=(4, 3), extra={"encoding": "raw"})),
        good("padding-value", Tiled(levels=[whole], tile=(4, 3), padding=9), fits=lambda array: array.fill_value == 9),
        good("padding-default", Tiled(levels=[whole], tile=(4, 3)), fits=lambda array: array.fill_value == 0),
    ]
    cut_off = Tiled(levels=[whole], tile=(4, 3), offsets=False, compression="gzip", gap=5, extra={"byte_skip": 5})
    cases.append(good("byte-skip-size-table", cut_off))
    return cases


def packed() -> list[Case]:
    """Every compression, with and without each table."""
    whole = values((10, 7), "uint16")
    cases = []
    for name in PACK:
        tiled = {"levels": [whole], "tile": (4, 3), "compression": name}
        cases += [
            good(f"{name}-both-tables", Tiled(**tiled)),
            good(f"{name}-size-table-only", Tiled(**tiled, offsets=False)),
            good(f"{name}-shuffled", Tiled(**tiled, form="chunked", shuffle=8)),
            good(f"{name}-levels", Tiled(**tiled, change={"tile:compression_levels": [1] * 9})),
            good(
                f"{name}-next-offset", Tiled(**tiled, sizes=False), warns="" if name == "raw" else "size_table"
            ),
        ]  # fmt: skip
    same = Tiled(levels=[whole], tile=(4, 3), compression="gzip", extra={"encoding": "gzip"})
    cases.append(good("encoding-same-as-compression", same))
    cases.append(
        good(
            "encoding-raw-compressed", Tiled(levels=[whole], tile=(4, 3), compression="lz4", extra={"encoding": "raw"})
        )
    )
    cases.append(good("gzip-two-members", Tiled(levels=[whole], tile=(4, 3), compression="gzip", spoil=_two_members)))
    cases.append(good("zstd-no-content-size", Tiled(levels=[whole], tile=(4, 3), compression="zstd", spoil=_sizeless)))
    return cases


def _two_members(blobs: list[bytes]) -> None:
    plain = gzip.decompress(blobs[0])
    blobs[0] = gzip.compress(plain[:9], mtime=0) + gzip.compress(plain[9:], mtime=0)


def _sizeless(blobs: list[bytes]) -> None:
    pack = zstandard.ZstdCompressor(write_content_size=False)
    blobs[:] = [pack.compress(zstandard.decompress(blob)) for blob in blobs]


def overlaps() -> list[Case]:
    """Neighbours share voxels; the leftover of the last tile is read too."""
    table: tuple[tuple[str, Sequence[int], Sequence[int], Sequence[int]], ...] = (
        ("1d-exact", (10,), (4,), (1,)),
        ("1d-leftover", (11,), (4,), (2,)),
        ("1d-large-overlap", (13,), (5,), (4,)),
        ("1d-end-within-overlap", (8,), (4,), (2,)),
        ("1d-one-short", (9,), (4,), (1,)),
        ("1d-not-larger", (2,), (4,), (3,)),
        ("1d-equal", (3,), (5,), (3,)),
        ("2d-one-axis", (10, 7), (4, 3), (2, 0)),
        ("2d-both", (10, 7), (4, 3), (1, 1)),
        ("2d-one-tile-axis", (10, 2), (4, 5), (1, 3)),
        ("3d", (9, 8, 7), (4, 5, 3), (1, 2, 1)),
        ("3d-zero", (9, 8, 7), (4, 5, 3), (0, 0, 0)),
        ("4d", (5, 6, 4, 5), (3, 3, 2, 4), (1, 2, 0, 1)),
    )
    ways: tuple[tuple[str, dict[str, Any]], ...] = (
        ("raw", {}),
        ("variable", {"edges": "variable"}),
        ("zstd-variable", {"edges": "variable", "compression": "zstd"}),
        ("gzip-shuffled", {"compression": "gzip", "form": "chunked", "shuffle": 2}),
        ("no-offsets", {"offsets": False, "endian": "big"}),
    )
    return [
        good(f"overlap-{name}-{way}", Tiled(levels=[values(sizes, "int16")], tile=tile, overlap=shared, **choice))
        for name, sizes, tile, shared in table
        for way, choice in ways
    ]


def _text(name: str, whole: np.ndarray[Any, Any], text: bytes, **more: Any) -> Case:
    """Give a case of a header written out, followed by the tiles of 4 x 3 without an offset table."""
    tiles = b"".join(raw(part) for _, part in cut(whole, (4, 3)))

    def make(folder: Path) -> Path:
        (folder / "volume.jnrrd").write_bytes(text + tiles)
        return folder / "volume.jnrrd"

    return Case(name, make, {"data": whole}, **more)


def headers() -> list[Case]:
    """Line ends, prefixes, nesting, paths, precedence, what ends the header."""
    whole = values((10, 7), "uint16")
    start, declared = core(whole), ("extensions", {"tile": URI})
    own: dict[str, Any] = {"enabled": True, "dimensions": [0, 1], "sizes": [4, 3], "storage": "internal"}
    own["format"] = "contiguous"
    flat = [(f"tile:{key}", value) for key, value in own.items()]
    rest = [line for line in flat if line[0] != "tile:sizes"]
    odd = np.frombuffer(b"\xff\xfe123\n{}[]\n\n", np.uint8)
    starts = {name: np.frombuffer(text, np.uint8).reshape(3, 4) for name, text in (
        ("not-utf8", odd.tobytes()[:12].ljust(12, b"\n")), ("number", b'123\n\n\n{"a":1'), ("list", b'[1]\n{"a":1}\n'),
        ("text", b'"a"\n{"b":1}\n'), ("null", b"null\n\n\n\n\n\n\n\n"),
    )}  # fmt: skip
    one = [("tile:sizes", [4, 3]) if key == "tile:sizes" else (key, value) for key, value in flat]
    cases = [
        _text(f"data-begins-{name}", data, header([*core(data), declared, *one], end=""))
        for name, data in starts.items()
    ]
    broken = np.frombuffer(b'{"a": 1\n\n\n\n\n', np.uint8).reshape(3, 4)
    like_a_line = [*core(broken), declared, *one]
    cases += [
        _text("data-begins-like-a-line", broken, header(like_a_line)),
        replace(_text("line-cut", broken, header(like_a_line, end="")), pixels={}, refused=("a", "blank line")),
    ]
    newline = np.full((3, 4), 10, np.uint8)
    cases += [
        _text("blank-line-then-newlines", newline, header([*core(newline), declared, *flat])),
        _text("blank-crlf-then-newlines", newline, header([*core(newline), declared, *flat], "\r\n")),
        _text("crlf", whole, header([*start, declared, *flat], "\r\n")),
        _text(
            "other-prefix",
            whole,
            header([*start, ("extensions", {"brick9": URI}), *[(f"brick9:{k}", v) for k, v in own.items()]]),
        ),
        _text(
            "tile-is-another",
            whole,
            header(
                [
                    *start,
                    ("extensions", {"b": URI, "tile": "https://example.org/floor"}),
                    ("tile:sizes", "large"),
                    *[(f"b:{k}", v) for k, v in own.items()],
                ]
            ),
        ),
        _text("declared-after", whole, header([*start, *flat, declared])),
        _text(
            "extensions-twice", whole, header([*start, ("extensions", {"q": "https://example.org/q"}), *flat, declared])
        ),
        _text(
            "extensions-twice-tile-first",
            whole,
            header([*start, declared, *flat, ("extensions", {"q": "https://example.org/q"})]),
        ),
        _text("nested", whole, header([*start, declared, ("tile", own)])),
        _text(
            "nested-and-flat",
            whole,
            header([*start, declared, ("tile", own | {"sizes": [9, 9]}), ("tile:sizes", [4, 3])]),
        ),
        _text(
            "flat-before-nested",
            whole,
            header([*start, declared, ("tile:sizes", [4, 3]), ("tile", own | {"sizes": [9, 9]})]),
        ),
        _text("element-path", whole, header([*start, declared, *rest, ("tile:sizes", [4, 9]), ("tile:sizes[1]", 3)])),
        _text(
            "element-path-first", whole, header([*start, declared, *rest, ("tile:sizes[1]", 3), ("tile:sizes", [4, 9])])
        ),
        _text("append", whole, header([*start, declared, *rest, ("tile:sizes", [4]), ("tile:sizes[1]", 3)])),
        _text(
            "append-from-nothing", whole, header([*start, declared, *rest, ("tile:sizes[0]", 4), ("tile:sizes[1]", 3)])
        ),
        _text("key-order", whole, header([start[0], *flat[::-1], declared, *start[:0:-1]])),
        _text("unicode-label", whole, header([*start, declared, *flat, ("labels", ["λ", "θ"])])),
        _text(
            "unknown-core-key", whole, header([*start, declared, *flat, ("content", "a scan"), ("measurement", None)])
        ),
    ]
    infinite = header([*start, declared, *flat, ("tile:metadata", [{"max": float("inf"), "min": None}] * 9)])
    cases.append(_text("infinity-and-null", whole, infinite))
    spaced = (
        "".join(f"  {json.dumps({key: value}, indent=None)}  \n" for key, value in [*start, declared, *flat]) + "\n"
    )
    cases.append(_text("spaces-around-lines", whole, spaced.encode()))
    every = [*start, declared, *flat]
    cases.append(_text("blank-line-of-spaces", whole, header(every, end=" \t\n")))
    cases.append(_text("blank-line-of-spaces-crlf", whole, header(every, "\r\n", end="  \r\n")))
    cases.append(_text("uri-in-capitals", whole, header([*start, ("extensions", {"tile": URI.upper()}), *flat])))
    raw_letters = "".join(
        json.dumps({k: v}, ensure_ascii=False) + "\n" for k, v in [*start, ("labels", ["é", "ü"]), declared, *flat]
    )
    cases.append(_text("utf8-letters", whole, (raw_letters + "\n").encode()))
    return cases


CASES = [*types(), *shapes(), *subsets(), *tables(), *packed(), *overlaps(), *headers()]
