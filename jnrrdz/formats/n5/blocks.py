"""What stands where in an N5 container, the blocks of a dataset as references, and the codecs that read them.

A dataset's blocks are `DATASET/x/y/z`, its metadata `DATASET/attributes.json`
(https://github.com/saalfeldlab/n5#file-system-specification).  Keys come in pages; of a million blocks only their
numbers stay.

Over HTTP, which has no listing, metadata are looked for where conventions put them, from the folder that is named
on downwards: levels that `multiscales`, `downsamplingFactors` or `scales` list, those called `s0`, `s1`, ... until
one is missing, Paintera's `data`, and BigDataViewer's `setup0`, ... with `timepoint0`, ... until one is missing.
Whatever has another name is not found.

Three chains: `pad` or `offset` skip a header that is known to be the chunk's own, `n5_default` reads it.  Where such
headers are skipped and the compression is one of Zarr's own codecs, references begin behind them, and no codec of a
proposal is left.  A header is read at the scan where that decides something: the framing of LZ4, and whether every
block has the chunk's own shape, which is what lets it be skipped.  Of a dataset that cannot be listed every place of
the grid has a block, of which nothing is known: not how long it is, what its header says, nor whether it exists;
absent ones read as 0.  See docs/formats/n5.md.
"""

import math
import re
import warnings
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import batched
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core import codecs as codec
from jnrrdz.core.codecs import Framing
from jnrrdz.core.configuration import Codec, CodecSpec
from jnrrdz.core.limits import DOCUMENT_BYTES, GRID_CHUNKS, LIMITS, Budget, Resource
from jnrrdz.core.refs import WHOLE, ChunkRefs, References, refs_of_stored
from jnrrdz.core.standard import needs_jnrrdz
from jnrrdz.core.state import Mark, Validators, version_number
from jnrrdz.core.tree_files import GridFiles
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.formats.n5.attributes import (
    ATTRIBUTES,
    LEVEL_LISTS,
    Mode,
    N5Dataset,
    block_header,
    check_place,
    cosem_levels,
    default_header,
    header_length,
    is_dataset,
    parse_attributes,
)
from jnrrdz.formats.n5.codecs import N5DefaultConfig
from jnrrdz.options import Codecs
from jnrrdz.sources.tree import LocalTree, Tree, UnlistedTree

_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_BLOCK = re.compile(rf"(?:(.*?)/)??({_NUMBER}(?:/{_NUMBER})*)", re.DOTALL)
"""A folder, and the indices that end a key; a folder whose name is a number is found among them."""

type Indices = NDArray[np.int32]
type Sizes = NDArray[np.int64]


class Found(NamedTuple):
    """Blocks that a listing shows."""

    places: Indices
    """The indices of each block, x first."""

    sizes: Sizes
    versions: Sizes
    """What tells each object's state, as `version_number` has it."""


