"""What the tests of SICD and SIDD files share: sarkit writes them."""

from importlib.util import find_spec

import pytest

SARKIT = [
    pytest.mark.skipif(find_spec("sarkit") is None, reason="sarkit is not installed"),
    pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning"),  # sarkit's own, on Python 3.12
    pytest.mark.filterwarnings("ignore:.*SCHEMAS"),  # the XML has no more than the writer needs
]


def corners(prefix):
    """Return the corners of an image as XML, latitude and longitude with a prefix of their namespace."""
    return "".join(
        f'<ICP index="{index}:{name}"><{prefix}Lat>{lat}</{prefix}Lat><{prefix}Lon>{lon}</{prefix}Lon></ICP>'
        for index, name, lat, lon in [(1, "FRFC", 1, 2), (2, "FRLC", 1, 3), (3, "LRLC", 0.5, 3), (4, "LRFC", 0.5, 2)]
    )
