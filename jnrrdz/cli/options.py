"""Options that several commands share: how much is said, how object stores are reached, what is trusted.

May touch click and URLs.  The S3 options become fsspec's storage options, for `s3://` URLs only, and are
in no manifest.  The AWS_* variables and ~/.aws work without them.
Names: https://s3fs.readthedocs.io/en/latest/api.html#s3fs.core.S3FileSystem

Options of what a scan takes and how a manifest refers to it: the same for `index` and `batch`.

May touch click.  Their names in Python are those of `jnrrdz.index`.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from jnrrdz.cli.console import Console
from jnrrdz.formats import FORMATS as SOURCES
from jnrrdz.formats import Format

S3 = ("s3://", "s3a://")

type Command = Callable[..., Any]


@dataclass(frozen=True)
class S3Access:
    """How the user wants S3 to be reached."""

    profile: str | None = None
    endpoint_url: str | None = None
    region: str | None = None
    no_sign_request: bool = False
    requester_pays: bool = False

    def given(self) -> dict[str, Any] | None:
        """Return what was asked for as s3fs's options, None where nothing was."""
        options: dict[str, Any] = {
            "profile": self.profile,
            "endpoint_url": self.endpoint_url,
            "client_kwargs": {"region_name": self.region} if self.region else None,
            "anon": self.no_sign_request,
            "requester_pays": self.requester_pays,
        }
        return {name: value for name, value in options.items() if value} or None

    def options(self, url: str) -> dict[str, Any] | None:
        """Return the storage options for a URL, None where S3 has no part in it."""
        given = self.given()
        if given is None or url.lower().startswith(S3):
            return given
        # fsspec takes the options of a link of a chain (zip://a.tif::s3://bucket/b.zip) by its protocol
        links = [link.partition("://")[0] for link in url.split("::")[1:] if link.startswith(S3)]
        return {links[0]: given} if links else None


S3_OPTIONS = (
    click.option("--profile", metavar="NAME", help="Named profile of ~/.aws for s3:// URLs."),
    click.option("--endpoint-url", metavar="URL", help="S3-compatible server for s3:// URLs."),
    click.option("--region", metavar="NAME", help="Region of the bucket."),
    click.option("--no-sign-request", is_flag=True, help="Read public buckets without credentials."),
    click.option("--requester-pays", is_flag=True, help="Pay for reading where the bucket asks for it."),
)


def s3_options(command: Command) -> Command:
    """Add the S3 options to a command, which gets them as one `s3`."""

    @functools.wraps(command)
    def collected(
        *args: Any,
        profile: str | None,
        endpoint_url: str | None,
        region: str | None,
        no_sign_request: bool,
        requester_pays: bool,
        **others: Any,
    ) -> Any:
        s3 = S3Access(profile, endpoint_url, region, no_sign_request, requester_pays)
        return command(*args, s3=s3, **others)

    return functools.reduce(lambda found, option: option(found), reversed(S3_OPTIONS), collected)


def _say(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001  click's signature
    if value:
        setattr(context.find_root().ensure_object(Console), str(parameter.name), True)


def console_options(command: Command) -> Command:
    """Add `-q` and `-v`, which work before a command's name and after it."""
    shared: dict[str, Any] = {"is_flag": True, "expose_value": False, "callback": _say}
    quiet = click.option("-q", "--quiet", help="Say nothing but errors.", **shared)
    verbose = click.option("-v", "--verbose", help="Show tracebacks, and where warnings come from.", **shared)
    found: Command = quiet(verbose(command))
    return found


allow_option = click.option(
    "--allow",
    multiple=True,
    metavar="PREFIX",
    help="Let a manifest reach sources under this path or URL too; * for all. Repeatable.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Write one JSON document to stdout.")


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


class ScanCommand(click.Command):
    """A command that scans sources: its help ends with the formats, and what each alone understands."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, and the formats below them."""
        super().format_options(ctx, formatter)
        with formatter.section("Formats"):
            formatter.write_dl([(fmt.name, _names(fmt)) for fmt in SOURCES])


def _names(fmt: Format) -> str:
    own = ", ".join(f"--{name.replace('_', '-')}" for name in fmt.options)
    return " ".join(fmt.endings) + (f" (alone understands {own})" if own else "")


OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace a manifest that exists.")


def index_choices(command: Command) -> Command:
    """Add the options of a scan and of its manifest to a command."""
    return functools.reduce(lambda found, option: option(found), reversed(CHOICES), command)


def form_choices(command: Command) -> Command:
    """Add the options of how a manifest is written to a command that scans nothing."""
    return functools.reduce(lambda found, option: option(found), reversed((*FORMS, OVERWRITE)), command)
