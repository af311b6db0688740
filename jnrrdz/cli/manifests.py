"""The commands on manifests: `jnrrdz merge`, `cube`, `convert`, `refresh` and `verify`."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from jnrrdz import commands, manifests
from jnrrdz.cli.console import (
    ANNOTATED,
    FAILURE,
    NOT_VERIFIED,
    Console,
    annotate,
    console_of,
    counted,
    counts,
    say,
    step_summary,
    table,
)
from jnrrdz.cli.options import (
    MANIFESTS,
    MANIFESTS_FIRST,
    ONE,
    Reach,
    Shard,
    access_options,
    as_file,
    check_form,
    console_options,
    folder_made,
    form_options,
    if_any_option,
    json_option,
    planned_manifests,
)
from jnrrdz.errors import UnsupportedError
from jnrrdz.redact import hidden

if TYPE_CHECKING:
    from jnrrdz.commands.refresh import Refreshed
    from jnrrdz.commands.verification import Verification

EPILOG = """\b
Examples:
  jnrrdz merge scenes/*.json -o year.json --concat-dim time --coord-from '_([0-9]{8})'
  jnrrdz merge scenes/*.tif -o year.parquet --concat-dim time --coord-from metadata
"""


no_check_option = click.option(
    "--no-check", "check", flag_value=False, default=True, help="Do not read one chunk of each array first."
)


@click.command(epilog=EPILOG)
@click.argument("refs", nargs=-1, required=True, metavar="REFS...", type=click.Path())
@click.option("-o", "--output", required=True, metavar="OUT", type=click.Path(), help="The manifest to write.")
@click.option("--concat-dim", required=True, metavar="DIM", help="The axis: a new one, or one that all have.")
@click.option(
    "--coord-from",
    metavar="REGEX|metadata",
    help="Where each value along the axis stands: in the name (one group finds a number or a date), or in the "
    "image's own time.",
)
@click.option("--keep-order", is_flag=True, help="Keep the order of REFS, and equal values too.")
@click.option("--skip-mismatched", is_flag=True, help="Leave out what does not fit, with a warning for each.")
@no_check_option
@json_option
@form_options
@access_options()
@console_options
@console_of
def merge(console: Console, /, refs: Sequence[str], output: str, *, reach: Reach, **options: Any) -> None:
    """Write one manifest of many of the same grid, without copying anything.

    REFS are manifests (JSON or Parquet) or images, which are scanned.  The values along the axis order
    them.  Most of REFS agree in shape, type, codecs, CRS and names; what differs from them is refused.
    """
    refs = reach.sources(refs, MANIFESTS_FIRST)
    check_form(output, format=options["format"], relative=options["relative"], as_json=console.as_json)
    options |= {**reach.keywords(*refs), "target_options": reach.options(output)}
    with console.warnings_told(output):
        with as_file(output) as out:
            made = commands.merge.merge(refs, out, **options)
        for reason in made.left_out:
            warnings.warn(f"left out {reason}", stacklevel=1)
    if console.as_json:
        members = [hidden(member) for member in made.members]
        told = {"format": made.format, "members": members, "left_out": made.left_out, "dropped": made.dropped}
        console.tell_json(output, told | {"arrays": made.arrays, "chunks": made.chunks})
    if made.dropped:
        console.note(f"attributes that differ are not in it: {', '.join(made.dropped)}")
    console.note(f"{output}: {counts(manifest=len(made.members), array=made.arrays, chunk=made.chunks)}")


CONVERT_EPILOG = """\b
Examples:
  jnrrdz convert year.json -o year.parquet
  jnrrdz convert refs.json -o moved.parquet --rewrite-prefix s3://old/data=s3://new/archive
"""


@click.command(epilog=CONVERT_EPILOG)
@click.argument("names", nargs=-1, required=True, metavar="REFS...", type=click.Path())
@click.option("-o", "--output", required=True, metavar="OUT", type=click.Path(), help="Manifest, directory, or -.")
@click.option(
    "--rewrite-prefix",
    "rules",
    multiple=True,
    metavar="OLD=NEW",
    help="Sources below OLD are below NEW now. Repeatable; the longest OLD that fits is used.",
)
@no_check_option
@json_option
@form_options
@access_options()
@console_options
@console_of
def convert(
    console: Console,
    /,
    names: Sequence[str],
    output: str,
    *,
    rules: Sequence[str],
    reach: Reach,
    **options: Any,
) -> None:
    """Write what the manifest REFS says as OUT; one chunk of each array is read first.

    With several, OUT is a directory and gets one manifest for each.  Sources that moved keep their size in the
    table of sources, which reading compares.  With --no-check no source is opened.
    """
    options["rewrite_prefix"] = dict(map(commands.convert.prefix_of, rules))
    found = reach.sources(names, MANIFESTS)
    form = {name: options[name] for name in ("format", "relative")}
    places = dict(planned_manifests(found, output, **form, as_json=console.as_json))

    def rewrite(name: str) -> None:
        if manifests.manifest.manifest_form(name) is None:
            raise UnsupportedError(f"this is not a manifest; jnrrdz index {name} -o OUT writes one", url=name)
        place = places[name]
        access = {**reach.keywords(name), "target_options": reach.options(place)}
        with as_file(place) as out:
            group = commands.convert.convert(name, out, **access, **options)
        arrays = [array for _, array in group.arrays() if array.shape]
        chunks = sum(array.refs.chunks for array in arrays)
        if console.as_json:
            told = {"output": hidden(place), "arrays": len(arrays), "chunks": chunks}
            console.tell_json(name, told | {"sources": len(group.sources)})
        numbers = counts(array=len(arrays), chunk=chunks)
        console.note(f"{place}: {numbers} of {counts(source=len(group.sources))}")

    with folder_made(found, output, ONE):
        console.end_each(found, rewrite)


REFRESH_EPILOG = """\b
Examples:
  jnrrdz refresh manifests/*.json
  jnrrdz refresh --dry-run year.parquet
  jnrrdz refresh --prune --if-any s3://bucket/manifests/
"""


@click.command(epilog=REFRESH_EPILOG)
@click.argument("names", nargs=-1, required=True, metavar="REFS...", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Say what changed, and write nothing.")
@click.option("--prune", is_flag=True, help="Take out sources that are gone; a manifest of nothing else is removed.")
@if_any_option
@click.option("-j", "--jobs", type=click.IntRange(1, 1024), default=32, show_default=True, help="Sources at a time.")
@json_option
@access_options()
@console_options
@console_of
def refresh(console: Console, /, names: Sequence[str], *, reach: Reach, if_any: bool, **options: Any) -> None:
    """Compare the sources of each manifest (REFS) with what it records, and scan again those that changed.

    A manifest whose sources are as they were is left alone.  In a merged one, only the changed members are
    scanned, and each must have kept its form.  A source that is gone is an error without --prune.
    Other runs that write the manifest wait meanwhile, or are refused.
    """

    def renew(name: str) -> None:
        made = commands.refresh.refresh(name, **reach.keywords(name), **options)
        if console.as_json:
            changed = [hidden(url) for url in made.changed]
            gone = [hidden(url) for url in made.gone]
            is_written = bool(changed or gone) and not options["dry_run"]
            told = {"sources": made.sources, "changed": changed, "gone": gone}
            console.tell_json(name, told | {"written": is_written, "removed": made.removed and is_written})
        console.note(f"{name}: {_renewal(made, dry_run=options['dry_run'])}")

    found = reach.sources(names, MANIFESTS, may_be_empty=if_any)
    failed = console.each(found, renew)
    step_summary(f"jnrrdz refresh: {counts(manifest=len(found))}, {failed} failed", console.failures)
    console.end(failed, len(found))


def _renewal(made: "Refreshed", *, dry_run: bool) -> str:
    """Return what became of a manifest."""
    if made.removed:
        return f"{'would be removed' if dry_run else 'removed'}, its source is gone"
    parts = []
    if made.changed:
        parts.append(f"{len(made.changed)} of {made.sources} sources {'changed' if dry_run else 'scanned again'}")
    if made.gone:
        parts.append(f"{len(made.gone)} of {made.sources} sources {'gone' if dry_run else 'taken out, gone'}")
    return ", ".join(parts) or "as it was"


VERIFY_EPILOG = """\b
Examples:
  jnrrdz verify scene.json
  jnrrdz verify --drift manifests/*.json
  jnrrdz verify --deep --json volume.jnrrd
  jnrrdz verify --shard 3/10 archive.parquet
"""


@click.command(epilog=VERIFY_EPILOG)
@click.argument("names", nargs=-1, required=True, metavar="REFS|SRC...", type=click.Path())
@click.option("--deep", is_flag=True, help="Read every chunk instead of a few, and compare every checksum.")
@click.option("--drift", is_flag=True, help="Compare only the sources' size and ETag with the recorded ones.")
@if_any_option
@click.option(
    "--shard", type=Shard(), default="1/1", metavar="I/N", help="Look at the part I of N of a large manifest."
)
@click.option("-j", "--jobs", type=click.IntRange(1, 1024), default=32, show_default=True, help="Sources at a time.")
@json_option
@access_options()
@console_options
@console_of
def verify(console: Console, /, names: Sequence[str], *, reach: Reach, if_any: bool, **options: Any) -> None:
    """Tell whether manifests (REFS) still say what is in their sources.

    It compares the manifest with the state of every source, with its size and with the file's own tables, and
    reads some chunks of each array. An image (SRC) is scanned first. Findings are a table on stdout; the exit
    code is 4 then.
    """
    if options["deep"] and options["drift"]:
        raise click.UsageError("--drift looks at no chunk; leave out --deep.")
    results: list[Verification] = []

    def look(name: str) -> None:
        result = commands.verify.verify(name, **reach.keywords(name), **options)
        results.append(result)
        parts = [counted(result.sources, "source")]
        parts += [counted(result.ranges, "range")] if result.ranges else []
        parts += [f"{counted(result.chunks, 'chunk')} read"] if result.chunks else []
        parts += [counted(result.checksums, "checksum")] if result.checksums else []
        if console.as_json:
            console.tell_json(name, result.to_json())
        verdict = "fine" if result.ok else counted(len(result.findings), "finding")
        console.note(f"{result.refs}: {verdict} ({', '.join(parts)})")

    found = reach.sources(names, MANIFESTS_FIRST, may_be_empty=if_any)
    failed = console.each(found, look)
    rows = [(each.refs, one.kind, one.place, one.message) for each in results for one in each.findings]
    wrong = [(refs, f"{kind}: {place}: {message}") for refs, kind, place, message in rows]
    for refs, text in wrong[:ANNOTATED]:
        annotate(text, refs)
    told = f"jnrrdz verify: {counts(manifest=len(found), finding=len(rows))}, {failed} failed"
    step_summary(told, [*console.failures, *wrong])
    if rows and not console.as_json:
        for line in table(rows):
            say(line)
    if failed:
        raise Exit(FAILURE)
    if not all(result.ok for result in results):
        raise Exit(NOT_VERIFIED)


CUBE_EPILOG = """\b
Examples:
  jnrrdz cube --stac items.json -o cube.parquet --by-day --latest
  jnrrdz cube 'scenes/*.tif' -o cube.json --time-from '_([0-9]{8})_' --band-from '_(B[0-9]+)[.]tif'
  jnrrdz cube --stac new.json -o cube.parquet --append
"""
TOLD = 5


@click.command(epilog=CUBE_EPILOG)
@click.argument("refs", nargs=-1, metavar="[SRC...]", type=click.Path())
@click.option("-o", "--output", required=True, metavar="OUT", type=click.Path(), help="The manifest to write.")
@click.option("--stac", multiple=True, metavar="URL", help="STAC item, collection, search or table. Repeatable.")
@click.option(
    "--asset", "assets", multiple=True, metavar="KEY", help="Assets, and bands of products, that are taken. Repeatable."
)
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
@click.option("--alternate", metavar="NAME", help="Alternate location of assets to read, such as s3.")
@click.option("--stac-out", metavar="FILE", help="Write a STAC collection of which the cube is an asset.")
@click.option("--collection", default="", metavar="ID", help="Name of that collection; by default the cube's.")
@click.option("--append", is_flag=True, help="Add the files to the cube OUT, in turn with other runs.")
@no_check_option
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
    **options: Any,
) -> None:
    """Write one dataset with the axes time, band, y and x of many files, without copying anything.

    SRC are images or manifests.  Bands of several resolutions become a group for each; files that are not there
    leave their chunks missing; neighbours on one grid become one mosaic.
    """
    if not refs and not stac:
        raise click.UsageError("Name files, manifests, or a STAC document with --stac.")
    if latest and by:
        raise click.UsageError("--latest and --by are two rules; --by updated,... is the longer form.")
    found = reach.sources(refs, MANIFESTS_FIRST) if refs else []
    check_form(output, format=options["format"], relative=options["relative"], as_json=console.as_json)
    console.hush_icechunk()
    if latest:
        options["by"] = ("updated", "datetime", "modified")
    elif by:
        options["by"] = tuple(by.split(","))
    options |= {**reach.keywords(*found, *stac), "target_options": reach.options(output)}
    with console.warnings_told(output):
        made = commands.cube.cube(found, output, stac=stac, assets=assets, **options)
    for name, files in (("not there", made.absent), ("with the pixels of another", made.twins)):
        if files:
            console.note(
                f"{len(files)} {name}: {', '.join(map(hidden, files[:TOLD]))}{' ...' if len(files) > TOLD else ''}"
            )
    if made.rewritten is not None:
        console.note(f"written anew, not only added to: {made.rewritten}")
    if console.as_json:
        told = {"format": made.format, "files": made.files, "times": made.times, "bands": made.bands}
        told |= {"grids": [asdict(one) for one in made.grids]}
        told |= {"groups": made.groups, "chunks": made.chunks, "missing": made.missing, "rewritten": made.rewritten}
        console.tell_json(output, {**told, "absent": [hidden(one) for one in made.absent], "twins": made.twins})
    for one in made.grids if len(made.grids) > 1 else ():
        console.note(str(one))
    console.note(
        f"{output}: {counts(file=made.files, time=made.times, band=len(made.bands))}, {made.missing} of "
        f"{counts(chunk=made.chunks)} missing"
    )
