"""The xarray engine `jnrrdz`, found without naming it.

It claims what it recognises by content: reference manifests with Zarr v3 metadata.  kerchunk's own v2 files are left
to kerchunk, and image files to whoever asks for them by `engine="jnrrdz"`.  xarray imports every engine that is
installed when it opens whatever file: what opens manifests is imported for those alone, and zarr for their chunks.
Interface: https://docs.xarray.dev/en/stable/internals/how-to-add-new-backend.html
"""

import os
from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

import xarray as xr
from xarray.backends import BackendEntrypoint

from jnrrdz import manifests, store
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import UnsupportedError
from jnrrdz.options import Access, ScanOptions
from jnrrdz.redact import bare

if TYPE_CHECKING:
    from jnrrdz.store.opened import ManifestAccess
    from jnrrdz.store.store import ReferenceStore

SCAN = tuple(field.name for field in fields(ScanOptions))
ACCESS = ("allow", "storage_options", "source_options", "template_overrides")
LEVELS = ("virtual_levels", "downsample")


class JnrrdzBackend(BackendEntrypoint):
    """Opens manifests, and scans image files on the fly."""

    description = "Archival imagery (TIFF/COG and more) as Zarr, without copying"
    supports_groups = True
    open_dataset_parameters: ClassVar[tuple[str, ...] | None] = (
        "filename_or_obj",
        "drop_variables",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "use_cftime",
        "decode_timedelta",
        "group",
        *LEVELS,
        *SCAN,
        *ACCESS,
    )

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether this is a manifest with Zarr v3 metadata."""
        if isinstance(filename_or_obj, VirtualGroup):
            return True
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False

        return manifests.manifest.is_reference_manifest(filename_or_obj)

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
        **options: Any,
    ) -> xr.Dataset:
        """Return the full-resolution image, or the group that is named; options are `open_store`'s and xarray's."""
        opened = _open(filename_or_obj, options)
        return _named(
            store.xarray.dataset(opened, group=group, drop_variables=drop_variables, **options), filename_or_obj
        )

    def open_groups_as_dict(
        self, filename_or_obj: Any, *, group: str | None = None, **options: Any
    ) -> dict[str, xr.Dataset]:
        """Return the dataset of every group, by path; options are `open_store`'s and xarray's."""
        found = store.xarray.datasets(_open(filename_or_obj, options), group=group, **options)
        return {path: _named(each, filename_or_obj) for path, each in found.items()}

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xr.DataTree:
        """Return every group as a tree."""
        return xr.DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **options))


def _named(found: xr.Dataset, filename_or_obj: Any) -> xr.Dataset:
    """Return a dataset that says where it is from as a manifest would: xarray records the URL as it was given."""
    if isinstance(filename_or_obj, str) and "://" in filename_or_obj:
        found.encoding.setdefault("source", bare(filename_or_obj))
    return found


def _open(filename_or_obj: Any, options: dict[str, Any]) -> "ManifestAccess | ReferenceStore":
    """Return what is opened, taking from the options what is for opening it.

    Computed levels, and what osml-imagery-io leaves out of its manifests, are a store's; zarr is imported for those.
    """
    if not isinstance(filename_or_obj, str | os.PathLike | VirtualGroup):
        kind = type(filename_or_obj).__name__
        raise UnsupportedError(f"a {kind} where a path, a URL or a VirtualGroup is read")
    scan = ScanOptions(**_taken(options, SCAN))
    access = Access(**_taken(options, ACCESS))
    virtual_levels = options.pop("virtual_levels", 0)
    downsample = options.pop("downsample", None)
    found = store.opened.opened(filename_or_obj, scan, access)
    if virtual_levels == 0 and downsample is None and found.is_whole:
        return found
    return store.computed_levels.with_pyramids(found.store, virtual_levels, downsample)


def _taken(options: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return those of the options that have these names, removed from the others."""
    return {name: options.pop(name) for name in names if name in options}
