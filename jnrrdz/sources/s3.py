"""Ranges of S3 objects: what s3fs knows (credentials, endpoint, region), asked by the HTTP transport.

Through aiobotocore a request costs four times the CPU, a truncated body is not asked for again, and the first
answer's validators are thrown away; why not obstore: docs/decisions/011-object-stores.md.  What this does not sign
(`is_plain`) goes through s3fs itself.
https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html

botocore takes a third of a request's time to sign it, for it works out anew what is the same all day, and where the
host, the path and the headers are.  `sign` does what is needed of signature version 4 for requests without a body.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import asyncio
import hashlib
import hmac
import os
import re
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies

import aiohttp
import botocore.credentials
import yarl

from jnrrdz.errors import JnrrdzError
from jnrrdz.sources import faults as s3_faults
from jnrrdz.sources import filesystems
from jnrrdz.sources.guard import AddressGuard
from jnrrdz.sources.http import HttpTransport, Pace, of, patience
from jnrrdz.sources.retry import Transient

_CLIENT_OPTIONS = {"region_name", "endpoint_url", "use_ssl", "aws_access_key_id", "aws_secret_access_key"}
_CLIENT_OPTIONS |= {"aws_session_token"}
_CONFIG = {"max_pool_connections", "read_timeout", "connect_timeout", "retries", "s3", "region_name"}
_CODE = re.compile(rb"<Code>([^<]+)</Code>")
_REGION = re.compile(rb"<Region>([a-z0-9-]+)</Region>")
_REGION_NAME = re.compile(r"[a-z0-9-]{1,32}")
_AWS_HOST = re.compile(r"\bs3(?:[.-][a-z0-9-]+)?(\.amazonaws\.com(?:\.cn)?)(?=[:/])")
_ERROR_LIMIT = 1 << 14
_CONNECTIONS = 256
_NAMED = AddressGuard()
"""The guard of what botocore is asked where it is; no redirect is followed."""


def is_plain(fs: Any, bucket: str) -> bool:
    """Whether signature version 4 and aiohttp alone do what the options ask for."""
    return (
        not bucket.endswith("--x-s3")  # directory buckets have sessions of their own
        and not bucket.startswith("arn:")
        and not fs.s3_additional_kwargs
        and set(fs.client_kwargs) <= _CLIENT_OPTIONS
        and set(fs.config_kwargs) <= _CONFIG
    )


_NOTHING = hashlib.sha256(b"").hexdigest()
"""The digest of a body that is empty."""
_PORTS = {"http": 80, "https": 443}


@lru_cache(16)
def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


@lru_cache(4)
def _spelt(second: datetime) -> str:
    return second.strftime("%Y%m%dT%H%M%SZ")


@lru_cache(64)
def _host(scheme: str, authority: str) -> str:
    """Return the host as the client sends it: without the user, and without the port where it is the usual one."""
    parts = urlsplit(f"//{authority}")
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return host if parts.port in {None, _PORTS[scheme]} else f"{host}:{parts.port}"


def sign(  # noqa: PLR0913  what is signed, by whom, where and when
    method: str, url: str, headers: Mapping[str, str], credentials: Any, *, region: str, now: datetime
) -> dict[str, str]:
    """Return the headers of a request without a body, signed; `credentials` are frozen ones, as botocore has them."""
    scheme, _, rest = url.partition("://")
    authority, _, rest = rest.partition("/")
    path, _, query = rest.partition("?")
    time = _spelt(now.replace(microsecond=0))
    sent = {**headers, "X-Amz-Date": time, "X-Amz-Content-SHA256": _NOTHING}
    if credentials.token:
        sent["X-Amz-Security-Token"] = credentials.token
    signed = [(name.lower(), " ".join(value.split())) for name, value in sent.items()]
    signed.append(("host", _host(scheme, authority)))
    signed.sort()
    names = ";".join([name for name, _ in signed])
    if query:
        members = sorted(member.partition("=") for member in query.split("&") if member)
        query = "&".join(f"{name}={value}" for name, _, value in members)
    lines = "".join([f"{name}:{value}\n" for name, value in signed])
    canonical = f"{method}\n/{path}\n{query}\n{lines}\n{names}\n{_NOTHING}"
    scope = f"{time[:8]}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = _signing_key(credentials.secret_key, time[:8], region)
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    sent["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return sent


async def _client(**kwargs: Any) -> aiohttp.ClientSession:
    bundle = os.environ.get("AWS_CA_BUNDLE")
    trusted: ssl.SSLContext | bool = ssl.create_default_context(cafile=bundle) if bundle else True
    # with trust_env aiohttp asks threads of its own twice for each request, for proxies and for ~/.netrc
    proxied = bool(getproxies())
    return aiohttp.ClientSession(
        trust_env=proxied,
        connector=aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=trusted),
        cookie_jar=aiohttp.DummyCookieJar(),
        **kwargs,
    )


class Bucket:
    """Where the objects of a bucket are asked for, and as whom: found out once for all of them."""

    def __init__(self, fs: Any, name: str) -> None:
        self.fs = fs
        self.name = name
        self.url = ""
        """What stands before a key; empty until it is known."""
        self.region = ""
        self.is_corrected = False
        """Whether a server has told the region."""
        self.credentials: Any = None
        self.http = filesystems.of("http", {"get_client": _client, "encoded": True})
        self._turn = asyncio.Lock()

    async def prepare(self) -> None:
        """Find out where the bucket is and who asks."""
        async with self._turn:
            if self.url:
                return
            await self.fs.set_session()
            client = await self.fs.get_s3(self.name)
            if not self.fs.anon:
                self.credentials = await self._found_credentials()
            self.region = client.meta.region_name or "us-east-1"
            self.region = "us-east-1" if self.region == "aws-global" else self.region
            shown = await client.generate_presigned_url("get_object", Params={"Bucket": self.name, "Key": "k"})
            self.url = shown.partition("?")[0].removesuffix("k")

    def correct(self, region: str) -> None:
        """Ask in the region that a server has told."""
        self.is_corrected = True
        self.region = region
        self.url = _AWS_HOST.sub(rf"s3.{region}\1", self.url, count=1)

    async def _found_credentials(self) -> Any:
        fs, given = self.fs, self.fs.client_kwargs
        key = fs.key or given.get("aws_access_key_id")
        if key:
            secret = fs.secret or given.get("aws_secret_access_key")
            return botocore.credentials.Credentials(key, secret, fs.token or given.get("aws_session_token"), "options")
        found = await fs.session.get_credentials()
        if found is None:
            raise s3_faults.no_credentials(self.name)
        return found

    async def signed(self, method: str, url: str, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request with what the bucket wants besides."""
        payer = self.fs.req_kw.get("RequestPayer")
        asked = {**headers, "x-amz-request-payer": payer} if payer else {**headers}
        if self.credentials is None:
            return asked
        frozen = self.credentials.get_frozen_credentials()
        frozen = await frozen if hasattr(frozen, "__await__") else frozen  # those that renew themselves
        return sign(method, url, asked, frozen, region=self.region, now=datetime.now(UTC))


