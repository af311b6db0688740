"""Whether every range of an array's references lies inside of its source.

May touch numpy, the model, and read's columns.  All ranges are looked at together: a million take
some milliseconds.
"""

from collections.abc import Mapping

import numpy as np

from jnrrdz.commands.findings import Finding
from jnrrdz.core.refs import WHOLE, ChunkRefs
from jnrrdz.manifests.keys import ChunkKeys

MOST = 20
"""Findings for one array; a file that was cut off gives one for every chunk behind the cut."""

_UNKNOWN = -1


def range_findings(keys: ChunkKeys, refs: ChunkRefs, sizes: Mapping[str, int]) -> tuple[int, list[Finding]]:
    """Return how many ranges were compared with their source's size, and those that end behind it."""
    urls, place = refs.spelt(refs.source)
    known = np.array([sizes.get(url, _UNKNOWN) for url in urls] or [_UNKNOWN], np.int64)[place]
    whole = refs.length == WHOLE
    # a range to the end of its source needs its first byte only; the sum of the others may not overflow
    last = np.where(whole, refs.offset, refs.offset + np.where(whole, 0, refs.length))
    beyond = np.flatnonzero((known != _UNKNOWN) & (last > known))
    chunks = np.searchsorted(refs.indptr, beyond[:MOST], side="right") - 1
    findings = [
        Finding(
            "range",
            keys.key(int(chunk)),
            f"bytes {refs.offset[row]} to {last[row]} of {urls[place[row]]}, which has {known[row]}",
        )
        for chunk, row in zip(chunks.tolist(), beyond[:MOST].tolist(), strict=True)
    ]
    if len(beyond) > MOST:
        findings.append(Finding("range", keys.prefix, f"{len(beyond) - MOST:,} more ranges end behind their source"))
    return int(np.count_nonzero(known != _UNKNOWN)), findings
