"""Work is done once for all who ask at one time; what starts together ends together."""

import asyncio
import threading

import pytest

from jnrrdz.concurrency import SharedCalls, SharedTasks, end, together


def in_threads(count, work):
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("fails", [False, True])
def test_one_thread_works_for_all_that_ask_meanwhile(fails):
    shared, calls, answers = SharedCalls(), [], []
    waiting = threading.Semaphore(0)

    def make():
        calls.append(1)
        for _ in range(3):
            waiting.acquire(timeout=10)
        if fails:
            raise LookupError("a")
        return 5

    def ask():
        waiting.release()
        try:
            answers.append(shared.once("a", make))
        except LookupError as error:
            answers.append(str(error))

    in_threads(3, ask)
    assert set(answers) == ({"a"} if fails else {5})
    assert len(answers) == 3
    assert shared.once("a", lambda: 6) == 6  # nothing is kept


def test_other_keys_do_not_wait():
    shared = SharedCalls()
    assert shared.once("a", lambda: shared.once("b", lambda: 1) + 1) == 2


def test_one_task_works_for_all_that_ask_meanwhile_even_if_the_first_leaves():
    async def main():
        shared, calls, go = SharedTasks(), [], asyncio.Event()

        async def make():
            calls.append(1)
            await go.wait()
            return 5

        askers = [asyncio.ensure_future(shared.once("a", make)) for _ in range(3)]
        await asyncio.sleep(0)
        askers[0].cancel()
        await asyncio.sleep(0)
        go.set()
        answers = await asyncio.gather(*askers, return_exceptions=True)
        return calls, [type(answers[0]), *answers[1:]], await shared.once("a", lambda: asyncio.sleep(0, 6))

    assert asyncio.run(main()) == ([1], [asyncio.CancelledError, 5, 5], 6)


def test_results_are_in_order_and_no_more_run_at_once_than_are_allowed():
    running, most = set(), []

    async def work(number):
        running.add(number)
        most.append(len(running))
        await asyncio.sleep(0.001 * (5 - number))
        running.discard(number)
        return number

    assert asyncio.run(together([work(number) for number in range(5)], most=2)) == [0, 1, 2, 3, 4]
    assert max(most) == 2
    assert asyncio.run(together([])) == []
    assert asyncio.run(together([work(3)])) == [3]


@pytest.mark.parametrize("most", [None, 1, 2])
def test_the_first_that_fails_ends_the_others(most):
    began, ended = [], []

    async def work(number):
        began.append(number)
        try:
            await asyncio.sleep(0 if number == 1 else 60)
            raise LookupError(number)
        finally:
            ended.append(number)

    async def main():
        first = work(1)
        with pytest.raises(LookupError):
            await together([first, *[work(number) for number in range(2, 5)]], most=most)
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(main()) == set()
    assert sorted(began) == sorted(ended)


def test_tasks_that_do_not_want_to_end_are_waited_for():
    async def main():
        async def stubborn():
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(0.01)
                raise ValueError from None

        task = asyncio.ensure_future(stubborn())
        await asyncio.sleep(0)
        await end([task])
        return task.done()

    assert asyncio.run(main())
