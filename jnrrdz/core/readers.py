"""Who can read an array, judged by its codecs, its type and its references: the one place that knows.

What readers have was measured with the versions below, by tests/interop/test_standard_chains.py and by hand; the table
stands in docs/interop/readers.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jnrrdz.core import codecs as names
from jnrrdz.core.configuration import Codec
from jnrrdz.core.standard import CORE, NUMCODECS, STANDARD, is_own_inverse

JNRRDZ = "jnrrdz"
ZARR_WITH_JNRRDZ = "zarr-python with jnrrdz installed"
ZARR = "zarr-python by itself"
ANY = "any Zarr v3 reader"
GDAL = "GDAL"

MEASURED = {ZARR: "zarr 3.4, numcodecs 0.17", ANY: "tensorstore 0.1.80, zarrita.js 0.7.5", GDAL: "GDAL 3.12"}
"""The versions whose behaviour is told here."""

OURS = frozenset(
    {
        names.OFFSET,
        names.PAD,
        names.TIFF_TILE,
        names.JPEG2000,
        names.JBP_BLOCK,
        names.JBP_JPEG,
        names.N5_DEFAULT,
        names.JPEG2000_WINDOW,
        names.NITF_VQ,
        names.LINEAR,
        names.LZ4,
        names.RESHAPE,
        names.SQUEEZE,
        names.TILE,
    }
)
"""Codecs that jnrrdz brings."""

ODD_TYPES = frozenset({"float16", "complex64", "complex128"})
"""Data types of the specification that zarrita.js has not."""

SERVE = "jnrrdz serve gives it as plain Zarr"
INSTALL = "pip install jnrrdz"
SINGLE_RANGE = "index it with --single-range, open jnrrdz://REFS, or use jnrrdz serve"


@dataclass(frozen=True)
class Verdict:
    """Whether a reader reads an array, why not, and what helps."""

    reader: str
    reason: str | None = None
    """Why it does not; None where it does."""

    remedy: str | None = None
    array: str | None = None
    """The path of the first array that it does not read."""

    @property
    def is_readable(self) -> bool:
        """Whether it reads it."""
        return self.reason is None

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as `info --json` has it."""
        if self.is_readable:
            return {"reader": self.reader, "readable": True}
        why = {"array": self.array, "reason": self.reason, "remedy": self.remedy}
        return {"reader": self.reader, "readable": False} | {name: text for name, text in why.items() if text}


def verdicts(codecs: Sequence[Codec], data_type: str, *, is_single: bool) -> tuple[Verdict, ...]:
    """Return for each reader whether it reads an array of these codecs and this type.

    `is_single` is whether every chunk is one range of a file.
    """
    entries = {codec.name: codec.configuration for codec in codecs}
    unknown = _first(entries, OURS | STANDARD)
    if unknown is not None and unknown.startswith(names.OSML):
        unknown = None
    private = _first(entries, STANDARD)
    scattered = None if is_single else "chunks of several ranges, which fsspec's reference:// does not read"
    return (
        Verdict(JNRRDZ, None if unknown is None else f"the codec {unknown}, which jnrrdz does not have"),
        Verdict(ZARR_WITH_JNRRDZ, None if unknown is None else f"the codec {unknown}, which neither of them has"),
        _verdict(ZARR, (private and f"the codec {private}, which jnrrdz brings", INSTALL), (scattered, SINGLE_RANGE)),
        _verdict(
            ANY,
            (_not_core(entries), SERVE),
            (data_type in ODD_TYPES and f"{data_type}, a type that zarrita.js does not have", SERVE),
            (_several_turns(codecs), f"{SERVE}; with --codecs proposal zarrita.js refuses it"),
            (scattered, SINGLE_RANGE),
        ),
        _verdict(GDAL, (_not_core(entries), SERVE), (_gdal_turn(codecs), SERVE), (scattered, SINGLE_RANGE)),
    )


def of_all(judged: Iterable[tuple[str, Sequence[Verdict]]]) -> list[Verdict]:
    """Return for each reader whether it reads all of some arrays; the first that it does not is named."""
    found: dict[str, Verdict] = {}
    for path, each in judged:
        for verdict in each:
            if verdict.reader not in found or found[verdict.reader].is_readable:
                array = None if verdict.is_readable else path
                found[verdict.reader] = Verdict(verdict.reader, verdict.reason, verdict.remedy, array)
    return list(found.values())


def _verdict(reader: str, *reasons: tuple[str | bool | None, str]) -> Verdict:
    """Return the verdict with the first reason that there is."""
    return next((Verdict(reader, str(reason), remedy) for reason, remedy in reasons if reason), Verdict(reader))


def _first(entries: Mapping[str, Any], known: frozenset[str]) -> str | None:
    return next((name for name in entries if name not in known), None)


def _not_core(entries: Mapping[str, Any]) -> str | None:
    name = _first(entries, CORE)
    if name is None:
        return None
    if name in NUMCODECS:
        return f"the codec {name}, which is zarr-python's, and of few others"
    return f"the codec {name}, which is not of the Zarr specification"


def _orders(codecs: Sequence[Codec]) -> list[Sequence[int]]:
    return [codec.configuration.get("order", ()) for codec in codecs if codec.name == names.TRANSPOSE]


def _several_turns(codecs: Sequence[Codec]) -> str | None:
    """zarrita.js takes the first transposition and leaves out the others."""
    return (
        "two transpositions: zarrita.js takes the first alone and shows wrong pixels"
        if len(_orders(codecs)) > 1
        else None
    )


def _gdal_turn(codecs: Sequence[Codec]) -> str | None:
    """GDAL takes the inverse of a transposition."""
    order = next((order for order in _orders(codecs) if not is_own_inverse(order)), None)
    return None if order is None else f"the transposition {list(order)}, of which GDAL takes the inverse"