@dataclass
class TreeKeys:
    """The keys of a container, as far as its listing has come."""

    documents: dict[str, Validators] = field(default_factory=dict)
    """The folder of each attributes.json, and the file's state."""

    others: set[str] = field(default_factory=set)
    """The names of files at the root that are neither."""

    _pages: dict[tuple[str, int], list[Found]] = field(default_factory=lambda: defaultdict(list))
    _in_order: set[tuple[str, int]] = field(default_factory=set)
    """The pages that are one, by their indices."""

    @property
    def holds_blocks(self) -> bool:
        """Whether any key is a block's."""
        return bool(self._pages)

    def add(self, keys: Sequence[str], sizes: Sequence[int], marks: Sequence[Mark]) -> None:
        """Take a page of keys, with the size of each object and what tells its state."""
        blocks: dict[tuple[str, int], tuple[list[str], list[int], list[int]]] = defaultdict(lambda: ([], [], []))
        for key, size, mark in zip(keys, sizes, marks, strict=True):
            block = _BLOCK.fullmatch(key)
            if block is not None:
                texts, lengths, versions = blocks[block[1] or "", block[2].count("/") + 1]
                texts.append(block[2])
                lengths.append(size)
                versions.append(version_number(mark))
            elif key == ATTRIBUTES or key.endswith(f"/{ATTRIBUTES}"):
                self.documents[key[: -len(ATTRIBUTES) - 1]] = Validators.of_listing(size, mark)
            elif "/" not in key:
                self.others.add(key)
        for (folder, depth), (texts, lengths, versions) in blocks.items():
            index = np.fromstring("/".join(texts), np.int32, sep="/").reshape(-1, depth)
            found = Found(index, np.array(lengths, np.int64), np.array(versions, np.int64))
            self._pages[folder, depth].append(found)

    def blocks(self, dataset: str, axes: int) -> "Found":
        """Return the blocks of a dataset, in no order."""
        own = _BLOCK.fullmatch(dataset)  # a folder whose name is a number is taken apart as keys are
        folder = dataset if own is None else own[1] or ""
        numbers = [] if own is None else [int(number) for number in own[2].split("/")]
        found = self._joined(folder, len(numbers) + axes, in_order=bool(numbers))
        first, stop = 0, len(found.places)
        for column, number in enumerate(numbers):
            part = found.places[:, column]  # numpy's search would copy a column whose numbers are apart
            first, stop = bisect_left(part, number, first, stop), bisect_right(part, number, first, stop)
        return Found(found.places[first:stop, len(numbers) :], found.sizes[first:stop], found.versions[first:stop])

    def _joined(self, folder: str, depth: int, *, in_order: bool) -> "Found":
        """Return all blocks of a folder whose indices are so many; in order where datasets share them."""
        pages = self._pages.get((folder, depth), [])
        if len(pages) == 1 and (not in_order or (folder, depth) in self._in_order):
            return pages[0]
        found = Found(
            np.concatenate([np.empty((0, depth), np.int32), *(page.places for page in pages)]),
            np.concatenate([np.empty(0, np.int64), *(page.sizes for page in pages)]),
            np.concatenate([np.empty(0, np.int64), *(page.versions for page in pages)]),
        )
        if in_order:
            order = np.lexsort(found.places.T[::-1])
            found = Found(found.places[order], found.sizes[order], found.versions[order])
            self._in_order.add((folder, depth))
        self._pages[folder, depth] = [found]
        return found


_MOST_FOLDERS = 1 << 16
"""Folders that are looked for."""

_DEEPEST = 6

_SERIES = ("s", "setup", "timepoint")
_NAME = re.compile(r"(?!\.+(?:/|$))[^/\\?#%:]+(?:/(?!\.+(?:/|$))[^/\\?#%:]+)*")

type Nodes = dict[str, dict[str, Any]]
"""The attributes of every folder that has some, by its path."""


def read_nodes(tree: Tree, keys: TreeKeys) -> Nodes:
    """Return the attributes of a container that is listed, sorted by path."""
    if not keys.documents:
        names = sorted(keys.others)
        seen = f"holds {', '.join(names[:3])}{', ...' if names[3:] else ''} and no" if names else "is empty: it has no"
        advice = f"; jnrrdz batch {tree.url} makes a manifest of each image in it" if names else ""
        raise UnsupportedError(f"the folder {seen} attributes.json, so it is no N5 container{advice}", url=tree.url)
    folders = sorted(keys.documents)
    for folder in folders:
        if keys.documents[folder].size > DOCUMENT_BYTES or len(folders) > LIMITS[Resource.DOCUMENTS].free:
            raise UnsupportedError("metadata too large to read", url=tree.url + document_key(folder))
    longest = max(*(state.size for state in keys.documents.values()), 1)
    documents = zip(folders, tree.read([document_key(folder) for folder in folders], longest), strict=True)
    return {folder: _attributes(tree, folder, data) for folder, data in documents}


def document_key(folder: str) -> str:
    """Return the key of a folder's attributes.json."""
    return f"{folder}/{ATTRIBUTES}" if folder else ATTRIBUTES


def _attributes(tree: Tree, folder: str, data: bytes) -> dict[str, Any]:
    try:
        return parse_attributes(data)
    except JnrrdzError as error:
        raise error.at(url=tree.url + document_key(folder)) from error.__cause__


