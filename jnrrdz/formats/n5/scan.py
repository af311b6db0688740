"""N5 to a virtual group: a container, or one dataset of it, with the tree kept.

Every folder becomes a group with its attributes under `n5`; a dataset is a group that holds its array, for arrays
of one group share their dimensions' sizes, which levels do not.  In place the datasets are arrays, and attributes
stay where they are.  The listing tells blocks and sizes; of blocks themselves at most headers are read.  Where
there is no listing (HTTP), metadata are looked for and every block is taken to be there.  On demand BigDataViewer's
timepoints are put one after another: `setupN/timepointM/sK` to `setupN/sK` with an axis `t`.

Follows https://github.com/saalfeldlab/n5; docs/formats/n5.md tells what becomes of what.
"""

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from jnrrdz.core import codecs as codec
from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.limits import DEEPEST, Budget
from jnrrdz.core.pyramid import VolumeLevel, axis_attributes, level_attributes
from jnrrdz.core.refs import ChunkRefs, References, refs_of_stored
from jnrrdz.core.state import Validators, modified_text
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.core.tree_files import GridFiles
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.formats.n5.attributes import (
    LEVEL,
    Attributes,
    N5Dataset,
    Place,
    check_version,
    cosem_levels,
    cosem_transforms,
    is_dataset,
    is_overview,
    parse_dataset,
    place_of,
)
from jnrrdz.formats.n5.blocks import (
    Blocks,
    Chain,
    GeneratedBlocks,
    Nodes,
    TreeKeys,
    chain_of,
    codecs,
    document_key,
    find_nodes,
    read_nodes,
)
from jnrrdz.formats.n5.codecs import N5_DEFAULT
from jnrrdz.options import ScanOptions
from jnrrdz.sources.tree import Tree, UnlistedTree

VARIABLE = "data"


@dataclass(frozen=True)
class Volume:
    """A dataset with its array."""

    path: str
    dataset: N5Dataset
    place: Place
    array: VirtualArray

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Frame:
    """The order of axes: C order for a manifest; in place N5's own, for the keys of blocks are x first."""

    in_place: bool = False

    def turned[T](self, vector: tuple[T, ...]) -> tuple[T, ...]:
        """Return a vector of N5's axes in the order of the array's."""
        return vector if self.in_place else vector[::-1]


def scan_n5(tree: Tree, options: ScanOptions) -> VirtualGroup:
    """Return the virtual group of the container or dataset at a tree's root."""
    root, states = _root(tree, options, Frame())
    if not isinstance(root, VirtualGroup):
        raise TypeError(root)
    documents = [
        SourceRecord(tree.url + document_key(path), state.size, state.etag, state.version, state.modified)
        for path, state in (states.items() if options.object_versions else ())
    ]
    if options.stack_timepoints:
        root = stack_timepoints(root, tree.url)
    # a microsecond more than floats round away
    latest = modified_text(math.ceil(tree.latest + 1e-6) * 10**9) if documents and tree.latest else None
    return VirtualGroup(root.children, root.attributes, (SourceRecord(tree.url, modified=latest), *documents))


def describe_in_place(tree: Tree, options: ScanOptions) -> Node:
    """Return the tree as Zarr would have it in the very same place: axes and keys as N5 has them, no references."""
    if isinstance(tree, UnlistedTree):
        raise UnsupportedError(
            "HTTP is read-only; write a manifest, or index in place where it is stored", url=tree.url
        )
    if options.stack_timepoints:
        raise UnsupportedError("timepoints cannot be stacked in place; write a manifest", field="stack_timepoints")
    return _root(tree, options, Frame(in_place=True))[0]


