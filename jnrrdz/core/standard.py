"""What Zarr's own codecs say of chunks that a codec of a proposal reads: the same bytes, read by more readers.

`tiff-tile` and `jbp-block` say how a format packs its pixels.  Where the pixels are whole bytes in a row, plain or
compressed by a scheme that Zarr knows, `transpose`, `bytes` and a compressor say the same, and nobody needs jnrrdz to
read them.  Nothing is said so that is not exactly so: a chunk of another length than its pixels have, samples of
odd bits, a predictor keep the proposal's codec.  The rule of a codec is named by its record (`standard`).
The rules: docs/decisions/027-standard-chains.md.

Which chains arrays may have at all stands first.  Who can read an array is judged here too, by its codecs, its type and
its references.  What readers have was measured with the versions in `MEASURED`, by
tests/interop/test_standard_chains.py and by hand; the table stands in docs/interop/readers.md.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codec_table import find
from jnrrdz.core.codecs import BYTES, OSML, TRANSPOSE, bytes_
from jnrrdz.core.configuration import (
    Codec,
    CodecRecord,
    CodecSpec,
    Configuration,
    Readers,
    Stage,
)
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, UnrepresentableError, UnsupportedError
from jnrrdz.records import record, resolved

type Axes = tuple[int, ...]


def chain_parts(
    codecs: Sequence[Codec],
) -> tuple[Sequence[Codec], Codec, Sequence[Codec]] | None:
    """Return the steps on elements, what makes bytes, and the steps on bytes; None for a chain not of the list."""
    stages = [_stage(codec) for codec in codecs]
    if Stage.PIXELS not in stages:
        return None
    at = stages.index(Stage.PIXELS)
    if set(stages[:at]) - {Stage.ARRAY} or set(stages[at + 1 :]) - {Stage.PACKER, Stage.BYTES}:
        return None
    before, pixels, after = codecs[:at], codecs[at], codecs[at + 1 :]
    packers = stages.count(Stage.PACKER)
    return (before, pixels, after) if packers <= (pixels.name == BYTES) else None


def _stage(codec: Codec) -> Stage | None:
    record = find(codec.name)
    return None if record is None else record.stage


def standard_codecs(array: VirtualArray) -> tuple[Codec, ...]:
    """Return codecs of Zarr's own that read an array's chunks as its codecs do; an error says why there are none."""
    records = [find(codec.name) for codec in array.codecs]
    if all(entry is not None and is_standard(entry) for entry in records):
        return array.codecs
    codecs: list[Codec] = []
    for codec, entry in zip(array.codecs, records, strict=True):
        if entry is not None and is_standard(entry):
            codecs.append(codec)
            continue
        if entry is not None and entry.not_standard is not None:
            raise UnrepresentableError(entry.not_standard)
        is_alone = len(array.codecs) == 1 and isinstance(codec, Configuration)
        if entry is None or entry.standard is None or not is_alone:
            raise UnrepresentableError(f"no codec of Zarr's own does what {codec.name} does")
        codecs += resolved(entry.standard)(codec, array)
    return tuple(codecs)


def is_standard(record: CodecRecord) -> bool:
    """Whether a codec is one of Zarr's own."""
    return record.readers is not Readers.JNRRDZ


def is_core(name: str) -> bool:
    """Whether a codec is in the Zarr specification."""
    record = find(name)
    return record is not None and record.readers is Readers.ANY


def needs_jnrrdz(name: str) -> bool:
    """Whether a codec is none of Zarr's own."""
    record = find(name)
    return record is None or not is_standard(record)


def with_standard_codecs(group: VirtualGroup, *, is_strict: bool = False) -> VirtualGroup:
    """Return a group whose arrays have codecs of Zarr's own where these are exact.

    `is_strict` refuses an array that has none.
    """

    def change(path: str, array: VirtualArray) -> VirtualArray:
        try:
            codecs = standard_codecs(array)
            return array if codecs is array.codecs else replace(array, codecs=codecs)
        except UnrepresentableError as error:
            if is_strict:
                raise refusal(path, error) from None
            return array

    return group.with_arrays(change)


