"""Where the tiles of a JNRRD lie, and the ranges of them that each chunk is read from.

Tiles lie in the data, by tables of offsets and sizes or by what follows from their order, or are files of their
own, of which none is opened: their sizes, which a listing tells, have to be what the header says.  Tiles are
numbered as in the file's table, dimension 0 fastest, the stored levels one after another.  A pattern or a list gives
the names of files.

Chunks are as far apart as tiles begin, so that every element is read from one tile; what the last tile holds behind
its own chunk is further chunks of the same tile.  Which part of a tile a chunk is, the length of its bytes says:
docs/codecs/jnrrdz.tile/README.md.  Rules in docs/formats/jnrrd.md.
"""

import math
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from string import Formatter

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core import codecs as codec
from jnrrdz.core.arrays import SourceRecord
from jnrrdz.core.codecs import MOST_KINDS, RATIO, REPEATED, TileConfig
from jnrrdz.core.configuration import SLACK, Codec
from jnrrdz.core.limits import Resource
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.state import Mark, Validators, version_number
from jnrrdz.core.tree_files import NamedFiles
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nrrd.header import MOST_FILES, Header
from jnrrdz.formats.nrrd.plain import COMPRESSORS, Beside, DataFile, data_files
from jnrrdz.formats.nrrd.tiling import TileAxis, TileLevel, Tiling
from jnrrdz.sources.tree import MISSING, common_folder

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

    version: Integers | None = None
    """What tells the state of each source, where many of them are listed."""

    def part(self, tiles: slice) -> "Places":
        """Return the places of some tiles."""
        return replace(self, source=self.source[tiles], offset=self.offset[tiles], length=self.length[tiles])


def decoded_sizes(tiling: Tiling, itemsize: int) -> Integers:
    """Return how many bytes each tile has without compression."""
    levels = []
    for level in tiling.stored:
        sizes: Integers = np.ones(1, np.int64)
        for axis in reversed(level.axes):
            along = np.full(axis.count, axis.tile, np.int64)
            along[-1] = axis.last
            sizes = (sizes[:, np.newaxis] * along).ravel()
        levels.append(sizes)
    return np.concatenate(levels) * itemsize


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
    find = _by_table if "offset_table" in tiling.keys else _one_after_another
    places = find(tiling, replace(header, encoding="raw"), beside)
    stop, room = places.offset + places.length, int(places.room[0])
    beyond = np.flatnonzero(stop > room)
    if len(beyond):
        number = int(beyond[0])
        message = f"bytes {places.offset[number]} to {stop[number]}, where the file has {room}"
        raise _place_error(tiling, places, number, message)
    check_inflation(tiling, header, places)
    return places


def _by_table(tiling: Tiling, header: Header, beside: Beside) -> Places:
    """Return the places in a table of offsets, which count from the start of the file."""
    (file,) = data_files(replace(header, line_skip=0, byte_skip=0), beside, 0)
    offsets = _column(tiling, "offset_table")
    beyond = np.flatnonzero(offsets >= file.stop)
    if len(beyond):
        number = int(beyond[0])
        message = f"tile {number} at {offsets[number]}, where the file has {file.stop} bytes"
        error = tiling.error(message, f"offset_table[{number}]")
        error.url = file.url
        raise error
    inside = np.flatnonzero(offsets < header.data_start)
    if header.files is None and len(inside):
        number = int(inside[0])
        message = f"tile {number} at {offsets[number]}, in the header, which has {header.data_start} bytes"
        raise tiling.error(message, f"offset_table[{number}]")
    is_guessed = tiling.compression != "raw" and "size_table" not in tiling.keys
    lengths = _guessed(tiling, offsets, file) if is_guessed else _lengths(tiling, header)
    return _in_one_file(file, offsets, lengths, is_guessed=is_guessed)


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
    (file,) = data_files(header, beside, total)
    rest = file.stop - file.start - total
    if rest and not (header.byte_skip or header.line_skip):
        # they may be before the tiles as well as behind them
        message = (
            f"missing, where {total} bytes of tiles are followed or preceded by {rest} others; "
            f"offsets say where the tiles are, or {header.byte_field}: -1 that they end the file"
        )
        error = tiling.error(message, "offset_table")
        error.url, error.offset = file.url, file.start
        raise error
    lengths = _lengths(tiling, header)
    return _in_one_file(file, file.start + np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths, is_guessed=False)


