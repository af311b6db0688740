"""Zarr metadata beside a format's own, so that its objects are Zarr's chunks where they are.

Only files called zarr.json are written, all or none of them, and only such as this module wrote are ever replaced or
removed: they carry the attribute `jnrrdz.in_place`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.tree import Node, VirtualGroup, tree_json
from jnrrdz.core.zarr_json import ZARR_JSON, array_json, dumps
from jnrrdz.errors import JnrrdzError
from jnrrdz.manifests import turns
from jnrrdz.manifests.atomic import lock_file_of, new_file
from jnrrdz.sources import faults, filesystems

MARK = "in_place"

type Options = Mapping[str, Any] | None


def write(root: Node, url: str, *, overwrite: bool = False, storage_options: Options = None) -> list[str]:
    """Write the documents of a tree into the tree at `url`, and return their keys; a failure leaves none."""
    # the root's at the end: it holds the others' too, and makes a reader of Zarr see them
    keyed = sorted(_documents(root).items(), key=lambda item: item[0].count("/"), reverse=True)
    documents = {key: dumps(document).encode("ascii") for key, document in keyed}
    place = _Place(url, storage_options)
    with place.turn(documents):
        _put_all(place, documents, overwrite=overwrite)
    return list(documents)


def _put_all(
    place: "_Place",
    documents: Mapping[str, bytes],
    *,
    overwrite: bool,
) -> None:
    """Write documents, all or none."""
    older = place.read(list(documents))
    for key, data in older.items():
        if not _is_ours(data):
            raise JnrrdzError("is there already and not of jnrrdz's making; it is left alone", url=place.url(key))
        if not overwrite:
            message = "exists already; --overwrite (overwrite=True) replaces it, --remove removes it"
            raise JnrrdzError(message, url=place.url(key))
    done: list[str] = []
    finished = False
    try:
        for key, data in documents.items():
            done.append(key)
            place.put(key, data, is_new=key not in older)
        finished = True
    finally:
        if not finished:
            place.restore({key: documents[key] for key in reversed(done)}, older)


def remove(url: str, *, storage_options: Options = None) -> list[str]:
    """Remove what `write` wrote in the tree at `url`, and return the keys."""
    place = _Place(url, storage_options)
    with place.turn(()):
        documents = place.read(list(place.keys()))
        ours = {key: data for key, data in documents.items() if _is_ours(data)}
        place.restore(ours, {})
    return list(ours)


def _documents(root: Node) -> dict[str, dict[str, Any]]:
    if isinstance(root, VirtualArray):
        return {ZARR_JSON: array_json(_marked(root), encoding="v2", separator="/")}
    found = tree_json(_marked_group(root), encoding="v2", separator="/", consolidated="each")
    found[ZARR_JSON]["attributes"]["jnrrdz"][MARK] = True  # the root's attribute is made anew there
    return found


def _marked(array: VirtualArray) -> VirtualArray:
    return replace(array, attributes={**array.attributes, "jnrrdz": {MARK: True}})


def _marked_group(group: VirtualGroup) -> VirtualGroup:
    children = {
        name: _marked_group(child) if isinstance(child, VirtualGroup) else _marked(child)
        for name, child in group.children.items()
    }
    return VirtualGroup(children, {**group.attributes, "jnrrdz": {MARK: True}})


def _is_ours(data: bytes) -> bool:
    try:
        own = json.loads(data)["attributes"]["jnrrdz"]
        return bool(own[MARK])
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


class _Place:
    """A directory or prefix to which zarr.json files are written."""

    def __init__(self, url: str, options: Options) -> None:
        self._url = url.rstrip("/")
        self._options = options
        with faults.translate_errors(url, "opening"):
            self._fs, path = filesystems.opened(self._url, options or {})
        self._path = path.rstrip("/")
        self._fs.invalidate_cache()

    @contextmanager
    def turn(self, keys: Iterable[str]) -> Iterator[None]:
        """Keep others from writing some files of this tree, which are read in it."""
        is_local = filesystems.is_local(self._fs)
        lock_file = lock_file_of(self._path) if is_local else None
        with turns.writing(self._url, self._path, lock_file) as turn:
            if not is_local and turns.has_conditions(self._fs):
                for key in keys:
                    turn.look(self._fs, f"{self._path}/{key}")
            yield

    def url(self, key: str) -> str:
        return f"{self._url}/{key}"

    def keys(self) -> Iterator[str]:
        """Yield the keys of all zarr.json files in the tree, listing no directory of blocks twice."""
        with faults.translate_errors(self._url, "listing", self._fs):
            for path in self._fs.find(self._path):
                if path.rpartition("/")[2] == ZARR_JSON:
                    yield path[len(self._path) + 1 :]

    def read(self, keys: list[str]) -> dict[str, bytes]:
        """Return those of some files that are there."""
        with faults.translate_errors(self._url, "reading", self._fs):
            return {key: self._fs.cat_file(f"{self._path}/{key}") for key in keys if self._there(key)}

    def _there(self, key: str) -> bool:
        return bool(self._fs.isfile(f"{self._path}/{key}"))

    def put(self, key: str, data: bytes, *, is_new: bool = False) -> None:
        if filesystems.is_local(self._fs):
            # what is replaced has been read whole
            with new_file(f"{self._path}/{key}", replaces=None if is_new else bool) as stream:
                stream.write(data)
            return
        path = f"{self._path}/{key}"
        turn = turns.turn_for(path)
        if turn is not None:
            turn.put(self._fs, path, data)
            return
        with faults.translate_errors(self.url(key), "writing", self._fs):
            self._fs.pipe_file(path, data)

    def restore(self, written: Mapping[str, bytes], older: Mapping[str, bytes]) -> None:
        """Bring back what some files were, or were not; what others wrote meanwhile stays."""
        for key, data in written.items():
            if self.read([key]).get(key) != data:
                continue
            if key in older:
                self.put(key, older[key])
            else:
                with faults.translate_errors(self.url(key), "removing", self._fs):
                    self._fs.rm_file(f"{self._path}/{key}")
