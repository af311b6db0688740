"""The servers behave as the tests that use them take for granted."""

import asyncio
import urllib.error
import urllib.request

import aiohttp
import botocore.exceptions
import pytest

from tests.servers.proxy import Faults
from tests.servers.seaweed import READABLE

DATA = bytes(range(256)) * 40


def _get(url: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def test_seaweed_answers_ranges_and_honours_if_match(seaweed, bucket):
    etag = seaweed.put(bucket, "a", DATA)
    answer = seaweed.client.get_object(Bucket=bucket, Key="a", Range="bytes=10-19", IfMatch=etag)
    assert (answer["Body"].read(), answer["ContentRange"]) == (DATA[10:20], f"bytes 10-19/{len(DATA)}")
    with pytest.raises(botocore.exceptions.ClientError, match=r"412|PreconditionFailed"):
        seaweed.client.get_object(Bucket=bucket, Key="a", IfMatch='"other"')


def test_seaweed_asks_for_credentials(seaweed):
    seaweed.put(READABLE, "a", DATA)
    assert _get(f"{seaweed.url}/{READABLE}/a")[0] == 403


def test_nginx_answers_ranges_with_an_etag_or_not_at_all(nginx):
    (nginx.files / "a").write_bytes(DATA)
    nginx.answered()
    status, body, headers = _get(f"{nginx.url}/a", Range="bytes=10-19")
    assert (status, body) == (206, DATA[10:20])
    assert _get(f"{nginx.url}/a", Range="bytes=10-19", **{"If-Match": '"other"'})[0] == 412
    assert _get(f"{nginx.url}/a", **{"If-Match": headers["ETag"]})[0] == 200
    assert _get(f"{nginx.url_without_ranges}/a", Range="bytes=10-19")[:2] == (200, DATA)
    assert _get(f"{nginx.url_private}/a")[0] == 401
    assert [each.status for each in nginx.answered()] == [206, 412, 200, 200, 401]


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ({}, "206 10"),
        ({"unavailable": 1}, "503"),
        ({"unavailable": 1, "status": 429, "retry_after": "2"}, "429 after 2"),
        ({"reset": 1}, "ClientOSError|ServerDisconnectedError"),
        ({"truncate": 1}, "ClientPayloadError"),
        ({"stall": 1}, "TimeoutError"),
        ({"reset": 1, "times": 0}, "206 10"),
    ],
)
def test_the_proxy_breaks_what_it_is_told_to(nginx, make_proxy, fault, seen):
    (nginx.files / "a").write_bytes(DATA)
    proxy = make_proxy(nginx.port, **fault)
    assert asyncio.run(_outcome(f"{proxy.url}/a")) in seen.split("|")
    assert len(proxy.requests) == proxy.connections  # aiohttp itself asks once more after a reset
    assert {each.range for each in proxy.requests} == {"bytes=10-19"}


async def _outcome(url: str) -> str:
    timeout, headers = aiohttp.ClientTimeout(sock_read=0.2), {"Range": "bytes=10-19"}
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, headers=headers) as answer:
            body = await answer.read()
            after = answer.headers.get("Retry-After")
            return (
                f"206 {len(body)}" if answer.status == 206 else f"{answer.status}{f' after {after}' if after else ''}"
            )
    except (aiohttp.ClientError, TimeoutError) as error:
        return "TimeoutError" if isinstance(error, TimeoutError) else type(error).__name__


def test_faults_come_in_their_shares_and_the_same_each_time():
    faults = Faults(unavailable=0.1, reset=0.02, truncate=0.02, stall=0.01, seed=3)
    met = [faults.of("GET", f"/{number}", "", 0) for number in range(5000)]
    assert met == [faults.of("GET", f"/{number}", "", 0) for number in range(5000)]
    assert [round(met.count(name) / 5000, 2) for name in ("unavailable", "reset", "truncate")] == [0.1, 0.02, 0.02]
    assert 20 < met.count("stall") < 80
