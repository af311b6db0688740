"""The codecs of JPEG 2000: their configurations and their records.

docs/codecs/jpeg2000/README.md and docs/codecs/jnrrdz.jpeg2000-window/README.md describe
the members.
"""

from dataclasses import field
from typing import ClassVar

from jnrrdz.core.configuration import (
    FLAG,
    NO_AXES,
    PALETTE,
    CodecRecord,
    Configuration,
    Stage,
    integer,
    integers,
    literal,
    same_members,
)
from jnrrdz.records import record

JPEG2000 = "jpeg2000"
JPEG2000_WINDOW = "jnrrdz.jpeg2000-window"

MAX_LEVEL = 32
MAX_TILE = 65534
MAX_COMPONENT = 16383
MAX_LIST = 1 << 21


@record
class Jpeg2000Config(Configuration):
    """What a codestream's main header says and its tile-parts do not, and what of the image is wanted."""

    main_header: bytes = field(metadata=literal(1))
    """From SOC to before the first SOT; pointers (TLM, PLM) may be left out."""

    resolution_level: int = field(default=0, metadata=integer(0, MAX_LEVEL))
    """How many times the image is halved."""

    components: tuple[int, ...] = field(
        default=(), metadata=integers(MAX_COMPONENT, fewest=1, count=MAX_LIST, distinct=True)
    )
    """The components that a chunk holds, in its order; all of them where none is named."""

    tile_parts: tuple[int, ...] = field(default=(), metadata=integers(MAX_TILE, fewest=1, count=MAX_LIST))
    """The tile of every tile-part in the order of the file: needed where the main header has PPM."""

    palette: bytes | None = field(default=None, metadata=PALETTE)
    """Red, green and blue of each value in turn, where colours are read in place of indices."""

    upsample: bool = field(default=False, metadata=FLAG)
    """Whether components with fewer samples than the finest are repeated to its grid."""

    sycc_to_rgb: bool = field(default=False, metadata=FLAG)
    """Whether Y, Cb and Cr, brought to one grid, are turned into red, green and blue."""

    NAME: ClassVar[str] = JPEG2000
    ALWAYS: ClassVar[frozenset[str]] = frozenset({"resolution_level"})


@record
class Jpeg2000WindowConfig(Configuration):
    """What is the same for every window; tile and place in it stand in the chunk's own bytes."""

    main_header: bytes = field(metadata=literal(1))
    """From SOC to before the first SOT; pointers (TLM, PLM) may be left out."""

    resolution_level: int = field(default=0, metadata=integer(0, MAX_LEVEL))
    """How many times the image is halved."""

    palette: bytes | None = field(default=None, metadata=PALETTE)
    """Red, green and blue of each value in turn, where colours are read in place of indices."""

    NAME: ClassVar[str] = JPEG2000_WINDOW
    ALWAYS: ClassVar[frozenset[str]] = frozenset({"resolution_level"})


RECORDS = (
    CodecRecord(
        JPEG2000,
        Stage.PIXELS,
        NO_AXES,
        config=Jpeg2000Config,
        codec_class="jnrrdz.codecs.tiles:Jpeg2000Codec",
        decoder="jnrrdz.formats.jpeg2000.decode:Jpeg2000Decoder",
        samples="jnrrdz.formats.jpeg2000.decode:tile_samples",
        schema="docs/codecs/jpeg2000/schema.json",
        version_2={JPEG2000: same_members},
        filter_class="jnrrdz.codecs.filters:Jpeg2000",
        lack="jnrrdz.formats.jpeg2000.decode:lack",
        heads="jnrrdz.formats.jpeg2000.levels:level_heads",
        distinctive=frozenset(),
        is_part_of_stored=True,
    ),
    CodecRecord(
        JPEG2000_WINDOW,
        Stage.PIXELS,
        NO_AXES,
        config=Jpeg2000WindowConfig,
        codec_class="jnrrdz.codecs.tiles:Jpeg2000WindowCodec",
        decoder="jnrrdz.formats.jpeg2000.decode_window:WindowedDecoder",
        samples="jnrrdz.formats.jpeg2000.decode:window_samples",
        schema="docs/codecs/jnrrdz.jpeg2000-window/schema.json",
        version_2={JPEG2000_WINDOW: same_members},
        distinctive=frozenset(),
        is_part_of_stored=True,
    ),
)
