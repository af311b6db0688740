"""`jnrrdz convert`: a manifest in another form, or of sources that are elsewhere now.

May touch click, and inside the command what converts.
"""

from collections.abc import Sequence

import click

from jnrrdz.cli.choices import form_choices
from jnrrdz.cli.console import Console, console_of
from jnrrdz.cli.options import S3Access, allow_option, console_options, s3_options

EPILOG = """\b
Examples:
  jnrrdz convert year.json -o year.parquet
  jnrrdz convert refs.json -o moved.parquet --rewrite-prefix s3://old/data=s3://new/archive
"""


@click.command(epilog=EPILOG, short_help="Write a manifest in another form, or for moved sources.")
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
    from jnrrdz.cli.text import counted  # noqa: PLC0415  see the package
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
