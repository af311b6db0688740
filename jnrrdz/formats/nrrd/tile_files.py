"""Tiles in files of their own: where they are, which of them are there.

May touch numpy, errors, neighbours, the layout and the model.  Rules in docs/formats/jnrrd.md.  None of the files is
opened: their sizes, which a listing tells, have to be what the header says.
"""

from collections.abc import Sequence

import numpy as np

from jnrrdz.core.array import SourceRecord
from jnrrdz.core.refs import NamedFiles
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.nrrd.common_header import Header
from jnrrdz.formats.nrrd.files import Beside
from jnrrdz.formats.nrrd.jnrrd_levels import Tiling
from jnrrdz.formats.nrrd.places import Folder, is_plain
from jnrrdz.formats.nrrd.tile_names import first_name, tile_names
from jnrrdz.formats.nrrd.tile_places import Integers, Places, check_inflation, decoded_sizes
from jnrrdz.sources.file_sizes import MISSING, common_folder
from jnrrdz.sources.url import is_absolute

FEW = 1024
"""Files that the table of sources names one by one; of more it names the folder."""

MANY = 1 << 14
"""Files that are listed without a look at the first."""


def external_places(tiling: Tiling, header: Header, beside: Beside, *, allow_missing: bool) -> Places:
    """Return the places of tiles that are files; those that are missing are an error unless they may be."""
    _refuse_offsets(tiling, header)
    if not allow_missing and tiling.tiles > MANY:
        _check_first(tiling, header, beside)
    names = tile_names(tiling, header.axes.labels)
    if not allow_missing and None in names:
        raise _missing(tiling, names.index(None), "no entry")
    numbers = [number for number, name in enumerate(names) if name is not None]
    urls = _urls(tiling, beside.folder, [name for name in names if name is not None])
    listed = beside.neighbours.sizes(urls)
    for place in listed.links:
        urls[place] = beside.folder.resolve(urls[place], _field(tiling))
    sizes = np.full(len(names), MISSING, np.int64)
    sizes[numbers] = listed.sizes
    absent = np.flatnonzero(sizes == MISSING)
    if len(absent) and not allow_missing:
        number = int(absent[0])
        raise _missing(tiling, number, urls[numbers.index(number)])
    found = _placed(sizes, numbers, urls, beside)
    _check_sizes(tiling, header, found)
    check_inflation(tiling, header, found)
    return found


def _check_first(tiling: Tiling, header: Header, beside: Beside) -> None:
    """Refuse a header that speaks of a million files, where not even the first one is there."""
    name = first_name(tiling, header.axes.labels)
    urls = [] if name is None else _urls(tiling, beside.folder, [name])
    if beside.neighbours.sizes(urls).sizes == [MISSING]:
        raise _missing(tiling, 0, urls[0])


def _refuse_offsets(tiling: Tiling, header: Header) -> None:
    """Refuse what would say that tiles are only a part of their files."""
    if "offset_table" in tiling.keys:
        raise UnsupportedError("offsets, where tiles are files of their own", field=f"{tiling.prefix}:offset_table")
    for name, value in (("byte_skip", header.byte_skip), ("line_skip", header.line_skip)):
        if value:
            raise UnsupportedError(f"{value}, where tiles are files of their own, read whole", field=name)


def _field(tiling: Tiling) -> str:
    name = "pattern" if "pattern" in tiling.keys else "files"
    return f"{tiling.prefix}:{name}"


def _urls(tiling: Tiling, folder: Folder, names: Sequence[str]) -> list[str]:
    """Return where names lead; most of them need no look at that."""
    base = tiling.keys.get("base_dir", "")
    before = f"{base.rstrip('/')}/" if base else ""
    first = folder.resolve(f"{before}x", f"{tiling.prefix}:base_dir" if base else _field(tiling))
    start = first.removesuffix("x") if first.endswith("/x") else None
    return [
        start + name if start is not None and is_plain(name) else _resolved(tiling, folder, before, name)
        for name in names
    ]


def _resolved(tiling: Tiling, folder: Folder, before: str, name: str) -> str:
    return folder.resolve(name if is_absolute(name) else before + name, _field(tiling))


def _missing(tiling: Tiling, number: int, what: str) -> MalformedError:
    first = 0
    for level in tiling.stored:
        if number < first + level.tiles:
            break
        first += level.tiles
    index = [int(part) for part in np.unravel_index(number - first, level.counts[::-1])][::-1]
    place = [index[dimension] for dimension in tiling.dimensions]
    message = f"tile {place} of level {level.number} is not there ({what}); --allow-missing reads it as the fill value"
    return MalformedError(message, field=_field(tiling))


def _placed(sizes: Integers, numbers: Sequence[int], urls: Sequence[str], beside: Beside) -> Places:
    """Return places in the files that are there, each of them listed once."""
    there = [(number, url) for number, url in zip(numbers, urls, strict=True) if sizes[number] != MISSING]
    number_of = {url: place for place, url in enumerate(dict.fromkeys(url for _, url in there))}
    source = np.full(len(sizes), MISSING, np.int32)
    source[[number for number, _ in there]] = [number_of[url] for _, url in there]
    room = np.zeros(max(len(number_of), 1), np.int64)
    room[source[source != MISSING]] = sizes[source != MISSING]
    length = np.where(source == MISSING, 0, sizes)
    if len(number_of) <= FEW:
        records = (SourceRecord(url, size) for url, size in zip(number_of, room.tolist(), strict=False))
        beside.neighbours.listed.extend(records)
    return Places(_sources(tuple(number_of)), room, source, np.zeros(len(sizes), np.int64), length)


def _sources(urls: tuple[str, ...]) -> Sequence[str]:
    """Return many files as the tree that holds them, where one does."""
    if len(urls) <= FEW:
        return urls
    tree = common_folder(urls)
    # neither the whole machine nor all that a scheme leads to
    return NamedFiles(f"{tree}/", urls) if tree.partition("://")[2] or tree.startswith("/") else urls


def _check_sizes(tiling: Tiling, header: Header, found: Places) -> None:
    """Refuse files of other lengths than the header says: they are cut, or hold something else."""
    expected = decoded_sizes(tiling, header.dtype.itemsize) if tiling.compression == "raw" else None
    if "size_table" in tiling.keys:
        told = np.minimum(np.array(tiling.keys["size_table"], object), 1 << 62).astype(np.int64)
        _check_against(tiling, found, told, "size_table")
    if expected is not None:
        _check_against(tiling, found, expected, "sizes")


def _check_against(tiling: Tiling, found: Places, expected: Integers, name: str) -> None:
    wrong = np.flatnonzero((found.length != expected) & (found.source != MISSING))
    if len(wrong):
        number = int(wrong[0])
        place = f"{name}[{number}]" if name == "size_table" else name
        error = tiling.error(f"a tile of {expected[number]} bytes in a file of {found.length[number]}", place)
        error.url = found.sources[found.source[number]]
        raise error
