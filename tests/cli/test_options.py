"""What the S3 options become."""

import fsspec
import pytest

from jnrrdz.cli.options import Reach

ALL = Reach("p", "http://e", "r", no_sign_request=True, requester_pays=True)
GIVEN = {
    "profile": "p",
    "endpoint_url": "http://e",
    "client_kwargs": {"region_name": "r"},
    "anon": True,
    "requester_pays": True,
}


@pytest.mark.parametrize(
    ("access", "url", "options"),
    [
        (Reach(), "s3://b/k", None),
        (ALL, "s3://b/k", GIVEN),
        (ALL, "S3A://b/k", GIVEN),
        (Reach(profile="p"), "s3://b/k", {"profile": "p"}),
        (ALL, "/data/s3/k", None),
        (ALL, "https://s3.amazonaws.com/b/k", None),
        (ALL, "zip://a.tif::s3://b/k.zip", {"s3": GIVEN}),
        (ALL, "zip://a.tif::https://h/k.zip", None),
    ],
)
def test_options(access, url, options):
    assert access.options(url) == options


@pytest.mark.parametrize("url", ["s3://b/k", "simplecache::s3://b/k"])
def test_s3fs_takes_them(url):
    access = Reach(endpoint_url="http://127.0.0.1:1", region="r", no_sign_request=True, requester_pays=True)
    fs, _ = fsspec.core.url_to_fs(url, **access.options(url))
    inner = getattr(fs, "fs", fs)
    assert (inner.endpoint_url, inner.client_kwargs["region_name"], inner.anon) == ("http://127.0.0.1:1", "r", True)
    assert inner.req_kw == {"RequestPayer": "requester"}
