"""A request is given up as soon as what its host has answered so far allows, and not sooner."""

import asyncio

import fsspec
import pytest
from fsspec.asyn import AsyncFileSystem

from jnrrdz.errors import JnrrdzError
from jnrrdz.sources import http as pace
from jnrrdz.sources import retry
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.http import ENOUGH, SHORTEST_SILENCE, TIMES, Pace

DATA = bytes(range(251)) * 40


def paced(*seen):
    made = Pace()
    for seconds in seen:
        made.note(seconds)
    return made


@pytest.mark.parametrize(
    ("seen", "first"),
    [
        ([], retry.FIRST_SILENCE),
        ([0.001] * (ENOUGH - 1), retry.FIRST_SILENCE),
        ([0.001] * ENOUGH, SHORTEST_SILENCE),
        ([0.5] * ENOUGH, TIMES * 0.5),
        ([0.1] * 50 + [0.5] * 14, TIMES * 0.5),  # one in ten is not rare
        ([3.0] * ENOUGH, retry.FIRST_SILENCE),
        ([0.001] * 60 + [9.0] * 4, SHORTEST_SILENCE),  # stalls change nothing
        ([0.001] * 200 + [0.5] * 64, TIMES * 0.5),  # what is long ago is forgotten
    ],
)
def test_patience_follows_the_slow_answers(seen, first):
    made = paced(*seen)
    assert made.silence(0) == pytest.approx(first)
    assert [made.silence(n) / made.silence(0) for n in (1, 2)] == pytest.approx([2, 4])
    assert all(made.silence(n) <= retry.silence(n) for n in range(9))


def test_each_host_has_its_own():
    first = pace.of("http://a.example/x?y")
    assert pace.of("http://a.example/z") is first
    assert pace.of("http://a.example:81/x") is not first
    for number in range(300):  # no more than some hundred are remembered
        pace.of(f"http://h{number}.example/")
    assert pace.of("http://a.example/") is not first


def test_a_stall_costs_no_more_than_the_host_s_pace(seaweed, bucket, make_proxy, monkeypatch):
    seaweed.put(bucket, "a", DATA)
    proxy = make_proxy(seaweed.port)
    options = seaweed.options(endpoint_url=proxy.url)
    source = open_source(f"s3://{bucket}/a", storage_options=options)
    for number in range(ENOUGH):
        source.read([(number, number + 9)])
    waited = []
    asked = Pace.silence
    monkeypatch.setattr(Pace, "silence", lambda self, attempt: waited.append(asked(self, attempt)) or 0.05)
    proxy.faults = type(proxy.faults)(stall=1, times=1)
    assert source.read([(100, 200)]) == [DATA[100:200]]
    assert waited == pytest.approx([SHORTEST_SILENCE, 2 * SHORTEST_SILENCE])
    assert [each.fault for each in proxy.requests[-2:]] == ["stall", None]


class Flaky(AsyncFileSystem):
    """A store whose answers break as they are told to, one after another."""

    protocol = "flaky"
    cachable = False
    breaks: list = []  # noqa: RUF012
    asked = 0

    async def _info(self, path, **_):
        return {"name": path, "size": len(DATA), "type": "file"}

    async def _cat_file(self, _, start=None, end=None, **__):
        Flaky.asked += 1
        broken = Flaky.breaks.pop(0) if Flaky.breaks else None
        if isinstance(broken, Exception):
            raise broken
        return DATA[start : end - (broken or 0)]


@pytest.fixture
def flaky(monkeypatch):
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(Flaky, "asked", 0)

    def source(*breaks):
        monkeypatch.setattr(Flaky, "breaks", list(breaks))
        return open_source("flaky://a")

    return source


@pytest.mark.parametrize(
    "broken", [TimeoutError(), ConnectionResetError(), EOFError(), asyncio.IncompleteReadError(b"", 9), 3]
)
def test_other_stores_are_asked_again_too(flaky, broken):
    assert flaky(broken, broken).read([(7, 30)]) == [DATA[7:30]]
    assert Flaky.asked == 3


@pytest.mark.parametrize(
    ("broken", "asked"),
    [
        (ValueError("x"), 1),
        (PermissionError("x"), 1),
        (ConnectionRefusedError("x"), 1),
        (-3, 1),
        (3, 6),
        (TimeoutError(), 6),
    ],
)
def test_but_not_for_ever_nor_for_what_lasts(flaky, broken, asked):
    with pytest.raises(JnrrdzError):
        flaky(*[broken] * 20).read([(7, 30)])
    assert Flaky.asked == asked


def test_s3_through_s3fs_meets_faults(seaweed, bucket, make_proxy, monkeypatch):
    seaweed.put(bucket, "a", DATA)
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.001)
    proxy = make_proxy(seaweed.port, reset=0.1, truncate=0.2, seed=2)
    # an agent of one's own is what the signed requests do not send
    options = seaweed.options(endpoint_url=proxy.url, config_kwargs={"user_agent_extra": "x"})
    source = open_source(f"s3://{bucket}/a", storage_options=options)
    assert [source.read([(i, i + 500)])[0] for i in range(60)] == [DATA[i : i + 500] for i in range(60)]
    assert {"reset", "truncate"} <= {each.fault for each in proxy.requests}
