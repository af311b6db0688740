"""`jnrrdz index` and `jnrrdz batch`: sources to a manifest each.

A source that fails does not stop the others.  Progress goes to stderr, a line every few seconds.
"""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from jnrrdz import batches, formats, manifests
from jnrrdz.cli import OFTEN
from jnrrdz.cli.console import (
    ANNOTATED,
    SOME_FAILED,
    Console,
    annotate,
    console_of,
    counted,
    counts,
    echo_json,
    say,
    step_summary,
)
from jnrrdz.cli.options import (
    FORM,
    IMAGES,
    ONE,
    OVERWRITE,
    STDOUT,
    Reach,
    ScanCommand,
    Shard,
    as_file,
    console_options,
    folder_made,
    index_options,
    json_option,
    planned_manifests,
    stac_options,
)
from jnrrdz.lazy import library
from jnrrdz.redact import hidden

if TYPE_CHECKING:
    from jnrrdz import api
    from jnrrdz.batches.item import Outcome
    from jnrrdz.batches.run import Batch
else:
    api = library("jnrrdz.api")

EPILOG = """\b
Examples:
  jnrrdz index scene.tif -o scene.json
  jnrrdz index *.tif -o manifests/ -f parquet
  jnrrdz index s3://bucket/scene.tif --no-sign-request -o - | gzip > scene.json.gz
"""


@click.command(cls=ScanCommand, epilog=EPILOG)
@click.argument("sources", nargs=-1, required=True, metavar="SRC...", type=click.Path())
@click.option("-o", "--output", metavar="OUT", type=click.Path(), help="Manifest, directory, or -.")
@index_options
@click.option("--in-place", is_flag=True, help="Write zarr.json beside an N5's attributes.json, no manifest.")
@click.option("--remove", is_flag=True, help="Remove what --in-place wrote.")
@json_option
@OVERWRITE
@console_options
@console_of
def index(console: Console, /, sources: Sequence[str], output: str | None, *, reach: Reach, **options: Any) -> None:
    """Write a manifest of each SRC: where its chunks are, and what they mean.

    SRC is an image: a path or a URL (https://, s3://, whatever fsspec opens); only its headers are read.
    A directory, or a URL that ends in .n5 or a slash, is an N5 container.
    With one SRC, OUT is the manifest, and "-" is stdout.  With several, or where OUT ends in a slash, OUT
    is a directory and gets one manifest for each, named like its source.  A manifest is there whole or
    not at all.
    """
    in_place, remove = options.pop("in_place"), options.pop("remove")
    sources = reach.sources(sources, IMAGES)
    _refuse_directory_options(sources, options)
    if in_place or remove:
        if output is not None or options["format"] is not None:
            raise click.UsageError("--in-place and --remove write no manifest; leave -o and -f out.")
        _index_in_place(console, sources, options, reach, remove=remove)
    elif output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    else:
        form = {name: options[name] for name in ("format", "relative")}
        places = dict(planned_manifests(sources, output, **form, as_json=console.as_json))
        with folder_made(sources, output, ONE):
            failed = console.each(places, lambda source: _index(console, source, places[source], options, reach))
        if failed and len(places) > 1:
            console.note(f"{failed} of {len(places)} sources failed")
        console.end(failed, len(places))


