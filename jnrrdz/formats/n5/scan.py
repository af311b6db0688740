"""One N5 dataset to a virtual array.

May touch trees, the layout and the model.

The datasets of a container in the tree that they stand in, levels told as such.

May touch the model only.  Every folder becomes a group with its attributes under `n5`; a dataset is a group that
holds its array, for arrays of one group share their dimensions' sizes, which levels do not.  In place the
datasets are arrays, and attributes stay where they are.

BigDataViewer's timepoints put one after another: `setupN/timepointM/sK` to `setupN/sK` with an axis `t`.

May touch errors and the model.  Timepoints have to agree in all but their blocks; one that is missing between
two others reads as the fill value.

N5: a container, or one dataset of it, to a virtual group with the tree kept.

May touch errors, trees, the layout and the model.  Follows https://github.com/saalfeldlab/n5; what becomes of
what is told in docs/formats/n5.md.  The listing tells blocks and sizes; of blocks themselves at most
headers are read.  Where there is no listing (HTTP), metadata are looked for and every block is taken to be there.
"""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jnrrdz.core import codecs as codec_n5
from jnrrdz.core.arrays import Node, SourceRecord, VirtualArray, VirtualGroup
from jnrrdz.core.codecs import CodecSpec
from jnrrdz.core.pyramid import VolumeLevel, axis_attributes, level_attributes
from jnrrdz.core.refs import ChunkRefs, GridFiles
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.formats.n5 import attributes as n5
from jnrrdz.formats.n5.attributes import N5Dataset
from jnrrdz.formats.n5.axes import LEVEL, Attributes, Place, cosem_levels, is_overview, place_of
from jnrrdz.formats.n5.blocks import Blocks, GeneratedBlocks, chain_of, codecs
from jnrrdz.formats.n5.listing import LARGEST_DOCUMENT, TreeKeys, probed
from jnrrdz.options import ScanOptions
from jnrrdz.sources.tree import Tree, UnlistedTree

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


_LEVELS = 2
_BRANCHES = "a dataset in a dataset"


def assembled(found: Sequence[Found], nodes: Mapping[str, dict[str, Any]], url: str, frame: Frame) -> Node:
    """Return the root: a group, or in place a dataset if that is all."""
    by_path = {one.path: one for one in found}
    tree: dict[str, set[str]] = {"": set()}
    for path in by_path:
        parts = path.split("/") if path else []
        for depth, part in enumerate(parts):
            parent = "/".join(parts[:depth])
            tree.setdefault(parent, set()).add(part)
            if parent in by_path:
                raise UnsupportedError(_BRANCHES, url=url + path, field="dimensions")
    return _Assembly(tree, by_path, nodes, frame).node("")


@dataclass(frozen=True)
class _Assembly:
    tree: Mapping[str, set[str]]
    by_path: Mapping[str, Found]
    nodes: Mapping[str, dict[str, Any]]
    frame: Frame

    def node(self, path: str) -> Node:
        """Return what stands at a path."""
        attributes = {"n5": self.nodes[path]} if path in self.nodes and not self.frame.in_place else {}
        if path not in self.by_path:
            return self._group(path, attributes)
        array = self.by_path[path].array
        return array if self.frame.in_place else VirtualGroup({VARIABLE: array}, attributes)

    def _group(self, path: str, attributes: dict[str, Any]) -> VirtualGroup:
        prefix = f"{path}/" if path else ""
        datasets = {name: self.by_path[prefix + name] for name in self.tree[path] if prefix + name in self.by_path}
        levels = levels_of(datasets, self.nodes.get(path, {}))
        names = [one.path.removeprefix(prefix) for one in levels]
        names += sorted(self.tree[path] - set(names))
        children = {name: self.node(prefix + name) for name in names}
        return VirtualGroup(children, attributes | self._multiscales(path.rpartition("/")[2], levels, prefix))

    def _multiscales(self, name: str, found: Sequence[Found], prefix: str) -> dict[str, Any]:
        if not found:
            return {}
        finest, turned = found[0], self.frame.turned
        levels = [self._level(one, finest, prefix) for one in found]
        return level_attributes(name, turned(finest.place.names), turned(finest.place.units), levels)

    def _level(self, one: Found, finest: Found, prefix: str) -> VolumeLevel:
        place, turned = one.place, self.frame.turned
        return VolumeLevel(
            one.path.removeprefix(prefix),
            "" if self.frame.in_place else VARIABLE,
            turned(_factors(one, finest)),
            None if place.scale is None else turned(place.scale),
            turned(place.translation),
        )


