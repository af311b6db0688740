"""Files that an archive stores without compression, as a part of the archive's bytes.

`zip://x.tif::https://host/a.zip` is a range of `a.zip` if the archive does not compress
`x.tif`.  References then name the archive, and any reader of byte ranges reads them.
Compressed and encrypted members are fsspec's to read, by the chained URL.  Follows
https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT (4.3.7).
"""

import io
import struct
import zipfile
from collections.abc import Callable, Sequence
from typing import BinaryIO, cast

from jnrrdz.core.state import Validators
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.sources import url as urls
from jnrrdz.sources.ranges import ByteSource, Span
from jnrrdz.sources.readahead import ReadAhead

ZIP = "zip"
_CHAIN = f"{ZIP}://"
_LOCAL_HEADER = struct.Struct("<4s22x2H")
"""Signature, and the lengths of the name and of the extra field behind it."""

_SIGNATURE = b"PK\x03\x04"
_IS_ENCRYPTED = 1
LARGEST_DIRECTORY = 1 << 26
"""Bytes that are read to find a member: those of half a million names."""


def member_and_archive(url: str) -> tuple[str, str] | None:
    """Return the member's name and the archive's URL of `zip://NAME::ARCHIVE`."""
    where = urls.parse(url)
    if where.scheme != ZIP or len(where.links) != len(("member", "archive")):
        return None
    member, archive = where.links
    return (member[len(_CHAIN) :].lstrip("/"), archive) if archive else None


def member_url(name: str, archive: str) -> str:
    """Return the chained URL of a member."""
    return f"{_CHAIN}{name}::{archive}"


class StoredMember:
    """A member of an archive, which is `size` bytes of it from `start` on."""

    def __init__(self, url: str, archive: ByteSource, start: int, size: int) -> None:
        self.url = url
        self.archive = archive
        self.start = start
        self.size = size

    @property
    def validators(self) -> Validators:
        """The size of the member, and the state of the archive."""
        state = self.archive.validators
        return Validators(self.size, state.etag, state.version, state.modified)

    @property
    def known(self) -> Validators | None:
        """The same, which was asked for when the archive's directory was read."""
        return self.validators

    def read(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of each span; shorter only at the member's end."""
        return self.archive.read(self._shifted(spans))

    async def aread(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the same without blocking the running event loop."""
        return await self.archive.aread(self._shifted(spans))

    def close(self) -> None:
        """Close the archive."""
        self.archive.close()

    def _shifted(self, spans: Sequence[Span]) -> list[Span]:
        return [(self.start + min(start, self.size), self.start + min(stop, self.size)) for start, stop in spans]


def open_member(url: str, open_archive: Callable[[str], ByteSource]) -> StoredMember | None:
    """Return the member that a chained URL names.

    None stands for one that is compressed, encrypted or missing, and for other URLs.
    """
    parts = member_and_archive(url)
    if parts is None:
        return None
    name, place = parts
    archive = open_archive(place)
    read = ReadAhead(archive)
    try:
        with zipfile.ZipFile(cast("BinaryIO", _Stream(read))) as directory:
            entry = directory.NameToInfo.get(name)
    # a name that is no UTF-8 is a ValueError
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError) as error:
        archive.close()
        raise MalformedError(f"no ZIP archive: {error}", url=place) from error
    is_stored = (
        entry is not None
        and entry.compress_type == zipfile.ZIP_STORED
        and entry.compress_size == entry.file_size
        and not entry.flag_bits & _IS_ENCRYPTED
    )
    if entry is None or not is_stored:
        archive.close()
        return None
    start = _start_of(read, entry, place)
    return StoredMember(url, archive, start, entry.file_size)


def _start_of(read: ReadAhead, entry: zipfile.ZipInfo, place: str) -> int:
    """Return the first byte behind a member's local header."""
    at = entry.header_offset
    header = read(at, at + _LOCAL_HEADER.size)
    if len(header) == _LOCAL_HEADER.size:
        signature, name, extra = _LOCAL_HEADER.unpack(header)
        start: int = at + _LOCAL_HEADER.size + name + extra
        if signature == _SIGNATURE and start + entry.file_size <= read.size:
            return start
    message = f"the archive's directory places {entry.filename!r:.200} where it is not"
    raise MalformedError(message, url=place, offset=at)


class _Stream:
    """A source as a file, as far as `zipfile` reads one."""

    def __init__(self, read: ReadAhead) -> None:
        self._read = read
        self._at = 0
        self._taken = 0

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._read.size}
        at = bases[whence] + offset
        if at < 0:
            raise zipfile.BadZipFile(f"position {at}")
        self._at = at
        return at

    def read(self, size: int = -1) -> bytes:
        """Return bytes from the position on."""
        rest = max(self._read.size - self._at, 0)
        size = rest if size < 0 else min(size, rest)
        self._taken += size
        if self._taken > LARGEST_DIRECTORY:
            message = f"an archive's directory of more than {LARGEST_DIRECTORY} bytes"
            raise UnsupportedError(message, url=self._read.source.url)
        data = self._read(self._at, self._at + size)
        self._at += len(data)
        return data
