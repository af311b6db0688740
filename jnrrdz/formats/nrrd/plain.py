"""Arrays without tiles: raw data as slabs of whole rows, compressed data as a chunk a file.

The data begin behind the header, or in files beside it that it names, behind lines and bytes to skip.  A name leads
below the header's folder, or to where the reader allows it to.  Axes are in C order here: the file's first one is
the last.  Follows http://teem.sourceforge.net/nrrd/format.html.
"""

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core import codecs as codec
from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import TileConfig, can_hold
from jnrrdz.core.configuration import Codec, CodecSpec
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.slabs import Slabs, cut
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.nrrd.header import Header
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.url import LocalFile, Location, is_absolute, place, require_inside

TARGET = 1 << 18
"""Bytes of a slab, about: a request's worth, and little enough to read for one row."""


def file_slabs(shape: tuple[int, ...], per_file: int) -> Slabs | None:
    """Return slabs that are a whole file each, None where files end within rows."""
    inner = 1
    for axis in range(len(shape) - 1, -1, -1):
        if per_file % (inner * shape[axis]) == 0:
            inner *= shape[axis]
            continue
        step, rest = divmod(per_file, inner)
        return Slabs(shape, axis, step) if rest == 0 and step and shape[axis] % step == 0 else None
    return Slabs(shape, 0, shape[0])


_PLAIN = re.compile(r"(?!\.\.?(?:/|$))[^/\\?#:%\x00-\x1f~]+(?:/(?!\.\.?(?:/|$))[^/\\?#:%\x00-\x1f]+)*")
"""Names that stay below their folder whatever a file system makes of them."""


def is_plain(name: str) -> bool:
    """Whether a name is relative, with neither dots that lead up nor anything that a URL gives a meaning."""
    return _PLAIN.fullmatch(name) is not None


@dataclass(frozen=True)
class Folder:
    """The folder of a header, and what else its names may lead to."""

    header: str
    allow: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The folder with a slash at its end."""
        return self._split()[0]

    def _split(self) -> tuple[str, str]:
        """Return the folder, and what stands behind the name: a query, the rest of a chain."""
        first, chain, rest = self.header.partition("::")
        is_http = first.lower().startswith(("http://", "https://"))
        path, question, query = first.partition("?") if is_http else (first, "", "")
        return path[: path.rfind("/") + 1], question + query + chain + rest

    def resolve(self, name: str, field: str) -> str:
        """Return the URL of a file (or folder) that the header names."""
        folder, behind = self._split()
        try:
            target = place(name if is_absolute(name) else folder + name + behind)
            home = place(folder + behind) if folder or behind else place(".")
            require_inside(target, home, self.allow, name=name)
        except JnrrdzError as error:
            raise error.at(url=self.header, field=field) from error.__cause__
        return target.url() if isinstance(target, LocalFile | Location) else folder + name + behind

    def resolve_all(self, names: Sequence[str], field: str, base: str = "", base_field: str = "") -> list[str]:
        """Return the URLs of files that lie in the folder `base`; a plain name needs no look at where it leads."""
        before = f"{base.rstrip('/')}/" if base else ""
        home = self.resolve(base, base_field if base else field).rstrip("/")
        is_bare = not self._split()[1]  # nothing has to follow the name: no query, no chain
        return [
            f"{home}/{name}"
            if is_bare and is_plain(name)
            else self.resolve(name if is_absolute(name) else before + name, field)
            for name in names
        ]


_BLOCK = 1 << 16
LARGEST_LINES = 1 << 26


@dataclass(frozen=True)
class DataFile:
    """One file: where its data begin, and where they end."""

    url: str
    start: int
    stop: int
    skip: int = 0
    """Decompressed bytes before the data."""


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
    urls = beside.folder.resolve_all(header.files.names, header.files.field)
    readers: Sequence[ReadAhead] = [beside.opened(url, header.files.field) for url in urls]
    files = [_data_of(reader, 0, header, count) for reader in readers]
    for reader in readers:
        reader.source.close()
    return files


def _data_of(read: ReadAhead, start: int, header: Header, count: int) -> DataFile:
    size, is_raw = read.size, header.encoding == "raw"
    if is_raw and header.byte_skip < 0:
        start = size - count
    else:
        start = _behind_lines(read, start, header)
        start += header.byte_skip if is_raw else 0
    if start < 0 or start > size or (header.encoding == "raw" and start + count > size):
        message = f"{count} bytes are declared, of which {max(size - start, 0)} are there"
        is_skipped = start > size and header.byte_skip > 0
        field = header.byte_field if is_skipped else "sizes"
        raise MalformedError(message, url=read.source.url, offset=max(start, 0), field=field)
    if is_raw:
        return DataFile(read.source.url, start, size)
    skip = header.byte_skip
    if skip < 0:
        skip = _before_the_last(read, start, header, count)
    return DataFile(read.source.url, start, size, skip)


_LENGTH = 4
"""Bytes of ISIZE, the last field of a gzip member: https://www.rfc-editor.org/rfc/rfc1952."""