def _refuse_directory_options(sources: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse options of directories for what is a file: to leave them out of account would look like having obeyed."""
    for fmt in formats.FORMATS:
        flags = [f"--{name.replace('_', '-')}" for name in fmt.options if fmt.is_directory and options[name]]
        for source in sources:
            if flags and not formats.scanning.is_tree(source):
                raise click.UsageError(
                    f"{', '.join(flags)}: for {fmt.name} containers, which are directories; {source} is none."
                )


def _index_in_place(
    console: Console,
    sources: Sequence[str],
    options: Mapping[str, Any],
    reach: Reach,
    *,
    remove: bool,
) -> None:
    """Write the metadata into every source, or remove them."""
    of_scans = {name: value for name, value in options.items() if name not in FORM}

    def place(source: str) -> None:
        storage_options = reach.options(source)
        if remove:
            keys = api.remove_in_place(source, storage_options=storage_options)
        else:
            access: Any = {"allow": reach.allow, "storage_options": storage_options}
            keys = api.index_in_place(source, **access, **of_scans)
        if console.as_json:
            console.tell_json(source, {"written" if not remove else "removed": keys})
        console.note(f"{source}: {len(keys)} zarr.json {'removed' if remove else 'written'}")

    console.end_each(sources, place)


def _index(console: Console, source: str, place: str, options: Mapping[str, Any], reach: Reach) -> None:
    """Index one source, and tell of it."""
    with as_file(place) as out:
        storage_options, target_options = reach.options(source), reach.options(place)
        if not target_options and (options["format"] or manifests.manifest.format_of(out)) == "icechunk":
            # a repository names its sources' endpoint itself, wherever the repository is
            target_options = storage_options
        access: Any = {"allow": reach.allow, "storage_options": storage_options}
        made = api.index(source, out, target_options=target_options, **access, **options)
    if console.as_json:
        members = {name: value for name, value in asdict(made).items() if name != "source"}
        console.tell_json(made.source, members | {"output": hidden(place)})
    numbers = counts(array=made.arrays, chunk=made.chunks, request=made.requests, byte=made.bytes_read)
    console.note(f"{made.source} -> {place}: {numbers} read")


EMPTY = "empty"
"""The state of a source without an image."""

EVERY = 5.0
"""Seconds between two lines of progress."""

BATCH_EPILOG = """\b
Examples:
  jnrrdz batch 's3://bucket/2024/**/*.tif' -o 's3://out/{path}.json' -j 128 --resume
  jnrrdz batch --from-file list.txt -o 'refs/{stem}.json' --shard 1/4 --report report.jsonl
  jnrrdz batch scenes/ -o 'refs/{path}.json' --stac-out stac/ --time-from '_([0-9]{8})'
"""


@click.command(cls=ScanCommand, epilog=BATCH_EPILOG)
@click.argument("sources", nargs=-1, metavar="[SRC]...")
@click.option("-o", "--output", required=True, metavar="TEMPLATE", help="Output for each, with {stem}, {path}, ...")
@click.option("--from-file", "lists", multiple=True, metavar="FILE", help="Sources, one on a line; - is stdin.")
@click.option("--stac", multiple=True, metavar="URL", help="STAC JSON, or stac-geoparquet.")
@click.option("--asset", "assets", multiple=True, metavar="KEY|TYPE", help="Assets of STAC items: keys or media types.")
@click.option("--alternate", metavar="NAME", help="Alternate location of assets to read, such as s3.")
@click.option("--stac-out", metavar="OUT", help="Write STAC items and a collection: a folder, or OUT.ndjson.")
@click.option("--collection", default="", metavar="ID", help="Name of that collection; by default the one of OUT.")
@stac_options
@click.option("--include", multiple=True, metavar="PATTERN", help="Take only names or paths that fit.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave out names or paths that fit.")
@click.option("--concat-dim", metavar="DIM", help="Put all into one OUT along this axis, as merge does.")
@click.option("--coord-from", metavar="REGEX|metadata", help="As for merge; names are the sources' URLs.")
@click.option("--keep-order", is_flag=True, help="As for merge.")
@click.option("--skip-mismatched", is_flag=True, help="As for merge.")
@click.option("--since", metavar="TIME", help="Take only what was modified since then.")
@click.option("--shard", type=Shard(), help="Take the part I of N, by the hash of each URL.")
@click.option(
    "--max-names",
    type=click.IntRange(1),
    metavar="N",
    default=10_000_000,
    show_default=True,
    help="Names of listings, lists and STAC documents to look at.",
)
@click.option("-j", "--jobs", type=click.IntRange(1, 4096), default=64, show_default=True, help="Sources at once.")
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    help="Processes; by default one for each core, or one if sources are few.",
)
@click.option("--scheduler", metavar="URL|local", help="Work on this dask.distributed cluster.")
@click.option(
    "--retries",
    type=click.IntRange(0, 100),
    default=3,
    show_default=True,
    help="Tries after a failure that may pass, such as a busy server.",
)
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="For all tries of a source."
)
@click.option("--max-errors", type=click.IntRange(1), metavar="N", help="Stop when N sources failed.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first failure.")
@click.option("--resume", is_flag=True, help="Skip sources whose manifest is up to date.")
@click.option("--overwrite", is_flag=True, help="Replace manifests that exist.")
@click.option("--dry-run", is_flag=True, help="Show what would be written.")
@click.option("--report", type=click.Path(), metavar="FILE", help="Write what --json writes to a file; - is stdout.")
@json_option
@index_options
@console_options
@console_of
def batch(console: Console, /, sources: Sequence[str], output: str, *, reach: Reach, **options: Any) -> None:
    """Write a manifest of each of many sources.

    SRC is an image, a pattern, a prefix (with a slash at its end) or local directory, @FILE or - for a list,
    or a STAC document.  Exit code 3: some sources failed.
    """
    if options["report"] == STDOUT:
        console.as_json, options["report"] = True, None
    names = [each.name for each in fields(batches.selection.Selection) if each.name != "sources"]
    selected = {name: options.pop(name) for name in names}
    if not (sources or selected["lists"] or selected["stac"]):
        raise click.UsageError("Nothing to index: name a SRC, --from-file or --stac.")
    console.hush_icechunk()
    gc.set_threshold(*OFTEN)
    result = batches.run.batch(
        (),
        output,
        selection=batches.selection.Selection(sources, **selected),
        on_outcome=_teller(console, dry_run=options["dry_run"]),
        allow=reach.allow,
        storage_options=reach.options,
        target_options=reach.options,
        **options,
    )
    counts = f"{result.ok} ok, {result.skipped} skipped, {result.failed} failed"
    counts += f", {result.empty} without an image" if result.empty else ""
    console.note(f"{counts}, {counted(result.requests, 'request')}, {result.seconds:.1f} s")
    if result.items:
        console.note(f"{counted(result.items, 'STAC item')} -> {hidden(str(options['stac_out']))}")
    for reason in result.left_out:
        console.note(f"left out {reason}")
    if result.passed_over:
        console.note(_passed_over(result.passed_over))
    if result.stopped is not None:
        console.note(f"stopped: {result.stopped}")
    step_summary(f"jnrrdz batch: {counts}", ((each["source"], each["message"]) for each in result.failures))
    if result.failed:
        raise Exit(SOME_FAILED)


MOST_SHOWN = 8
"""Endings that a line can bear."""


def _passed_over(endings: Mapping[str, int]) -> str:
    """Return how many files a batch did not take because of their names."""
    shown = [f"{number:,} {ending}" for ending, number in islice(endings.items(), MOST_SHOWN)]
    more = ["..."] if len(endings) > MOST_SHOWN else []
    files = counted(sum(endings.values()), "file")
    return f"passed over {files} whose names are not those of images: {', '.join([*shown, *more])}"


def _teller(console: Console, *, dry_run: bool) -> Callable[["Outcome", "Batch"], None]:
    start = last = time.monotonic()

    def tell(outcome: "Outcome", so_far: "Batch") -> None:
        nonlocal last
        url = hidden(outcome.job.found.url)
        if console.as_json:
            echo_json(batches.run.redacted_record(outcome))
        elif dry_run:
            say(f"{url} -> {hidden(outcome.job.output)}")
        if outcome.message is not None:
            # an error says its place first, unless what failed is no place: a worker that died
            place = outcome.message.partition(": ")[0]
            named = "" if place.endswith(url.rpartition("/")[2]) else f"{url}: "
            is_empty = outcome.state == EMPTY
            console.note(f"{'nothing to index' if is_empty else 'failed'}: {named}{outcome.message}")
            if not is_empty and so_far.failed <= ANNOTATED:
                annotate(outcome.message, url)
        for warning in outcome.warnings:
            console.note(f"warning: {url}: {warning}")
        if time.monotonic() - last > EVERY:
            last = time.monotonic()
            console.note(_progress(so_far, last - start))

    return tell


def _progress(so_far: "Batch", seconds: float) -> str:
    """Return how much is done, how fast, and how long the rest will take where its number is known."""
    rate = so_far.total / seconds
    done = f"{so_far.total} of {so_far.listed}{'' if so_far.all_listed else '+'} done, {rate:.0f} a second"
    failed = f", {so_far.failed} failed" if so_far.failed else ""
    if not so_far.all_listed or not rate:
        return done + failed
    left = round((so_far.listed - so_far.total) / rate)
    return f"{done}{failed}, {left // 60}:{left % 60:02} left"