def find_nodes(tree: UnlistedTree) -> Nodes:
    """Return the attributes of a container that cannot be listed, sorted by path; a dataset is among them."""
    nodes: Nodes = {}
    waiting = _look_for(tree, [""], nodes) or [""]
    while waiting:
        path = waiting.pop()
        if len(nodes) > _MOST_FOLDERS or path.count("/") > _DEEPEST:
            text = f"more than {_MOST_FOLDERS} folders, or folders in folders without end"
            raise UnsupportedError(text, url=tree.url + path)
        if not is_dataset(nodes.get(path, {})):
            waiting += [below for below in _below(tree, path, nodes) if below not in {"", path}]
    datasets = sorted(path for path, attributes in nodes.items() if is_dataset(attributes))
    if not datasets:
        raise UnsupportedError(
            "no dataset found, and HTTP has no listing to find others; name the dataset itself, the folder of its "
            "attributes.json, or index the container where it can be listed",
            url=tree.url,
        )
    if "" not in datasets:
        few = 8
        shown = datasets[:few] + ([f"and {len(datasets) - few} more"] if len(datasets) > few else [])
        warnings.warn(f"HTTP has no listing; found by their usual names: {', '.join(shown)}", stacklevel=2)
    return dict(sorted(nodes.items()))


def _below(tree: UnlistedTree, path: str, nodes: Nodes) -> list[str]:
    """Look for the folders below one, and return those that are there."""
    prefix, attributes = f"{path}/" if path else "", nodes.get(path, {})
    names = [str(entry.get("path")) for entry in cosem_levels(attributes)]
    for levels in map(attributes.get, LEVEL_LISTS):
        if isinstance(levels, list) and all(isinstance(level, list) for level in levels):
            names += [f"s{number}" for number in range(min(len(levels), _MOST_FOLDERS))]
    folders = _look_for(tree, [prefix + name for name in dict.fromkeys(names) if _NAME.fullmatch(name)], nodes)
    if "painteraData" in attributes:
        # the folder need not have metadata of its own
        folders += _look_for(tree, [f"{prefix}data"], nodes) or [f"{prefix}data"]
    for series in _SERIES:
        for number in range(_MOST_FOLDERS):
            known = _look_for(tree, [f"{prefix}{series}{number}"], nodes)
            if not known:
                break
            folders += known
    return list(dict.fromkeys(folders))


def _look_for(tree: UnlistedTree, paths: list[str], nodes: Nodes) -> list[str]:
    """Read the attributes of folders that are not known yet, and return the paths of those that have some."""
    new = [path for path in paths if path not in nodes]
    documents = tree.find(list(map(document_key, new)), DOCUMENT_BYTES) if new else ()
    for path, data in zip(new, documents, strict=True):
        if data is not None:
            nodes[path] = _attributes(tree, path, data)
    return [path for path in paths if path in nodes]


_LEVELLED: Mapping[str, tuple[str, str, str, int, range, Mapping[str, Any]]] = {
    "zlib": (codec.ZLIB, "level", "level", 6, range(10), {}),
    "gzip": (codec.GZIP, "level", "level", 6, range(10), {}),
    "bzip2": (codec.BZ2, "blockSize", "level", 9, range(1, 10), {}),
    "xz": (codec.LZMA, "preset", "preset", 6, range(10), {"format": 1}),
    "zstd": (codec.ZSTD, "level", "level", 3, range(-131072, 23), {"checksum": False}),
}
"""The codec, N5's name of its parameter, the codec's own, the default, what is possible, and what is fixed."""


class Chain(StrEnum):
    """What takes the header of a block."""

    AUTO = "auto"
    PAD = "pad"
    OFFSET = "offset"
    N5_DEFAULT = "n5_default"
    BEHIND = "behind"
    """No codec: references begin behind the header."""


def chain_of(name: str | None) -> Chain:
    """Return the chain of a name, `auto` for none."""
    if name is None:
        return Chain.AUTO
    wishes = [chain for chain in Chain if chain != Chain.BEHIND]
    if name not in wishes:
        raise UnsupportedError(f"chain {name!r}; there are {', '.join(wishes)}", field="chain")
    return Chain(name)