def _before_the_last(read: ReadAhead, start: int, header: Header, count: int) -> int:
    """Return how many decompressed bytes precede the last `count` ones.

    gzip records its decompressed length modulo 2^32; a wrong one fails where the data
    are decompressed, because their length is checked there.
    """
    if header.encoding != "gzip":
        message = (
            f"-1 behind {header.encoding}, which does not record its decompressed length; "
            "give the number of bytes to skip, or use raw or gzip"
        )
        raise UnsupportedError(message, field=header.byte_field)
    stop = read.size
    recorded = int.from_bytes(read(max(stop - _LENGTH, start), stop), "little")
    return (recorded - count) % (1 << 8 * _LENGTH)


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
        end = 0
        for _ in range(lines):
            end = block.index(b"\n", end) + 1
        return at + end
    return at


COMPRESSORS = {
    "gzip": CodecSpec(codec.GZIP, {"level": 6}),
    "bzip2": CodecSpec(codec.BZ2, {"level": 9}),
    "zstd": CodecSpec(codec.ZSTD, {"level": 3, "checksum": False}),
}
"""Zarr's names; levels matter to writers alone."""

type Integers = NDArray[np.int64]


def plain_array(header: Header, beside: Beside, names: tuple[str, ...], attributes: dict[str, Any]) -> VirtualArray:
    """Return the array of a header."""
    per_file = _per_file(header)
    files = data_files(header, beside, per_file * header.dtype.itemsize)
    describe = _raw if header.encoding == "raw" else _packed
    slabs, codecs, refs = describe(header, files, per_file)
    return VirtualArray(slabs.shape, header.dtype, slabs.chunks, codecs, refs, names, 0, attributes)


def _per_file(header: Header) -> int:
    """Return how many elements a file has: a slice, or as many slabs of the slowest axis as `subdim` says."""
    total = math.prod(header.sizes)
    if header.files is None or len(header.files.names) == 1:
        return total
    per_file, rest = divmod(total, len(header.files.names))
    if rest:
        raise MalformedError(f"{len(header.files.names)} files for {total} elements", field=header.files.field)
    axes = len(header.sizes)
    along = axes - 1 if header.files.subdim is None else header.files.subdim
    if along > axes:
        raise MalformedError(f"files of {along} axes for an array of {axes}", field="subdim")
    inner = math.prod(header.sizes[: min(along, axes - 1)])
    if per_file % inner if along == axes else per_file != inner:
        raise MalformedError(
            f"files of {per_file} elements, where {inner} are in {along} axes; `subdim` says how many a file has",
            field=header.files.field,
        )
    return per_file


type Described = tuple[Slabs, tuple[Codec, ...], ChunkRefs]


def _raw(header: Header, files: list[DataFile], per_file: int) -> Described:
    """Return slabs of raw data, which are cut wherever rows end."""
    itemsize = header.dtype.itemsize
    slabs = cut(header.sizes[::-1], itemsize, TARGET, piece=per_file)
    starts, lengths = slabs.places()
    number = starts // per_file
    base = np.array([file.start for file in files], np.int64)
    refs = _refs(files, number, base[number] + starts % per_file * itemsize, lengths * itemsize)
    return slabs, slabs.codecs(header.endian), refs


def _packed(header: Header, files: list[DataFile], per_file: int) -> Described:
    """Return slabs of compressed data, a whole file each."""
    slabs, size = file_slabs(header.sizes[::-1], per_file), per_file * header.dtype.itemsize
    if slabs is None:
        raise UnsupportedError(f"files of {per_file} elements, which are no slabs of the array", field="data file")
    costs = "the whole" if size == header.nbytes else "whole files"
    warnings.warn(f"encoding {header.encoding}: any window of it costs reading and inflating {costs}", stacklevel=2)
    for file in files:
        stored = file.stop - file.start
        if not can_hold(header.encoding, stored, file.skip + size):
            behind = f", behind {file.skip} bytes to skip" if file.skip else ""
            message = f"{size} bytes are declared{behind}, which {stored} bytes of {header.encoding} cannot become"
            raise MalformedError(message, url=file.url, offset=file.start, field="sizes")
    starts = np.array([file.start for file in files], np.int64)
    stops = np.array([file.stop for file in files], np.int64)
    skips = sorted({file.skip for file in files})
    if len(skips) > 1:
        message = f"-1 means {skips[0]} bytes in one file and {skips[-1]} in another; one number is read"
        raise UnsupportedError(message, field=header.byte_field)
    skipped = (codec.OffsetConfig(skips[0]),) if skips[0] else ()
    codecs: tuple[Codec, ...]
    if header.encoding in COMPRESSORS:
        codecs = (codec.bytes_(header.endian), *skipped, COMPRESSORS[header.encoding])
    elif skipped:
        raise UnsupportedError(f"{skips[0]} behind {header.encoding}; 0 is read", field=header.byte_field)
    else:
        codecs = (TileConfig(tuple(((size, 0),) for size in slabs.chunks), header.endian, header.encoding),)
    return slabs, codecs, _refs(files, np.arange(len(files)), starts, stops - starts)


def _refs(files: list[DataFile], number: Integers, offset: Integers, length: Integers) -> ChunkRefs:
    """Return references of one range each; a file that is named twice is one source."""
    urls = list(dict.fromkeys(file.url for file in files))
    place = {url: index for index, url in enumerate(urls)}
    source = np.array([place[file.url] for file in files], np.int32)[number]
    indptr = np.arange(len(number) + 1, dtype=np.int64)
    return ChunkRefs(tuple(urls), indptr, source, offset, length)
