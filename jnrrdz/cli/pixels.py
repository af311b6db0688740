"""The commands that read pixels: `jnrrdz preview`, a picture, and `jnrrdz tile`, a tiled, multi-resolution JNRRD."""

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from jnrrdz import commands, manifests
from jnrrdz.cli.console import Console, console_of, counts
from jnrrdz.cli.options import BOTH, STDOUT, Reach, access_options, console_options, folder_made, json_option, planned
from jnrrdz.errors import JnrrdzError
from jnrrdz.redact import hidden

EPILOG = """\b
Examples:
  jnrrdz preview scene.tif -o scene.png
  jnrrdz preview s3://bucket/scene.json -o - --bands 4,3,2 --stretch 1,99 > infrared.png
  jnrrdz preview stack.ome.tif -o stack.png --at t=3,z=10
"""

PNG = (".png",)


class Numbers(click.ParamType[tuple[int, ...]]):
    """Whole numbers with commas between them."""

    def __init__(self, name: str, least: int, needed: str) -> None:
        self.name, self.least, self.needed = name, least, needed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the numbers."""
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isascii() and part.isdecimal() and int(part) >= self.least for part in parts):
            self.fail(f"{value!r}; {self.needed}, are needed", param, ctx)
        return tuple(map(int, parts))


BANDS = Numbers("N[,N,N]", 0, "one band or three, such as 4,3,2")
SIZES = Numbers("X,Y,...", 1, "whole numbers from 1 on, such as 256,256,64")


@contextmanager
def usage_of(fields: Collection[str]) -> Iterator[None]:
    """Turn errors about some fields into wrong usage: their values are the command line's own."""
    try:
        yield
    except JnrrdzError as error:
        if error.field in fields:
            raise click.UsageError(f"--{error.field}: {error.message}") from error
        raise


class Indices(click.ParamType[dict[str, int]]):
    """Indices along named axes."""

    name = "AXIS=N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, int]:
        """Return the index of each axis."""
        pairs = [part.partition("=") for part in str(value).split(",")]
        if not all(name.strip() and number.strip().isdecimal() for name, _, number in pairs):
            self.fail(f"{value!r}; an index of each axis, such as t=0,z=12, is needed", param, ctx)
        return {name.strip(): int(number) for name, _, number in pairs}


@click.command(epilog=EPILOG)
@click.argument("sources", nargs=-1, required=True, metavar="SRC...", type=click.Path())
@click.option("-o", "--output", required=True, metavar="OUT", type=click.Path(), help="PNG, directory, or -.")
@click.option("--size", type=int, default=512, show_default=True, help="Pixels along the longer side.")
@click.option("--bands", type=BANDS, help="One band, or three for red, green and blue, counted from 1.")
@click.option("--group", metavar="PATH", help="Show this group, not the first image.")
@click.option(
    "--stretch", metavar="LOW,HIGH", help="Per cent of the pixels, or min,max; by default 2,98, and none for bytes."
)
@click.option("--at", type=Indices(), help="Where along further axes; else the first, and the middle of z.")
@click.option("--overwrite", is_flag=True, help="Replace a picture that exists.")
@json_option
@access_options()
@console_options
@console_of
def preview(
    console: Console,
    /,
    sources: Sequence[str],
    output: str,
    *,
    overwrite: bool,
    reach: Reach,
    **how: Any,
) -> None:
    """Draw a picture of each SRC, an image or a manifest; with several, OUT is a directory.

    The picture is read from the coarsest level that suffices, and shown in its own colours.  What has no data is
    transparent.
    """
    sources = reach.sources(sources, BOTH)
    if output == STDOUT and console.as_json:
        raise click.UsageError("--json and -o - would both write to stdout; name a file for OUT.")
    if output == STDOUT and len(sources) > 1:
        raise click.UsageError("Several sources need a directory for OUT; stdout takes one picture.")
    places = {sources[0]: STDOUT} if output == STDOUT else dict(planned(sources, output, PNG[0], PNG))
    if not all(place == STDOUT or place.lower().endswith(PNG) for place in places.values()):
        raise click.UsageError(f"{output}: a picture is a PNG; let OUT end in .png, or in a slash.")
    replaces = commands.preview.is_picture if overwrite else None

    def draw(source: str) -> None:
        place = places[source]
        with usage_of(("size", "bands", "stretch", "at")):
            picture = commands.preview.preview(source, **how, **reach.keywords(source))
        if place == STDOUT:
            sys.stdout.buffer.write(picture.png)
            return
        with manifests.atomic.new_file(place, replaces=replaces, storage_options=reach.options(place)) as file:
            file.write(picture.png)
        height, width, _ = picture.rgba.shape
        if console.as_json:
            console.tell_json(source, {"output": hidden(place), "width": width, "height": height})
        console.note(f"{place}: {width} x {height} pixels")

    with folder_made(sources, output, PNG):
        console.end_each(list(places), draw)


