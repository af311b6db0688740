"""One N5 dataset to a virtual array.

May touch trees, the layout and the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jnrrdz.core.array import VirtualArray
from jnrrdz.core.levels import axis_attributes
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.formats.n5 import n5_header as n5
from jnrrdz.formats.n5.axes import Place, place_of
from jnrrdz.formats.n5.blocks import Blocks
from jnrrdz.formats.n5.chain import chain_of, codecs
from jnrrdz.formats.n5.generated import GeneratedBlocks
from jnrrdz.formats.n5.n5_header import N5Dataset
from jnrrdz.formats.n5.n5_keys import TreeKeys
from jnrrdz.options import ScanOptions
from jnrrdz.sources.tree import Tree
from jnrrdz.sources.unlisted import UnlistedTree

VARIABLE = "data"


@dataclass(frozen=True)
class Found:
    """A dataset, read."""

    path: str
    dataset: N5Dataset
    place: Place
    array: VirtualArray


@dataclass(frozen=True)
class Frame:
    """The order of axes: C order for a manifest; in place N5's own, for the keys of blocks are x first."""

    in_place: bool = False

    def turned[T](self, vector: tuple[T, ...]) -> tuple[T, ...]:
        """Return a vector of N5's axes in the order of the array's."""
        return vector if self.in_place else vector[::-1]


@dataclass(frozen=True)
class Container:
    """A tree whose keys are listed and whose metadata are read."""

    tree: Tree
    keys: TreeKeys | None
    """None where there is no listing."""

    nodes: Mapping[str, dict[str, Any]]
    """The attributes of every folder that has some."""

    def volume(self, path: str, options: ScanOptions, frame: Frame) -> Found:
        """Return the dataset at a path."""
        dataset = n5.dataset(self.nodes[path])
        place = place_of(path, len(dataset.dimensions), self.nodes)
        blocks = self._blocks(path, dataset)
        chain = blocks.chain(chain_of(options.chain))
        array = VirtualArray(
            frame.turned(dataset.dimensions),
            dataset.dtype,
            frame.turned(dataset.block_size),
            codecs(dataset, chain, blocks.framing(), in_c_order=not frame.in_place),
            ChunkRefs.empty(blocks.chunks) if frame.in_place else blocks.refs(),
            frame.turned(place.names),
            0,
            _axes(place, frame),
        )
        return Found(path, dataset, place, array)

    def _blocks(self, path: str, dataset: N5Dataset) -> Blocks | GeneratedBlocks:
        if isinstance(self.tree, UnlistedTree):
            return GeneratedBlocks(self.tree, path, dataset)
        return Blocks(self.tree, path, dataset, self.keys or TreeKeys())


def _axes(place: Place, frame: Frame) -> dict[str, Any]:
    """Return the attribute that tells coordinates."""
    scale = None if place.scale is None else frame.turned(place.scale)
    return axis_attributes(frame.turned(place.names), frame.turned(place.units), scale, frame.turned(place.translation))
