"""The files of a tiled JNRRD, there whole or not at all.

May touch the file system through write.atomic, fsspec's paths and this folder's modules.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import fsspec

from jnrrdz.commands.places import folder_of
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.nrrd.header_tiling import Header
from jnrrdz.manifests.atomic import new_directory, new_file

FIRST_LEVEL = "0"
"""The folder of level 0, which every folder of tiles has."""

type Options = Mapping[str, Any] | None


@contextmanager
def new_files(
    out: str, *, external: bool, overwrite: bool, storage_options: Options
) -> Iterator[tuple[BinaryIO, Path | None]]:
    """Yield the stream of the header, and the folder of tiles where they have one; both are there after the block."""
    folder = folder_of(out) if external else None
    is_new = True
    if folder is not None:
        fs, place = fsspec.core.url_to_fs(folder, **(storage_options or {}))
        is_new = not fs.exists(place)
        _check_folder(fs, place, out, overwrite=overwrite, is_new=is_new)
    done = False
    try:
        with (
            new_file(out, overwrite=overwrite, storage_options=storage_options) as stream,
            _tiles(folder, overwrite=overwrite, storage_options=storage_options) as tiles,
        ):
            yield stream, tiles
        done = True
    finally:
        if folder is not None and not done and is_new:  # the header could not be put in its place
            _removed(fs, place)


def _tiles(folder: str | None, *, overwrite: bool, storage_options: Options) -> Any:
    if folder is None:
        return nullcontext()
    return new_directory(folder, last=FIRST_LEVEL, overwrite=overwrite, storage_options=storage_options)


def _check_folder(fs: Any, place: str, out: str, *, overwrite: bool, is_new: bool) -> None:
    """Refuse to replace a folder that is not of the tiles of the header that is replaced."""
    if is_new:
        return
    if not overwrite:
        raise JnrrdzError("exists already; --overwrite (overwrite=True) replaces it", url=place)
    beside = fs.exists(f"{place.rpartition('/')[0]}/{out.rpartition('/')[2]}")
    if not (beside and fs.isdir(place) and fs.isdir(f"{place}/{FIRST_LEVEL}")):
        raise JnrrdzError("is no folder of tiles beside their header, and is not replaced", url=place)


def _removed(fs: Any, place: str) -> None:
    if not fs.exists(place):
        return
    if "file" in fs.protocol:
        shutil.rmtree(place)
    else:
        fs.rm(place, recursive=True)


def fill_in(stream: BinaryIO, header: Header, tables: Mapping[str, Any]) -> None:
    """Write the header with its tables over the room that was left for it."""
    stream.seek(0)
    stream.write(header.text(tables))
