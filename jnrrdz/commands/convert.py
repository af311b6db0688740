"""A manifest in another form, or of sources that are elsewhere now: `convert`.

May touch the api, read, the model and errors.  Nothing is scanned and no source is opened: what a
manifest says is written anew.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jnrrdz import api
from jnrrdz.core.arrays import SourceRecord, VirtualGroup
from jnrrdz.errors import MalformedError, UnrepresentableError
from jnrrdz.manifests.groups import group_from_manifest
from jnrrdz.manifests.place import moved, named_urls
from jnrrdz.sources.url import place

_ABSOLUTE = re.compile(r"=(?=/|[A-Za-z][A-Za-z0-9+.-]*://)")

type Options = Mapping[str, Any] | None


def convert(  # noqa: PLR0913  what is changed, and how things are reached
    refs: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    rewrite_prefix: Mapping[str, str] | None = None,
    format: str | None = None,  # noqa: A002  the word that users know
    single_range: bool = False,
    relative: bool = False,
    overwrite: bool = False,
    allow: Sequence[str] = (),
    storage_options: Options = None,
    source_options: Options = None,
    target_options: Options = None,
) -> VirtualGroup:
    """Write a manifest in another form, its sources' URLs with other beginnings, and return what was written.

    A source that is elsewhere now keeps its size in the table; its ETag and its times are not those of
    the copy and are left out.
    """
    target = os.fspath(out)
    store = api.open_store(refs, allow=allow, storage_options=storage_options, source_options=source_options)
    group = group_from_manifest(store.manifest, allow=allow, source_options=source_options)
    found = rewritten(group, rewrite_prefix) if rewrite_prefix else group
    if place(target) in {place(record.url) for record in found.sources}:
        raise UnrepresentableError("is a source itself and would be replaced; name another output", url=target)
    api.write(
        found,
        target,
        format=format,
        single_range=single_range,
        relative=relative,
        overwrite=overwrite,
        storage_options=target_options,
    )
    return found


def rewritten(group: VirtualGroup, prefixes: Mapping[str, str]) -> VirtualGroup:
    """Return the same group of sources whose URLs begin otherwise; a prefix that no source has is an error."""
    urls: dict[str, str] = {}
    used: set[str] = set()
    # the longest prefix counts, so that a part of what moves can go elsewhere
    order = sorted(prefixes, key=len, reverse=True)
    for url in named_urls(group):
        prefix = next((prefix for prefix in order if _begins(url, prefix)), None)
        if prefix is not None:
            used.add(prefix)
        urls[url] = url if prefix is None else prefixes[prefix] + url[len(prefix) :]
    unused = sorted(set(prefixes) - used)
    if unused:
        first = next(iter(sorted(urls)), "none at all")
        raise UnrepresentableError(f"no source begins with {unused[0]}; one is {first}", field="--rewrite-prefix")
    changed = {new for old, new in urls.items() if new != old}
    found = moved(group, urls)
    return replace(found, sources=tuple(_as_copy(one) if one.url in changed else one for one in found.sources))


def prefix_of(text: str) -> tuple[str, str]:
    """Return the two sides of `OLD=NEW`; where OLD has an equals sign itself, NEW has to be absolute."""
    places = [match.start() for match in _ABSOLUTE.finditer(text)]
    if text.count("=") == 1:
        places = [text.index("=")]
    if len(places) != 1 or not text[: places[0]] or not text[places[0] + 1 :]:
        raise MalformedError(f"{text!r} is not OLD=NEW", field="--rewrite-prefix")
    return text[: places[0]], text[places[0] + 1 :]


def _begins(url: str, prefix: str) -> bool:
    """Whether a URL is a prefix or below it; `s3://a` is no prefix of `s3://ab/x`."""
    return url == prefix or url.startswith(prefix if prefix.endswith("/") else f"{prefix}/")


def _as_copy(record: SourceRecord) -> SourceRecord:
    return SourceRecord(record.url, record.size)