def transport(fs: Any, path: str) -> "S3Transport | None":
    """Return the way to an object; None where s3fs itself has to ask."""
    if "?versionId=" in path or path.startswith("arn:"):
        name, key, version = fs.split_path(path)
    else:  # as s3fs has it, which tries five patterns on each path
        (name, _, key), version = path.partition("/"), None
    # file systems of one set of options are equal to fsspec, whatever endpoint the environment gave each
    buckets: dict[str, Bucket | None] = vars(fs).setdefault("_jnrrdz_buckets", {})
    if name not in buckets:
        buckets[name] = Bucket(fs, name) if is_plain(fs, name) else None
    bucket = buckets[name]
    return None if bucket is None else S3Transport(bucket, key, version)


class S3Transport(HttpTransport):
    """One object of a bucket, each request signed by itself."""

    _final = frozenset({403, 404, 301})

    def __init__(self, bucket: Bucket, key: str, version: str | None) -> None:
        super().__init__(bucket.http, "", _NAMED)
        self._bucket, self._key = bucket, key
        self._wanted = quote(key, safe="/~")
        if version:
            self._wanted += f"?versionId={quote(version, safe='')}"

    _connections = _CONNECTIONS

    def _waits(self, connect: float, read: float) -> aiohttp.ClientTimeout:
        config = self._bucket.fs.config_kwargs  # the user's own time-outs, where there are any
        return patience(config.get("connect_timeout") or connect, config.get("read_timeout") or read)

    async def _prepare(self) -> None:
        if not self._bucket.url:
            await self._bucket.prepare()
        self._url = f"{self._bucket.url}{self._wanted}"

    def _pace(self) -> Pace:
        return of(self._bucket.url)

    async def _send(
        self, method: str, headers: dict[str, str], waits: aiohttp.ClientTimeout | None
    ) -> aiohttp.ClientResponse:
        signed = await self._bucket.signed(method, self._url, {**headers, **self._condition(method)})
        session = await self._fs.set_session()
        url = yarl.URL(self._url, encoded=True)
        options: dict[str, Any] = {"allow_redirects": False, "auto_decompress": False, "timeout": waits}
        answer: aiohttp.ClientResponse = await session.request(method, url, headers=signed, **options)
        return answer

    async def _refusal(self, answer: aiohttp.ClientResponse) -> JnrrdzError:
        body = await answer.content.read(_ERROR_LIMIT) if answer.method != "HEAD" else b""
        bucket = self._bucket
        code = _CODE.search(body)
        told = _REGION.search(body)
        region = answer.headers.get("x-amz-bucket-region") or (told[1].decode() if told else None)
        if region and not _REGION_NAME.fullmatch(region):  # it becomes a part of a host name
            region = None
        name = code[1].decode() if code else str(answer.status)
        identity = "anonymously"
        if bucket.credentials is not None:
            profile = getattr(bucket.fs.session, "profile", None)
            identity = s3_faults.identity(bucket.credentials.access_key, bucket.credentials.method, profile)
        error = s3_faults.explain_s3(name, bucket.name, self._key, identity, region=region)
        if region and s3_faults.is_elsewhere(name) and (bucket.is_corrected or region != bucket.region):
            if not bucket.is_corrected:
                bucket.correct(region)
            raise Transient(error, 0)  # those that were under way meanwhile ask again too
        return error
