"""Kerchunk references as a directory of Parquet files: written, replaced, and made longer.

How they are laid out, `jnrrdz.manifests.parquet_records` says, which reads them.  Whatever is interrupted, the older
manifest or the newer one is there whole.
"""

import base64
import os
import re
import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.concat import Renewed
from jnrrdz.core.cube import TIME
from jnrrdz.core.cube_growth import Extension
from jnrrdz.core.json_schema import parse_json
from jnrrdz.core.refs import WHOLE, ChunkRefs, References, in_turn, row_pointers, rows_of
from jnrrdz.core.tree import VirtualGroup, tree_json
from jnrrdz.core.windows import chunks_along
from jnrrdz.core.zarr_json import ZARR_JSON, dumps
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.manifests import atomic, turns
from jnrrdz.manifests.atomic import OutputPath
from jnrrdz.manifests.documents import METADATA, Documents, is_metadata
from jnrrdz.manifests.manifest import Manifest
from jnrrdz.manifests.parquet_records import (
    BASE64,
    FOLDER_NAME,
    LIST,
    OWN,
    RANGES,
    REFERENCES,
    VERSION,
    ParquetRefs,
    integers,
    laid_out,
    own_member,
    read_metadata,
    texts,
)
from jnrrdz.manifests.source_files import FILE_NAME, FOLDER, names_of, put_into_files
from jnrrdz.manifests.written_refs import MISSING, Spans, placed, spans
from jnrrdz.options import WriteOptions

RECORD_SIZE = 100_000
_FOLDER = ".jnrrdz-"
_FILE_NAME = re.compile(
    rf"(?:(?!\.{{1,2}}/)[^/\x00]+/)+(?:refs|ranges)\.[0-9]+\.parq|(?:[^/\x00]+/)?{FILE_NAME.pattern}"
)
_ATTEMPTS = 5
_NOTHING = {"shape": [0], "chunks": [1]}


def write(
    root: VirtualGroup, target: str, options: WriteOptions | None = None, *, record_size: int = RECORD_SIZE
) -> None:
    """Write the references of a tree to the directory or URL `target`, whole or not at all."""
    wanted = options or WriteOptions()
    spelt = placed(root, target if wanted.relative else None, wanted.keep_query)
    metadata = _metadata(spelt)
    place = atomic.locate(target, wanted.target_options)
    with ExitStack() as stack:
        turn = older = token = None
        if not place.is_local:
            token = _token()
        # of two that make a new directory the second is refused: that needs no turn
        if place.kind is not None or not place.is_local:
            turn = stack.enter_context(atomic.writing(place))
        if turn is not None and place.is_local:  # another run may have had it
            place = atomic.locate(target, wanted.target_options)
        if place.is_local or not wanted.overwrite:
            older = _older(place, overwrite=wanted.overwrite)
        work = stack.enter_context(atomic.work_folder(place))
        for path, array in spelt.arrays():
            records = _Records(record_size, wanted.single_range, token=token)
            _write_records(work / path, array.refs, path, records)
        put_into_files(work, metadata[ZARR_JSON])
        made = _Made(work, metadata, record_size)
        if not place.is_local:
            _put_far(made, target, wanted, turn)
        elif turn is not None:
            made.put(place, older)
        else:
            _put_first(made, place, wanted)


@dataclass(frozen=True)
class _Made:
    """A manifest that is not at its place yet."""

    work: Path
    """The folder of its files of references."""
    metadata: Mapping[str, Any]
    record_size: int

    def put(self, place: OutputPath, older: "_Older | None") -> None:
        """Put it to its place, where the older one may be."""
        if older is None:
            _put_new(place, self.work, self.metadata, self.record_size)
        else:
            _replace(place, self.work, older, self.metadata, self.record_size)


def _put_first(made: _Made, place: OutputPath, options: WriteOptions) -> None:
    """Put a manifest where nothing was on this machine; another run may have been faster."""
    try:
        made.put(place, None)
    except turns.ChangedError as error:
        if not options.overwrite:
            raise atomic.exists_already(place.url) from error
    else:
        return
    (made.work / METADATA).unlink()
    with atomic.writing(place):
        latest = atomic.locate(place.url, options.target_options)
        made.put(latest, _older(latest, overwrite=True))


