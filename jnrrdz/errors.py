"""What can go wrong, as exceptions that say where and never show a credential.

Every error that jnrrdz raises on purpose is a `JnrrdzError`; its text is one line that names the source, the field
and the byte offset as far as they are known.
"""

import warnings
from typing import Self


class JnrrdzError(Exception):
    """Anything that jnrrdz refuses or finds broken, with its place."""

    def __init__(
        self, message: str, *, url: str | None = None, offset: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.url = url
        self.offset = offset
        self.field = field

    def __str__(self) -> str:
        """`url: field: message (at byte offset)`, on one line, without what is not known and without credentials."""
        from jnrrdz.redact import hidden, printable  # noqa: PLC0415  few imports need the text of an error

        parts = [part for part in (self.url and hidden(self.url), self.field, self.message) if part]
        text = printable(": ".join(parts).replace("\n", " "))
        return text if self.offset is None else f"{text} (at byte {self.offset})"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the place, so that a worker's error arrives whole."""
        state = {"url": self.url, "offset": self.offset, "field": self.field}
        return type(self), (self.message,), state

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows: the lines of the user's own code, and the error.

        IPython asks for it (https://ipython.readthedocs.io/en/stable/config/integrating.html).  Between a cell and a
        chunk that fails lie a hundred frames of xarray, zarr and asyncio.
        """
        import sysconfig  # noqa: PLC0415  few errors are shown in a notebook
        import traceback  # noqa: PLC0415  notebooks alone cut a traceback
        from pathlib import Path  # noqa: PLC0415  the package imports none otherwise

        kept = [sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
        libraries = (str(Path(__file__).parent), *kept)
        frames = traceback.extract_tb(self.__traceback__)
        mine = [frame for frame in frames if not frame.filename.startswith(libraries)]
        own = [frame for frame in mine if not {"site-packages", "IPython"} & {*Path(frame.filename).parts}]
        lines = "".join(traceback.format_list(own)).splitlines()
        left_out = len(frames) - len(own)
        more = f"({left_out} frames of libraries are left out; traceback.print_exception(sys.last_value) shows them)"
        return ["Traceback (most recent call last):", *lines, more, f"{type(self).__name__}: {self}"]

    def at(self, *, url: str | None = None, offset: int | None = None, field: str | None = None) -> Self:
        """Return this error, with the places filled in that it did not know yet."""
        self.url = self.url if self.url is not None else url
        self.offset = self.offset if self.offset is not None else offset
        self.field = self.field if self.field is not None else field
        return self


class MalformedError(JnrrdzError):
    """The bytes contradict their format or themselves."""


class UnsupportedError(JnrrdzError):
    """The bytes are fine, but jnrrdz (or a library that it needs) does not read this."""


class NoImageError(UnsupportedError):
    """The source is sound and holds no image, such as a NITF of text and graphics: there is nothing to index."""


class UnrepresentableError(JnrrdzError):
    """The result cannot be expressed in the target (a manifest form, a Zarr data type)."""


class UntrustedSourceError(JnrrdzError):
    """A manifest reaches for a source that its reader did not allow."""


class DriftError(JnrrdzError):
    """A source is no longer what it was when it was scanned."""


class UntrustedSourceWarning(UserWarning):
    """A local manifest names a source elsewhere without showing that whoever wrote it has seen that source."""


class ImageChoiceWarning(UserWarning):
    """A source holds several images, and none was named: one of them was opened; or it holds none."""


class ScaleWarning(UserWarning):
    """Bands of an array differ in scale, offset or nodata, which CF cannot say, so that these are not applied."""


class DriftWarning(UserWarning):
    """A local file has the size that it had when it was scanned, but another time of modification."""


GIVEN_WARNINGS: set[str] = set()
"""Texts that `warn_once` has warned with in this process."""


def warn_once(text: str, category: type[Warning], skipped: tuple[str, ...] = ()) -> None:
    """Warn with a text once a process; `skipped` are folders of code that users call.

    A loop over a thousand files would repeat it, so the text names no file.  Python's
    own rule forgets what it gave, for xarray changes the filters of warnings while it
    opens.
    """
    if text not in GIVEN_WARNINGS:
        GIVEN_WARNINGS.add(text)
        warnings.warn(text, category, skip_file_prefixes=skipped)