def _root(tree: Tree, options: ScanOptions, frame: Frame) -> tuple[Node, Mapping[str, Validators]]:
    """Return what stands at the root, a group, or in place a dataset if that is all; and each document's state."""
    blocks_of: Callable[[str, N5Dataset], Blocks | GeneratedBlocks]
    if isinstance(tree, UnlistedTree):
        nodes = find_nodes(tree)
        blocks_of = partial(GeneratedBlocks, tree, Budget(tree.bytes_read, tree.url))
        states = {path: tree.states[document_key(path)] for path in nodes}
    else:
        keys = TreeKeys()
        for page in tree.pages():
            keys.add(*page)
        nodes, blocks_of, states = read_nodes(tree, keys), partial(Blocks, tree, keys), keys.documents
    check_version(nodes.get("", {}))
    paths = [path for path, attributes in nodes.items() if is_dataset(attributes)]
    if not options.overviews:
        paths = [path for path in paths if not is_overview(path)]
    transforms = cosem_transforms(nodes)

    def volume(path: str) -> Volume:
        if path.count("/") >= DEEPEST:
            raise UnsupportedError(f"a data set {path.count('/') + 1} folders deep; {DEEPEST} are read", field="path")
        dataset = parse_dataset(nodes[path])
        place = place_of(path, len(dataset.dimensions), nodes, transforms)
        return Volume(path, dataset, place, _array(dataset, place, blocks_of(path, dataset), options, frame))

    volumes = {readable.path: readable for readable in _readable(tree, paths, volume)}
    return _node("", _names_below(volumes, tree.url), volumes, nodes, frame), states


def _array(
    dataset: N5Dataset, place: Place, blocks: Blocks | GeneratedBlocks, options: ScanOptions, frame: Frame
) -> VirtualArray:
    chain = blocks.chain(chain_of(options.chain), "proposal" if frame.in_place else options.codecs)
    if chain == Chain.N5_DEFAULT and not options.allow_odd_blocks and isinstance(blocks, Blocks):
        blocks.refuse_odd(each=frame.in_place)  # in place nothing else knows where a block stands
    names, turned, scale = frame.turned(place.names), frame.turned, place.scale
    if frame.in_place:
        refs: References = ChunkRefs.empty(blocks.chunks)
    else:
        refs = blocks.refs(versions=options.object_versions, is_behind=chain == Chain.BEHIND)
    return VirtualArray(
        turned(dataset.dimensions),
        dataset.dtype,
        turned(dataset.block_size),
        codecs(
            dataset,
            chain,
            blocks.framing(),
            in_c_order=not frame.in_place,
            odd_blocks=options.allow_odd_blocks,
        ),
        refs,
        names,
        0,
        axis_attributes(
            names, turned(place.units), None if scale is None else turned(scale), turned(place.translation)
        ),
    )


def _readable(tree: Tree, paths: Sequence[str], read: Callable[[str], Volume]) -> list[Volume]:
    """Return the datasets; in a container those that cannot be read are left out, each with a warning."""
    if not paths:
        raise MalformedError("an N5 container without a dataset", url=tree.url, field="dimensions")
    volumes = []
    for path in paths:
        try:
            volumes.append(read(path))
        except UnsupportedError as error:
            error.at(url=tree.url + document_key(path))
            if len(paths) == 1:
                raise
            warnings.warn(f"left out: {error}", stacklevel=2)
        except JnrrdzError as error:
            raise error.at(url=tree.url + document_key(path)) from error.__cause__
    if not volumes:
        raise UnsupportedError("no dataset of a kind that is read", url=tree.url, field="dataType")
    return volumes


# The tree of groups


def _names_below(volumes: Mapping[str, Volume], url: str) -> Mapping[str, set[str]]:
    """Return the names in each folder that leads to a dataset; a dataset in a dataset is refused."""
    below: dict[str, set[str]] = {"": set()}
    for path in volumes:
        parts = path.split("/") if path else []
        for depth, part in enumerate(parts):
            parent = "/".join(parts[:depth])
            below.setdefault(parent, set()).add(part)
            if parent in volumes:
                raise UnsupportedError("a dataset in a dataset", url=url + path, field="dimensions")
    return below


