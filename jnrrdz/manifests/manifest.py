"""A manifest: Zarr v3 documents, and for every array where its chunks' bytes are.

`load` reads JSON and Parquet (https://fsspec.github.io/kerchunk/spec.html) with Zarr v3 keys and Icechunk
repositories, `from_group` takes what a scanner found, and `write_form` writes that as one of the forms.
"""

import os
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from jnrrdz.caches import BoundedCache
from jnrrdz.core.arrays import SourceRecord
from jnrrdz.core.hierarchy import Hierarchy
from jnrrdz.core.refs import References
from jnrrdz.core.tree import VirtualGroup, needed_sources, tree_json
from jnrrdz.core.zarr2 import is_osml_version_2
from jnrrdz.core.zarr_json import REFERENCES, ZARR_JSON
from jnrrdz.errors import JnrrdzError, UnrepresentableError, UnsupportedError
from jnrrdz.manifests import atomic, turns
from jnrrdz.manifests.documents import METADATA, ChunkKeys, Documents, is_manifest
from jnrrdz.manifests.forms import ENDINGS, FORMS
from jnrrdz.manifests.trust import Trust
from jnrrdz.manifests.written_refs import moved, named_urls
from jnrrdz.options import WriteOptions
from jnrrdz.records import record
from jnrrdz.redact import bare, hidden, record_repr
from jnrrdz.sources import faults, filesystems
from jnrrdz.sources.fsspec import open_source
from jnrrdz.sources.local import LocalSource
from jnrrdz.sources.ranges import ByteSource
from jnrrdz.sources.url import join_folder, local_path, without_query

REPOSITORY = "repo"
"""The file that makes a directory an Icechunk repository."""
_ICECHUNK = "ICE🧊CHUNK".encode()
"""What it begins with."""
_FIRST_VERSION = "refs/branch.main/ref.json"
"""What a repository of the first version of its format has in place of that file."""
_VERSION = re.compile(r"(?P<repository>.+)@(?P<version>(?:branch|tag)\.[^/@]+|[0-9A-HJKMNP-TV-Z]{20})", re.DOTALL)

_SNIFFED = 1 << 20  # bytes of a file that are looked at to tell what it is
_SNIFFED_FAR = 1 << 16
_LAST = 256  # bytes at the end, where kerchunk tells the size of records
_KEPT = 4  # manifests that a process keeps, so that a worker's tasks do not each read theirs

type Options = Mapping[str, Any] | None


