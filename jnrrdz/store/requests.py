"""How the bytes of remote sources are asked for: neighbours together, many requests at once, no more than a bound.

`Batches.ask` is told of one chunk at a time; what comes in one turn of the loop shares requests.  `Batches.each` is
told of all chunks of a window.  It plans large requests, has as many under way as there are connections, and hands
bytes on as they come: requests go on ahead of decoding, until `HELD` bytes are on the way or not decoded yet.

`Recent` keeps the bytes of the last chunks, so that windows that overlap do not fetch them twice: of remote sources
only, as the operating system keeps the pages of local files.  `Walks` notices windows that follow one another;
`Batches.ahead` fetches the next ones before anybody asks, and their bytes wait among the recent ones.
docs/decisions/040-reading-ahead.md
"""

import asyncio
import os
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from jnrrdz.caches import BoundedCache
from jnrrdz.concurrency import together
from jnrrdz.core.refs import Ints, Ranges
from jnrrdz.core.state import ObjectState
from jnrrdz.errors import JnrrdzError
from jnrrdz.sources import filesystems, ranges
from jnrrdz.sources.ranges import Span
from jnrrdz.store.sources import OpenSource, SourcePool, truncated

type Range = tuple[str, int, int]

BUDGET = 64 << 20
"""Bytes that are kept, for one store."""

PROCESS_BUDGET = 256 << 20
"""Bytes that are kept for all stores of a process."""

_stores: "dict[int, weakref.ref[Recent]]" = {}
"""What the stores of this process keep, the longest unused first."""

_stores_lock = threading.Lock()


def recent_nbytes() -> int:
    """Return the bytes of sources that all stores of this process keep."""
    with _stores_lock:
        stores = [reference() for reference in _stores.values()]
    return sum(store.nbytes for store in stores if store is not None)


class Recent:
    """Ranges and their bytes, the longest unused leaving first; safe to use from many threads.

    All of a process share a budget: the store that was not used the longest loses its bytes.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._added = 0
        """Bytes that were added since the budget of the process was looked at."""
        self._ranges = BoundedCache[Range, bytes](most_bytes=budget, nbytes=len)

    def get(self, where: Range) -> bytes | None:
        """Return the bytes of a range, None where they are not kept."""
        return self._ranges.get(where)

    def put(self, where: Range, data: bytes) -> None:
        """Keep the bytes of a range, as long as there is room."""
        if len(data) > self._budget // 4:  # one large chunk is not worth all the others
            return
        self._ranges.put(where, data)
        self._added += len(data)
        if self._added >= self._budget // 16:
            self._share()

    @property
    def nbytes(self) -> int:
        """The bytes that are kept."""
        return self._ranges.nbytes

    def clear(self) -> None:
        """Drop all ranges."""
        self._ranges.clear()

    def _share(self) -> None:
        """Clear the stores that were not used the longest until all keep no more than the budget."""
        self._added = 0
        with _stores_lock:
            _stores.pop(id(self), None)
            _stores[id(self)] = weakref.ref(self)
            alive = {number: store for number, reference in _stores.items() if (store := reference()) is not None}
            for number in _stores.keys() - alive.keys():
                del _stores[number]
        surplus = sum(store.nbytes for store in alive.values()) - PROCESS_BUDGET
        for store in alive.values():
            if surplus <= 0 or store is self:
                return
            surplus -= store.nbytes
            store.clear()


CONNECTIONS = 64
"""Requests of one store under way at once."""

HELD = 128 << 20
"""Bytes of one store that are on the way, or have come and are not decoded yet."""

SHARED = 4 << 20
"""Bytes from which on what is asked for together is shared out among connections."""

SHARE = 1 << 20
"""Bytes that each of them may then bring at least."""

PLANNED = 1 << 14
"""Chunks whose requests are planned at once."""

AHEAD = 16 << 20
"""Bytes that are read ahead at once, for one store."""


def most_of(total: int) -> int:
    """Return how many bytes one request brings at most, of so many that are asked for together.

    Many bytes are shared out among all connections: one that brings them all is slower than several.
    """
    if total < SHARED:
        return ranges.LIMIT
    return min(max(min(total, HELD) // CONNECTIONS, SHARE), ranges.LIMIT)


class Room:
    """Bytes that are held at once; who comes first has them first, and what is larger than all has them alone."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[None]:
        """Hold so many bytes while the context lasts."""
        size = min(size, self._most)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        self._admit()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._left += size
            self._admit()

    def _admit(self) -> None:
        while self._waiting and (self._waiting[0][1].done() or self._waiting[0][0] <= self._left):
            size, turn = self._waiting.popleft()
            if not turn.done():  # else whoever waited was cancelled
                self._left -= size
                turn.set_result(None)


