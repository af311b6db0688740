"""What Zarr's own codecs say of chunks that a codec of a proposal reads: the same bytes, read by more readers.

`tiff-tile` and `jbp-block` say how a format packs its pixels.  Where the pixels are whole bytes in a row, plain or
compressed by a scheme that Zarr knows, `transpose`, `bytes` and a compressor say the same, and nobody needs jnrrdz to
read them.  Nothing is said so that is not exactly so: a chunk of another length than its pixels have, samples of
odd bits, a predictor keep the proposal's codec.  The rules: docs/decisions/027-standard-chains.md.

Which chains arrays may have at all stands first.  Who can read an array is judged here too, by its codecs, its type and
its references.  What readers have was measured with the versions in `MEASURED`, by
tests/interop/test_standard_chains.py and by hand; the table stands in docs/interop/readers.md.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np

from jnrrdz.core import codecs as names
from jnrrdz.core.arrays import VirtualArray, VirtualGroup
from jnrrdz.core.codec_table import ARRAY_STEPS, BYTES_STEPS, CODECS, OWN, PACKERS, PIXELS
from jnrrdz.core.codecs import (
    BLOSC,
    BYTES,
    BZ2,
    CAST_VALUE,
    GZIP,
    JBP_BLOCK,
    LZMA,
    N5_DEFAULT,
    NITF_KINDS,
    NITF_ORDERS,
    SCALE_OFFSET,
    TIFF_TILE,
    TRANSPOSE,
    ZLIB,
    ZSTD,
    JbpBlockConfig,
    TiffTileConfig,
    bytes_,
)
from jnrrdz.core.configuration import BYTE_BITS, Codec, CodecSpec, Configuration
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import JnrrdzError, UnrepresentableError, UnsupportedError
from jnrrdz.records import record

type Axes = tuple[int, ...]


def chain_parts(codecs: Sequence[CodecSpec]) -> tuple[Sequence[CodecSpec], CodecSpec, Sequence[CodecSpec]] | None:
    """Return the steps on elements, what makes bytes, and the steps on bytes; None for a chain not of the list."""
    at = next((number for number, codec in enumerate(codecs) if codec.name in PIXELS), None)
    if at is None:
        return None
    before, pixels, after = codecs[:at], codecs[at], codecs[at + 1 :]
    packers = sum(codec.name in PACKERS for codec in after)
    is_listed = all(codec.name in ARRAY_STEPS for codec in before) and all(
        codec.name in (*PACKERS, *BYTES_STEPS) for codec in after
    )
    return (before, pixels, after) if is_listed and packers <= (pixels.name == BYTES) else None


CORE = frozenset({BYTES, TRANSPOSE, GZIP, ZSTD, BLOSC, "crc32c", "sharding_indexed"})
"""Codecs of the Zarr specification, which every reader of Zarr v3 is to have (`zstd` most have)."""

NUMCODECS = frozenset({ZLIB, BZ2, LZMA})
"""Codecs that zarr-python has by itself, and few others."""

STANDARD = CORE | NUMCODECS | {SCALE_OFFSET, CAST_VALUE}
"""Codecs that are nobody's but Zarr's."""

PACKED: Mapping[int, tuple[CodecSpec, ...]] = {
    1: (),
    8: (CodecSpec(ZLIB, {"level": 6}),),
    32946: (CodecSpec(ZLIB, {"level": 6}),),
    50013: (CodecSpec(ZLIB, {"level": 6}),),
    34926: (CodecSpec(ZSTD, {"level": 3, "checksum": False}),),
    50000: (CodecSpec(ZSTD, {"level": 3, "checksum": False}),),
}
"""By TIFF's number of a compression: none, deflate by three numbers, ZSTD by two.  Levels matter to writers alone."""

TIFF_KINDS = {1: "u", 2: "i", 3: "f", 4: "u", 6: "c"}
"""SampleFormat: unsigned, signed, float, undefined, complex float."""

YCBCR = 6
SEPARATE = 2


def standard_codecs(array: VirtualArray) -> tuple[Codec, ...]:
    """Return codecs of Zarr's own that read an array's chunks as its codecs do; an error says why there are none."""
    codecs: list[Codec] = []
    for codec in array.codecs:
        if codec.name in STANDARD:
            codecs.append(codec)
            continue
        if codec.name == N5_DEFAULT:
            raise UnrepresentableError("blocks of N5 whose headers are not all known to be those of full blocks")
        said = _SAID.get(codec.name)
        if said is None or not isinstance(codec, Configuration) or len(array.codecs) > 1:
            raise UnrepresentableError(f"no codec of Zarr's own does what {codec.name} does")
        codecs += said(codec, array)
    return tuple(codecs)


def with_standard_codecs(group: VirtualGroup, *, is_strict: bool = False) -> VirtualGroup:
    """Return a group whose arrays have codecs of Zarr's own where these are exact.

    `is_strict` refuses an array that has none.
    """

    def change(path: str, array: VirtualArray) -> VirtualArray:
        try:
            codecs = standard_codecs(array)
            return array if codecs == array.codecs else replace(array, codecs=codecs)
        except UnrepresentableError as error:
            if is_strict:
                raise refusal(path, error) from None
            return array

    return group.with_arrays(change)


def refusal(path: str, error: JnrrdzError) -> UnsupportedError:
    """Return the error of an array that has no chain of Zarr's own, where one is asked for."""
    message = f"{error.message}; --codecs auto takes the codec that reads it, which needs jnrrdz"
    return UnsupportedError(message, field=path)


def _refuse(reasons: Sequence[tuple[bool, str]]) -> None:
    """Refuse with the first reason that holds."""
    for holds, reason in reasons:
        if holds:
            raise UnrepresentableError(reason)


