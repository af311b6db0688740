"""`jnrrdz info`: what a source or a manifest holds; `jnrrdz ls`: its groups and arrays."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from jnrrdz.cli import console as text
from jnrrdz.cli.console import Console, console_of, echo_json, say
from jnrrdz.cli.options import Reach, access_options, console_options, json_option
from jnrrdz.redact import hidden

if TYPE_CHECKING:
    from jnrrdz.cli.facts import Facts, Node, Opened

EPILOG = """\b
Examples:
  jnrrdz info scene.tif
  jnrrdz info scene.json --json | jq '.arrays[0].shape'
"""

SOURCES = 5
"""Sources that are shown to people; a mosaic has thousands."""

type Json = dict[str, Any]


@click.command(epilog=EPILOG, short_help="Show what an image or a manifest holds.")
@click.argument("name", metavar="SRC|REFS", type=click.Path())
@json_option
@access_options()
@console_options
@console_of
def info(console: Console, /, name: str, *, as_json: bool, reach: Reach) -> None:
    """Show what an image (SRC) or a manifest (REFS) holds.

    Format, levels, shapes, types, chunks, codecs, CRS, nodata; for an image what reading its header took,
    for a manifest the sources as they were when it was made.  No pixel is read.
    """
    from jnrrdz.cli.facts import opened  # noqa: PLC0415  see the package

    with console.warnings_told(name):
        found = summary(opened(name, reach))
        if as_json:
            echo_json(found)
            return
        for line in _lines(found):
            say(line)


def summary(found: "Opened") -> Json:
    """Return everything that is shown, as JSON has it."""
    from jnrrdz.cli.facts import Facts  # noqa: PLC0415  see the package

    facts = Facts(found.manifest)
    arrays = [_array(facts, node) for node in facts.arrays()]
    whole: Json = {"name": hidden(found.name), "format": found.format}
    if found.requests is not None:
        whole |= {"requests": found.requests, "bytes_read": found.bytes_read}
    sizes = [array["stored_bytes"] for array in arrays]
    return whole | {
        "levels": 1 + max((array["level"] for array in arrays), default=-1),
        "chunks": sum(array["chunks"] for array in arrays),
        "missing": sum(array["missing"] for array in arrays),
        "stored_bytes": None if None in sizes else sum(sizes),
        "arrays": arrays,
        "sources": [
            {
                "url": hidden(record.url),
                "size": record.size,
                "etag": record.etag,
                "version_id": record.version,
                "last_modified": record.modified,
            }
            for record in found.manifest.sources
        ],
    }


def _array(facts: "Facts", node: "Node") -> Json:
    crs, stored = facts.crs(node), facts.stored(node)
    return {
        "path": node.path,
        "level": facts.level(node.path),
        "shape": list(node.shape),
        "data_type": node.data_type,
        "dimension_names": node.dimension_names,
        "chunk_shape": list(node.chunk_shape),
        "codecs": node.codecs,
        "crs": None if crs is None else {"code": crs.code, "name": crs.name},
        "nodata": node.nodata,
        "chunks": stored.chunks,
        "missing": stored.missing,
        "stored_bytes": stored.nbytes,
    }


# For people


def _lines(found: Json) -> Iterator[str]:
    """Yield what is true of the whole, then a table of the arrays."""
    yield from text.table(_head(found))
    if not found["arrays"]:
        return
    yield ""
    header = ("array", "level", "shape", "chunk shape", "chunks", "missing", "stored")
    rows = [
        (
            array["path"],
            str(array["level"]),
            text.sides(array["shape"]),
            text.sides(array["chunk_shape"]),
            f"{array['chunks']:,}",
            f"{array['missing']:,}",
            text.size(array["stored_bytes"]),
        )
        for array in found["arrays"]
    ]
    yield from text.table([header, *rows], right=(4, 5, 6))


def _head(found: Json) -> Iterator[tuple[str, str]]:
    yield "name", found["name"]
    yield "format", found["format"]
    if "requests" in found:
        yield "header", f"{text.counted(found['bytes_read'], 'byte')} in {text.counted(found['requests'], 'request')}"
    yield "levels", str(found["levels"])
    for label, value in (
        ("type", lambda array: array["data_type"]),
        ("dimensions", lambda array: ", ".join(str(name) for name in array["dimension_names"])),
        ("codecs", lambda array: ", ".join(map(text.codec, array["codecs"]))),
        ("CRS", lambda array: ", ".join(filter(None, (array["crs"] or {"": "none"}).values()))),
        ("nodata", lambda array: "none" if array["nodata"] is None else str(array["nodata"])),
    ):
        yield from _distinct(label, found["arrays"], value)
    yield "chunks", f"{found['chunks']:,}, {found['missing']:,} of them missing, {text.size(found['stored_bytes'])}"
    yield from _sources(found["sources"])


def _distinct(label: str, arrays: Sequence[Json], value: Callable[[Json], str]) -> Iterator[tuple[str, str]]:
    """Yield what the arrays have in common, or each value with the arrays that have it."""
    by_value: dict[str, list[str]] = {}
    for array in arrays:
        by_value.setdefault(value(array), []).append(array["path"])
    for number, (shown, paths) in enumerate(by_value.items()):
        others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        yield "" if number else label, shown if len(by_value) == 1 else f"{shown}: {paths[0]}{others}"


def _sources(sources: Sequence[Json]) -> Iterator[tuple[str, str]]:
    for number, source in enumerate(sources[:SOURCES]):
        facts = [] if source["size"] is None else [text.counted(source["size"], "byte")]
        facts += [f"ETag {source['etag']}"] if source["etag"] else []
        facts += [f"version {source['version_id']}"] if source["version_id"] else []
        facts += [f"modified {source['last_modified']}"] if source["last_modified"] else []
        yield "" if number else "sources", ", ".join([source["url"], *facts])
    if len(sources) > SOURCES:
        yield "", f"and {len(sources) - SOURCES:,} more; --json lists them all"


LS_EPILOG = """\b
Examples:
  jnrrdz ls scene.json
  jnrrdz ls -r -l scene.tif
