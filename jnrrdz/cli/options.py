"""Options that several commands share; their names in Python are those of the library's keywords.

They say how much is printed, how object stores are reached, what is trusted, what a scan takes, and how a manifest is
written.

The S3 options become fsspec's storage options, for `s3://` URLs only, and are in no manifest.  The AWS_* variables and
~/.aws work without them.  Names: https://s3fs.readthedocs.io/en/latest/api.html#s3fs.core.S3FileSystem
"""

import functools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, fields
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from jnrrdz.cli.console import Console
from jnrrdz.formats import FORMATS as SOURCES
from jnrrdz.lazy import library
from jnrrdz.manifests.forms import ENDINGS, FORMS
from jnrrdz.options import Access
from jnrrdz.records import record
from jnrrdz.sources.url import local_path, origin

if TYPE_CHECKING:
    import shutil
    import tempfile

    from jnrrdz.batches import selection
else:
    # patterns, folders and lists are resolved by it
    selection = library("jnrrdz.batches.selection")
    # what is written to stdout needs them, and nothing else
    shutil, tempfile = library("shutil"), library("tempfile")

S3 = ("s3://", "s3a://")

type Command = Callable[..., Any]


@record
class Reach:
    """How the user wants S3 to be reached, and what may be reached."""

    profile: str | None = None
    endpoint_url: str | None = None
    region: str | None = None
    no_sign_request: bool = False
    requester_pays: bool = False
    allow: Sequence[str] = ()
    templates: Mapping[str, str] = field(default_factory=dict)

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

    def sources(self, names: Sequence[str], wanted: str, *, may_be_empty: bool = False) -> list[str]:
        """Return what the names of a command stand for: files, folders, patterns, lists, each resolved.

        Names of nothing are an error, unless they `may_be_empty`.
        """
        if may_be_empty:
            names = [name for name in names if _may_be_there(name)]
        if wanted in {IMAGES, BOTH} and all(map(_is_one_image, names)):
            return list(dict.fromkeys(names))

        found = selection.resolve(names, selection.Wanted(wanted), self.options, may_be_empty=may_be_empty)
        return [each.url for each in found]

    def source(self, name: str) -> str:
        """Return the one source or manifest that a name stands for."""
        found = self.sources([name], BOTH)
        if len(found) > 1:
            raise click.UsageError(f"{name} stands for {len(found)} files, such as {found[0]}; name one of them.")
        return found[0]

    def keywords(self, *names: str) -> dict[str, Any]:
        """Return how manifests, or sources, and the sources that they name are reached, as Python's keywords."""
        # what an image or a manifest over HTTP names is there too, as a rule: S3's options mean nothing to it
        are_all_http = bool(names) and all(origin(name) is not None for name in names)
        return {
            "allow": self.allow,
            "storage_options": next(filter(None, map(self.options, names)), None),
            "source_options": None if are_all_http else self.given(),
            "template_overrides": self.templates or None,
        }

    def access(self, *names: str) -> Access:
        """Return how manifests, or sources, and the sources that they name are reached, as a record."""
        return Access(**self.keywords(*names))


def _may_be_there(name: str) -> bool:
    """Whether a name is no local path of nothing: a pattern, a list, or what is elsewhere is looked for."""
    path = local_path(name)
    return path is None or bool(set(name) & set("*?[@-")) or Path(path).exists()


_ENDINGS = tuple(ending for fmt in SOURCES for ending in fmt.endings if not fmt.is_directory)


def _is_one_image(name: str) -> bool:
    """Whether a name is that of one local file that is no pattern, list or manifest, as most are."""
    return name.lower().endswith(_ENDINGS) and not set(name) & set("*?[]{}@~:\\") and Path(name).is_file()


S3_OPTIONS = (
    click.option("--profile", metavar="NAME", help="Named profile of ~/.aws for s3:// URLs."),
    click.option("--endpoint-url", metavar="URL", help="S3-compatible server for s3:// URLs."),
    click.option("--region", metavar="NAME", help="Region of the bucket."),
    click.option("--no-sign-request", is_flag=True, help="Read public buckets without credentials."),
    click.option("--requester-pays", is_flag=True, help="Pay for reading where the bucket asks for it."),
)


