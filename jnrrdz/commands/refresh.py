"""A manifest brought up to date: `refresh` scans again what changed, and only that.

A manifest records what was asked of its scan and how its sources were; a stack keeps what it has of sources that
are as they were.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from typing import Any

from jnrrdz import api
from jnrrdz.commands.verify import JOBS
from jnrrdz.commands.verify_sources import states
from jnrrdz.core.concat import with_members
from jnrrdz.core.cube import TIME
from jnrrdz.core.large_refs import Spool
from jnrrdz.core.prune import pruned
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.formats import scanning
from jnrrdz.manifests.groups import ORIGIN, group_from_manifest
from jnrrdz.manifests.manifest import (
    Manifest,
    form_module,
    manifest_form,
    remove,
    split_version,
    updating,
    write_form,
)
from jnrrdz.manifests.turns import Turn
from jnrrdz.manifests.written_refs import moved, named_urls
from jnrrdz.options import Access, ScanOptions, StorageOptions, WriteOptions
from jnrrdz.redact import record_repr
from jnrrdz.sources.faults import is_absent
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.url import is_absolute
from jnrrdz.sources.zip_member import member_url
from jnrrdz.store.sources import SourcePool


@dataclass(frozen=True)
class Refreshed:
    """What a refresh found, and did."""

    refs: str
    """The manifest, as you named it."""
    sources: int
    """How many sources the manifest has."""
    changed: tuple[str, ...]
    """The sources that are not what they were."""
    gone: tuple[str, ...] = ()
    """The sources that are not there any more, and were taken out.

    Where none changed and none is gone, nothing was written.
    """
    removed: bool = False
    """Whether the manifest itself was removed, since nothing else is in it."""

    __repr__ = record_repr


def refresh(  # noqa: PLR0913  the signature is the documentation
    refs: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    prune: bool = False,
    jobs: int = JOBS,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
    source_options: StorageOptions = None,
    template_overrides: Mapping[str, str] | None = None,
) -> Refreshed:
    """Scan again the sources of a manifest that changed, write it anew in its place, and return what changed.

    Parameters
    ----------
    refs
        The path or URL of a manifest.
    dry_run
        Only tell what changed: nothing is scanned and nothing is written.
    prune
        Take out sources that are not there any more: of a stack their members, of a cube their chunks and times of
        which nothing is left, and a manifest of a single file itself.
    jobs
        How many sources are asked for their state at once.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the source or the manifest that you name.
    source_options
        fsspec's options for the sources that a manifest names.
    template_overrides
        Values for the templates of a manifest's URLs, by their names: `{"base":
        "s3://bucket/scenes/"}` for `{{base}}a.tif`; by default the manifest's own.
    """
    access = Access(
        allow=allow,
        storage_options=storage_options,
        source_options=source_options,
        template_overrides=template_overrides,
    )
    name = os.fspath(refs)
    if manifest_form(name) is None:
        raise UnsupportedError(
            "this is not a manifest; jnrrdz index makes one of an image, refresh renews it", url=name
        )
    if dry_run:
        return _refreshed(name, access, jobs, None, prune=prune)
    with updating(name, storage_options) as turn:
        return _refreshed(name, access, jobs, turn, prune=prune)


def _refreshed(
    name: str,
    access: Access,
    jobs: int,
    turn: Turn | None,
    *,
    prune: bool,
) -> Refreshed:
    """Return what changed, after it was written if there is a turn to do that."""
    manifest = api.store_with_levels(name, ScanOptions(), access).manifest
    if turn is not None and manifest.form == "icechunk":
        _, turn.version = split_version(str(manifest.url))
    pool = SourcePool(
        manifest,
        options=access.source_options,
        allow=access.allow,
        opener=open_source,
    )
    changed, gone = _changed(manifest, pool, jobs, prune=prune)
    is_removed = bool(gone) and not _is_joined(manifest) and manifest.sources[0].url in gone
    if (changed or gone) and turn is not None:
        turn.begin()
        try:
            if is_removed:
                remove(name, access.storage_options)
            else:
                _write(name, manifest, changed, gone, access)
        except JnrrdzError as error:
            raise error.at(url=name) from error.__cause__
    return Refreshed(name, len(manifest.sources), tuple(changed), tuple(gone), is_removed)


def _is_joined(manifest: Manifest) -> bool:
    """Whether a manifest is of several files put together."""
    own = manifest.documents.own()
    return "concat_dim" in own or bool(own.get("cube"))


def _write(name: str, manifest: Manifest, changed: Sequence[str], gone: Sequence[str], access: Access) -> None:
    """Write what the manifest should say now: the files of references that changed, else all of it."""
    origin = {name: value for name, value in manifest.documents.own().items() if name in ORIGIN}
    form = WriteOptions(
        manifest.form,
        single_range=bool(origin.get("single_range")),
        relative=not all(is_absolute(record.url) for record in manifest.sources),
        overwrite=True,
        target_options=access.storage_options,
    )
    if not _is_joined(manifest):
        write_form(_scanned_again(manifest, origin, access), name, form)
        return
    is_cube = bool(origin.get("cube"))
    dim = TIME if is_cube else str(origin["concat_dim"])
    options = _scan_options(origin) if changed else ScanOptions()
    with closing(Spool(tempfile.TemporaryFile)) as spool:
        members: dict[str, tuple[str, VirtualGroup]] = {}
        for url in changed:
            place, member = _scan(manifest, url, options, access)
            members[url] = (place, member.with_refs(spool.keep))
        if manifest.form == "parquet" and not gone and all(_is_of_itself(*member) for member in members.values()):
            spelt = {url: moved(member, {place: url}) for url, (place, member) in members.items()}
            renewed = with_members(group_from_manifest(manifest, as_spelt=True), spelt, dim)
            if form_module("parquet").renew(renewed, manifest, form):
                return
        group = group_from_manifest(manifest, allow=access.allow, source_options=access.source_options)
        if gone:
            group = pruned(group, (_place(manifest, url, access) for url in gone), dim, is_cube=is_cube)
        if members:
            group = with_members(group, dict(members.values()), dim).group
        write_form(group, name, form)


def _is_of_itself(place: str, member: VirtualGroup) -> bool:
    """Whether a member has no source but the one that was scanned."""
    return not place.endswith("/") and named_urls(member) == {place}


def _changed(manifest: Manifest, pool: SourcePool, jobs: int, *, prune: bool) -> tuple[list[str], list[str]]:
    """Return the sources that are not as they were, and those that are not there any more.

    Containers count as changed, since only their listing could tell.
    """
    findings = states(manifest, pool, (), jobs).findings
    changed, gone = [], []
    for finding in findings:
        if finding.kind == "drift":
            changed.append(finding.place)
        elif not _is_gone(pool, finding.place):
            raise UnrepresentableError(f"{finding.message}; it cannot be scanned again", url=finding.place)
        elif prune:
            gone.append(finding.place)
        else:
            raise UnrepresentableError(
                f"{finding.message}; it cannot be scanned again; --prune (prune=True) takes out what is gone",
                url=finding.place,
            )
    trees = list(manifest.trees)
    # what changed in a container is scanned with it
    outside = [url for url in changed if not url.startswith(tuple(trees) or ("\0",))]
    return outside + trees, gone


def _is_gone(pool: SourcePool, url: str) -> bool:
    """Whether a source is not there any more, and nothing else is wrong with it."""
    try:
        pool.opened(url).check()
    except JnrrdzError as error:
        return is_absent(error)
    return False


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
    _, scanned = _scan(manifest, first, _scan_options(origin), access, member=origin.get("member"))
    return VirtualGroup(scanned.children, scanned.attributes, scanned.sources, origin)


def _place(manifest: Manifest, url: str, access: Access) -> str:
    """Return where a source of a manifest is."""
    trust = manifest.trust(access.allow)
    if trust is None:
        raise UnsupportedError("this is a scanned image, not a manifest")
    place = trust.resolve(url)
    return f"{place.rstrip('/')}/" if url.endswith("/") else place


def _scan(
    manifest: Manifest, url: str, options: ScanOptions, access: Access, *, member: Any = None
) -> tuple[str, VirtualGroup]:
    """Return where a source of a manifest is, and what is there now.

    `member` is the file in an archive that was scanned.
    """
    place = _place(manifest, url, access)
    if isinstance(member, str):
        place = member_url(member, place)
    reach = Access(access.allow, access.source_options, named_by=manifest.url or "")
    return place, scanning.scan(place, options, reach).group