def levels_of(children: Mapping[str, Found], attributes: Attributes) -> list[Found]:
    """Return the levels of an image among a folder's datasets, finest first; none where they are no levels."""
    listed = [str(entry.get("path")) for entry in cosem_levels(attributes)]
    names = [name for name in listed if name in children]
    if not names:
        names = sorted(filter(LEVEL.fullmatch, children), key=lambda name: int(name[1:]))
    found = [children[name] for name in names]
    if not found or any(one.array.dimension_names != found[0].array.dimension_names for one in found):
        return []
    marked = bool({"multiScale", "multiscales", "downsamplingFactors", "scales"} & set(attributes))
    return found if marked or len(found) >= _LEVELS else []


def _factors(one: Found, finest: Found) -> tuple[float, ...]:
    """Return how much coarser a level is: as the file says, else as its steps or sizes say."""
    if one.place.factors is not None and finest.place.factors is not None:
        return tuple(a / b for a, b in zip(one.place.factors, finest.place.factors, strict=True))
    if one.place.factors is not None:
        return one.place.factors
    if one.place.scale is not None and finest.place.scale is not None:
        return tuple(a / b for a, b in zip(one.place.scale, finest.place.scale, strict=True))
    sizes = zip(finest.dataset.dimensions, one.dataset.dimensions, strict=True)
    return tuple(full / size if size else 1.0 for full, size in sizes)


_TIMEPOINT = re.compile(r"timepoint(\d+)")
TIME = "t"
MOST_TIMEPOINTS = 1 << 20

type Arrays = dict[str, VirtualArray]


def stacked(root: VirtualGroup, url: str) -> VirtualGroup:
    """Return the tree with the timepoints of every setup stacked."""
    children = {name: stacked(c, f"{url}{name}/") if isinstance(c, VirtualGroup) else c for name, c in _items(root)}
    times = {int(found[1]): name for name in children if (found := _TIMEPOINT.fullmatch(name))}
    if not times:
        return VirtualGroup(children, root.attributes)
    groups = {time: children.pop(name) for time, name in sorted(times.items())}
    if max(groups) >= MOST_TIMEPOINTS:
        raise UnrepresentableError(f"timepoint {max(groups)}; up to {MOST_TIMEPOINTS} are stacked", url=url)
    arrays = {time: dict(group.arrays()) for time, group in groups.items() if isinstance(group, VirtualGroup)}
    first = groups[min(groups)]
    if not isinstance(first, VirtualGroup) or not arrays:
        return root
    joined = {path: _joined(path, arrays, url) for path in arrays[min(arrays)]}
    inner = _replaced(first, joined, "")
    attributes = {name: value for name, value in inner.attributes.items() if name != "n5"}
    return VirtualGroup({**inner.children, **children}, {**root.attributes, **_timed(attributes)})


def _items(group: VirtualGroup) -> Sequence[tuple[str, Node]]:
    return list(group.children.items())


def _replaced(group: VirtualGroup, arrays: Arrays, prefix: str) -> VirtualGroup:
    children: dict[str, Node] = {}
    for name, child in group.children.items():
        path = f"{prefix}{name}"
        children[name] = _replaced(child, arrays, f"{path}/") if isinstance(child, VirtualGroup) else arrays[path]
    return VirtualGroup(children, group.attributes)


def _joined(path: str, arrays: dict[int, Arrays], url: str) -> VirtualArray:
    """Return one array of those at one path of every timepoint."""
    first = arrays[min(arrays)]
    for time, others in arrays.items():
        if set(others) != set(first) or _facts(others[path]) != _facts(first[path]):
            raise UnrepresentableError(
                f"timepoint {time} has other levels, shapes, types or chains than the first; "
                "index without --stack-timepoints",
                url=url,
                field=path,
            )
    one = first[path]
    return replace(
        one,
        shape=(max(arrays) + 1, *one.shape),
        chunks=(1, *one.chunks),
        codecs=_codecs(one),
        refs=_refs([arrays[t][path].refs if t in arrays else None for t in range(max(arrays) + 1)], one.refs.chunks),
        dimension_names=(TIME, *one.dimension_names),
    )


def _codecs(array: VirtualArray) -> tuple[CodecSpec, ...]:
    """Return the codecs of an array with one axis more, which is dropped where they meet the block."""
    turned = [spec for spec in array.codecs if spec.name == codec_n5.TRANSPOSE]
    longer = [
        CodecSpec(spec.name, {"order": [0, *(axis + 1 for axis in spec.configuration["order"])]}) for spec in turned
    ]
    return (*longer, codec_n5.squeeze(), *array.codecs[len(turned) :])


def _facts(array: VirtualArray) -> tuple[Any, ...]:
    return array.shape, array.dtype, array.chunks, array.codecs, array.dimension_names, array.attributes


def _refs(parts: Sequence[ChunkRefs | None], chunks: int) -> ChunkRefs:
    """Return the chunks of each timepoint after those of the one before it."""
    known = [part for part in parts if part is not None]
    counts = [np.zeros(chunks, np.int64) if part is None else part.counts for part in parts]
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.concatenate(counts))))
    files = GridFiles.joined([part.sources for part in known if isinstance(part.sources, GridFiles)])
    rows = np.arange(len(files), dtype=np.int32)
    offset, length = (np.concatenate([getattr(part, name) for part in known]) for name in ("offset", "length"))
    return ChunkRefs(files, indptr, rows, offset, length)


