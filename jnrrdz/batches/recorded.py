"""Whether an output is there already, and of the source as it is now.

May touch sources and fsspec.  Of a JSON manifest the first lines and the last bytes are read, of Parquet its
metadata; a manifest that is not whole (a disk that lost power) counts as none.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import fsspec.core

from jnrrdz.batches.item import Found
from jnrrdz.core.array import SourceRecord
from jnrrdz.errors import JnrrdzError, UnrepresentableError
from jnrrdz.formats.located import Opener, literal
from jnrrdz.manifests.documents import source_records
from jnrrdz.manifests.place import relative
from jnrrdz.sources import faults
from jnrrdz.sources.base import ByteSource, Validators

type Options = Mapping[str, Any] | None

START = b'{"version":1,"refs":{\n'
END = b"\n}}\n"
_ROOT = "zarr.json"
_FIRST = 64 * 1024
_LARGEST = 64 << 20
"""Bytes of a root's metadata, beyond which a manifest is not looked into."""


class Recorded(NamedTuple):
    """What a manifest says of how it was made."""

    sources: tuple[SourceRecord, ...]
    options: Mapping[str, Any]
    """The choices of its scan that are not the usual ones, `single_range` among them."""


def recorded_in(output: str, form: str, opener: Opener, options: Options) -> Recorded | None:
    """Return how a manifest was made; None where it is not there, or not whole and ours."""
    place = f"{output.rstrip('/')}/.zmetadata" if form == "parquet" else output
    try:
        source = opener(place, storage_options=options)
        try:
            root = _parquet_root(source) if form == "parquet" else _json_root(source)
        finally:
            source.close()
    except JnrrdzError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    return None if root is None else Recorded(source_records({_ROOT: root}), _choices(root))


def _choices(root: bytes) -> Mapping[str, Any]:
    attributes = json.loads(root).get("attributes")
    own = attributes.get("jnrrdz") if isinstance(attributes, dict) else None
    if not isinstance(own, dict):
        return {}
    asked = own.get("options")
    choices = dict(asked) if isinstance(asked, dict) else {}
    return {**choices, "single_range": True} if own.get("single_range") else choices


def exists(output: str, options: Options) -> bool:
    """Whether anything is at an output's place."""
    if output.startswith("/") and "::" not in output:  # as fsspec has it, in a fiftieth of the time
        return os.path.lexists(output.rstrip("/") or "/")
    with faults.told(output, "looking for the output"):
        fs, place = fsspec.core.url_to_fs(output, **(options or {}))
        fs.invalidate_cache(fs._parent(place))  # noqa: SLF001  a listing made earlier tells of an earlier state
        return bool(fs.exists(place))


def _json_root(source: ByteSource) -> bytes | None:
    """Return the root's document of a manifest as `write.kerchunk_json` has it."""
    length = _FIRST
    (head,) = source.read([(0, length)])
    size = source.validators.size
    while head.count(b"\n", len(START)) < 1 and length < min(size, _LARGEST):
        length *= 4
        (head,) = source.read([(0, min(length, size))])
    (tail,) = source.read([(max(size - len(END), 0), size)])
    if not head.startswith(START) or tail != END:
        return None
    try:
        line = json.loads(b"{" + head[len(START) :].partition(b"\n")[0].rstrip(b",") + b"}")
        return str(line[_ROOT]).encode()
    except (ValueError, KeyError):
        return None


def _parquet_root(source: ByteSource) -> bytes | None:
    size = source.validators.size
    (data,) = source.read([(0, min(size, _LARGEST))])
    try:
        return json.dumps(json.loads(data)["metadata"][_ROOT]).encode()
    except (ValueError, KeyError, TypeError):
        return None


def is_made_of(
    records: tuple[SourceRecord, ...], found: Found, named: str | None, opener: Opener, options: Options
) -> bool:
    """Whether a manifest is of a source, by the name it would have there, as it is now.

    Its listing tells, else one request.
    """
    url = literal(found.url)
    record = next((one for one in records if one.url == named), None)
    if record is None or record.size is None:
        return False
    now = Validators(found.size or 0, found.etag, None, found.modified)
    if found.size is None or (found.etag is None and record.etag is not None):
        source = opener(url, storage_options=options)
        try:
            now = source.validators
        finally:
            source.close()
    return is_same(record, now)


def is_same(record: SourceRecord, now: Validators) -> bool:
    """Whether a source is as it was: of the same size and ETag, or else of the same time of modification."""
    if record.size != now.size:
        return False
    if record.etag is not None and now.etag is not None:
        return _bare(record.etag) == _bare(now.etag)
    return record.modified is not None and record.modified == now.modified


def _bare(etag: str) -> str:
    """Return an ETag without quotes and mark of weakness, which listings and answers spell differently."""
    return etag.removeprefix("W/").strip('"')


def name_in(url: str, output: str, *, is_relative: bool) -> str | None:
    """Return the URL by which a manifest names a source; None where it cannot."""
    try:
        return relative(literal(url), output) if is_relative else literal(url)
    except UnrepresentableError:
        return None
