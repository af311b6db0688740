"""`jnrrdz codecs`: prints which codecs and libraries this environment has, in general and for a manifest."""

from collections.abc import Iterator, Sequence
from typing import Any

import click
from click.exceptions import Exit

from jnrrdz import commands
from jnrrdz.cli.console import FAILURE, Console, codec, console_of, counted, echo_json, say, table
from jnrrdz.cli.options import Reach, access_options, console_options, json_option

EPILOG = """\b
Examples:
  jnrrdz codecs
  jnrrdz codecs --check scene.json && echo readable here
"""

type Json = dict[str, Any]


@click.command(epilog=EPILOG)
@click.option("--check", metavar="REFS", type=click.Path(), help="Say of each codec of a manifest if it can be read.")
@json_option
@access_options()
@console_options
@console_of
def codecs(console: Console, /, check: str | None, *, reach: Reach) -> None:
    """Show which codecs and compressions of TIFF and NITF can be read here, and what would add more.

    With --check the exit code is 1 if any codec of the manifest cannot be read.
    """
    if check is None:
        available = commands.codecs.survey()
        if console.as_json:
            echo_json(available)
            return
        for line in _survey_lines(available):
            say(line)
        return
    check = reach.source(check)
    with console.warnings_told(check):
        found = commands.facts.opened(check, reach.access(check))
        checked = commands.codecs.verdicts(commands.facts.Facts(found.manifest))
    rows = [{"codec": v.entry, "arrays": v.arrays, "readable": v.reason is None, "reason": v.reason} for v in checked]
    if console.as_json:
        console.tell_json(check, {"codecs": rows})
    else:
        for line in _check_lines(rows):
            say(line)
    if not all(row["readable"] for row in rows):
        raise Exit(FAILURE)


def _check_lines(rows: Sequence[Json]) -> list[str]:
    return table(
        (
            "yes" if row["readable"] else "no",
            codec(row["codec"]),
            counted(len(row["arrays"]), "array"),
            row["reason"] or "",
        )
        for row in rows
    )


def _survey_lines(available: Json) -> Iterator[str]:
    yield f"jnrrdz {available['jnrrdz']}"
    yield ""
    codecs = [(entry["name"], "yes" if entry["readable"] else "no") for entry in available["codecs"]]
    yield from table([("codec", "read"), *codecs])
    yield ""
    libraries = [("library", "version", "for")]
    for library in available["libraries"]:
        missing = f"; {library['install']}" if library["version"] is None else ""
        libraries.append((library["name"], library["version"] or "missing", library["purpose"] + missing))
    yield from table(libraries)
    yield ""
    yield from table([("format", "names"), *((fmt["name"], " ".join(fmt["endings"])) for fmt in available["formats"])])
    for fmt in available["formats"]:
        schemes = [(f"{fmt['name']} compression", "read", "by")]
        for scheme in available.get(f"{fmt['name'].lower()}_compressions", ()):
            number = f" ({scheme['number']})" if "number" in scheme else ""
            meaning = f": {scheme['meaning']}" if "meaning" in scheme else ""
            state = "yes" if scheme["readable"] else "no"
            schemes.append((f"{scheme['name']}{number}{meaning}", state, scheme["reason"] or scheme["decoder"]))
        if len(schemes) > 1:
            yield ""
            yield from table(schemes)