def _of_tiff_tile(config: TiffTileConfig, array: VirtualArray) -> tuple[Codec, ...]:
    packed = PACKED.get(config.compression)
    kinds = {TIFF_KINDS.get(number) for number in config.sample_format}
    widths = sorted(set(config.bits_per_sample))
    rest = config.image_height % config.tile_height
    _refuse(
        (
            (config.palette is not None, "colours are looked up in a palette"),
            (packed is None, f"TIFF compression {config.compression}, which is no codec of Zarr's own"),
            (config.predictor != 1, f"predictor {config.predictor}, which no codec of Zarr's own undoes"),
            (config.fill_order != 1, "bytes whose bits are in reverse order (FillOrder 2)"),
            (config.photometric == YCBCR, "YCbCr, which becomes red, green and blue"),
            (
                widths != [array.dtype.itemsize * BYTE_BITS] or kinds != {array.dtype.kind},
                f"samples of {', '.join(map(str, widths))} bits that are no {array.dtype} as stored",
            ),
            (bool(packed) and not config.is_tiled and rest > 0, f"a last strip of {rest} rows, the others have more"),
        )
    )
    if not packed:
        _check_lengths(array)
    stored = "bhw" if config.planar_config == SEPARATE else "hwb"
    for_gdal = all(codec.name in CORE for codec in packed or ())
    order = _order(array.chunks, stored, for_gdal=for_gdal)
    return (*order, _bytes(array, config.byte_order), *(packed or ()))


def _of_jbp_block(config: JbpBlockConfig, array: VirtualArray) -> tuple[Codec, ...]:
    width = config.bits_per_pixel * (2 if config.complex_pairs else 1)
    kind = "c" if config.complex_pairs else NITF_KINDS[config.pixel_type]
    is_exact = (width, kind) == (array.dtype.itemsize * BYTE_BITS, array.dtype.kind)
    _refuse(
        (
            (config.palette is not None, "colours are looked up in a palette"),
            (not is_exact, f"samples of {config.bits_per_pixel} bits that are no {array.dtype} as stored"),
            (
                config.complex_pairs and config.interleave != "P",
                "real and imaginary parts that do not stand side by side",
            ),
        )
    )
    _check_lengths(array)
    order = _order(array.chunks, NITF_ORDERS[config.interleave], for_gdal=True)
    return (*order, _bytes(array, "big"))


_SAID: Mapping[str, Callable[[Any, VirtualArray], tuple[Codec, ...]]] = {
    TIFF_TILE: _of_tiff_tile,
    JBP_BLOCK: _of_jbp_block,
}


def _bytes(array: VirtualArray, endian: str) -> CodecSpec:
    return bytes_(None if array.dtype.itemsize == 1 else endian)


def _order(chunk: Sequence[int], stored: str, *, for_gdal: bool) -> tuple[CodecSpec, ...]:
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


def _check_lengths(array: VirtualArray) -> None:
    """Refuse chunks that are stored in other than the bytes that their pixels have."""
    size = math.prod(array.chunks) * array.dtype.itemsize
    lengths = stored_lengths(array.refs.columns())
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

OURS = frozenset(name for name in OWN if not name.startswith(names.OSML))
"""Codecs that jnrrdz brings."""

ODD_TYPES = frozenset({"float16", "complex64", "complex128"})
"""Data types of the specification that zarrita.js has not."""

SERVE = "jnrrdz serve gives it as plain Zarr"
CONVERT = "jnrrdz convert writes codecs that more readers have, jnrrdz serve plain Zarr"
UNPACK = "unpack the archive, or store its files without compression; or jnrrdz serve"
INDEX = "index the file itself if jnrrdz reads its format"
INSTALL = "pip install jnrrdz"
SINGLE_RANGE = "index it with --single-range, open jnrrdz://REFS, or use jnrrdz serve"


@record
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


def verdicts(
    codecs: Sequence[Codec],
    data_type: str,
    *,
    is_single: bool,
    is_chained: bool = False,
    foreign: str | None = None,
) -> tuple[Verdict, ...]:
    """Return for each reader whether it reads an array of these codecs and this type.

    `is_single` is whether every chunk is one range of a file, `is_chained` whether some are
    in files that an archive compresses, by chained URLs.  `foreign` is the codec of
    the manifest that jnrrdz reads by codecs of its own.
    """
    entries = {codec.name: codec.configuration for codec in codecs}
    unknown = _first(entries, frozenset(CODECS))
    if unknown is not None and not unknown.startswith(names.OSML):
        reason = f"the codec {unknown}, which is neither Zarr's nor jnrrdz's"
        readers = (JNRRDZ, ZARR_WITH_JNRRDZ, ZARR, ANY, GDAL)
        return tuple(Verdict(reader, reason, INDEX) for reader in readers)
    if foreign is not None:
        reason = f"the codec {foreign}, which is neither Zarr's nor jnrrdz's"
        others = (ZARR_WITH_JNRRDZ, ZARR, ANY, GDAL)
        return (Verdict(JNRRDZ), *(Verdict(reader, reason, CONVERT) for reader in others))
    if is_chained:
        reason = "chunks by chained URLs into an archive, which fsspec's reference:// does not open"
        others = (ZARR_WITH_JNRRDZ, ZARR, ANY, GDAL)
        return (Verdict(JNRRDZ), *(Verdict(reader, reason, UNPACK) for reader in others))
    private = _first(entries, STANDARD)
    scattered = None if is_single else "chunks of several ranges, which fsspec's reference:// does not read"
    return (
        Verdict(JNRRDZ),
        Verdict(ZARR_WITH_JNRRDZ),
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
