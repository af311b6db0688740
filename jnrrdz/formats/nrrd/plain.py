"""Arrays that lie in files row after row: cut into slabs of whole rows.

May touch numpy, errors and the model; reads nothing.

Files that a header names: where they are, and whether they may be read.

May touch errors, URLs and neighbours.  A header speaks for its own folder; whatever leads out of it needs the
user's word (`--allow PREFIX`), for a file from a stranger could name any other.

The files with the data of an array, opened: where they begin, and how long they are.

May touch errors, neighbours, the source protocol and the layout.

Arrays without tiles: raw data as slabs of whole rows, compressed data as a chunk a file.

May touch numpy, errors, the layout and the model.  Axes are in C order here: the file's first one is the last.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core import codecs as codec
from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import Codec, CodecSpec, TileConfig, can_hold
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError, UntrustedSourceError
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.formats.nrrd.axes import Meaning
from jnrrdz.formats.nrrd.header import Header
from jnrrdz.sources.readahead import ReadAhead
from jnrrdz.sources.url import LocalFile, Location, is_absolute, place

TARGET = 1 << 18
"""Bytes of a slab, about: a request's worth, and little enough to read for one row."""

LEAST = TARGET // 16
MOST_CHUNKS = 1 << 26


@dataclass(frozen=True)
class Slabs:
    """A grid of slabs: leading axes one by one, one axis in steps, the others whole."""

    shape: tuple[int, ...]
    axis: int
    step: int

    @property
    def chunks(self) -> tuple[int, ...]:
        """The chunk shape."""
        return (*(1,) * self.axis, self.step, *self.shape[self.axis + 1 :])

    @property
    def inner(self) -> int:
        """Elements of one place along the axis."""
        return _product(self.shape[self.axis + 1 :])

    @property
    def short(self) -> int:
        """Size of the last slab along the axis, 0 where all are alike."""
        return self.shape[self.axis] % self.step

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first element of every slab, and how many it has."""
        size = self.shape[self.axis]
        first = np.arange(0, size, self.step, dtype=np.int64)
        lengths = np.minimum(self.step, size - first) * self.inner
        outer = np.arange(_product(self.shape[: self.axis]), dtype=np.int64)
        if len(outer) * len(first) > MOST_CHUNKS:
            raise UnsupportedError(f"{len(outer) * len(first)} slabs; {MOST_CHUNKS} are the most", field="sizes")
        starts = (outer[:, np.newaxis] * size + first) * self.inner
        return starts.ravel(), np.tile(lengths, len(outer))


def _product(sizes: tuple[int, ...]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found


def slabs_of(shape: tuple[int, ...], itemsize: int, per_file: int) -> Slabs:
    """Return slabs of about `TARGET` bytes, none in two files of so many elements; rows are never cut."""
    inner = 1
    for axis in range(len(shape) - 1, -1, -1):
        size = shape[axis]
        is_row = axis == len(shape) - 1 and axis > 0
        if per_file % (inner * size) == 0 and (is_row or inner * size * itemsize <= TARGET):
            inner *= size
            continue
        return Slabs(shape, axis, _step(size, inner, itemsize, per_file))
    return Slabs(shape, 0, shape[0])


def _step(size: int, inner: int, itemsize: int, per_file: int) -> int:
    """Return how many places a slab has: a divisor if one is large enough, so that no slab is short."""
    wish = min(size, max(1, TARGET // (inner * itemsize)))
    even = next(step for step in range(wish, 0, -1) if size % step == 0 and per_file % (step * inner) == 0)
    several = per_file != 0 and per_file % (size * inner) != 0
    return even if several or even * inner * itemsize >= min(LEAST, wish * inner * itemsize) else wish


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
            found = place(name if is_absolute(name) else folder + name + behind)
        except JnrrdzError as error:
            raise error.at(url=self.header, field=field) from error.__cause__
        home = place(folder + behind) if folder or behind else place(".")
        if not found.within(home) and not any(_allows(prefix, found) for prefix in self.allow):
            raise UntrustedSourceError(
                f"{name!r:.200} leads out of the header's folder; --allow {found.url()} would let it",
                url=self.header,
                field=field,
            )
        return found.url() if isinstance(found, LocalFile | Location) else folder + name + behind


def _allows(prefix: str, found: object) -> bool:
    return prefix == "*" or (hasattr(found, "within") and bool(found.within(place(prefix))))


def resolved_all(folder: Folder, names: Sequence[str], field: str) -> list[str]:
    """Return the URLs of files; a plain name needs no look at where it leads."""
    base = folder.resolve("", field) if any(map(is_plain, names)) else ""
    start = base if base.endswith("/") else f"{base}/"
    return [start + name if is_plain(name) else folder.resolve(name, field) for name in names]


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


COMPRESSORS = {
    "gzip": CodecSpec(codec.GZIP, {"level": 6}),
    "bzip2": CodecSpec(codec.BZ2, {"level": 9}),
    "zstd": CodecSpec(codec.ZSTD, {"level": 3, "checksum": False}),
}
"""Zarr's names; levels matter to writers alone."""

