"""The codecs of osml-imagery-io: what its manifests say in jnrrdz's own terms, and zarr's classes that read them.

Follows docs/interop/osml.md, which records what osml-imagery-io 0.2.2 writes; zarr looks the codecs up by URI among
the entry points.  What its `tiff-tile` leaves out of an IFD is taken from the source's first bytes where they are
known, and refused where pixels depend on it.  Its codecs of NITF and JPEG 2000 say enough for the decoders here, which
take a tile's place on the reference grid from the main header, where osml-imagery-io moves it to the origin; what they
leave open is refused: bands that stand apart, and colours that are not told.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from zarr.abc.codec import BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer
from zarr.core.common import JSON

from jnrrdz.codecs.base import ChunkDecoder, PixelCodec
from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import BYTES, OSML
from jnrrdz.core.configuration import CodecSpec, Configuration, Samples, checked, literal
from jnrrdz.core.zarr_json import UNREAD_SOURCES, ZARR_JSON, array_from_json, dumps, is_osml
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.codecs import Jpeg2000Config
from jnrrdz.formats.jpeg2000.decode import Jpeg2000Decoder, component_samples
from jnrrdz.formats.nitf.codecs import JbpBlockConfig, JbpJpegConfig
from jnrrdz.formats.nitf.decode import BlockDecoder, JpegDecoder, block_samples
from jnrrdz.formats.tiff.codecs import SIDE, TAG, TiffTileConfig
from jnrrdz.formats.tiff.decode import TileDecoder
from jnrrdz.formats.tiff.schemes import Compression
from jnrrdz.formats.tiff.tags import Photometric, Planar, SampleFormat
from jnrrdz.records import record

TIFF_TILE = f"{OSML}tiff-tile"
UNREAD = (f"{OSML}dted",)
"""What nothing here decodes yet."""

BYTE_ORDERS = {b"II*\0": "little", b"II+\0": "little", b"MM\0*": "big", b"MM\0+": "big"}
"""The first four bytes of a TIFF and of a BigTIFF."""

COMPRESSIONS = {
    Compression.NONE,
    Compression.LZW,
    Compression.JPEG,
    Compression.DEFLATE,
    Compression.PACKBITS,
    Compression.DEFLATE_OLD,
}
"""Those that osml-imagery-io indexes and that need nothing which its configuration leaves out."""

COLOURS = {
    Photometric.RGB: 3,
    Photometric.SEPARATED: 4,
    Photometric.YCBCR: 3,
    Photometric.CIELAB: 3,
    Photometric.ICCLAB: 3,
    Photometric.ITULAB: 3,
}
"""Samples that a colour takes; other photometric interpretations take one."""

FORMATS = {"u": SampleFormat.UINT, "i": SampleFormat.INT, "f": SampleFormat.IEEEFP}
BITS_OF_A_BYTE = 8


@record
class OsmlTiffTile(Configuration):
    """The configuration of its `tiff-tile`, with the defaults that its reader has; it writes every member."""

    compression: int = field(default=1, metadata=SIDE)
    bits_per_sample: int = field(default=8, metadata=SIDE)
    samples_per_pixel: int = field(default=1, metadata=SIDE)
    photometric: int = field(default=1, metadata=TAG)
    planar_config: int = field(default=1, metadata=SIDE)
    predictor: int = field(default=1, metadata=SIDE)
    tile_width: int = field(default=256, metadata=SIDE)
    tile_height: int = field(default=256, metadata=SIDE)
    sample_format: int = field(default=1, metadata=SIDE)
    jpeg_tables: bytes | None = field(
        default=None, metadata=checked(lambda value: None if value is None else literal()["check"](value))
    )

    NAME: ClassVar[str] = TIFF_TILE
    ALWAYS: ClassVar[frozenset[str]] = frozenset(
        {"compression", "bits_per_sample", "samples_per_pixel", "photometric", "planar_config"}
        | {"predictor", "tile_width", "tile_height", "sample_format", "jpeg_tables"}
    )

    @classmethod
    def from_json(cls, configuration: object) -> Self:
        """Return the checked configuration; a member of another version is not supported."""
        unknown = sorted(set(configuration) - cls.ALWAYS) if isinstance(configuration, Mapping) else []
        if unknown:
            raise UnsupportedError(f"members {', '.join(unknown)}, which osml-imagery-io 0.2 has not", field=TIFF_TILE)
        return super().from_json(configuration)

    def config(
        self, image: tuple[int, int], dtype: np.dtype[Any] | None = None, byte_order: str = "little"
    ) -> TiffTileConfig:
        """Return the configuration of jnrrdz's `tiff-tile` for an image of (height, width)."""
        self._refuse_what_is_not_said()
        if dtype is not None:
            self.check_type(dtype)
        colours = COLOURS.get(self.photometric, 1) if self.photometric in Photometric else 1  # type: ignore[call-overload]
        samples = self.samples_per_pixel
        # it hands over the planes of a planar file one by one as if each were the file, RGB of one sample
        plane = samples < colours
        return TiffTileConfig(
            tile_width=self.tile_width,
            tile_height=self.tile_height,
            image_width=image[1],
            image_height=image[0],
            byte_order=byte_order,
            compression=self.compression,
            photometric=Photometric.MINISBLACK if plane else self.photometric,
            samples_per_pixel=samples,
            bits_per_sample=(self.bits_per_sample,) * samples,
            sample_format=(self.sample_format,) * samples,
            predictor=self.predictor,
            extra_samples=() if plane else (0,) * (samples - colours),
            jpeg_tables=self.jpeg_tables,
        )

    def _refuse_what_is_not_said(self) -> None:
        if self.compression not in COMPRESSIONS:
            known = ", ".join(str(int(scheme)) for scheme in sorted(COMPRESSIONS))
            raise UnsupportedError(f"compression {self.compression}; {known} are read", field=TIFF_TILE)
        if self.planar_config != Planar.CHUNKY:
            raise UnsupportedError(f"planar_config {self.planar_config} in one chunk; 1 is read", field=TIFF_TILE)
        jpeg_colours = self.compression == Compression.JPEG and self.samples_per_pixel == COLOURS[Photometric.YCBCR]
        if self.photometric == Photometric.YCBCR and not jpeg_colours:
            raise UnsupportedError("YCbCr without JPEG: the manifest does not tell its subsampling", field=TIFF_TILE)

    def check_type(self, dtype: np.dtype[Any]) -> None:
        """Refuse an array whose type is not that of the samples: casting would change pixels silently."""
        unsigned = self.sample_format in (SampleFormat.UINT, SampleFormat.VOID)
        bits = BITS_OF_A_BYTE if unsigned and self.bits_per_sample < BITS_OF_A_BYTE else self.bits_per_sample
        kind = SampleFormat.UINT if unsigned else self.sample_format
        if FORMATS.get(dtype.kind) != kind or dtype.itemsize * BITS_OF_A_BYTE != bits:
            raise UnsupportedError(
                f"samples of {self.bits_per_sample} bits in format {self.sample_format} for an array of {dtype}",
                field=TIFF_TILE,
            )