def _in_one_file(file: DataFile, offsets: Integers, lengths: Integers, *, is_guessed: bool) -> Places:
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
            size = tiling.keys["size_table"][number]
            raise tiling.error(f"{size} bytes, where the tile has {expected[number]}", f"size_table[{number}]")
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


def check_inflation(tiling: Tiling, header: Header, places: Places) -> None:
    """Refuse tiles that declare more than their bytes can become; missing ones declare nothing."""
    if tiling.compression == "raw":
        return
    decoded = decoded_sizes(tiling, header.dtype.itemsize)
    # what overflows here has long been refused: no file has 2^46 bytes
    most = np.minimum(places.length, 1 << 40) * RATIO[tiling.compression] + SLACK
    wrong = np.flatnonzero((decoded > most) & (places.source >= 0))
    if len(wrong):
        number = int(wrong[0])
        stored, size = places.length[number], decoded[number]
        message = f"a tile of {size} bytes, which {stored} bytes of {tiling.compression} cannot become"
        raise _place_error(tiling, places, number, message)


def _place_error(tiling: Tiling, places: Places, number: int, message: str) -> MalformedError:
    table = next((name for name in ("offset_table", "size_table") if name in tiling.keys), None)
    error = tiling.error(f"tile {number}: {message}", "sizes" if table is None else f"{table}[{number}]")
    error.url, error.offset = places.sources[places.source[number]], int(places.offset[number])
    return error


FEW = 1024
"""Files that the table of sources names one by one; of more it names the folder."""

MANY = 1 << 14
"""Files that are listed without a look at the first."""


def external_places(
    tiling: Tiling, header: Header, beside: Beside, *, allow_missing: bool, versions: bool = True
) -> Places:
    """Return the places of tiles that are files; those that are missing are an error unless they may be.

    With `versions` the listing's word for each file's state is kept.
    """
    if "offset_table" in tiling.keys:
        raise UnsupportedError("offsets, where tiles are files of their own", field=f"{tiling.prefix}:offset_table")
    for name, value in (("byte_skip", header.byte_skip), ("line_skip", header.line_skip)):
        if value:
            raise UnsupportedError(f"{value}, where tiles are files of their own, read whole", field=name)
    labels = header.axes.labels
    if not allow_missing and tiling.tiles > MANY:
        first = first_name(tiling, labels)
        urls = [] if first is None else _urls(tiling, beside, [first])
        if beside.neighbours.sizes(urls).sizes == [MISSING]:
            raise _missing(tiling, 0, urls[0])
    names = tile_names(tiling, labels)
    if not allow_missing and None in names:
        raise _missing(tiling, names.index(None), "no entry")
    numbers = [number for number, name in enumerate(names) if name is not None]
    urls = _urls(tiling, beside, [name for name in names if name is not None])
    listed = beside.neighbours.sizes(urls)
    for place in listed.links:
        urls[place] = beside.folder.resolve(urls[place], _field(tiling))
    sizes = np.full(len(names), MISSING, np.int64)
    sizes[numbers] = listed.sizes
    absent = np.flatnonzero(sizes == MISSING)
    if len(absent) and not allow_missing:
        number = int(absent[0])
        raise _missing(tiling, number, urls[numbers.index(number)])
    marks = dict(zip(urls, listed.marks, strict=False)) if versions else {}
    places = _in_files(sizes, numbers, urls, beside, marks)
    _check_sizes(tiling, header, places)
    check_inflation(tiling, header, places)
    return places


def _field(tiling: Tiling) -> str:
    name = "pattern" if "pattern" in tiling.keys else "files"
    return f"{tiling.prefix}:{name}"


