"""S3 on a real server: right bytes under faults, one request, drift noticed, refusals in one sentence."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from s3fs import S3FileSystem

import jnrrdz
from jnrrdz.errors import DriftError, JnrrdzError
from jnrrdz.sources import retry
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.s3 import Bucket, S3Transport, sign
from tests.servers.seaweed import ADMIN, READABLE, READER
from tests.writers import tiff_bytes

DATA = bytes(range(251)) * 400
KEYS = ["a.bin", "d/a b+c.bin", "ü/%41/~=&;@$,'()*!.bin", "d//x?y#z.bin"]
SECRETS = (ADMIN[0][4:], ADMIN[1], READER[1])


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(retry, "FIRST_SILENCE", 0.3)


def tiff(value: int) -> bytes:
    return tiff_bytes(np.full((32, 32), value, np.uint8))


@pytest.mark.parametrize("key", KEYS)
def test_signed_ranges_of_any_key(seaweed, bucket, key):
    etag = seaweed.put(bucket, key, DATA)
    source = open_source(f"s3://{bucket}/{key}", storage_options=seaweed.options())
    assert source.read([(5, 9), (100_000, 200_000), (300_000, 300_001)]) == [DATA[5:9], DATA[100_000:], b""]
    assert (source.validators.size, source.validators.etag) == (len(DATA), etag)
    assert open_source(f"s3://{bucket}/{key}", storage_options=seaweed.options()).validators.etag == etag


def test_a_small_file_is_one_request_on_one_connection(seaweed, bucket, make_proxy, tmp_path):
    etag = seaweed.put(bucket, "a.tif", tiff(7))
    proxy = make_proxy(seaweed.port)
    options = seaweed.options(endpoint_url=proxy.url)
    jnrrdz.index(f"s3://{bucket}/a.tif", tmp_path / "refs.json", storage_options=options)
    assert [each.method for each in proxy.requests if each.path.endswith("a.tif")] == ["GET"]
    first, last = proxy.requests[0].range.removeprefix("bytes=").split("-")
    assert int(last) - int(first) < 65536
    assert etag.strip('"') in (tmp_path / "refs.json").read_text()


def test_threads_share_their_connections(seaweed, bucket, make_proxy):
    seaweed.put(bucket, "a", DATA)
    proxy = make_proxy(seaweed.port)
    options = seaweed.options(endpoint_url=proxy.url)
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda i: open_source(f"s3://{bucket}/a", storage_options=options).read([(i, i + 9)]), range(80))
        )
    assert found == [[DATA[i : i + 9]] for i in range(80)]
    assert proxy.connections <= 4


@pytest.mark.usefixtures("quick")
def test_faults_change_no_byte(seaweed, bucket, make_proxy):
    seaweed.put(bucket, "a", DATA)
    proxy = make_proxy(seaweed.port, unavailable=0.1, reset=0.05, truncate=0.05, stall=0.02, seed=1)
    source = open_source(f"s3://{bucket}/a", storage_options=seaweed.options(endpoint_url=proxy.url))
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda i: source.read([(i * 100, i * 100 + 5000)]), range(300)))
    assert found == [[DATA[i * 100 : i * 100 + 5000]] for i in range(300)]
    assert {each.fault for each in proxy.requests} == {None, "unavailable", "reset", "truncate", "stall"}


@pytest.mark.usefixtures("quick")
def test_attempts_are_bounded_and_nothing_truncated_passes(seaweed, bucket, make_proxy):
    seaweed.put(bucket, "a", DATA)
    for fault, said in (("truncate", "reading failed"), ("unavailable", "busy each time")):
        proxy = make_proxy(seaweed.port, **{fault: 1})
        with pytest.raises(JnrrdzError, match=said):
            open_source(f"s3://{bucket}/a", storage_options=seaweed.options(endpoint_url=proxy.url)).read([(0, 99)])
        assert len(proxy.requests) == retry.ATTEMPTS


REFUSALS = {
    "wrong secret": (READABLE, "a", {"secret": "wrongSecretExample"}, "secret key does not belong.*ADMI"),
    "unknown key": (READABLE, "a", {"key": "NOBODYKEY", "secret": "x"}, "does not know the access key.*NOBO"),
    "no bucket": ("nothere", "a", {}, "no such bucket as nothere"),
    "no object": (READABLE, "none", {}, "not found: the bucket readable has no object none"),
    "anonymous": (READABLE, "a", {"key": None, "secret": None, "anon": True}, "may not be read.*anonymously"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_is_one_sentence(seaweed, case):
    seaweed.put(READABLE, "a", DATA)
    bucket, key, options, said = REFUSALS[case]
    with pytest.raises(JnrrdzError, match=said) as error:
        open_source(f"s3://{bucket}/{key}", storage_options=seaweed.options(**options)).read([(0, 9)])
    assert isinstance(error.value.__cause__, PermissionError | FileNotFoundError)
    assert not any(secret in str(error.value) for secret in (*SECRETS, "wrongSecretExample", "DYKEY"))


def test_a_reader_is_denied_another_bucket(seaweed, bucket):
    seaweed.put(bucket, "a", DATA)
    with pytest.raises(JnrrdzError, match=rf"{bucket}/a may not be read.*READ\.\.\. from the storage options"):
        open_source(f"s3://{bucket}/a", storage_options=seaweed.options(READER)).read([(0, 9)])


@pytest.mark.parametrize("same_size", [True, False])
def test_an_object_replaced_after_indexing_is_drift(seaweed, bucket, tmp_path, same_size):
    seaweed.put(bucket, "a.tif", tiff(7))
    refs = tmp_path / "refs.json"
    jnrrdz.index(f"s3://{bucket}/a.tif", refs, storage_options=seaweed.options())
    seaweed.put(bucket, "a.tif", tiff(8) + (b"" if same_size else b"more"))
    with pytest.raises(DriftError, match="changed since it was scanned") as error:
        jnrrdz.open_group(str(refs), source_options=seaweed.options())["data"][:]
    assert f"s3://{bucket}/a.tif" in str(error.value)


SIGNED = [
    ("GET", "http://127.0.0.1:8333/bucket/a.tif", {"Range": "bytes=0-32767"}),
    ("GET", "https://b.s3.eu-central-1.amazonaws.com/a/b%20c/%C3%A4~.tif", {"Range": "bytes=5-6", "If-Match": '"x"'}),
    (
        "HEAD",
        "https://s3.amazonaws.com:443/bucket//a/../b.tif?versionId=a%2Fb%3D",
        {"x-amz-request-payer": "requester"},
    ),
    ("GET", "http://[::1]:9000/bucket/a.tif?b=2&a=1&a=0&c", {"Accept-Encoding": "identity", "X-Odd": "  two   words "}),
    ("GET", "https://Bucket.Example.org/", {}),
]


@pytest.mark.parametrize("token", [None, "session/token=="])
@pytest.mark.parametrize(("method", "url", "headers"), SIGNED)
def test_a_signature_is_the_one_that_botocore_makes(method, url, headers, token):
    credentials = Credentials("AKIAEXAMPLE", "secret/+key", token).get_frozen_credentials()
    request = AWSRequest(method, url, headers=headers)
    S3SigV4Auth(credentials, "s3", "eu-central-1").add_auth(request)
    now = datetime.strptime(request.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    made = sign(method, url, headers, credentials, region="eu-central-1", now=now)
    assert {name.lower(): value for name, value in made.items()} == {
        name.lower(): value for name, value in request.headers.items()
    }


@pytest.mark.parametrize(
    ("region", "url"),
    [
        ("eu-central-1", "https://b.s3.eu-central-1.amazonaws.com/"),
        ("evil.example/#", "https://b.s3.amazonaws.com/"),
        (r"\1.evil.example", "https://b.s3.amazonaws.com/"),
    ],
)
def test_only_a_region_s_name_becomes_a_part_of_a_host(region, url):
    bucket = Bucket(S3FileSystem(anon=True, skip_instance_cache=True), "b")
    bucket.url = "https://b.s3.amazonaws.com/"
    transport = S3Transport(bucket, "k", None)
    answer = SimpleNamespace(method="HEAD", status=301, headers={"x-amz-bucket-region": region})
    with suppress(retry.Transient):  # asks again in the region
        asyncio.run(transport._refusal(answer))  # noqa: SLF001  no server here is one of AWS
    assert bucket.url == url
