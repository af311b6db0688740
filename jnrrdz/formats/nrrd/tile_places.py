"""Where the tiles of a JNRRD lie: tables of offsets and sizes, or what follows from their order.

May touch numpy, errors, the layout and the model.  Rules in docs/formats/jnrrd.md.  Tiles are numbered as in the
file's table, dimension 0 fastest, the stored levels one after another.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.codec_tile import RATIO, SLACK
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nrrd.common_header import Header
from jnrrdz.formats.nrrd.files import Beside, DataFile, data_files
from jnrrdz.formats.nrrd.jnrrd_levels import TileLevel, Tiling

type Integers = NDArray[np.int64]

LARGEST_OFFSET = 1 << 62


@dataclass(frozen=True, eq=False)
class Places:
    """Where tiles are, a value for each; a tile that is missing has the source -1."""

    sources: Sequence[str]
    room: Integers
    """Bytes of each source."""

    source: NDArray[np.int32]
    offset: Integers
    length: Integers
    is_guessed: bool = False
    """Whether something else may stand behind tiles, because no table says where they end."""

    def part(self, first: int, stop: int) -> "Places":
        """Return the places of some tiles."""
        cut = np.s_[first:stop]
        return replace(self, source=self.source[cut], offset=self.offset[cut], length=self.length[cut])


def decoded_sizes(tiling: Tiling, itemsize: int) -> Integers:
    """Return how many bytes each tile has without compression."""
    return np.concatenate([_level_sizes(level) for level in tiling.stored]) * itemsize


def _level_sizes(level: TileLevel) -> Integers:
    sizes: Integers = np.ones(1, np.int64)
    for axis in reversed(level.axes):
        along = np.full(axis.count, axis.tile, np.int64)
        along[-1] = axis.last
        sizes = (sizes[:, np.newaxis] * along).ravel()
    return sizes


def total_size(tiling: Tiling, itemsize: int) -> int:
    """Return the bytes of all tiles without compression, reckoned without a value for each."""
    each = (math.prod((axis.count - 1) * axis.tile + axis.last for axis in level.axes) for level in tiling.stored)
    return sum(each) * itemsize


def internal_places(tiling: Tiling, header: Header, beside: Beside) -> Places:
    """Return the places of tiles in the file of the header, or in the one that it names for its data."""
    if header.files is not None and len(header.files.names) > 1:
        raise UnsupportedError(
            "tiles in several files of data; one, or external tiles, are read", field=header.files.field
        )
    if "offset_table" in tiling.keys:
        found = _by_table(tiling, header, beside)
    else:
        found = _one_after_another(tiling, header, beside)
    _check(tiling, header, found)
    return found


def _file(header: Header, beside: Beside, count: int, *, is_skipping: bool) -> DataFile:
    """Return the file with the data and where they begin; without skipping at the header's end."""
    bare = replace(header, encoding="raw")
    return data_files(bare if is_skipping else replace(bare, line_skip=0, byte_skip=0), beside, count)[0]


def _by_table(tiling: Tiling, header: Header, beside: Beside) -> Places:
    file = _file(header, beside, 0, is_skipping=False)
    offsets = _column(tiling, "offset_table")
    beyond = np.flatnonzero(offsets >= file.stop)
    if len(beyond):
        raise _beyond(tiling, file, int(beyond[0]), int(offsets[beyond[0]]))
    if header.files is None:
        _check_behind_header(tiling, header, offsets)
    if tiling.compression != "raw" and "size_table" not in tiling.keys:
        lengths, is_guessed = _guessed(tiling, offsets, file), True
    else:
        lengths, is_guessed = _lengths(tiling, header), False
    return _places(file, offsets, lengths, is_guessed=is_guessed)


def _one_after_another(tiling: Tiling, header: Header, beside: Beside) -> Places:
    """Return the places that follow from the data's start, which `format` has to allow."""
    said = tiling.keys.get("format")
    if said != "contiguous":
        message = f"missing, where format is {said or 'missing'}; only contiguous tiles can do without"
        raise tiling.error(message, "offset_table")
    if tiling.compression == "raw":
        total = total_size(tiling, header.dtype.itemsize)
    elif "size_table" in tiling.keys:
        total = sum(tiling.keys["size_table"])
    else:
        message = f"missing, for tiles of {tiling.compression}; one of offset_table and size_table has to be there"
        raise tiling.error(message, "offset_table")
    file = _file(header, beside, total, is_skipping=True)
    lengths = _lengths(tiling, header)
    return _places(file, file.start + np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)


