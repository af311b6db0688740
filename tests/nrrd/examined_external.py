"""Tiled files whose tiles, or whose data, are in files of their own."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.nrrd.examined_levels import pyramid
from tests.nrrd.examiner import Case, Tiled, good, header, raw, values

Namer = Callable[[int, tuple[int, ...], int], str]


def _files(tiled: Tiled, name: Namer) -> list[dict[str, Any]]:
    """List the files of every tile."""
    return [
        {"level": level, "indices": list(indices), "file": name(level, indices, at)}
        for level, tiles in enumerate(tiled.cuts())
        for at, (indices, _) in enumerate(tiles)
    ]


def _outside(case: str, tiled: Tiled, name: Namer, own: dict[str, Any], **more: Any) -> Case:
    """Give a case of tiles in their own files."""
    pixels = good(case, tiled).pixels
    return Case(case, lambda folder: tiled.external(folder, name, **own), pixels, **more)


def external() -> list[Case]:
    """Tiles by pattern: each placeholder, format specs, levels, labels; compression and overlap."""
    flat, deep = values((10, 7), "uint16"), values((6, 5, 4), "int16")
    two = Tiled(levels=[flat], tile=(4, 3))
    three = Tiled(levels=[deep], tile=(3, 2, 2), endian="big")
    five = Tiled(levels=[values((4, 3, 2, 3, 2))], tile=(2, 2, 1, 2, 1))
    levels = Tiled(levels=pyramid((16, 12), [1, 2, 4]), tile=(4, 4), scales=[1, 2, 4])
    counts = [sum(len(tiles) for tiles in levels.cuts()[:at]) for at in range(3)]
    sub = Tiled(levels=[deep], tile=(3, 2), dims=(0, 2))
    labelled = Tiled(levels=[flat], tile=(4, 3), extra={"labels": ["across", "down"]})
    cases = [
        _outside("pattern-xy", two, lambda _, at, __: f"t/{at[1]}_{at[0]}.raw", {"pattern": "t/{y}_{x}.raw"}),
        _outside("pattern-xyz", three, lambda _, at, __: "t{}_{}_{}".format(*at), {"pattern": "t{x}_{y}_{z}"}),
        _outside("pattern-i", three, lambda _, __, i: f"b{i}.raw", {"pattern": "b{i}.raw"}),
        _outside("pattern-spec", two, lambda _, at, __: f"t{at[0]:03d}-{at[1]:02}", {"pattern": "t{x:03d}-{y:02}"}),
        _outside("pattern-hex", two, lambda _, __, i: f"t{i:04x}", {"pattern": "t{i:04x}"}),
        _outside("pattern-d", five, lambda _, at, __: "-".join(map(str, at)), {"pattern": "{d0}-{d1}-{d2}-{d3}-{d4}"}),
        _outside("pattern-labels", labelled, lambda _, at, __: "q{}.{}".format(*at), {"pattern": "q{across}.{down}"}),
        _outside("pattern-subset", sub, lambda _, at, __: "s{}.{}".format(*at), {"pattern": "s{x}.{z}"}),
        _outside("pattern-subset-d", sub, lambda _, at, __: "s{}.{}".format(*at), {"pattern": "s{d0}.{d2}"}),
        _outside("pattern-level", levels, lambda l, at, _: f"l{l}/{at[0]}.{at[1]}", {"pattern": "l{l}/{x}.{y}"}),  # noqa: E741
        _outside("pattern-level-i", levels, lambda l, _, i: f"l{l}/{i}", {"pattern": "l{l}/{i}"}),  # noqa: E741
        _outside("pattern-global-i", levels, lambda l, _, i: f"g{counts[l] + i}", {"pattern": "g{i}"}),  # noqa: E741
        _outside("pattern-braces", two, lambda _, __, i: f"{{a}}{i}", {"pattern": "{{a}}{i}"}),
        _outside("pattern-space", two, lambda _, __, i: f"a b#{i}?%20", {"pattern": "a b#{i}?%20"}),
        _outside("base-dir", two, lambda _, __, i: f"sub/b{i}", {"pattern": "b{i}", "base_dir": "sub"}),
        _outside("base-dir-slash", two, lambda _, __, i: f"sub/b{i}", {"pattern": "b{i}", "base_dir": "./sub/"}),
    ]
    for packed, edges in itertools.product(("raw", "gzip", "bzip2", "zstd", "lz4"), ("pad", "variable")):
        tiled = Tiled(levels=[deep], tile=(4, 3, 3), compression=packed, edges=edges, endian="big")
        cases.append(_outside(f"external-{packed}-{edges}", tiled, lambda _, __, i: f"b{i}", {"pattern": "b{i}"}))
    for packed in (None, "gzip"):
        tiled = Tiled(levels=[deep], tile=(4, 3, 3), overlap=(1, 1, 2), edges="variable", compression=packed)
        cases.append(_outside(f"external-overlap-{packed}", tiled, lambda _, __, i: f"b{i}", {"pattern": "b{i}"}))
    return cases + _listed(two, levels) + _missing(two)


def _listed(two: Tiled, levels: Tiled) -> list[Case]:
    """Tiles listed one by one, alone or before a pattern, and where they may lie."""

    def name(level: int, indices: tuple[int, ...], at: int) -> str:
        return f"f{level}/{indices[0]}-{indices[1]}-{at}"

    plain = [{key: entry[key] for key in ("indices", "file")} for entry in _files(two, name)]
    some = plain[1:4]

    def mixed(level: int, indices: tuple[int, ...], at: int) -> str:
        return name(level, indices, at) if at in (1, 2, 3) else f"p{at}"

    def away(folder: Path, base: str) -> Path:
        inner = folder / "inner"
        inner.mkdir()
        two.external(folder, lambda _, __, i: f"far/b{i}")
        path = inner / "volume.jnrrd"
        path.write_bytes(header(two.lines(two.fields("external") | {"pattern": "b{i}", "base_dir": base})))
        return path

    due, allow = {"data": two.levels[0]}, {"allow": lambda folder: [str(folder)]}
    return [
        _outside("files", two, name, {"files": plain[::-1]}),
        _outside("files-with-level-0", two, name, {"files": _files(two, name)}),
        _outside("files-levels", levels, name, {"files": _files(levels, name)[::-1]}),
        _outside("files-and-pattern", two, mixed, {"files": some, "pattern": "p{i}"}),
        Case("base-dir-absolute-allowed", lambda folder: away(folder, str(folder / "far")), due, choices=allow),
        Case("base-dir-escape-allowed", lambda folder: away(folder, "../far"), due, choices=allow),
        Case("base-dir-absolute", lambda folder: away(folder, str(folder / "far")), refused=("base_dir", "allow")),
        Case("base-dir-escape", lambda folder: away(folder, "../far"), refused=("base_dir", "allow")),
        Case(
            "files-escape",
            lambda folder: two.external(folder, name, files=[plain[0] | {"file": "../x"}, *plain[1:]]),
            refused=("tile:files",),
        ),
        Case("pattern-escape", lambda folder: two.external(folder, name, pattern="../{i}"), refused=("tile:pattern",)),
    ]


def _missing(two: Tiled) -> list[Case]:
    """A tile's file that is not there, allowed and not."""
    whole = two.levels[0].copy()
    whole[3:6, 4:8] = 0
    filled = Tiled(levels=two.levels, tile=(4, 3), padding=7)
    seven = whole.copy()
    seven[3:6, 4:8] = 7
    plain = [{"indices": list(at), "file": f"b{i}"} for i, (at, _) in enumerate(two.cuts()[0])]

    def gone(_: int, __: tuple[int, ...], at: int) -> str:
        return "" if at == 4 else f"b{at}"

    by, listed, choice = {"pattern": "b{i}"}, {"files": plain[:4] + plain[5:]}, {"allow_missing": True}
    return [
        Case("missing-allowed", lambda f: two.external(f, gone, **by), {"data": whole}, choices=choice),
        Case("missing-padding", lambda f: filled.external(f, gone, **by), {"data": seven}, choices=choice),
        Case("missing-unlisted-allowed", lambda f: two.external(f, gone, **listed), {"data": whole}, choices=choice),
        Case("missing", lambda f: two.external(f, gone, **by), refused=("b4", "allow")),
        Case("missing-unlisted", lambda f: two.external(f, gone, **listed), refused=("tile:files",)),
    ]


