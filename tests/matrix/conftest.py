import os

import pytest
from tests.matrix.plain import plain_reader
from tests.matrix.session import Session

EVERY = ("auto", "proposal", "standard")
"""Families of codecs that JNRRDZ_MATRIX=all tries."""

FAMILIES = EVERY if os.environ.get("JNRRDZ_MATRIX") == "all" else EVERY[:1]


@pytest.fixture(scope="session", params=FAMILIES)
def session(request, tmp_path_factory):
    """Return the cases of all rows with a family of codecs, and their server."""
    made = Session(tmp_path_factory.mktemp(request.param), request.param)
    yield made
    made.close()


@pytest.fixture(scope="session", autouse=True)
def _plain():
    """Stop the process that reads without jnrrdz."""
    yield
    if plain_reader.cache_info().currsize:
        plain_reader().close()
