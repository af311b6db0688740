"""Time that grows with the input, and no faster: measured in CPU seconds, so that a busy machine does not count."""

import gc
import time

TIMES = (1, 2, 4, 8)
FACTOR = 3.0
"""How much slower than linear may pass: what grows with the square is eight times slower at eight times the size."""

FLOOR = 0.002
"""Seconds that count for nothing: what starts up, and the clock's steps."""


def seconds(run, given, repeats=1):
    """Return the CPU seconds that a call takes, the least of some calls.

    The collector waits meanwhile: what it goes through is what all tests before have left.
    """
    taken = []
    gc.disable()
    try:
        for _ in range(repeats):
            start = time.process_time()
            run(given)
            taken.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(taken)


def assert_linear(make, run, size, *, factor=FACTOR, floor=FLOOR):
    """Check that `run(make(n))` takes time in proportion to n, over `size` and its double, fourfold and eightfold.

    Only `run` is measured.  `size` is so large that what grows with its square is seen: a few
    milliseconds at the least size.  What raises in `run` fails the test, unless `run` catches it.
    """
    least, *larger = (make(times * size) for times in TIMES)
    run(least)  # imports and caches
    taken = [seconds(run, least, repeats=3), *(seconds(run, given) for given in larger)]
    allowed = factor * TIMES[-1] * max(taken[0], floor)
    if taken[-1] > allowed:
        taken[-1] = min(taken[-1], seconds(run, larger[-1], repeats=2))
    shown = ", ".join(f"{times * size}: {each * 1000:.1f} ms" for times, each in zip(TIMES, taken, strict=True))
    assert taken[-1] <= allowed, f"not linear: {shown}"
