"""Work that grows with the input, and no faster: steps of Python are counted, and what C does is timed.

Calls, jumps and branches are the same in each run, on each machine. What grows inside of
one call into C, such as copies of a growing buffer, shows in CPU seconds alone, and is
taken for a fault where it is as large as the square.
"""

import gc
import sys
import time

TIMES = (1, 2, 4, 8)
MOST_STEPS = 1.5
"""How many more steps than linear may pass: the square has eight times as many at eight times the size."""

MOST_SECONDS = 3.0
"""How much slower than linear may pass, for what is counted by no step."""

FLOOR = 0.002
"""Seconds that count for nothing: what starts up, and the clock's steps."""

FEW = 2000
"""Steps that count for nothing: what does not depend on the size."""

EVENTS = sys.monitoring.events
COUNTED = EVENTS.PY_START | EVENTS.PY_RESUME | EVENTS.CALL | EVENTS.JUMP | EVENTS.BRANCH


def steps(run, given):
    """Return how many calls, jumps and branches of Python a call takes, in all threads."""
    count = 0

    def counts(*_):
        nonlocal count
        count += 1

    tool = sys.monitoring.PROFILER_ID
    sys.monitoring.use_tool_id(tool, "steps")
    try:
        for event in (EVENTS.PY_START, EVENTS.PY_RESUME, EVENTS.CALL, EVENTS.JUMP, EVENTS.BRANCH):
            sys.monitoring.register_callback(tool, event, counts)
        sys.monitoring.set_events(tool, COUNTED)
        run(given)
    finally:
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)
    return count


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


def assert_linear(make, run, size, *, few=FEW, floor=FLOOR):
    """Check that `run(make(n))` takes work in proportion to n, over `size` and its double, fourfold and eightfold.

    Only `run` is measured.  `size` is so large that what grows with its square is seen: a few
    milliseconds at the least size.  What raises in `run` fails the test, unless `run` catches it.
    """
    inputs = [make(times * size) for times in TIMES]
    run(inputs[0])  # imports and caches
    counted = [steps(run, given) for given in (inputs[0], inputs[-1])]
    allowed_steps = MOST_STEPS * TIMES[-1] * max(counted[0], few)
    shown = f"{size}: {counted[0]} steps, {TIMES[-1] * size}: {counted[1]} steps"
    assert counted[1] <= allowed_steps, f"not linear: {shown}"
    taken = [seconds(run, inputs[0], repeats=3), *(seconds(run, given) for given in inputs[1:])]
    allowed = MOST_SECONDS * TIMES[-1] * max(taken[0], floor)
    if taken[-1] > allowed:
        taken[-1] = min(taken[-1], seconds(run, inputs[-1], repeats=2))
    shown = ", ".join(f"{times * size}: {each * 1000:.1f} ms" for times, each in zip(TIMES, taken, strict=True))
    assert taken[-1] <= allowed, f"not linear: {shown}"
