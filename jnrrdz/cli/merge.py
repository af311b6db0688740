"""`jnrrdz merge`: many manifests of one form to one.

May touch click, and inside the command what merges.
"""

import os
import warnings
from collections.abc import Sequence

import click

from jnrrdz.cli.choices import form_choices
from jnrrdz.cli.console import Console, console_of
from jnrrdz.cli.options import S3Access, allow_option, console_options, s3_options

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
    from jnrrdz.cli.text import counted  # noqa: PLC0415  see the package
    from jnrrdz.commands.merging import merge as run  # noqa: PLC0415  the same

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
