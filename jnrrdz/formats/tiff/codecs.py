"""The codec of TIFF's tiles and strips: its configuration and its record.

docs/codecs/tiff-tile/README.md describes the members.
"""

from dataclasses import field
from typing import ClassVar

from jnrrdz.core.configuration import (
    ENDIAN,
    NO_AXES_WITH_PALETTE,
    CodecRecord,
    Configuration,
    Stage,
    integer,
    integers,
    literal,
    same_members,
)
from jnrrdz.records import record

TIFF_TILE = "tiff-tile"
JPEG_TABLES = "jpeg_tables"

MAX_TAG_VALUE = (1 << 32) - 1
TAG = integer(0, MAX_TAG_VALUE)
SIDE = integer(1, MAX_TAG_VALUE)
TAGS = integers(MAX_TAG_VALUE, count=1 << 16)


@record
class TiffTileConfig(Configuration):
    """What a TIFF's IFD says that its tiles and strips do not: the configuration of `tiff-tile`.

    The members mirror the tags of the same names; rationals are numerators and denominators in
    turn.  `image_width` and `image_height` are those of the whole image: they tell which sizes a
    short tile at the right or lower edge may have.  `palette`, red, green and blue of each value in
    turn, asks for colours in place of indices.
    """

    tile_width: int = field(metadata=SIDE)
    tile_height: int = field(metadata=SIDE)
    image_width: int = field(metadata=SIDE)
    image_height: int = field(metadata=SIDE)
    byte_order: str = field(default="little", metadata=ENDIAN)
    compression: int = field(default=1, metadata=TAG)
    photometric: int = field(default=1, metadata=TAG)
    samples_per_pixel: int = field(default=1, metadata=SIDE)
    bits_per_sample: tuple[int, ...] = field(default=(1,), metadata=TAGS)
    sample_format: tuple[int, ...] = field(default=(1,), metadata=TAGS)
    planar_config: int = field(default=1, metadata=TAG)
    predictor: int = field(default=1, metadata=TAG)
    fill_order: int = field(default=1, metadata=TAG)
    extra_samples: tuple[int, ...] = field(default=(), metadata=TAGS)
    ycbcr_subsampling: tuple[int, ...] = field(default=(), metadata=TAGS)
    ycbcr_coefficients: tuple[int, ...] = field(default=(), metadata=TAGS)
    reference_black_white: tuple[int, ...] = field(default=(), metadata=TAGS)
    t4_options: int | None = field(default=None, metadata=TAG)
    lerc_parameters: tuple[int, ...] = field(default=(), metadata=TAGS)
    jpeg_tables: bytes | None = field(default=None, metadata=literal())
    jpeg_header: bytes | None = field(default=None, metadata=literal())
    palette: bytes | None = field(default=None, metadata=literal())
    is_tiled: bool = False
    """Whether segments are tiles, whole at every edge; known where a file is scanned, never in metadata."""

    NAME: ClassVar[str] = TIFF_TILE
    ALWAYS: ClassVar[frozenset[str]] = frozenset(
        {"compression", "photometric", "bits_per_sample", "samples_per_pixel", "byte_order"}
    )


RECORDS = (
    CodecRecord(
        TIFF_TILE,
        Stage.PIXELS,
        NO_AXES_WITH_PALETTE,
        config=TiffTileConfig,
        codec_class="jnrrdz.codecs.tiles:TiffTileCodec",
        decoder="jnrrdz.formats.tiff.decode:tile_decoder",
        samples="jnrrdz.formats.tiff.tags:tile_samples",
        schema="docs/codecs/tiff-tile/schema.json",
        version_2={TIFF_TILE: same_members},
        filter_class="jnrrdz.codecs.filters:TiffTile",
        standard="jnrrdz.formats.tiff.schemes:standard_codecs",
        foreign="jnrrdz.formats.tiff.imagecodecs_names:tiff_codecs",
        foreign_document="jnrrdz.formats.tiff.imagecodecs_names:own_codecs",
        lack="jnrrdz.formats.tiff.decode:lack",
        sides={"image_height": -2, "image_width": -1},
        distinctive=frozenset({"compression", "predictor"}),
        in_chunks=JPEG_TABLES,
    ),
)
