"""Plain JNRRD and NRRD files, and what headers say beside the voxels."""

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.nrrd.examiner import Case, Tiled, core, header, raw, values

WHOLE = values((9, 7, 5), "int16")
COSTS = "whole|one chunk"
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda plain: gzip.compress(plain, mtime=0), "bzip2": bz2.compress, "raw": bytes,
}  # fmt: skip


def _file(body: bytes, name: str = "volume.jnrrd", beside: dict[str, bytes] | None = None) -> Callable[[Path], Path]:
    """Write a file, and others beside it."""

    def make(folder: Path) -> Path:
        for other, content in (beside or {}).items():
            (folder / other).parent.mkdir(exist_ok=True)
            (folder / other).write_bytes(content)
        (folder / name).write_bytes(body)
        return folder / name

    return make


def jnrrd() -> list[Case]:
    """Raw and compressed, attached and not, with bytes skipped."""
    due, plain = {"data": WHOLE}, raw(WHOLE)
    cases = []
    for name, pack in PACKED.items():
        warns = "" if name == "raw" else COSTS
        packed = pack(plain)
        cases += [
            Case(f"plain-{name}", _file(header(core(WHOLE, encoding=name)) + packed), due, warns=warns),
            Case(f"plain-{name}-detached", _file(header(core(WHOLE, encoding=name, data_file="v.dat")),
                 beside={"v.dat": packed}), due, warns=warns),
            Case(f"plain-{name}-big", _file(header(core(WHOLE, "big", encoding=name)) + pack(raw(WHOLE, "big"))), due,
                 warns=warns),
        ]  # fmt: skip
    slices = {f"s{at:02d}.raw": raw(WHOLE[at]) for at in range(5)}
    even = {f"s{2 * at}.raw": raw(WHOLE[at]) for at in range(5)}
    pattern = {"format": "s%02d.raw", "min": 0, "max": 4, "step": 1}
    five = raw(WHOLE[:2]), raw(WHOLE[2:])
    beside = {"v.dat": b"12345" + plain}
    cases += [
        Case("plain-no-encoding", _file(header(core(WHOLE)) + plain), due),
        Case("plain-byte-skip", _file(header(core(WHOLE, byte_skip=5)) + b"12345" + plain), due),
        Case("plain-byte-skip-end", _file(header(core(WHOLE, byte_skip=-1)) + b"1234567" + plain), due),
        Case("plain-tail", _file(header(core(WHOLE)) + plain + b"more"), due),
        Case("plain-line-skip", _file(header(core(WHOLE, line_skip=2)) + b"one\ntwo\n" + plain), due),
        Case("plain-line-and-byte-skip", _file(header(core(WHOLE, line_skip=1, byte_skip=2)) + b"a\nbc" + plain), due),
        Case("plain-detached-skip", _file(header(core(WHOLE, data_file="v.dat", byte_skip=5)), beside=beside), due),
        Case(
            "plain-detached-skip-end", _file(header(core(WHOLE, data_file="v.dat", byte_skip=-1)), beside=beside), due
        ),
        Case(
            "plain-detached-no-blank",
            _file(header(core(WHOLE, data_file="v.dat"), end=""), beside={"v.dat": plain}),
            due,
        ),
        Case("plain-files", _file(header(core(WHOLE, data_files=list(slices))), beside=slices), due),
        Case(
            "plain-files-of-several",
            _file(header(core(WHOLE, data_files=["a", "b"])), beside={"a": five[0], "b": five[1]}),
            refused=("data_files",),
        ),
        Case(
            "plain-files-one-missing",
            _file(header(core(WHOLE, data_files=["s00.raw", "s01.raw"])), beside=slices),
            refused=("data_files",),
        ),
        Case("plain-pattern", _file(header(core(WHOLE, data_file_pattern=pattern)), beside=slices), due),
        Case(
            "plain-pattern-step",
            _file(
                header(core(WHOLE, data_file_pattern={"format": "s%d.raw", "min": 0, "max": 8, "step": 2})), beside=even
            ),
            due,
        ),
        Case(
            "plain-pattern-short",
            _file(header(core(WHOLE, data_file_pattern=pattern | {"max": 3})), beside=slices),
            refused=("data_file_pattern",),
        ),
        Case(
            "plain-pattern-vast",
            _file(header(core(WHOLE, data_file_pattern=pattern | {"max": 10**18})), beside=slices),
            refused=("data_file_pattern",),
        ),
        Case(
            "plain-pattern-string",
            _file(header(core(WHOLE, data_file_pattern=pattern | {"format": "s%s"})), beside=slices),
            refused=("data_file_pattern",),
        ),
        Case(
            "plain-pattern-width",
            _file(header(core(WHOLE, data_file_pattern=pattern | {"format": "s%0999999999d"})), beside=slices),
            refused=("data_file_pattern",),
        ),
        Case("plain-detached-gone", _file(header(core(WHOLE, data_file="v.dat"))), refused=("v.dat",)),
        Case(
            "plain-gzip-truncated",
            _file(header(core(WHOLE, encoding="gzip")) + gzip.compress(plain)[:-9]),
            refused=(" ",),
            reading=True,
            warns=COSTS,
        ),
        Case(
            "plain-gzip-longer",
            _file(header(core(WHOLE, encoding="gzip")) + gzip.compress(bytes(10**7))),
            refused=(" ",),
            reading=True,
            warns=COSTS,
        ),
        Case("plain-line-skip-beyond", _file(header(core(WHOLE, line_skip=10**6)) + plain), refused=("line_skip",)),
    ]
    return cases


