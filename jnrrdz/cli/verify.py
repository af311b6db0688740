"""`jnrrdz verify`: whether manifests and their sources still belong together.

May touch click, and inside the command what verifies.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from jnrrdz.cli.console import FAILURE, NOT_VERIFIED, Console, console_of
from jnrrdz.cli.options import S3Access, allow_option, console_options, json_option, s3_options

if TYPE_CHECKING:
    from jnrrdz.commands.findings import Verification

EPILOG = """\b
Examples:
  jnrrdz verify scene.json
  jnrrdz verify --drift manifests/*.json
  jnrrdz verify --deep --json volume.jnrrd
"""


@click.command(epilog=EPILOG, short_help="Check manifests against their sources.")
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
    from jnrrdz.commands.verifying import verify as run  # noqa: PLC0415  see the package

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
    from jnrrdz.cli.text import table  # noqa: PLC0415  see the package

    if as_json:
        click.echo(json.dumps([found.to_json() for found in done], indent=2))
        return
    rows = [(found.refs, one.kind, one.place, one.message) for found in done for one in found.findings]
    for line in table(rows) if rows else ():
        click.echo(line)


def _line(found: "Verification") -> str:
    """Return what was looked at in one manifest, and whether it is fine."""
    from jnrrdz.cli.text import counted  # noqa: PLC0415  see the package

    parts = [counted(found.sources, "source")]
    parts += [counted(found.ranges, "range")] if found.ranges else []
    parts += [f"{counted(found.chunks, 'chunk')} read"] if found.chunks else []
    parts += [counted(found.checksums, "checksum")] if found.checksums else []
    verdict = "fine" if found.ok else counted(len(found.findings), "finding")
    return f"{found.refs}: {verdict} ({', '.join(parts)})"