def _places(file: DataFile, offsets: Integers, lengths: Integers, *, is_guessed: bool = False) -> Places:
    source = np.broadcast_to(np.int32(0), len(offsets))
    return Places((file.url,), np.array([file.stop], np.int64), source, offsets, lengths, is_guessed)


def _column(tiling: Tiling, name: str) -> Integers:
    """Return a table, of which the schema knows that it holds whole numbers."""
    values = tiling.keys[name]
    largest = max(values, default=0)
    if largest > LARGEST_OFFSET:
        raise tiling.error(f"{largest}, more than any file has", f"{name}[{values.index(largest)}]")
    return np.array(values, np.int64)


def _lengths(tiling: Tiling, header: Header) -> Integers:
    """Return what each tile takes; a table of sizes may say nothing else of what is not compressed."""
    if tiling.compression != "raw":
        return _column(tiling, "size_table")
    expected = decoded_sizes(tiling, header.dtype.itemsize)
    if "size_table" in tiling.keys:
        wrong = np.flatnonzero(_column(tiling, "size_table") != expected)
        if len(wrong):
            number = int(wrong[0])
            found = tiling.keys["size_table"][number]
            raise tiling.error(f"{found} bytes, where the tile has {expected[number]}", f"size_table[{number}]")
    return expected


def _guessed(tiling: Tiling, offsets: Integers, file: DataFile) -> Integers:
    """Return lengths up to the next tile, or to the end of the file."""
    if tiling.keys.get("format") != "contiguous":
        said = tiling.keys.get("format", "missing")
        message = f"missing, where format is {said}; only of contiguous tiles does the next one's offset tell the end"
        raise tiling.error(message, "size_table")
    lengths = np.diff(offsets, append=file.stop)
    wrong = np.flatnonzero(lengths <= 0)
    if len(wrong):
        message = f"{offsets[wrong[0] + 1]} after {offsets[wrong[0]]}; contiguous tiles ascend"
        raise tiling.error(message, f"offset_table[{int(wrong[0]) + 1}]")
    warnings.warn(
        f"{tiling.prefix}:size_table is missing: tiles are taken to end where the next one begins", stacklevel=2
    )
    return lengths


def _check(tiling: Tiling, header: Header, found: Places) -> None:
    """Refuse tiles that end behind their file, and those too short for what they declare."""
    stop, room = found.offset + found.length, int(found.room[0])
    beyond = np.flatnonzero(stop > room)
    if len(beyond):
        number = int(beyond[0])
        raise _place_error(
            tiling, found, number, f"bytes {found.offset[number]} to {stop[number]}, where the file has {room}"
        )
    check_inflation(tiling, header, found)


def check_inflation(tiling: Tiling, header: Header, found: Places) -> None:
    """Refuse tiles that declare more than their bytes can become; missing ones declare nothing."""
    if tiling.compression == "raw":
        return
    decoded = decoded_sizes(tiling, header.dtype.itemsize)
    # what overflows here has long been refused: no file has 2^46 bytes
    most = np.minimum(found.length, 1 << 40) * RATIO[tiling.compression] + SLACK
    wrong = np.flatnonzero((decoded > most) & (found.source >= 0))
    if len(wrong):
        number = int(wrong[0])
        stored, size = found.length[number], decoded[number]
        message = f"a tile of {size} bytes, which {stored} bytes of {tiling.compression} cannot become"
        raise _place_error(tiling, found, number, message)


def _place_error(tiling: Tiling, found: Places, number: int, message: str) -> MalformedError:
    names = [name for name in ("offset_table", "size_table") if name in tiling.keys] or ["sizes"]
    place = names[0] if names == ["sizes"] else f"{names[0]}[{number}]"
    error = tiling.error(f"tile {number}: {message}", place)
    error.url, error.offset = found.sources[found.source[number]], int(found.offset[number])
    return error


def _beyond(tiling: Tiling, file: DataFile, number: int, offset: int) -> MalformedError:
    error = tiling.error(f"tile {number} at {offset}, where the file has {file.stop} bytes", f"offset_table[{number}]")
    error.url = file.url
    return error


def _check_behind_header(tiling: Tiling, header: Header, offsets: Integers) -> None:
    inside = np.flatnonzero(offsets < header.data_start)
    if len(inside):
        number = int(inside[0])
        message = f"tile {number} at {offsets[number]}, in the header, which has {header.data_start} bytes"
        raise tiling.error(message, f"offset_table[{number}]")


__all__: Sequence[Any] = ("Places", "check_inflation", "decoded_sizes", "internal_places", "total_size")
