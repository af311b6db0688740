"""Small images on real servers for the tests of a batch."""

import os

import numpy as np
import pytest

from tests.writers import tiff_bytes

BLOCK = 16


def image(value: int) -> bytes:
    """Return a tiled TIFF whose pixels are all one value."""
    return tiff_bytes(np.full((32, 32), value, "u2"), tile=(BLOCK, BLOCK))


@pytest.fixture
def environment(seaweed, monkeypatch):
    """Let the AWS_* variables of this process and its children lead to the S3 server."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in seaweed.environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def scenes(seaweed, bucket):
    """Return the names of forty images below `in/` of a bucket."""
    names = [f"in/{number % 3}/s{number:02}.tif" for number in range(40)]
    for number, name in enumerate(names):
        seaweed.put(bucket, name, image(number))
    return names
