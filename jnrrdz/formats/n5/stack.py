"""BigDataViewer's timepoints put one after another: `setupN/timepointM/sK` to `setupN/sK` with an axis `t`.

May touch errors and the model.  Timepoints have to agree in all but their blocks; one that is missing between
two others reads as the fill value.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jnrrdz.core import codec_n5
from jnrrdz.core.array import Node, VirtualArray, VirtualGroup
from jnrrdz.core.codec import CodecSpec
from jnrrdz.core.refs import ChunkRefs, GridFiles
from jnrrdz.errors import UnrepresentableError

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
