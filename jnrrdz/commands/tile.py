"""A tiled, multi-resolution JNRRD of anything that jnrrdz opens: `tile`, and the outputs that it replaces.

`formats/nrrd/tiled.py` has the header, its tables and the tiles; docs/howto/tile.md tells how to use it.
"""

import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jnrrdz import api
from jnrrdz.commands.tile_pixels import Pixels, Progress, Run, TileOptions, open_pixels
from jnrrdz.core.ome import KINDS
from jnrrdz.downsample import Downsampling
from jnrrdz.errors import JnrrdzError, UnrepresentableError, UnsupportedError
from jnrrdz.formats.nrrd.described import SPATIAL
from jnrrdz.formats.nrrd.tiled import (
    TILE_FILES,
    InFile,
    InFolder,
    TiledFile,
    check_array,
    folder_of,
    is_tiled,
    names_folder,
)
from jnrrdz.formats.nrrd.write import Packer, Sizes, TiledHeader, padding_of
from jnrrdz.formats.nrrd.write import levels as levels_of
from jnrrdz.manifests.atomic import files_of, locate, new_directory, new_file, writing
from jnrrdz.manifests.turns import has_conditions
from jnrrdz.options import StorageOptions
from jnrrdz.redact import record_repr
from jnrrdz.sources.url import place as place_of

__all__ = ["TileOptions", "Tiled", "tile"]


@dataclass(frozen=True)
class Tiled:
    """What a run wrote; sizes in the header's order, dimension 0 (which varies fastest) first."""

    output: str
    """The JNRRD that was written."""
    sizes: tuple[int, ...]
    """Elements along each axis."""
    tile: tuple[int, ...]
    """Elements of a tile along each axis."""
    levels: int
    """How many levels there are, the full resolution among them."""
    tiles: int
    """How many tiles were written, of all levels."""
    nbytes: int
    """Bytes of all tiles as they are stored."""

    __repr__ = record_repr


def tile(  # noqa: PLR0913  the signature is the documentation
    src: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    tile: Sequence[int],
    compression: str = "zstd",
    levels: int = 1,
    method: str | None = None,
    factors: Sequence[int] | None = None,
    endian: str = "little",
    external: bool = False,
    group: str | None = None,
    jobs: int = 2,
    overwrite: bool = False,
    target_options: StorageOptions = None,
    progress: Progress | None = None,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
    source_options: StorageOptions = None,
    template_overrides: Mapping[str, str] | None = None,
) -> Tiled:
    """Write the image of a source (or of a manifest, or a .npy file) as a tiled JNRRD.

    Parameters
    ----------
    src
        The path or URL of a source or manifest, or of a .npy file.
    out
        The path or URL of the JNRRD.
    tile
        The size of tiles in the header's order: the axis that varies fastest (x) first.
    compression
        Of each tile: `raw`, `gzip`, `bzip2`, `zstd` or `lz4`.
    levels
        Levels of resolution, the full one included; each is made from the one before.
    method
        The method that makes coarser levels: `average`, `gaussian`, `lanczos`, `max`,
        `min` or `mode`; by default `mode` for labels and palettes, `average` for all
        others.
    factors
        How much coarser each level is along each axis, in the order of `tile`; by
        default 2 along axes of space and 1 along others.
    endian
        Byte order of the elements: `little` or `big`.
    external
        Write each tile to a separate file, in a folder next to the header.
    group
        The group or array of the source to tile; the full-resolution image by default.
    jobs
        Tiles that are compressed at once.
    overwrite
        Replace an output that exists.
    target_options
        fsspec's options for the output.
    progress
        Called after each tile with the number of tiles that are done, and of all.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the source or the manifest that you name.
    source_options
        fsspec's options for the sources that a manifest names.
    template_overrides
        Values for the templates of a manifest's URLs, by their names: `{"base":
        "s3://bucket/scenes/"}` for `{{base}}a.tif`; by default the manifest's own.
    """
    source, target = os.fspath(src), os.fspath(out)
    options = TileOptions(
        tile=tile,
        compression=compression,
        levels=levels,
        method=method,
        factors=factors,
        endian=endian,
        external=external,
        group=group,
        jobs=jobs,
        overwrite=overwrite,
        target_options=target_options,
        progress=progress,
        allow=allow,
        storage_options=storage_options,
        source_options=source_options,
        template_overrides=template_overrides,
    )
    pixels = open_pixels(source, options)
    try:
        run = _planned(pixels, options)
        older = _older_tiles(target, options) if options.overwrite else []
        replaced = {place_of(target), *(place_of(f"{_beside(target)}/{name}") for name in older)}
        if replaced & set(map(place_of, pixels.urls)):
            raise UnrepresentableError(f"{target} is read itself and would be replaced; name another output")
    except JnrrdzError as error:
        raise error.at(url=source) from error.__cause__
    nbytes = _write(run, target)
    written = run.file.levels
    finest = written[0]
    return Tiled(target, finest.shape[::-1], finest.tile[::-1], len(written), run.file.tiles, nbytes)


def _planned(pixels: Pixels, options: TileOptions) -> Run:
    """Return the run; what the format or the levels cannot have is refused before anything is read."""
    check_array(pixels.shape, pixels.dtype)
    sizes = _per_axis(options.tile, pixels, "tile")
    if options.factors is None:
        factors = default_factors(pixels.metadata.names)
    else:
        factors = _per_axis(options.factors, pixels, "factors")
    levels = levels_of(pixels.shape, sizes, options.levels, factors)
    dtype = pixels.dtype.newbyteorder("=")
    packer = Packer(dtype, options.endian, options.compression, padding_of(pixels.fill_value))
    packer.most_bytes(levels[0].tile)
    method = options.method or pixels.level_method
    Downsampling(method, factors, pixels.shape, dtype, pixels.missing)
    return Run(pixels, TiledFile(pixels.metadata, levels, packer, method, options.external), options)


