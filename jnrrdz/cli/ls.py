"""`jnrrdz ls`: the groups and arrays of a manifest or source.

May touch click, and inside the command what reads manifests.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from jnrrdz.cli.console import Console, console_of, printable
from jnrrdz.cli.options import S3Access, allow_option, console_options, json_option, s3_options

if TYPE_CHECKING:
    from jnrrdz.cli.facts import Facts, Node

EPILOG = """\b
Examples:
  jnrrdz ls scene.json
  jnrrdz ls -r -l scene.tif
"""


@click.command(epilog=EPILOG, short_help="List groups and arrays.")
@click.argument("name", metavar="REFS|SRC", type=click.Path())
@click.option("-r", "--recursive", is_flag=True, help="Go down into groups.")
@click.option("-l", "--long", "details", is_flag=True, help="Show type, shape, chunk shape and stored bytes.")
@json_option
@allow_option
@s3_options
@console_options
@console_of
def ls(  # noqa: PLR0913  one parameter an option
    console: Console,
    name: str,
    *,
    recursive: bool,
    details: bool,
    as_json: bool,
    allow: Sequence[str],
    s3: S3Access,
) -> None:
    """List the groups and arrays of a manifest (REFS) or of an image (SRC).

    Groups end in a slash.  With --json a list of objects with everything that -l shows.
    """
    from jnrrdz.cli.facts import Facts  # noqa: PLC0415  see the package
    from jnrrdz.cli.opened import opened  # noqa: PLC0415  the same

    with console.warnings_told(name):
        facts = Facts(opened(name, s3, allow).manifest)
        nodes = [node for node in facts.nodes.values() if node.path and (recursive or "/" not in node.path)]
        if as_json:
            click.echo(json.dumps([_entry(facts, node) for node in nodes], indent=2))
            return
        for line in _long(facts, nodes) if details else map(_name, nodes):
            click.echo(line)


def _entry(facts: "Facts", node: "Node") -> dict[str, Any]:
    if node.refs is None:
        return {"path": node.path, "kind": "group"}
    stored = facts.stored(node)
    return {
        "path": node.path,
        "kind": "array",
        "data_type": node.data_type,
        "shape": node.shape,
        "chunk_shape": node.chunk_shape,
        "chunks": stored.chunks,
        "missing": stored.missing,
        "stored_bytes": stored.nbytes,
    }


def _name(node: "Node") -> str:
    return printable(node.path) + ("/" if node.refs is None else "")


def _long(facts: "Facts", nodes: Sequence["Node"]) -> list[str]:
    from jnrrdz.cli import text  # noqa: PLC0415  see the package

    rows = [
        ("group", "", "", "", _name(node))
        if node.refs is None
        else (
            node.data_type,
            text.sides(node.shape),
            text.sides(node.chunk_shape),
            text.size(facts.stored(node).nbytes),
            _name(node),
        )
        for node in nodes
    ]
    return text.table(rows, right=(3,)) if rows else []
