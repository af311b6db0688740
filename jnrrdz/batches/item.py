"""What passes through a batch: a source that was found, a job made of it, and how the job ended.

They are tuples, since a batch holds thousands and sends them to processes.  Also here: whether an output is there
already, and of the source as it is now.  Of a JSON manifest the first lines and the last bytes are read, of Parquet
its metadata; a manifest that is not whole (a disk that lost power) counts as none.

A template says how outputs are called: a name with placeholders, such as `s3://out/{path}.json`.  What fills a
placeholder may come from a listing or a STAC item that someone else wrote, and is never a way out of the folder that
the template names.
"""

import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from jnrrdz.core.arrays import SourceRecord
from jnrrdz.core.state import Validators
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.formats.scanning import Opener, literal
from jnrrdz.lazy import library
from jnrrdz.manifests.documents import Documents
from jnrrdz.manifests.manifest import split_version
from jnrrdz.manifests.written_refs import relative
from jnrrdz.options import WriteOptions
from jnrrdz.redact import bare, record_repr
from jnrrdz.sources import faults
from jnrrdz.sources.ranges import ByteSource
from jnrrdz.sources.url import HTTP, is_absolute, parse, scheme

if TYPE_CHECKING:
    import fsspec

    from jnrrdz.manifests import icechunk_read
else:
    # a local file needs none of it, see `sources.filesystems`
    fsspec = library("fsspec")
    # an extra
    icechunk_read = library("jnrrdz.manifests.icechunk_read")


class Found(NamedTuple):
    """A source, with what its listing says of it."""

    url: str
    size: int | None = None
    etag: str | None = None
    modified: str | None = None
    """Last modification as RFC 3339 text in UTC."""
    path: str | None = None
    """Where it lies below the prefix or pattern that found it; None where it was named by itself."""
    names: tuple[tuple[str, str], ...] = ()
    """Further placeholders of the output's name: of a STAC item `id`, `collection`, `asset`."""
    named_by: str = ""
    """The document from afar that names it (a STAC item, a list, a table); empty where you name it."""
    nearness: int = 0
    """How near to this machine the server of that document was."""
    told: tuple[tuple[str, Any], ...] = ()
    """What a STAC item says of it: those of `stac.TOLD` that it has."""

    def __repr__(self) -> str:
        return record_repr(self)


class Job(NamedTuple):
    """One source and its output."""

    number: int
    found: Found
    output: str
    again: bool = False
    """Whether a worker that died may have done it already."""
    item: str = ""
    """The name of its STAC item, where items are written."""

    def __repr__(self) -> str:
        return record_repr(self)


class JobState(StrEnum):
    """How a job ended."""

    OK = "ok"
    SKIPPED = "skipped"
    EMPTY = "empty"
    """The source holds no image: there is nothing to index."""
    FAILED = "failed"
    PLANNED = "planned"


class Outcome(NamedTuple):
    """How a job ended, and what it cost."""

    job: Job
    """The source, and the output that it was to have."""
    state: JobState
    """`ok`, `skipped`, `empty`, `failed` or `planned`."""
    requests: int = 0
    """Range requests that reading the header took."""
    nbytes: int = 0
    """Bytes that these requests brought."""
    arrays: int = 0
    """How many arrays the manifest holds."""
    chunks: int = 0
    """How many chunks it refers to."""
    seconds: float = 0.0
    """How long the job took, all attempts together."""
    attempts: int = 0
    """How often it was tried."""
    error: str | None = None
    """The class of what went wrong."""
    message: str | None = None
    """What went wrong, in a sentence."""
    warnings: tuple[str, ...] = ()
    """What was left out of the manifest, a sentence each."""
    manifest: bytes | None = None
    """The manifest itself, where the batch puts all of them together."""
    item: dict[str, Any] | None = None
    """Its STAC item, where items are written."""

    def __repr__(self) -> str:
        return record_repr(self)

    def record(self) -> dict[str, Any]:
        """Return the members of a report's line; what is not known is left out."""
        members = {
            "source": self.job.found.url,
            "output": self.job.output,
            "state": str(self.state),
            "requests": self.requests,
            "bytes": self.nbytes,
            "arrays": self.arrays,
            "chunks": self.chunks,
            "seconds": round(self.seconds, 4),
            "attempts": self.attempts,
            "error": self.error,
            "message": self.message,
            "warnings": list(self.warnings),
        }
        return {name: value for name, value in members.items() if value is not None and value != []}


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
    if form == "icechunk":
        return _recorded_in_repository(output, options)
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
    return None if root is None else Recorded(Documents({_ROOT: root}).sources(first=True), _choices(root))


def _recorded_in_repository(output: str, options: Options) -> Recorded | None:
    """Return how the version on a repository's branch was made; None where there is none of ours."""
    if not exists(split_version(output)[0], options):
        return None
    root = icechunk_read.open_version(output, options).root_document()
    if root is None or "jnrrdz" not in json.loads(root).get("attributes", {}):
        return None
    return Recorded(Documents({_ROOT: root}).sources(first=True), _choices(root))


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
    with faults.translate_errors(output, "looking for the output"):
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
    record = next((record for record in records if record.url == named), None)
    if record is None or record.size is None:
        return False
    now = Validators(found.size or 0, found.etag, None, found.modified)
    if found.size is None or (found.etag is None and record.etag is not None):
        source = opener(literal(found.url), storage_options=options)
        try:
            now = source.validators
        finally:
            source.close()
    return record.is_proven_by(now)


def name_in(url: str, output: str, form: WriteOptions) -> str | None:
    """Return the URL by which a manifest names a source; None where it cannot."""
    named = bare(literal(url), form.keep_query)
    try:
        return relative(named, output) if form.relative else named
    except UnrepresentableError:
        return None


