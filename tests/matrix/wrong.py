"""The table of cells that are wrong today; it has to become empty."""

from tests.matrix.outcomes import Wrong

# fmt: off
KNOWN_WRONG = [
    Wrong("merge.*", "JNRRD virtual levels",
          "merge keeps the shapes of virtual levels of single sources"),
]
# fmt: on
