"""The codec of N5's blocks: its configuration and its record.

https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default describes the
members, docs/codecs/n5_default/README.md those of jnrrdz alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Self

from jnrrdz.core.codecs import BYTES, COMPRESSORS, LZ4, TRANSPOSE, Lz4Config, bytes_, reversed_axes
from jnrrdz.core.configuration import (
    FLAG,
    NO_AXES,
    Codec,
    CodecRecord,
    CodecSpec,
    Configuration,
    Stage,
    checked,
)
from jnrrdz.core.json_schema import shown
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.records import record

N5_DEFAULT = "n5_default"

INNER = ("transpose", "bytes")
"""The codecs that every N5 block has; one compressor may follow."""


def _inner(entries: Any) -> tuple[Codec, ...]:
    """Return the codecs inside of a block."""
    if not isinstance(entries, list):
        raise MalformedError(f"found {shown(entries)}; a list of codecs is needed")
    codecs: list[Codec] = []
    for entry in entries:
        name = entry.get("name") if isinstance(entry, Mapping) else entry
        configuration = entry.get("configuration", {}) if isinstance(entry, Mapping) else {}
        if not isinstance(name, str) or not isinstance(configuration, Mapping):
            raise MalformedError(f"{shown(entry)} is no codec")
        codecs.append(Lz4Config.from_json(configuration) if name == LZ4 else CodecSpec(name, configuration))
    return tuple(codecs)


@record
class N5DefaultConfig(Configuration):
    """A block with its header: how many axes, whether elements have a byte order, how they are compressed."""

    codecs: tuple[Codec, ...] = field(metadata=checked(_inner))
    """`transpose` of all axes, big-endian `bytes`, and a compressor where there is one."""

    odd_blocks: bool = field(default=False, metadata=FLAG)
    """Whether a block may have another shape than its place: what is beyond the place is cut off, what is
    missing is the fill value."""

    NAME: ClassVar[str] = N5_DEFAULT

    def __post_init__(self) -> None:
        """Refuse codecs that no block of N5 is encoded with."""
        if not len(INNER) <= len(self.codecs) <= len(INNER) + 1:
            raise MalformedError("codecs: transpose, bytes and at most one compressor are needed", field=N5_DEFAULT)
        order, layout = self.codecs[:2]
        axes = order.configuration.get("order")
        if order.name != TRANSPOSE or not isinstance(axes, list) or not axes or axes != list(range(len(axes)))[::-1]:
            raise MalformedError(
                f"first codec {order}; a transposition that reverses all axes is needed", field=N5_DEFAULT
            )
        if layout.name != BYTES or layout.configuration.get("endian", "big") != "big":
            raise MalformedError(f"second codec {layout}; bytes, big-endian, is needed", field=N5_DEFAULT)
        if self.compressor is not None and self.compressor.name not in COMPRESSORS:
            raise UnsupportedError(f"compressor {self.compressor.name!r}; there are {', '.join(COMPRESSORS)}")

    @classmethod
    def of(cls, axes: int, itemsize: int, compressors: Sequence[Codec], *, odd_blocks: bool = False) -> Self:
        """Return the configuration for blocks of so many axes, elements of so many bytes."""
        return cls((reversed_axes(axes), bytes_("big" if itemsize > 1 else None), *compressors), odd_blocks)

    @property
    def axes(self) -> int:
        """Number of axes of a block."""
        return len(self.codecs[0].configuration["order"])

    @property
    def endian(self) -> str | None:
        """Byte order of the elements, None where they are single bytes."""
        endian: str | None = self.codecs[1].configuration.get("endian")
        return endian

    @property
    def compressor(self) -> Codec | None:
        """What the elements are compressed with."""
        return self.codecs[2] if len(self.codecs) > len(INNER) else None


RECORDS = (
    CodecRecord(
        N5_DEFAULT,
        Stage.PIXELS,
        NO_AXES,
        config=N5DefaultConfig,
        codec_class="jnrrdz.codecs.steps:N5DefaultCodec",
        decoder="jnrrdz.formats.n5.decode:BlockCoder",
        schema="docs/codecs/n5_default/schema.json",
        can_encode=True,
        not_standard="blocks of N5 whose headers are not all known to be those of full blocks",
    ),
)
