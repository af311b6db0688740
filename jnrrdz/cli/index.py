"""`jnrrdz index`: sources to manifests.

Several sources become a manifest each in one directory; a source that fails does not stop the others.
"""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
from click.exceptions import Exit

from jnrrdz.cli.console import SOME_FAILED, Console, console_of, counts
from jnrrdz.cli.options import OVERWRITE, Reach, ScanCommand, console_options, index_options
from jnrrdz.options import ScanOptions, WriteOptions, with_choices

if TYPE_CHECKING:
    from jnrrdz.api import Indexed

ENDINGS = {"json": ".json", "parquet": ".parquet", "icechunk": ".icechunk"}
STDOUT = "-"

EPILOG = """\b
Examples:
  jnrrdz index scene.tif -o scene.json
  jnrrdz index *.tif -o manifests/ -f parquet
  jnrrdz index s3://bucket/scene.tif --no-sign-request -o - | gzip > scene.json.gz
"""


@dataclass(frozen=True)
class Wish:
    """What the options ask of every manifest."""

    form: WriteOptions
    scan: ScanOptions
    reach: Reach


@click.command(cls=ScanCommand, epilog=EPILOG, short_help="Write the manifest of an image, or of several.")
@click.argument("sources", nargs=-1, required=True, metavar="SRC...", type=click.Path())
@click.option("-o", "--output", metavar="OUT", type=click.Path(), help="Manifest, directory, or -.")
@index_options
@click.option("--in-place", is_flag=True, help="Write zarr.json beside an N5's attributes.json, no manifest.")
@click.option("--remove", is_flag=True, help="Remove what --in-place wrote.")
@OVERWRITE
@console_options
@console_of
def index(console: Console, /, sources: Sequence[str], output: str | None, *, reach: Reach, **options: Any) -> None:
    """Write a manifest of each SRC: where its chunks are, and what they mean.

    SRC is an image: a path or a URL (https://, s3://, whatever fsspec opens); only its headers are read.
    A directory, or a URL that ends in .n5 or a slash, is an N5 container.
    With one SRC, OUT is the manifest, and "-" is stdout.  With several, or where OUT ends in a slash, OUT
    is a directory and gets one manifest for each, named like its source.  A manifest is there whole or
    not at all.
    """
    in_place, remove = options.pop("in_place"), options.pop("remove")
    wish = Wish(*with_choices(options, WriteOptions(), ScanOptions()), reach)
    _refuse_directory_options(sources, wish.scan)
    if in_place or remove:
        if output is not None or wish.form.format is not None:
            raise click.UsageError("--in-place and --remove write no manifest; leave -o and -f out.")
        _index_in_place(console, sources, wish, remove=remove)
    elif output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    elif output == STDOUT:
        _to_stdout(console, sources, wish)
    else:
        pairs = planned(sources, output, wish.form.format)
        own = {os.path.realpath(source) for source in sources}
        for _, place in pairs:
            if os.path.exists(place) and os.path.realpath(place) in own:  # noqa: PTH110  URLs come here too
                raise click.UsageError(f"{place} is a source itself and would be replaced; name another OUT.")
        if _is_folder(sources, output):
            _index_all(console, pairs, output, wish)
        else:
            _index(console, *pairs[0], wish)


def _refuse_directory_options(sources: Sequence[str], scan: ScanOptions) -> None:
    """Refuse options of directories for what is a file: to leave them out of account would look like having obeyed."""
    from jnrrdz.formats import FORMATS  # noqa: PLC0415  see the package
    from jnrrdz.formats.scanning import is_tree  # noqa: PLC0415  the same

    for fmt in FORMATS:
        flags = [f"--{name.replace('_', '-')}" for name in fmt.options if fmt.is_directory and getattr(scan, name)]
        for source in sources:
            if flags and not is_tree(source):
                raise click.UsageError(
                    f"{', '.join(flags)}: for {fmt.name} containers, which are directories; {source} is none."
                )


def _index_in_place(console: Console, sources: Sequence[str], wish: Wish, *, remove: bool) -> None:
    """Write the metadata into every source, or remove them."""
    from jnrrdz import api  # noqa: PLC0415  see the package

    def place(source: str) -> None:
        options = wish.reach.options(source)
        if remove:
            keys = api.remove_in_place(source, storage_options=options)
        else:
            choices: Any = asdict(wish.scan)
            reach: Any = {"allow": wish.reach.allow, "storage_options": options}
            keys = api.index_in_place(source, overwrite=wish.form.overwrite, **reach, **choices)
        console.note(f"{source}: {len(keys)} zarr.json {'removed' if remove else 'written'}")

    console.end_each(sources, place)


