"""Options that several commands share: how much is said, how object stores are reached, what is trusted.

May touch click and URLs.  The S3 options become fsspec's storage options, for `s3://` URLs only, and are
in no manifest.  The AWS_* variables and ~/.aws work without them.
Names: https://s3fs.readthedocs.io/en/latest/api.html#s3fs.core.S3FileSystem
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from jnrrdz.cli.console import Console

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
