"""A manifest in another form, or of sources that are elsewhere now: `convert`.

Nothing is scanned: what a manifest says is written again, after one chunk of each array was read.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

from jnrrdz import api
from jnrrdz.commands.first_chunks import FirstChunks
from jnrrdz.core.arrays import SourceRecord, VirtualGroup
from jnrrdz.core.zarr_json import UNREAD_SOURCES, is_osml
from jnrrdz.errors import MalformedError, UnrepresentableError
from jnrrdz.manifests.groups import group_from_manifest
from jnrrdz.manifests.manifest import manifest_form
from jnrrdz.manifests.written_refs import moved, named_urls
from jnrrdz.options import Access, ManifestChoices, WriteOptions, with_choices
from jnrrdz.sources.url import place

_ABSOLUTE = re.compile(r"=(?=/|[A-Za-z][A-Za-z0-9+.-]*://)")


def convert(  # noqa: PLR0913  what is written, and how
    refs: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    rewrite_prefix: Mapping[str, str] | None = None,
    check: bool = True,
    form: WriteOptions | None = None,
    access: Access | None = None,
    **choices: Unpack[ManifestChoices],
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
    form
        The form of the new manifest, and what it may replace.
    access
        How the manifest is reached.
    **choices
        Members of `WriteOptions` and `Access`, in place of the records or beside them.
    """
    output, reach = with_choices(choices, form or WriteOptions(), access or Access())
    url = os.fspath(refs)
    is_manifest = manifest_form(url) is not None
    manifest = (api.manifest_store(url, reach) if is_manifest else api.open_store(url, access=reach)).manifest
    group = group_from_manifest(manifest, allow=reach.allow, source_options=reach.source_options)
    if is_osml(manifest.documents.node("")):
        group = replace(group, origin={**group.origin, UNREAD_SOURCES: True})
    first_chunks = FirstChunks(reach)
    first_chunks.add_manifest(manifest, group)
    if rewrite_prefix:
        group = rewritten(group, rewrite_prefix)
    write_elsewhere(group, os.fspath(out), output, first_chunks if check else None)
    return group


def write_elsewhere(group: VirtualGroup, target: str, form: WriteOptions, first_chunks: FirstChunks | None) -> None:
    """Write a manifest whose first chunks can be read; an output that is one of its sources is refused."""
    if place(target) in {place(record.url) for record in group.sources}:
        raise UnrepresentableError("is a source itself and would be replaced; name another output", url=target)
    if first_chunks is not None:
        first_chunks.check(group)
    api.write(group, target, form)


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