def _node(path: str, below: Mapping[str, set[str]], volumes: Mapping[str, Volume], nodes: Nodes, frame: Frame) -> Node:
    """Return what stands at a path."""
    attributes = {"n5": nodes[path]} if path in nodes and not frame.in_place else {}
    if path in volumes:
        array = volumes[path].array
        return array if frame.in_place else VirtualGroup({VARIABLE: array}, attributes)
    prefix = f"{path}/" if path else ""
    datasets = {name: volumes[prefix + name] for name in below[path] if prefix + name in volumes}
    levels = levels_of(datasets, nodes.get(path, {}))
    names = [level.name for level in levels]
    names += sorted(below[path] - set(names))
    children = {name: _node(prefix + name, below, volumes, nodes, frame) for name in names}
    return VirtualGroup(children, attributes | _multiscales(path.rpartition("/")[2], levels, frame))


def levels_of(datasets: Mapping[str, Volume], attributes: Attributes) -> list[Volume]:
    """Return the levels of an image among a folder's datasets, finest first; none where they are no levels."""
    listed = [str(entry.get("path")) for entry in cosem_levels(attributes)]
    names = [name for name in listed if name in datasets]
    if not names:
        names = sorted(filter(LEVEL.fullmatch, datasets), key=lambda name: int(name[1:]))
    levels = [datasets[name] for name in names]
    if not levels or any(level.array.dimension_names != levels[0].array.dimension_names for level in levels):
        return []
    is_marked = bool({"multiScale", "multiscales", "downsamplingFactors", "scales"} & set(attributes))
    return levels if is_marked or len(levels) > 1 else []


def _multiscales(name: str, volumes: Sequence[Volume], frame: Frame) -> dict[str, Any]:
    """Return the attributes of a group of levels."""
    if not volumes:
        return {}
    finest, turned = volumes[0], frame.turned
    levels = [
        VolumeLevel(
            volume.name,
            "" if frame.in_place else VARIABLE,
            turned(_factors(volume, finest)),
            None if volume.place.scale is None else turned(volume.place.scale),
            turned(volume.place.translation),
        )
        for volume in volumes
    ]
    return level_attributes(name, turned(finest.place.names), turned(finest.place.units), levels)


def _factors(volume: Volume, finest: Volume) -> tuple[float, ...]:
    """Return how much coarser a level is: as the file says, else as its steps or sizes say."""
    own, base = volume.place, finest.place
    if own.factors is not None and base.factors is not None:
        return tuple(a / b for a, b in zip(own.factors, base.factors, strict=True))
    if own.factors is not None:
        return own.factors
    if own.scale is not None and base.scale is not None:
        return tuple(a / b for a, b in zip(own.scale, base.scale, strict=True))
    sizes = zip(finest.dataset.dimensions, volume.dataset.dimensions, strict=True)
    return tuple(full / size if size else 1.0 for full, size in sizes)


# BigDataViewer's timepoints

_TIMEPOINT = re.compile(r"timepoint(\d+)")
TIME = "t"
MOST_TIMEPOINTS = 1 << 20

type Arrays = dict[str, VirtualArray]


def stack_timepoints(root: VirtualGroup, url: str) -> VirtualGroup:
    """Return the tree with the timepoints of every setup as one array; one that is missing reads as the fill value."""
    children = {
        name: stack_timepoints(child, f"{url}{name}/") if isinstance(child, VirtualGroup) else child
        for name, child in root.children.items()
    }
    times = {int(match[1]): name for name in children if (match := _TIMEPOINT.fullmatch(name))}
    if not times:
        return VirtualGroup(children, root.attributes)
    groups = {time: children.pop(name) for time, name in sorted(times.items())}
    if max(groups) >= MOST_TIMEPOINTS:
        raise UnrepresentableError(f"timepoint {max(groups)}; up to {MOST_TIMEPOINTS} are stacked", url=url)
    arrays = {time: dict(group.arrays()) for time, group in groups.items() if isinstance(group, VirtualGroup)}
    first = groups[min(groups)]
    if not isinstance(first, VirtualGroup) or not arrays:
        return root
    stacks = {path: _stack(path, arrays, url) for path in arrays[min(arrays)]}
    inner = first.with_arrays(lambda path, _: stacks[path])
    attributes = {name: value for name, value in inner.attributes.items() if name != "n5"}
    return VirtualGroup({**inner.children, **children}, {**root.attributes, **_with_time(attributes)})