def _urls(tiling: Tiling, beside: Beside, names: Sequence[str]) -> list[str]:
    base = tiling.keys.get("base_dir", "")
    return beside.folder.resolve_all(names, _field(tiling), base, f"{tiling.prefix}:base_dir")


def _missing(tiling: Tiling, number: int, what: str) -> MalformedError:
    level = next(level for level in reversed(tiling.stored) if number >= level.first)
    index = [int(part) for part in np.unravel_index(number - level.first, level.counts[::-1])][::-1]
    place = [index[dimension] for dimension in tiling.dimensions]
    message = f"tile {place} of level {level.number} is not there ({what}); --allow-missing reads it as the fill value"
    return MalformedError(message, field=_field(tiling))


def _in_files(
    sizes: Integers, numbers: Sequence[int], urls: Sequence[str], beside: Beside, marks: Mapping[str, Mark]
) -> Places:
    """Return places in the files that are there, each of them listed once."""
    there = [(number, url) for number, url in zip(numbers, urls, strict=True) if sizes[number] != MISSING]
    number_of = {url: place for place, url in enumerate(dict.fromkeys(url for _, url in there))}
    source = np.full(len(sizes), MISSING, np.int32)
    source[[number for number, _ in there]] = [number_of[url] for _, url in there]
    room = np.zeros(max(len(number_of), 1), np.int64)
    room[source[source != MISSING]] = sizes[source != MISSING]
    length = np.where(source == MISSING, 0, sizes)
    files: Sequence[str] = tuple(number_of)
    version = None
    if len(files) <= FEW:
        listed = zip(files, room.tolist(), strict=False)
        states = [Validators.of_listing(size, marks.get(url, 0)) for url, size in listed]
        records = (
            SourceRecord(url, it.size, it.etag, None, it.modified) for url, it in zip(files, states, strict=True)
        )
        beside.neighbours.listed += records
    else:
        tree = common_folder(files)
        # neither the whole machine nor all that a scheme leads to
        if tree.partition("://")[2] or tree.startswith("/"):
            version = np.array([version_number(marks.get(url, 0)) for url in files], np.int64)
            files = NamedFiles(f"{tree}/", files)
    known = version if version is not None and version.any() else None
    return Places(files, room, source, np.zeros(len(sizes), np.int64), length, version=known)


def _check_sizes(tiling: Tiling, header: Header, places: Places) -> None:
    """Refuse files of other lengths than the header says: they are cut, or hold something else."""
    expected = {}
    if "size_table" in tiling.keys:
        # what no file has is as wrong as what overflows
        sizes = np.minimum(np.array(tiling.keys["size_table"], object), 1 << 62)
        expected["size_table"] = sizes.astype(np.int64)
    if tiling.compression == "raw":
        expected["sizes"] = decoded_sizes(tiling, header.dtype.itemsize)
    for name, lengths in expected.items():
        wrong = np.flatnonzero((places.length != lengths) & (places.source != MISSING))
        if len(wrong):
            number = int(wrong[0])
            message = f"a tile of {lengths[number]} bytes in a file of {places.length[number]}"
            error = tiling.error(message, f"{name}[{number}]" if name == "size_table" else name)
            error.url = places.sources[places.source[number]]
            raise error


def chunks_of(level: TileLevel, tiling: Tiling) -> tuple[int, ...]:
    """Return the chunk shape in C order; a grid of too many chunks is refused."""
    kinds = math.prod(axis.choice_count for axis in level.axes)
    if kinds > MOST_KINDS:
        strides = " by ".join(str(axis.stride) for axis in level.axes)
        message = (
            f"tiles of level {level.number} begin {strides} elements apart, so that the last ones "
            f"are {kinds} chunks; {MOST_KINDS} are the most"
        )
        raise tiling.error(message, "overlap")
    count = math.prod(axis.chunks for axis in level.axes)
    if tiling.budget is not None and count > level.tiles:  # the tiles themselves are charged
        tiling.budget.charge(Resource.TILES, count - level.tiles, field=f"{tiling.prefix}:overlap")
    return tuple(axis.chunk for axis in reversed(level.axes))


