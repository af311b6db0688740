"""What the bytes of an image codec say of their own size, compared with the chunk that they must fill.

May touch errors and the layout tables only.  A few bytes can declare gigabytes: this is looked at
before a decoder allocates anything.  Schemes that are told the size of their output (deflate, LZW,
ZSTD, LZMA, PackBits) stop there by themselves and need no look.
"""

from collections.abc import Callable

from jnrrdz.errors import MalformedError
from jnrrdz.formats.image_headers import jpeg2000_size, jpegxl_size, jpegxr_size, lerc_size
from jnrrdz.formats.tiff.tags import JPEG2000S, Compression

type Size = tuple[int, int, int]
"""Height, width, samples."""

MARK = 0xFF
JPEG_END = b"\xff\xd9"
JPEG_TAIL = 1024  # writers pad their tiles
ALPHA_TOO = 4  # PNG and WebP may leave out an opaque alpha channel, or add one
SOF = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}
STANDALONE = {0x01, 0xD0, 0xD1, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8}


def jpeg_size(data: bytes | memoryview) -> Size | None:
    """Return what a JPEG's frame header declares; None where there is no frame header."""
    at, end = 0, len(data) - 9
    while at < end:
        if data[at] != MARK:
            return None
        marker = data[at + 1]
        if marker == MARK:
            at += 1
        elif marker in STANDALONE:
            at += 2
        elif marker in SOF:
            height = int.from_bytes(data[at + 5 : at + 7], "big")
            return height, int.from_bytes(data[at + 7 : at + 9], "big"), data[at + 9]
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def png_size(data: bytes | memoryview) -> Size | None:
    """Return what a PNG's IHDR declares."""
    if bytes(data[12:16]) != b"IHDR":
        return None
    return int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big"), 1


def webp_size(data: bytes | memoryview) -> Size | None:
    """Return what a WebP's first chunk declares."""
    head = bytes(data[:30])
    kind = head[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[27:30], "little"), 1 + int.from_bytes(head[24:27], "little"), 3
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits >> 14 & 0x3FFF), 1 + (bits & 0x3FFF), 3
    if kind == b"VP8 ":
        return int.from_bytes(head[28:30], "little") & 0x3FFF, int.from_bytes(head[26:28], "little") & 0x3FFF, 3
    return None


READERS: dict[int, Callable[[bytes | memoryview], Size | None]] = {
    Compression.JPEG: jpeg_size,
    Compression.OLD_JPEG: jpeg_size,
    Compression.ALT_JPEG: jpeg_size,
    Compression.JPEG_LOSSY: jpeg_size,
    Compression.PNG: png_size,
    Compression.WEBP: webp_size,
    Compression.WEBP_OLD: webp_size,
    Compression.LERC: lerc_size,
    Compression.JPEGXL: jpegxl_size,
    Compression.JPEGXL_DNG: jpegxl_size,
    Compression.JPEGXR: jpegxr_size,
    Compression.JPEGXR_NDPI: jpegxr_size,
    **dict.fromkeys(JPEG2000S, jpeg2000_size),
}


def check_declared(compression: int, data: bytes | memoryview, height: int, width: int, samples: int) -> Size | None:
    """Return what data declare, and refuse more pixels than a chunk of `height` x `width` x `samples` has."""
    read = READERS.get(compression)
    size = None if read is None else read(data)
    if size is None:
        return None
    is_jpeg = read is jpeg_size
    most = samples if is_jpeg else max(samples, ALPHA_TOO)
    if size[0] > height or size[1] > width or size[2] > most:
        raise MalformedError(
            f"{Compression(compression).name} data declare {size[0]} x {size[1]} x {size[2]} "
            f"in a chunk of {height} x {width} x {samples}"
        )
    if is_jpeg and bytes(data[-JPEG_TAIL:]).rfind(JPEG_END) < 0:
        # libjpeg would only warn, and leave the rest of the pixels grey
        raise MalformedError(f"JPEG data of {len(data)} bytes are cut off: no end of image (FF D9) in them")
    return size


MOST_TIMES: dict[int, int] = {
    Compression.NONE: 1,
    Compression.PACKBITS: 64,
    Compression.DEFLATE: 1032,
    Compression.DEFLATE_OLD: 1032,
    Compression.LZW: 4096,
}
"""How many times its length a stream can become at the most, where its format has a limit."""


def check_possible(compression: int, nbytes: int, need: int) -> None:
    """Refuse a stream that cannot become as many bytes as the smallest chunk has, before room is made for them."""
    times = MOST_TIMES.get(compression)
    if times is not None and nbytes * times < need:
        raise MalformedError(
            f"{Compression(compression).name} data of {nbytes} bytes become {nbytes * times} at the most, "
            f"{need} are needed"
        )
