"""A cache with a bound: what was not used for the longest time leaves first.

    >>> blocks = BoundedCache[int, bytes](most_bytes=1 << 20, nbytes=len)
    >>> blocks.put(0, data)
    >>> blocks.get(0)

One lock protects each cache, so that any thread may use it.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable


class BoundedCache[K: Hashable, V]:
    """Values by their keys, bounded by their number, by their bytes, or by both."""

    def __init__(
        self,
        *,
        most: int | None = None,
        most_bytes: int | None = None,
        nbytes: Callable[[V], int] | None = None,
        on_eviction: Callable[[K, V], object] | None = None,
    ) -> None:
        """Make an empty cache.

        Parameters
        ----------
        most
            The number of values.
        most_bytes
            The bytes of all values; a value that is larger alone is not kept.
        nbytes
            Returns the bytes of a value.
        on_eviction
            Called for each value that leaves to make room, with its key, while the cache is
            locked: it must not use the cache.
        """
        self._most = most
        self._most_bytes = most_bytes
        self._measure = nbytes
        self._on_eviction = on_eviction
        self._values: OrderedDict[K, V] = OrderedDict()
        self._nbytes = 0
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    @property
    def nbytes(self) -> int:
        """The bytes of all values."""
        return self._nbytes

    def entries(self) -> list[tuple[K, V]]:
        """Return all keys and values, those that leave first at the front."""
        with self._lock:
            return list(self._values.items())

    def get(self, key: K) -> V | None:
        """Return a value, None where it is not kept."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Keep a value in place of an older one of its key."""
        with self._lock:
            self.pop(key)
            size = self._size(value)
            if self._most_bytes is not None and size > self._most_bytes:
                return
            self._values[key] = value
            self._nbytes += size
            while self._is_full():
                self._evict()

    def made(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key, made where it is not kept.

        The cache stays locked meanwhile, so that threads which ask at one time wait for one of
        them instead of making it again.
        """
        with self._lock:
            value = self.get(key)
            if value is None:
                value = make()
                self.put(key, value)
            return value

    def pop(self, key: K) -> V | None:
        """Drop a value and return it, None where it is not kept."""
        with self._lock:
            value = self._values.pop(key, None)
            if value is not None:
                self._nbytes -= self._size(value)
            return value

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._values.clear()
            self._nbytes = 0

    def unlock_in_child(self) -> None:
        """Take another lock in a forked process, whose parent may have locked this one."""
        self._lock = threading.RLock()

    def _size(self, value: V) -> int:
        return 0 if self._measure is None else self._measure(value)

    def _is_full(self) -> bool:
        if self._most is not None and len(self._values) > self._most:
            return True
        return self._most_bytes is not None and self._nbytes > self._most_bytes

    def _evict(self) -> None:
        key, value = self._values.popitem(last=False)
        self._nbytes -= self._size(value)
        if self._on_eviction is not None:
            self._on_eviction(key, value)
