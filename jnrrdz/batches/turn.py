"""One thread of a process works at a time, while all others wait for servers.

May touch threads.  Sixty threads that all want the interpreter's lock spend a third of their time on getting it;
a thread that waits for an answer gives its turn to another one.  Figures: docs/decisions/018-batch.md.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_turn = threading.Lock()
_own = threading.local()


@contextmanager
def taken() -> Iterator[None]:
    """Work, when it is this thread's turn."""
    with _turn:
        _own.turn = True
        try:
            yield
        finally:
            _own.turn = False


@contextmanager
def given_up() -> Iterator[None]:
    """Let others work while this thread waits for what is not in this process."""
    if not getattr(_own, "turn", False):
        yield
        return
    _own.turn = False
    _turn.release()
    try:
        yield
    finally:
        _turn.acquire()
        _own.turn = True
