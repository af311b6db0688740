"""Whether chunks can be read: a few of every array, or all of them.

May touch zarr's arrays and errors.  A chunk is read as its users read it, so that whatever would fail
for them fails here: a source that cannot be reached, bytes that are cut, a codec that is missing.
"""

import lzma
import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import batched
from typing import Any

import numpy as np
import zarr

from jnrrdz.commands.findings import Finding, Kind
from jnrrdz.errors import DriftError, JnrrdzError, UntrustedSourceError
from jnrrdz.manifests.columns import ArrayRefs

SAMPLE = 8
"""Chunks of every array that are read where not all are."""

MOST = 20
"""Findings for one array; where every chunk fails for one reason, more would tell nothing."""

AT_ONCE = 512
"""Chunks that wait for their turn at the decoders."""

UNREADABLE = (
    JnrrdzError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    RuntimeError,
    OSError,
    EOFError,
    MemoryError,
    zlib.error,
    lzma.LZMAError,
)
"""What codecs raise for bytes that are not theirs: those of other packages too, of which each has its own way."""


@dataclass(frozen=True)
class Wanted:
    """Which chunks of an array are to be read."""

    refs: ArrayRefs
    lost: frozenset[str]
    """Sources that are known to be wrong: their chunks would only say so again."""
    sample: int | None
    """How many chunks; None for all of them."""

    def chunks(self) -> Iterator[int]:
        """Yield the numbers of the chunks."""
        present = self.refs.present()
        if self.sample is not None and len(present) > self.sample:
            # first and last, and some between: a file that was cut or overwritten in part shows at either end
            present = present[np.unique(np.linspace(0, len(present) - 1, self.sample).astype(np.int64))]
        for some in batched(present, AT_ONCE):
            yield from (int(chunk) for chunk in some if not self.lost or not self._is_lost(int(chunk)))

    def _is_lost(self, chunk: int) -> bool:
        found = self.refs.lookup(chunk)
        trees = tuple(place for place in self.lost if place.endswith("/"))
        return isinstance(found, list) and any(url in self.lost or url.startswith(trees) for url, _, _ in found)


def chunk_findings(array: "zarr.Array[Any]", wanted: Wanted) -> tuple[int, list[Finding]]:
    """Return how many chunks were read, and those that could not be."""
    findings: list[Finding] = []
    count = failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for some in batched(wanted.chunks(), AT_ONCE):
            count += len(some)
            for found in _failures(threads, array, wanted.refs, some):
                failed += 1
                if failed <= MOST:
                    findings.append(found)
    if failed > MOST:
        findings.append(Finding("chunk", wanted.refs.keys.prefix, f"{failed - MOST:,} more chunks cannot be read"))
    return count, findings


def _failures(
    threads: ThreadPoolExecutor, array: "zarr.Array[Any]", refs: ArrayRefs, chunks: tuple[int, ...]
) -> Iterator[Finding]:
    for chunk, error in zip(chunks, threads.map(lambda one: _failure(array, refs, one), chunks), strict=True):
        if error is not None:
            yield Finding(_kind(error), refs.keys.key(chunk), str(error) or type(error).__name__)


def _failure(array: "zarr.Array[Any]", refs: ArrayRefs, chunk: int) -> Exception | None:
    """Return what reading one chunk raises."""
    index = np.unravel_index(chunk, refs.keys.grid) if refs.keys.grid else ()
    region = tuple(slice(int(at) * size, (int(at) + 1) * size) for at, size in zip(index, array.chunks, strict=True))
    try:
        array[region]
    except UNREADABLE as error:
        return error
    return None


def _kind(error: Exception) -> Kind:
    if isinstance(error, DriftError):
        return "drift"
    return "trust" if isinstance(error, UntrustedSourceError) else "chunk"
