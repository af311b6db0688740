"""One N5 dataset to a virtual array in C order.

May touch trees, the layout and the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jnrrdz.layout import n5
from jnrrdz.layout.n5 import N5Dataset
from jnrrdz.layout.n5_keys import TreeKeys
from jnrrdz.model.array import VirtualArray
from jnrrdz.model.levels import axis_attributes
from jnrrdz.scan.n5.blocks import Blocks
from jnrrdz.scan.n5.chain import chain_of, codecs
from jnrrdz.scan.n5.place import Place, place_of
from jnrrdz.scan.options import ScanOptions
from jnrrdz.source.tree import Tree

VARIABLE = "data"


@dataclass(frozen=True)
class Found:
    """A dataset, read."""

    path: str
    dataset: N5Dataset
    place: Place
    array: VirtualArray


def volume(tree: Tree, path: str, nodes: Mapping[str, dict[str, Any]], keys: TreeKeys, options: ScanOptions) -> Found:
    """Return the dataset at a path of the tree."""
    dataset = n5.dataset(nodes[path])
    place = place_of(path, len(dataset.dimensions), nodes)
    blocks = Blocks(tree, path, dataset, keys)
    chain = blocks.chain(chain_of(options.chain))
    array = VirtualArray(
        dataset.dimensions[::-1],
        dataset.dtype,
        dataset.block_size[::-1],
        codecs(dataset, chain, blocks.framing(), in_c_order=True),
        blocks.refs(),
        place.names[::-1],
        0,
        axes_of(place),
    )
    return Found(path, dataset, place, array)


def axes_of(place: Place) -> dict[str, Any]:
    """Return the attribute that tells coordinates, last axis fastest."""
    scale = None if place.scale is None else place.scale[::-1]
    return axis_attributes(place.names[::-1], place.units[::-1], scale, place.translation[::-1])
