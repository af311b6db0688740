"""The blocks of a dataset that cannot be listed: one for each place of the grid, there or not.

May touch numpy, errors, trees, the layout and the model.  Of no block is it known how long it is, what its header
says, or whether it exists: references are to whole objects, and absent ones read as 0.
"""

import math

import numpy as np

from jnrrdz.core.codec_n5 import Framing
from jnrrdz.core.refs import WHOLE, ChunkRefs, GridFiles
from jnrrdz.errors import UnrepresentableError, UnsupportedError
from jnrrdz.formats.n5.blocks import MAGIC
from jnrrdz.formats.n5.chain import Chain, framing
from jnrrdz.formats.n5.n5_block import Mode, block_header, header_length
from jnrrdz.formats.n5.n5_header import N5Dataset
from jnrrdz.sources.unlisted import UnlistedTree

MOST_BLOCKS = 1 << 24
"""Of one array: each of them has its row, 28 bytes for three axes."""


class GeneratedBlocks:
    """Every block that the dimensions have room for, in C order of the reversed grid."""

    def __init__(self, tree: UnlistedTree, path: str, dataset: N5Dataset) -> None:
        self._tree, self._dataset = tree, dataset
        self._folder = f"{path}/" if path else ""
        self.chunks = math.prod(dataset.grid)

    def refs(self) -> ChunkRefs:
        """Return each block as the whole of its object."""
        if self.chunks > MOST_BLOCKS:
            raise UnsupportedError(
                f"a grid of {self.chunks} blocks, none of which is known to be there without a listing; "
                f"{MOST_BLOCKS} are taken; index the container where it can be listed",
                field="blockSize",
            )
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

    def chain(self, wish: Chain) -> Chain:
        """Return the chain that looks at every header when it is read: here nothing else can."""
        if wish in {Chain.OFFSET, Chain.PAD}:
            raise UnrepresentableError(
                f"{wish} needs the header of every block to be known, and HTTP has no listing of them; "
                "--chain n5_default reads each header",
                url=self._tree.url,
                field="chain",
            )
        return Chain.N5_DEFAULT