def _put_far(made: _Made, target: str, options: WriteOptions, turn: turns.Turn | None) -> None:
    """Put a manifest to its place in a store."""

    def put() -> None:
        latest = atomic.locate(target, options.target_options)
        if turn is not None:
            _settle(latest, turn)
        made.put(latest, _older(latest, overwrite=options.overwrite))

    if turn is not None and turn.is_update:
        put()
    else:
        turns.repeated(put)


def remove(target: str, storage_options: Mapping[str, Any] | None = None) -> None:
    """Remove a manifest: its own files, and its directory where nothing else is in it."""
    place = atomic.locate(target, storage_options)
    older = _older(place, overwrite=True)
    if older is None:
        return
    turns.check(place.fs, place.join(METADATA).path)
    place.remove([METADATA])  # without it nobody reads the others
    place.remove(sorted(older.listed))
    if place.is_local:
        with suppress(OSError):  # others have something there
            os.rmdir(place.path)  # noqa: PTH106  a path of fsspec's


def _token() -> str:
    """Return what names one run's writing."""
    return secrets.token_hex(8)


def _settle(place: OutputPath, turn: turns.Turn) -> None:
    """Let METADATA be a condition of what is written to a store.

    Where it was read before, as of an update, that state is the condition.
    """
    switch = place.join(METADATA)
    is_conditional = not place.is_local and turns.has_conditions(place.fs)
    if not is_conditional or (turn.is_update and turn.expects(switch.path)):
        return
    if place.kind is None:
        turn.expect(switch.path, None)
    else:
        turns.settle(place.fs, switch.path, turn)


def _claim(place: OutputPath, names: Iterable[str], *, is_new: bool = False) -> None:
    """Let the present state of files in a store be a condition of replacing them.

    Files that are named by a digest of their bytes need none.
    """
    turn = turns.turn_for(place.join(METADATA).path)
    if turn is None:
        return
    states = {} if is_new else place.states()
    for name in names:
        if not name.startswith(f"{FOLDER}/"):
            turn.expect(place.join(name).path, states.get(name))


def _is_still(place: OutputPath, announced: bytes) -> bool:
    """Whether METADATA is what this run announced, which is then its known state."""
    switch = place.join(METADATA)
    turn = turns.turn_for(switch.path)
    if turn is not None:
        turn.look(place.fs, switch.path)
    return switch.read().rstrip(b" ") == announced


# Its place, and the manifest that it replaces


def _older(place: OutputPath, *, overwrite: bool) -> "_Older | None":
    """Return the manifest that is to be replaced, None where nothing is; anything else is refused."""
    if place.kind is None:
        return None
    if not overwrite:
        raise atomic.exists_already(place.url)
    if place.kind == "file":
        atomic.check_free(place)
    there = place.names()
    if not there:
        return None
    if METADATA not in there:
        message = f"is a directory without {METADATA}, not a manifest, and is not replaced; name another place"
        raise JnrrdzError(message, url=place.url)
    text = place.join(METADATA).read()
    try:
        top = parse_json(text)
        listed = _listed(top)
    except (JnrrdzError, KeyError, TypeError) as error:
        message = f"its {METADATA} is no Parquet manifest's of jnrrdz, and is not replaced; name another place"
        raise JnrrdzError(message, url=place.url) from error
    # what earlier runs could not remove: one that was refused, and those that were killed
    left = str(own_member(top).get("left"))
    listed |= {name for name in there if FOLDER_NAME.fullmatch(left) and name.startswith(f"{left}/")}
    needed = {name.partition("/")[0] for name in listed & set(there)}
    for folder in os.listdir(place.path) if place.is_local else ():  # noqa: PTH208  empty ones too
        if FOLDER_NAME.fullmatch(folder) and folder not in needed:
            atomic.remove_dead(f"{place.path}/{folder}")
    return _Older(text, listed & set(there), frozenset(there))


@dataclass(frozen=True)
class _Older:
    """The manifest that is to be replaced."""

    text: bytes
    """Its METADATA."""
    listed: set[str]
    """Its files of references."""
    there: frozenset[str]
    """All files in its directory; some may be another's."""