type Integers = NDArray[np.int64]


def plain_array(header: Header, beside: Beside, meaning: Meaning) -> VirtualArray:
    """Return the array of a header."""
    if header.encoding not in {"raw", "gzip", "bzip2"}:
        raise UnsupportedError(f"{header.encoding} without tiles; raw, gzip and bzip2 are read", field="encoding")
    per_file = _per_file(header)
    files = data_files(header, beside, per_file * header.dtype.itemsize)
    shape = header.sizes[::-1]
    if header.encoding == "raw":
        slabs = slabs_of(shape, header.dtype.itemsize, per_file)
        codecs, refs = _raw_codecs(header, slabs), _raw_refs(header, slabs, files, per_file)
    else:
        slabs = _whole_files(header, per_file)
        codecs, refs = _packed_codecs(header), _packed_refs(header, files, per_file)
    attributes = meaning.array_attributes((1.0,) * len(shape))
    return VirtualArray(shape, header.dtype, slabs.chunks, codecs, refs, meaning.names, 0, attributes)


def _per_file(header: Header) -> int:
    """Return how many elements a file has."""
    total = header.nbytes // header.dtype.itemsize
    count = 1 if header.files is None else len(header.files.names)
    if total % count:
        assert header.files is not None  # noqa: S101  one file divides everything
        raise MalformedError(f"{count} files for {total} elements", field=header.files.field)
    if count > 1 and header.files is not None:
        _check_subdim(header, total // count, header.files.subdim)
    return total // count


def _check_subdim(header: Header, per_file: int, subdim: int | None) -> None:
    """Refuse files that are not what `subdim` says: one slice each, or slabs of the slowest axis."""
    axes = len(header.sizes)
    along = axes - 1 if subdim is None else subdim
    if along > axes:
        raise MalformedError(f"files of {along} axes for an array of {axes}", field="subdim")
    inner = 1
    for size in header.sizes[: min(along, axes - 1)]:
        inner *= size
    expected = per_file % inner == 0 if along == axes else per_file == inner
    if not expected:
        raise MalformedError(
            f"files of {per_file} elements, where {inner} are in {along} axes; `subdim` says how many a file has",
            field=header.files.field if header.files else "subdim",
        )


def _whole_files(header: Header, per_file: int) -> Slabs:
    slabs = file_slabs(header.sizes[::-1], per_file)
    if slabs is None:
        raise UnsupportedError(f"files of {per_file} elements, which are no slabs of the array", field="data file")
    costs = "the whole" if per_file * header.dtype.itemsize == header.nbytes else "whole files"
    warnings.warn(f"encoding {header.encoding}: any window of it costs reading and inflating {costs}", stacklevel=2)
    return slabs


def _check_inflation(header: Header, file: DataFile, per_file: int) -> None:
    stored, size = file.stop - file.start, per_file * header.dtype.itemsize
    if not can_hold(header.encoding, stored, size):
        message = f"{size} bytes are declared, which {stored} bytes of {header.encoding} cannot become"
        raise MalformedError(message, url=file.url, offset=file.start, field="sizes")


def _raw_codecs(header: Header, slabs: Slabs) -> tuple[Codec, ...]:
    if not slabs.short:
        return (codec.bytes_(header.endian),)
    axes: list[tuple[tuple[int, int], ...]] = [((size, 0),) for size in slabs.chunks]
    axes[slabs.axis] = ((slabs.step, 0), (slabs.short, 0))
    return (TileConfig(tuple(axes), header.endian),)


def _packed_codecs(header: Header) -> tuple[Codec, ...]:
    skipped = (codec.OffsetConfig(header.byte_skip),) if header.byte_skip else ()
    return (codec.bytes_(header.endian), *skipped, COMPRESSORS[header.encoding])


def _packed_refs(header: Header, files: list[DataFile], per_file: int) -> ChunkRefs:
    for file in files:
        _check_inflation(header, file, per_file)
    starts = np.array([file.start for file in files], np.int64)
    stops = np.array([file.stop for file in files], np.int64)
    return _refs(files, np.arange(len(files)), starts, stops - starts)


def _raw_refs(header: Header, slabs: Slabs, files: list[DataFile], per_file: int) -> ChunkRefs:
    starts, lengths = slabs.places()
    number = starts // per_file
    base = np.array([file.start for file in files], np.int64)
    itemsize = header.dtype.itemsize
    return _refs(files, number, base[number] + starts % per_file * itemsize, lengths * itemsize)


def _refs(files: list[DataFile], number: Integers, offset: Integers, length: Integers) -> ChunkRefs:
    """Return references of one range each; a file that is named twice is one source."""
    urls = list(dict.fromkeys(file.url for file in files))
    place = {url: index for index, url in enumerate(urls)}
    source = np.array([place[file.url] for file in files], np.int32)[number]
    indptr = np.arange(len(number) + 1, dtype=np.int64)
    return ChunkRefs(tuple(urls), indptr, source, offset, length)
