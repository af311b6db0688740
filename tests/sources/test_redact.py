"""No credential of a URL in what is said or written; what names the object stays."""

import io
import urllib.parse

import botocore.config
import botocore.session
import numpy as np
import pytest
import tifffile
from click.testing import CliRunner

import jnrrdz
from jnrrdz.cli import cli
from jnrrdz.errors import JnrrdzError, redacted, without_credentials
from tests.servers.seaweed import ADMIN

HOST = "https://h.org/d/a.tif"
SAS = "sv=2024-11-04&ss=b&srt=o&sp=r&se=2026-01-01T00%3A00%3A00Z&st=x&spr=https&skoid=1&sig=SECRET%3D"
V4 = "X-Amz-Algorithm=AWS4&X-Amz-Credential=SECRET%2F1&X-Amz-Security-Token=SECRET&X-Amz-Signature=SECRET"

SIGNED = {
    "AWS v4": (f"{HOST}?{V4}", HOST),
    "AWS v4 of a version": (f"{HOST}?versionId=7&{V4}&response-content-type=a", f"{HOST}?versionId=7"),
    "AWS v2": (f"{HOST}?AWSAccessKeyId=SECRET&Signature=SECRET&Expires=17", HOST),
    "Google": (f"{HOST}?X-Goog-Signature=SECRET&X-Goog-Credential=SECRET&generation=3", f"{HOST}?generation=3"),
    "Google v2": (f"{HOST}?GoogleAccessId=SECRET&Expires=1&Signature=SECRET", HOST),
    "CloudFront": (f"{HOST}?Expires=1&Signature=SECRET&Key-Pair-Id=SECRET&Policy=SECRET", HOST),
    "Azure": (f"{HOST}?{SAS}", HOST),
    "token": (f"{HOST}?a=1&token=SECRET&b=2", f"{HOST}?a=1&b=2"),
    "access token": (f"{HOST}?access_token=SECRET", HOST),
    "API key": (f"{HOST}?api_key=SECRET", HOST),
    "key": (f"{HOST}?key=SECRETSECRETSECRET_", HOST),
    "user": ("https://SECRET:SECRET@h.org/d/a.tif", HOST),
    "token as user": ("https://SECRET@h.org/d/a.tif", HOST),
    "keys before a bucket": ("s3://SECRET:SECRET@b/a.tif", "s3://b/a.tif"),
    "chain": (f"zip://a.tif::https://h.org/b.zip?{SAS}", "zip://a.tif::https://h.org/b.zip"),
    "upper case": ("HTTPS://h.org/a?SIG=SECRET", "HTTPS://h.org/a"),
}

PLAIN = [
    HOST,
    f"{HOST}?file=a/b.tif&v=1",
    f"{HOST}?key=d/a.tif",
    f"{HOST}?sv=1&sr=2",
    f"{HOST}?response-content-type=a",
    "s3://b/a?token=part-of-the-key",
    "s3://b/mail@home.tif",
    "abfs://container@account.dfs.core.windows.net/a.tif",
    "sftp://me@host/a.tif",
    "/data/a?sig=1.tif",
    "memory://a",
    "zip://a.tif::/d/b.zip",
]


@pytest.mark.parametrize("case", SIGNED)
def test_a_signed_url_is_written_without_its_signature(case):
    url, bare = SIGNED[case]
    assert without_credentials(url) == bare
    assert without_credentials(bare) == bare


@pytest.mark.parametrize("url", PLAIN)
def test_a_url_without_credentials_is_as_it_was(url):
    assert without_credentials(url) == url


@pytest.mark.parametrize("case", SIGNED)
def test_no_error_says_a_credential(case):
    url = SIGNED[case][0]
    for error in (
        JnrrdzError("gone", url=url),
        JnrrdzError(f"GET '{url}' failed"),
        JnrrdzError("x").at(url=f"<{url}>"),
    ):
        assert "SECRET" not in str(error)
        assert "h.org" in str(error) or "s3://b" in str(error)


def test_a_url_in_the_query_of_another_is_covered():
    nested = urllib.parse.quote(f"{HOST}?{SAS}&n=1", safe="")
    shown = redacted(f"https://tiler/x?url={nested}&z=3")
    assert "SECRET" not in shown
    assert shown.endswith("%26n%3D1&z=3")


def tiff():
    file = io.BytesIO()
    tifffile.imwrite(file, np.full((32, 32), 7, np.uint8))
    return file.getvalue()


@pytest.fixture(params=["s3", "s3v4"])
def presigned(request, seaweed, bucket):
    seaweed.put(bucket, "a.tif", tiff())
    config = botocore.config.Config(s3={"addressing_style": "path"}, signature_version=request.param)
    keys = {"aws_access_key_id": ADMIN[0], "aws_secret_access_key": ADMIN[1]}
    client = botocore.session.Session(profile=None).create_client(
        "s3", "us-east-1", endpoint_url=seaweed.url, config=config, **keys
    )
    return client.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a.tif"})


def secrets_of(url):
    given = dict(part.split("=") for part in url.partition("?")[2].split("&"))
    signature = given.get("X-Amz-Signature") or given["Signature"]
    return signature, signature[:10], urllib.parse.unquote(signature), ADMIN[0]


@pytest.mark.parametrize("name", ["refs.json", "refs.parquet"])
def test_a_manifest_of_a_presigned_url_holds_no_signature(presigned, tmp_path, name):
    with pytest.warns(UserWarning, match="held credentials, which no manifest records") as told:
        jnrrdz.index(presigned, tmp_path / name)
    written = [path for path in (tmp_path, *tmp_path.rglob("*")) if path.is_file()]
    text = b"".join(path.read_bytes() for path in written).decode("latin-1") + str(told[0].message)
    assert not any(secret in text for secret in secrets_of(presigned))
    assert presigned.partition("?")[0] in text
    assert np.all(jnrrdz.open_group(presigned)["data"][:] == 7)  # what stays in memory is read as it was given


def test_the_command_says_no_signature(presigned, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [["index", presigned, "-o", "r.json"], ["index", presigned, "-o", "-"], ["info", presigned]]
    runs += [["verify", presigned], ["batch", presigned, "-o", "{stem}.json", "--report", "r.jsonl"]]
    runs += [["-v", "index", presigned.replace("a.tif", "b.tif"), "-o", "s.json"]]
    for run in runs:
        done = CliRunner().invoke(cli, run)
        assert done.exit_code == (run[0] == "-v"), done.output
        text = done.output + "".join(path.read_text() for path in tmp_path.glob("*.json*"))
        assert not any(secret in text for secret in secrets_of(presigned)), run
