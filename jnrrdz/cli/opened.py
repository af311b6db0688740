"""What a command's argument leads to: a manifest that is read, or a source that is scanned.

May touch the api and read's manifests.  Imported inside commands only: it costs what xarray and zarr cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jnrrdz import api
from jnrrdz.cli.options import S3Access
from jnrrdz.errors import UnsupportedError
from jnrrdz.manifests.manifest import Manifest, from_group
from jnrrdz.manifests.manifest_parquet import ParquetRefs
from jnrrdz.sources.url import local_path


@dataclass(frozen=True)
class Opened:
    """Metadata and references, and what finding them took."""

    name: str
    format: str
    manifest: Manifest
    requests: int | None = None
    """Requests for a source's header; None for a manifest."""
    bytes_read: int | None = None


def opened(name: str, s3: S3Access, allow: Sequence[str] = ()) -> Opened:
    """Return what a path or URL holds."""
    if _is_repository(name):
        raise UnsupportedError("an Icechunk repository, which the icechunk package opens", url=name)
    if api.names_manifest(name):
        store = api.open_stored(name, allow=allow, storage_options=s3.options(name), source_options=s3.given())
        parquet = any(isinstance(refs, ParquetRefs) for refs in store.manifest.arrays.values())
        return Opened(name, "Parquet manifest" if parquet else "JSON manifest", store.manifest)
    found = api.scan_with_cost(name, allow=allow, storage_options=s3.options(name))
    return Opened(name, found.format, from_group(found.group), found.requests, found.bytes_read)


def _is_repository(name: str) -> bool:
    path = local_path(name)
    return name.rstrip("/").endswith(".icechunk") if path is None else (Path(path) / "repo").is_file()