def _templates(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:  # noqa: ARG001  click's signature
    pairs = [value.partition("=") for value in values]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise click.BadParameter(f"{name + equals!r} is not NAME=URL")
    return {name: url for name, _, url in pairs}


TEMPLATE = click.option(
    "--template",
    "templates",
    multiple=True,
    metavar="NAME=URL",
    callback=_templates,
    help="What {{NAME}} in a manifest's URLs stands for, with the slash at its end. Repeatable.",
)

ALLOW = "Let a manifest reach sources under this path or URL too; * for all. Repeatable."


def access_options(allow: str = ALLOW) -> Callable[[Command], Command]:
    """Return what adds `--allow`, `--template` and the S3 options to a command, which gets them as one `reach`."""

    def added(command: Command) -> Command:
        @functools.wraps(command)
        def collected(*args: Any, **options: Any) -> Any:
            own = {each.name: options.pop(each.name) for each in fields(Reach) if each.name in options}
            return command(*args, reach=Reach(**own), **options)

        allowing = click.option("--allow", multiple=True, metavar="PREFIX", help=allow)
        return _with((allowing, *([TEMPLATE] if allow == ALLOW else ()), *S3_OPTIONS), collected)

    return added


def _with(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


def console_options(command: Command) -> Command:
    """Add `-q` and `-v`, which work before a command's name and after it."""

    def keep(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001  click's signature
        if value:
            setattr(context.find_root().ensure_object(Console), str(parameter.name), True)

    shared: dict[str, Any] = {"is_flag": True, "expose_value": False, "callback": keep}
    quiet = click.option("-q", "--quiet", help="Say nothing but errors.", **shared)
    verbose = click.option("-v", "--verbose", help="Show tracebacks, and where warnings come from.", **shared)
    return _with((quiet, verbose), command)


IMAGES, MANIFESTS, BOTH = "images", "manifests", "images and manifests"
MANIFESTS_FIRST = "manifests, or images where there are none"
"""What a command takes of a folder: `jnrrdz.selection.Wanted`."""

STDOUT = "-"

if_any_option = click.option("--if-any", is_flag=True, help="End well where REFS are not there, or hold no manifest.")

ONE = tuple(ENDINGS)
"""What the name of one manifest ends in."""


def is_folder(sources: Sequence[str], output: str, one: Sequence[str]) -> bool:
    """Whether OUT holds an output for each source; the name of `one` output may end in a slash too."""
    is_one = output.rstrip("/").lower().endswith(tuple(one))
    if len(sources) > 1 and is_one:
        raise click.UsageError(
            f"{output} is one output, and there are {len(sources)} sources; name a directory for OUT, such as out/."
        )
    return not is_one and (len(sources) > 1 or output.endswith("/") or Path(output).is_dir())


def planned(sources: Sequence[str], output: str, ending: str, one: Sequence[str]) -> list[tuple[str, str]]:
    """Return the output of every source; two sources for one output are an error."""
    if not is_folder(sources, output, one):
        return [(sources[0], output)]
    pairs = [(source, f"{output.rstrip('/') or '/'}/{_stem(source)}{ending}") for source in sources]
    for place, times in Counter(place for _, place in pairs).items():
        if times > 1:
            twins = " and ".join(source for source, own in pairs if own == place)
            raise click.UsageError(
                f"{twins} would all become {place}; use different directories, or jnrrdz batch -o 'OUT/{{path}}.json'."
            )
    return pairs


def check_form(output: str, *, format: str | None, relative: bool, as_json: bool = False) -> None:
    """Refuse what stdout does not take: it has no place, and holds one file."""
    if output != STDOUT:
        return
    if format not in {None, "json"}:
        raise click.UsageError(f"{format} is a directory and cannot go to stdout; json can.")
    if as_json:
        raise click.UsageError("--json and -o - would both write to stdout; name a file for OUT.")
    if relative:
        raise click.UsageError("--relative needs a manifest with a place; stdout has none.")


def planned_manifests(
    sources: Sequence[str],
    output: str,
    *,
    format: str | None,
    relative: bool,
    as_json: bool = False,
) -> list[tuple[str, str]]:
    """Return the manifest for every source; stdout takes one, of JSON."""
    check_form(output, format=format, relative=relative, as_json=as_json)
    if output == STDOUT:
        if len(sources) > 1:
            raise click.UsageError("Several sources need a directory for OUT; stdout takes one manifest.")
        return [(sources[0], STDOUT)]
    pairs = planned(sources, output, FORMS[format or "json"].endings[0], ONE)
    own = {os.path.realpath(source) for source in sources}
    for _, place in pairs:
        if os.path.exists(place) and os.path.realpath(place) in own:  # noqa: PTH110  URLs come here too
            raise click.UsageError(f"{place} is a source itself and would be replaced; name another OUT.")
    return pairs


@contextmanager
def as_file(output: str) -> Iterator[str]:
    """Yield the name of a file to write OUT to; what is meant for stdout goes there once it is whole."""
    if output != STDOUT:
        yield output
        return
    with tempfile.TemporaryDirectory(prefix="jnrrdz-stdout-") as folder:
        path = Path(folder) / "stdout.json"
        yield str(path)
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


@contextmanager
def folder_made(sources: Sequence[str], output: str, one: Sequence[str]) -> Iterator[None]:
    """Make the directory OUT where it has to be one; it goes again if nothing is in it."""
    path = local_path(output)  # stores make theirs as they need them
    made = None
    if output != STDOUT and path is not None and is_folder(sources, output, one) and not Path(path).is_dir():
        made = Path(path)
        made.mkdir(parents=True)
    try:
        yield
    finally:
        if made is not None and not any(made.iterdir()):
            made.rmdir()


def _stem(source: str) -> str:
    """Return a source's name without its ending."""
    path = urlsplit(source).path if source.startswith(("http://", "https://")) else source
    name = PurePosixPath(path).stem
    if name in {"", ".", ".."}:
        raise click.UsageError(f"{source} names no file.")
    return name


def _keep_json(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  click's signature
    context.find_root().ensure_object(Console).as_json = value


json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    expose_value=False,
    callback=_keep_json,
    help="Write a line of JSON for each source.",
)


def stac_options(command: Command) -> Command:
    """Add what says when images were taken whose STAC items are written."""
    rules = "REGEX|metadata|modified"
    command = click.option("--time-from", metavar=rules, help="Where an item's time stands, if not in the metadata.")(
        command
    )
    named = "Where the band of an item's image stands in its name; for one band."
    command = click.option("--band-from", metavar="REGEX", help=named)(command)
    return click.option("--datetime", metavar="TIME[/TIME]", help="An item's time, or its start and end.")(command)


MANIFEST = (
    click.option(
        "-f",
        "--format",
        type=click.Choice(list(FORMS)),
        help="Form of the manifest; by default what OUT's ending says, else json.",
    ),
    click.option("--single-range", is_flag=True, help="Refer to scattered chunks by the span that holds them."),
    click.option("--relative", is_flag=True, help="Write the sources' URLs relative to the manifest."),
    click.option(
        "--keep-query",
        multiple=True,
        metavar="NAME",
        help="Record this member of URLs' queries: it names the file and is no secret. Repeatable.",
    ),
)
"""How a manifest is written."""

FORM = ("format", "single_range", "relative", "keep_query")
"""The keywords of these options."""

CHOICES = (
    *MANIFEST,
    click.option("--no-overviews", "overviews", is_flag=True, default=True, flag_value=False, help="Full size only."),
    click.option("--physical", is_flag=True, help="Read values by scale, offset and nodata, as floats with NaN."),
    click.option("--expand-palette", is_flag=True, help="Read a palette's colours in place of its indices."),
    click.option(
        "--embedded-metadata", "embedded", is_flag=True, help="Take colour profile (ICC), XMP and EXIF along."
    ),
    click.option("--sidecars", is_flag=True, help="Use .tfw, .aux.xml, .RPB, _RPC.TXT, .ovr, .msk next to SRC."),
    click.option(
        "--codecs",
        type=click.Choice(["auto", "proposal", "standard"]),
        default="auto",
        help="Zarr's own codecs where they are exact, those of the format's proposal, or Zarr's own and no others.",
    ),
    click.option(
        "--chain",
        type=click.Choice(["auto", "pad", "offset", "n5_default"]),
        help="Codecs for the headers of N5 blocks; by default those that read them right.",
    ),
    click.option(
        "--precinct-windows",
        type=click.Choice(["auto", "always", "never"]),
        help="Cut JPEG 2000 tiles into windows; by default large ones whose packets are cheap to find.",
    ),
    click.option(
        "--tile-part-table",
        metavar="FILE",
        help="Parquet table that lists the tile-parts of JPEG 2000 files, in place of a walk.",
    ),
    click.option("--stack-timepoints", is_flag=True, help="Put BigDataViewer's timepoints into an axis t."),
    click.option(
        "--allow-missing",
        is_flag=True,
        help="Read tiles whose files are missing as the fill value; leave images of a product out.",
    ),
    click.option(
        "--no-object-versions",
        "object_versions",
        is_flag=True,
        default=True,
        flag_value=False,
        help="Leave out what tells that a block or tile was replaced.",
    ),
    click.option("--allow-odd-blocks", is_flag=True, help="Cut or fill N5 blocks that contradict blockSize."),
)


class ScanCommand(click.Command):
    """A command that scans sources: its help ends with the formats, and what each alone understands."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, and the formats below them."""
        super().format_options(ctx, formatter)
        with formatter.section("Formats"):
            rows = []
            for fmt in SOURCES:
                own = ", ".join(f"--{name.replace('_', '-')}" for name in fmt.options)
                rows.append((fmt.name, " ".join(fmt.endings) + (f" (alone understands {own})" if own else "")))
            formatter.write_dl(rows)


OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace a manifest that exists.")


def index_options(command: Command) -> Command:
    """Add the options of a scan, of its manifest, and of what may be reached to a command."""
    return _with(CHOICES, access_options("Let a source's header name files under this prefix.")(command))


def form_options(command: Command) -> Command:
    """Add the options of how a manifest is written to a command that scans nothing."""
    return _with((*MANIFEST, OVERWRITE), command)


class Shard(click.ParamType[tuple[int, int]]):
    """`i/n`, from 1."""

    name = "I/N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return both numbers."""
        first, slash, second = str(value).partition("/")
        if not (slash and first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second)):
            self.fail(f"{value!r} is no shard; the first of four is 1/4", param, ctx)
        return int(first), int(second)
