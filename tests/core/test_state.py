"""One rule says whether a source has changed, however its two states are described."""

import pytest

from jnrrdz.core.arrays import SourceRecord
from jnrrdz.core.state import ObjectState, Validators, nanoseconds, version_number

EARLY, LATE = "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.500000000Z"
ETAG = version_number('"a"')

CASES = {
    "nothing is recorded": (SourceRecord("a"), Validators(1, '"a"', "1", EARLY), None),
    "size": (SourceRecord("a", 1), Validators(2), "size was 1, is 2"),
    "version": (Validators(1, '"a"', "1"), Validators(1, '"a"', "2"), "version was 1, is 2"),
    "version that one has not": (Validators(1, '"a"', "1"), Validators(1, '"a"'), None),
    "ETag": (Validators(1, '"a"'), Validators(1, '"b"'), 'ETag was "a", is "b"'),
    "ETag without its quotes": (Validators(1, '"a"'), Validators(1, "a"), None),
    "weak ETag": (Validators(1, 'W/"a"'), Validators(1, '"a"'), None),
    "time next to an ETag": (Validators(1, '"a"', None, EARLY), Validators(1, '"a"', None, LATE), None),
    "time, ETag is new": (Validators(1, None, None, EARLY), Validators(1, '"a"', None, LATE), None),
    "time, ETag is gone": (
        Validators(1, '"a"', None, EARLY),
        Validators(1, None, None, LATE),
        f"time of modification was {EARLY}, is {LATE}",
    ),
    "object's size": (ObjectState(1, ETAG), Validators(2, '"a"'), "size was 1, is 2"),
    "object's ETag": (ObjectState(1, ETAG), Validators(1, '"b"'), 'ETag is "b", and was another one'),
    "object's ETag, weak": (ObjectState(1, ETAG), Validators(1, 'W/"a"'), None),
    "object's ETag is gone": (ObjectState(1, ETAG), Validators(1, None, None, LATE), None),
    "object's time": (
        ObjectState(1, nanoseconds(EARLY)),
        Validators(1, None, None, LATE),
        f"time of modification was {EARLY}, is {LATE}",
    ),
    "object's time, ETag is new": (ObjectState(1, nanoseconds(EARLY)), Validators(1, '"a"', None, LATE), None),
    "object's time in a listing": (ObjectState(1, 500), Validators.of_listing(1, 500), None),
    "object without a mark": (ObjectState(1, 0), Validators(1, '"a"', None, LATE), None),
}


@pytest.mark.parametrize(("then", "now", "difference"), CASES.values(), ids=CASES)
def test_what_shows_that_a_source_has_changed(then, now, difference):
    assert then.difference(now) == difference
    drift = then.drift(now)
    assert (drift is None) == (difference is None)
    if drift is not None:
        assert drift.message == f"changed since it was scanned: {difference}; jnrrdz refresh or index scans it again"


def test_times_do_not_count_where_a_copy_has_another_one():
    then, now = Validators(1, None, None, EARLY), Validators(1, None, None, LATE)
    assert then.difference(now) is not None
    assert then.difference(now, times=False) is None
    assert then.difference(Validators(2), times=False) == "size was 1, is 2"


@pytest.mark.parametrize(("url", "is_same"), {"/data/a.tif": True, "s3://b/a.tif": False}.items())
def test_two_records_of_a_local_file_may_differ_in_time(url, is_same):
    one, other = SourceRecord(url, 1, modified=EARLY), SourceRecord(url, 1, modified=LATE)
    assert (one.contradiction(other) is None) == is_same


PROOFS = {
    "size alone": (Validators(1), Validators(1), False),
    "ETag": (Validators(1, '"a"'), Validators(1, 'W/"a"'), True),
    "another ETag": (Validators(1, '"a"', None, EARLY), Validators(1, '"b"', None, EARLY), False),
    "time": (Validators(1, None, None, EARLY), Validators(1, None, None, EARLY), True),
    "time, ETag is new": (Validators(1, None, None, EARLY), Validators(1, '"a"', None, LATE), False),
    "another size": (Validators(1, '"a"'), Validators(2, '"a"'), False),
    "size is not recorded": (SourceRecord("a", None, '"a"'), Validators(1, '"a"'), False),
}


@pytest.mark.parametrize(("then", "now", "is_proven"), PROOFS.values(), ids=PROOFS)
def test_what_proves_that_a_source_has_not_changed(then, now, is_proven):
    assert then.is_proven_by(now) == is_proven
