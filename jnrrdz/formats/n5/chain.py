"""The codecs that read an N5 dataset: the compression's, and what takes the block's header.

May touch errors, the layout and the model.  Three chains: `offset` or `pad` skip a header that is known to be
the chunk's own, `n5_default` reads it.  See docs/formats/n5.md.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from jnrrdz.core import codec, codec_n5
from jnrrdz.core.codec import CodecSpec
from jnrrdz.core.codec_n5 import BlockOrder, Framing
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.n5.n5_block import default_header, header_length
from jnrrdz.formats.n5.n5_header import N5Dataset

_BLOSC_DEFAULT = 5
_LEVELLED: Mapping[str, tuple[str, str, str, int, range, Mapping[str, Any]]] = {
    "zlib": (codec_n5.ZLIB, "level", "level", 6, range(10), {}),
    "gzip": (codec_n5.GZIP, "level", "level", 6, range(10), {}),
    "bzip2": (codec_n5.BZ2, "blockSize", "level", 9, range(1, 10), {}),
    "xz": (codec_n5.LZMA, "preset", "preset", 6, range(10), {"format": 1}),
    "zstd": (codec_n5.ZSTD, "level", "level", 3, range(-131072, 23), {"checksum": False}),
}
"""The codec, N5's name of its parameter, the codec's own, the default, what is possible, and what is fixed."""


class Chain(StrEnum):
    """What takes the header of a block."""

    AUTO = "auto"
    OFFSET = "offset"
    PAD = "pad"
    N5_DEFAULT = "n5_default"


def chain_of(name: str | None) -> Chain:
    """Return the chain of a name, `auto` for none."""
    for known in Chain:
        if name in {None, known}:
            return Chain.AUTO if name is None else known
    raise UnsupportedError(f"chain {name!r}; there are {', '.join(Chain)}", field="chain")


def codecs(dataset: N5Dataset, chain: Chain, framing: Framing, *, in_c_order: bool) -> tuple[CodecSpec, ...]:
    """Return a dataset's codecs, for an array in C order (last axis fastest) or in N5's own order."""
    axes, itemsize = len(dataset.dimensions), dataset.dtype.itemsize
    compressors = compressor(dataset, framing)
    order = (BlockOrder(axes).reversed,) if axes > 1 else ()
    if chain == Chain.N5_DEFAULT:
        return (*(order if in_c_order else ()), codec_n5.n5_default(axes, itemsize, compressors))
    header, length = default_header(dataset.block_size), header_length(axes)
    affix = codec.pad("start", length, header) if chain == Chain.PAD else codec.offset(length, header)
    return (*(() if in_c_order else order), codec_n5.big_endian(itemsize), *compressors, affix)


def compressor(dataset: N5Dataset, framing: Framing) -> tuple[CodecSpec, ...]:
    """Return the codec of the compression, none for raw."""
    if dataset.compression == "raw":
        return ()
    if dataset.compression == "lz4":
        return (codec_n5.lz4(framing),)
    if dataset.compression == "blosc":
        return (_blosc(dataset.options, dataset.dtype.itemsize),)
    zlib = dataset.compression == "gzip" and dataset.options.get("useZlib") is True
    name, theirs, ours, default, known, fixed = _LEVELLED["zlib" if zlib else dataset.compression]
    return (CodecSpec(name, {ours: _number(dataset.options, theirs, default, known), **fixed}),)


def _number(options: Mapping[str, Any], name: str, default: int, known: range) -> int:
    """Return a parameter that matters for writing only: one that is out of range stands for the default."""
    found = options.get(name, default)
    return found if type(found) is int and found in known else default


def _blosc(options: Mapping[str, Any], itemsize: int) -> CodecSpec:
    shuffle = _number(options, "shuffle", 0, range(3))
    cname = options.get("cname", options.get("codec", "lz4"))
    return CodecSpec(
        codec_n5.BLOSC,
        {
            "cname": cname if cname in codec_n5.CNAMES else "lz4",
            "clevel": _number(options, "clevel", _BLOSC_DEFAULT, range(10)),
            "shuffle": codec_n5.SHUFFLES[shuffle],
            "typesize": itemsize,
            "blocksize": _number(options, "blocksize", 0, range(1 << 31)),
        },
    )


def framing(dataset: N5Dataset, body: bytes | None) -> Framing:
    """Return the framing of LZ4 blocks, from one of them if there is any, else from what its writer noted."""
    if body is not None and body.startswith(b"LZ4Block"):
        return Framing.JAVA
    if dataset.options.get("id") == "lz4":
        return Framing.FRAME
    if body is None and "blockSize" in dataset.options:
        return Framing.JAVA
    return Framing.BLOCK