def _listed(top: Any) -> set[str]:
    """Return the names of all files of references that a manifest may have, or that its writer had begun."""
    if not isinstance(top, dict):
        raise MalformedError("no object", field=METADATA)
    own = own_member(top)
    left = (name for member in ("begun", "older", "stale") for name in own.get(member, ()))
    names = {name for name in left if _FILE_NAME.fullmatch(name)}
    if "metadata" not in top:
        if "begun" not in own:
            raise MalformedError("no metadata", field=METADATA)
        return names
    documents = Documents(objects={key: node for key, node in top["metadata"].items() if is_metadata(key)})
    documents.require_v3()
    layout = laid_out(top)
    names |= {f"{layout.over}{name}" for name in layout.moved if _FILE_NAME.fullmatch(name)}
    names |= {f"{layout.folder}{name}" for name in names_of(documents.own())}
    for path, keys in documents.array_keys(documents).items():
        for record in range(-(-keys.chunks // layout.record_size)):
            names |= {f"{layout.folder}{path}/{kind}.{record}.parq" for kind in ("refs", "ranges")}
    return names


def _put_new(place: OutputPath, work: Path, metadata: Mapping[str, Any], record_size: int) -> None:
    """Put a manifest where nothing is, METADATA at the end."""
    begun = None
    if not place.is_local:
        names = [name for name in atomic.files_of(work) if name != METADATA]
        begun = dumps({OWN: {"begun": names, turns.TOKEN: _token()}}).encode()
        _claim(place, names, is_new=True)
    text = dumps({"metadata": metadata, "record_size": record_size})
    (work / METADATA).write_text(text, encoding="ascii")
    atomic.place_folder(work, place, METADATA, begun)


def _replace(  # noqa: PLR0913  what is there, and what is to be
    place: OutputPath,
    work: Path,
    older: _Older,
    metadata: Mapping[str, Any],
    record_size: int,
    *,
    dropped: Iterable[str] | None = None,
) -> None:
    """Replace a manifest so that at each moment the older or the newer one is there whole.

    fsspec knows one name for each record, and the older manifest has it.  So the new files go to a folder of
    their own, to which a first METADATA points in a form that jnrrdz alone reads.  Only then they get fsspec's
    names, and METADATA its form.  What the newer manifest does not have of the older one goes; where nothing but some
    files is `dropped`, all others stay as they are, and the newer manifest has them too.
    """
    names = [name for name in atomic.files_of(work) if name != METADATA]
    strangers = sorted((older.there & set(names)) - older.listed)
    if strangers:
        turns.check(place.fs, place.join(METADATA).path)  # the same as in `_put_behind`
        message = f"{strangers[0]} is not the older manifest's, and is not replaced; remove it or name another place"
        raise JnrrdzError(message, url=place.url)
    token = _token()
    folder = f"{_FOLDER}{token}"
    gone = sorted((older.listed if dropped is None else set(dropped)) - set(names))
    own: dict[str, Any] = {"older": sorted(older.listed) if dropped is None else gone}
    if dropped is None:
        own |= {"folder": folder, "record_size": record_size}
    else:
        own |= {"over": {"folder": folder, "record_size": record_size, "files": names}}
    if not place.is_local:
        own[turns.TOKEN] = token
    switch = place.join(METADATA)
    begun = dumps({"metadata": metadata, OWN: own}).encode()
    _put_beside(place, work, folder, older, names, begun)
    source = Path(place.path) / folder if place.is_local else work
    # where the folder cannot be removed now, the next run knows it by this
    final = {"metadata": metadata, "record_size": record_size, OWN: {"left": folder}}
    files = {name: source / name for name in names}
    for _ in range(_ATTEMPTS):
        with suppress(turns.ChangedError):
            _claim(place, names)
            latest = _put_announced(place, files, begun)
            _remove(place, gone, latest)
            switch.put_bytes(dumps(final).encode())
            place.remove([f"{folder}/{name}" for name in names])
            return
        # a file changed: another run has replaced this manifest, or one that slept woke
        with suppress(turns.ChangedError):
            if _is_still(place, begun):
                switch.put_bytes(begun + b"  ")
                continue
        return


def _put_announced(place: OutputPath, files: Mapping[str, Path], begun: bytes) -> bytes:
    """Put files to their places, and return METADATA's bytes.

    In a store these change from time to time, so that others see that this run is alive.
    """
    announced = time.monotonic()
    for name, source in files.items():
        if not place.is_local and time.monotonic() - announced > turns.LEASE / 4:
            begun += b" "
            place.join(METADATA).put_bytes(begun)
            announced = time.monotonic()
        place.join(name).put(source)
    return begun


def _remove(place: OutputPath, names: Collection[str], begun: bytes) -> None:
    """Remove files, of a store only while what was announced is this run's."""
    if names and not place.is_local:
        place.join(METADATA).put_bytes(begun + b" ")
    place.remove(names)


def _put_beside(  # noqa: PLR0913, PLR0917  what is put, and what is there
    place: OutputPath,
    work: Path,
    folder: str,
    older: _Older,
    names: Sequence[str],
    text: bytes,
) -> None:
    """Put the new files into their folder, and METADATA that points there.

    They go again where that is refused.  Where it is interrupted it may have been done, and they stay.
    """
    switch, state = place.join(METADATA), "copying"
    try:
        if place.is_local:
            atomic.sync_tree(work)
            work.rename(Path(place.path) / folder)
        else:
            for name in names:
                place.join(f"{folder}/{name}").put(work / name)
        state = "switching" if not place.is_local else "refused"
        switch.put_bytes(text)
        state = "done"
    except turns.ChangedError:
        state = "copying"
        raise
    except JnrrdzError:
        state = "refused" if state == "switching" else state
        raise
    finally:
        with suppress(JnrrdzError):  # what was wrong first is told
            if state == "copying" or (state == "refused" and switch.read() == older.text):
                place.remove([f"{folder}/{name}" for name in names])


# Some of its sources scanned again


def renew(renewed: Renewed, manifest: Manifest, options: WriteOptions) -> bool:
    """Write the records of some chunks anew, and the table of sources; what else is there stays as it is.

    URLs are as the manifest spells them.  False, and nothing is written, where it is being replaced by another run, or
    was by one that was stopped.
    """
    target = str(manifest.url)
    place = atomic.locate(target, options.target_options)
    with atomic.writing(place) as turn, atomic.work_folder(place) as work:
        _settle(place, turn)
        older = _older(place, overwrite=True)
        top = {} if older is None else parse_json(older.text, field=METADATA)
        if older is None or not set(own_member(top)) <= {"left"}:
            return False
        documents, _, layout = read_metadata(target, top, options.target_options)
        if documents != manifest.documents:
            raise turns.changed(target, "refresh it again")
        arrays = dict(renewed.group.arrays())
        for path, runs in renewed.runs.items():
            records = _Records(
                layout.record_size,
                options.single_range,
                only=_records_of(runs, layout.record_size),
                token=None if place.is_local else _token(),
            )
            _write_records(work / path, arrays[path].refs, path, records)
        metadata = _metadata(renewed.group.with_refs(lambda refs: ChunkRefs.empty(refs.chunks)))
        put_into_files(work, metadata[ZARR_JSON])
        before = _table_files(top)
        for name in before & set(atomic.files_of(work)):
            (work / name).unlink()
        dropped = before - _table_files({"metadata": metadata})
        _replace(place, work, older, metadata, layout.record_size, dropped=dropped)
    return True


def _records_of(runs: NDArray[np.int64], size: int) -> list[int]:
    """Return the numbers of the records that some runs of chunks are in."""
    return sorted({number for first, stop in runs.tolist() for number in chunks_along(first, stop, size)})


# More times of a cube


def extend(more: Extension, recorded: Sequence[SourceRecord], target: str, options: WriteOptions) -> None:
    """Write more times of a cube behind those that are at `target`, whose table of sources is `recorded`.

    In C order the chunks of new times come last: full records stay as they are, the last one gets rows behind its
    own, and METADATA comes last of all.  At each moment the older METADATA, and who has read it, finds what it tells
    of; a run that is killed leaves the cube as it was, and the names of what it had begun.
    """
    spelt = placed(more.group, target if options.relative else None, options.keep_query)
    known = {record.url for record in recorded}
    sources = (*recorded, *(record for record in spelt.sources if record.url not in known))
    metadata = _metadata(replace(more.whole(spelt), sources=sources))
    place = atomic.locate(target, options.target_options)
    with atomic.writing(place) as turn, atomic.work_folder(place) as work:
        _settle(place, turn)
        text = place.join(METADATA).read()
        top = parse_json(text, field=METADATA)
        documents, older, layout = read_metadata(target, top, options.target_options)
        keys = documents.array_keys(documents)
        size = layout.record_size
        token = None if place.is_local else _token()
        for path, array in spelt.arrays():
            if path in more.before:
                if keys[path].grid != (more.before[path], *array.grid[1:]):
                    raise turns.changed(older[path].url, "append again")
                first, refs = _behind(older[path], array, size)
                records = _Records(size, options.single_range, first, token=token)
                _write_records(work / path, refs, path, records)
            elif TIME in array.dimension_names:
                records = _Records(size, single_range=False, token=token)
                _write_records(work / path, array.refs, path, records)
        put_into_files(work, metadata[ZARR_JSON])
        _put_behind(place, work, text, metadata)


def _behind(older: "ParquetRefs", array: VirtualArray, size: int) -> tuple[int, References]:
    """Return the first record that changes, and all references from there on."""
    full, rest = divmod(older.chunks, size)
    if not rest:
        return full, array.refs
    return full, in_turn([older.record(full).part(0, rest), array.refs.columns()])


def _put_behind(place: OutputPath, work: Path, text: bytes, metadata: Mapping[str, Any]) -> None:
    """Put records to their places, those that are new announced in METADATA, and its new form at the end.

    Files of sources that are not needed any more are there for who has read the older METADATA, until the next time.
    """
    top, switch = parse_json(text), place.join(METADATA)
    layout, listed, before = laid_out(top), _listed(top), _table_files(top)
    names = {name: layout.where(name) for name in atomic.files_of(work) if name not in before}
    new = sorted(set(names.values()) - listed)
    if strangers := sorted(set(new) & set(place.names())):
        turns.check(place.fs, switch.path)  # it may be of a run that has begun since
        message = f"{strangers[0]} is not the manifest's, and is not replaced; remove it"
        raise JnrrdzError(message, url=place.url)
    own = own_member(top)
    announced = {**own, "begun": [*own.get("begun", ()), *new]}
    if not place.is_local:
        announced[turns.TOKEN] = _token()
    begun = dumps({**top, OWN: announced}).encode()
    # what a killed run had begun and this one does not need stays known
    left = sorted({*own.get("begun", ())} - set(names.values()))
    needed = _table_files({"metadata": metadata})
    stale = sorted(layout.where(name) for name in before - needed)
    kept = {*stale, *map(layout.where, needed)}
    before_that = [name for name in own.get("stale", ()) if _FILE_NAME.fullmatch(name)]
    outdated = [name for name in before_that if name not in kept]
    rest = {name: value for name, value in own.items() if name != turns.TOKEN}
    final = {**top, "metadata": metadata, OWN: {**rest, "begun": left, "stale": stale}}
    if turns.TOKEN in own:  # of a run that was killed
        text = dumps({**top, OWN: rest}).encode()
    is_done = False
    try:
        switch.put_bytes(begun)
        _claim(place, names.values())
        files = {where: work / name for name, where in names.items()}
        latest = _put_announced(place, files, begun)
        _remove(place, outdated, latest)
        switch.put_bytes(dumps(final).encode())
        is_done = True
    except turns.ChangedError:
        is_done = True  # the files may be another run's now, and stay
        with suppress(JnrrdzError):
            if _is_still(place, begun):
                rest["begun"] = announced["begun"]
                switch.put_bytes(dumps({**top, OWN: rest}).encode())
        raise
    finally:
        with suppress(JnrrdzError):  # what was wrong first is told
            if not is_done and _is_still(place, begun):
                _remove(place, new, begun)
                switch.put_bytes(text)


def _table_files(top: Mapping[str, Any]) -> set[str]:
    """Return the names of the files that the table of sources is in."""
    return set(names_of(top["metadata"][ZARR_JSON]["attributes"]["jnrrdz"]))


def _metadata(root: VirtualGroup) -> dict[str, Any]:
    documents = tree_json(root, encoding="v2", separator=".")
    # the root's own document is taken for a directory of that name
    stubs = {f"{ZARR_JSON}/.zarray": _NOTHING}
    for path, node in root.walk():
        if isinstance(node, VirtualArray):
            stubs[f"{path}/.zarray"] = {"shape": list(node.shape), "chunks": list(node.chunks)}
        else:
            stubs[f"{path}/.zarray"] = _NOTHING
    return documents | stubs


def _write_records(folder: Path, refs: References, path: str, layout: "_Records") -> None:
    """Write references as records; no more than those of one record are looked at together."""
    folder.mkdir(parents=True)
    size = layout.record_size
    blanks: dict[int, bytes] = {}
    numbers = range(-(-refs.chunks // size)) if layout.only is None else layout.only
    for number in numbers:
        first = number * size
        stop = min(first + size, refs.chunks)
        file = folder / f"refs.{layout.before + number}.parq"
        is_blank = not refs.has_any(first, stop)
        if is_blank and stop - first in blanks:
            file.write_bytes(blanks[stop - first])
            continue
        part = refs.part(first, stop)
        _write_table(_table(part, path, first, layout), file)
        if is_blank:
            blanks[stop - first] = file.read_bytes()


def _table(part: ChunkRefs, path: str, first: int, layout: "_Records") -> pa.Table:
    """Return a record's references as a table."""
    spanned = spans(part, path, single_range=layout.single_range, before=first)
    table = _references(part, spanned, part.inline)
    if len(spanned.scattered):
        for field, column in zip(RANGES, _ranges(part, spanned), strict=True):
            table = table.append_column(field, column)
    if layout.token is not None:
        token = {f"{OWN}.{turns.TOKEN}": layout.token}
        table = table.replace_schema_metadata(token)
    return table


@dataclass(frozen=True)
class _Records:
    """How references become records."""

    record_size: int
    single_range: bool
    before: int = 0
    """Records that are there already."""
    only: Sequence[int] | None = None
    """The records that are written; None for all."""
    token: str | None = None
    """What makes the bytes of a record differ from those of all other runs."""


def _references(refs: ChunkRefs, part: Spans, raw: Mapping[int, bytes]) -> pa.Table:
    spelt, source = refs.spelt(part.source)
    urls = [*spelt, ""] if len(part.scattered) else spelt
    index = np.array(source, np.int32)
    index[part.scattered] = len(spelt)
    path = pa.DictionaryArray.from_arrays(integers(index, index != MISSING), texts(urls))
    columns = [path, integers(part.start), integers(np.where(part.length == WHOLE, 0, part.length))]
    inline = pa.nulls(len(index), pa.binary())
    if raw:
        # fsspec decodes what begins like base64, and then has to find the bytes themselves
        encoded = {
            row: BASE64 + base64.b64encode(data) if data.startswith(BASE64) else data for row, data in raw.items()
        }
        inline = pa.array([encoded.get(row) for row in range(len(index))], pa.binary())
    table = pa.Table.from_arrays([*columns, inline], schema=REFERENCES)
    return table if part.version is None else table.append_column(VERSION, integers(part.version))


def _ranges(refs: ChunkRefs, part: Spans) -> list[pa.Array]:
    """Return the columns that only the chunks of several ranges have: URL, offsets, lengths."""
    spelt, source = refs.spelt(part.source)
    is_scattered = np.zeros(len(part.source), bool)
    is_scattered[part.scattered] = True
    path = pa.DictionaryArray.from_arrays(integers(np.array(source, np.int32), is_scattered), texts(spelt))
    chunks = part.scattered
    counts = np.zeros(len(part.source), np.int64)
    counts[part.scattered] = refs.indptr[chunks + 1] - refs.indptr[chunks]
    ends, rows = row_pointers(counts).astype(np.int32), rows_of(refs.indptr, chunks)
    bits = pa.py_buffer(np.packbits(is_scattered, bitorder="little"))
    values = (integers(column[rows]) for column in (refs.offset, refs.length))
    buffers = [bits, pa.py_buffer(ends)]
    return [path, *(pa.Array.from_buffers(LIST, len(counts), buffers, children=[column]) for column in values)]


def _write_table(table: pa.Table, file: Path) -> None:
    dictionary = [name for name in ("path", "range_path") if name in table.column_names]
    pq.write_table(table, file, compression="zstd", use_dictionary=dictionary, store_schema=False)
