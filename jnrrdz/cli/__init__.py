"""The command line: parse, call, print.

A command is imported when it is called, and the library inside of it, so that help and completion are there at once.
Results go to stdout, everything else to stderr; exit codes: 0 fine, 1 failure, 2 usage, 3 some files of several failed,
4 verification failed, 130 interrupted.  Spec: docs/cli.md
"""

import gc
import os
import signal
import sys
from importlib import import_module
from typing import Any

import click

from jnrrdz.cli.console import FAILURE, INTERRUPTED, USAGE, Console, guard_terminal, is_usage, say
from jnrrdz.cli.options import console_options
from jnrrdz.errors import JnrrdzError
from jnrrdz.redact import printable

EPILOG = """\b
Example:
  jnrrdz index scene.tif -o scene.json
  python -c 'import xarray; print(xarray.open_dataset("scene.json"))'

\b
Each command shows more with -h.  Tab completion in bash:
  eval "$(_JNRRDZ_COMPLETE=bash_source jnrrdz)"
"""


SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def _drop_unwritten() -> None:
    """Forget what a full disk did not take: Python would fail on it again at its end, with code 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


COMMANDS = {
    "batch": ("index", "Write manifests of many images: patterns, lists, STAC."),
    "codecs": ("codecs", "Show what can be decoded here, or whether a manifest can."),
    "convert": ("manifests", "Write manifests in another form, or for moved sources."),
    "cube": ("manifests", "Put files of many dates, bands and places together as time, band, y, x."),
    "index": ("index", "Write the manifest of an image, or of several."),
    "info": ("info", "Show what an image or a manifest holds."),
    "ls": ("info", "List groups and arrays."),
    "merge": ("manifests", "Put manifests of one grid together along an axis."),
    "preview": ("pixels", "Draw a small picture of an image."),
    "refresh": ("manifests", "Scan again what changed, and write manifests anew."),
    "serve": ("serve", "Serve plain Zarr over HTTP."),
    "tile": ("pixels", "Write a tiled, multi-resolution JNRRD."),
    "verify": ("manifests", "Check manifests against their sources."),
}
"""The module of every command, and its line in the list of them."""


class Program(click.Group):
    """A group whose commands end with one line and a code where they fail; each is imported when it is asked for."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        """Return a command, None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, short_help = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"jnrrdz.cli.{module}"), cmd_name)
        command.short_help = short_help
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  the same
        """Write the list of commands, of which none is imported."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, short_help) for name, (_, short_help) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what is no mistake of the program's is told in one line."""
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        try:
            return super().invoke(ctx)
        except click.ClickException as error:  # it may name files whose names are others' choice
            vars(error)["message"] = printable(error.message)
            raise
        except BrokenPipeError:  # click ends quietly: whoever read the output has seen enough
            raise
        except click.exceptions.Exit:
            _drop_unwritten()
            raise
        except (JnrrdzError, OSError) as error:
            ctx.ensure_object(Console).error(error)
            _drop_unwritten()
            ctx.exit(USAGE if is_usage(error) else FAILURE)
        except KeyboardInterrupt:
            say("interrupted", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=Program, epilog=EPILOG, context_settings=SETTINGS)
@click.version_option(package_name="jnrrdz", prog_name="jnrrdz", message="%(prog)s %(version)s")
@console_options
def cli() -> None:
    """Make archival imagery readable as Zarr, without copying a byte of it.

    A manifest says where the chunks of an image file are; xarray, zarr and dask read them from there.
    """


for name, (_, short_help) in COMMANDS.items():
    cli.add_command(click.Command(name, short_help=short_help))  # what stands for it until it is imported


PATIENCE = 3
"""Signals after which a run ends without cleaning up."""


def end_in_order() -> None:
    """Let the first request to end unwind, so that nothing half-written stays; further ones must not disturb that."""
    received = 0

    def end(number: int, _: object) -> None:
        nonlocal received
        received += 1
        if received >= PATIENCE:
            os._exit(128 + number)
        if received == 1 and number == signal.SIGINT:
            raise KeyboardInterrupt
        if received == 1:
            sys.exit(128 + number)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        # what the caller has ignored stays so: nohup, a job in a shell's background
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


ALLOCATIONS = 100_000
"""Objects after which garbage is looked for: importing makes as many, and no garbage."""

OFTEN = gc.get_threshold()
"""How often Python looks for garbage: requests make some, 50 MB among 100,000 objects."""


def main() -> None:
    """Run the command line."""
    gc.set_threshold(ALLOCATIONS)
    guard_terminal()
    end_in_order()
    try:
        cli(prog_name="jnrrdz")
    finally:
        gc.freeze()  # what is left, a tenth of a second would be spent on looking through before the process ends
