"""The table of cells that are wrong today; it has to become empty."""

from tests.matrix.outcomes import Wrong

KNOWN_WRONG: list[Wrong] = []
