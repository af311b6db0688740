"""What all cells of a session share: the cases of the rows, and one server."""

from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

import jnrrdz
from tests.matrix.row import Case, Row


class Session:
    """Cases in a folder, made when they are first used, in each worker."""

    def __init__(self, folder: Path, codecs: str = "auto") -> None:
        self.folder = folder
        self.codecs = codecs
        self._cases: dict[str, Case] = {}
        self._exit = ExitStack()

    def case(self, row: Row) -> Case:
        if row.name not in self._cases:
            folder = self.folder / slug(row.name)
            self._cases[row.name] = Case(row, folder, self.codecs, self)
        return self._cases[row.name]

    @cached_property
    def server(self) -> jnrrdz.Server:
        """A server of the manifests of all rows that can be indexed."""
        from tests.matrix.rows import ROWS  # noqa: PLC0415  rows know cases

        manifests = []
        for row in ROWS:
            try:
                manifests.append(self.case(row).named_manifest(slug(row.name)))
            except jnrrdz.JnrrdzError:
                continue  # the cell of this row and door reports it
        return self._exit.enter_context(
            jnrrdz.serve(*manifests, allow=[str(self.folder)])
        )

    def served_url(self, row: Row) -> str:
        """Return the URL of a row's Zarr; raise where it cannot be indexed."""
        manifest = self.case(row).named_manifest(slug(row.name))
        return self.server[manifest.name]

    def close(self) -> None:
        self._exit.close()


def slug(name: str) -> str:
    """Return a name as files and URLs may have it."""
    return "".join(c if c.isalnum() else "-" for c in name.lower())
