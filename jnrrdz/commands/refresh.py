"""A manifest brought up to date: `refresh` scans again what changed, and only that.

A manifest records what was asked of its scan and how its sources were; a stack keeps what it has of sources that
are as they were.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from typing import Any, Unpack

from jnrrdz import api
from jnrrdz.commands.verify import JOBS, states
from jnrrdz.core.arrays import VirtualGroup
from jnrrdz.core.concat import with_members
from jnrrdz.core.large_refs import Spool
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.formats import scanning
from jnrrdz.manifests.groups import ORIGIN, group_from_manifest
from jnrrdz.manifests.manifest import Manifest, form_module, manifest_form
from jnrrdz.manifests.written_refs import moved, named_urls
from jnrrdz.options import Access, AccessChoices, ScanOptions, WriteOptions, with_choices
from jnrrdz.redact import record_repr
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.url import is_absolute
from jnrrdz.store.sources import SourcePool


@dataclass(frozen=True)
class Refreshed:
    """What a refresh found, and did."""

    refs: str
    """The manifest, as you named it."""
    sources: int
    """How many sources the manifest has."""
    changed: tuple[str, ...]
    """The sources that are not what they were; where there are none, nothing was written."""

    __repr__ = record_repr


def refresh(
    refs: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    jobs: int = JOBS,
    access: Access | None = None,
    **choices: Unpack[AccessChoices],
) -> Refreshed:
    """Scan again the sources of a manifest that changed, write it anew in its place, and return what changed.

    Parameters
    ----------
    refs
        The path or URL of a manifest.
    dry_run
        Only tell what changed: nothing is scanned and nothing is written.
    jobs
        How many sources are asked for their state at once.
    access
        How the manifest and its sources are reached.
    **choices
        Members of `Access`, in place of the record or beside it.
    """
    (reach,) = with_choices(choices, access or Access())
    name = os.fspath(refs)
    if manifest_form(name) is None:
        raise UnsupportedError(
            "this is not a manifest; jnrrdz index makes one of an image, refresh renews it", url=name
        )
    manifest = api.open_store(name, access=reach).manifest
    pool = SourcePool(manifest, options=reach.source_options, allow=reach.allow, opener=open_source)
    changed = _changed(manifest, pool, jobs)
    if changed and not dry_run:
        try:
            _write(name, manifest, changed, reach)
        except JnrrdzError as error:
            raise error.at(url=name) from error.__cause__
    return Refreshed(name, len(manifest.sources), tuple(changed))


def _write(name: str, manifest: Manifest, changed: Sequence[str], access: Access) -> None:
    """Write what the manifest should say now: the files of references that changed, else all of it."""
    origin = {name: value for name, value in manifest.documents.own().items() if name in ORIGIN}
    form = WriteOptions(
        manifest.form,
        single_range=bool(origin.get("single_range")),
        relative=not all(is_absolute(record.url) for record in manifest.sources),
        overwrite=True,
        target_options=access.storage_options,
    )
    if "concat_dim" not in origin:
        api.write(_scanned_again(manifest, origin, access), name, form)
        return
    options, dim = _scan_options(origin), str(origin["concat_dim"])
    with closing(Spool(tempfile.TemporaryFile)) as spool:
        members: dict[str, tuple[str, VirtualGroup]] = {}
        for url in changed:
            place, member = _scan(manifest, url, options, access)
            members[url] = (place, member.with_refs(spool.keep))
        if manifest.form == "parquet" and all(_is_of_itself(*member) for member in members.values()):
            spelt = {url: moved(member, {place: url}) for url, (place, member) in members.items()}
            renewed = with_members(group_from_manifest(manifest, as_spelt=True), spelt, dim)
            if form_module("parquet").renew(renewed, manifest, form):
                return
        group = group_from_manifest(manifest, allow=access.allow, source_options=access.source_options)
        api.write(with_members(group, dict(members.values()), dim).group, name, form)


def _is_of_itself(place: str, member: VirtualGroup) -> bool:
    """Whether a member has no source but the one that was scanned."""
    return not place.endswith("/") and named_urls(member) == {place}


def _changed(manifest: Manifest, pool: SourcePool, jobs: int) -> list[str]:
    """Return the sources that are not as they were; containers count, since only their listing could tell."""
    findings = states(manifest, pool, (), jobs).findings
    gone = next((finding for finding in findings if finding.kind != "drift"), None)
    if gone is not None:
        raise UnrepresentableError(f"{gone.message}; it cannot be scanned again", url=gone.place)
    trees = list(manifest.trees)
    # what changed in a container is scanned with it
    return [finding.place for finding in findings if not finding.place.startswith(tuple(trees) or ("\0",))] + trees


def _scan_options(origin: Mapping[str, Any]) -> ScanOptions:
    """Return what was asked of the scan that a manifest is of."""
    if origin.get("cube"):
        raise UnrepresentableError("a cube, of whose files one changed; jnrrdz cube --overwrite makes it anew")
    asked = origin.get("options")
    if not isinstance(asked, dict):
        raise UnrepresentableError("it does not say how its sources were scanned; index them again", field="options")
    usual = {field.name: field.default for field in fields(ScanOptions)}
    for name, value in asked.items():
        is_known = name in usual and isinstance(value, bool | str)
        if not is_known or isinstance(usual[name], bool) != isinstance(value, bool):
            raise MalformedError(f"{name!r} is no choice of a scan, or {value!r} none of its values", field="options")
    return ScanOptions(**asked)


def _scanned_again(manifest: Manifest, origin: Mapping[str, Any], access: Access) -> VirtualGroup:
    """Return a new scan of what a manifest is of.

    The file that was named stands first, what was found beside it after it.
    """
    first = manifest.sources[0].url
    _, scanned = _scan(manifest, first, _scan_options(origin), access)
    return VirtualGroup(scanned.children, scanned.attributes, scanned.sources, origin)


def _scan(manifest: Manifest, url: str, options: ScanOptions, access: Access) -> tuple[str, VirtualGroup]:
    """Return where a source of a manifest is, and what is there now."""
    trust = manifest.trust(access.allow)
    if trust is None:
        raise UnsupportedError("this is a scanned image, not a manifest")
    place = trust.resolve(url)
    place = f"{place.rstrip('/')}/" if url.endswith("/") else place
    reach = Access(access.allow, access.source_options, named_by=manifest.url or "")
    return place, scanning.scan(place, options, reach).group
