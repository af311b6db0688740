"""The blocks of a dataset as references, and what their headers say.

May touch numpy, errors, trees, the layout and the model.  A header is read where that decides something: the
framing of LZ4, and whether every block has the chunk's own shape, which is what lets a codec skip it.
"""

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError
from jnrrdz.layout.n5 import N5Dataset
from jnrrdz.layout.n5_block import Mode, block_header, header_length
from jnrrdz.layout.n5_keys import Indices, Sizes, TreeKeys
from jnrrdz.model.codec_n5 import Framing
from jnrrdz.model.refs import ChunkRefs, GridFiles
from jnrrdz.scan.n5.chain import Chain, framing
from jnrrdz.source.tree import LocalTree, Tree

LOCAL_HEADERS = 4096
REMOTE_HEADERS = 64
"""Headers that are read of one dataset only to choose a chain, each of them a request."""

SAMPLED = 16
_MAGIC = 16
"""Bytes behind a header that tell LZ4's framing."""


class Blocks:
    """The blocks of one dataset, in C order of the reversed grid."""

    def __init__(self, tree: Tree, path: str, dataset: N5Dataset, keys: TreeKeys) -> None:
        index, sizes = keys.blocks(path, len(dataset.dimensions))
        inside = (index < np.array(dataset.grid, np.int64)).all(axis=1)
        index, sizes = index[inside], sizes[inside]
        grid = dataset.grid[::-1]
        number = np.ravel_multi_index(tuple(index[:, ::-1].T), grid) if len(index) else np.empty(0, np.int64)
        order = np.argsort(number)
        self._tree, self._dataset = tree, dataset
        self._folder = f"{path}/" if path else ""
        self.index: Indices = np.ascontiguousarray(index[order])
        self.sizes: Sizes = sizes[order]
        self._number: NDArray[np.int64] = number[order]
        self.chunks = int(np.prod(np.array(grid, object)))
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
        (head,) = self._tree.read([self._key(0)], header_length(axes, Mode.VARLENGTH) + _MAGIC)
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
        stranger = self._stranger(self._doubtful())
        if stranger is not None:
            raise UnrepresentableError(
                f"a block of another shape or kind than the chunks' {self._dataset.block_size}, "
                f"which {wish} cannot read; --chain n5_default does",
                url=self._tree.url + self._key(stranger),
                field="chain",
            )
        return wish

    def _doubtful(self) -> NDArray[np.int64]:
        """Return the blocks whose headers have to be read: those at edges that cut blocks, and some others."""
        cut = np.array(self._dataset.dimensions) % np.array(self._dataset.block_size) != 0
        last = self.index == np.array(self._dataset.grid) - 1
        edge = np.flatnonzero((last & cut).any(axis=1))
        some = np.linspace(0, len(self.index) - 1, SAMPLED).astype(np.int64) if len(self.index) else edge
        return np.union1d(edge, some)

    def _stranger(self, rows: NDArray[np.int64]) -> int | None:
        """Return the first of some blocks whose header is not the one of a full block."""
        axes = len(self._dataset.dimensions)
        heads = self._tree.read([self._key(row) for row in rows.tolist()], header_length(axes))
        for row, head in zip(rows.tolist(), heads, strict=True):
            try:
                header = block_header(head, axes)
            except JnrrdzError as error:
                # a header of variable length is longer than what was read
                if len(head) > 1 and int.from_bytes(head[:2], "big") == Mode.VARLENGTH:
                    return int(row)
                raise error.at(url=self._tree.url + self._key(row)) from None
            if header.mode != Mode.DEFAULT or header.dimensions != self._dataset.block_size:
                return int(row)
        return None
