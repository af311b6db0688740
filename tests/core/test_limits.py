"""The budget of a source, and the table of its numbers."""

import re
from pathlib import Path

import pytest

from jnrrdz.core import limits
from jnrrdz.core.limits import LIMITS, Budget, Resource
from jnrrdz.errors import UnsupportedError

DOCUMENT = Path(__file__).parents[2] / "docs" / "limits.md"


@pytest.mark.parametrize("kind", Resource)
@pytest.mark.parametrize("size", [0, 1000, 1 << 40])
def test_counts_up_to_the_limit_are_charged(kind, size):
    budget = Budget(size, "a.bin")
    most = budget.most(kind)
    budget.charge(kind, most - 1)
    budget.charge(kind, 1)
    message = rf"a\.bin: field: {most + 1} {kind.value}, and a source of {size} bytes may have {most}; .+ \(at byte 7\)"
    with pytest.raises(UnsupportedError, match=message):
        budget.charge(kind, 1, field="field", offset=7)
    assert budget.charged(kind) == most


def test_a_refused_count_is_not_kept():
    budget = Budget(0)
    with pytest.raises(UnsupportedError):
        budget.charge(Resource.CHUNKS, 1 << 40)
    budget.charge(Resource.CHUNKS, 1)


def test_kinds_are_charged_one_by_one():
    budget = Budget(0)
    for kind in Resource:
        budget.charge(kind, budget.most(kind))


def test_limits_grow_with_the_source():
    assert Budget(160).most(Resource.MISSING_CHUNKS) == (1 << 22) + 10
    assert Budget(160).most(Resource.CHUNKS) == (1 << 20) + 160


def written(limit):
    """A limit in the words of the table."""
    free = f"{limit.free:,}"
    if not limit.count:
        return free
    if limit.count > 1:
        return f"{free} and {limit.count} for each byte"
    each = "byte" if limit.per_bytes == 1 else f"{limit.per_bytes} bytes"
    return f"{free} and one for each {each}"


def test_the_table_has_these_numbers():
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    shown = {name: (number, what) for name, number, what in rows}
    for kind, limit in LIMITS.items():
        assert shown.get(kind.value) == (written(limit), limit.what), (
            f"| {kind.value} | {written(limit)} | {limit.what} |"
        )
    for name, value in limits.FIXED.items():
        assert name in shown
        assert shown[name][0] == f"{value:,}"
