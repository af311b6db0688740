"""What is kept is what was put, never more than the budget, the longest unused gone first."""

from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.store.requests import Recent, recent_nbytes


def test_the_longest_unused_range_leaves_first():
    recent = Recent(budget=40)
    for number in range(4):
        recent.put(("a", number, 10), bytes([number]) * 10)
    assert recent.get(("a", 0, 10)) == b"\0" * 10
    recent.put(("a", 4, 10), b"\4" * 10)
    assert recent.get(("a", 1, 10)) is None
    assert recent.get(("a", 0, 10)) is not None


def test_a_range_as_large_as_the_others_together_is_not_kept():
    recent = Recent(budget=40)
    recent.put(("a", 0, 11), bytes(11))
    assert recent.get(("a", 0, 11)) is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 30)), max_size=60))
def test_never_more_than_the_budget_and_never_other_bytes(puts):
    recent, model = Recent(budget=100), {}
    for place, length in puts:
        where, data = ("a", place, length), bytes([place]) * length
        recent.put(where, data)
        model[where] = data
    kept = {where: recent.get(where) for where in model}
    assert sum(len(data) for data in kept.values() if data is not None) <= 100
    assert all(data is None or data == model[where] for where, data in kept.items())


def test_all_stores_of_a_process_share_a_budget(monkeypatch):
    before = recent_nbytes()
    monkeypatch.setattr("jnrrdz.store.requests.PROCESS_BUDGET", before + 250)
    stores = [Recent(budget=100) for _ in range(8)]
    for store in stores:
        for number in range(10):
            store.put(("a", number, 10), bytes([number]) * 10)
        assert sum(each.nbytes for each in stores) <= 250
    assert recent_nbytes() <= before + 250
    assert stores[-1].get(("a", 9, 10)) == bytes([9]) * 10
    assert stores[0].get(("a", 9, 10)) is None
