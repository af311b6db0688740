"""The bytes of chunks that were fetched last, so that windows that overlap do not fetch them twice.

May touch nothing.  For remote sources only: the operating system keeps the pages of local files.
"""

import threading
from collections import OrderedDict

type Range = tuple[str, int, int]

BUDGET = 64 << 20
"""Bytes that are kept, for one store."""


class Recent:
    """Ranges and their bytes, the longest unused leaving first; safe to use from many threads."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._held = 0
        self._ranges: OrderedDict[Range, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, where: Range) -> bytes | None:
        """Return the bytes of a range, None where they are not kept."""
        with self._lock:
            data = self._ranges.get(where)
            if data is not None:
                self._ranges.move_to_end(where)
            return data

    def put(self, where: Range, data: bytes) -> None:
        """Keep the bytes of a range, as long as there is room."""
        if len(data) > self._budget // 4:  # one large chunk is not worth all the others
            return
        with self._lock:
            self._held += len(data) - len(self._ranges.pop(where, b""))
            self._ranges[where] = data
            while self._held > self._budget:
                self._held -= len(self._ranges.popitem(last=False)[1])
