"""A URL is taken apart once: the links of a chain, and where an object is in its store."""

import pytest

from jnrrdz.sources import filesystems
from jnrrdz.sources import url as urls

PARTS = {
    "s3://bucket/a/b.tif": (("s3://bucket/a/b.tif",), "bucket/a/b.tif"),
    "s3://bucket/a::b.tif/": (("s3://bucket/a", "b.tif/"), "bucket/a::b.tif/"),
    "s3://bucket": (("s3://bucket",), "bucket"),
    "zip://a.tif::s3://bucket/b.zip": (("zip://a.tif", "s3://bucket/b.zip"), "a.tif::s3://bucket/b.zip"),
    "zip://a::zip://b::c.zip": (("zip://a", "zip://b", "c.zip"), "a::zip://b::c.zip"),
    "http://[2001::1]/a": (("http://[2001::1]/a",), "[2001::1]/a"),
}


@pytest.mark.parametrize(("url", "parts"), PARTS.items(), ids=PARTS)
def test_links_of_a_chain_and_the_path_of_an_object(url, parts):
    parsed = urls.parse(url)
    assert (parsed.links, parsed.object_path) == parts


def test_the_path_in_a_store_is_s3fs_own(seaweed):
    options = seaweed.options()
    for url in ("s3://bucket/a/b.tif", "s3://bucket/a/", "s3a://bucket/ü%20/x#y", "s3://bucket", "s3://bucket/a//b"):
        fs, path = filesystems.opened(url, options)
        assert path == fs._strip_protocol(url)  # noqa: SLF001  how s3fs itself has it
