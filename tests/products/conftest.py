import pytest
from tests.products import writers


@pytest.fixture(scope="session")
def products(tmp_path_factory):
    """Return a folder with a product of each kind; tests that change one copy it."""
    root = tmp_path_factory.mktemp("products")
    writers.safe(root)
    writers.safe(root, writers.SAFE_1C)
    writers.landsat(root)
    writers.landsat(root, writers.LANDSAT_7)
    return root


@pytest.fixture
def safe(products):
    return products / writers.SAFE


@pytest.fixture
def landsat(products):
    return products / writers.LANDSAT_8