def moment(text: str) -> str:
    """Return a time as the user wrote it as RFC 3339 text in UTC; without a zone it is UTC."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise MalformedError(f"{text!r} is no time such as 2024-06-01T12:00:00Z", field="--since") from error
    return (when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)).isoformat()


def is_since(modified: str, earliest: str) -> bool:
    """Whether a time of modification is not before another."""
    return datetime.fromisoformat(modified) >= datetime.fromisoformat(earliest)


PLACEHOLDERS = {
    "stem": "the source's name without its last ending",
    "name": "the source's name",
    "path": "the path below the prefix or pattern that found it (else its whole path), without its last ending",
    "parent": "the name of the directory that holds it",
    "index": "its number in the order of the batch, from 0, at least six digits",
    "id": "of a STAC item",
    "collection": "of a STAC item",
    "asset": "the key of a STAC item's asset",
}
_FIELD = re.compile(r"\{([^{}]*)\}")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f]")
_HOME = re.compile(r"(?:(?:file|local):)?(?://)?~[^/]*\{", re.IGNORECASE)
_SCHEME = re.compile(r"(?:\A|::)[^/:]*\{[^/]*:(?::|//)")
_AUTHORITY = re.compile(r"(?<!file)(?<!local)(?<!memory)(?<!zip)(?<!tar)://[^/]*\Z")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_COLONS = re.compile(r"\A:|:\Z|:(?=:)|(?<=:):")
_ESCAPED = re.compile(r"%(?=7E|3A|25)")


class Template:
    """A name with placeholders, checked when it is made."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names = tuple(_FIELD.findall(text))
        left = _FIELD.sub("", text)
        if "{" in left or "}" in left:
            raise UnsupportedError("a brace that belongs to no placeholder", url=text, field="--output")
        for name in self.names:
            if name not in PLACEHOLDERS:
                known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
                raise UnsupportedError(f"no placeholder {{{name}}}; there are {known}", url=text, field="--output")
        if _HOME.match(text):
            raise UnsupportedError("a placeholder after `~` would name a user's home", url=text, field="--output")
        if _SCHEME.search(text):
            raise UnsupportedError("a placeholder in place of a scheme", url=text, field="--output")
        sample = parse(_FIELD.sub("x", text))
        self._leads = (sample.scheme, sample.is_chained, is_absolute(sample.text))
        self._decodes = sample.scheme in HTTP or text.lower().startswith(("file:", "local:"))

    @property
    def is_fixed(self) -> bool:
        """Whether every source would have the same output."""
        return not self.names

    def short(self, output: str) -> str:
        """Return what tells an output from the others of this template: its path below the folder that all share."""
        fixed = self.text.partition("{")[0]
        name = output[fixed.rfind("/") + 1 :] if output.startswith(fixed) else output
        return _without_ending(name.rstrip("/")).replace("/", "_")

    def filled(self, found: Found, number: int) -> str:
        """Return the output of one source."""
        whole = source_path(found.url)
        folder, _, name = whole.rpartition("/")
        values = {
            "name": name,
            "stem": _without_ending(name),
            "path": _without_ending((whole if found.path is None else found.path).strip("/")),
            "parent": folder.rpartition("/")[2],
            "index": f"{number:06}",
            **dict(found.names),
        }

        output, done = "", 0
        for match in _FIELD.finditer(self.text):
            if match[1] not in values:
                raise UnrepresentableError(
                    f"{{{match[1]}}} is known of STAC items only", url=found.url, field="--output"
                )
            output += self.text[done : match.start()]
            done = match.end()
            safe = _escaped(_safe(values[match[1]], match[1], found.url), output)
            if _AUTHORITY.search(output) and not _HOST.fullmatch(safe):
                message = f"{{{match[1]}}} is {safe!r}, which is no name of a host or bucket"
                raise UnrepresentableError(message, url=found.url, field="--output")
            output += safe.replace("%", "%25") if self._decodes else safe
        output += self.text[done:]
        where = parse(output)
        if (where.scheme, where.is_chained, is_absolute(output)) != self._leads:
            raise UnrepresentableError(f"{output} would lead out of {self.text}", url=found.url, field="--output")
        return output


def source_path(url: str) -> str:
    """Return the path of a source: the key in a bucket, the decoded path of an HTTP URL; no slash at its end."""
    kind = scheme(url)
    if kind in HTTP:
        return unquote(urlsplit(url).path).rstrip("/")
    if "://" not in url:
        return url.rstrip("/")
    path = url.partition("://")[2].rstrip("/")
    return path if kind == "file" else path.partition("/")[2]


def _without_ending(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    stem = name.rpartition(".")[0] or name
    return f"{folder}{slash}{stem}"


def _safe(value: str, name: str, url: str) -> str:
    """Return a value that stays where the template puts it: no empty name, `..`, backslash or control character."""
    parts = value.split("/")
    slashed = len(parts) > 1 and name != "path"
    if slashed or "\\" in value or _UNSAFE.search(value) or any(part in {"", ".", ".."} for part in parts):
        raise UnrepresentableError(
            f"{{{name}}} is {value!r}, which is no name for an output", url=url, field="--output"
        )
    return value


def _escaped(value: str, before: str) -> str:
    """Return a value in which nothing names a home, a scheme or a chain, whatever stands before it.

    `~` and `:` are percent-encoded where they could, and a percent sign where it would look like that.
    """
    value = _ESCAPED.sub("%25", value)
    if "/" not in before:
        value = value.replace(":", "%3A")
    if not before or before.endswith((":", "//")):
        value = re.sub("^~", "%7E", value)
    return _COLONS.sub("%3A", value)
