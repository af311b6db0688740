"""Chunks of which a reader needs the first bytes only: where these end is looked up once, and kept.

A lower level of a JPEG 2000 tile is the head of the tile's bytes.  Where the manifest refers to all of them, the
first reader of a level fetches as much as the level's share is as a rule, and more where packet headers go on.
What was fetched is kept for the read that follows.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Protocol

from jnrrdz.core.codec_table import find
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.refs import Ints, Ranges
from jnrrdz.errors import JnrrdzError
from jnrrdz.records import resolved
from jnrrdz.sources.ranges import GAP
from jnrrdz.store.sources import SourcePool

MOST = 16 << 20
"""Bytes of heads that are fetched for one window; a larger window is read as a whole."""

ROUNDS = 3
"""Times that a head is fetched, each time four times as much."""

GROWTH = 4

type Place = tuple[str, int, int]
"""URL, offset and length of a chunk."""

type Keep = Callable[[Place, bytes], None]
"""Keeps the bytes of a range for the reads that follow."""


class Heads(Protocol):
    """What a codec knows of the first bytes of its chunks."""

    def guess(self, length: int) -> int:
        """Return how many of a chunk's bytes show where those end that are needed, as a rule."""

    def end(self, head: bytes, length: int) -> int | None:
        """Return where those end; None where these first bytes do not show it."""


def heads_of(document: Mapping[str, Any]) -> Heads | None:
    """Return what finds the heads of an array's chunks; None where chunks are needed as a whole."""
    for entry in document.get("codecs", ()):
        spec = CodecSpec.from_json(entry)
        record = find(spec.name)
        if record is not None and record.heads is not None and record.config is not None:
            try:
                made: Heads | None = resolved(record.heads)(record.config.from_json(spec.configuration))
            except JnrrdzError:  # the decoder reports it
                return None
            return made
    return None


class ChunkHeads:
    """The heads of one array's chunks; safe to use from many threads."""

    def __init__(self, heads: Heads, pool: SourcePool, keep: Keep) -> None:
        self._heads = heads
        self._pool = pool
        self._keep = keep
        self._ends: dict[Place, int] = {}
        self._is_whole = False
        """Whether the manifest refers to no more than is needed."""
        self._lock = threading.Lock()

    def shortened(self, ranges: Ranges, chunks: Ints) -> Ranges:
        """Return ranges with those of some remote chunks no longer than needed; unchanged where a read fails."""
        columns = (ranges.source[chunks], ranges.offset[chunks], ranges.length[chunks])
        rows = zip(*(column.tolist() for column in columns), strict=True)
        places = [(ranges.urls[source], offset, length) for source, offset, length in rows]
        with self._lock:
            missing = [place for place in places if place not in self._ends]
        if self._is_whole or not missing or max(length for _, _, length in missing) <= GAP:
            return self._cut(ranges, chunks, places)
        if sum(self._heads.guess(length) for _, _, length in missing) > MOST:
            return ranges
        try:
            if not self._ends:  # the manifest may refer to heads already: one of them shows it
                longest = max(missing, key=itemgetter(2))
                self._look_up([longest])
                missing.remove(longest)
                self._is_whole = self._ends[longest] == longest[2]
            if self._is_whole:
                return ranges
            self._look_up(missing)
        except JnrrdzError:  # the read that follows reports it, with the chunk
            return ranges
        return self._cut(ranges, chunks, places)

    def _cut(self, ranges: Ranges, chunks: Ints, places: list[Place]) -> Ranges:
        """Return ranges with those of some chunks as long as needed, as far as that was looked up."""
        length = ranges.length.copy()
        with self._lock:
            length[chunks] = [self._ends.get(place, place[2]) for place in places]
        return ranges._replace(length=length)

    def _look_up(self, places: list[Place]) -> None:
        """Find where the needed bytes of some chunks end."""
        sizes = {place: self._heads.guess(place[2]) for place in places}
        for _ in range(ROUNDS):
            by_url: defaultdict[str, list[Place]] = defaultdict(list)
            for place in sizes:
                by_url[place[0]].append(place)
            larger: dict[Place, int] = {}
            for url, some in by_url.items():
                opened = self._pool.opened(url)
                heads = opened.source.read([(place[1], place[1] + sizes[place]) for place in some])
                opened.check()
                for place, head in zip(some, heads, strict=True):
                    if not self._take(place, head):
                        larger[place] = min(sizes[place] * GROWTH, place[2])
            sizes = larger
        with self._lock:
            self._ends.update({place: place[2] for place in sizes})

    def _take(self, place: Place, head: bytes) -> bool:
        """Keep a chunk's head if it shows where the needed bytes end; whether it does."""
        url, offset, length = place
        end = self._heads.end(head, length)
        if end is None and len(head) < length:
            return False
        end = length if end is None else end
        with self._lock:
            self._ends[place] = end
        if end <= len(head):
            self._keep((url, offset, end), head[:end])
        return True
