"""What the commands say on stderr: notes, warnings and errors, one line each.

May touch click, errors and Python's warnings.  Results go to stdout and are no business of this module.
What is printed may come from an untrusted manifest or from a file's name: control characters are
escaped, so that none of it can drive a terminal.
"""

import logging
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from jnrrdz.errors import JnrrdzError
from jnrrdz.redact import redacted

FAILURE = 1
SOME_FAILED = 3
NOT_VERIFIED = 4
INTERRUPTED = 130


def printable(text: str) -> str:
    """Return the text on one line, what is not printable escaped and credentials in URLs hidden."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in redacted(text)
    )


@dataclass
class Console:
    """How much a run says, as `-q` and `-v` ask."""

    quiet: bool = False
    verbose: bool = False

    def note(self, text: str) -> None:
        """Say what was done, unless `-q`."""
        if not self.quiet:
            click.echo(printable(text), err=True)

    def error(self, error: Exception) -> None:
        """Say what went wrong; with `-v` after the traceback."""
        if self.verbose:
            click.echo(redacted("".join(traceback.format_exception(error))), err=True, nl=False)
        click.echo(f"{click.style('error:', fg='red', bold=True)} {printable(_told(error))}", err=True)

    def each(self, names: Iterable[str], work: Callable[[str], None]) -> int:
        """Do some work for each name, its warnings told, and return how many failed: none stops the others."""
        failed = 0
        for name in names:
            try:
                with self.warnings_told(name):
                    work(name)
            except (JnrrdzError, OSError) as error:
                self.error(error)
                failed += 1
        return failed

    @contextmanager
    def warnings_told(self, source: str) -> Iterator[None]:
        """Turn the Python warnings of some work on a source to lines, each text once; `-q` drops them."""
        told: set[str] = set()

        def tell(
            message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
        ) -> None:
            if self.quiet or str(message) in told:
                return
            told.add(str(message))
            place = f" ({category.__name__}, {filename}:{lineno})" if self.verbose else ""
            label = click.style("warning:", fg="yellow", bold=True)
            click.echo(f"{label} {printable(f'{source}: {message}{place}')}", err=True)

        tifffile_log = logging.getLogger("tifffile")  # what matters of its lines is an error or a warning of ours
        tifffile_log.disabled = not self.verbose
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = tell
            try:
                yield
            finally:
                tifffile_log.disabled = False


def _told(error: Exception) -> str:
    """Return an error's text; that of the operating system with the file first, as ours have it."""
    if isinstance(error, OSError) and not isinstance(error, JnrrdzError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


console_of = click.make_pass_decorator(Console, ensure=True)