class _Ask(NamedTuple):
    url: str
    start: int
    stop: int
    expected: ObjectState | None
    answer: asyncio.Future[bytes]


class _Request(NamedTuple):
    """Bytes of one source, and the chunks that they serve."""

    url: str
    span: Span
    chunks: list[int]


class Taker(NamedTuple):
    """Who wants the chunks of a window."""

    take: Callable[[list[int], list[memoryview | None]], Awaitable[None]]
    """Is given chunks by their numbers, and the bytes of each; None where not all of them are there."""

    name: Callable[[int], str]
    """Returns the key of a chunk, for errors."""


class _Turns:
    """What belongs to one event loop."""

    def __init__(self) -> None:
        self.waiting: list[_Ask] = []
        self.free = asyncio.Semaphore(CONNECTIONS)
        self.room = Room(HELD)


class Batches:
    """Requests of one store."""

    def __init__(self, pool: SourcePool) -> None:
        self._pool = pool
        self._fetches: set[asyncio.Task[None]] = set()
        self._start()

    def _start(self) -> None:
        self._recent = Recent()
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()
        self._coming: dict[Range, Future[None]] = {}
        """What is read ahead and has not come yet."""
        self._ahead = 0
        self._lock = threading.RLock()  # what has come already is noted by the thread that asked for it
        self._process = os.getpid()

    def _here(self) -> _Turns:
        """Return what belongs to the running loop; in a forked child nothing of its parent's is left."""
        if self._process != os.getpid():
            self._start()
        return self._turns.setdefault(asyncio.get_running_loop(), _Turns())

    def keep(self, where: Range, data: bytes) -> None:
        """Keep the bytes of a range for the reads that follow."""
        self._recent.put(where, data)

    # One chunk after another

    def ask(self, url: str, offset: int, length: int, expected: ObjectState | None = None) -> asyncio.Future[bytes]:
        """Return what will be the bytes of a range; the request leaves when the loop's turn is over."""
        loop, turns = asyncio.get_running_loop(), self._here()
        answer: asyncio.Future[bytes] = loop.create_future()
        kept = self._recent.get((url, offset, length)) if length else b""
        if kept is not None:
            answer.set_result(kept)
            return answer
        if not turns.waiting:
            loop.call_soon(self._flush, loop)
        turns.waiting.append(_Ask(url, offset, offset + length, expected, answer))
        return answer

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start a request for each run of ranges that are no more than `source.ranges.GAP` apart."""
        turns, by_url = self._turns[loop], defaultdict(list)
        asked, turns.waiting = turns.waiting, []
        for ask in asked:
            by_url[ask.url].append(ask)
        limit = most_of(sum(ask.stop - ask.start for ask in asked))
        for url, asks in by_url.items():
            for request in ranges.coalesce([(ask.start, ask.stop) for ask in asks], limit=limit):
                served = [asks[index] for index in request.serves]
                fetch = loop.create_task(self._fetch(url, request, served, turns))
                self._fetches.add(fetch)  # a loop does not keep its tasks alive
                fetch.add_done_callback(partial(self._settle, served))

    async def _fetch(self, url: str, request: ranges.MergedRequest, served: Sequence[_Ask], turns: _Turns) -> None:
        opened, data = await self._read(url, request.span, turns.free)
        for expected in {ask.expected for ask in served} - {None, opened.confirmed}:
            if expected is not None:
                await asyncio.to_thread(self._pool.confirm, opened, url, expected)
        for ask in served:
            piece = data[ask.start - request.start : ask.stop - request.start]
            wanted = ask.stop - ask.start
            if len(piece) == wanted:
                self._recent.put((url, ask.start, wanted), piece)
            if ask.answer.done():  # whoever asked was cancelled
                continue
            if len(piece) < wanted:
                ask.answer.set_exception(truncated(opened.source, ask.start, wanted, len(piece)))
            else:
                ask.answer.set_result(piece)

    def _settle(self, served: Sequence[_Ask], fetch: asyncio.Task[None]) -> None:
        """Tell everybody who still waits that the request failed."""
        self._fetches.discard(fetch)
        error = asyncio.CancelledError() if fetch.cancelled() else fetch.exception()
        for ask in served:
            if error is not None and not ask.answer.done():
                ask.answer.set_exception(error)

    async def _read(self, url: str, span: Span, free: asyncio.Semaphore | None = None) -> tuple[OpenSource, bytes]:
        """Return a source and some bytes of it, which is what it was when it was scanned."""
        opened = self._pool.known(url)
        if opened is None:
            opened = await asyncio.to_thread(self._pool.opened, url)
        if free is None:
            (data,) = await opened.source.aread([span])
        else:
            async with free:
                (data,) = await opened.source.aread([span])
        if not opened.checked:
            # after reading: the answer has often told what would else take a request of its own
            await asyncio.to_thread(opened.check)
        return opened, data

    # All chunks of a window

    async def each(self, asked: Ranges, chunks: Ints, workers: int, taker: Taker) -> None:
        """Hand on the bytes of all chunks, as they come."""
        turns = self._here()
        total = int(asked.length[chunks].sum())
        is_kept = total <= BUDGET
        kept: list[int] = []
        coming: dict[int, Future[None]] = {}
        if is_kept:
            kept, coming = self._known(asked, chunks)
            chunks = np.setdiff1d(chunks, [*kept, *coming], assume_unique=True)
        pending = self._requests(asked, chunks, most_of(total))

        async def work() -> None:
            for request in pending:
                async with turns.room.of(request.span[1] - request.span[0]):
                    await self._serve(asked, request, taker, turns.free, is_kept=is_kept)

        ways = [work() for _ in range(min(workers, len(chunks)))]
        ways += [self._hand_on(asked, kept, workers, taker)] if kept else []
        ways += [self._await_coming(asked, coming, workers, taker)] if coming else []
        await together(ways)

    def _requests(self, asked: Ranges, chunks: Ints, limit: int) -> Iterator[_Request]:
        """Yield the requests for chunks, those of some chunks planned when they are wanted."""
        for first in range(0, len(chunks), PLANNED):
            block = chunks[first : first + PLANNED]
            sources = asked.source[block]
            for source in np.unique(sources).tolist():
                numbers = block[sources == source]
                starts = asked.offset[numbers]
                spans = list(zip(starts.tolist(), (starts + asked.length[numbers]).tolist(), strict=True))
                served = numbers.tolist()
                for request in ranges.coalesce(spans, limit=limit):
                    yield _Request(asked.urls[source], request.span, [served[index] for index in request.serves])

    async def _serve(
        self, asked: Ranges, request: _Request, taker: Taker, free: asyncio.Semaphore, *, is_kept: bool
    ) -> None:
        """Fetch one request, and hand its chunks on."""
        try:
            _, data = await self._read(request.url, request.span, free)
        except JnrrdzError as error:
            raise error.at(field=taker.name(request.chunks[0])) from error.__cause__
        await taker.take(request.chunks, self._cut(asked, request, data, is_kept=is_kept))

    def _cut(self, asked: Ranges, request: _Request, data: bytes, *, is_kept: bool) -> list[memoryview | None]:
        """Return the bytes of each chunk of a request, None where they are not all there."""
        pieces: list[memoryview | None] = []
        whole = memoryview(data)
        for url, offset, length in _places(asked, request.chunks):
            piece = whole[offset - request.span[0] : offset - request.span[0] + length]
            pieces.append(piece if len(piece) == length else None)
            if is_kept and len(piece) == length:
                self._recent.put((url, offset, length), bytes(piece))
        return pieces

    def _known(self, asked: Ranges, chunks: Ints) -> tuple[list[int], dict[int, "Future[None]"]]:
        """Return the chunks whose bytes are kept, and those whose bytes are read ahead."""
        kept, coming = [], {}
        for chunk, where in zip(chunks.tolist(), _places(asked, chunks), strict=True):
            future = self._coming.get(where)
            if self._recent.get(where) is not None:
                kept.append(chunk)
            elif future is not None:
                coming[chunk] = future
        return kept, coming

    async def _hand_on(self, asked: Ranges, chunks: list[int], workers: int, taker: Taker) -> None:
        """Hand on chunks whose bytes are kept; one that has left meanwhile is fetched."""
        found = {chunk: self._recent.get(where) for chunk, where in zip(chunks, _places(asked, chunks), strict=True)}
        there = {chunk: memoryview(data) for chunk, data in found.items() if data is not None}
        if there:
            await taker.take(list(there), list(there.values()))
        if len(there) < len(chunks):
            await self.each(asked, np.array([chunk for chunk in chunks if chunk not in there]), workers, taker)

    async def _await_coming(self, asked: Ranges, coming: dict[int, "Future[None]"], workers: int, taker: Taker) -> None:
        """Hand on chunks that are read ahead, once they have come; where that fails they are asked for again."""
        arrivals = map(asyncio.wrap_future, set(coming.values()))
        await asyncio.shield(asyncio.gather(*arrivals, return_exceptions=True))
        await self._hand_on(asked, list(coming), workers, taker)

    # Before anybody asks

    def ahead(self, asked: Ranges, chunks: Ints) -> None:
        """Fetch the bytes of chunks in the background, as many as there is room for, and keep them."""
        self._here()
        is_new = [where not in self._coming and self._recent.get(where) is None for where in _places(asked, chunks)]
        chunks = chunks[np.array(is_new, bool)]
        with self._lock:
            chunks = chunks[np.cumsum(asked.length[chunks]) <= AHEAD - self._ahead]
            for request in self._requests(asked, chunks, SHARED):
                places, size = _places(asked, request.chunks), request.span[1] - request.span[0]
                fetch = asyncio.run_coroutine_threadsafe(self._keep(asked, request), filesystems.loop())
                self._ahead += size
                self._coming.update(dict.fromkeys(places, fetch))
                fetch.add_done_callback(partial(self._arrived, places, size))

    async def _keep(self, asked: Ranges, request: _Request) -> None:
        _, data = await self._read(request.url, request.span)
        self._cut(asked, request, data, is_kept=True)

    def _arrived(self, places: Iterable[Range], size: int, _: "Future[None]") -> None:
        with self._lock:
            self._ahead -= size
            for place in places:
                self._coming.pop(place, None)

    def close(self) -> None:
        """Give up what is read ahead."""
        if self._process == os.getpid():
            for fetch in set(self._coming.values()):
                fetch.cancel()


def _places(asked: Ranges, chunks: Ints | list[int]) -> list[Range]:
    """Return the ranges of chunks."""
    found = asked.source[chunks].tolist(), asked.offset[chunks].tolist(), asked.length[chunks].tolist()
    return [(asked.urls[source], offset, length) for source, offset, length in zip(*found, strict=True)]


type Box = tuple[Span, ...]
"""A window: the first element and the one after the last, along each axis."""

LATELY = 8
"""Windows by which one of a walk may come too late."""

BEFORE = 4
"""Windows that are remembered, to find walks among."""

WALKS = 4
"""Walks through one array that are followed at once."""

DEEPEST = 32
"""Windows that are read ahead of one walk at most."""


class Walks:
    """Notices windows of an array that follow one another, and says which come next; safe to use from many threads.

    Three windows of one size in a row are a walk.  It goes on along its axis, and from a row's end to the begin of the
    next, or the other way round: dask goes from the last block to the first.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self._shape = tuple(shape)
        self._lately: deque[Box] = deque(maxlen=BEFORE)
        self._walks: deque[Walk] = deque(maxlen=WALKS)
        self._lock = threading.Lock()

    def after(self, box: Box, most: int = DEEPEST) -> list[Box]:
        """Return the windows to fetch now that one is read, each once; at most so many are ahead of it."""
        with self._lock:
            walk = next((walk for walk in self._walks if box in walk), None) or self._begun(box)
            return [] if walk is None else walk.at(box, min(most, DEEPEST))

    def _begun(self, box: Box) -> "Walk | None":
        """Return the walk that a window begins, with the two before it."""
        lately = set(self._lately)
        if box not in lately:
            self._lately.append(box)
        for axis in reversed(range(len(box))):
            for step in (box[axis][1] - box[axis][0], box[axis][0] - box[axis][1]):
                before = _moved(box, axis, -step)
                if before in lately and _moved(before, axis, -step) in lately:
                    self._walks.append(Walk(self._shape, box, axis, step))
                    return self._walks[-1]
        return None