def tile_config(level: TileLevel, tiling: Tiling, header: Header, *, is_guessed: bool) -> TileConfig:
    """Return what the codec has to know of a level's tiles."""
    axes = tuple(axis.choices for axis in reversed(level.axes))
    return TileConfig(axes, header.endian, tiling.compression, is_guessed)


def chain(config: TileConfig, chunks: tuple[int, ...]) -> tuple[Codec, ...]:
    """Return Zarr's own codecs where every tile is a chunk, `jnrrdz.tile` where it is more or less than that."""
    is_whole = len(config.kinds) == 1 and config.kinds[0].shape == chunks
    if not is_whole or config.repeated or config.compression not in {"raw", *COMPRESSORS}:
        return (config,)
    own = codec.bytes_(config.endian)
    return (own,) if config.compression == "raw" else (own, COMPRESSORS[config.compression])


def chunk_refs(level: TileLevel, places: Places, config: TileConfig, itemsize: int) -> ChunkRefs:
    """Return the references of a level's chunks, whose tiles' places are given."""
    axes = level.axes[::-1]
    tiles = [np.minimum(np.arange(axis.chunks, dtype=np.int64), axis.count - 1) for axis in axes]
    tile = _numbered(tiles, [axis.count for axis in axes])
    kind = _numbered([_choices(axis) for axis in axes], [len(axis.choices) for axis in axes])
    if config.compression == "raw":
        chunk, offset, length = _raw_rows(places, tile, kind, config, itemsize)
    else:
        chunk, offset, length = _packed_rows(places, tile, kind, config)
    source = places.source[tile[chunk]]
    present = source >= 0
    counts = np.bincount(chunk[present], minlength=len(tile))
    offset, length, source = offset[present], length[present], source[present]
    refs = ChunkRefs.from_rows(places.sources, counts, offset, length, source)
    if places.version is None:
        return refs
    is_whole = (offset == 0) & (length == places.room[source])
    return replace(refs, version=np.where(is_whole, places.version[source], 0))


def _choices(axis: TileAxis) -> Integers:
    """Return for each chunk along an axis which of the axis's choices it is."""
    numbers = np.zeros(axis.chunks, np.int64)
    number = {choice: place for place, choice in enumerate(axis.choices)}
    for chunk in range(axis.count - 1, axis.chunks):
        numbers[chunk] = number[axis.choice(chunk)]
    return numbers


def _numbered(parts: Sequence[Integers], sizes: Sequence[int]) -> Integers:
    """Return for every place of a grid, in C order, the number that its indices make."""
    numbers: Integers = np.zeros(1, np.int64)
    for part, size in zip(parts, sizes, strict=True):
        numbers = (numbers[:, np.newaxis] * size + part).ravel()
    return numbers


type Rows = tuple[Integers, Integers, Integers]
"""Chunk, offset and length of every range, chunks ascending."""


def _raw_rows(places: Places, tile: Integers, kind: Integers, config: TileConfig, itemsize: int) -> Rows:
    """Return ranges from a chunk's first element to its tile's end, and bytes before that make lengths differ."""
    first = np.array([choice.first for choice in config.kinds], np.int64)[kind] * itemsize
    extra = np.array(config.raw_extras(itemsize), np.int64)[kind]
    start, length = places.offset[tile] + first, places.length[tile] - first
    is_near = start >= extra
    start, length = start - np.where(is_near, extra, 0), length + np.where(is_near, extra, 0)
    more = _heads(places, tile, np.where(is_near, 0, extra))
    return _sorted([*more, (np.arange(len(tile)), start, length)])


