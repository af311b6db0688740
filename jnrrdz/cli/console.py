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
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from jnrrdz.errors import JnrrdzError
from jnrrdz.lazy import library
from jnrrdz.redact import hidden, printable, redacted

if TYPE_CHECKING:
    import html

    from jnrrdz.formats.tiff import schemes, tags
else:
    # its table of names takes as long as a small scan
    html = library("html")
    # names of numbers, which bring numpy
    schemes, tags = library("jnrrdz.formats.tiff.schemes"), library("jnrrdz.formats.tiff.tags")

FAILURE = 1
USAGE = 2
SOME_FAILED = 3
NOT_VERIFIED = 4
INTERRUPTED = 130


def say(text: str, *, err: bool = False, label: str = "") -> None:
    """Print one line: nothing of it drives a terminal or shows a secret.  All that is no JSON is printed here."""
    shown = printable(text)
    if in_github():  # its runner reads commands in what a step prints
        shown = f"\\{shown}" if shown.lstrip().startswith("::") else shown.replace("##[", "#\\#[")
    click.echo(f"{label} {shown}" if label else shown, err=err)


def in_github() -> bool:
    """Whether this runs as a step of GitHub Actions.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
    """
    return os.environ.get("GITHUB_ACTIONS") == "true"


ANNOTATED = 10
"""Failures or findings that are shown beside a workflow's run: no more of a step are."""


def annotate(text: str, source: str = "") -> None:
    """Show an error next to the run of a workflow, where there is one.

    A file can be one of the repository; a URL is none, and stands in the text as it is.
    """
    if not in_github():
        return
    shown, place = printable(hidden(source)), ""
    if "://" in source:
        text = text if shown in text else f"{shown}: {text}"
    elif source:
        place = f"file={shown.replace('%', '%25').replace(':', '%3A').replace(',', '%2C')},"
    data = printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    click.echo(f"::error {place}title=jnrrdz::{data}", err=True)


MOST_ROWS = 100
"""Rows of a summary, which may have a megabyte."""


def step_summary(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Append a table of what failed to the summary of a workflow's job, where there is one; all of it escaped."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path or not in_github():
        return
    shown = [[html.escape(printable(cell))[:LONGEST_CELL] for cell in row] for row in islice(rows, MOST_ROWS)]
    body = "".join(f"<tr><td>{source}</td><td>{what}</td></tr>" for source, what in shown)
    table_of = f"<table><tr><th>source</th><th>what</th></tr>{body}</table>\n" if shown else ""
    with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123  the path is the runner's
        file.write(f"<p>{html.escape(printable(title))}</p>\n{table_of}\n")


LONGEST_CELL = 2000


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


def is_usage(error: Exception) -> bool:
    """Whether an error is about what an option says, and not about a source."""
    return isinstance(error, JnrrdzError) and (error.field or "").startswith("--")


def _text_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:  # with the file first, as ours have it
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


class _PrintableLog(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


@dataclass
class Console:
    """How much a run says, as `-q` and `-v` ask."""

    quiet: bool = False
    verbose: bool = False
    as_json: bool = False
    """Whether results are lines of JSON: one for each source, with `source` and `state`."""
    failures: list[tuple[str, str]] = field(default_factory=list)
    """Sources that failed, and why."""

    def note(self, text: str) -> None:
        """Say what was done, unless `-q`."""
        if not self.quiet:
            say(text, err=True)

    def error(self, error: Exception, source: str = "") -> None:
        """Say what went wrong; with `-v` after the traceback."""
        if self.verbose:
            say_traceback(error)
        text = _text_of(error)
        say(text, err=True, label=click.style("error:", fg="red", bold=True))
        annotate(text, source)

    def tell_json(self, source: str, members: Mapping[str, Any], state: str = "ok") -> None:
        """Write the line of JSON about a source, or about the one output of several."""
        echo_json({"source": hidden(source), "state": state, **members})

    def fail_json(self, source: str, error: Exception) -> None:
        """Write the line of a source that failed, where JSON is asked for."""
        if self.as_json:
            message = redacted(error.message if isinstance(error, JnrrdzError) else str(error))
            self.tell_json(source, {"error": type(error).__name__, "message": message}, "failed")

    def each(self, names: Iterable[str], work: Callable[[str], None]) -> int:
        """Do some work for each name, its warnings told, and return how many failed: none stops the others."""
        self.failures.clear()
        for name in names:
            try:
                with self.warnings_told(name):
                    work(name)
            except BrokenPipeError:  # whoever read the output has left
                raise
            except (JnrrdzError, OSError) as error:
                if is_usage(error):  # the same for every source
                    raise
                self.error(error, name)
                self.fail_json(name, error)
                self.failures.append((hidden(name), _text_of(error)))
        return len(self.failures)

    def end_each(self, names: Sequence[str], work: Callable[[str], None]) -> None:
        """Do the same, and end the program with its code if any failed."""
        self.end(self.each(names, work), len(names))

    def end(self, failed: int, of: int) -> None:
        """End the program with its code if any of some sources failed."""
        if failed:
            raise Exit(SOME_FAILED if of > 1 else FAILURE)

    def hush_icechunk(self) -> None:
        """Keep Icechunk's own lines back, which are in colour and concern its developers, unless `-v`."""
        if not self.verbose:
            os.environ.setdefault("ICECHUNK_LOG", "error")

    @contextmanager
    def warnings_told(self, source: str) -> Iterator[None]:
        """Turn the Python warnings of some work on a source to lines, each text once; `-q` drops them."""
        self.hush_icechunk()
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


def echo_json(value: Any, indent: int | None = None) -> None:
    """Write JSON to stdout, in ASCII that no terminal obeys: one line, or indented ones."""
    click.echo(json.dumps(value, indent=indent).replace("\x7f", "\\u007f"))


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
    name = str(entry["name"])
    configuration = entry.get("configuration") or {}
    if name.rpartition("/")[2] == "tiff-tile":
        compression, predictor = configuration.get("compression", 1), configuration.get("predictor", 1)
        words = [tags.name_of(schemes.Compression, compression) if isinstance(compression, int) else str(compression)]
        if isinstance(predictor, int) and predictor in tags.Predictor and predictor != tags.Predictor.NONE:
            words.append(f"predictor {tags.Predictor(predictor).name}")
        return f"{name} ({', '.join(words)})"
    # levels of JPEG 2000 differ by their number alone, which stands in their path
    settings = ((key, value) for key, value in configuration.items() if key != "resolution_level")
    plain = {key: value for key, value in settings if isinstance(value, str | int | float)}
    shown = ", ".join(f"{key} {value}" for key, value in plain.items() if len(str(value)) <= _LONGEST)
    return f"{name} ({shown})" if shown else name