def refusal(path: str, error: JnrrdzError) -> UnsupportedError:
    """Return the error of an array that has no chain of Zarr's own, where one is asked for."""
    message = f"{error.message}; --codecs auto takes the codec that reads it, which needs jnrrdz"
    return UnsupportedError(message, field=path)


def refuse(reasons: Sequence[tuple[bool, str]]) -> None:
    """Refuse with the first reason that holds."""
    for holds, reason in reasons:
        if holds:
            raise UnrepresentableError(reason)


def stored_bytes(array: VirtualArray, endian: str) -> CodecSpec:
    """Return the codec of elements that are stored in a byte order, none where they are single bytes."""
    return bytes_(None if array.dtype.itemsize == 1 else endian)


def stored_order(chunk: Sequence[int], stored: str, *, for_gdal: bool) -> tuple[CodecSpec, ...]:
    """Return the transposition to the order in which bands, rows and columns of a chunk are stored, if it takes one."""
    *lead, rows, columns = range(len(chunk))
    bands = [axis for axis in lead if chunk[axis] > 1]
    if len(bands) > 1:
        raise UnrepresentableError(f"chunks of {tuple(chunk)}, of several axes beside rows and columns")
    place = {"b": bands, "h": [rows], "w": [columns]}
    order = [axis for letter in stored for axis in place[letter]]
    orders = transpositions(tuple(chunk), tuple(axis for axis in order if chunk[axis] > 1), for_gdal=for_gdal)
    return tuple(CodecSpec(TRANSPOSE, {"order": list(order)}) for order in orders)


MOST_AXES = 6
"""Of a chunk whose orders are tried one by one."""


@lru_cache(64)
def transpositions(chunk: Axes, stored: Axes, *, for_gdal: bool) -> tuple[Axes, ...]:
    """Return orders of axes that bring a chunk into the order in which its axes of several places are stored.

    GDAL (3.12) takes the inverse of an order, and reads wrong pixels without a word where the two differ; zarrita.js
    (0.7) takes the first of several and leaves out the others.  One order that is its own inverse is right for both.
    Where there is none, two of them are right for GDAL, and one that is not for zarrita.js, which matters where GDAL
    does not read the chunk anyway.
    """
    if list(stored) == sorted(stored):
        return ()
    plain = (*(axis for axis in range(len(chunk)) if axis not in stored), *stored)
    if len(chunk) > MOST_AXES:
        return (plain,)
    swaps = [order for order in permutations(range(len(chunk))) if is_own_inverse(order)]
    single = next((order for order in swaps if tuple(axis for axis in order if axis in stored) == stored), None)
    if single is not None or not for_gdal:
        return (single or plain,)
    # the second is what the first leaves to be done
    pairs = ((first, tuple(first[axis] for axis in plain)) for first in swaps)
    return next(pair for pair in pairs if is_own_inverse(pair[1]))


def is_own_inverse(order: Sequence[int]) -> bool:
    """Whether a permutation swaps axes only."""
    return all(order[moved] == axis for axis, moved in enumerate(order))


def check_lengths(array: VirtualArray) -> None:
    """Refuse chunks that are stored in other than the bytes that their pixels have."""
    size = math.prod(array.chunks) * array.dtype.itemsize
    lengths = stored_lengths(array.refs.stored())
    if len(lengths) and (lengths.min() != size or lengths.max() != size):
        other = int(lengths[lengths != size][0])
        raise UnrepresentableError(f"chunks of {other} bytes where {size} are whole ones")


