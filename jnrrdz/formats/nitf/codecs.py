"""The codecs of NITF's blocks: their configurations and their records.

docs/codecs/jbp-block/README.md, docs/codecs/jbp-jpeg/README.md and
docs/codecs/jnrrdz.nitf-vq/README.md describe the members.
"""

import zlib
from dataclasses import field
from typing import Any, ClassVar

from jnrrdz.core.configuration import (
    FLAG,
    NO_AXES,
    NO_AXES_WITH_PALETTE,
    PALETTE,
    CodecRecord,
    Configuration,
    Stage,
    checked,
    integer,
    one_of,
    same_members,
)
from jnrrdz.errors import MalformedError
from jnrrdz.records import record

JBP_BLOCK = "jbp-block"
JBP_JPEG = "jbp-jpeg"
NITF_VQ = "jnrrdz.nitf-vq"

NITF_KINDS = {"INT": "u", "B": "u", "SI": "i", "R": "f", "C": "c"}
"""PVTYPE."""

NITF_ORDERS = {"B": "bhw", "S": "bhw", "R": "hbw", "P": "hwb"}
"""IMODE: the axes of a block as stored: band, row (height), column (width)."""

CODEBOOK_BYTES = 4 * 4096 * 4


def plain_codebooks(data: bytes) -> bytes | None:
    """Return what a zlib stream of codebooks holds, None where it is none."""
    unpacker = zlib.decompressobj()
    try:
        books = unpacker.decompress(data, CODEBOOK_BYTES + 1)
    except zlib.error:
        return None
    return books if len(books) == CODEBOOK_BYTES else None


def _codebooks(value: Any) -> Any:
    data = PALETTE["check"](value)
    if plain_codebooks(data) is None:
        raise MalformedError(f"no zlib stream of {CODEBOOK_BYTES} bytes")
    return data


@record
class JbpBlockConfig(Configuration):
    """How the samples of an uncompressed block are packed."""

    pixel_type: str = field(metadata=one_of("INT", "SI", "R", "C", "B"))
    """PVTYPE."""

    bits_per_pixel: int = field(metadata=integer(1, 128))
    """NBPP: the bits that one sample takes."""

    interleave: str = field(default="B", metadata=one_of("B", "P", "R", "S"))
    """IMODE, of several samples in one chunk."""

    image_rows: int = field(default=0, metadata=integer(0, (1 << 31) - 1))
    """Rows of the image, where its last chunk ends with them; 0 where every chunk is whole."""

    complex_pairs: bool = field(default=False, metadata=FLAG)
    """Whether two samples in turn are the real and the imaginary part of one complex number."""

    palette: bytes | None = field(default=None, metadata=PALETTE)
    """Red, green and blue of each value in turn: the chunk is colours and not indices."""

    NAME: ClassVar[str] = JBP_BLOCK


@record
class JbpJpegConfig(Configuration):
    """What a JPEG stream of a NITF does not say itself."""

    quality: int = field(default=0, metadata=integer(0, 5))
    """Which of the standard's five quantisation tables a stream without any means; 0 where none does."""

    palette: bytes | None = field(default=None, metadata=PALETTE)
    """Red, green and blue of each value in turn: the chunk is colours and not indices."""

    stored_as_rgb: bool = field(default=False, metadata=FLAG)
    """Whether three components are red, green and blue in a stream whose markers do not name its colours."""

    NAME: ClassVar[str] = JBP_JPEG


@record
class NitfVqConfig(Configuration):
    """The four codebooks of a vector-quantised image."""

    codebooks: bytes = field(metadata=checked(_codebooks))
    """For each row of four pixels in turn, 4096 rows of four values, as a zlib stream."""

    palette: bytes | None = field(default=None, metadata=PALETTE)
    """Red, green and blue of each value in turn: the chunk is colours and not indices."""

    NAME: ClassVar[str] = NITF_VQ


RECORDS = (
    CodecRecord(
        JBP_BLOCK,
        Stage.PIXELS,
        NO_AXES_WITH_PALETTE,
        config=JbpBlockConfig,
        codec_class="jnrrdz.codecs.tiles:JbpBlockCodec",
        decoder="jnrrdz.formats.nitf.decode:block_decoder",
        samples="jnrrdz.formats.nitf.decode:block_samples",
        schema="docs/codecs/jbp-block/schema.json",
        version_2={JBP_BLOCK: same_members},
        standard="jnrrdz.formats.nitf.blocks:standard_codecs",
    ),
    CodecRecord(
        JBP_JPEG,
        Stage.PIXELS,
        NO_AXES_WITH_PALETTE,
        config=JbpJpegConfig,
        codec_class="jnrrdz.codecs.tiles:JbpJpegCodec",
        decoder="jnrrdz.formats.nitf.decode:jpeg_decoder",
        schema="docs/codecs/jbp-jpeg/schema.json",
        version_2={JBP_JPEG: same_members},
        former_name="jpeg",
        lack="jnrrdz.formats.nitf.decode:jpeg_lack",
    ),
    CodecRecord(
        NITF_VQ,
        Stage.PIXELS,
        NO_AXES,
        config=NitfVqConfig,
        codec_class="jnrrdz.codecs.tiles:NitfVqCodec",
        decoder="jnrrdz.formats.nitf.decode:vq_decoder",
        samples="jnrrdz.formats.nitf.decode:vq_samples",
        schema="docs/codecs/jnrrdz.nitf-vq/schema.json",
        version_2={NITF_VQ: same_members},
    ),
)