def _packed_rows(places: Places, tile: Integers, kind: Integers, config: TileConfig) -> Rows:
    """Return ranges of whole tiles, and bytes behind them that tell which part is meant."""
    extra = np.array(config.extras, np.int64)[kind]
    start, length = places.offset[tile], places.length[tile]
    if config.repeated:
        is_near, extra = np.zeros(len(tile), bool), np.where(extra, REPEATED + extra, 0)
    else:
        is_near = start + length + extra <= places.room[places.source[tile]]
    more = _heads(places, tile, np.where(is_near, 0, extra))
    return _sorted([(np.arange(len(tile)), start, length + np.where(is_near, extra, 0)), *more])


def _heads(places: Places, tile: Integers, wanted: Integers) -> list[Rows]:
    """Return ranges of tiles' own heads, once more: so many bytes for each chunk."""
    rows = []
    left = wanted.copy()
    while left.any():
        chunk = np.flatnonzero(left)
        taken = np.minimum(left[chunk], places.length[tile[chunk]])
        rows.append((chunk, places.offset[tile[chunk]], taken))
        left[chunk] -= np.maximum(taken, 1)
    return rows


def _sorted(parts: Sequence[Rows]) -> Rows:
    """Return rows by chunk, those of one chunk in the order in which they were given."""
    if len(parts) == 1:
        return parts[0]
    chunk, offset, length = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(chunk, kind="stable")
    return chunk[order], offset[order], length[order]


SPATIAL = ("x", "y", "z")
_WIDE = re.compile(r"\d{4}")
LEVEL, INDEX = "l", "i"

type Axis = int | str
"""What a placeholder stands for: a dimension's number, `l` or `i`."""


def tile_names(tiling: Tiling, labels: Sequence[str]) -> list[str | None]:
    """Return the name of every tile's file: the list's, else the pattern's, else None."""
    if tiling.tiles > MOST_FILES:
        raise tiling.error(f"{tiling.tiles} external tiles; {MOST_FILES} are the most", "sizes")
    names: list[str | None] = [None] * tiling.tiles
    if "pattern" in tiling.keys:
        names = list(_pattern_names(tiling, _pieces(tiling, labels)))
        if len(set(names)) < len(names):
            twin = next(name for name, count in Counter(names).items() if count > 1)
            raise tiling.error(f"{tiling.keys['pattern']!r:.200} names several tiles {twin!r:.200}", "pattern")
    for number, name in _listed(tiling).items():
        names[number] = name
    return names


def first_name(tiling: Tiling, labels: Sequence[str]) -> str | None:
    """Return the name of the first tile's file where a pattern gives it."""
    if "pattern" not in tiling.keys or "files" in tiling.keys:
        return None
    return next(_pattern_names(tiling, _pieces(tiling, labels)))


@dataclass(frozen=True)
class _Piece:
    """Text, and the number behind it; None at a pattern's end."""

    text: str
    axis: Axis | None
    spec: str


def _placeholders(count: int, labels: Sequence[str]) -> tuple[Mapping[str, Axis], set[str]]:
    """Return what placeholders stand for, and those that could stand for two things."""
    known: dict[str, Axis] = {INDEX: INDEX, LEVEL: LEVEL}
    known |= {f"d{number}": number for number in range(count)}
    known |= dict(zip(SPATIAL, range(count), strict=False))
    unclear = {label for number, label in enumerate(labels) if label and known.setdefault(label, number) != number}
    return known, unclear


def _pieces(tiling: Tiling, labels: Sequence[str]) -> list[_Piece]:
    """Return the parts of the pattern."""
    pattern = tiling.keys["pattern"]
    known, unclear = _placeholders(len(tiling.stored[0].axes), labels)
    try:
        parsed = list(Formatter().parse(pattern))
    except ValueError as error:
        raise tiling.error(f"{pattern!r:.200}: {error}", "pattern") from None
    names = {name for _, name, _, _ in parsed if name is not None}
    unknown, doubtful = sorted(names - set(known)), sorted(names & unclear)
    if unknown:
        text = f"unknown placeholders {_spelt(unknown)}; there are {_spelt(known)}"
        raise tiling.error(text, "pattern")
    if doubtful:
        text = f"{{{doubtful[0]}}} is one dimension by its name and another by its label; {{d0}}, {{d1}}, ... are clear"
        raise tiling.error(text, "pattern")
    pieces: list[_Piece] = []
    text = ""
    for literal, name, spec, conversion in parsed:
        text += literal  # `{{` ends a piece of text without a placeholder behind it
        if name is None:
            continue
        if conversion or not _is_format(spec or ""):
            placeholder = f"{{{name}{f'!{conversion}' if conversion else ''}:{spec}}}"
            raise tiling.error(f"{placeholder}: no format of whole numbers; {{{name}:03d}} is one", "pattern")
        pieces.append(_Piece(text, known[name], spec or ""))
        text = ""
    return [*pieces, _Piece(text, None, "")]


