"""Files that a header names: where they are, and whether they may be read.

May touch errors, URLs and neighbours.  A header speaks for its own folder; whatever leads out of it needs the
user's word (`--allow PREFIX`), for a file from a stranger could name any other.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jnrrdz.errors import JnrrdzError, UntrustedSourceError
from jnrrdz.sources.url import LocalFile, Location, is_absolute, place

_PLAIN = re.compile(r"(?!\.\.?(?:/|$))[^/\\?#:%\x00-\x1f~]+(?:/(?!\.\.?(?:/|$))[^/\\?#:%\x00-\x1f]+)*")
"""Names that stay below their folder whatever a file system makes of them."""


def is_plain(name: str) -> bool:
    """Whether a name is relative, with neither dots that lead up nor anything that a URL gives a meaning."""
    return _PLAIN.fullmatch(name) is not None


@dataclass(frozen=True)
class Folder:
    """The folder of a header, and what else its names may lead to."""

    header: str
    allow: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The folder with a slash at its end."""
        return self._split()[0]

    def _split(self) -> tuple[str, str]:
        """Return the folder, and what stands behind the name: a query, the rest of a chain."""
        first, chain, rest = self.header.partition("::")
        is_http = first.lower().startswith(("http://", "https://"))
        path, question, query = first.partition("?") if is_http else (first, "", "")
        return path[: path.rfind("/") + 1], question + query + chain + rest

    def resolve(self, name: str, field: str) -> str:
        """Return the URL of a file (or folder) that the header names."""
        folder, behind = self._split()
        try:
            found = place(name if is_absolute(name) else folder + name + behind)
        except JnrrdzError as error:
            raise error.at(url=self.header, field=field) from error.__cause__
        home = place(folder + behind) if folder or behind else place(".")
        if not found.within(home) and not any(_allows(prefix, found) for prefix in self.allow):
            raise UntrustedSourceError(
                f"{name!r:.200} leads out of the header's folder; --allow {found.url()} would let it",
                url=self.header,
                field=field,
            )
        return found.url() if isinstance(found, LocalFile | Location) else folder + name + behind


def _allows(prefix: str, found: object) -> bool:
    return prefix == "*" or (hasattr(found, "within") and bool(found.within(place(prefix))))


def resolved_all(folder: Folder, names: Sequence[str], field: str) -> list[str]:
    """Return the URLs of files; a plain name needs no look at where it leads."""
    base = folder.resolve("", field) if any(map(is_plain, names)) else ""
    start = base if base.endswith("/") else f"{base}/"
    return [start + name if is_plain(name) else folder.resolve(name, field) for name in names]
