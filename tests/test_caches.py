"""A bounded cache keeps what was used last, within its bounds, whichever threads use it."""

import threading
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.caches import BoundedCache


def test_what_was_not_used_for_longest_leaves_first():
    cache = BoundedCache(most=2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert cache.entries() == [("a", 1), ("c", 3)]
    assert cache.get("b") is None


def test_a_value_takes_the_place_of_an_older_one():
    cache = BoundedCache(most_bytes=10, nbytes=len)
    cache.put("a", b"123456")
    cache.put("a", b"12345678")
    assert (cache.get("a"), cache.nbytes, len(cache)) == (b"12345678", 8, 1)


def test_a_value_larger_than_the_bound_is_not_kept_and_moves_no_other():
    cache = BoundedCache(most_bytes=10, nbytes=len)
    cache.put("a", b"1234")
    cache.put("b", bytes(11))
    assert "b" not in cache
    assert cache.get("a") == b"1234"
    cache.put("a", bytes(11))
    assert (len(cache), cache.nbytes) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from("pg"), st.integers(0, 6), st.integers(0, 40)), max_size=60))
def test_the_bounds_hold_and_no_value_is_another_keys(steps):
    cache = BoundedCache(most=4, most_bytes=60, nbytes=len)
    model = OrderedDict()
    for step, key, size in steps:
        if step == "p":
            cache.put(key, bytes(size))
            model.pop(key, None)
            model[key] = bytes(size)
            while len(model) > 4 or sum(map(len, model.values())) > 60:
                model.popitem(last=False)
        else:
            assert cache.get(key) == model.get(key)
            if key in model:
                model.move_to_end(key)
        assert cache.entries() == list(model.items())
        assert cache.nbytes == sum(map(len, model.values()))


def test_what_leaves_for_room_is_reported_and_what_is_dropped_is_not():
    left = []
    cache = BoundedCache(most=1, on_eviction=lambda key, value: left.append((key, value)))
    cache.put("a", 1)
    cache.put("b", 2)
    assert (cache.pop("b"), cache.pop("b")) == (2, None)
    cache.put("c", 3)
    cache.clear()
    assert left == [("a", 1)]
    assert cache.get("c") is None


def test_threads_that_ask_at_one_time_make_a_value_once():
    cache, calls, all_ask = BoundedCache(most=2), [], threading.Barrier(4)

    def make():
        calls.append(1)
        return 5

    def ask():
        all_ask.wait()
        found.append(cache.made("a", make))

    found = []
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, calls) == ([5] * 4, [1])


def test_a_value_that_cannot_be_made_is_asked_for_again():
    cache = BoundedCache(most=2)

    def fail():
        raise LookupError

    with pytest.raises(LookupError):
        cache.made("a", fail)
    assert cache.made("a", lambda: 2) == 2


def test_a_forked_process_does_not_wait_for_its_parents_lock():
    cache = BoundedCache(most=2)
    parent = threading.Thread(target=cache.made, args=("a", lambda: held.set() or ends.wait(10) or 1))
    held, ends = threading.Event(), threading.Event()
    parent.start()
    held.wait(10)
    cache.unlock_in_child()
    assert cache.get("b") is None
    ends.set()
    parent.join()
