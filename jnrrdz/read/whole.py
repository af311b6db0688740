"""Files of a container that are referred to as a whole, because nobody could list them: there or not.

May touch read.pool, read.manifest and errors.  Only files below a tree that the manifest's table of sources names are
such, and only "not found" makes one absent: its chunk is missing, and reads as the fill value.  Anything else is
an error, as is a whole file that the table names by itself.
"""

import asyncio
from collections.abc import Sequence

from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.model.refs import WHOLE, ByteRange
from jnrrdz.read.manifest import Manifest
from jnrrdz.read.pool import SourcePool
from jnrrdz.source.absent import is_absent

LARGEST = 1 << 30
"""Bytes of a file whose length nobody knows before it is read."""

_SPAN = (0, LARGEST + 1)


class WholeFiles:
    """Whole files of a manifest's trees, each asked for once and without asking for its size."""

    def __init__(self, manifest: Manifest, pool: SourcePool) -> None:
        self._trees = tuple(record.url for record in manifest.sources if record.url.endswith("/"))
        self._pool = pool

    def covers(self, wanted: Sequence[ByteRange]) -> bool:
        """Whether a chunk is such a file."""
        if not self._trees or len(wanted) != 1:
            return False
        ((url, offset, length),) = wanted
        return offset == 0 and length == WHOLE and url.startswith(self._trees)

    def read(self, wanted: Sequence[ByteRange]) -> bytes | None:
        """Return a file's bytes, None where there is none."""
        try:
            return self._checked(self._pool.opened(wanted[0][0]).source.read([_SPAN])[0], wanted)
        except JnrrdzError as error:
            return _missing(error)

    async def aread(self, wanted: Sequence[ByteRange]) -> bytes | None:
        """Do the same without blocking the loop."""
        try:
            opened = self._pool.known(wanted[0][0]) or await asyncio.to_thread(self._pool.opened, wanted[0][0])
            return self._checked((await opened.source.aread([_SPAN]))[0], wanted)
        except JnrrdzError as error:
            return _missing(error)

    def _checked(self, data: bytes, wanted: Sequence[ByteRange]) -> bytes:
        if len(data) > LARGEST:
            raise UnsupportedError(f"a block of more than {LARGEST} bytes; index it where it can be listed")
        if not data:
            raise JnrrdzError("an empty file where a block is expected", url=wanted[0][0])
        return data


def _missing(error: JnrrdzError) -> None:
    if not is_absent(error):
        raise error from error.__cause__