def codecs(
    dataset: N5Dataset, chain: Chain, framing: Framing, *, in_c_order: bool, odd_blocks: bool = False
) -> tuple[Codec, ...]:
    """Return a dataset's codecs, for an array in C order (last axis fastest) or in N5's own order."""
    axes, itemsize = len(dataset.dimensions), dataset.dtype.itemsize
    compressors = compressor(dataset, framing)
    order = (codec.reversed_axes(axes),) if axes > 1 else ()
    if chain == Chain.N5_DEFAULT:
        block = N5DefaultConfig.of(axes, itemsize, compressors, odd_blocks=odd_blocks)
        return (*(order if in_c_order else ()), block)
    header, length = default_header(dataset.block_size), header_length(axes)
    affixes: Mapping[Chain, tuple[Codec, ...]] = {
        Chain.OFFSET: (codec.OffsetConfig(length, header),),
        Chain.PAD: (codec.PadConfig(codec.PadSide.START, length, header),),
    }
    elements = codec.bytes_("big" if itemsize > 1 else None)
    return (*(() if in_c_order else order), elements, *compressors, *affixes.get(chain, ()))


def compressor(dataset: N5Dataset, framing: Framing) -> tuple[Codec, ...]:
    """Return the codec of the compression, none for raw.

    Parameters matter for writing only: one that is out of range stands for the default.
    """
    options = dataset.options

    def number(name: str, default: int, known: range) -> int:
        value = options.get(name, default)
        return value if type(value) is int and value in known else default

    if dataset.compression == "raw":
        return ()
    if dataset.compression == "lz4":
        return (codec.Lz4Config(framing),)
    if dataset.compression == "blosc":
        cname = options.get("cname", options.get("codec", "lz4"))
        configuration = {
            "cname": cname if cname in codec.CNAMES else "lz4",
            "clevel": number("clevel", 5, range(10)),
            "shuffle": codec.SHUFFLES[number("shuffle", 0, range(3))],
            "typesize": dataset.dtype.itemsize,
            "blocksize": number("blocksize", 0, range(1 << 31)),
        }
        return (CodecSpec(codec.BLOSC, configuration),)
    is_zlib = dataset.compression == "gzip" and options.get("useZlib") is True
    name, theirs, ours, default, known, fixed = _LEVELLED["zlib" if is_zlib else dataset.compression]
    return (CodecSpec(name, {ours: number(theirs, default, known), **fixed}),)


def framing(dataset: N5Dataset, body: bytes | None) -> Framing:
    """Return the framing of LZ4 blocks, from one of them if there is any, else from what its writer noted."""
    if body is not None and body.startswith(b"LZ4Block"):
        return Framing.JAVA
    if dataset.options.get("id") == "lz4":
        return Framing.FRAME
    if body is None and "blockSize" in dataset.options:
        return Framing.JAVA
    return Framing.BLOCK


LOCAL_HEADERS = 4096
REMOTE_HEADERS = 64
"""Headers that are read of one dataset only to choose a chain, each of them a request."""

LOOKED_AT = 8
"""Headers that are read to tell whether `blockSize` is right."""

_MOST_PLACES = 1 << 62
_TOGETHER = 1024
MAGIC = 16
"""Bytes behind a header that tell LZ4's framing."""