@record(eq=False)
class Manifest:
    """What a manifest holds; URLs are as it spells them, templates expanded."""

    url: str | None
    """Where it was loaded from; None if it was scanned."""
    documents: Documents
    """Metadata by key (`zarr.json`, `data/zarr.json`), and other inline values outside of arrays."""
    arrays: Mapping[str, References]
    """References by the array's path."""
    sources: Sequence[SourceRecord] = ()
    """The sources as they were when they were scanned, from the root attribute `jnrrdz`; a tuple, or read from files of
    their own where there are many."""
    form: str | None = None
    """The format of what was loaded: `json`, `parquet` or `icechunk`."""
    own_chunks: tuple[str, Options] | None = field(default=None, repr=False)
    """The folder of chunks that the manifest itself holds (Icechunk's native ones), and fsspec's options for it."""

    written: int = field(default=0, repr=False, compare=False)
    """When the file of a local manifest was written, in nanoseconds since 1970; 0 where that is not known."""

    __repr__ = record_repr

    def __str__(self) -> str:
        if self.url:
            return hidden(self.url)
        first = hidden(self.sources[0].url) if self.sources else "a group in memory"
        return f"{first} and {len(self.sources) - 1} more" if len(self.sources) > 1 else first

    @property
    def records(self) -> Mapping[str, SourceRecord]:
        """The sources by their URLs; those of a table in files are read when they are asked for."""
        if isinstance(self.sources, tuple):
            return {record.url: record for record in self.sources}
        return self.sources.records  # type: ignore[attr-defined, no-any-return]

    @property
    def trees(self) -> tuple[str, ...]:
        """The containers among the sources."""
        if isinstance(self.sources, tuple):
            return tuple(record.url for record in self.sources if record.url.endswith("/"))
        return self.sources.trees  # type: ignore[attr-defined, no-any-return]

    @property
    def is_all_local(self) -> bool:
        """Whether the table of sources has none that is not a local file."""
        if isinstance(self.sources, tuple):
            return all(local_path(record.url) is not None for record in self.sources)
        return self.sources.all_local  # type: ignore[attr-defined, no-any-return]

    def trust(self, allow: Sequence[str] = ()) -> Trust | None:
        """Return which sources may be opened; None where it was scanned, for those were named by the user."""
        if self.url is None:
            return None
        own = None if self.own_chunks is None else self.own_chunks[0]
        return Trust(self.url, self.records, tuple(allow), own)

    def array_path(self, key: str) -> str | None:
        """Return the path of the array that a key is inside of, None where it is in none."""
        path = ""
        end = key.find("/")
        while path not in self.arrays and end >= 0:
            path = key[:end]
            end = key.find("/", end + 1)
        return path if path in self.arrays else None

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """The groups and arrays with their references, and the images among them."""
        return Hierarchy.of_documents(self.documents.nodes(), self.arrays)

    @cached_property
    def keys(self) -> Mapping[str, ChunkKeys]:
        """How the chunks of arrays are called, by the array's path."""
        return self.documents.array_keys(f"{path}/{ZARR_JSON}".lstrip("/") for path in self.arrays)

    def chunk(self, key: str) -> tuple[str, int] | None:
        """Return the path of the array and the number of the chunk that a key names, None where it names none."""
        path = self.array_path(key)
        if path is None:
            return None
        number = self.keys[path].number(key)
        return None if number is None else (path, number)

    @property
    def is_stack(self) -> bool:
        """Whether it was put together of several along an axis."""
        return "concat_dim" in self.documents.own()

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same."""
        if not isinstance(other, Manifest):
            return NotImplemented
        return (self.url, self.documents, self.arrays) == (other.url, other.documents, other.arrays)

    __hash__ = None  # type: ignore[assignment]  # equal by value, and the values are arrays


def from_group(root: VirtualGroup) -> Manifest:
    """Return a manifest of what was scanned, which stays in memory.

    What it shows as attributes is what a manifest would record; the sources are read as they were given.
    """
    urls = {url: bare(url) for url in named_urls(root)}
    is_plain = all(url == kept for url, kept in urls.items())
    documents = Documents(objects=tree_json(root if is_plain else moved(root, urls)))
    arrays = {path: array.refs for path, array in root.arrays()}
    return Manifest(None, documents, arrays, needed_sources(root))


# Writing


def format_of(out: str) -> str:
    """Return the manifest format that an output's name asks for: JSON where it has no ending, one of the known else."""
    name = without_query(split_version(out)[0]).rstrip("/").rpartition("/")[2].lower()
    ending = f".{name.rpartition('.')[2]}" if "." in name.lstrip(".") else ".json"
    if ending not in ENDINGS:
        raise UnsupportedError(
            f"a manifest does not end in {ending}; end it in {', '.join(ENDINGS)}, or name its form with --format "
            "(format=)",
            url=out,
            field="--output",
        )
    return ENDINGS[ending]


def form_module(name: str, part: str = "") -> ModuleType:
    """Return the module of a form, or a `part` of it that is one, imported when it is asked for.

    What it needs may not be installed.
    """
    try:
        return import_module(f"jnrrdz.manifests.{name}{part}")
    except ImportError as error:
        raise UnsupportedError(f"the form {name} needs a package ({error}): pip install 'jnrrdz[{name}]'") from error


def write_form(group: VirtualGroup, target: str, options: WriteOptions) -> None:
    """Write a virtual group as a manifest, whole or not at all."""
    name = options.format or format_of(target)
    if name not in FORMS:
        raise UnsupportedError(f"manifest format {name!r}; there are {', '.join(FORMS)}", url=target)
    if options.single_range and group.origin:
        group = replace(group, origin={**group.origin, "single_range": True})
    form_module(name).write(group, target, options)


@contextmanager
def updating(target: str, storage_options: Options = None) -> Iterator[turns.Turn]:
    """Yield the turn to write a manifest again that is read in it.

    A store compares what is written with the state that was there when the turn began.
    """
    if manifest_form(target) == "icechunk":
        module = form_module("icechunk")
        repository, _ = split_version(target)
        with module.turn_of(repository) as turn:
            turn.is_update = True
            yield turn
        return
    with faults.translate_errors(target, "opening"):
        fs, path = filesystems.opened(target, storage_options)
    lock_file = None
    if filesystems.is_local(fs):
        if os.path.islink(path):  # noqa: PTH114  a path of fsspec's
            path = os.path.realpath(path)
        lock_file = atomic.lock_file_of(path)
    with turns.writing(target, path, lock_file) as turn:
        turn.is_update = True
        if lock_file is None:
            _look(turn, fs, path)
        yield turn


