"""osml-imagery-io's codecs of NITF and JPEG 2000 in jnrrdz's own terms.

May touch numpy, errors, the model and the decoders of blocks and tiles; no I/O, no zarr.  Follows
docs/interop/osml.md.  What the configurations say is enough for the decoders here, which take a
tile's place on the reference grid from the main header, where osml-imagery-io moves it to the
origin.  What they leave open is refused: bands that stand apart, and colours that are not told.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from jnrrdz.codecs.osml_codec import PREFIX
from jnrrdz.core.codec_jpeg2000 import Jpeg2000Config
from jnrrdz.core.codec_nitf import JbpBlockConfig, JpegConfig
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.jpeg2000_codec import Jpeg2000Decoder
from jnrrdz.formats.nitf.jbp_block import BlockDecoder
from jnrrdz.formats.nitf.jpeg_block import JpegDecoder

type Shape = tuple[int, ...]
type Configuration = Mapping[str, Any]

JPEG2000 = f"{PREFIX}jpeg2000"
JBP_BLOCK = f"{PREFIX}jbp-block"
JPEG = f"{PREFIX}jpeg"

BANDS_Y_X = 3
COLOURS = 3
COLOUR_SPACES = ("MONO", "RGB", "YCbCr601")


class Decoder(Protocol):
    """What the decoders of chunks offer."""

    def decode(self, data: bytes | memoryview) -> NDArray[Any]:
        """Return the chunk's pixels."""


def _checked(name: str, configuration: Configuration, members: set[str]) -> Configuration:
    """Return a configuration that has just these members."""
    if set(configuration) != members:
        found = ", ".join(sorted(configuration))
        raise UnsupportedError(f"members {found}; osml-imagery-io 0.2 writes {', '.join(sorted(members))}", field=name)
    return configuration


def _check_shape(name: str, configuration: Configuration, shape: Shape) -> None:
    told = tuple(configuration[member] for member in ("num_bands", "block_height", "block_width"))
    if told != shape:
        raise MalformedError(f"blocks of {told} for chunks of {shape}", field=name)


def _mode(name: str, configuration: Configuration, known: str) -> str:
    """Return the interleave of several bands that stand in one chunk."""
    mode = configuration["imode"]
    if configuration["num_bands"] == 1 and mode in {"B", "P", "R", "S"}:
        return "B"
    if not isinstance(mode, str) or mode not in known.split():
        raise UnsupportedError(f"imode {mode!r} of several bands in one chunk; {known} are read", field=name)
    return mode


def _jbp_block(name: str, configuration: Configuration, shape: Shape, dtype: np.dtype[Any], fill: Any) -> Decoder:
    members = {"num_bands", "block_height", "block_width", "nbpp", "imode", "pvtype"}
    said = _checked(name, configuration, members)
    _check_shape(name, said, shape)
    own = {"pixel_type": said["pvtype"], "bits_per_pixel": said["nbpp"], "interleave": _mode(name, said, "B P R")}
    return BlockDecoder(JbpBlockConfig.from_json(own), shape, dtype, fill)


def _jpeg(name: str, configuration: Configuration, shape: Shape, dtype: np.dtype[Any], fill: Any) -> Decoder:
    members = {"bits_per_pixel", "num_bands", "block_width", "block_height", "imode", "color_space"}
    said = _checked(name, configuration, members)
    _check_shape(name, said, shape)
    _mode(name, said, "P")
    space, bands = said["color_space"], said["num_bands"]
    if space not in COLOUR_SPACES or (space == "MONO") is not (bands == 1) or bands not in {1, COLOURS}:
        raise UnsupportedError(f"color_space {space!r} of {bands} bands; MONO of 1, others of 3 are read", field=name)
    return JpegDecoder(JpegConfig(), shape, dtype, fill)


def _jpeg2000(name: str, configuration: Configuration, shape: Shape, dtype: np.dtype[Any], fill: Any) -> Decoder:
    said = _checked(name, configuration, {"main_header", "resolution_level"})
    plain = shape if shape[0] > 1 else shape[1:]
    return Jpeg2000Decoder(Jpeg2000Config.from_json(said), plain, dtype, fill)


MAKERS: Mapping[str, Callable[[str, Configuration, Shape, np.dtype[Any], Any], Decoder]] = {
    JPEG2000: _jpeg2000,
    JBP_BLOCK: _jbp_block,
    JPEG: _jpeg,
}
"""What makes the decoder of each codec."""


def decoder_of(name: str, configuration: Configuration, shape: Shape, dtype: np.dtype[Any], fill: Any) -> Decoder:
    """Return the decoder for the chunks of an array that has one of these codecs."""
    if len(shape) != BANDS_Y_X or math.prod(shape) < 1:
        raise MalformedError(f"chunks of {shape}; bands, y, x are needed", field=name)
    return MAKERS[name](name, configuration, shape, dtype, fill)
