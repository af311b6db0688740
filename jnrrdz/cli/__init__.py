"""The command line: parse, call, print.

The library is imported inside each command, so that help and completion are there at once.  Results go to stdout,
everything else to stderr; exit codes: 0 fine, 1 failure, 2 usage, 3 some files of several failed, 4 verification
failed, 130 interrupted.  Spec: docs/cli.md
"""

import os
import signal
import sys
from typing import Any

import click

from jnrrdz.cli.batch import batch
from jnrrdz.cli.codecs import codecs
from jnrrdz.cli.console import FAILURE, INTERRUPTED, USAGE, Console, guard_terminal, is_usage, say
from jnrrdz.cli.cube import cube
from jnrrdz.cli.index import index
from jnrrdz.cli.info import info, ls
from jnrrdz.cli.manifests import convert, merge, refresh, verify
from jnrrdz.cli.options import console_options
from jnrrdz.cli.preview import preview
from jnrrdz.cli.serve import serve
from jnrrdz.cli.tile import tile
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


class Program(click.Group):
    """A group whose commands end with one line and a code where they fail."""

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


for command in (index, batch, merge, cube, info, ls, verify, refresh, convert, tile, preview, serve, codecs):
    cli.add_command(command)


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


def main() -> None:
    """Run the command line."""
    guard_terminal()
    end_in_order()
    cli(prog_name="jnrrdz")
