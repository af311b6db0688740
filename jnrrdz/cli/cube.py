"""The command `jnrrdz cube`."""

from collections.abc import Sequence
from dataclasses import replace

import click

from jnrrdz.cli.console import Console, console_of, counts
from jnrrdz.cli.options import (
    FORM,
    MANIFESTS_FIRST,
    Reach,
    access_options,
    check_form,
    console_options,
    form_options,
    json_option,
)
from jnrrdz.options import CubeOptions, WriteOptions, with_choices
from jnrrdz.redact import hidden

EPILOG = """\b
Examples:
  jnrrdz cube --stac items.json -o cube.parquet --by-day --latest
  jnrrdz cube 'scenes/*.tif' -o cube.json --time-from '_([0-9]{8})_' --band-from '_(B[0-9]+)[.]tif'
  jnrrdz cube --stac new.json -o cube.parquet --append
"""
TOLD = 5


@click.command(epilog=EPILOG)
@click.argument("refs", nargs=-1, metavar="[SRC...]", type=click.Path())
@click.option("-o", "--output", required=True, metavar="OUT", type=click.Path(), help="The manifest to write.")
@click.option("--stac", multiple=True, metavar="URL", help="STAC item, collection, search or table. Repeatable.")
@click.option("--asset", "assets", multiple=True, metavar="KEY", help="Assets that are taken. Repeatable.")
@click.option(
    "--time-from", metavar="REGEX|metadata", help="Where the time stands, if not in the STAC item or the metadata."
)
@click.option("--band-from", metavar="REGEX", help="Where the band stands in a name; else the asset's key.")
@click.option("--by-day", is_flag=True, help="Give all files of one day (UTC) one time.")
@click.option("--latest", is_flag=True, help="Of files with the same pixels take the one changed last.")
@click.option(
    "--by", metavar="NAME,...", help="Of files with the same pixels take the better: datetime, updated, created, cloud."
)
@click.option("--group-by-grid", is_flag=True, help="Give images of each grid a group of their own.")
@click.option("--stac-out", metavar="FILE", help="Write a STAC collection of which the cube is an asset.")
@click.option("--collection", default="", metavar="ID", help="Name of that collection; by default the cube's.")
@click.option("--append", is_flag=True, help="Add the files to the cube OUT.")
@json_option
@form_options
@access_options()
@console_options
@console_of
def cube(  # noqa: PLR0913  an option each
    console: Console,
    /,
    refs: Sequence[str],
    output: str,
    *,
    stac: Sequence[str],
    assets: Sequence[str],
    latest: bool,
    by: str | None,
    reach: Reach,
    **options: object,
) -> None:
    """Write one dataset with the axes time, band, y and x of many files, without copying or decoding anything.

    SRC are images or manifests.  Bands of several resolutions become a group for each; files that are not there
    leave their chunks missing; neighbours on one grid become one mosaic.
    """
    from jnrrdz.commands.cube import cube as run  # noqa: PLC0415  see the package

    if not refs and not stac:
        raise click.UsageError("Name files, manifests, or a STAC document with --stac.")
    if latest and by:
        raise click.UsageError("--latest and --by are two rules; --by updated,... is the longer form.")
    found = reach.sources(refs, MANIFESTS_FIRST) if refs else []
    (form,) = with_choices({name: options.pop(name) for name in FORM}, WriteOptions())
    check_form(form, output, as_json=console.as_json)
    console.hush_icechunk()
    ranks = ("updated", "datetime", "modified") if latest else tuple(by.split(",")) if by else ()
    (wanted,) = with_choices({**options, "by": ranks}, CubeOptions())
    form = replace(form, target_options=reach.options(output))
    made = run(found, output, wanted, stac=stac, assets=assets, access=reach.access(*found, *stac), form=form)
    for name, files in (("not there", made.absent), ("with the pixels of another", made.twins)):
        if files:
            console.note(
                f"{len(files)} {name}: {', '.join(map(hidden, files[:TOLD]))}{' ...' if len(files) > TOLD else ''}"
            )
    if made.rewritten is not None:
        console.note(f"written anew, not only added to: {made.rewritten}")
    if console.as_json:
        told = {"format": made.format, "files": made.files, "times": made.times, "bands": made.bands}
        told |= {"groups": made.groups, "chunks": made.chunks, "missing": made.missing, "rewritten": made.rewritten}
        console.tell_json(output, {**told, "absent": [hidden(one) for one in made.absent], "twins": made.twins})
    console.note(
        f"{output}: {counts(file=made.files, time=made.times, band=len(made.bands))}, {made.missing} of "
        f"{counts(chunk=made.chunks)} missing"
    )
