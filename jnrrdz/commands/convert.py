"""A manifest in another form, or of sources that are elsewhere now: `convert`.

Nothing is scanned: what a manifest says is written again, after one chunk of each array was read.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jnrrdz import api
from jnrrdz.commands.first_chunks import FirstChunks
from jnrrdz.core.arrays import SourceRecord
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.core.zarr_json import UNREAD_SOURCES, is_osml
from jnrrdz.errors import MalformedError, UnrepresentableError
from jnrrdz.manifests.groups import group_from_manifest
from jnrrdz.manifests.manifest import manifest_form, write_form
from jnrrdz.manifests.written_refs import moved, named_urls
from jnrrdz.options import Access, ScanOptions, StorageOptions, WriteOptions
from jnrrdz.sources.url import place

_ABSOLUTE = re.compile(r"=(?=/|[A-Za-z][A-Za-z0-9+.-]*://)")


def convert(  # noqa: PLR0913  the signature is the documentation
    refs: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    rewrite_prefix: Mapping[str, str] | None = None,
    check: bool = True,
    format: str | None = None,
    single_range: bool = False,
    relative: bool = False,
    overwrite: bool = False,
    keep_query: Sequence[str] = (),
    target_options: StorageOptions = None,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
    source_options: StorageOptions = None,
    template_overrides: Mapping[str, str] | None = None,
) -> VirtualGroup:
    """Write a manifest in another form, its sources' URLs with other beginnings, and return what was written.

    A source that is elsewhere now keeps its size in the table; its ETag and its times are not those of the copy
    and are left out.

    Parameters
    ----------
    refs
        The path or URL of a manifest.
    out
        The path or URL of the new one.
    rewrite_prefix
        New beginnings of the sources' URLs by their old ones; the longest old one that fits is taken.
    check
        Decode one chunk of each array before the manifest is written; without it no source is opened.
    format
        `json`, `parquet` or `icechunk`; by default by the ending of the output's name,
        else `json`.
    single_range
        Refer to scattered chunks by the span that holds them: one range for every
        chunk.
    relative
        Write the sources' URLs relative to the manifest.
    overwrite
        Replace a manifest that exists.
    keep_query
        Query parameters that name the file and are no secret, which the manifest then
        records; `*` for all. By default only versions of objects are recorded
        (`versionId`, `generation`).
    target_options
        fsspec's options for the output.
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
    form = WriteOptions(
        format=format,
        single_range=single_range,
        relative=relative,
        overwrite=overwrite,
        keep_query=keep_query,
        target_options=target_options,
    )
    access = Access(
        allow=allow,
        storage_options=storage_options,
        source_options=source_options,
        template_overrides=template_overrides,
    )
    url = os.fspath(refs)
    is_manifest = manifest_form(url) is not None
    store = api.manifest_store(url, access) if is_manifest else api.store_with_levels(url, ScanOptions(), access)
    manifest = store.manifest
    group = group_from_manifest(manifest, allow=access.allow, source_options=access.source_options)
    if is_osml(manifest.documents.node("")):
        group = replace(group, origin={**group.origin, UNREAD_SOURCES: True})
    first_chunks = FirstChunks(access)
    first_chunks.add_manifest(manifest, group)
    if rewrite_prefix:
        group = rewritten(group, rewrite_prefix)
    write_elsewhere(group, os.fspath(out), form, first_chunks if check else None)
    return group


def write_elsewhere(group: VirtualGroup, target: str, form: WriteOptions, first_chunks: FirstChunks | None) -> None:
    """Write a manifest whose first chunks can be read; an output that is one of its sources is refused."""
    if place(target) in {place(record.url) for record in group.sources}:
        raise UnrepresentableError("is a source itself and would be replaced; name another output", url=target)
    if first_chunks is not None:
        first_chunks.check(group)
    write_form(group, target, form)


def rewritten(group: VirtualGroup, prefixes: Mapping[str, str]) -> VirtualGroup:
    """Return the same group of sources whose URLs begin otherwise; a prefix that no source has is an error."""
    urls: dict[str, str] = {}
    used: set[str] = set()
    # the longest prefix counts, so that a part of what moves can go elsewhere
    order = sorted(prefixes, key=len, reverse=True)
    for url in named_urls(group):
        # `s3://a` is no prefix of `s3://ab/x`
        prefix = next((old for old in order if url == old or url.startswith(f"{old.removesuffix('/')}/")), None)
        if prefix is not None:
            used.add(prefix)
        urls[url] = url if prefix is None else prefixes[prefix] + url[len(prefix) :]
    unused = sorted(set(prefixes) - used)
    if unused:
        first = next(iter(sorted(urls)), "none at all")
        raise UnrepresentableError(f"no source begins with {unused[0]}; one is {first}", field="--rewrite-prefix")
    changed = {new for old, new in urls.items() if new != old}
    found = moved(group, urls)
    records = (SourceRecord(record.url, record.size) if record.url in changed else record for record in found.sources)
    # what tells the state of objects is not their copies'
    kept = found.with_refs(lambda refs: refs.without_versions() if changed.intersection(refs.named) else refs)
    return replace(kept, sources=tuple(records))


def prefix_of(text: str) -> tuple[str, str]:
    """Return the two sides of `OLD=NEW`; where OLD has an equals sign itself, NEW has to be absolute."""
    places = [match.start() for match in _ABSOLUTE.finditer(text)]
    if text.count("=") == 1:
        places = [text.index("=")]
    if len(places) != 1 or not text[: places[0]] or not text[places[0] + 1 :]:
        raise MalformedError(f"{text!r} is not OLD=NEW", field="--rewrite-prefix")
    return text[: places[0]], text[places[0] + 1 :]