COMPRESSIONS = ["raw", "gzip", "bzip2", "zstd", "lz4"]
METHODS = ["average", "gaussian", "lanczos", "max", "min", "mode"]
TILE_EPILOG = """\b
Examples:
  jnrrdz tile volume.npy -o volume.jnrrd --tile 256,256,64 --compression zstd --levels 4
  jnrrdz tile scene.tif -o scene.jnrrd --tile 512,512,1 --levels 5 --method average
"""


@click.command(epilog=TILE_EPILOG)
@click.argument("src", metavar="SRC", type=click.Path())
@click.option("-o", "--output", required=True, metavar="OUT", type=click.Path(), help="The JNRRD to write.")
@click.option("--tile", "tile_sizes", required=True, type=SIZES, help="Size of tiles, x (the fastest axis) first.")
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    default="zstd",
    show_default=True,
    help="How each tile is compressed.",
)
@click.option("--levels", type=click.IntRange(1), default=1, show_default=True, help="Levels, the full one included.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    help="How levels are made; by default mode for labels and palettes, average for all others.",
)
@click.option(
    "--factors",
    type=SIZES,
    help="How much coarser each level is, in the order of --tile; by default 2 along axes of space.",
)
@click.option("--endian", type=click.Choice(["little", "big"]), default="little", show_default=True, help="Byte order.")
@click.option("--external", is_flag=True, help="Write each tile to a file of its own, in a folder beside OUT.")
@click.option("--group", metavar="PATH", help="Tile this group or array, not the full-resolution image.")
@click.option("-j", "--jobs", type=click.IntRange(1, 256), default=2, show_default=True, help="Tiles packed at once.")
@click.option("--overwrite", is_flag=True, help="Replace an output that exists.")
@json_option
@access_options()
@console_options
@console_of
def tile(
    console: Console,
    /,
    src: str,
    output: str,
    *,
    tile_sizes: Sequence[int],
    reach: Reach,
    **options: Any,
) -> None:
    """Write the image of SRC as a tiled JNRRD.

    SRC is a manifest, an image that jnrrdz opens, or a .npy file.  Each level is made from the one before.
    """
    if not output.lower().endswith(".jnrrd"):
        raise click.UsageError(f"{output}: a JNRRD is written; let OUT end in .jnrrd.")
    src = reach.source(src)
    options |= {**reach.keywords(src), "target_options": reach.options(output)}
    with usage_of(("tile", "factors", "levels")), console.warnings_told(src), _progress(console) as progress:
        made = commands.tile.tile(src, output, tile=tile_sizes, progress=progress, **options)
    if console.as_json:
        told = {"output": hidden(output), "sizes": list(made.sizes), "levels": made.levels}
        console.tell_json(src, told | {"tiles": made.tiles, "nbytes": made.nbytes})
    numbers = counts(level=made.levels, tile=made.tiles)
    console.note(f"{output}: {'x'.join(map(str, made.sizes))}, {numbers}, {made.nbytes} bytes of tiles")


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[int, int], None] | None]:
    """Yield what shows how many tiles are done, None where nobody looks."""
    if console.quiet or not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=1, label="tiles", file=sys.stderr, show_pos=True) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show
