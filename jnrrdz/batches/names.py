"""Bounds of what one command looks at: a listing or a search on another's server may never end.

`NameCount` counts every name of listings, lists and STAC documents, whether it is taken
or not.  `PageCount` counts the STAC documents in a row that name nothing new: pages that
link to each other for ever give the same items, or none.
"""

from dataclasses import dataclass, field

from jnrrdz.errors import UnsupportedError

MOST_NAMES = 10_000_000
"""Names for a batch, which keeps some 100 bytes of each."""

MOST_RESOLVED = 2_000_000
"""Names for the commands that keep all of them."""

MOST_IDLE_PAGES = 10_000
"""STAC documents in a row without a new asset."""


@dataclass
class NameCount:
    """The names that were looked at, and how many there may be."""

    most: int = MOST_NAMES
    remedy: str = "narrow the pattern or the search"
    count: int = 0

    def add(self, url: str, number: int = 1) -> None:
        """Count names that a listing or document gives; more than there may be are an error."""
        self.count += number
        if self.count > self.most:
            raise UnsupportedError(f"more than {self.most:,} names; {self.remedy}", url=url)


@dataclass
class PageCount:
    """The STAC documents in a row that gave nothing new."""

    most: int = MOST_IDLE_PAGES
    idle: int = 0
    digests: set[int] = field(default_factory=set)
    """What the documents named, a number for each."""

    def add(self, url: str, digest: int | None) -> None:
        """Count a document by a digest of what it names, None where it names nothing."""
        if digest is None or digest in self.digests:
            self.idle += 1
        else:
            self.idle = 0
            self.digests.add(digest)
        if self.idle > self.most:
            raise UnsupportedError(
                f"{self.most:,} documents in a row name nothing new; "
                "the links may never end: name the documents that have items",
                url=url,
                field="links",
            )
