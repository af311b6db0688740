"""The blocks of a dataset as references, and what their headers say.

May touch numpy, errors, trees, the layout and the model.  A header is read where that decides something: the
framing of LZ4, and whether every block has the chunk's own shape, which is what lets a codec skip it.
"""

import math
from itertools import batched

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.codec_n5 import Framing
from jnrrdz.core.refs import ChunkRefs, GridFiles
from jnrrdz.errors import MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.formats.n5.chain import Chain, framing
from jnrrdz.formats.n5.n5_block import Mode, block_header, default_header, header_length
from jnrrdz.formats.n5.n5_header import N5Dataset
from jnrrdz.formats.n5.n5_keys import Indices, Sizes, TreeKeys
from jnrrdz.sources.tree import LocalTree, Tree

LOCAL_HEADERS = 4096
REMOTE_HEADERS = 64
"""Headers that are read of one dataset only to choose a chain, each of them a request."""

MOST_CHUNKS = 1 << 27
"""Of one array: a row pointer for each of them, there or not, takes 1 GB."""

_MOST_PLACES = 1 << 62
_TOGETHER = 1024
MAGIC = 16
"""Bytes behind a header that tell LZ4's framing."""


class Blocks:
    """The blocks of one dataset, in C order of the reversed grid."""

    def __init__(self, tree: Tree, path: str, dataset: N5Dataset, keys: TreeKeys) -> None:
        index, sizes = keys.blocks(path, len(dataset.dimensions))
        inside = (index < np.array(dataset.grid, np.int64)).all(axis=1)
        index, sizes = index[inside], sizes[inside]
        grid = dataset.grid[::-1]
        self.chunks = math.prod(grid)
        if self.chunks > _MOST_PLACES:
            raise UnsupportedError(f"a grid of {dataset.grid} blocks, more than can be numbered", field="dimensions")
        number = np.ravel_multi_index(tuple(index[:, ::-1].T), grid) if len(index) else np.empty(0, np.int64)
        order = np.argsort(number)
        self._tree, self._dataset = tree, dataset
        self._folder = f"{path}/" if path else ""
        self.index: Indices = np.ascontiguousarray(index[order])
        self.sizes: Sizes = sizes[order]
        self._number: NDArray[np.int64] = number[order]
        self._refuse_empty()

    def _refuse_empty(self) -> None:
        short = np.flatnonzero(self.sizes < header_length(len(self._dataset.dimensions)))
        if len(short):
            where = int(short[0])
            raise MalformedError(
                f"a block of {self.sizes[where]} bytes, too few for its header", url=self._tree.url + self._key(where)
            )

    def _key(self, row: int) -> str:
        return self._folder + "/".join(map(str, self.index[row].tolist()))

    def refs(self) -> ChunkRefs:
        """Return each block as the whole of its file."""
        if self.chunks > MOST_CHUNKS:
            raise UnsupportedError(
                f"a grid of {self.chunks} blocks, there or not; a manifest takes {MOST_CHUNKS}; index it --in-place",
                field="blockSize",
            )
        there = np.zeros(self.chunks, np.int64)
        there[self._number] = 1
        names = np.column_stack((np.zeros(len(self.index), np.int32), self.index))
        files = GridFiles(self._tree.url, (self._tree.url + self._folder,), names)
        rows = np.arange(len(self.index), dtype=np.int32)
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(there)))
        return ChunkRefs(files, indptr, rows, np.zeros(len(rows), np.int64), self.sizes)

    def framing(self) -> Framing:
        """Return how LZ4 blocks are framed, as the first of them shows."""
        if self._dataset.compression != "lz4" or not len(self.index):
            return framing(self._dataset, None)
        axes = len(self._dataset.dimensions)
        (head,) = self._tree.read([self._key(0)], header_length(axes, Mode.VARLENGTH) + MAGIC)
        return framing(self._dataset, head[block_header(head, axes).nbytes :])

    def chain(self, wish: Chain) -> Chain:
        """Return the chain that reads all blocks right; the one that is wished, or an error that says why not."""
        if wish == Chain.N5_DEFAULT:
            return wish
        if wish == Chain.AUTO:
            most = LOCAL_HEADERS if isinstance(self._tree, LocalTree) else REMOTE_HEADERS
            rows = np.arange(len(self.index))
            same = len(rows) <= most and self._stranger(rows) is None
            return Chain.OFFSET if same else Chain.N5_DEFAULT
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

    def _stranger(self, rows: NDArray[np.int64]) -> int | None:
        """Return the first of some blocks whose header is not the one of a full block in default mode."""
        full = default_header(self._dataset.block_size)
        for some in batched(rows.tolist(), _TOGETHER):
            heads = self._tree.read([self._key(row) for row in some], len(full))
            strangers = (row for row, head in zip(some, heads, strict=True) if head != full)
            found: int | None = next(strangers, None)
            if found is not None:
                return found
        return None