class Blocks:
    """The blocks of one dataset, in C order of the reversed grid."""

    def __init__(self, tree: Tree, keys: TreeKeys, path: str, dataset: N5Dataset) -> None:
        index, sizes, versions = keys.blocks(path, len(dataset.dimensions))
        inside = (index < np.array(dataset.grid, np.int64)).all(axis=1)
        index, sizes, versions = index[inside], sizes[inside], versions[inside]
        grid = dataset.grid[::-1]
        self.chunks = math.prod(grid)
        if self.chunks > _MOST_PLACES:
            raise UnsupportedError(f"a grid of {dataset.grid} blocks, more than can be numbered", field="dimensions")
        number = np.ravel_multi_index(tuple(index[:, ::-1].T), grid) if len(index) else np.empty(0, np.int64)
        order = np.argsort(number)
        self._tree, self._dataset = tree, dataset
        self._most = LOCAL_HEADERS if isinstance(tree, LocalTree) else REMOTE_HEADERS
        self._folder = f"{path}/" if path else ""
        self.index: Indices = np.ascontiguousarray(index[order])
        self.sizes: Sizes = sizes[order]
        self._versions: Sizes = versions[order]
        self._number: NDArray[np.int64] = number[order]
        short = np.flatnonzero(self.sizes < header_length(len(dataset.dimensions)))
        if len(short):
            where = int(short[0])
            raise MalformedError(
                f"a block of {self.sizes[where]} bytes, too few for its header", url=tree.url + self._key(where)
            )

    def _key(self, row: int) -> str:
        return self._folder + "/".join(map(str, self.index[row].tolist()))

    def refs(self, *, versions: bool = True, is_behind: bool = False) -> References:
        """Return each block as the whole of its file, or what is behind its header.

        With `versions` what tells each file's state stands beside it.
        """
        if self.chunks > GRID_CHUNKS:
            raise UnsupportedError(
                f"a grid of {self.chunks} blocks, there or not; a manifest takes {GRID_CHUNKS}; index it --in-place",
                field="blockSize",
            )
        names = np.column_stack((np.zeros(len(self.index), np.int32), self.index))
        files = GridFiles(self._tree.url, (self._tree.url + self._folder,), names)
        count = len(self.index)
        known = self._versions if versions and self._versions.any() else None
        header = header_length(len(self._dataset.dimensions)) if is_behind else 0
        rows = ChunkRefs(
            files,
            np.arange(count + 1, dtype=np.int64),
            np.arange(count, dtype=np.int32),
            np.full(count, header),
            self.sizes - header,
            version=known,
        )
        return refs_of_stored(self.chunks, self._number, rows)

    def framing(self) -> Framing:
        """Return how LZ4 blocks are framed, as the first of them shows."""
        if self._dataset.compression != "lz4" or not len(self.index):
            return framing(self._dataset, None)
        axes = len(self._dataset.dimensions)
        (head,) = self._tree.read([self._key(0)], header_length(axes, Mode.VARLENGTH) + MAGIC)
        return framing(self._dataset, head[block_header(head, axes).nbytes :])

    def chain(self, wish: Chain, family: Codecs = "proposal") -> Chain:
        """Return the chain that reads all blocks right; the one that is wished, or an error that says why not.

        `family` says whether references may begin behind the headers; for `standard` every header is read.
        """
        if wish == Chain.N5_DEFAULT:
            return wish
        if wish == Chain.AUTO:
            rows = np.arange(len(self.index))
            is_asked = len(rows) <= self._most or family == "standard"
            if not is_asked or self._stranger(rows) is not None:
                return Chain.N5_DEFAULT
            return Chain.BEHIND if family != "proposal" and self._is_standard else Chain.PAD
        # every header: no length of a block tells its shape, and no codec behind `offset` could notice another one
        stranger = self._stranger(np.arange(len(self.index)))
        if stranger is not None:
            raise UnrepresentableError(
                f"a block of another shape or kind than the chunks' {self._dataset.block_size}, "
                f"which {wish} cannot read; --chain n5_default does",
                url=self._tree.url + self._key(stranger),
                field="chain",
            )
        return wish

    @property
    def _is_standard(self) -> bool:
        """Whether Zarr's own codecs read what stands behind the headers of full blocks."""
        if self._dataset.compression != "raw":
            return not any(needs_jnrrdz(each.name) for each in compressor(self._dataset, Framing.BLOCK))
        size = math.prod(self._dataset.block_size) * self._dataset.dtype.itemsize
        return bool((self.sizes == header_length(len(self._dataset.dimensions)) + size).all())

    def refuse_odd(self, *, each: bool) -> None:
        """Refuse a `blockSize` that no block has along some axis, and with `each` any block that contradicts it.

        A few headers are looked at, with `each` as many as for a chain.  A block by itself may fit where it does
        not belong: one of 16 at the end of 50, where blocks are said to be of 17.
        """
        size, axes = np.array(self._dataset.block_size), len(self._dataset.dimensions)
        most = min(len(self.index), self._most if each else LOOKED_AT)
        rows, sides = [], []
        for some in batched(np.linspace(0, len(self.index) - 1, most).astype(np.int64).tolist(), _TOGETHER):
            heads = self._tree.read([self._key(row) for row in some], header_length(axes, Mode.VARLENGTH))
            for row, head in zip(some, heads, strict=True):
                with suppress(JnrrdzError):  # told by whoever reads the block
                    sides.append(block_header(head, axes).dimensions)
                    rows.append(row)
        shapes = np.array(sides, np.int64).reshape(-1, axes)
        rest = self._dataset.dimensions - self.index[rows].astype(np.int64) * size
        inner, fits = rest >= size, (shapes == size) | (shapes == rest)
        odd = ~fits if each else inner & ~fits & ~(inner & fits).any(axis=0)
        for row in np.flatnonzero(odd.any(axis=1))[:1].tolist():
            try:
                check_place(sides[row], self._dataset.block_size, tuple(rest[row].tolist()))
            except MalformedError as error:
                raise error.at(url=self._tree.url + self._key(rows[row])) from None

    def _stranger(self, rows: NDArray[np.int64]) -> int | None:
        """Return the first of some blocks whose header is not the one of a full block in default mode."""
        full = default_header(self._dataset.block_size)
        for some in batched(rows.tolist(), _TOGETHER):
            heads = self._tree.read([self._key(row) for row in some], len(full))
            strangers = (row for row, head in zip(some, heads, strict=True) if head != full)
            stranger: int | None = next(strangers, None)
            if stranger is not None:
                return stranger
        return None