def refusal(name: str) -> UnsupportedError:
    """Return the error for a codec of osml-imagery-io that is not read."""
    return UnsupportedError(
        f"codec {name} of osml-imagery-io is not read; those of TIFF, NITF and JPEG 2000 are", field="codecs"
    )


def adopted_documents(documents: Mapping[str, bytes], magic_of: Callable[[str], bytes]) -> Mapping[str, bytes]:
    """Return a manifest's metadata documents, with every array adopted where osml-imagery-io made it.

    `magic_of` is given an array's path and returns the first four bytes of the source of its chunks.
    """
    root = _parsed(documents, ZARR_JSON)
    if not is_osml(root):
        return documents
    own = {name: value for name, value in root["attributes"].get("jnrrdz", {}).items() if name != UNREAD_SOURCES}
    found = dict(documents)
    if own:
        found[ZARR_JSON] = dumps({**root, "attributes": {**root["attributes"], "jnrrdz": own}}).encode()
    for key in documents:
        if key.endswith(f"/{ZARR_JSON}"):
            document = _parsed(documents, key)
            if document.get("node_type") == "array":
                found[key] = dumps(adopted(document, magic_of(key.removesuffix(f"/{ZARR_JSON}")))).encode()
    return found


def _parsed(documents: Mapping[str, bytes], key: str) -> Mapping[str, Any]:
    try:
        document = json.loads(documents.get(key, b"{}"))
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"not JSON: {error}", field=key) from error
    return document if isinstance(document, dict) else {}


