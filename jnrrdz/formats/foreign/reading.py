"""A source as the parsers of VirtualiZarr read it: through our own requests, credentials, retries and address guard.

A parser asks a registry for the object store of a URL, and reads that store's object by ranges, or as a file.  Here
every URL leads to the one source that is being scanned, whatever it is called: nothing that a file says makes a
parser open something else.  Interfaces: https://developmentseed.org/obspec/latest/ and
https://obspec-utils.readthedocs.io/en/latest/api/protocols/
"""

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.sources.base import FIRST, MOST, ReadAhead

SOURCE = "jnrrdz://source"
"""What parsers are told that the source is called; in references it stands for the source."""

BLOCK = 256 * 1024
"""Bytes of a request where a parser jumps about: headers of HDF5 lie scattered through the file."""

BROKEN = (
    *(ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, NameError),
    *(NotImplementedError, OSError, RecursionError, RuntimeError, SyntaxError, TypeError, ValueError),
)
"""What parsers raise of files that they cannot read; each has ways of its own."""


@dataclass
class Reader:
    """The source's bytes as a read-only file, a few blocks kept; it keeps the error that reading it ended with."""

    read_range: ReadAhead
    failure: JnrrdzError | None = None
    _place: int = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes, all that are left where no number is given."""
        stop = MOST if size is None or size < 0 else self._place + size
        data = self.span(self._place, min(stop, self.size))
        self._place += len(data)
        return data

    def span(self, start: int, stop: int) -> bytes:
        """Return the bytes of a span."""
        try:
            return self.read_range(start, max(start, stop))
        except JnrrdzError as error:
            self.failure = error  # HDF5 may say no more than that it cannot read
            raise

    @property
    def size(self) -> int:
        """The source's size."""
        return self.read_range.size

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place."""
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        return self._place

    def tell(self) -> int:
        """Return the place."""
        return self._place


@dataclass(frozen=True)
class Whole:
    """All bytes of an object, as a store's `get` answers."""

    data: bytes

    def buffer(self) -> bytes:
        """Return the bytes."""
        return self.data


@dataclass(frozen=True)
class Store:
    """An object store that has one object, the source; it is its own registry."""

    reader: Reader
    most: int = 1 << 28
    """Bytes that may be read whole."""

    def resolve(self, url: str) -> tuple["Store", str]:
        """Return the store and path of a URL."""
        return self, url

    def head(self, path: str) -> dict[str, Any]:
        """Return what is known of the object."""
        return {"path": path, "size": self.reader.size, "e_tag": None, "last_modified": None, "version": None}

    def get(self, path: str, *, options: object = None) -> Whole:
        """Return the whole object."""
        del path, options
        if self.reader.size > self.most:
            raise UnsupportedError(f"{self.reader.size} bytes, more than the {self.most} that are read whole")
        return Whole(self.reader.span(0, self.reader.size))

    def get_range(self, path: str, *, start: int, end: int | None = None, length: int | None = None) -> bytes:
        """Return the bytes of one range."""
        del path
        return self.reader.span(start, start + (length or 0) if end is None else end)

    def get_ranges(
        self,
        path: str,
        *,
        starts: Sequence[int],
        ends: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
    ) -> list[bytes]:
        """Return the bytes of several ranges."""
        del path
        stops = [a + n for a, n in zip(starts, lengths or (), strict=True)] if ends is None else ends
        return [self.reader.span(start, stop) for start, stop in zip(starts, stops, strict=True)]


@contextmanager
def parsing(read: ReadAhead, format_name: str, extra: str) -> Iterator[Reader]:
    """Yield the source's bytes for a parser; what it raises is an error that says what could not be read, and where.

    A package that is not installed is named with the extra that brings it.
    """
    own = read if read.size <= FIRST else ReadAhead(read.source, first=BLOCK)
    reader = Reader(own)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # parsers warn of data types that are left out here
            yield reader
    except JnrrdzError:
        raise
    except ImportError as error:
        message = f"{format_name} needs a package ({error}): pip install 'jnrrdz[{extra}]'"
        raise UnsupportedError(message) from error
    except NotImplementedError as error:
        raise reader.failure or UnsupportedError(f"VirtualiZarr does not read this: {_said(error)}") from error
    except BROKEN as error:
        raise reader.failure or MalformedError(f"not readable as {format_name}: {_said(error)}") from error
    finally:
        if own is not read:
            read.requests += own.requests
            read.bytes_read += own.bytes_read


SAID = 300


def _said(error: Exception) -> str:
    """Return what an error says, cut: parsers quote what they found."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text[:SAID]
