"""`jnrrdz refresh`: manifests brought up to date.

May touch click, and inside the command what refreshes.
"""

from collections.abc import Sequence
from typing import Any

import click

from jnrrdz.cli.console import FAILURE, SOME_FAILED, Console, console_of
from jnrrdz.cli.options import S3Access, allow_option, console_options, s3_options

EPILOG = """\b
Examples:
  jnrrdz refresh manifests/*.json
  jnrrdz refresh --dry-run year.parquet
"""


@click.command(epilog=EPILOG, short_help="Scan again what changed, and write manifests anew.")
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