def _look(turn: turns.Turn, fs: Any, path: str) -> None:
    """Record the state of a manifest in a store: of METADATA, or of its only file."""
    if not turns.has_conditions(fs):
        turn.unguarded = turns.without_conditions(fs)
        return
    switch = f"{path.rstrip('/')}/{METADATA}"
    is_file = without_query(turn.url).endswith(".json")
    if is_file or not turns.settle(fs, switch, turn):
        turn.look(fs, path)


def remove(target: str, storage_options: Options = None) -> None:
    """Remove a manifest of JSON or Parquet; an Icechunk repository has a history, which stays its owner's."""
    form = manifest_form(target)
    if form == "icechunk":
        raise UnrepresentableError("an Icechunk repository without any source; remove it yourself", url=target)
    if form == "parquet":
        form_module(form).remove(target, storage_options)
        return
    place = atomic.locate(target, storage_options)
    if place.kind == "file" and is_manifest(place.head()):
        turns.check(place.fs, place.path)
        folder, _, name = place.path.rpartition("/")
        replace(place, path=folder or "/").remove([name])


# Reading

_recent = BoundedCache[tuple[object, ...], Manifest](most=_KEPT)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_recent.unlock_in_child)


def load(
    url: str,
    *,
    storage_options: Options = None,
    templates: Mapping[str, str] | None = None,
    form: str | None = None,
) -> Manifest:
    """Return the manifest at a path or URL, the one that the process has already if it has not changed.

    `templates` are values in place of the manifest's own.  Where nothing but its size tells whether it has, it is
    read again.  `form` is what `manifest_form` returns, for callers that asked it.
    """
    if (form or manifest_form(url)) == "icechunk":
        version = form_module("icechunk", "_read").open_version(url, storage_options)
        snapshot = (version.url, pickle.dumps(storage_options))
        return _recent.get(snapshot) or _keep(snapshot, version.manifest())
    source, is_parquet = _open(url, storage_options)
    seen = source.validators
    state = (url, *vars(seen).values(), pickle.dumps((storage_options, templates)))
    manifest = _recent.get(state)
    if manifest is None:
        arrays: Mapping[str, References]
        try:
            if is_parquet:
                documents, arrays, layout = form_module("parquet", "_records").read_parquet(
                    url, source, storage_options, templates
                )
                sources = _table(url, documents, layout, storage_options)
            else:
                from jnrrdz.manifests.json_refs import read_json  # noqa: PLC0415  who writes one needs no msgspec

                documents, arrays = read_json(source, templates)
                sources = documents.sources()
            documents, arrays = _in_a_group(documents, arrays)
            form = "parquet" if is_parquet else "json"
            manifest = Manifest(url, documents, arrays, sources, form, written=_written(source))
        except JnrrdzError as error:
            raise error.at(url=url) from error.__cause__
    if (seen.etag, seen.version, seen.modified) == (None, None, None):
        return manifest
    return _keep(state, manifest)


def _written(source: ByteSource) -> int:
    """Return when a local manifest was written, 0 where that is not known."""
    return source.written_at if isinstance(source, LocalSource) else 0


def _table(url: str, documents: Documents, layout: Any, options: Options) -> Sequence[SourceRecord]:
    """Return the sources of a Parquet manifest."""
    table = documents.own().get("sources")
    if not isinstance(table, dict):
        return documents.sources()
    from jnrrdz.manifests.source_files import SourceFiles  # noqa: PLC0415  few manifests have so many

    return SourceFiles(url, table, layout, options)


def load_outline(url: str, *, storage_options: Options = None) -> Manifest:
    """Return the manifest at a path or URL; arrays with more than one axis may be without references."""
    if manifest_form(url) != "icechunk":
        return load(url, storage_options=storage_options)
    manifest: Manifest = form_module("icechunk", "_read").open_version(url, storage_options).manifest(outline=True)
    return manifest


VARIABLE = "data"
"""What an array is called that others let stand at the root."""


def _in_a_group(documents: Documents, arrays: Mapping[str, References]) -> tuple[Documents, Mapping[str, References]]:
    """Return the same where nothing but groups stands at the root: tifffile and kerchunk let an array stand there."""
    top = arrays.get("")
    if top is None:
        return documents, arrays
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    inner = Documents(objects={ZARR_JSON: group, f"{VARIABLE}/{ZARR_JSON}": documents.whole(ZARR_JSON)})
    if "" in documents.foreign:
        inner.foreign[VARIABLE] = documents.foreign[""]
    return inner, {VARIABLE: top}


