"""What the commands say: notes, warnings and errors on stderr, one line each; tables and JSON for stdout.

What is printed may come from an untrusted manifest or from a file's name: control characters and those that turn
the direction of text are escaped, so that none of it can drive a terminal.
"""

import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
from click.exceptions import Exit

from jnrrdz.errors import JnrrdzError
from jnrrdz.redact import hidden, printable

FAILURE = 1
SOME_FAILED = 3
NOT_VERIFIED = 4
INTERRUPTED = 130


def say(text: str, *, err: bool = False, label: str = "") -> None:
    """Print one line: nothing of it drives a terminal or shows a secret.  All that is no JSON is printed here."""
    click.echo(f"{label} {printable(text)}" if label else printable(text), err=err)


def say_traceback(error: BaseException) -> None:
    """Print the traceback of an error, and of those that led to it."""
    for line in "".join(traceback.format_exception(error)).splitlines():
        say(line, err=True)


def guard_terminal() -> None:
    """Let what Python itself prints (unforeseen errors, warnings, libraries' logs) be printable too."""
    usual = warnings.formatwarning
    sys.excepthook = lambda _kind, error, _trace: say_traceback(error)
    warnings.formatwarning = lambda *args, **kwargs: f"{printable(usual(*args, **kwargs).rstrip())}\n"
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_PrintableLog())


class _PrintableLog(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


@dataclass
class Console:
    """How much a run says, as `-q` and `-v` ask."""

    quiet: bool = False
    verbose: bool = False

    def note(self, text: str) -> None:
        """Say what was done, unless `-q`."""
        if not self.quiet:
            say(text, err=True)

    def error(self, error: Exception) -> None:
        """Say what went wrong; with `-v` after the traceback."""
        if self.verbose:
            say_traceback(error)
        text = str(error) or type(error).__name__
        if isinstance(error, OSError) and error.strerror:  # with the file first, as ours have it
            text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        say(text, err=True, label=click.style("error:", fg="red", bold=True))

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

    def end_each(self, names: Sequence[str], work: Callable[[str], None]) -> None:
        """Do the same, and end the program with its code if any failed."""
        if self.each(names, work):
            raise Exit(SOME_FAILED if len(names) > 1 else FAILURE)

    def hush_icechunk(self, form: str | None) -> None:
        """Keep Icechunk's own lines back, which are in colour and concern its developers, unless `-v`."""
        if form == "icechunk" and not self.verbose:
            os.environ.setdefault("ICECHUNK_LOG", "error")

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
            say(f"{hidden(source)}: {message}{place}", err=True, label=label)

        tifffile_log = logging.getLogger("tifffile")  # what matters of its lines is an error or a warning of ours
        tifffile_log.disabled = not self.verbose
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = tell
            try:
                yield
            finally:
                tifffile_log.disabled = False


console_of = click.make_pass_decorator(Console, ensure=True)


_UNITS = ("kB", "MB", "GB", "TB", "PB", "EB")
_STEP = 1000
_LONGEST = 40  # characters of a codec's setting that a line can bear


def counted(number: int, noun: str) -> str:
    """Return `1 chunk`, `2,000 chunks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def counts(**numbers: int) -> str:
    """Return `1 array, 2,000 chunks` for `array=1, chunk=2000`."""
    return ", ".join(counted(number, noun) for noun, number in numbers.items())


def echo_json(value: Any) -> None:
    """Write one JSON document to stdout, in ASCII that no terminal obeys."""
    click.echo(json.dumps(value, indent=2).replace("\x7f", "\\u007f"))


def size(nbytes: int | None) -> str:
    """Return a number of bytes in three digits or so."""
    if nbytes is None:
        return "unknown"
    if nbytes < _STEP:
        return f"{nbytes} B"
    value, units = float(nbytes), iter(_UNITS)
    unit = ""
    # 999.95 would be rounded to 1000.0 of the smaller unit
    while value >= _STEP - 0.05 and (larger := next(units, None)):
        value, unit = value / _STEP, larger
    return f"{value:,.1f} {unit}"


def sides(shape: Sequence[int]) -> str:
    """Return `1000 x 1200`."""
    return " x ".join(map(str, shape)) or "scalar"


def table(rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """Return lines with the columns aligned, those in `right` at their right edges."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = set(right)
    return [
        "  ".join(
            cell.rjust(width) if column in numeric else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def codec(entry: Mapping[str, Any]) -> str:
    """Return a codec with what matters of its configuration."""
    from jnrrdz.formats.tiff.tags import Compression, Predictor, name_of  # noqa: PLC0415  it brings numpy

    name = str(entry["name"])
    configuration = entry.get("configuration") or {}
    if name.rpartition("/")[2] == "tiff-tile":
        compression, predictor = configuration.get("compression", 1), configuration.get("predictor", 1)
        words = [name_of(Compression, compression) if isinstance(compression, int) else str(compression)]
        if isinstance(predictor, int) and predictor in Predictor and predictor != Predictor.NONE:
            words.append(f"predictor {Predictor(predictor).name}")
        return f"{name} ({', '.join(words)})"
    # levels of JPEG 2000 differ by their number alone, which stands in their path
    settings = ((key, value) for key, value in configuration.items() if key != "resolution_level")
    plain = {key: value for key, value in settings if isinstance(value, str | int | float)}
    shown = ", ".join(f"{key} {value}" for key, value in plain.items() if len(str(value)) <= _LONGEST)
    return f"{name} ({shown})" if shown else name
