"""A manifest brought up to date: `refresh` scans again what changed, and only that.

May touch the api, verifying, the model, read, write and errors.  A manifest records what was asked of
its scan and how its sources were; a stack keeps what it has of sources that are as they were.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from jnrrdz import api
from jnrrdz.commands.verify import states
from jnrrdz.core.arrays import VirtualGroup
from jnrrdz.core.concat import with_member
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.formats import scanning
from jnrrdz.manifests.groups import group_from_manifest
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.manifests.trust import Trust
from jnrrdz.options import Access, ScanOptions
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.url import is_absolute
from jnrrdz.store.sources import SourcePool

JOBS = 32

type Options = Mapping[str, Any] | None


@dataclass(frozen=True)
class Refreshed:
    """What a refresh found, and did."""

    refs: str
    sources: int
    changed: tuple[str, ...]
    """The sources that are not what they were; where there are none, nothing was written."""


def refresh(  # noqa: PLR0913  how things are reached
    refs: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    jobs: int = JOBS,
    allow: Sequence[str] = (),
    storage_options: Options = None,
    source_options: Options = None,
) -> Refreshed:
    """Scan again the sources of a manifest that changed, and write it anew in its place."""
    name = os.fspath(refs)
    if not api.names_manifest(name) or name.rstrip("/").endswith(".icechunk"):
        raise UnsupportedError("no manifest of JSON or Parquet, which a refresh writes anew", url=name)
    store = api.open_store(name, allow=allow, storage_options=storage_options, source_options=source_options)
    manifest = store.manifest
    changed = _changed(manifest, SourcePool(manifest, options=source_options, allow=allow, opener=open_source), jobs)
    if changed and not dry_run:
        try:
            group = _anew(manifest, changed, allow, source_options)
        except JnrrdzError as error:
            raise error.at(url=name) from error.__cause__
        api.write(
            group,
            name,
            format=manifest.form,
            single_range=bool(group.origin.get("single_range")),
            relative=not all(is_absolute(record.url) for record in manifest.sources),
            overwrite=True,
            storage_options=storage_options,
        )
    return Refreshed(name, len(manifest.sources), tuple(changed))


def _changed(manifest: Manifest, pool: SourcePool, jobs: int) -> list[str]:
    """Return the sources that are not as they were; containers count, since only their listing could tell."""
    found = states(manifest, pool, (), jobs)
    gone = [finding for finding in found.findings if finding.kind != "drift"]
    if gone:
        raise UnrepresentableError(f"{gone[0].message}; it cannot be scanned again", url=gone[0].place)
    trees = [record.url for record in manifest.sources if record.url.endswith("/")]
    return [finding.place for finding in found.findings] + trees


def _anew(manifest: Manifest, changed: Sequence[str], allow: Sequence[str], options: Options) -> VirtualGroup:
    """Return what the manifest should say now."""
    trust = Trust(manifest.url or "", tuple(record.url for record in manifest.sources), tuple(allow))
    old = group_from_manifest(manifest, allow=allow, source_options=options)
    asked = _options(old.origin)
    access = Access(allow, options)
    if "concat_dim" not in old.origin:
        # the file that was named stands first, what was found beside it after it
        first = manifest.sources[0].url
        place = trust.resolve(first)
        found = scanning.scan(f"{place.rstrip('/')}/" if first.endswith("/") else place, asked, access)
        return VirtualGroup(found.group.children, found.group.attributes, found.group.sources, old.origin)
    for url in changed:
        place = trust.resolve(url)
        found = scanning.scan(place, asked, access)
        old = with_member(old, found.group, place, str(old.origin["concat_dim"]))
    return old


def _options(origin: Mapping[str, Any]) -> ScanOptions:
    """Return what was asked of the scan, as far as a manifest may say it."""
    asked = origin.get("options")
    if not isinstance(asked, dict):
        raise UnrepresentableError("it does not say how its sources were scanned; index them again", field="options")
    usual = {field.name: field.default for field in fields(ScanOptions)}
    for name, value in asked.items():
        if (
            name not in usual
            or not isinstance(value, bool | str)
            or isinstance(usual[name], bool) != isinstance(value, bool)
        ):
            raise MalformedError(f"{name!r} is no choice of a scan, or {value!r} none of its values", field="options")
    return ScanOptions(**asked)
