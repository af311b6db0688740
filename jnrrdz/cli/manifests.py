"""`jnrrdz merge`: many manifests of one form to one.

May touch click, and inside the command what merges.

`jnrrdz convert`: a manifest in another form, or of sources that are elsewhere now.

May touch click, and inside the command what converts.

`jnrrdz refresh`: manifests brought up to date.

May touch click, and inside the command what refreshes.

`jnrrdz verify`: whether manifests and their sources still belong together.

May touch click, and inside the command what verifies.
"""

import json
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from jnrrdz.cli.console import FAILURE, NOT_VERIFIED, SOME_FAILED, Console, console_of
from jnrrdz.cli.options import S3Access, allow_option, console_options, form_choices, json_option, s3_options

EPILOG = """\b
Examples:
  jnrrdz merge scenes/*.json -o year.json --concat-dim time --coord-from '_([0-9]{8})'
  jnrrdz merge scenes/*.tif -o year.parquet --concat-dim time --coord-from metadata
"""


@click.command(epilog=EPILOG, short_help="Put manifests of one grid together along an axis.")
@click.argument("refs", nargs=-1, required=True, metavar="REFS...", type=click.Path())
@click.option("-o", "--output", required=True, metavar="OUT", type=click.Path(), help="The manifest to write.")
@click.option("--concat-dim", "dim", required=True, metavar="DIM", help="The axis: a new one, or one that all have.")
@click.option(
    "--coord-from",
    metavar="REGEX|metadata",
    help="Where each value along the axis stands: in the name (one group finds a number or a date), or in the "
    "image's own time.",
)
@click.option("--keep-order", is_flag=True, help="Keep the order of REFS, and values that are there twice.")
@click.option("--skip-mismatched", is_flag=True, help="Leave out what does not fit, with a warning for each.")
@form_choices
@allow_option
@s3_options
@console_options
@console_of
def merge(  # noqa: PLR0913  one parameter an option
    console: Console,
    refs: Sequence[str],
    output: str,
    *,
    dim: str,
    coord_from: str | None,
    form: str | None,
    keep_order: bool,
    skip_mismatched: bool,
    single_range: bool,
    relative: bool,
    overwrite: bool,
    allow: Sequence[str],
    s3: S3Access,
) -> None:
    """Write one manifest of many of the same grid, without copying or decoding anything.

    REFS are manifests (JSON or Parquet) or images, which are scanned.  The values along the axis order
    them.  What most of them have in shape, type, codecs, CRS and names is what the others have to have.
    """
    from jnrrdz.cli.console import counted  # noqa: PLC0415  see the package
    from jnrrdz.commands.merge import merge as run  # noqa: PLC0415  the same

    if form == "icechunk" and not console.verbose:
        os.environ.setdefault("ICECHUNK_LOG", "error")
    with console.warnings_told(output):
        done = run(
            refs,
            output,
            concat_dim=dim,
            coord_from=coord_from,
            keep_order=keep_order,
            skip_mismatched=skip_mismatched,
            allow=allow,
            format=form,
            single_range=single_range,
            relative=relative,
            overwrite=overwrite,
            storage_options=next(filter(None, map(s3.options, refs)), None),
            source_options=s3.given(),
            target_options=s3.options(output),
        )
        for reason in done.left_out:
            warnings.warn(f"left out {reason}", stacklevel=1)
    if done.dropped:
        console.note(f"attributes that differ are not in it: {', '.join(done.dropped)}")
    parts = [counted(len(done.members), "manifest"), counted(done.arrays, "array"), counted(done.chunks, "chunk")]
    console.note(f"{done.output}: {', '.join(parts)}")


CONVERT_EPILOG = """\b
Examples:
  jnrrdz convert year.json -o year.parquet
  jnrrdz convert refs.json -o moved.parquet --rewrite-prefix s3://old/data=s3://new/archive
"""


@click.command(epilog=CONVERT_EPILOG, short_help="Write a manifest in another form, or for moved sources.")
@click.argument("refs", metavar="REFS", type=click.Path())
@click.option("-o", "--output", required=True, metavar="OUT", type=click.Path(), help="The manifest to write.")
@click.option(
    "--rewrite-prefix",
    "rules",
    multiple=True,
    metavar="OLD=NEW",
    help="Sources below OLD are below NEW now. Repeatable; the longest OLD counts.",
)
@form_choices
@allow_option
@s3_options
@console_options
@console_of
def convert(  # noqa: PLR0913  one parameter an option
    console: Console,
    refs: str,
    output: str,
    *,
    rules: Sequence[str],
    form: str | None,
    single_range: bool,
    relative: bool,
    overwrite: bool,
    allow: Sequence[str],
    s3: S3Access,
) -> None:
    """Write what the manifest REFS says as OUT; no source is opened.

    Sources that moved keep their size in the table of sources, which reading compares; run
    `jnrrdz verify` to look at them in their new place.
    """
    from jnrrdz.cli.console import counted  # noqa: PLC0415  see the package
    from jnrrdz.commands.convert import convert as run  # noqa: PLC0415  the same
    from jnrrdz.commands.convert import prefix_of  # noqa: PLC0415  the same

    with console.warnings_told(refs):
        done = run(
            refs,
            output,
            rewrite_prefix=dict(map(prefix_of, rules)),
            format=form,
            single_range=single_range,
            relative=relative,
            overwrite=overwrite,
            allow=allow,
            storage_options=s3.options(refs),
            source_options=s3.given(),
            target_options=s3.options(output),
        )
    arrays = [array for _, array in done.arrays() if array.shape]
    parts = [counted(len(arrays), "array"), counted(sum(array.refs.chunks for array in arrays), "chunk")]
    console.note(f"{output}: {', '.join(parts)} of {counted(len(done.sources), 'source')}")