def _keep(state: tuple[object, ...], manifest: Manifest) -> Manifest:
    _recent.put(state, manifest)
    return manifest


def _open(url: str, options: Options) -> tuple[ByteSource, bool]:
    """Return the file that tells what a manifest holds, and whether it is a Parquet directory's."""
    path, metadata = local_path(url), join_folder(url, METADATA)
    if path is not None:
        is_parquet = Path(path).is_dir()
        return open_source(metadata if is_parquet else url, storage_options=options), is_parquet
    if url.endswith(".json") or without_query(url).endswith(".json"):
        return open_source(url, storage_options=options), False
    try:
        source = open_source(metadata, storage_options=options)
        _ = source.validators  # the request that tells whether it is there
    except JnrrdzError:
        return open_source(url, storage_options=options), False
    return source, True


def split_version(text: str) -> tuple[str, str | None]:
    """Return an Icechunk repository and the version of it that a name asks for, None where it asks for none.

    `REPO@branch.NAME`, `REPO@tag.NAME` and `REPO@SNAPSHOT` name one; a path that is there is what it says.
    """
    repository, version, _ = _parts_of(text)
    return repository, version


def _parts_of(text: str) -> tuple[str, str | None, str | None]:
    """Return repository and version as `split_version` does, and the local path of the repository."""
    path = local_path(text)
    match = _VERSION.fullmatch(text.rstrip("/"))
    if match is None or (path is not None and os.path.lexists(path)):
        return text, None, path
    return match["repository"], match["version"], local_path(match["repository"])


def manifest_form(text: str) -> str | None:
    """Return the form of the manifest that a name stands for, None where it stands for something else.

    A local one is told by its content, and by its name as a remote one is.
    """
    _, version, path = _parts_of(text)
    names = [name.rstrip("/").lower() for name in (without_query(text), text)]  # a query may name the file
    if version is not None or (path is not None and is_repository(path)):
        return "icechunk"
    ending = next((ending for name in names for ending in ENDINGS if name.endswith(ending)), None)
    if ending is not None:
        return ENDINGS[ending]
    if path is None:
        return None
    # `Path.is_dir` raises for a name that is too long
    head, is_folder = _local_head(Path(path)), os.path.isdir(path)  # noqa: PTH112
    if is_folder:  # the same file of a Zarr v2 store has no records
        return "parquet" if _is_readable(head) or b'"record_size"' in head else None
    return "json" if head.lstrip().startswith(b"{") and REFERENCES.search(head) else None


def is_repository(path: str) -> bool:
    """Whether a local directory is an Icechunk repository."""
    try:
        with open(os.path.join(path, REPOSITORY), "rb") as file:  # noqa: PTH118, PTH123  the path is literal
            return file.read(len(_ICECHUNK)) == _ICECHUNK
    except (OSError, ValueError):
        return os.path.isfile(os.path.join(path, _FIRST_VERSION))  # noqa: PTH113, PTH118  the same


def is_reference_manifest(url: str | os.PathLike[str]) -> bool:
    """Whether a file or directory looks like references to a Zarr v3 hierarchy, or osml's to a v2 one, by its head.

    A remote one is looked at only where its name says that it may be one: each look is a request.
    """
    text, version, place = _parts_of(os.fspath(url))
    if place is not None:
        return is_repository(place) or (version is None and _is_readable(_local_head(Path(place))))
    head = _remote_head(text)
    return _is_readable(head) or head.startswith(_ICECHUNK)


def _is_readable(head: bytes) -> bool:
    return is_manifest(head) or is_osml_version_2(head)


def _local_head(path: Path) -> bytes:
    try:
        file = path / METADATA if path.is_dir() else path
        if not file.is_file():  # a named pipe would wait for a writer
            return b""
        with file.open("rb") as stream:
            head = stream.read(_SNIFFED)
            stream.seek(max(len(head), os.fstat(stream.fileno()).st_size - _LAST))
            return head + stream.read(_LAST)
    except (OSError, ValueError):
        return b""


def _remote_head(url: str) -> bytes:
    name = without_query(url).rstrip("/")
    if not name.endswith(tuple(ENDINGS)):
        return b""
    inside = REPOSITORY if name.endswith(".icechunk") else METADATA
    try:
        (head,) = open_source(url if name.endswith(".json") else join_folder(url, inside)).read([(0, _SNIFFED_FAR)])
    except JnrrdzError:  # what cannot be read without further options is for whoever names the engine
        return b""
    return head
