"""`jnrrdz tile`: a tiled, multi-resolution JNRRD of anything that jnrrdz opens."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from jnrrdz.cli.console import Console, console_of, counts
from jnrrdz.cli.options import Reach, access_options, console_options, json_option
from jnrrdz.errors import JnrrdzError
from jnrrdz.redact import hidden

COMPRESSIONS = ["raw", "gzip", "bzip2", "zstd", "lz4"]
METHODS = ["average", "gaussian", "lanczos", "max", "min", "mode"]
USAGE = {"tile", "factors", "levels"}
"""Fields whose numbers are the command line's own."""

EPILOG = """\b
Examples:
  jnrrdz tile volume.npy -o volume.jnrrd --tile 256,256,64 --compression zstd --levels 4
  jnrrdz tile scene.tif -o scene.jnrrd --tile 512,512,1 --levels 5 --method average
"""


class Numbers(click.ParamType[tuple[int, ...]]):
    """Whole numbers from 1 on, with commas between them."""

    name = "X,Y,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the numbers."""
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isascii() and part.isdecimal() and int(part) for part in parts):
            self.fail(f"{value!r}; whole numbers from 1 on, such as 256,256,64, are needed", param, ctx)
        return tuple(map(int, parts))


@click.command(epilog=EPILOG)
@click.argument("src", metavar="SRC", type=click.Path())
@click.option("-o", "--output", required=True, metavar="OUT", type=click.Path(), help="The JNRRD to write.")
@click.option("--tile", "tile_sizes", required=True, type=Numbers(), help="Size of tiles, x (the fastest axis) first.")
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    default="zstd",
    show_default=True,
    help="How each tile is compressed.",
)
@click.option("--levels", type=click.IntRange(1), default=1, show_default=True, help="Levels, the full one included.")
@click.option("--method", type=click.Choice(METHODS), default="average", show_default=True, help="How levels are made.")
@click.option(
    "--factors",
    type=Numbers(),
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
    from jnrrdz.commands.tile import tile as run  # noqa: PLC0415  see the package

    if not output.lower().endswith(".jnrrd"):
        raise click.UsageError(f"{output}: a JNRRD is written; let OUT end in .jnrrd.")
    src = reach.source(src)
    try:
        with console.warnings_told(src), _progress(console) as progress:
            made = run(
                src,
                output,
                tile=tile_sizes,
                target_options=reach.options(output),
                progress=progress,
                **vars(reach.access(src)),
                **options,
            )
    except JnrrdzError as error:
        if error.field in USAGE:
            raise click.UsageError(f"--{error.field}: {error.message}") from error
        raise
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
