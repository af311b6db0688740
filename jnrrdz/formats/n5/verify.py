"""What a container got since it was scanned: data sets and blocks that its manifest does not name, for `verify`."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from jnrrdz.core.limits import DOCUMENT_BYTES
from jnrrdz.formats.n5.attributes import ATTRIBUTES, is_dataset, parse_attributes, parse_dataset
from jnrrdz.formats.n5.blocks import TreeKeys, document_key

type Read = Callable[[Sequence[str], int], Sequence[bytes]]
"""Reads documents of a container by their keys, of at most this many bytes."""


class NewObjects:
    """The keys of a container that its manifest does not name, as a listing gives them."""

    def __init__(self, recorded: Collection[str]) -> None:
        documents = [key for key in recorded if key.endswith(ATTRIBUTES)]
        self._folders = [key[: -len(ATTRIBUTES)].rstrip("/") for key in documents]
        self._keys = TreeKeys()

    def add(self, keys: Sequence[str], sizes: Sequence[int], marks: Sequence[Any]) -> None:
        """Take a page of keys, with the size of each object and what tells its state."""
        self._keys.add(keys, sizes, marks)

    def differences(self, read: Read) -> Iterator[tuple[str, str]]:
        """Yield the key of what is new, and a message."""
        if not self._folders:
            return
        for folder in self._keys.documents:
            yield document_key(folder), "was not there when the container was scanned"
        # what is new is no block of theirs: the metadata are not read for it
        if not self._keys.holds_blocks:
            return
        keys = [document_key(folder) for folder in self._folders]
        documents = read(keys, DOCUMENT_BYTES)
        for folder, data in zip(self._folders, documents, strict=True):
            attributes = parse_attributes(data)
            if not is_dataset(attributes):
                continue
            dataset = parse_dataset(attributes)
            places = self._keys.blocks(folder, len(dataset.grid)).places
            inside = places[(places < np.array(dataset.grid)).all(axis=1)]
            if len(inside):
                first = f"{folder}/".lstrip("/") + "/".join(map(str, inside[0].tolist()))
                yield first, f"{len(inside):,} blocks were not there when it was scanned, this one first"