def nrrd() -> list[Case]:
    """Read the elder's files, attached and in lists."""
    fields = ["type: short", "dimension: 3", "sizes: 9 7 5", "endian: little"]

    def text(*more: str, end: str = "\n") -> bytes:
        return ("NRRD0004\n# made by hand\n" + "\n".join([*fields, *more]) + "\n" + end).encode()

    slices = {f"s{at}.raw": raw(WHOLE[at]) for at in range(5)}
    listed = ("encoding: raw", "data file: LIST\n" + "\n".join(slices))
    halves = {"a.raw": raw(WHOLE[:3]), "b.raw": raw(WHOLE[3:])}
    due, plain = {"data": WHOLE}, raw(WHOLE)
    return [
        Case("nrrd-raw", _file(text("encoding: raw") + plain, "v.nrrd"), due),
        Case("nrrd-gzip", _file(text("encoding: gz") + gzip.compress(plain), "v.nrrd"), due, warns=COSTS),
        Case("nrrd-bzip2", _file(text("encoding: bz2") + bz2.compress(plain), "v.nrrd"), due, warns=COSTS),
        Case("nhdr-raw", _file(text("encoding: raw", "data file: v.raw", end=""), "v.nhdr", {"v.raw": plain}), due),
        Case("nhdr-list", _file(text(*listed, end=""), "v.nhdr", slices), due),
        Case("nhdr-list-3", _file(text("encoding: raw", "data file: LIST 3\na.raw\nb.raw", end=""), "v.nhdr",
             {"a.raw": raw(WHOLE[:3]), "b.raw": raw(WHOLE[3:])}), refused=("data",)),
        Case("nhdr-pattern", _file(text("encoding: raw", "data file: s%d.raw 0 4 1", end=""), "v.nhdr", slices), due),
        Case("nrrd-byte-skip-end", _file(text("encoding: raw", "byte skip: -1") + b"junk" + plain, "v.nrrd"), due),
        Case("nrrd-line-skip", _file(text("encoding: raw", "line skip: 1") + b"junk\n" + plain, "v.nrrd"), due),
        Case("nrrd-key-values", _file(text("encoding: raw", "who:=me") + plain, "v.nrrd"), due),
        Case("nrrd-ascii", _file(text("encoding: ascii") + b"1 2 3", "v.nrrd"), refused=("encoding",)),
        Case("nrrd-hex", _file(text("encoding: hex") + b"0123", "v.nrrd"), refused=("encoding",)),
        Case("nrrd-truncated", _file(text("encoding: raw") + plain[:-1], "v.nrrd"), refused=("sizes",)),
        Case("nrrd-escape", _file(text("encoding: raw", "data file: ../v.raw", end=""), "v.nhdr", halves),
             refused=("data file", "allow")),
    ]  # fmt: skip


def _tiled(name: str, fits: Callable[[Any], bool], **change: object) -> Case:
    """Give a tiled case with more in its header, which the array must show."""
    tiled = Tiled(levels=[WHOLE], tile=(4, 4, 2), change=change)
    return Case(name, tiled.internal, {"data": WHOLE}, fits=fits)


def meaning() -> list[Case]:
    """Names of dimensions, and that what the header says comes along as attributes."""
    labels = {"labels": ["across", "down", "slice"]}
    names = ("slice", "down", "across")
    return [
        _tiled("names-reversed", lambda array: array.metadata.dimension_names == names, **labels),
        Case(
            "names-reversed-plain",
            _file(header(core(WHOLE, **labels)) + raw(WHOLE)),
            {"data": WHOLE},
            fits=lambda array: array.metadata.dimension_names == names,
        ),
        _tiled("names-without-labels", lambda array: array.metadata.dimension_names == ("z", "y", "x")),
        _tiled(
            "tile-metadata",
            lambda array: [entry["min"] for entry in array.attrs["tile_metadata"]] == list(range(18)),
            **{"tile:metadata": [{"min": at, "checksum": "ab"} for at in range(18)]},
        ),
    ]


CASES = [*jnrrd(), *nrrd(), *meaning()]
