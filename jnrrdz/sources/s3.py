"""Ranges of S3 objects: what s3fs knows (credentials, endpoint, region), asked by the HTTP transport.

Through aiobotocore a request costs four times the CPU, a truncated body is not asked for again, and the first
answer's validators are thrown away; why not obstore: docs/decisions/011-object-stores.md.  What this does not sign
(`is_plain`) goes through s3fs itself.
https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html

botocore takes a third of a request's time to sign it, for it works out anew what is the same all day, and where the
host, the path and the headers are.  `sign` does what is needed of signature version 4 for requests without a body.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

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
from jnrrdz.sources.http import HttpTransport, patience
from jnrrdz.sources.retry import Transient

_CLIENT_OPTIONS = {"region_name", "endpoint_url", "use_ssl", "aws_access_key_id", "aws_secret_access_key"}
_CLIENT_OPTIONS |= {"aws_session_token"}
_CONFIG = {"max_pool_connections", "read_timeout", "connect_timeout", "retries", "s3", "region_name"}
_CODE = re.compile(rb"<Code>([^<]+)</Code>")
_REGION = re.compile(rb"<Region>([a-z0-9-]+)</Region>")
_AWS_HOST = re.compile(r"\bs3(?:[.-][a-z0-9-]+)?(\.amazonaws\.com(?:\.cn)?)(?=[:/])")
_ERROR_LIMIT = 1 << 14
_CONNECTIONS = 256


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


def sign(  # noqa: PLR0913  what is signed, by whom, where and when
    method: str, url: str, headers: Mapping[str, str], credentials: Any, *, region: str, now: datetime
) -> dict[str, str]:
    """Return the headers of a request without a body, signed; `credentials` are frozen ones, as botocore has them."""
    time, parts = now.strftime("%Y%m%dT%H%M%SZ"), urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    host = host if parts.port in {None, _PORTS[parts.scheme]} else f"{host}:{parts.port}"
    sent = {**headers, "X-Amz-Date": time, "X-Amz-Content-SHA256": _NOTHING}
    if credentials.token:
        sent["X-Amz-Security-Token"] = credentials.token
    signed = sorted([("host", host), *((name.lower(), " ".join(value.split())) for name, value in sent.items())])
    names = ";".join(name for name, _ in signed)
    members = sorted(member.partition("=") for member in parts.query.split("&") if member)
    query = "&".join(f"{name}={value}" for name, _, value in members)
    lines = "".join(f"{name}:{value}\n" for name, value in signed)
    canonical = f"{method}\n{parts.path or '/'}\n{query}\n{lines}\n{names}\n{_NOTHING}"
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
        trust_env=proxied, connector=aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=trusted), **kwargs
    )


class S3Transport(HttpTransport):
    """One object of a bucket, each request signed by itself."""

    _final = frozenset({403, 404, 301})

    def __init__(self, fs: Any, path: str) -> None:
        super().__init__(filesystems.of("http", {"get_client": _client, "encoded": True}), "")
        self._s3 = fs
        self._bucket, self._key, self._wanted_version = fs.split_path(path)
        self._region = ""
        self._credentials: Any = None
        self._corrected = False

    _connections = _CONNECTIONS

    def _waits(self, usual: aiohttp.ClientTimeout) -> aiohttp.ClientTimeout:
        config = self._s3.config_kwargs  # the user's own time-outs, where there are any
        return patience(
            config.get("connect_timeout") or usual.sock_connect, config.get("read_timeout") or usual.sock_read
        )

    async def _send(
        self, method: str, headers: dict[str, str], waits: aiohttp.ClientTimeout | None
    ) -> aiohttp.ClientResponse:
        signed = await self._signed(method, {**headers, **self._condition(method)})
        session = await self._fs.set_session()
        url = yarl.URL(self._url, encoded=True)
        options: dict[str, Any] = {"allow_redirects": False, "auto_decompress": False, "timeout": waits}
        answer: aiohttp.ClientResponse = await session.request(method, url, headers=signed, **options)
        return answer

    async def _prepare(self) -> None:
        """Find out where the bucket is and who asks, once."""
        if self._url:
            return
        await self._s3.set_session()
        client = await self._s3.get_s3(self._bucket)
        if not self._s3.anon:
            self._credentials = await self._found_credentials()
        # file systems of one set of options are equal to fsspec, whatever endpoint the environment gave each
        places: dict[str, str] = vars(self._s3).setdefault("_jnrrdz_places", {})
        if self._bucket not in places:
            shown = await client.generate_presigned_url("get_object", Params={"Bucket": self._bucket, "Key": "k"})
            places[self._bucket] = shown.partition("?")[0].removesuffix("k")
        self._region = client.meta.region_name or "us-east-1"
        self._region = "us-east-1" if self._region == "aws-global" else self._region
        version = f"?versionId={quote(self._wanted_version, safe='')}" if self._wanted_version else ""
        self._url = f"{places[self._bucket]}{quote(self._key, safe='/~')}{version}"

    async def _found_credentials(self) -> Any:
        fs, given = self._s3, self._s3.client_kwargs
        key = fs.key or given.get("aws_access_key_id")
        if key:
            secret = fs.secret or given.get("aws_secret_access_key")
            return botocore.credentials.Credentials(key, secret, fs.token or given.get("aws_session_token"), "options")
        found = await fs.session.get_credentials()
        if found is None:
            raise s3_faults.no_credentials(self._bucket)
        return found

    async def _signed(self, method: str, headers: Mapping[str, str]) -> dict[str, str]:
        payer = self._s3.req_kw.get("RequestPayer")
        more = {"x-amz-request-payer": payer} if payer else {}
        if self._credentials is None:
            return {**headers, **more}
        frozen = self._credentials.get_frozen_credentials()
        frozen = await frozen if hasattr(frozen, "__await__") else frozen  # those that renew themselves
        return sign(method, self._url, {**headers, **more}, frozen, region=self._region, now=datetime.now(UTC))

    async def _refusal(self, answer: aiohttp.ClientResponse) -> JnrrdzError:
        body = await answer.content.read(_ERROR_LIMIT) if answer.method != "HEAD" else b""
        code = _CODE.search(body)
        told = _REGION.search(body)
        region = answer.headers.get("x-amz-bucket-region") or (told[1].decode() if told else None)
        name = code[1].decode() if code else str(answer.status)
        identity = "anonymously"
        if self._credentials is not None:
            profile = getattr(self._s3.session, "profile", None)
            identity = s3_faults.identity(self._credentials.access_key, self._credentials.method, profile)
        error = s3_faults.explain_s3(name, self._bucket, self._key, identity, region=region)
        if region and s3_faults.is_elsewhere(name) and (self._corrected or region != self._region):
            if not self._corrected:  # ask where the bucket really is from now on
                self._corrected = True
                self._region = region
                self._url = _AWS_HOST.sub(rf"s3.{region}\1", self._url, count=1)
            raise Transient(error, 0)  # those that were under way meanwhile ask again too
        return error
