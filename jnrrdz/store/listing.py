"""The keys of a manifest, spelt only as far as they are asked for.

May touch numpy, read.manifest and read.keys.
"""

from collections.abc import Iterator

import numpy as np

from jnrrdz.manifests.columns import ArrayRefs, Ints
from jnrrdz.manifests.keys import ChunkKeys
from jnrrdz.manifests.manifest import Manifest


def keys(manifest: Manifest, prefix: str = "") -> Iterator[str]:
    """Yield every key that begins with a prefix."""
    yield from (key for key in manifest.documents if key.startswith(prefix))
    for refs in manifest.arrays.values():
        common = min(len(prefix), len(refs.keys.prefix))
        if prefix[:common] != refs.keys.prefix[:common]:
            continue
        for number in refs.present():
            key = refs.keys.key(int(number))
            if key.startswith(prefix):
                yield key


def children(manifest: Manifest, prefix: str) -> Iterator[str]:
    """Yield the names of what stands directly below a prefix, each once."""
    folder = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
    names = {key[len(folder) :].partition("/")[0]: None for key in manifest.documents if key.startswith(folder)}
    for refs in manifest.arrays.values():
        names.update(dict.fromkeys(_below(refs, folder)))
    yield from names


def _below(refs: ArrayRefs, folder: str) -> Iterator[str]:
    """Yield the names that an array's chunks make directly below a folder."""
    prefix = refs.keys.prefix
    name, deeper, _ = prefix.removeprefix(folder).partition("/")
    if prefix.startswith(folder) and deeper:
        yield name  # the array's path, or the `c` of its chunks
    elif prefix.startswith(folder) and (refs.keys.separator == "." or not refs.keys.grid):
        yield from (refs.keys.key(int(number))[len(folder) :] for number in refs.present())
    elif folder.startswith(prefix) or prefix == folder:
        lead = folder[len(prefix) :].split("/")[:-1]
        yield from map(str, _next_indices(refs.keys, refs.present(), lead))


def _next_indices(keys: ChunkKeys, present: Ints, lead: list[str]) -> Ints:
    """Return the indices that follow some leading ones."""
    if keys.separator != "/" or len(lead) >= len(keys.grid) or not all(part.isdecimal() for part in lead):
        return present[:0]
    index = np.unravel_index(present, keys.grid)
    fits = np.ones(len(present), bool)
    for axis, part in zip(index, lead, strict=False):
        fits &= axis == int(part)
    return np.unique(index[len(lead)][fits])