"""


@click.command(epilog=LS_EPILOG, short_help="List groups and arrays.")
@click.argument("name", metavar="REFS|SRC", type=click.Path())
@click.option("-r", "--recursive", is_flag=True, help="Go down into groups.")
@click.option("-l", "--long", "details", is_flag=True, help="Show type, shape, chunk shape and stored bytes.")
@json_option
@access_options()
@console_options
@console_of
def ls(console: Console, /, name: str, *, reach: Reach, as_json: bool, **how: bool) -> None:
    """List the groups and arrays of a manifest (REFS) or of an image (SRC).

    Groups end in a slash.  With --json a list of objects with everything that -l shows.
    """
    from jnrrdz.cli.facts import Facts, opened  # noqa: PLC0415  imported where it is needed

    with console.warnings_told(name):
        facts = Facts(opened(name, reach).manifest)
        nodes = [node for node in facts.nodes.values() if node.path and (how["recursive"] or "/" not in node.path)]
        if as_json:
            listed = ("data_type", "shape", "chunk_shape", "chunks", "missing", "stored_bytes")
            rows = [(node, {} if node.refs is None else _array(facts, node)) for node in nodes]
            echo_json(
                [
                    {"path": node.path, "kind": "array" if row else "group"}
                    | {name: row[name] for name in listed if row}
                    for node, row in rows
                ]
            )
            return
        for line in _long(facts, nodes) if how["details"] else map(_name, nodes):
            say(line)


def _name(node: "Node") -> str:
    return node.path + ("/" if node.refs is None else "")


def _long(facts: "Facts", nodes: Sequence["Node"]) -> list[str]:
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