def stored_lengths(refs: ChunkRefs) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the bytes of each chunk that is there, those of all its ranges together."""
    lengths = refs.length
    if not refs.is_single:
        lengths = np.add.reduceat(refs.length, refs.indptr[:-1][refs.counts > 0])
    inline = [len(data) for data in refs.inline.values()]
    return np.concatenate((lengths, np.array(inline, np.int64))) if inline else lengths


JNRRDZ = "jnrrdz"
ZARR_WITH_JNRRDZ = "zarr-python with jnrrdz installed"
ZARR = "zarr-python by itself"
ANY = "any Zarr v3 reader"
GDAL = "GDAL"

MEASURED = {ZARR: "zarr 3.4, numcodecs 0.17", ANY: "tensorstore 0.1.80, zarrita.js 0.7.5", GDAL: "GDAL 3.12"}
"""The versions whose behaviour is told here."""

ODD_TYPES = frozenset({"float16", "complex64", "complex128"})
"""Data types of the specification that zarrita.js has not."""

SERVE = "jnrrdz serve gives it as plain Zarr"
CONVERT = "jnrrdz convert writes codecs that more readers have, jnrrdz serve plain Zarr"
UNPACK = "unpack the archive, or store its files without compression; or jnrrdz serve"
INDEX = "index the file itself if jnrrdz reads its format"
INSTALL = "pip install jnrrdz"
SINGLE_RANGE = "index it with --single-range, open jnrrdz://REFS, or use jnrrdz serve"


@record
class ReaderVerdict:
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


def verdicts(
    codecs: Sequence[Codec],
    data_type: str,
    *,
    is_single: bool,
    is_chained: bool = False,
    foreign: str | None = None,
) -> tuple[ReaderVerdict, ...]:
    """Return for each reader whether it reads an array of these codecs and this type.

    `is_single` is whether every chunk is one range of a file, `is_chained` whether some are
    in files that an archive compresses, by chained URLs.  `foreign` is the codec of
    the manifest that jnrrdz reads by codecs of its own.
    """
    entries = [codec.name for codec in codecs]
    unknown = next((name for name in entries if find(name) is None), None)
    if unknown is not None and not unknown.startswith(OSML):
        reason = f"the codec {unknown}, which is neither Zarr's nor jnrrdz's"
        readers = (JNRRDZ, ZARR_WITH_JNRRDZ, ZARR, ANY, GDAL)
        return tuple(ReaderVerdict(reader, reason, INDEX) for reader in readers)
    if foreign is not None:
        reason = f"the codec {foreign}, which is neither Zarr's nor jnrrdz's"
        others = (ZARR_WITH_JNRRDZ, ZARR, ANY, GDAL)
        return (ReaderVerdict(JNRRDZ), *(ReaderVerdict(reader, reason, CONVERT) for reader in others))
    if is_chained:
        reason = "chunks by chained URLs into an archive, which fsspec's reference:// does not open"
        others = (ZARR_WITH_JNRRDZ, ZARR, ANY, GDAL)
        return (ReaderVerdict(JNRRDZ), *(ReaderVerdict(reader, reason, UNPACK) for reader in others))
    private = next(filter(needs_jnrrdz, entries), None)
    scattered = None if is_single else "chunks of several ranges, which fsspec's reference:// does not read"
    return (
        ReaderVerdict(JNRRDZ),
        ReaderVerdict(ZARR_WITH_JNRRDZ),
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


def of_all(judged: Iterable[tuple[str, Sequence[ReaderVerdict]]]) -> list[ReaderVerdict]:
    """Return for each reader whether it reads all of some arrays; the first that it does not is named."""
    found: dict[str, ReaderVerdict] = {}
    for path, each in judged:
        for verdict in each:
            if verdict.reader not in found or found[verdict.reader].is_readable:
                array = None if verdict.is_readable else path
                found[verdict.reader] = ReaderVerdict(verdict.reader, verdict.reason, verdict.remedy, array)
    return list(found.values())


def _verdict(reader: str, *reasons: tuple[str | bool | None, str]) -> ReaderVerdict:
    """Return the verdict with the first reason that there is."""
    return next(
        (ReaderVerdict(reader, str(reason), remedy) for reason, remedy in reasons if reason), ReaderVerdict(reader)
    )


def _not_core(names: Sequence[str]) -> str | None:
    for name in names:
        if is_core(name):
            continue
        record = find(name)
        if record is not None and record.readers is Readers.PYTHON:
            return f"the codec {name}, which is zarr-python's, and of few others"
        return f"the codec {name}, which is not of the Zarr specification"
    return None


def _orders(codecs: Sequence[Codec]) -> list[Sequence[int]]:
    return [codec.configuration.get("order", ()) for codec in codecs if codec.name == TRANSPOSE]


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
