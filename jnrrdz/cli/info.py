"""`jnrrdz info`: what a source or a manifest holds; `jnrrdz ls`: its groups and arrays."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from jnrrdz import commands
from jnrrdz.cli import console as text
from jnrrdz.cli.console import Console, console_of, echo_json, say
from jnrrdz.cli.options import BOTH, Reach, access_options, console_options, json_option, stac_options
from jnrrdz.redact import hidden

if TYPE_CHECKING:
    from jnrrdz.commands.facts import Facts
    from jnrrdz.core.hierarchy import HierarchyNode

EPILOG = """\b
Examples:
  jnrrdz info scene.tif
  jnrrdz info scene.json --json | jq '.arrays[0].shape'
  jnrrdz info scene.tif --stac > scene.stac.json
"""

WIDTH = 84
"""Characters of a sentence beside a label."""

SOURCES = 5
"""Sources that are shown to people; a mosaic has thousands."""

IMAGES, BANDS = 12, 16
"""Images, and bands of one, likewise."""

SPLIT_SECOND = re.compile(r"\.\d+(?=Z)")
"""What a time of modification has beyond seconds, which matters to machines."""

type Json = dict[str, Any]


@click.command(epilog=EPILOG)
@click.argument("names", nargs=-1, required=True, metavar="SRC|REFS...", type=click.Path())
@click.option("-a", "--all", "every", is_flag=True, help="Show every attribute too.")
@click.option("--stac", is_flag=True, help="Print a STAC item; of several, one on a line.")
@stac_options
@json_option
@access_options()
@console_options
@console_of
def info(
    console: Console,
    /,
    names: Sequence[str],
    *,
    stac: bool,
    reach: Reach,
    **how: Any,
) -> None:
    """Show what an image (SRC) or a manifest (REFS) holds.

    Where it lies, when it was taken, bands, levels, shapes, types, chunks, codecs, nodata; for an image what
    reading its header took, for a manifest the sources as they were when it was made.  No pixel is read.
    """
    if stac and (console.as_json or how["every"]):
        raise click.UsageError("--stac prints an item and nothing else; leave out --json and --all.")
    rules = {name: how.pop(name) for name in ("datetime", "time_from", "band_from")}
    if any(rules.values()) and not stac:
        raise click.UsageError("--datetime, --time-from and --band-from are for --stac.")
    sources = reach.sources(names, BOTH)
    if stac:
        _print_items(console, sources, reach, rules)
        return

    def show(name: str) -> None:
        found = commands.info.summary(commands.facts.opened(name, reach.access(name)), attributes=how["every"])
        if console.as_json:
            console.tell_json(name, found)
            return
        for line in _lines(found):
            say(line)
        if name != sources[-1]:
            say("")

    console.end_each(sources, show)


def _print_items(console: Console, sources: Sequence[str], reach: Reach, rules: Mapping[str, Any]) -> None:
    def show(name: str) -> None:
        item = commands.stac.stac_item(name, **rules, **reach.keywords(name))
        echo_json(item, None if len(sources) > 1 else 2)

    console.end_each(sources, show)


# For people


def _lines(found: Json) -> Iterator[str]:
    """Yield what is true of the whole, then of each image, then a table of the arrays."""
    yield from text.table(_head(found))
    images = found["images"]
    for image in images[:IMAGES] if _has_parts(found) else ():
        yield from ("", image["path"])
        rows = [("size", text.sides(image["shape"])), *_about(image)]
        yield from (f"  {line}" for line in text.table(rows))
    if len(images) > IMAGES:
        yield from ("", f"and {len(images) - IMAGES:,} more images; --json shows them all")
    if found["arrays"]:
        yield ""
        yield from _table(found["arrays"])
    for path, attributes in found.get("attributes", {}).items():
        yield from ("", path)
        yield from (f"  {name}: {json.dumps(value)}" for name, value in attributes.items())


def _has_parts(found: Json) -> bool:
    """Whether images are told one by one: a NITF's segment has a title and a date beside those of the file."""
    return len(found["images"]) > 1 or "nitf" in found


def _table(arrays: Sequence[Json]) -> list[str]:
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
        for array in arrays
    ]
    return text.table([header, *rows], right=(4, 5, 6))