def _per_axis(numbers: Sequence[int], pixels: Pixels, field: str) -> Sizes:
    """Return one number for each axis, turned from the header's order to the array's."""
    text = ",".join(map(str, numbers))
    if len(numbers) != len(pixels.shape):
        names = ",".join(reversed(pixels.metadata.names))
        count = f"{len(numbers)} number{'' if len(numbers) == 1 else 's'}"
        raise UnsupportedError(f"{text} is {count} for {len(pixels.shape)} axes ({names})", field=field)
    if any(number < 1 for number in numbers):
        raise UnsupportedError(f"{text}; numbers from 1 on are needed", field=field)
    return tuple(int(number) for number in reversed(numbers))


def default_factors(names: Sequence[str]) -> Sizes:
    """Return how much coarser each level is than the one before: 2 along axes of space, the others are kept."""
    kinds = [KINDS.get(name) for name in names]
    if "space" in kinds:
        return tuple(2 if kind == "space" else 1 for kind in kinds)
    rest = [number for number, kind in enumerate(kinds) if kind is None][-len(SPATIAL) :]
    return tuple(2 if number in rest else 1 for number in range(len(names)))


def _write(run: Run, target: str) -> int:
    """Write header and tiles, and return the bytes of the tiles."""
    file = run.file
    tiles_at = new_folder(target, run.options) if file.is_external else None
    header = TiledHeader(file.keys(tiles_at and tiles_at.rpartition("/")[2]), file.tables())
    with new_files(target, tiles_at, run.options) as (stream, folder), Path(stream.name).open("rb") as reading:
        stream.write(b"\0" * header.length)
        stored = InFile(stream, reading, header.length) if folder is None else InFolder(folder, file.pattern)
        entries = run.write(stored, stream.flush)
        stream.seek(0)
        stream.write(header.text(file.values(stored, entries)))
    return sum(stored.sizes)


@contextmanager
def new_files(out: str, folder: str | None, options: TileOptions) -> Iterator[tuple[BinaryIO, Path | None]]:
    """Yield the stream of the header, and the folder of tiles where they have one; both are there after the block.

    The header comes last: it names the folder.  The tiles of one that is replaced go when the new ones are there.
    From before that one is read until then no other run replaces it.
    """
    reach, place = options.target_options, locate(out, options.target_options)
    replaces = is_tiled if options.overwrite else None
    older: list[str] = []
    made: list[str] = []
    identity: os.stat_result | None = None
    is_sure, is_done = place.is_local, False
    with ExitStack() as turn:
        try:
            with new_file(out, replaces=replaces, storage_options=reach) as stream:
                if folder is None:
                    yield stream, None
                else:
                    with new_directory(folder, storage_options=reach) as tiles:
                        yield stream, tiles
                        names = files_of(tiles)
                        if place.is_local:  # interrupted from here on, it may be at its place
                            made, identity = names, tiles.stat()
                    made = names
                if options.overwrite:
                    turn.enter_context(writing(place)).look(place.fs, place.path)
                    if locate(out, reach).kind == "file":
                        older = _older_tiles(out, options)
            is_done = True
        except JnrrdzError:
            is_sure = True
            raise
        finally:
            # a header of far whose writing was interrupted may have arrived
            if folder is not None and made and not is_done and is_sure and not _is_named(folder, out, reach):
                tiles_at = locate(folder, reach)
                if identity is None or (tiles_at.kind and os.path.samestat(identity, os.stat(tiles_at.path))):  # noqa: PTH116  fsspec's path
                    name = folder.rpartition("/")[2]
                    locate(_beside(out), reach).remove(f"{name}/{tile}" for tile in made)
        if older:
            locate(_beside(out), reach).remove(older)


def _beside(out: str) -> str:
    return out.rpartition("/")[0] or "."


def _is_named(folder: str, header: str, reach: StorageOptions) -> bool:
    """Whether a header is there that names a folder of tiles."""
    place = locate(header, reach)
    return place.kind == "file" and names_folder(place.head(), folder.rpartition("/")[2])


def _older_tiles(out: str, options: TileOptions) -> list[str]:
    """Return the names of the files that hold the tiles of a header that `tile` wrote, from beside it."""
    try:
        group = api.scan(out, storage_options=options.target_options)
    except JnrrdzError:  # it is not whole: its tiles cannot be told from others' files
        return []
    beside = place_of(out).parent().url().rstrip("/") + "/"
    stem = re.escape(folder_of(out).rpartition("/")[2].removesuffix(".tiles"))
    urls = (place_of(url).url() for _, array in group.arrays() for url in array.refs.named)
    names = (url.removeprefix(beside) for url in urls)
    return [name for name in names if re.fullmatch(stem + TILE_FILES, name)]


def new_folder(out: str, options: TileOptions) -> str:
    """Return a folder for tiles: one with a name that no other run has, beside a header that is replaced.

    Its own tiles stay until then.  Without such a header it is the output's own folder, in which two runs cannot
    write at the same time; where a store has no conditions that keep them apart, or an interrupted run left
    tiles in the folder, a name of the run's too.
    """
    folder = folder_of(out)
    place = locate(out, options.target_options)
    if place.kind is not None and not options.overwrite:  # it will be refused
        return folder
    if place.kind is None and place.is_local:
        return folder
    if place.kind is None and has_conditions(place.fs):
        has_tiles = locate(folder, options.target_options).kind is not None
        if not (options.overwrite and has_tiles):
            return folder
    return f"{folder.removesuffix('.tiles')}.{secrets.token_hex(4)}.tiles"