def _stack(path: str, arrays: Mapping[int, Arrays], url: str) -> VirtualArray:
    """Return one array of those at one path of every timepoint, which agree in all but their blocks."""
    first = arrays[min(arrays)]
    for time, others in arrays.items():
        if set(others) != set(first) or _structure(others[path]) != _structure(first[path]):
            raise UnrepresentableError(
                f"timepoint {time} has other levels, shapes, types or chains than the first; "
                "index without --stack-timepoints",
                url=url,
                field=path,
            )
    array, times = first[path], range(max(arrays) + 1)
    # plain elements lie the same with one axis more; `n5_default` has as many as the block, so the new one is dropped
    turned = [spec for spec in array.codecs if spec.name == codec.TRANSPOSE]
    longer = [
        CodecSpec(spec.name, {"order": [0, *(axis + 1 for axis in spec.configuration["order"])]}) for spec in turned
    ]
    is_block = any(spec.name == N5_DEFAULT for spec in array.codecs)
    dropped = [codec.ReshapeConfig.dropping(1, len(array.shape))] if is_block else []
    return replace(
        array,
        shape=(len(times), *array.shape),
        chunks=(1, *array.chunks),
        codecs=(*longer, *dropped, *array.codecs[len(turned) :]),
        refs=_stacked_refs({time: group[path].refs for time, group in arrays.items()}, len(times)),
        dimension_names=(TIME, *array.dimension_names),
    )


def _stacked_refs(parts: Mapping[int, References], times: int) -> References:
    """Return the blocks of all timepoints, those of each one after those of the one before it."""
    chunks = parts[min(parts)].chunks
    numbers = np.concatenate([time * chunks + parts[time].present for time in sorted(parts)])
    stored = [parts[time].stored() for time in sorted(parts)]
    files = GridFiles.joined([refs.sources for refs in stored if isinstance(refs.sources, GridFiles)])
    version = None
    if any(refs.version is not None for refs in stored):
        versions = [np.zeros(len(refs.source), np.int64) if refs.version is None else refs.version for refs in stored]
        version = np.concatenate(versions)
    rows = ChunkRefs(
        files,
        np.arange(len(files) + 1, dtype=np.int64),
        np.arange(len(files), dtype=np.int32),
        np.concatenate([refs.offset for refs in stored]),
        np.concatenate([refs.length for refs in stored]),
        version=version,
    )
    return refs_of_stored(times * chunks, numbers, rows)


def _structure(array: VirtualArray) -> tuple[Any, ...]:
    return array.shape, array.dtype, array.chunks, array.codecs, array.dimension_names, array.attributes


def _with_time(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of levels with one axis more in front."""
    added = {"scale": 1.0, "translation": 0.0}

    def longer(transform: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: [added[name], *value] if name in added and isinstance(value, list) else value
            for name, value in transform.items()
        }

    timed = dict(attributes)
    layout = timed.get("multiscales", {}).get("layout", [])
    if layout:
        timed["multiscales"] = {"layout": [entry | {"transform": longer(entry["transform"])} for entry in layout]}
    for image in timed.get("ome", {}).get("multiscales", []):
        image["axes"] = [{"name": TIME, "type": "time"}, *image["axes"]]
        for level in image["datasets"]:
            level["coordinateTransformations"] = list(map(longer, level["coordinateTransformations"]))
    return timed
