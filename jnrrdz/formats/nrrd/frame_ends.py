"""Where compressed streams end that may have other bytes behind them.

May touch errors only.  Formats: RFC 8878 section 3.1 (zstd), and
https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md; gzip's and bzip2's decoders tell it themselves.
"""

from collections.abc import Mapping
from typing import Protocol

from jnrrdz.errors import MalformedError

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
LZ4_MAGIC = b"\x04\x22\x4d\x18"
_SKIPPABLE = b"\x2a\x4d\x18"
_ZSTD_RLE, _ZSTD_RESERVED = 1, 3
_LZ4_UNCOMPRESSED = 0x80000000


class FrameEnd(Protocol):
    """Gives the offset behind the frame that begins at an offset; None where none begins there."""

    def __call__(self, data: memoryview, start: int, /) -> int | None:
        """Return the offset."""


def _skippable(data: memoryview, start: int) -> int | None:
    head = bytes(data[start : start + 8])
    if len(head) < len("magicsiz") or head[1:4] != _SKIPPABLE or head[0] & 0xF0 != 0x50:  # noqa: PLR2004  0x184D2A5x
        return None
    return start + 8 + int.from_bytes(head[4:], "little")


def zstd_end(data: memoryview, start: int) -> int | None:
    """Return the offset behind a zstd frame."""
    if data[start : start + 4] != ZSTD_MAGIC:
        return _skippable(data, start)
    descriptor = _byte(data, start + 4)
    single = bool(descriptor & 0x20)
    content = (int(single), 2, 4, 8)[descriptor >> 6]
    at = start + 5 + (not single) + (0, 1, 2, 4)[descriptor & 3] + content
    last = False
    while not last:
        header = _number(data, at, 3)
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        if kind == _ZSTD_RESERVED:
            raise MalformedError("a reserved kind of block", offset=at, field="zstd")
        at += 3 + (1 if kind == _ZSTD_RLE else size)
    return _inside(data, at + (4 if descriptor & 4 else 0), "zstd")


def lz4_end(data: memoryview, start: int) -> int | None:
    """Return the offset behind an LZ4 frame."""
    if data[start : start + 4] != LZ4_MAGIC:
        return _skippable(data, start)
    flags = _byte(data, start + 4)
    at = start + 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    while True:
        size = _number(data, at, 4)
        at += 4
        if not size:
            return _inside(data, at + (4 if flags & 0x04 else 0), "lz4")
        at += (size & ~_LZ4_UNCOMPRESSED) + (4 if flags & 0x10 else 0)


def _byte(data: memoryview, at: int) -> int:
    return _number(data, at, 1)


def _number(data: memoryview, at: int, nbytes: int) -> int:
    if at + nbytes > len(data):
        raise MalformedError(f"cut off at byte {len(data)}", field="frame")
    return int.from_bytes(data[at : at + nbytes], "little")


def _inside(data: memoryview, at: int, field: str) -> int:
    if at > len(data):
        raise MalformedError(f"cut off: {len(data)} of {at} bytes", field=field)
    return at


ENDS: Mapping[str, FrameEnd] = {"zstd": zstd_end, "lz4": lz4_end}