def elsewhere() -> list[Case]:
    """Internal tiling of a detached file, and tiling switched off."""
    whole = values((10, 7), "uint16")

    def detached(folder: Path, **own: Any) -> Path:
        tiled = Tiled(levels=[whole], tile=(4, 3), **own)
        blobs = tiled.stored()
        (folder / "volume.raw").write_bytes(b"".join(blobs))
        lengths = [len(blob) for blob in blobs]
        tables: dict[str, Any] = {"size_table": lengths} if tiled.compression else {}
        if tiled.offsets:
            tables["offset_table"] = [sum(lengths[:at]) for at in range(len(lengths))]
        path = folder / "volume.jnrrd"
        lines = [*tiled.lines(tiled.fields() | {"format": "contiguous"} | tables), ("data_file", "volume.raw")]
        path.write_bytes(header(lines))
        return path

    def off(folder: Path) -> Path:
        lines = [*Tiled(levels=[whole], tile=(4, 3), change={"tile:enabled": False}).lines({"sizes": "anything"})]
        (folder / "volume.jnrrd").write_bytes(header(lines) + raw(whole))
        return folder / "volume.jnrrd"

    return [
        Case("detached", detached, {"data": whole}),
        Case("detached-no-offsets", lambda folder: detached(folder, offsets=False), {"data": whole}),
        Case("detached-zstd", lambda folder: detached(folder, compression="zstd"), {"data": whole}),
        Case("detached-overlap", lambda folder: detached(folder, overlap=(1, 1)), {"data": whole}),
        Case("disabled", off, {"data": whole}),
    ]


CASES = [*external(), *elsewhere()]