def adopted(metadata: Mapping[str, Any], magic: bytes) -> dict[str, Any]:
    """Return an array's zarr.json with jnrrdz's `tiff-tile` for its codecs, where its source is a TIFF.

    `magic` is the first four bytes of the source: they tell the byte order, which the manifest does
    not, and whether an array without codec is an uncompressed TIFF.  Other arrays come back as they are.
    """
    facts = array_from_json(metadata)
    for codec in facts.codecs:
        if codec.name in UNREAD:
            raise refusal(codec.name)
    tile = _tile_of(facts, magic)
    if tile is None:
        return dict(metadata)
    order = BYTE_ORDERS.get(magic[:4])
    if order is None:
        raise MalformedError(f"the source of TIFF tiles begins with {magic[:4]!r}, which is no TIFF", offset=0)
    height, width = facts.shape[-2:]
    return {**metadata, "codecs": [tile.config((height, width), facts.dtype, order).to_json()]}


def _tile_of(facts: VirtualArray, magic: bytes) -> OsmlTiffTile | None:
    """Return how the array's chunks are stored; None where they are no tiles of a TIFF."""
    names = [codec.name for codec in facts.codecs]
    if names == [BYTES, TIFF_TILE]:
        return OsmlTiffTile.from_json(facts.codecs[1].configuration)
    bare = facts.codecs == (CodecSpec(BYTES),) or names == [BYTES]
    if bare and magic[:4] in BYTE_ORDERS and facts.chunks[:-2] == (1,) and facts.dtype.kind in FORMATS:
        height, width = facts.chunks[-2:]
        bits = facts.dtype.itemsize * BITS_OF_A_BYTE
        return OsmlTiffTile(
            bits_per_sample=bits, sample_format=FORMATS[facts.dtype.kind], tile_width=width, tile_height=height
        )
    return None


type Shape = tuple[int, ...]
type Members = Mapping[str, Any]

JPEG2000 = f"{OSML}jpeg2000"
JBP_BLOCK = f"{OSML}jbp-block"
JPEG = f"{OSML}jpeg"

BANDS_Y_X = 3
RGB = 3
COLOUR_SPACES = ("MONO", "RGB", "YCbCr601")


def _checked(name: str, configuration: Members, members: set[str]) -> Members:
    """Return a configuration that has just these members."""
    if set(configuration) != members:
        found = ", ".join(sorted(configuration))
        raise UnsupportedError(f"members {found}; osml-imagery-io 0.2 writes {', '.join(sorted(members))}", field=name)
    return configuration


def _check_shape(name: str, configuration: Members, shape: Shape) -> None:
    told = tuple(configuration[member] for member in ("num_bands", "block_height", "block_width"))
    if told != shape:
        raise MalformedError(f"blocks of {told} for chunks of {shape}", field=name)


def _mode(name: str, configuration: Members, known: str) -> str:
    """Return the interleave of several bands that stand in one chunk."""
    mode = configuration["imode"]
    if configuration["num_bands"] == 1 and mode in {"B", "P", "R", "S"}:
        return "B"
    if not isinstance(mode, str) or mode not in known.split():
        raise UnsupportedError(f"imode {mode!r} of several bands in one chunk; {known} are read", field=name)
    return mode


def _block_config(name: str, configuration: Members) -> JbpBlockConfig:
    members = {"num_bands", "block_height", "block_width", "nbpp", "imode", "pvtype"}
    said = _checked(name, configuration, members)
    own = {"pixel_type": said["pvtype"], "bits_per_pixel": said["nbpp"], "interleave": _mode(name, said, "B P R")}
    return JbpBlockConfig.from_json(own)


def _jbp_block(name: str, configuration: Members, shape: Shape, dtype: np.dtype[Any], fill: Any) -> ChunkDecoder:
    config = _block_config(name, configuration)
    _check_shape(name, configuration, shape)
    return BlockDecoder(config, shape, dtype, fill)


def _jpeg(name: str, configuration: Members, shape: Shape, dtype: np.dtype[Any], fill: Any) -> ChunkDecoder:
    members = {"bits_per_pixel", "num_bands", "block_width", "block_height", "imode", "color_space"}
    said = _checked(name, configuration, members)
    _check_shape(name, said, shape)
    mode = _mode(name, said, "B P")
    space, bands = said["color_space"], said["num_bands"]
    is_apart = mode == "B" and bands > 1
    if space not in COLOUR_SPACES or not (is_apart or ((space == "MONO") is (bands == 1) and bands in {1, RGB})):
        raise UnsupportedError(f"color_space {space!r} of {bands} bands; MONO of 1, others of 3 are read", field=name)
    return (_BandJpegs if is_apart else JpegDecoder)(JbpJpegConfig(), shape, dtype, fill)