class GeneratedBlocks:
    """Every block that the dimensions have room for, in C order of the reversed grid."""

    def __init__(self, tree: UnlistedTree, budget: Budget, path: str, dataset: N5Dataset) -> None:
        self._budget = budget
        self._tree, self._dataset = tree, dataset
        self._folder = f"{path}/" if path else ""
        self.chunks = math.prod(dataset.grid)

    def refs(self, *, versions: bool = True, is_behind: bool = False) -> References:  # noqa: ARG002  nothing tells them
        """Return each block as the whole of its object."""
        try:
            self._budget.charge(Resource.MISSING_CHUNKS, self.chunks)
        except UnsupportedError as error:
            message = f"{error.message}; index the container elsewhere: nothing is known without a listing"
            raise UnsupportedError(message, field="blockSize") from None
        numbers = np.arange(self.chunks, dtype=np.int32)
        rows = np.zeros((self.chunks, 1 + len(self._dataset.grid)), np.int32)
        stride = self.chunks
        for axis, size in reversed(list(enumerate(self._dataset.grid, start=1))):
            stride //= max(size, 1)
            rows[:, axis] = numbers // max(stride, 1) % max(size, 1)
        files = GridFiles(self._tree.url, (self._tree.url + self._folder,), rows)
        offset, length = (np.broadcast_to(np.int64(value), self.chunks) for value in (0, WHOLE))
        return ChunkRefs(files, np.arange(self.chunks + 1, dtype=np.int64), numbers, offset, length)

    def framing(self) -> Framing:
        """Return how LZ4 blocks are framed, as the first or the middle one shows if it is there."""
        if self._dataset.compression != "lz4" or not self.chunks:
            return framing(self._dataset, None)
        axes = len(self._dataset.dimensions)
        places = {(0,) * axes, tuple(size // 2 for size in self._dataset.grid)}
        keys = [self._folder + "/".join(map(str, place)) for place in sorted(places)]
        heads = self._tree.find(keys, header_length(axes, Mode.VARLENGTH) + MAGIC)
        head = next((head for head in heads if head is not None), None)
        return framing(self._dataset, None if head is None else head[block_header(head, axes).nbytes :])

    def chain(self, wish: Chain, family: Codecs = "proposal") -> Chain:  # noqa: ARG002  no header is known
        """Return the chain that looks at every header when it is read: here nothing else can."""
        if wish in {Chain.OFFSET, Chain.PAD}:
            raise UnrepresentableError(
                f"{wish} needs the header of every block to be known, and HTTP has no listing of them; "
                "--chain n5_default reads each header",
                url=self._tree.url,
                field="chain",
            )
        return Chain.N5_DEFAULT
