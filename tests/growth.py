"""Time that grows with the input, and no faster: measured in CPU seconds, so that a busy machine does not count."""

import gc
import time

TIMES = (1, 2, 4, 8)
FACTOR = 3.0
"""How much slower than linear may pass: what grows with the square is eight times slower at eight times the size."""

FLOOR = 0.002
"""Seconds that count for nothing: what starts up, and the clock's steps."""


def seconds(run, given, repeats=3):
    """Return the CPU seconds that a call takes, the least of some calls."""
    taken = []
    for _ in range(repeats):
        gc.collect()
        start = time.process_time()
        run(given)
        taken.append(time.process_time() - start)
    return min(taken)


def assert_linear(make, run, size, *, factor=FACTOR, floor=FLOOR):
    """Check that `run(make(n))` takes time in proportion to n, over `size` and its double, fourfold and eightfold.

    Only `run` is measured.  `size` is so large that what grows with its square is seen: a few
    milliseconds at the least size.  What raises in `run` fails the test, unless `run` catches it.
    """
    run(make(size))  # imports and caches
    taken = [seconds(run, make(times * size)) for times in TIMES]
    allowed = factor * TIMES[-1] * max(taken[0], floor)
    shown = ", ".join(f"{times * size}: {each * 1000:.1f} ms" for times, each in zip(TIMES, taken, strict=True))
    assert taken[-1] <= allowed, f"not linear: {shown}"