def _timed(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of levels with one axis more in front."""
    found = dict(attributes)
    layout = found.get("multiscales", {}).get("layout", [])
    if layout:
        found["multiscales"] = {"layout": [entry | {"transform": _longer(entry["transform"])} for entry in layout]}
    for image in found.get("ome", {}).get("multiscales", []):
        image["axes"] = [{"name": TIME, "type": "time"}, *image["axes"]]
        for level in image["datasets"]:
            level["coordinateTransformations"] = [_longer(entry) for entry in level["coordinateTransformations"]]
    return found


def _longer(transform: dict[str, Any]) -> dict[str, Any]:
    added = {"scale": 1.0, "translation": 0.0}
    return {
        name: [added[name], *value] if name in added and isinstance(value, list) else value
        for name, value in transform.items()
    }


MOST_DOCUMENTS = 1 << 20

type Nodes = dict[str, dict[str, Any]]


def scan_n5(tree: Tree, options: ScanOptions) -> VirtualGroup:
    """Return the virtual group of the container or dataset at a tree's root."""
    root = _root(tree, options, Frame())
    if not isinstance(root, VirtualGroup):
        raise TypeError(root)
    if options.stack_timepoints:
        root = stacked(root, tree.url)
    return VirtualGroup(root.children, root.attributes, (SourceRecord(tree.url),))


def describe_in_place(tree: Tree, options: ScanOptions) -> Node:
    """Return the tree as Zarr would have it in the very same place: axes and keys as N5 has them, no references."""
    if isinstance(tree, UnlistedTree):
        raise UnsupportedError(
            "HTTP is read-only; write a manifest, or index in place where it is stored", url=tree.url
        )
    if options.stack_timepoints:
        raise UnsupportedError("timepoints cannot be stacked in place; write a manifest", field="stack_timepoints")
    return _root(tree, options, Frame(in_place=True))


def _root(tree: Tree, options: ScanOptions, frame: Frame) -> Node:
    keys, nodes = (None, probed(tree)) if isinstance(tree, UnlistedTree) else _listed(tree)
    n5.check_version(nodes.get("", {}))
    paths = [path for path, attributes in nodes.items() if n5.is_dataset(attributes)]
    if not options.overviews:
        paths = [path for path in paths if not is_overview(path)]
    container = Container(tree, keys, nodes)
    found = _datasets(tree, paths, lambda path: container.volume(path, options, frame))
    return assembled(found, nodes, tree.url, frame)


def _listed(tree: Tree) -> tuple[TreeKeys, Nodes]:
    keys = TreeKeys()
    for page in tree.pages():
        keys.add(*page)
    return keys, attributes_of(tree, keys)


def attributes_of(tree: Tree, keys: TreeKeys) -> Nodes:
    """Return the attributes of every folder that has some, sorted by path."""
    if not keys.documents:
        seen = f" but {', '.join(sorted(keys.others)[:3])}" if keys.others else ""
        raise UnsupportedError(f"a directory without attributes.json{seen}; N5 is read", url=tree.url, field="format")
    folders = sorted(keys.documents)
    for folder in folders:
        if keys.documents[folder] > LARGEST_DOCUMENT or len(folders) > MOST_DOCUMENTS:
            raise UnsupportedError("metadata too large to read", url=_document(tree, folder))
    nodes: Nodes = {}
    longest = max(*keys.documents.values(), 1)
    for folder, data in zip(folders, tree.read([_key(folder) for folder in folders], longest), strict=True):
        try:
            nodes[folder] = n5.parse(data)
        except JnrrdzError as error:
            raise error.at(url=_document(tree, folder)) from error.__cause__
    return nodes


def _key(folder: str) -> str:
    return f"{folder}/attributes.json" if folder else "attributes.json"


def _document(tree: Tree, folder: str) -> str:
    return tree.url + _key(folder)


def _datasets(tree: Tree, paths: Sequence[str], read: Callable[[str], Found]) -> list[Found]:
    """Return the datasets; in a container those that cannot be read are left out, each with a warning."""
    if not paths:
        raise MalformedError("an N5 container without a dataset", url=tree.url, field="dimensions")
    found = []
    for path in paths:
        try:
            found.append(read(path))
        except UnsupportedError as error:
            error.at(url=_document(tree, path))
            if len(paths) == 1:
                raise
            warnings.warn(f"left out: {error}", stacklevel=2)
        except JnrrdzError as error:
            raise error.at(url=_document(tree, path)) from error.__cause__
    if not found:
        raise UnsupportedError("no dataset of a kind that is read", url=tree.url, field="dataType")
    return found
