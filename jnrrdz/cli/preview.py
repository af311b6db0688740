"""`jnrrdz preview`: a picture of what a source or manifest holds.

A module of its own, short as it is: each command stands in one, and imports what it needs when it is called.
"""

import sys
from typing import Any

import click

from jnrrdz.cli.console import Console, console_of
from jnrrdz.cli.options import Reach, access_options, console_options
from jnrrdz.errors import JnrrdzError

EPILOG = """\b
Examples:
  jnrrdz preview scene.tif -o scene.png
  jnrrdz preview s3://bucket/scene.json -o - --bands 4,3,2 --stretch 1,99 > infrared.png
  jnrrdz preview stack.ome.tif -o stack.png --at t=3,z=10
"""

USAGE = {"size", "bands", "stretch", "at"}
"""Fields whose values are the command line's own."""


class Bands(click.ParamType[tuple[int, ...]]):
    """Numbers of bands."""

    name = "N[,N,N]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the numbers."""
        parts = str(value).split(",")
        if not all(part.strip().isdecimal() for part in parts):
            self.fail(f"{value!r}; one band or three, such as 4,3,2, are needed", param, ctx)
        return tuple(map(int, parts))


class Indices(click.ParamType[dict[str, int]]):
    """Indices along named axes."""

    name = "AXIS=N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, int]:
        """Return the index of each axis."""
        pairs = [part.partition("=") for part in str(value).split(",")]
        if not all(name.strip() and number.strip().isdecimal() for name, _, number in pairs):
            self.fail(f"{value!r}; an index of each axis, such as t=0,z=12, is needed", param, ctx)
        return {name.strip(): int(number) for name, _, number in pairs}


@click.command(epilog=EPILOG, short_help="Draw a small picture of an image.")
@click.argument("src", metavar="SRC", type=click.Path())
@click.option("-o", "--output", required=True, metavar="OUT", type=click.Path(), help="The PNG to write; - for stdout.")
@click.option("--size", type=int, default=512, show_default=True, help="Pixels along the longer side.")
@click.option("--bands", type=Bands(), help="One band, or three for red, green and blue, counted from 1.")
@click.option("--group", metavar="PATH", help="Show this group, not the first image.")
@click.option("--stretch", metavar="LOW,HIGH", help="Per cent of the pixels, or min,max; 2,98 but for bytes.")
@click.option("--at", type=Indices(), help="Where along further axes; else the first, and the middle of z.")
@click.option("--overwrite", is_flag=True, help="Replace a picture that exists.")
@access_options()
@console_options
@console_of
def preview(console: Console, /, src: str, output: str, *, overwrite: bool, reach: Reach, **how: Any) -> None:
    """Draw a picture of SRC, an image or a manifest.

    It is read from the coarsest level that suffices, and shown in its own colours; what has no data is transparent.
    """
    from jnrrdz.commands import preview as pictures  # noqa: PLC0415  see the package
    from jnrrdz.manifests.atomic import new_file  # noqa: PLC0415  the same

    try:
        with console.warnings_told(src):
            picture = pictures.preview(
                src, pictures.PreviewOptions(**how | {"at": how["at"] or {}}), access=reach.access(src)
            )
    except JnrrdzError as error:
        if error.field in USAGE:
            raise click.UsageError(f"--{error.field}: {error.message}") from error
        raise
    if output == "-":
        sys.stdout.buffer.write(picture.png)
        return
    replaces = pictures.is_picture if overwrite else None
    with new_file(output, replaces=replaces, storage_options=reach.options(output)) as file:
        file.write(picture.png)
    height, width, _ = picture.rgba.shape
    console.note(f"{output}: {width} x {height} pixels")