def _spelt(names: Iterable[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)


def _is_format(spec: str) -> bool:
    """Whether a format is one of whole numbers, and of a width that names of files have."""
    if "{" in spec or _WIDE.search(spec):
        return False
    try:
        format(0, spec)
    except ValueError:
        return False
    return True


def _pattern_names(tiling: Tiling, pieces: Sequence[_Piece]) -> Iterator[str]:
    """Yield the names of all tiles; numbers are spelt once for each place along an axis."""
    used = {piece.axis for piece in pieces}
    if len(tiling.stored) > 1 and not used & {LEVEL, INDEX}:
        raise tiling.error(f"{tiling.keys['pattern']!r:.200}: several levels, but neither {{l}} nor {{i}}", "pattern")
    tail = pieces[-1].text
    for level in tiling.stored:
        last = len(level.axes) - 1
        first = 0 if LEVEL in used else level.first
        parts = [
            (piece, _numbers(level, piece), last - piece.axis if isinstance(piece.axis, int) else None)
            for piece in pieces[:-1]
        ]
        for number, index in enumerate(product(*(range(count) for count in reversed(level.counts))), first):
            texts = [
                piece.text
                + (format(number, piece.spec) if spelt is None else spelt[0 if place is None else index[place]])
                for piece, spelt, place in parts
            ]
            yield "".join(texts) + tail


def _numbers(level: TileLevel, piece: _Piece) -> list[str] | None:
    """Return a placeholder's texts; None for the index, which is another for every tile."""
    if piece.axis == INDEX:
        return None
    if isinstance(piece.axis, int):
        return [format(number, piece.spec) for number in range(level.counts[piece.axis])]
    return [format(level.number, piece.spec)]


def _listed(tiling: Tiling) -> dict[int, str]:
    """Return the names that the list gives, by tiles' numbers."""
    levels = {level.number: level for level in tiling.stored}
    names: dict[int, str] = {}
    for number, entry in enumerate(tiling.keys.get("files", ())):
        level = levels.get(entry.get("level", 0))
        if level is None:
            message = f"level {entry.get('level', 0)}; stored are {', '.join(map(str, levels))}"
            raise tiling.error(message, f"files[{number}].level")
        tile = level.first + _index_of(tiling, level, entry["indices"], number)
        if tile in names:
            raise tiling.error(f"the tile of {names[tile]!r:.200} once more", f"files[{number}]")
        names[tile] = entry["file"]
    return names


def _index_of(tiling: Tiling, level: TileLevel, indices: Sequence[int], number: int) -> int:
    """Return a tile's number in its level; indices are those of the tiled dimensions, or of all."""
    dimensions = tiling.dimensions if len(indices) == len(tiling.dimensions) else range(len(level.axes))
    counts = [level.counts[dimension] for dimension in dimensions]
    if len(indices) != len(counts):
        message = f"{len(indices)} numbers for {len(tiling.dimensions)} tiled dimensions"
        raise tiling.error(message, f"files[{number}].indices")
    if any(index >= count for index, count in zip(indices, counts, strict=True)):
        message = f"{list(indices)} in a grid of {counts} tiles"
        raise tiling.error(message, f"files[{number}].indices")
    place = 0
    for index, count in zip(reversed(indices), reversed(counts), strict=True):
        place = place * count + index
    return place
