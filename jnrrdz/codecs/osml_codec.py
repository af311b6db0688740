"""The codecs of osml-imagery-io in jnrrdz's own terms: what its manifests say, and what that means here.

May touch numpy, errors, the layout tables and the model; no I/O, no zarr.  Follows docs/interop/osml.md, which records
what osml-imagery-io 0.2.2 writes.  Its `tiff-tile` says less than an IFD; what it leaves out is
taken from the source's first bytes where they are known, and refused where pixels depend on it.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from jnrrdz.core.codec import BYTES, CodecSpec, TiffTileConfig
from jnrrdz.core.zarr_json import ZARR_JSON, ArrayFacts, array_from_json, dumps
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.tiff.tags import Compression, Photometric, Planar, SampleFormat

PREFIX = "https://awslabs.github.io/osml-imagery-io/codecs/"
TIFF_TILE = f"{PREFIX}tiff-tile"
UNREAD = (f"{PREFIX}dted",)
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
MAX_TAG = 0xFFFF_FFFF
BITS_OF_A_BYTE = 8


@dataclass(frozen=True)
class OsmlTiffTile:
    """The configuration of its `tiff-tile`, with the defaults that its reader has."""

    compression: int = 1
    bits_per_sample: int = 8
    samples_per_pixel: int = 1
    photometric: int = 1
    planar_config: int = 1
    predictor: int = 1
    tile_width: int = 256
    tile_height: int = 256
    sample_format: int = 1
    jpeg_tables: bytes | None = None

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> "OsmlTiffTile":
        """Return the checked configuration; a member that is not known here is refused."""
        if unknown := sorted(set(configuration) - {item.name for item in fields(cls)}):
            raise UnsupportedError(f"members {', '.join(unknown)}, which osml-imagery-io 0.2 has not", field=TIFF_TILE)
        values = {name: _checked(name, value) for name, value in configuration.items()}
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Return every member, as osml-imagery-io writes them."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        if self.jpeg_tables is not None:
            values["jpeg_tables"] = base64.b64encode(self.jpeg_tables).decode("ascii")
        return values

    def config(self, image: tuple[int, int], dtype: np.dtype[Any], byte_order: str = "little") -> TiffTileConfig:
        """Return the configuration of jnrrdz's `tiff-tile` for an image of (height, width)."""
        self._refuse_what_is_not_said()
        self._check_type(dtype)
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

    def _check_type(self, dtype: np.dtype[Any]) -> None:
        """Refuse an array whose type is not that of the samples: casting would change pixels silently."""
        unsigned = self.sample_format in (SampleFormat.UINT, SampleFormat.VOID)
        bits = BITS_OF_A_BYTE if unsigned and self.bits_per_sample < BITS_OF_A_BYTE else self.bits_per_sample
        kind = SampleFormat.UINT if unsigned else self.sample_format
        if FORMATS.get(dtype.kind) != kind or dtype.itemsize * BITS_OF_A_BYTE != bits:
            raise UnsupportedError(
                f"samples of {self.bits_per_sample} bits in format {self.sample_format} for an array of {dtype}",
                field=TIFF_TILE,
            )


def _checked(name: str, value: Any) -> Any:
    """Return a member of the configuration in its type here."""
    if name == "jpeg_tables":
        return None if value is None else _decoded(value)
    least = 0 if name == "photometric" else 1
    if type(value) is not int or not least <= value <= MAX_TAG:
        raise MalformedError(f"{name} {value!r}; an integer from {least} is needed", field=TIFF_TILE)
    return value


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise MalformedError(f"jpeg_tables are not base64: {error}", field=TIFF_TILE) from error


def refusal(name: str) -> UnsupportedError:
    """Return the error for a codec of osml-imagery-io that is not read."""
    return UnsupportedError(
        f"codec {name} of osml-imagery-io is not read; those of TIFF, NITF and JPEG 2000 are", field="codecs"
    )


def adopted_documents(documents: Mapping[str, bytes], magic_of: Callable[[str], bytes]) -> Mapping[str, bytes]:
    """Return a manifest's metadata documents, with every array adopted where osml-imagery-io made it.

    `magic_of` is given an array's path and returns the first four bytes of the source of its chunks.
    """
    if not is_osml(_parsed(documents, ZARR_JSON)):
        return documents
    found = dict(documents)
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


def is_osml(root: Mapping[str, Any]) -> bool:
    """Whether a manifest's root zarr.json looks as osml-imagery-io writes it, and jnrrdz does not."""
    attributes = root.get("attributes")
    marks = {"source", "multiscales", "zarr_conventions"}
    return isinstance(attributes, Mapping) and marks <= set(attributes) and "jnrrdz" not in attributes


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
    spec = tile.config((height, width), facts.dtype, order).to_spec()
    return {**metadata, "codecs": [spec.to_json()]}


def _tile_of(facts: ArrayFacts, magic: bytes) -> OsmlTiffTile | None:
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
