"""The commands on manifests: `jnrrdz merge`, `convert`, `refresh` and `verify`."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from jnrrdz.cli.console import FAILURE, NOT_VERIFIED, Console, console_of, counted, counts, echo_json, say, table
from jnrrdz.cli.options import Reach, access_options, console_options, form_options, json_option

if TYPE_CHECKING:
    from jnrrdz.commands.verify import Verification

EPILOG = """\b
Examples:
  jnrrdz merge scenes/*.json -o year.json --concat-dim time --coord-from '_([0-9]{8})'
  jnrrdz merge scenes/*.tif -o year.parquet --concat-dim time --coord-from metadata
"""


@click.command(epilog=EPILOG, short_help="Put manifests of one grid together along an axis.")
@click.argument("refs", nargs=-1, required=True, metavar="REFS...", type=click.Path())
@click.option("-o", "--output", required=True, metavar="OUT", type=click.Path(), help="The manifest to write.")
@click.option("--concat-dim", required=True, metavar="DIM", help="The axis: a new one, or one that all have.")
@click.option(
    "--coord-from",
    metavar="REGEX|metadata",
    help="Where each value along the axis stands: in the name (one group finds a number or a date), or in the "
    "image's own time.",
)
@click.option("--keep-order", is_flag=True, help="Keep the order of REFS, and values that are there twice.")
@click.option("--skip-mismatched", is_flag=True, help="Leave out what does not fit, with a warning for each.")
@form_options
@access_options()
@console_options
@console_of
def merge(console: Console, /, refs: Sequence[str], output: str, *, reach: Reach, **options: Any) -> None:
    """Write one manifest of many of the same grid, without copying or decoding anything.

    REFS are manifests (JSON or Parquet) or images, which are scanned.  The values along the axis order
    them.  What most of them have in shape, type, codecs, CRS and names is what the others have to have.
    """
    from jnrrdz.commands.merge import merge as run  # noqa: PLC0415  see the package

    console.hush_icechunk(options["format"])
    with console.warnings_told(output):
        made = run(refs, output, access=reach.access(*refs), target_options=reach.options(output), **options)
        for reason in made.left_out:
            warnings.warn(f"left out {reason}", stacklevel=1)
    if made.dropped:
        console.note(f"attributes that differ are not in it: {', '.join(made.dropped)}")
    console.note(f"{made.output}: {counts(manifest=len(made.members), array=made.arrays, chunk=made.chunks)}")


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
    help="Sources below OLD are below NEW now. Repeatable; the longest OLD that fits is used.",
)
@form_options
@access_options()
@console_options
@console_of
def convert(console: Console, /, refs: str, output: str, *, rules: Sequence[str], reach: Reach, **options: Any) -> None:
    """Write what the manifest REFS says as OUT; no source is opened.

    Sources that moved keep their size in the table of sources, which reading compares; run
    `jnrrdz verify` to look at them in their new place.
    """
    from jnrrdz.commands.convert import convert as run  # noqa: PLC0415  see the package
    from jnrrdz.commands.convert import prefix_of  # noqa: PLC0415  the same

    with console.warnings_told(refs):
        group = run(
            refs,
            output,
            rewrite_prefix=dict(map(prefix_of, rules)),
            access=reach.access(refs),
            target_options=reach.options(output),
            **options,
        )
    arrays = [array for _, array in group.arrays() if array.shape]
    numbers = counts(array=len(arrays), chunk=sum(array.refs.chunks for array in arrays))
    console.note(f"{output}: {numbers} of {counts(source=len(group.sources))}")


REFRESH_EPILOG = """\b
Examples:
  jnrrdz refresh manifests/*.json
  jnrrdz refresh --dry-run year.parquet
"""


@click.command(epilog=REFRESH_EPILOG, short_help="Scan again what changed, and write manifests anew.")
@click.argument("names", nargs=-1, required=True, metavar="REFS...", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Say what changed, and write nothing.")
@click.option("-j", "--jobs", type=click.IntRange(1, 1024), default=32, show_default=True, help="Sources at a time.")
@access_options()
@console_options
@console_of
def refresh(console: Console, /, names: Sequence[str], *, reach: Reach, **options: Any) -> None:
    """Compare the sources of each manifest (REFS) with what it records, and scan again those that changed.

    A manifest whose sources are as they were is left alone.  Of a merged one only the changed members are
    scanned, and they have to have the form that they had.
    """
    from jnrrdz.commands.refresh import refresh as run  # noqa: PLC0415  see the package

    def renew(name: str) -> None:
        made = run(name, access=reach.access(name), **options)
        verb = "changed" if options["dry_run"] else "scanned again"
        console.note(
            f"{name}: {f'{len(made.changed)} of {made.sources} sources {verb}' if made.changed else 'as it was'}"
        )

    console.end_each(names, renew)


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
@access_options()
@console_options
@console_of
def verify(console: Console, /, names: Sequence[str], *, as_json: bool, reach: Reach, **options: Any) -> None:
    """Tell whether manifests (REFS) still say what is in their sources.

    Looked at are the state of every source, every range, the tables of the files, and some chunks of each
    array by reading them.  An image (SRC) is scanned first.  What is wrong is a table on stdout, and the
    exit code is 4.
    """
    if options["deep"] and options["drift"]:
        raise click.UsageError("--drift looks at no chunk; leave out --deep.")
    from jnrrdz.commands.verify import verify as run  # noqa: PLC0415  see the package

    results: list[Verification] = []

    def look(name: str) -> None:
        result = run(name, **vars(reach.access(name)), **options)
        results.append(result)
        parts = [counted(result.sources, "source")]
        parts += [counted(result.ranges, "range")] if result.ranges else []
        parts += [f"{counted(result.chunks, 'chunk')} read"] if result.chunks else []
        parts += [counted(result.checksums, "checksum")] if result.checksums else []
        verdict = "fine" if result.ok else counted(len(result.findings), "finding")
        console.note(f"{result.refs}: {verdict} ({', '.join(parts)})")

    failed = console.each(names, look)
    rows = [(result.refs, found.kind, found.place, found.message) for result in results for found in result.findings]
    if as_json:
        echo_json([result.to_json() for result in results])
    elif rows:
        for line in table(rows):
            say(line)
    if failed:
        raise Exit(FAILURE)
    if not all(result.ok for result in results):
        raise Exit(NOT_VERIFIED)
