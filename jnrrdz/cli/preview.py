"""`jnrrdz preview`: a picture of what a source or manifest holds.

A module of its own, short as it is: each command stands in one, and imports what it needs when it is called.
"""

import sys
from collections.abc import Sequence
from typing import Any

import click

from jnrrdz.cli.console import Console, console_of
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


@click.command(epilog=EPILOG)
@click.argument("sources", nargs=-1, required=True, metavar="SRC...", type=click.Path())
@click.option("-o", "--output", required=True, metavar="OUT", type=click.Path(), help="PNG, directory, or -.")
@click.option("--size", type=int, default=512, show_default=True, help="Pixels along the longer side.")
@click.option("--bands", type=Bands(), help="One band, or three for red, green and blue, counted from 1.")
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
    from jnrrdz.commands import preview as pictures  # noqa: PLC0415  see the package
    from jnrrdz.manifests.atomic import new_file  # noqa: PLC0415  the same

    sources = reach.sources(sources, BOTH)
    if output == STDOUT and console.as_json:
        raise click.UsageError("--json and -o - would both write to stdout; name a file for OUT.")
    if output == STDOUT and len(sources) > 1:
        raise click.UsageError("Several sources need a directory for OUT; stdout takes one picture.")
    places = {sources[0]: STDOUT} if output == STDOUT else dict(planned(sources, output, PNG[0], PNG))
    if not all(place == STDOUT or place.lower().endswith(PNG) for place in places.values()):
        raise click.UsageError(f"{output}: a picture is a PNG; let OUT end in .png, or in a slash.")
    replaces = pictures.is_picture if overwrite else None

    def draw(source: str) -> None:
        place = places[source]
        try:
            wanted = pictures.PreviewOptions(**{**how, "at": how["at"] or {}})
            picture = pictures.preview(source, wanted, access=reach.access(source))
        except JnrrdzError as error:
            if error.field in USAGE:
                raise click.UsageError(f"--{error.field}: {error.message}") from error
            raise
        if place == STDOUT:
            sys.stdout.buffer.write(picture.png)
            return
        with new_file(place, replaces=replaces, storage_options=reach.options(place)) as file:
            file.write(picture.png)
        height, width, _ = picture.rgba.shape
        if console.as_json:
            console.tell_json(source, {"output": hidden(place), "width": width, "height": height})
        console.note(f"{place}: {width} x {height} pixels")

    with folder_made(sources, output, PNG):
        console.end_each(list(places), draw)