def _moved(box: Box, axis: int, step: int) -> Box:
    start, stop = box[axis]
    return (*box[:axis], (start + step, stop + step), *box[axis + 1 :])


class Walk:
    """Windows of one size, one after another along an axis, in about that order: threads overtake each other."""

    def __init__(self, shape: Sequence[int], box: Box, axis: int, step: int) -> None:
        self._shape = shape
        self._sizes = [stop - start for start, stop in box]
        self._axis = axis
        self._step = step
        self._length = 2
        self._line = [box]
        """Windows of the walk, from the last ones that may come late to some that nobody has asked for."""
        self._front = 0
        """How many of them the walk has passed."""
        self._asked = 0
        """How many of them are fetched or passed."""

    def __contains__(self, box: Box) -> bool:
        """Whether a window is one of the walk."""
        return box in self._line

    def at(self, box: Box, most: int) -> list[Box]:
        """Return what to fetch now that a window is read: a third of the walk so far, so that little is for nothing."""
        self._length += 1
        self._front = max(self._front, self._line.index(box) + 1)
        self._asked = max(self._asked, self._front)
        depth = min(self._length // 3, most)
        self._lengthen(self._front + depth + LATELY)
        found: list[Box] = []
        if self._asked - self._front <= depth // 4:
            found = self._line[self._asked : self._front + depth]
            self._asked += len(found)
        passed = max(self._front - LATELY, 0)
        del self._line[:passed]
        self._front, self._asked = self._front - passed, self._asked - passed
        return found

    def _lengthen(self, wanted: int) -> None:
        while len(self._line) < wanted and (following := self._following(self._line[-1])) is not None:
            self._line.append(following)

    def _following(self, box: Box) -> Box | None:
        """Return the window after one, cut at the array's end; None where there is none."""
        starts = [start for start, _ in box]
        starts[self._axis] += self._step
        axis, forward = self._axis, self._step > 0
        while not 0 <= starts[axis] < self._shape[axis]:
            if axis == 0:
                return None
            first, size = box[axis][0] % self._sizes[axis], self._sizes[axis]
            starts[axis] = first if forward else first + (self._shape[axis] - 1 - first) // size * size
            axis -= 1
            starts[axis] += self._sizes[axis] if forward else -self._sizes[axis]
        return tuple(
            (start, min(start + size, end)) for start, size, end in zip(starts, self._sizes, self._shape, strict=True)
        )
