"""What a chunk's data declare, compared with the chunk before a decoder allocates anything.

Schemes that are told the size of their output (deflate, LZW, ZSTD, LZMA, PackBits) stop
there by themselves; of some is known how many bytes they can become.
"""

from jnrrdz.errors import MalformedError
from jnrrdz.formats.jpeg_markers import LOSSLESS, JpegMarkers, Size, jpeg_markers
from jnrrdz.formats.tiff.schemes import BY_NUMBER, SCHEMES, Kind
from jnrrdz.records import resolved

ALPHA_TOO = 4
"""Samples that PNG and WebP may have, which leave out an opaque alpha channel, or add one."""


def check_declared(compression: int, data: bytes | memoryview, height: int, width: int, samples: int) -> Size | None:
    """Return what data declare; refuse more than a chunk of `height` x `width` x `samples`."""
    scheme = SCHEMES.get(compression)
    if scheme is None or scheme.declared is None:
        return None
    if scheme.kind is Kind.JPEG:
        return check_jpeg(data, jpeg_markers(data), height, width, samples)
    size: Size | None = resolved(scheme.declared)(data)
    if size is not None:
        most = max(samples, ALPHA_TOO)
        _check_size(BY_NUMBER[compression].name, size, (height, width, samples), most)
    return size


def check_jpeg(data: bytes | memoryview, markers: JpegMarkers, height: int, width: int, samples: int) -> Size | None:
    """Return what a JPEG declares; refuse one that is too large, or cut off."""
    size = markers.size(data)
    if size is None:
        return None
    if size[2] != samples and markers.frame_kind(data) == LOSSLESS:
        # DNG has neighbours in a row as components, so that each is predicted from the
        # next of its colour
        size = size[0], size[1] * size[2] // samples, samples
    _check_size("JPEG", size, (height, width, samples), samples)
    if markers.end is None:
        # libjpeg would only warn, and leave the rest of the pixels grey
        text = f"JPEG data of {len(data)} bytes are cut off: no end of image (FF D9) in them"
        raise MalformedError(text)
    return size


def _check_size(name: str, size: Size, chunk: Size, most: int) -> None:
    """Refuse more rows, columns or samples than a chunk has room for."""
    if size[0] <= chunk[0] and size[1] <= chunk[1] and size[2] <= most:
        return
    declared, room = (" x ".join(map(str, sides)) for sides in (size, chunk))
    raise MalformedError(f"{name} data declare {declared} in a chunk of {room}")


def check_possible(compression: int, nbytes: int, need: int) -> None:
    """Refuse a stream that cannot become as many bytes as the smallest chunk has, before room is made for them."""
    scheme = SCHEMES.get(compression)
    times = None if scheme is None else scheme.most_times
    if times is not None and nbytes * times < need:
        raise MalformedError(
            f"{BY_NUMBER[compression].name} data of {nbytes} bytes become {nbytes * times} at the most, "
            f"{need} are needed"
        )