def _is_folder(sources: Sequence[str], output: str) -> bool:
    """Whether OUT holds a manifest for each source; a Parquet manifest's own name may end in a slash too."""
    ends = tuple(f"{ending}/" for ending in (*ENDINGS.values(), ".parq"))
    return len(sources) > 1 or (output.endswith("/") and not output.endswith(ends))


def planned(sources: Sequence[str], output: str, form: str | None) -> list[tuple[str, str]]:
    """Return the manifest for every source; two sources for one manifest are an error."""
    if not _is_folder(sources, output):
        return [(sources[0], output)]
    pairs = [(source, f"{output.rstrip('/') or '/'}/{_stem(source)}{ENDINGS[form or 'json']}") for source in sources]
    for place, times in Counter(place for _, place in pairs).items():
        if times > 1:
            twins = " and ".join(source for source, own in pairs if own == place)
            raise click.UsageError(f"{twins} would all become {place}; index them into different directories.")
    return pairs


def _stem(source: str) -> str:
    """Return a source's name without its ending."""
    path = urlsplit(source).path if source.startswith(("http://", "https://")) else source
    name = PurePosixPath(path).stem
    if name in {"", ".", ".."}:
        raise click.UsageError(f"{source} names no file.")
    return name


def _index(console: Console, source: str, place: str, wish: Wish) -> None:
    """Index one source, and tell of it and of its warnings."""
    from jnrrdz import api  # noqa: PLC0415  see the package
    from jnrrdz.manifests.manifest import format_of  # noqa: PLC0415  the same

    form = wish.form.format or format_of(place)
    # a repository names its sources' endpoint itself, wherever the repository is
    own = wish.reach.options(source) if form == "icechunk" else None
    console.hush_icechunk(form)
    output = replace(wish.form, target_options=wish.reach.options(place) or own)
    with console.warnings_told(source):
        made = api.index(source, place, options=wish.scan, form=output, access=wish.reach.access(source))
    _tell(console, made)


def _index_all(console: Console, pairs: Sequence[tuple[str, str]], folder: str, wish: Wish) -> None:
    """Index every source; the folder is made, and stays if anything is in it."""
    from jnrrdz.sources.url import local_path  # noqa: PLC0415  see the package

    path = local_path(folder)  # stores make theirs as they need them
    made = None if path is None or Path(path).is_dir() else Path(path)
    if made is not None:
        made.mkdir(parents=True)
    places = dict(pairs)
    failed = console.each(places, lambda source: _index(console, source, places[source], wish))
    if made is not None and not any(made.iterdir()):
        made.rmdir()
    if failed:
        console.note(f"{failed} of {len(pairs)} sources failed")
        raise Exit(SOME_FAILED)


def _to_stdout(console: Console, sources: Sequence[str], wish: Wish) -> None:
    if len(sources) > 1:
        raise click.UsageError("Several sources need a directory for OUT; stdout takes one manifest.")
    if wish.form.format not in {None, "json"}:
        raise click.UsageError(f"{wish.form.format} is a directory and cannot go to stdout; json can.")
    if wish.form.relative:
        raise click.UsageError("--relative needs a manifest with a place; stdout has none.")
    from jnrrdz import api  # noqa: PLC0415  see the package
    from jnrrdz.formats import scanning  # noqa: PLC0415  the same
    from jnrrdz.manifests.json import dump  # noqa: PLC0415  the same

    (source,) = sources
    with console.warnings_told(source):
        options = wish.scan.whole_tiles() if wish.form.single_range else wish.scan
        scanned = scanning.scan(source, options, wish.reach.access(source))
        form = wish.form
        dump(scanned.group, sys.stdout.buffer, single_range=form.single_range, keep_query=form.keep_query)
        sys.stdout.buffer.flush()
    arrays = [array for _, array in scanned.group.arrays() if array.shape]
    chunks = sum(array.refs.chunks for array in arrays)
    _tell(console, api.Indexed(source, STDOUT, "json", len(arrays), chunks, scanned.requests, scanned.bytes_read))


def _tell(console: Console, made: "Indexed") -> None:
    numbers = counts(array=made.arrays, chunk=made.chunks, request=made.requests, byte=made.bytes_read)
    console.note(f"{made.source} -> {made.output}: {numbers} read")
