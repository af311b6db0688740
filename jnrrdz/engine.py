"""The xarray engine `jnrrdz`, found without naming it.

May touch xarray and the api.  It claims what it recognises by content: reference manifests with
Zarr v3 metadata.  kerchunk's own v2 files are left to kerchunk, and image files to whoever asks for
them by `engine="jnrrdz"`.
Interface: https://docs.xarray.dev/en/stable/internals/how-to-add-new-backend.html
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import xarray as xr
from xarray.backends import BackendEntrypoint

from jnrrdz.api import Options, dataset, datasets, open_store
from jnrrdz.errors import UnsupportedError
from jnrrdz.model.array import VirtualGroup
from jnrrdz.read.manifest import is_reference_manifest


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
        "allow",
        "physical",
        "storage_options",
        "source_options",
    )

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether this is a manifest with Zarr v3 metadata."""
        if isinstance(filename_or_obj, VirtualGroup):
            return True
        return isinstance(filename_or_obj, str | os.PathLike) and is_reference_manifest(filename_or_obj)

    def open_dataset(  # noqa: PLR0913
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
        allow: Sequence[str] = (),
        physical: bool = False,
        storage_options: Options = None,
        source_options: Options = None,
        **decoding: Any,
    ) -> xr.Dataset:
        """Return the full-resolution image, or the group that is named."""
        store = open_store(
            _named(filename_or_obj),
            allow=allow,
            physical=physical,
            storage_options=storage_options,
            source_options=source_options,
        )
        return dataset(store, group=group, drop_variables=drop_variables, **decoding)

    def open_groups_as_dict(  # noqa: PLR0913
        self,
        filename_or_obj: Any,
        *,
        group: str | None = None,
        allow: Sequence[str] = (),
        physical: bool = False,
        storage_options: Options = None,
        source_options: Options = None,
        **options: Any,
    ) -> dict[str, xr.Dataset]:
        """Return the dataset of every group, by path."""
        store = open_store(
            _named(filename_or_obj),
            allow=allow,
            physical=physical,
            storage_options=storage_options,
            source_options=source_options,
        )
        return datasets(store, group=group, **options)

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xr.DataTree:
        """Return every group as a tree."""
        return xr.DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **options))


def _named(filename_or_obj: Any) -> str | os.PathLike[str] | VirtualGroup:
    if isinstance(filename_or_obj, str | os.PathLike | VirtualGroup):
        return filename_or_obj
    raise UnsupportedError(f"a {type(filename_or_obj).__name__} where a path, a URL or a VirtualGroup is read")
