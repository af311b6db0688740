"""Which sources a manifest may reach, decided before anything is opened.

Opens nothing, but follows symbolic links.  The rules and their reasons: docs/decisions/001-sources-and-trust.md.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from jnrrdz.errors import UntrustedSourceError
from jnrrdz.sources import url as urls
from jnrrdz.sources.guard import AddressGuard, Nearness, kind_of_host
from jnrrdz.sources.url import Chain, LocalFile, Location, Place

_EVERYTHING = "*"

# Schemes that only fetch objects from elsewhere.  Others read this machine (memory, git, dir),
# open further manifests (reference), or dial hosts that no guard sees (ftp, sftp, webhdfs).
_FETCHING = frozenset({"http", "https", "s3", "gs", "az", "abfs", "abfss", "oss", "oci", "hf"})


class Trust:
    """The sources of one manifest that may be opened.

    `table` is the manifest's own source table as recorded, a mapping as it is; an entry that ends in a slash names all
    that is under it.  An entry of `allow` is a prefix in whole path components; `*` allows all.  What lies below
    `own` is part of the manifest itself.
    """

    def __init__(
        self, manifest_url: str, table: Collection[str] = (), allow: Sequence[str] = (), own: str | None = None
    ) -> None:
        self.manifest_url = manifest_url
        self._table: Collection[str] = table if isinstance(table, Mapping) else frozenset(table)
        self._allow = tuple(allow)
        # a manifest that is a directory itself (Parquet) is held by the directory above it
        self._home = urls.place(manifest_url).parent()
        self._remote = not isinstance(self._home, LocalFile)
        self._allowed = tuple(urls.place(entry) for entry in allow if entry != _EVERYTHING)
        self._own = None if own is None else urls.place(own)

    def resolve(self, raw_url: str) -> str:
        """Return the absolute URL, or real local path, that may be opened for a reference's URL."""
        place = self._place(raw_url)
        if _EVERYTHING in self._allow or any(place.within(prefix) for prefix in self._allowed):
            return place.url()
        reason = self._forbidden(place) if self._remote else None
        found = self._named(raw_url, place) if reason is None else None
        if found is None:
            raise UntrustedSourceError(
                f"{self.manifest_url} may not reach it: {reason or self._unnamed(place)}; "
                f"--allow {place.url()} would permit it",
                url=raw_url,
            )
        return found

    def takes_its_word(self, place: str) -> bool:
        """Whether nothing but a local manifest's own table lets a resolved source be read, which lies elsewhere."""
        if self._remote or _EVERYTHING in self._allow:
            return False
        here = urls.place(place)
        return not any(here.within(folder) for folder in (self._home, *self._allowed))

    def guard_for(self, url: str) -> AddressGuard:
        """Return the guard to open a resolved source with.

        Sources of a remote manifest are no nearer than that was when it was fetched.  Hosts that a local manifest's
        table names may be at any address, but get no headers.
        """
        if self._remote:
            return self._guard
        return AddressGuard.of_source(url, self._allow, is_named=False)

    @cached_property
    def _guard(self) -> AddressGuard:
        return AddressGuard.of_document(self.manifest_url, self._allow)

    def _place(self, raw_url: str) -> Place:
        """Return where a URL leads, a relative one from the manifest's directory."""
        if urls.is_absolute(raw_url) or urls.is_chained(raw_url):
            return urls.place(raw_url)
        base = self._home.url()
        place = urls.place(f"{base}{'' if base.endswith('/') else '/'}{raw_url}")
        return replace(place, text=place.url()) if isinstance(place, Location) else place

    def _forbidden(self, place: Place) -> str | None:
        """Return why a remote manifest may not have this, whatever its table says."""
        if isinstance(place, LocalFile):
            return "a remote manifest names a local file"
        if isinstance(place, Chain):
            return "a remote manifest names a chain of file systems"
        own = (self._home.scheme, self._home.authority) if isinstance(self._home, Location) else None
        if (place.scheme, place.authority) == own:
            return None
        if place.scheme not in _FETCHING:
            return f"a remote manifest names the scheme {place.scheme}"
        kind = kind_of_host(place.authority.rpartition(":")[0]) if place.scheme in urls.HTTP else None
        if kind is not None and kind.nearness > min(self._guard.most or Nearness.PUBLIC, Nearness.SITE):
            return f"a remote manifest names {kind.name} address"
        return None

    def _named(self, raw_url: str, place: Place) -> str | None:
        """Return the URL to open if the table or the manifest's own directory covers the place."""
        if raw_url in self._table and self._counts(place):  # no need to look at the whole table
            return place.text
        if self._own is not None and place.within(self._own):
            return place.url()
        exact, trees = self._places
        if place in exact:
            return exact[place]
        if any(place.within(tree) for tree in trees):
            return place.url()
        at_home = self._remote or not self._table
        return place.url() if at_home and place.within(self._home) else None

    @cached_property
    def _places(self) -> tuple[dict[Place, str], list[Place]]:
        """The table's files with the URL of each, and its directories."""
        entries = [(entry, self._place(entry)) for entry in self._table]
        counted = [(entry, place) for entry, place in entries if self._counts(place)]
        trees = [place for entry, place in counted if entry.endswith("/")]
        return {place: place.text for _, place in counted}, trees

    def _counts(self, entry: Place) -> bool:
        """Whether a table's entry is heard: not if it is a link from the manifest's directory to elsewhere.

        Whoever packed a manifest with its data can put such a link beside it.
        """
        if not isinstance(entry, LocalFile) or not isinstance(self._home, LocalFile):
            return True
        beside = any(urls.is_under(entry.path, home) for home in (self._home.path, self._home.real))
        return entry.within(self._home) or not beside

    def _unnamed(self, place: Place) -> str:
        if isinstance(place, LocalFile) and isinstance(self._home, LocalFile):
            if place.real != place.path and not place.within(self._home):
                return f"a symbolic link out of its directory, to {place.real}"
            if not self._table:
                return f"outside of its directory {self._home.real}"
        return "its table of sources does not name it"


def check_named(document: str, url: str, allow: Sequence[str] = ()) -> str:
    """Return the absolute URL or path that a document may name (a STAC item, a list, a table), or refuse it.

    What came from afar names only what is afar, as if the document were a manifest whose table names the URL.
    What is on this machine is the user's own, and names what it likes.  The sources of a remote document are opened
    with `AddressGuard.of_document(document, allow)`.
    """
    if urls.local_path(document) is not None:
        return url
    return Trust(document, (url,), allow).resolve(url)
