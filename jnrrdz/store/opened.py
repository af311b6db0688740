"""What is opened: a manifest, or a source that is scanned now, whose store is made when somebody needs one.

The store is zarr's, and importing zarr takes a third of the time that importing xarray does.  Metadata are read
without it: docs/decisions/034-imports-where-they-are-met.md.
"""

import os
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

from jnrrdz.core.pyramid import VIRTUAL_LEVELS
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.core.zarr_json import is_osml
from jnrrdz.errors import UnsupportedError
from jnrrdz.manifests.manifest import Manifest, from_group, load, manifest_form
from jnrrdz.options import Access, ScanOptions

if TYPE_CHECKING:
    from jnrrdz.formats.neighbours import Guest
    from jnrrdz.store.store import ReferenceStore

MAGIC_BYTES = 4


class ManifestAccess:
    """A manifest and how its sources are reached.

    It pickles as its store does: as the manifest's URL, or as its columns if it was scanned.
    """

    def __init__(self, refs: Manifest | str, rights: Mapping[str, Any]) -> None:
        self._manifest: Manifest | None = None if isinstance(refs, str) else refs
        self._url = refs if isinstance(refs, str) else refs.url
        self._rights = dict(rights)
        self._store: ReferenceStore | None = None
        self._first = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return ManifestAccess, (self._url or self.manifest, self._rights)

    @property
    def manifest(self) -> Manifest:
        """The manifest, loaded again where this was unpickled."""
        if self._manifest is None:
            options = {name: self._rights.get(name) for name in ("storage_options", "templates")}
            self._manifest = load(str(self._url), **options)
        return self._manifest

    @property
    def is_whole(self) -> bool:
        """Whether the documents say all that the store's would: none computes levels, none is osml-imagery-io's."""
        documents = self.manifest.documents
        if is_osml(documents.node("")):
            return False
        nodes = self.manifest.hierarchy.nodes.values()
        return not any(VIRTUAL_LEVELS in node.attributes for node in nodes)

    @property
    def store(self) -> "ReferenceStore":
        """The store without computed levels, one for all threads."""
        with self._first:
            if self._store is None:
                self._store = self._adopted()
            return self._store

    def plain_store(self) -> "ReferenceStore":
        """Return the store of the documents as they stand."""
        from jnrrdz.store.store import ReferenceStore  # noqa: PLC0415  see the module

        return ReferenceStore(self.manifest, **self._rights)

    def _adopted(self) -> "ReferenceStore":
        store = self.plain_store()
        return store if self._url is None else adopted(store)


def adopted(store: "ReferenceStore") -> "ReferenceStore":
    """Return a store whose metadata have what osml-imagery-io leaves out of its manifests: its sources say it."""
    documents = store.manifest.documents
    if not is_osml(documents.node("")):
        return store
    from jnrrdz.codecs.osml import adopted_documents  # noqa: PLC0415  every format's decoders

    return store.with_documents(adopted_documents(documents, lambda path: store.source_head(path, MAGIC_BYTES)))


def opened(
    refs: str | os.PathLike[str] | VirtualGroup,
    options: ScanOptions,
    access: Access,
    guest: "Guest | None" = None,
) -> ManifestAccess:
    """Return a manifest, a virtual group, or what is scanned now.

    `guest` runs parsers of other libraries; they run in this process where it is None.
    """
    if isinstance(refs, VirtualGroup):
        from jnrrdz.core.physical import physical  # noqa: PLC0415  few ask for it

        group = physical(refs) if options.physical else refs
        return ManifestAccess(from_group(group), {"source_options": access.source_options, "allow": ("*",)})
    url = os.fspath(refs)
    form = manifest_form(url)
    if form is not None:
        if changed := options.changed():
            named = ", ".join(f"{name}={value!r}" for name, value in changed.items())
            raise UnsupportedError(
                f"a manifest is read as it was written; index its source with {named}", url=url, field=named
            )
        return loaded(url, access, form)
    from jnrrdz.formats.scanning import scan  # noqa: PLC0415  who opens a manifest scans nothing

    own = access.source_options if access.source_options is not None else access.storage_options
    group = scan(url, options, access, guest=guest).group
    return ManifestAccess(from_group(group), {"source_options": own, "allow": ("*",)})


def loaded(url: str, access: Access, form: str | None = None) -> ManifestAccess:
    """Return the manifest at a path or URL; `form` is what `manifest_form` returns for it."""
    templates = access.template_overrides
    manifest = load(url, storage_options=access.storage_options, templates=templates, form=form)
    names = ("storage_options", "source_options", "allow")
    return ManifestAccess(manifest, {"templates": templates, **{name: getattr(access, name) for name in names}})
