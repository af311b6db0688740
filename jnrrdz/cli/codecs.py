"""`jnrrdz codecs`: what this environment can decode, in general and for a manifest."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click
from click.exceptions import Exit

from jnrrdz.cli.console import FAILURE, Console, codec, console_of, counted, table
from jnrrdz.cli.options import Reach, access_options, console_options, json_option

EPILOG = """\b
Examples:
  jnrrdz codecs
  jnrrdz codecs --check scene.json && echo readable here
"""

type Json = dict[str, Any]


@click.command(epilog=EPILOG, short_help="Show what can be decoded here, or whether a manifest can.")
@click.option("--check", metavar="REFS", type=click.Path(), help="Say of each codec of a manifest if it can be read.")
@json_option
@access_options()
@console_options
@console_of
def codecs(console: Console, /, check: str | None, *, as_json: bool, reach: Reach) -> None:
    """Show which codecs and compressions of TIFF and NITF can be read here, and what would add more.

    With --check the exit code is 1 if any codec of the manifest cannot be read.
    """
    if check is None:
        from jnrrdz.cli.environment import survey  # noqa: PLC0415  see the package

        found = survey()
        click.echo(json.dumps(found, indent=2) if as_json else "\n".join(_survey_lines(found)))
        return
    from jnrrdz.cli.environment import verdicts  # noqa: PLC0415  see the package
    from jnrrdz.cli.facts import Facts, opened  # noqa: PLC0415  the same

    with console.warnings_told(check):
        checked = verdicts(Facts(opened(check, reach).manifest))
    rows = [{"codec": v.entry, "arrays": v.arrays, "readable": v.reason is None, "reason": v.reason} for v in checked]
    click.echo(json.dumps(rows, indent=2) if as_json else "\n".join(_check_lines(rows)))
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


def _survey_lines(found: Json) -> Iterator[str]:
    yield f"jnrrdz {found['jnrrdz']}"
    yield ""
    codecs = [(entry["name"], "yes" if entry["readable"] else "no") for entry in found["codecs"]]
    yield from table([("codec", "read"), *codecs])
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
