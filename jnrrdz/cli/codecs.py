"""`jnrrdz codecs`: what this environment can decode, in general and for a manifest.

May touch click, and inside the command what knows the decoders.
"""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from jnrrdz.cli.console import FAILURE, Console, console_of
from jnrrdz.cli.options import S3Access, allow_option, console_options, json_option, s3_options

if TYPE_CHECKING:
    from jnrrdz.cli.environment import Verdict

EPILOG = """\b
Examples:
  jnrrdz codecs
  jnrrdz codecs --check scene.json && echo readable here
"""

type Json = dict[str, Any]


@click.command(epilog=EPILOG, short_help="Show what can be decoded here, or whether a manifest can.")
@click.option("--check", metavar="REFS", type=click.Path(), help="Say of each codec of a manifest if it can be read.")
@json_option
@allow_option
@s3_options
@console_options
@console_of
@click.pass_context
def codecs(  # noqa: PLR0913  one parameter an option
    context: click.Context,
    console: Console,
    check: str | None,
    *,
    as_json: bool,
    allow: Sequence[str],
    s3: S3Access,
) -> None:
    """Show which codecs and compressions of TIFF and NITF can be read here, and what would add more.

    With --check the exit code is 1 if any codec of the manifest cannot be read.
    """
    if check is None:
        from jnrrdz.cli.environment import survey  # noqa: PLC0415  see the package

        found = survey()
        click.echo(json.dumps(found, indent=2) if as_json else "\n".join(_survey_lines(found)))
        return
    with console.warnings_told(check):
        verdicts = _verdicts(check, s3, allow)
    rows = [{"codec": v.entry, "arrays": v.arrays, "readable": v.reason is None, "reason": v.reason} for v in verdicts]
    click.echo(json.dumps(rows, indent=2) if as_json else "\n".join(_check_lines(rows)))
    if not all(row["readable"] for row in rows):
        context.exit(FAILURE)


def _verdicts(name: str, s3: S3Access, allow: Sequence[str]) -> "list[Verdict]":
    from jnrrdz.cli.environment import verdicts  # noqa: PLC0415  see the package
    from jnrrdz.cli.facts import Facts, opened  # noqa: PLC0415  imported where it is needed

    return verdicts(Facts(opened(name, s3, allow).manifest))


def _check_lines(rows: Sequence[Json]) -> list[str]:
    from jnrrdz.cli.console import codec, counted, table  # noqa: PLC0415  see the package

    return table(
        [
            (
                "yes" if row["readable"] else "no",
                codec(row["codec"]),
                counted(len(row["arrays"]), "array"),
                row["reason"] or "",
            )
            for row in rows
        ]
    )


def _survey_lines(found: Json) -> Iterator[str]:
    from jnrrdz.cli.console import table  # noqa: PLC0415  see the package

    yield f"jnrrdz {found['jnrrdz']}"
    yield ""
    codecs = [("codec", "read")]
    codecs += [(codec["name"], "yes" if codec["readable"] else "no") for codec in found["codecs"]]
    yield from table(codecs)
    yield ""
    libraries = [("library", "version", "for")]
    for library in found["libraries"]:
        missing = f"; {library['install']}" if library["version"] is None else ""
        libraries.append((library["name"], library["version"] or "missing", library["purpose"] + missing))
    yield from table(libraries)
    yield ""
    yield from table([("format", "names"), *((fmt["name"], " ".join(fmt["endings"])) for fmt in found["formats"])])
    for fmt in found["formats"]:
        schemes = [(f"{fmt['name']} compression", "read", "by")]
        for scheme in found.get(f"{fmt['name'].lower()}_compressions", ()):
            number = f" ({scheme['number']})" if "number" in scheme else ""
            meaning = f": {scheme['meaning']}" if "meaning" in scheme else ""
            state = "yes" if scheme["readable"] else "no"
            schemes.append((f"{scheme['name']}{number}{meaning}", state, scheme["reason"] or scheme["decoder"]))
        if len(schemes) > 1:
            yield ""
            yield from table(schemes)
