"""Options of what a scan takes and how a manifest refers to it: the same for `index` and `batch`.

May touch click.  Their names in Python are those of `jnrrdz.index`.
"""

import functools
from collections.abc import Callable
from typing import Any

import click

type Command = Callable[..., Any]

FORMATS = ("json", "parquet", "icechunk")

FORMS = (
    click.option(
        "-f",
        "--format",
        "form",
        type=click.Choice(FORMATS),
        help="Form of the manifest; by default what OUT's ending says, else json.",
    ),
    click.option("--single-range", is_flag=True, help="Refer to scattered chunks by the span that holds them."),
    click.option("--relative", is_flag=True, help="Write the sources' URLs relative to the manifest."),
)
"""How a manifest is written."""

CHOICES = (
    *FORMS,
    click.option("--no-overviews", "overviews", is_flag=True, default=True, flag_value=False, help="Full size only."),
    click.option("--physical", is_flag=True, help="Read values by scale, offset and nodata, as floats with NaN."),
    click.option("--expand-palette", is_flag=True, help="Read a palette's colours in place of its indices."),
    click.option(
        "--embedded-metadata", "embedded", is_flag=True, help="Take colour profile (ICC), XMP and EXIF along."
    ),
    click.option("--sidecars", is_flag=True, help="Use .tfw, .aux.xml, .ovr and .msk beside SRC, wherever SRC is."),
    click.option(
        "--chain",
        type=click.Choice(["auto", "offset", "pad", "n5_default"]),
        help="Codecs for the headers of N5 blocks; by default those that read them right.",
    ),
    click.option(
        "--precinct-windows",
        type=click.Choice(["auto", "always", "never"]),
        help="Cut JPEG 2000 tiles into windows; by default large ones whose packets are cheap to find.",
    ),
    click.option("--stack-timepoints", is_flag=True, help="Put BigDataViewer's timepoints into an axis t."),
    click.option("--allow-missing", is_flag=True, help="Read tiles whose files are missing as the fill value."),
    click.option(
        "--allow", multiple=True, metavar="PREFIX", help="Let a source's header name files under this prefix."
    ),
)


OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace a manifest that exists.")


def index_choices(command: Command) -> Command:
    """Add the options of a scan and of its manifest to a command."""
    return functools.reduce(lambda found, option: option(found), reversed(CHOICES), command)


def form_choices(command: Command) -> Command:
    """Add the options of how a manifest is written to a command that scans nothing."""
    return functools.reduce(lambda found, option: option(found), reversed((*FORMS, OVERWRITE)), command)
