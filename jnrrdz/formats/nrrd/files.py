"""The files with the data of an array, opened: where they begin, and how long they are.

May touch errors, neighbours, the source protocol and the layout.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jnrrdz.errors import MalformedError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.nrrd.common_header import Header
from jnrrdz.formats.nrrd.places import Folder, resolved_all
from jnrrdz.sources.readahead import ReadAhead

_BLOCK = 1 << 16
LARGEST_LINES = 1 << 26


@dataclass(frozen=True)
class DataFile:
    """One file: where its data begin, and where they end."""

    url: str
    start: int
    stop: int


@dataclass(frozen=True)
class Beside:
    """What stands beside a header."""

    read: ReadAhead
    url: str
    neighbours: Neighbours
    folder: Folder

    def opened(self, url: str, field: str) -> ReadAhead:
        """Return a reader of a file that the header names."""
        reader = self.neighbours.open(url)
        if reader is None:
            raise MalformedError(f"{url} is not there", url=self.url, field=field)
        _ = reader.size
        reader.source.close()  # it opens itself again; a header may name thousands
        return reader


def data_files(header: Header, beside: Beside, count: int) -> list[DataFile]:
    """Return the files of an array of so many bytes a file; lines and bytes to skip are skipped in each."""
    if header.files is None:
        return [_data_of(beside.read, header.data_start, header, count)]
    urls = resolved_all(beside.folder, header.files.names, header.files.field)
    readers: Sequence[ReadAhead] = [beside.opened(url, header.files.field) for url in urls]
    found = [_data_of(reader, 0, header, count) for reader in readers]
    for reader in readers:
        reader.source.close()
    return found


def _data_of(read: ReadAhead, start: int, header: Header, count: int) -> DataFile:
    size = read.size
    if header.byte_skip < 0:
        if header.encoding != "raw":
            raise MalformedError("-1 counts from the end of raw data, not of compressed", field=header.byte_field)
        start = size - count
    else:
        start = _behind_lines(read, start, header)
        start += header.byte_skip if header.encoding == "raw" else 0
    if start < 0 or start > size or (header.encoding == "raw" and start + count > size):
        message = f"{count} bytes are declared, of which {max(size - start, 0)} are there"
        is_skipped = start > size and header.byte_skip > 0
        field = header.byte_field if is_skipped else "sizes"
        raise MalformedError(message, url=read.source.url, offset=max(start, 0), field=field)
    return DataFile(read.source.url, start, size)


def _behind_lines(read: ReadAhead, at: int, header: Header) -> int:
    """Return the offset behind the lines to skip."""
    limit, lines = at + LARGEST_LINES, header.line_skip
    while lines:
        block = read(at, at + _BLOCK)
        if not block or at > limit:
            raise MalformedError(
                f"{lines} lines to skip are missing", url=read.source.url, offset=at, field=header.line_field
            )
        ends = block.count(b"\n")
        if ends < lines:
            lines -= ends
            at += len(block)
            continue
        for _ in range(lines):
            end = block.index(b"\n") + 1
            at, block = at + end, block[end:]
        lines = 0
    return at