REFRESH_EPILOG = """\b
Examples:
  jnrrdz refresh manifests/*.json
  jnrrdz refresh --dry-run year.parquet
"""


@click.command(epilog=REFRESH_EPILOG, short_help="Scan again what changed, and write manifests anew.")
@click.argument("names", nargs=-1, required=True, metavar="REFS...", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Say what changed, and write nothing.")
@click.option("-j", "--jobs", type=click.IntRange(1, 1024), default=32, show_default=True, help="Sources at a time.")
@allow_option
@s3_options
@console_options
@console_of
@click.pass_context
def refresh(  # noqa: PLR0913  one parameter an option
    context: click.Context,
    console: Console,
    /,
    names: Sequence[str],
    *,
    dry_run: bool,
    jobs: int,
    allow: Sequence[str],
    s3: S3Access,
) -> None:
    """Compare the sources of each manifest (REFS) with what it records, and scan again those that changed.

    A manifest whose sources are as they were is left alone.  Of a merged one only the changed members are
    scanned, and they have to have the form that they had.
    """
    from jnrrdz.commands.refresh import refresh as run  # noqa: PLC0415  see the package

    def renew(name: str) -> None:
        access: Any = {"storage_options": s3.options(name), "source_options": s3.given()}
        done = run(name, dry_run=dry_run, jobs=jobs, allow=allow, **access)
        verb = "changed" if dry_run else "scanned again"
        told = f"{len(done.changed)} of {done.sources} sources {verb}" if done.changed else "as it was"
        console.note(f"{name}: {told}")

    failed = console.each(names, renew)
    if failed:
        context.exit(SOME_FAILED if len(names) > 1 else FAILURE)


if TYPE_CHECKING:
    from jnrrdz.commands.verify import Verification

VERIFY_EPILOG = """\b
Examples:
  jnrrdz verify scene.json
  jnrrdz verify --drift manifests/*.json
  jnrrdz verify --deep --json volume.jnrrd
"""


@click.command(epilog=VERIFY_EPILOG, short_help="Check manifests against their sources.")
@click.argument("names", nargs=-1, required=True, metavar="REFS|SRC...", type=click.Path())
@click.option("--deep", is_flag=True, help="Read every chunk, not a few of each array, and compare every checksum.")
@click.option("--drift", is_flag=True, help="Compare the sources' size and ETag with the recorded ones, no more.")
@click.option("-j", "--jobs", type=click.IntRange(1, 1024), default=32, show_default=True, help="Sources at a time.")
@json_option
@allow_option
@s3_options
@console_options
@console_of
@click.pass_context
def verify(  # noqa: PLR0913  one parameter an option
    context: click.Context,
    console: Console,
    /,
    names: Sequence[str],
    *,
    deep: bool,
    drift: bool,
    jobs: int,
    as_json: bool,
    allow: Sequence[str],
    s3: S3Access,
) -> None:
    """Tell whether manifests (REFS) still say what is in their sources.

    Looked at are the state of every source, every range, the tables of the files, and some chunks of each
    array by reading them.  An image (SRC) is scanned first.  What is wrong is a table on stdout, and the
    exit code is 4.
    """
    if deep and drift:
        raise click.UsageError("--drift looks at no chunk; leave out --deep.")
    from jnrrdz.commands.verify import verify as run  # noqa: PLC0415  see the package

    done: list[Verification] = []

    def look(name: str) -> None:
        access: Any = {"storage_options": s3.options(name), "source_options": s3.given()}
        done.append(run(name, deep=deep, drift=drift, jobs=jobs, allow=allow, **access))
        console.note(_line(done[-1]))

    failed = console.each(names, look)
    _print(done, as_json=as_json)
    if failed:
        context.exit(FAILURE)
    if not all(found.ok for found in done):
        context.exit(NOT_VERIFIED)


def _print(done: Sequence["Verification"], *, as_json: bool) -> None:
    from jnrrdz.cli.console import table  # noqa: PLC0415  see the package

    if as_json:
        click.echo(json.dumps([found.to_json() for found in done], indent=2))
        return
    rows = [(found.refs, one.kind, one.place, one.message) for found in done for one in found.findings]
    for line in table(rows) if rows else ():
        click.echo(line)


def _line(found: "Verification") -> str:
    """Return what was looked at in one manifest, and whether it is fine."""
    from jnrrdz.cli.console import counted  # noqa: PLC0415  see the package

    parts = [counted(found.sources, "source")]
    parts += [counted(found.ranges, "range")] if found.ranges else []
    parts += [f"{counted(found.chunks, 'chunk')} read"] if found.chunks else []
    parts += [counted(found.checksums, "checksum")] if found.checksums else []
    verdict = "fine" if found.ok else counted(len(found.findings), "finding")
    return f"{found.refs}: {verdict} ({', '.join(parts)})"
