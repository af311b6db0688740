"""`jnrrdz index`: sources to manifests.

May touch click, and inside the command the api and the JSON writer.  Several sources become a manifest
each in one directory; a source that fails does not stop the others.
"""

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from jnrrdz.cli.console import FAILURE, SOME_FAILED, Console, console_of
from jnrrdz.cli.options import OVERWRITE, S3Access, ScanCommand, console_options, index_choices, s3_options
from jnrrdz.errors import JnrrdzError

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

    form: str | None
    single_range: bool
    relative: bool
    overwrite: bool
    allow: Sequence[str]
    s3: S3Access
    choices: Mapping[str, Any]
    """What a scan takes, by the names of `jnrrdz.index`: overviews, physical, ..."""


@click.command(cls=ScanCommand, epilog=EPILOG, short_help="Write the manifest of an image, or of several.")
@click.argument("sources", nargs=-1, required=True, metavar="SRC...", type=click.Path())
@click.option("-o", "--output", metavar="OUT", type=click.Path(), help="Manifest, directory, or -.")
@index_choices
@click.option("--in-place", is_flag=True, help="Write zarr.json beside an N5's attributes.json, no manifest.")
@click.option("--remove", is_flag=True, help="Remove what --in-place wrote.")
@OVERWRITE
@s3_options
@console_options
@console_of
@click.pass_context
def index(  # noqa: PLR0913  one parameter an option
    context: click.Context,
    console: Console,
    /,
    sources: Sequence[str],
    output: str | None,
    form: str | None,
    *,
    in_place: bool,
    remove: bool,
    single_range: bool,
    relative: bool,
    overwrite: bool,
    allow: Sequence[str],
    s3: S3Access,
    **choices: Any,
) -> None:
    """Write a manifest of each SRC: where its chunks are, and what they mean.

    SRC is an image: a path or a URL (https://, s3://, whatever fsspec opens); only its headers are read.
    A directory, or a URL that ends in .n5 or a slash, is an N5 container.
    With one SRC, OUT is the manifest, and "-" is stdout.  With several, or where OUT ends in a slash, OUT
    is a directory and gets one manifest for each, named like its source.  A manifest is there whole or
    not at all.
    """
    wish = Wish(form, single_range, relative, overwrite, allow, s3, choices)
    _refuse_directory_options(sources, choices)
    if in_place or remove:
        _refuse_output(output, form)
        if _in_place_all(console, sources, wish, remove=remove):
            context.exit(SOME_FAILED if len(sources) > 1 else FAILURE)
        return
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    if output == STDOUT:
        _to_stdout(console, sources, wish)
        return
    pairs = planned(sources, output, form)
    _refuse_to_replace_sources(pairs)
    if not _is_folder(sources, output):
        console.note(_line(_index(console, *pairs[0], wish)))
    elif _index_all(console, pairs, output, wish):
        context.exit(SOME_FAILED)


def _refuse_directory_options(sources: Sequence[str], choices: Mapping[str, Any]) -> None:
    """Refuse options of directories for what is a file: to leave them out of account would look like having obeyed."""
    from jnrrdz.formats import FORMATS  # noqa: PLC0415  see the package
    from jnrrdz.formats.scanning import is_tree  # noqa: PLC0415  the same

    for fmt in FORMATS:
        flags = [f"--{name.replace('_', '-')}" for name in fmt.options if fmt.is_directory and choices[name]]
        for source in sources:
            if flags and not is_tree(source):
                raise click.UsageError(
                    f"{', '.join(flags)}: for {fmt.name} containers, which are directories; {source} is none."
                )


def _refuse_output(output: str | None, form: str | None) -> None:
    if output is not None or form is not None:
        raise click.UsageError("--in-place and --remove write no manifest; leave -o and -f out.")


def _in_place_all(console: Console, sources: Sequence[str], wish: Wish, *, remove: bool) -> int:
    """Write the metadata into every source, or remove them, and return how many failed."""
    from jnrrdz import api  # noqa: PLC0415  see the package

    def place(source: str) -> None:
        options = wish.s3.options(source)
        if remove:
            keys = api.remove_in_place(source, storage_options=options)
        else:
            keys = api.index_in_place(source, overwrite=wish.overwrite, storage_options=options, **wish.choices)
        console.note(f"{source}: {len(keys)} zarr.json {'removed' if remove else 'written'}")

    return console.each(sources, place)


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