def _head(found: Json) -> Iterator[tuple[str, str]]:
    yield "name", found["name"]
    yield "format", found["format"]
    if "requests" in found:
        yield "header", f"{text.counted(found['bytes_read'], 'byte')} in {text.counted(found['requests'], 'request')}"
    yield from _file(found.get("nitf", {}))
    images = found["images"]
    if len(images) > 1:
        yield "images", str(len(images))
    yield "levels", str(found["levels"])
    for label, value in (
        ("type", lambda array: array["data_type"]),
        ("dimensions", lambda array: ", ".join(str(name) for name in array["dimension_names"])),
        ("codecs", lambda array: ", ".join(map(text.codec, array["codecs"]))),
        ("CRS", lambda array: ", ".join(filter(None, (array["crs"] or {"": "none"}).values()))),
        ("nodata", lambda array: "none" if array["nodata"] is None else str(array["nodata"])),
    ):
        yield from _distinct(label, found["arrays"], value)
    if not _has_parts(found):
        yield from (line for image in images for line in _about(image))
    yield "chunks", f"{found['chunks']:,}, {found['missing']:,} of them missing, {text.size(found['stored_bytes'])}"
    yield from _readers(found["readable_by"])
    yield from _sources(found["sources"])


def _readers(verdicts: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """Yield who reads all of it, and for each of the others why not and what helps."""
    able = [each["reader"] for each in verdicts if each["readable"]]
    yield "readable by", "; ".join(able) or "none"
    readers: dict[tuple[str, str, str], list[str]] = {}
    for each in verdicts:
        if not each["readable"]:
            why = each["array"], each["reason"], each.get("remedy", "")
            readers.setdefault(why, []).append(each["reader"])
    for (array, reason, remedy), named in readers.items():
        helps = f" ({remedy})" if remedy else ""
        line = f"not by {', '.join(named)}: {array} has {reason}{helps}"
        yield from (("", part) for part in wrap(line, WIDTH, subsequent_indent="  "))


def _file(nitf: Json) -> Iterator[tuple[str, str]]:
    """Yield what a NITF's file header says."""
    if nitf:
        yield "version", nitf.get("version", "")
        yield from _plain(nitf, ("title", "date", "classification", "station"))
        if "tres" in nitf:
            yield "TREs", ", ".join(nitf["tres"])


def _plain(found: Json, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from ((name.replace("_", " "), str(found[name])) for name in names if name in found)


def _about(image: Json) -> Iterator[tuple[str, str]]:
    """Yield what is said of an image: the order is that in which people ask."""
    yield from _plain(image, ("title", "date"))
    if times := image.get("times"):
        yield "times", f"{times['count']:,}, {times['first']} to {times['last']}"
    yield from _place(image.get("place", {}))
    yield from _bands(image.get("bands", []))
    colours = image.get("colours", {})
    if "table" in colours:
        yield "palette", text.counted(len(colours["table"]), "colour")
    for number, channel in enumerate(image.get("channels", ())):
        window = channel.get("window", {})
        shown = (channel.get("name"), f"#{channel.get('color', '')}", f"{window.get('start')} to {window.get('end')}")
        yield "" if number else "channels", ", ".join(filter(None, shown))
    sizes = image.get("pixel_size", {})
    if sizes:
        each = (f"{name} {_short(size['size'])} {size.get('unit', '')}".rstrip() for name, size in sizes.items())
        yield "pixel size", ", ".join(each)
    yield from _plain(image, ("magnification", "mask"))
    if tiles := image.get("jpeg2000"):
        kind = "reversible" if tiles["is_reversible"] else "irreversible"
        yield "tiles", f"{tiles['tiles']:,} of {text.sides(tiles['tile_shape'])}"
        counted = text.counted(tiles["resolutions"], "resolution"), text.counted(tiles["layers"], "layer")
        yield "packets", ", ".join((tiles["progression"], *counted, kind))
    yield from _segment(image.get("nitf", {}))
    items = sum(len(items) if isinstance(items, dict) else 1 for items in image.get("metadata", {}).values())
    items += len(image.get("comments", ()))
    if items:
        yield "metadata", f"{text.counted(items, 'item')}; -a shows them"


def _short(number: float | str) -> str:
    """Return a number in as many digits as people look at."""
    return f"{number:.10g}" if isinstance(number, int | float) else number


def _place(place: Json) -> Iterator[tuple[str, str]]:
    if bounds := place.get("bounds"):
        left, bottom, right, top = map(_short, bounds)
        yield "bounds", f"x {left} to {right}, y {bottom} to {top}"
    if degrees := place.get("degrees"):
        west, south, east, north = (f"{degree:.6f}" for degree in degrees["bounds"])
        yield "degrees", f"longitude {west} to {east}, latitude {south} to {north}"
    if "resolution" in place:
        yield "resolution", " x ".join(map(_short, place["resolution"]))
        yield "affine", ", ".join(map(_short, place["affine"]))
    if points := place.get("control_points"):
        yield "control points", str(len(points))
    if rpc := place.get("rpc"):
        middle = [_short(rpc[name]) for name in ("LONG_OFF", "LAT_OFF") if isinstance(rpc.get(name), int | float)]
        yield "sensor model", f"RPC around longitude {' and latitude '.join(middle)}"
    yield from _plain(place, ("georeference_refused", "georeference_remark"))


def _bands(bands: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """Yield bands in one line where only colours are known, else one after the other."""
    is_nodata_common = len({str(band.get("nodata")) for band in bands}) == 1
    is_short = all(not set(band) - {"number", "colour", "nodata"} for band in bands)
    if not bands or (is_short and is_nodata_common):
        colours = [str(band["colour"]) for band in bands if "colour" in band]
        shown = colours[:BANDS] + ([f"and {len(colours) - BANDS} more"] if len(colours) > BANDS else [])
        if shown:
            yield "bands", ", ".join(shown)
        return
    for number, band in enumerate(bands[:BANDS]):
        statistics = band.get("statistics")
        ranges = statistics if isinstance(statistics, dict) else {}
        words = [
            str(band.get("name", "")),
            str(band.get("colour", "")),
            str(band.get("unit", "")),
            f"x {_short(band['scale'])}" if band.get("scale", 1) != 1 else "",
            f"+ {_short(band['offset'])}" if band.get("offset", 0) != 0 else "",
            f"{_short(ranges['minimum'])} to {_short(ranges['maximum'])}"
            if {"minimum", "maximum"} <= set(ranges)
            else "",
            "" if is_nodata_common or "nodata" not in band else f"nodata {_short(band['nodata'])}",
        ]
        yield "" if number else "bands", f"{band['number']}: {', '.join(filter(None, words)) or '-'}"
    if len(bands) > BANDS:
        yield "", f"and {len(bands) - BANDS:,} more; --json shows them all"


def _segment(nitf: Json) -> Iterator[tuple[str, str]]:
    """Yield what the header of a NITF's image segment says."""
    yield from _plain(nitf, ("id", "classification"))
    kinds = [str(nitf[name]) for name in ("representation", "category", "compression") if name in nitf]
    if kinds:
        yield "image", ", ".join(kinds)
    if "place" in nitf:
        row, column = nitf["place"]
        yield "place", f"row {row}, column {column}; display level {nitf.get('display_level')}"
    if "tres" in nitf:
        yield "TREs", ", ".join(nitf["tres"])


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
        facts += [f"modified {SPLIT_SECOND.sub('', source['last_modified'])}"] if source["last_modified"] else []
        yield "" if number else "sources", source["url"]
        if facts:
            yield "", f"  {', '.join(facts)}"
    if len(sources) > SOURCES:
        yield "", f"and {len(sources) - SOURCES:,} more; --json lists them all"


LS_EPILOG = """\b
Examples:
  jnrrdz ls scene.json
  jnrrdz ls -r -l scene.tif
"""


@click.command(epilog=LS_EPILOG)
@click.argument("names", nargs=-1, required=True, metavar="REFS|SRC...", type=click.Path())
@click.option("-r", "--recursive", is_flag=True, help="Go down into groups.")
@click.option("-l", "--long", "details", is_flag=True, help="Show type, shape, chunk shape and stored bytes.")
@json_option
@access_options()
@console_options
@console_of
def ls(console: Console, /, names: Sequence[str], *, reach: Reach, **how: bool) -> None:
    """List the groups and arrays of a manifest (REFS) or of an image (SRC).

    Groups end in a slash.  With --json everything that -l shows.
    """
    sources = reach.sources(names, BOTH)

    def show(name: str) -> None:
        facts = commands.facts.Facts(commands.facts.opened(name, reach.access(name)).manifest)
        nodes = [node for node in facts.nodes.values() if node.path and (how["recursive"] or "/" not in node.path)]
        if console.as_json:
            console.tell_json(name, {"nodes": [_listed(facts, node) for node in nodes]})
            return
        if len(sources) > 1:
            say(f"{hidden(name)}:")
        for line in _long(facts, nodes) if how["details"] else map(_name, nodes):
            say(line)
        if name != sources[-1]:
            say("")

    console.end_each(sources, show)


def _listed(facts: "Facts", node: "HierarchyNode") -> Json:
    if not node.is_array:
        return {"path": node.path, "kind": "group"}
    row = commands.info.array_facts(facts, node)
    shown = ("data_type", "shape", "chunk_shape", "chunks", "missing", "stored_bytes")
    return {"path": node.path, "kind": "array"} | {name: row[name] for name in shown}


def _name(node: "HierarchyNode") -> str:
    return node.path + ("/" if not node.is_array else "")


def _long(facts: "Facts", nodes: Sequence["HierarchyNode"]) -> list[str]:
    rows = [
        ("group", "", "", "", _name(node))
        if not node.is_array
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
