"""Jobs on a cluster of dask.distributed, some in each task.

Workers write their own outputs and return outcomes; a task whose worker died runs again elsewhere and leaves what is
done already.
"""

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any

from jnrrdz.batches.executors import LOOK, Jobs, ListedJobs, cores, in_threads
from jnrrdz.batches.item import Job, Outcome, State
from jnrrdz.batches.work import Plan, failed
from jnrrdz.errors import JnrrdzError, UnsupportedError

PER_TASK = 50
"""Sources in a task: a task costs a scheduler a millisecond, an item in it a tenth."""

LOCAL = "local"


def run_task(plan: Plan, jobs: list[Job]) -> list[Outcome]:
    """Return the outcomes of some jobs; this is what a cluster's worker runs."""
    return list(in_threads(plan, ListedJobs(jobs), threading.Event()))


def on_cluster(plan: Plan, scheduler: str, jobs: Jobs, stop: threading.Event) -> Iterator[Outcome]:
    """Yield outcomes as tasks end."""
    with _client(scheduler) as client:
        results: SimpleQueue[Any] = SimpleQueue()
        under_way: dict[str, tuple[Any, list[Job]]] = {}
        try:
            while (under_way or not jobs.ended) and not stop.is_set():
                _submit(client, plan, jobs, under_way, results)
                yield from _ended(under_way, results)
        finally:
            client.cancel([task for task, _ in under_way.values()], force=True)


@contextmanager
def _client(scheduler: str) -> Iterator[Any]:
    try:
        distributed = importlib.import_module("distributed")
    except ImportError as error:
        raise UnsupportedError(
            f"dask.distributed is not installed ({error}); pip install 'jnrrdz[dask]'", field="--scheduler"
        ) from error
    if scheduler == LOCAL:
        options = {"n_workers": cores(), "threads_per_worker": 1, "dashboard_address": None}
        with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
            yield client
        return
    try:
        client = distributed.Client(scheduler)
    except (OSError, ValueError, ImportError) as error:
        raise JnrrdzError(f"no scheduler answers: {error}", url=scheduler, field="--scheduler") from error
    with client:
        yield client


def _submit(
    client: Any,
    plan: Plan,
    jobs: Jobs,
    under_way: dict[str, tuple[Any, list[Job]]],
    results: "SimpleQueue[Any]",
) -> None:
    """Keep two tasks for each thread of the workers on the way."""
    most = 2 * max(sum(client.nthreads().values()), 1)
    while len(under_way) < most and not jobs.ended:
        # a task may run twice, so what is there and of the same source is done
        some = [job._replace(again=True) for job in jobs.take(PER_TASK, wait=not under_way)]
        if not some:
            return
        task = client.submit(run_task, plan, some, pure=False)
        under_way[task.key] = (task, some)
        task.add_done_callback(results.put)


def _ended(under_way: dict[str, tuple[Any, list[Job]]], results: "SimpleQueue[Any]") -> Iterator[Outcome]:
    try:
        task = results.get(timeout=LOOK)
    except Empty:
        return
    _, jobs = under_way.pop(task.key)
    error = task.exception() if task.status == "error" else None
    if task.status == "finished":
        yield from task.result()
    else:
        told = error or JnrrdzError(f"the task was {task.status}")
        yield from (failed(Outcome(job, State.FAILED, attempts=1), told) for job in jobs)