def _refuse_to_replace_sources(pairs: Sequence[tuple[str, str]]) -> None:
    sources = {os.path.realpath(source): source for source, _ in pairs}
    for _, place in pairs:
        if os.path.exists(place) and os.path.realpath(place) in sources:  # noqa: PTH110  URLs come here too
            raise click.UsageError(f"{place} is a source itself and would be replaced; name another OUT.")


def _index(console: Console, source: str, place: str, wish: Wish) -> "Indexed":
    """Index one source, its warnings told."""
    from jnrrdz import api  # noqa: PLC0415  see the package

    # a repository names its sources' endpoint itself, wherever the repository is
    form = wish.form or api.format_of(place)
    own = wish.s3.options(source) if form == "icechunk" else None
    if form == "icechunk" and not console.verbose:
        os.environ.setdefault("ICECHUNK_LOG", "error")  # its own lines are in colour and concern its developers
    with console.warnings_told(source):
        return api.index(
            source,
            place,
            format=wish.form,
            single_range=wish.single_range,
            relative=wish.relative,
            overwrite=wish.overwrite,
            allow=wish.allow,
            storage_options=wish.s3.options(source),
            target_options=wish.s3.options(place) or own,
            **wish.choices,
        )


def _index_all(console: Console, pairs: Sequence[tuple[str, str]], folder: str, wish: Wish) -> int:
    """Index every source, and return how many failed."""
    failed = 0
    made = _make_folder(folder)
    for source, place in pairs:
        try:
            console.note(_line(_index(console, source, place, wish)))
        except (JnrrdzError, OSError) as error:
            console.error(error)
            failed += 1
    if made is not None and not any(made.iterdir()):
        made.rmdir()
    if failed:
        console.note(f"{failed} of {len(pairs)} sources failed")
    return failed


def _make_folder(folder: str) -> Path | None:
    """Make a local directory, and return it if it was not there; stores make theirs as they need them."""
    from jnrrdz.sources.url import local_path  # noqa: PLC0415  see the package

    path = local_path(folder)
    if path is None or Path(path).is_dir():
        return None
    Path(path).mkdir(parents=True)
    return Path(path)


def _to_stdout(console: Console, sources: Sequence[str], wish: Wish) -> None:
    if len(sources) > 1:
        raise click.UsageError("Several sources need a directory for OUT; stdout takes one manifest.")
    if wish.form not in {None, "json"}:
        raise click.UsageError(f"{wish.form} is a directory and cannot go to stdout; json can.")
    if wish.relative:
        raise click.UsageError("--relative needs a manifest with a place; stdout has none.")
    from jnrrdz import api  # noqa: PLC0415  see the package
    from jnrrdz.formats import scanning  # noqa: PLC0415  the same
    from jnrrdz.manifests.json import dump  # noqa: PLC0415  the same
    from jnrrdz.options import Access, ScanOptions  # noqa: PLC0415  the same

    (source,) = sources
    with console.warnings_told(source):
        options = ScanOptions(**wish.choices)
        options = options.whole_tiles() if wish.single_range else options
        found = scanning.scan(source, options, Access(wish.allow, wish.s3.options(source)))
        dump(found.group, sys.stdout.buffer, single_range=wish.single_range)
        sys.stdout.buffer.flush()
    arrays = [array for _, array in found.group.arrays() if array.shape]
    chunks = sum(array.refs.chunks for array in arrays)
    console.note(_line(api.Indexed(source, STDOUT, "json", len(arrays), chunks, found.requests, found.bytes_read)))


def _line(done: "Indexed") -> str:
    from jnrrdz.cli.console import counted  # noqa: PLC0415  see the package

    parts = [counted(done.arrays, "array"), counted(done.chunks, "chunk"), counted(done.requests, "request")]
    return f"{done.source} -> {done.output}: {', '.join(parts)}, {counted(done.bytes_read, 'byte')} read"
