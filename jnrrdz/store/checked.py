"""Chains that pass over an N5 block's header, read by the codec that looks at it.

May touch zarr's codec registry, the layout of block headers and the model's codec names.  `offset` and `pad` drop
a header unread, and zarr's own decompressors hold whatever a block inflates to.  Where the bytes that a chain
would write are the header of a full block, `n5_default` reads the same chunks: it checks what each block
declares, decodes no more than that, and names the block in its errors.  The array's metadata stay as they are.
"""

import base64
from collections.abc import Sequence
from typing import Any

from zarr.abc.codec import Codec
from zarr.registry import get_codec_class

from jnrrdz.core import codec_n5
from jnrrdz.core.codec import BYTES, OFFSET, PAD, CodecSpec
from jnrrdz.core.codec_n5 import BlockOrder
from jnrrdz.errors import MalformedError
from jnrrdz.formats.n5.n5_block import default_header

_COMPRESSORS = frozenset(
    {codec_n5.GZIP, codec_n5.ZLIB, codec_n5.BZ2, codec_n5.LZMA, codec_n5.ZSTD, codec_n5.BLOSC, codec_n5.LZ4}
)
_MOST = 3
"""Codecs that end such a chain: `bytes`, a compressor, the header's."""


def checked(codecs: Sequence[Codec], chunk: Sequence[int], itemsize: int) -> tuple[Codec, ...]:
    """Return codecs that read the same chunks with their headers checked; the very same for any other chain."""
    entries = [_entry(codec) for codec in codecs]
    first = next((number for number, entry in enumerate(entries) if entry.name == BYTES), len(entries))
    before, tail = entries[:first], entries[first:]
    header = _header(tail, itemsize)
    stored = None if header is None else _stored(before, list(chunk))
    # merged along a new axis, chunks have axes of one place that their blocks do not have
    lone = 0 if stored is None else next((axis for axis, size in enumerate(stored) if size > 1), len(stored) - 1)
    dropped = next((n for n in range(lone + 1) if stored is not None and _is_header(header, stored[n:])), None)
    if stored is None or dropped is None:
        return tuple(codecs)
    axes = len(stored) - dropped
    order = (BlockOrder(axes).reversed,) if axes > 1 else ()
    made = (*[codec_n5.squeeze()] * dropped, *order, codec_n5.n5_default(axes, itemsize, tail[1:-1]))
    return (*codecs[:first], *(get_codec_class(spec.name).from_dict(spec.to_json()) for spec in made))


def in_c_order(codecs: Sequence[Codec]) -> tuple[Codec, ...]:
    """Return one codec for a transposition that reverses all axes and `n5_default`; the very same for any other chain.

    A codec that is the whole chain reads, decodes and selects in one step.
    """
    if len(codecs) != len(("transpose", "n5_default")):
        return tuple(codecs)
    order, block = _entry(codecs[0]), codecs[1]
    as_c_order = getattr(block, "as_c_order", None)  # another package's `n5_default` has none
    axes = order.configuration.get("order", ())
    if as_c_order is None or order.name != codec_n5.TRANSPOSE or list(axes) != list(range(len(axes)))[::-1]:
        return tuple(codecs)
    return (as_c_order(),)


def _entry(codec: Codec) -> CodecSpec:
    found: dict[str, Any] = codec.to_dict()
    return CodecSpec(found["name"], found.get("configuration") or {})


def _header(tail: Sequence[CodecSpec], itemsize: int) -> bytes | None:
    """Return what stands before the compressed elements, None for chains of any other form."""
    if not _MOST - 1 <= len(tail) <= _MOST or (itemsize > 1 and tail[0].configuration.get("endian") != "big"):
        return None
    if any(entry.name not in _COMPRESSORS for entry in tail[1:-1]):
        return None
    told = tail[-1].configuration
    literal = told.get("prefix") if tail[-1].name == OFFSET else told.get("padding")
    if tail[-1].name not in {OFFSET, PAD} or told.get("location", "start") != "start" or literal is None:
        return None
    return base64.b64decode(literal)


def _stored(before: Sequence[CodecSpec], chunk: list[int]) -> list[int] | None:
    """Return the shape that a chunk has behind transpositions and squeezes, None behind anything else."""
    for entry in before:
        if entry.name == codec_n5.TRANSPOSE:
            chunk = [chunk[axis] for axis in entry.configuration["order"]]
        elif entry.name == codec_n5.SQUEEZE:
            chunk = chunk[1:]
        else:
            return None
    return chunk


def _is_header(header: bytes | None, shape: list[int]) -> bool:
    """Whether a header is that of a block that fills a chunk of a shape."""
    try:
        return header == default_header(shape[::-1])
    except MalformedError:
        return False
