"""Parts of a value that zarr asks for, as the first byte and the byte after the last one.

May touch zarr's store interface only.
"""

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest


def cut(data: bytes | None, byte_range: ByteRequest | None) -> bytes | None:
    """Return a part of a value, None where there is none."""
    return None if data is None else data[slice(*window(byte_range, len(data)))]


def window(byte_range: ByteRequest | None, size: int) -> tuple[int, int]:
    """Return the first byte and the byte after the last one of a part of a value."""
    match byte_range:
        case None:
            return 0, size
        case RangeByteRequest(start, end):
            return min(start, size), min(end, size)
        case OffsetByteRequest(offset):
            return min(offset, size), size
        case SuffixByteRequest(suffix):
            return max(size - suffix, 0), size
    raise TypeError(f"Unexpected byte_range, got {byte_range!r}")
