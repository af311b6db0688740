"""Names of files and headers that are made to hurt: refused, each with its field."""

from pathlib import Path
from typing import Any

from tests.nrrd.examined_levels import pyramid
from tests.nrrd.examined_refused import MANY, WHOLE
from tests.nrrd.examiner import URI, Case, Tiled, core, header, raw


def _outside(name: str, own: dict[str, Any], *refused: str, deep: bool = False) -> Case:
    """Give a case of external tiles b0..b8 (all there) whose names are given wrongly."""
    scales = {"scales": [1, 2]} if deep else {}
    whole = pyramid((10, 7), [1, 2], "uint16") if deep else [WHOLE]
    tiled = Tiled(levels=whole, tile=(4, 3), **scales)
    return Case(name, lambda folder: tiled.external(folder, lambda _, __, i: f"b{i}", **own), refused=refused)


def external() -> list[Case]:
    """Patterns and listings that name no tile, or what they must not."""
    patterns = (
        "b{q}",
        "b{x:s}",
        "b{x!r}",
        "b{x.real}",
        "b{x[0]}",
        "b{}",
        "b{0}",
        "b{i",
        "b}",
        "b{x:999999999999d}",
        "b{i:{x}}",
        "b{l.__class__}",
        "../b{i}",
        "/etc/b{i}",
        "file:///etc/b{i}",
        "http://127.0.0.1:9/b{i}",
        "b{i}\0",
        "b{z}",
        "b{d2}",
        "b{x:.3f}",
        "memory://b{i}",
        "b{i}/../../../b{i}",
        "",
    )
    every = [{"indices": [x, y], "file": f"b{x + 3 * y}"} for y in range(3) for x in range(3)]
    first, rest = every[0], every[1:]
    files: tuple[Any, ...] = (
        rest,
        [*every, first | {"file": "b1"}],
        [{"indices": [3, 0], "file": "b0"}, *every],
        [{"indices": [0]} | {"file": "b0"}, *rest],
        [{"indices": [0, 0]}, *rest],
        [{"file": "b0"}, *rest],
        [first | {"file": 5}, *rest],
        [first | {"indices": [-1, 0]}, *rest],
        [first | {"indices": [0.5, 0]}, *rest],
        [first | {"level": 1}, *rest],
        [first | {"level": "0"}, *rest],
        [7, *rest],
        "b0",
        [first | {"file": "/etc/passwd"}, *rest],
        [first | {"file": "../../b0"}, *rest],
        [first | {"file": "http://127.0.0.1:9/x"}, *rest],
        [first | {"file": ""}, *rest],
        [first | {"file": "b\0"}, *rest],
        [first | {"indices": [MANY, 0]}, *rest],
        {"0": "b0"},
        [],
    )
    cases = [_outside(f"pattern-{at}", {"pattern": text}, "tile:pattern") for at, text in enumerate(patterns)]
    cases += [_outside(f"files-{at}", {"files": listed}, "tile:files") for at, listed in enumerate(files)]
    return [
        *cases,
        _outside("files-overlap-other-reading", {"files": every, "overlap": [2, 1]}, "tile:files", "9", "12"),
        _outside("pattern-number", {"pattern": 5}, "tile:pattern"),
        _outside("pattern-names-unknown", {"pattern": "{x}{why}{zed}"}, "tile:pattern", "why", "zed"),
        _outside("no-pattern-no-files", {}, "tile:pattern", "tile:files"),
        _outside("two-levels-without-l-or-i", {"pattern": "b{x}.{y}"}, "tile:pattern", deep=True),
        _outside("base-dir-number", {"pattern": "b{i}", "base_dir": 5}, "tile:base_dir"),
        _outside("base-dir-url", {"pattern": "b{i}", "base_dir": "http://127.0.0.1:9/"}, "tile:base_dir"),
        _outside("base-dir-etc", {"pattern": "b{i}", "base_dir": "/etc"}, "tile:base_dir"),
        _outside("base-dir-up", {"pattern": "b{i}", "base_dir": "a/../.."}, "tile:base_dir"),
        Case("external-truncated", _short_file, refused=("b4",), reading=True),
        Case("data-file-escapes", lambda folder: _plain(folder, data_file="../x.raw"), refused=("data_file", "allow")),
        Case(
            "data-file-absolute", lambda folder: _plain(folder, data_file="/etc/x.raw"), refused=("data_file", "allow")
        ),
    ]


def _short_file(folder: Path) -> Path:
    path = Tiled(levels=[WHOLE], tile=(4, 3)).external(folder, lambda _, __, i: f"b{i}", pattern="b{i}")
    (folder / "b4").write_bytes((folder / "b4").read_bytes()[:-1])
    return path


def _plain(folder: Path, **more: Any) -> Path:
    (folder / "volume.jnrrd").write_bytes(header(core(WHOLE, **more)) + raw(WHOLE))
    return folder / "volume.jnrrd"


def _bytes(name: str, text: bytes, *refused: str) -> Case:
    """Give a case of these very bytes."""

    def make(folder: Path) -> Path:
        (folder / "volume.jnrrd").write_bytes(text)
        return folder / "volume.jnrrd"

    return Case(name, make, refused=refused or ("volume.jnrrd",))


def hostile() -> list[Case]:
    """Headers made to hurt."""
    start, data = header([*core(WHOLE), ("extensions", {"tile": URI})], end=""), b"\n" + raw(WHOLE)
    path = "a" + ".a" * 50_000
    return [
        _bytes("deep-lists", start + b'{"tile:metadata": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n" + data),
        _bytes("deep-objects", start + b'{"a": ' * 100_000 + b"1" + b"}" * 100_000 + b"\n" + data),
        _bytes("deep-path", start + f'{{"tile:{path}": 1}}\n'.encode() + data),
        _bytes("deep-indices", start + f'{{"tile:sizes{"[0]" * 50_000}": 1}}\n'.encode() + data),
        _bytes("number-of-many-digits", start + b'{"byte_skip": ' + b"9" * 10_000 + b"}\n" + data),
        _bytes("empty", b""),
        _bytes("line-of-no-key", start + b"{}\n" + data, "header"),
        _bytes("line-of-two-keys", start + b'{"byte_skip": 0, "line_skip": 0}\n' + data, "header", "line_skip"),
        _bytes(
            "uri-of-another-version",
            header([*core(WHOLE), ("extensions", {"t": URI.replace("1", "2")})]) + data,
            "extensions",
        ),
        _bytes("undeclared", header([*core(WHOLE), ("tile:enabled", True)]) + data, "tile:enabled"),
        _bytes("first-line-alone", b'{"jnrrd": "0004"}\n', "type", "dimension", "sizes"),
        _bytes("first-line-other", b'{"type": "uint8"}\n{"jnrrd": "0004"}\n\n' + data),
        _bytes("magic-number", header([("jnrrd", 4), *core(WHOLE)[1:]]) + data, "jnrrd"),
        _bytes("magic-later-version", header([("jnrrd", "0099"), *core(WHOLE)[1:]]) + data, "jnrrd"),
        _bytes("plain-truncated", start + data[:-1]),
        _bytes("plain-nothing", start),
    ]


CASES = [*external(), *hostile()]
