"""`jnrrdz index`: sources to manifests.

Several sources become a manifest each in one directory; a source that fails does not stop the others.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from jnrrdz.cli.console import Console, console_of, counts
from jnrrdz.cli.options import (
    IMAGES,
    ONE,
    OVERWRITE,
    Reach,
    ScanCommand,
    as_file,
    console_options,
    folder_made,
    index_options,
    json_option,
    planned_manifests,
)
from jnrrdz.options import ScanOptions, WriteOptions, with_choices
from jnrrdz.redact import hidden

if TYPE_CHECKING:
    from jnrrdz.api import Indexed

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


@click.command(cls=ScanCommand, epilog=EPILOG)
@click.argument("sources", nargs=-1, required=True, metavar="SRC...", type=click.Path())
@click.option("-o", "--output", metavar="OUT", type=click.Path(), help="Manifest, directory, or -.")
@index_options
@click.option("--in-place", is_flag=True, help="Write zarr.json beside an N5's attributes.json, no manifest.")
@click.option("--remove", is_flag=True, help="Remove what --in-place wrote.")
@json_option
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
    sources = reach.sources(sources, IMAGES)
    _refuse_directory_options(sources, wish.scan)
    if in_place or remove:
        if output is not None or wish.form.format is not None:
            raise click.UsageError("--in-place and --remove write no manifest; leave -o and -f out.")
        _index_in_place(console, sources, wish, remove=remove)
    elif output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    else:
        places = dict(planned_manifests(sources, output, wish.form, as_json=console.as_json))
        with folder_made(sources, output, ONE):
            failed = console.each(places, lambda source: _index(console, source, places[source], wish))
        if failed and len(places) > 1:
            console.note(f"{failed} of {len(places)} sources failed")
        console.end(failed, len(places))


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
        if console.as_json:
            console.tell_json(source, {"written" if not remove else "removed": keys})
        console.note(f"{source}: {len(keys)} zarr.json {'removed' if remove else 'written'}")

    console.end_each(sources, place)


def _index(console: Console, source: str, place: str, wish: Wish) -> None:
    """Index one source, and tell of it."""
    from jnrrdz import api  # noqa: PLC0415  see the package
    from jnrrdz.manifests.manifest import format_of  # noqa: PLC0415  the same

    with as_file(place) as out:
        form = wish.form.format or format_of(out)
        # a repository names its sources' endpoint itself, wherever the repository is
        own = wish.reach.options(source) if form == "icechunk" else None
        output = replace(wish.form, target_options=wish.reach.options(place) or own)
        made = api.index(source, out, options=wish.scan, form=output, access=wish.reach.access(source))
    _tell(console, replace(made, output=place))


def _tell(console: Console, made: "Indexed") -> None:
    if console.as_json:
        members = {name: value for name, value in asdict(made).items() if name != "source"}
        console.tell_json(made.source, members | {"output": hidden(made.output)})
    numbers = counts(array=made.arrays, chunk=made.chunks, request=made.requests, byte=made.bytes_read)
    console.note(f"{made.source} -> {made.output}: {numbers} read")