class _BandJpegs(JpegDecoder):
    """Decodes chunks that have a stream for each band, one behind the other; their colours mean nothing."""

    def _decoded(self, stream: bytes, bands: int) -> NDArray[Any]:
        if bands != 1:
            raise MalformedError("imode 'B', and a stream that is not of one band", field=JPEG)
        return super()._decoded(stream, bands)


def jpeg2000_config(name: str, configuration: Members) -> Jpeg2000Config:
    """Return the configuration of jnrrdz's `jpeg2000`."""
    return Jpeg2000Config.from_json(_checked(name, configuration, {"main_header", "resolution_level"}))


def _jpeg2000(name: str, configuration: Members, shape: Shape, dtype: np.dtype[Any], fill: Any) -> ChunkDecoder:
    plain = shape if shape[0] > 1 else shape[1:]
    return Jpeg2000Decoder(jpeg2000_config(name, configuration), plain, dtype, fill)


MAKERS: Mapping[str, Callable[[str, Members, Shape, np.dtype[Any], Any], ChunkDecoder]] = {
    JPEG2000: _jpeg2000,
    JBP_BLOCK: _jbp_block,
    JPEG: _jpeg,
}
"""What makes the decoder of each codec."""


class ReadOnlyCodec(PixelCodec, BytesBytesCodec):
    """A codec that decodes only: after `bytes`, it turns a chunk's bytes into pixels, little-endian, in C order."""

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        pixels = self._decoder(chunk_spec).decode(memoryview(chunk_data.as_numpy_array()))
        little = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder("<"))
        return chunk_spec.prototype.buffer.from_array_like(little.reshape(-1).view("B"))

    def _encode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:  # noqa: ARG002  # zarr's
        raise UnsupportedError("osml-imagery-io's codecs are for reading", field="codecs")


@dataclass(frozen=True)
class OsmlTiffTileCodec(ReadOnlyCodec):
    """osml-imagery-io's `tiff-tile`."""

    CONFIG = OsmlTiffTile

    image: tuple[int, int] | None = None
    """Height and width of the whole array, which zarr tells first; edges are short by them."""

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        """Return the codec knowing the array's size: the first shape that zarr shows is the array's."""
        super().evolve_from_array_spec(array_spec)
        return self if self.image is not None else replace(self, image=_rows_columns(array_spec.shape))

    def check_type(self, dtype: np.dtype[Any]) -> None:
        """Refuse an array whose type is not that of the samples."""
        self.config.check_type(dtype)

    def decoder(self, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> TileDecoder:
        """Return the decoder for chunks of this shape and type."""
        config = self.config.config(self.image or _rows_columns(shape), dtype)
        return TileDecoder(config, shape, dtype, fill_value)


def _rows_columns(shape: Shape) -> tuple[int, int]:
    if len(shape) != BANDS_Y_X:
        raise MalformedError(f"an array of {len(shape)} axes; bands, y, x are needed", field=TIFF_TILE)
    return shape[1], shape[2]


class OsmlBlocksCodec(ReadOnlyCodec):
    """osml-imagery-io's codecs of NITF and JPEG 2000."""

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Return the codec of an entry of zarr.json; members are checked with the chunks' shape."""
        name, configuration = str(data.get("name")), data.get("configuration", {})
        if not isinstance(configuration, Mapping):
            raise MalformedError(f"a configuration {configuration!r}", field=name)
        return cls(CodecSpec(name, configuration))

    def samples(self) -> Iterable[Samples]:
        """Return what the blocks hold; of a JPEG only its streams tell it."""
        name, configuration = self.config.name, self.config.configuration
        if name == JPEG2000:
            return component_samples(jpeg2000_config(name, configuration).main_header)
        return block_samples(_block_config(name, configuration)) if name == JBP_BLOCK else ()

    def decoder(self, shape: Shape, dtype: np.dtype[Any], fill_value: Any) -> ChunkDecoder:
        """Return the decoder for chunks of this shape and type."""
        if len(shape) != BANDS_Y_X or math.prod(shape) < 1:
            raise MalformedError(f"chunks of {shape}; bands, y, x are needed", field=self.config.name)
        return MAKERS[self.config.name](self.config.name, self.config.configuration, shape, dtype, fill_value)


class OsmlUnreadCodec(ReadOnlyCodec):
    """Any other codec of osml-imagery-io: an array that has it is refused by the codec's name."""

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        """Refuse the codec."""
        raise refusal(str(data.get("name")))
