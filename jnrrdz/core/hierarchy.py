"""What a dataset holds: groups and arrays by their paths, and the images among them.

A scanned tree and the documents of a manifest become the same `Hierarchy`, so that every
command gives the same answers: which image is opened, its levels, its kind, how levels
are made.  An image is an array of two axes or more, or the arrays of several resolutions
that a group lists as its levels.
docs/decisions/043-one-choice-of-the-image.md has the rules of images and their reasons,
docs/decisions/057-one-hierarchy.md those of the hierarchy.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.bands import has_classes, has_palette, is_grey_ramp
from jnrrdz.core.configuration import Codec, CodecSpec
from jnrrdz.core.describe import LEVEL_METHODS, MASK, Image, ImageKind
from jnrrdz.core.refs import References
from jnrrdz.core.segments import segment_places
from jnrrdz.core.zarr_json import (
    DATA_TYPES,
    ZARR_JSON,
    array_from_json,
    encode_fill,
    missing_value,
)
from jnrrdz.errors import ImageChoiceWarning, JnrrdzError, MalformedError, warn_once
from jnrrdz.records import record

PLANE = ("y", "x")
LEAST_AXES = len(PLANE)

LABELS = re.compile(
    r"labels?|masks?|seg(mentation)?s?|ground_?truth|gt|predictions?|annotations?",
    re.IGNORECASE,
)
"""Names of arrays and groups that describe an image and are not the image."""

COMPANIONS = ("coordinates", "bounds", "grid_mapping", "ancillary_variables")
"""Attributes in which an array names others that describe it, as CF has them."""

LABEL_TYPES = frozenset({"uint32", "uint64"})
"""Types of volumes that hold identifiers: no instrument measures in so many bits."""

SEGMENT = re.compile(r"Segment\d+_.+")
"""Keys of segments in a NRRD of 3D Slicer."""


@record(eq=False)
class HierarchyNode:
    """A group or an array: its metadata, and where an array's chunks are.

    The members of arrays are those of Zarr's documents, and empty for groups.
    """

    path: str
    is_array: bool
    attributes: Mapping[str, Any]
    shape: tuple[int, ...] = ()
    dimension_names: tuple[str | None, ...] = ()
    data_type: str = ""
    """Zarr's name, such as `uint16`."""
    chunk_shape: tuple[int, ...] = ()
    refs: References | None = None
    """None for groups, and for arrays whose chunks are computed."""
    origin: VirtualArray | Mapping[str, Any] | None = None
    """What an array was made of: one that was scanned, or a document."""

    @classmethod
    def of_array(cls, path: str, array: VirtualArray) -> "HierarchyNode":
        """Return the node of an array that was scanned."""
        return cls(
            path,
            is_array=True,
            attributes=array.attributes,
            shape=array.shape,
            dimension_names=array.dimension_names,
            data_type=array.dtype.name,
            chunk_shape=array.chunks,
            refs=array.refs,
            origin=array,
        )

    @classmethod
    def of_document(cls, path: str, document: Mapping[str, Any], refs: References | None = None) -> "HierarchyNode":
        """Return the node that a document describes."""
        attributes = document.get("attributes")
        if not isinstance(attributes, Mapping):
            attributes = {}
        if document.get("node_type") != "array":
            return cls(path, is_array=False, attributes=attributes)
        shape = tuple(document["shape"])
        names = document.get("dimension_names")
        if not isinstance(names, list | tuple) or len(names) != len(shape):
            names = [None] * len(shape)
        data_type = document.get("data_type")
        if isinstance(data_type, Mapping):
            data_type = data_type.get("name")
        return cls(
            path,
            is_array=True,
            attributes=attributes,
            shape=shape,
            dimension_names=tuple(name if isinstance(name, str) else None for name in names),
            data_type=str(data_type),
            chunk_shape=_chunk_shape(document),
            refs=refs,
            origin=document,
        )

    @cached_property
    def array(self) -> VirtualArray:
        """The array with its facts typed: type, fill value, codecs as records.

        Documents of others may describe what no virtual array can be: an error names
        the field.
        """
        if isinstance(self.origin, VirtualArray):
            return self.origin
        field = f"{self.path}/{ZARR_JSON}".lstrip("/")
        if self.origin is None:
            raise MalformedError("a group, where an array is needed", field=field)
        try:
            return array_from_json(self.origin, self.refs)
        except JnrrdzError as error:
            raise error.at(field=field) from error.__cause__

    @cached_property
    def codecs(self) -> tuple[Codec, ...]:
        """The codecs, also of an array whose type no virtual array can have."""
        if isinstance(self.origin, VirtualArray):
            return self.origin.codecs
        entries = None if self.origin is None else self.origin.get("codecs")
        try:
            return tuple(map(CodecSpec.from_json, entries or [None]))
        except (MalformedError, TypeError):
            field = f"{self.path}/{ZARR_JSON}, codecs".lstrip("/")
            raise MalformedError("no list of codecs with names", field=field) from None

    @property
    def nodata(self) -> Any:
        """The value of missing pixels as JSON has it, None where there is none."""
        if self.data_type not in DATA_TYPES:
            return self.attributes.get("_FillValue")
        dtype = np.dtype(self.data_type)
        try:
            missing = missing_value(self.attributes, dtype)
        except MalformedError:
            return None
        if missing is None:
            return self.attributes.get("nodata")
        return encode_fill(missing, dtype)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> str:
        """The path of the group that holds it."""
        return self.path.rpartition("/")[0]

    @property
    def is_image(self) -> bool:
        """Whether it is an array with a plane."""
        return self.is_array and len(self.shape) >= LEAST_AXES

    @property
    def plane(self) -> tuple[int, int]:
        """The axes of rows and columns: the last two where none are called y and x."""
        names = self.dimension_names
        if set(PLANE) <= set(names):
            return names.index("y"), names.index("x")
        return len(self.shape) - 2, len(self.shape) - 1

    @property
    def axis_names(self) -> list[str]:
        """A name for every axis; the last two are rows and columns where none is named."""
        if None not in self.dimension_names:
            return [str(name) for name in self.dimension_names]
        others = len(self.shape) - LEAST_AXES
        return [*(f"axis_{number}" for number in range(others)), *PLANE]

    @property
    def plane_shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.plane
        return self.shape[rows], self.shape[columns]

    @property
    def plane_size(self) -> int:
        """Pixels of a plane."""
        rows, columns = self.plane_shape
        return rows * columns


SHOWN = 5


class Choice(NamedTuple):
    """The group that is opened where none is named, and the images that are not."""

    path: str
    others: tuple[str, ...] = ()
    is_empty: bool = False
    """Whether the group holds no image."""

    def warn(self, skipped: tuple[str, ...] = ()) -> None:
        """Warn of what was not opened, once a process; `skipped` are folders of code that users call."""
        if self.others:
            more = ", ..." if len(self.others) > SHOWN else ""
            some = ", ".join(self.others[:SHOWN]) + more
            text = (
                f"{self.path} is opened, one image of {len(self.others) + 1}; "
                f"the others are {some}. "
                f"group={self.others[0]!r} opens another, open_datatree opens all"
            )
        elif self.is_empty:
            text = f"the group {self.path or '/'} holds no image"
        else:
            return
        warn_once(text, ImageChoiceWarning, skipped)


def level_paths(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the paths of the levels that a group lists, below it and finest first.

    The list is `multiscales` of the Zarr convention, or OME-Zarr's of one image.  A list
    of any other form is another convention's, and ignored as a whole.
    """
    scales = attributes.get("multiscales")
    if isinstance(scales, Mapping):
        return _texts(scales.get("layout"), "asset")
    ome = attributes.get("ome")
    images = ome.get("multiscales") if isinstance(ome, Mapping) else scales
    if not isinstance(images, list | tuple) or len(images) != 1:
        return ()
    (image,) = images
    return _texts(image.get("datasets"), "path") if isinstance(image, Mapping) else ()


def _texts(entries: Any, member: str) -> tuple[str, ...]:
    """Return one member of each entry; nothing where one of them is no such entry."""
    if not isinstance(entries, list | tuple):
        return ()
    texts: dict[str, None] = {}
    for entry in entries:
        text = entry.get(member) if isinstance(entry, Mapping) else None
        if not isinstance(text, str):
            return ()
        texts[text.strip("/")] = None
    return tuple(texts)


class _Level(NamedTuple):
    """Where an array or a group stands among the levels of an image."""

    home: str
    """The group that lists the levels."""
    number: int


class Hierarchy:
    """Groups and arrays by their paths, parents before children; the root's is empty.

    Those of a manifest's documents are typed where somebody asks for `HierarchyNode.array`;
    what was scanned is a `tree.VirtualGroup`, whose arrays are typed from the start.
    """

    def __init__(self, nodes: Iterable[HierarchyNode]) -> None:
        self._nodes = tuple(nodes)

    def _listed(self) -> Iterable[HierarchyNode]:
        """Return the nodes, parents before children."""
        return self._nodes

    @cached_property
    def nodes(self) -> Mapping[str, HierarchyNode]:
        """The nodes by their paths."""
        return {node.path: node for node in self._listed()}

    @cached_property
    def _members(self) -> Mapping[str, list[HierarchyNode]]:
        """The nodes right below each group, by the group's path."""
        members: dict[str, list[HierarchyNode]] = defaultdict(list)
        for path, node in self.nodes.items():
            if path:
                members[node.parent].append(node)
        return members

    @classmethod
    def of_documents(
        cls,
        documents: Mapping[str, Mapping[str, Any]],
        arrays: Mapping[str, References] | None = None,
    ) -> "Hierarchy":
        """Return the hierarchy of parsed documents by path, with the arrays' references."""
        refs = arrays or {}
        return cls(HierarchyNode.of_document(path, document, refs.get(path)) for path, document in documents.items())

    def members(self, path: str) -> list[HierarchyNode]:
        """Return the nodes right below a group."""
        return self._members.get(path, [])

    # Attributes of others that describe a node

    def inherited(self, node: HierarchyNode) -> dict[str, Any]:
        """Return the attributes of a node and of the groups above it: the nearest one counts."""
        attributes: dict[str, Any] = {}
        for path in reversed(paths_above(node.path)):
            if path in self.nodes:
                attributes |= self.nodes[path].attributes
        return attributes

    def group_attributes(self, node: HierarchyNode) -> Mapping[str, Any]:
        """Return the attributes of the group that holds a node."""
        group = self.nodes.get(node.parent)
        return {} if group is None else group.attributes

    def sibling(self, node: HierarchyNode, name: str) -> HierarchyNode | None:
        """Return a node of the same group, None where there is none."""
        return self.nodes.get(f"{node.parent}/{name}".lstrip("/"))

    def grid_mapping(self, node: HierarchyNode) -> Mapping[str, Any]:
        """Return the attributes of an array's grid mapping."""
        mapping = self.sibling(node, str(node.attributes.get("grid_mapping")))
        return {} if mapping is None else mapping.attributes

    @cached_property
    def segment_places(self) -> dict[str, tuple[int, int]]:
        """Row and column of a NITF's images on the plane that they share, the lowest first."""
        return segment_places({path: node.attributes for path, node in self.nodes.items()})

    def no_such_group(self, path: str, url: str) -> JnrrdzError:
        """Return the error for a group that is not there: it names those that are."""
        # whoever names a group that is there needs none
        from difflib import get_close_matches  # noqa: PLC0415

        groups = [at for at, node in self.nodes.items() if at and not node.is_array]
        if not groups:
            message = "no such group; the file has no groups, so name none"
            return JnrrdzError(message, url=url, field=path or "/")
        near = get_close_matches(path, groups, 3) or groups
        more = f" and {len(near) - SHOWN} more" if len(near) > SHOWN else ""
        verb = "is" if len(near) == 1 else "are"
        message = f"no such group; there {verb} {', '.join(near[:SHOWN])}{more}"
        return JnrrdzError(message, url=url, field=path or "/")

    # Which image

    def choice(self, top: str = "") -> Choice:
        """Return which group is opened of those at and below one.

        That is the finest level of the first image; labels come after all others.
        """
        path, others = top, list[str]()
        while True:
            children = self.members(path)
            groups = [node.path for node in children if not node.is_array and node.path in self._with_images]
            if any(node.is_image for node in children) or not groups:
                is_empty = path not in self._with_images
                return Choice(path, tuple(others), is_empty)
            listed = [at for at in self._listed_groups(path) if at in self._with_images]
            ranked = sorted(groups, key=is_annotation)
            chosen = listed[0] if listed else ranked[0]
            others += [at for at in ranked if not _holds_any(at, [chosen, *listed])]
            path = chosen

    def _listed_groups(self, path: str) -> list[str]:
        """Return the groups of the levels that a group lists, finest first."""
        groups = []
        for level in self._level_nodes(path):
            group = level.parent if level.is_array else level.path
            if group != path and group not in groups:
                groups.append(group)
        return groups

    def _level_nodes(self, path: str) -> list[HierarchyNode]:
        node = self.nodes.get(path)
        if node is None or node.is_array:
            return []
        below = (f"{path}/{level}".lstrip("/") for level in level_paths(node.attributes))
        return [self.nodes[at] for at in below if at in self.nodes and at != path]

    @cached_property
    def _with_images(self) -> set[str]:
        """The groups that hold an image, at whatever depth."""
        groups: set[str] = set()
        for node in self.nodes.values():
            path = node.path
            while node.is_image and path:
                path = path.rpartition("/")[0]
                groups.add(path)
        return groups

    def images_in(self, group: str) -> list[HierarchyNode]:
        """Return the arrays of a group that can be its image, the likeliest first.

        That is the one of the most axes, then of the largest plane, then the first.  A
        mask, labels, and arrays that another one names (coordinates, bounds) are none,
        unless the group holds nothing else.
        """
        arrays = [node for node in self.members(group) if node.is_image]
        named = self._companions(group)
        own = [node for node in arrays if node.name not in named and not LABELS.fullmatch(node.name)]
        return sorted(own or arrays, key=lambda node: (-len(node.shape), -node.plane_size))

    def _companions(self, group: str) -> set[str]:
        """Return the names that arrays of a group give of others in it."""
        names: set[str] = set()
        for node in self.members(group):
            for member in COMPANIONS if node.is_array else ():
                text = node.attributes.get(member)
                names |= set(text.split()) - {node.name} if isinstance(text, str) else set()
        return names

    # All images, and their levels

    @cached_property
    def _levels(self) -> dict[str, _Level]:
        """Where the nodes stand that groups list as levels."""
        levels: dict[str, _Level] = {}
        for path in self.nodes:
            for number, node in enumerate(self._level_nodes(path)):
                at = node.path
                levels.setdefault(at, _Level(path, number))
                if node.is_array:  # `0/data` in OME-Zarr: the group `0` is the level too
                    above = node.parent
                    if above != path:
                        levels.setdefault(above, _Level(path, number))
        return levels

    def level(self, path: str) -> int:
        """Return which level of an image a node is or belongs to, 0 outside of any."""
        while path and path not in self._levels:
            path = path.rpartition("/")[0]
        return self._levels[path].number if path in self._levels else 0

    def home(self, path: str) -> str:
        """Return the group that lists the levels an array belongs to; else its own."""
        parent = path.rpartition("/")[0]
        for at in (path, parent):
            if at in self._levels:
                return self._levels[at].home
        return parent

    def is_level(self, path: str) -> bool:
        """Whether a group lists this group or array as a level."""
        return path in self._levels

    def images(self) -> list[Image]:
        """Return every image: the chosen one first, labels last; masks are none."""
        images = [Image(self, nodes, self.kind(nodes[0].path)) for nodes in self._grouped()]
        chosen = self.choice().path

        def rank(image: Image) -> tuple[bool, bool]:
            path = image.finest.path
            return image.finest.parent != chosen, any(map(is_annotation, paths_above(path)))

        return sorted(images, key=rank)

    def image_at(self, path: str) -> Image:
        """Return the image of an array, with its coarser levels."""
        levels = self.levels(path)
        finest = levels.index(self.nodes[path])
        return Image(self, levels[finest:], self.kind(path))

    def _grouped(self) -> Iterator[tuple[HierarchyNode, ...]]:
        by_image: dict[tuple[str, str], list[HierarchyNode]] = defaultdict(list)
        for node in self.nodes.values():
            if not node.is_image or node.name == MASK:
                continue
            name = "" if node.path in self._array_levels else node.name
            by_image[self.home(node.path), name].append(node)
        for nodes in by_image.values():
            yield tuple(sorted(nodes, key=lambda node: self.level(node.path)))

    @cached_property
    def _array_levels(self) -> set[str]:
        """Arrays that are levels themselves, right below the group that lists them."""
        return {
            path
            for path, level in self._levels.items()
            if self.nodes[path].is_array and self.nodes[path].parent == level.home
        }

    def levels(self, path: str) -> tuple[HierarchyNode, ...]:
        """Return the array at a path at all its resolutions, the finest first."""
        return next(
            (nodes for nodes in self._grouped() if self.nodes[path] in nodes),
            (self.nodes[path],),
        )

    # What its numbers are

    def kind(self, path: str) -> ImageKind:
        """Return what the numbers of an array are, by its metadata and its type."""
        node = self.nodes[path]
        is_ramp = is_grey_ramp(node.attributes)
        if not is_ramp and has_palette(node.attributes):
            return ImageKind.PALETTE
        is_volume = {"z", *PLANE} <= set(node.dimension_names)
        if self._is_labels(node, is_ramp=is_ramp, is_volume=is_volume):
            return ImageKind.LABELS
        return ImageKind.VOLUME if is_volume else ImageKind.PICTURE

    def level_method(self, path: str) -> str:
        """Return how coarser levels of an array are made where no method is named."""
        return LEVEL_METHODS[self.kind(path)]

    def _is_labels(self, node: HierarchyNode, *, is_ramp: bool, is_volume: bool) -> bool:
        attributes = node.attributes
        if has_classes(attributes, is_ramp=is_ramp):
            return True
        if not node.data_type.startswith(("int", "uint", "bool")):
            return False
        is_plain = is_volume and len(node.shape) == len(("z", *PLANE))
        if is_plain and node.data_type in LABEL_TYPES:
            return True
        above = paths_above(node.path)
        if any(map(is_annotation, above)):
            return True
        holders = [self.nodes[at].attributes for at in above if at in self.nodes]
        return any(_is_ome_label(one) or _is_segmentation(one) for one in holders)


def paths_above(path: str) -> list[str]:
    """Return a path and those of all groups above it; the root's is empty."""
    paths = [path]
    while paths[-1]:
        paths.append(paths[-1].rpartition("/")[0])
    return paths


def _chunk_shape(document: Mapping[str, Any]) -> tuple[int, ...]:
    grid = document.get("chunk_grid")
    configuration = grid.get("configuration") if isinstance(grid, Mapping) else None
    sizes = configuration.get("chunk_shape") if isinstance(configuration, Mapping) else None
    return tuple(sizes) if isinstance(sizes, list | tuple) else ()


def is_annotation(path: str) -> bool:
    """Whether the name of an array or a group is one of labels."""
    return LABELS.fullmatch(path.rpartition("/")[2]) is not None


def _holds_any(group: str, paths: Iterable[str]) -> bool:
    return any(path == group or path.startswith(f"{group}/") for path in paths)


def _is_ome_label(attributes: Mapping[str, Any]) -> bool:
    """Whether a group is a label image of OME-Zarr, of version 0.5 or before."""
    ome = attributes.get("ome")
    members = ome if isinstance(ome, Mapping) else attributes
    return "image-label" in members


def _is_segmentation(attributes: Mapping[str, Any]) -> bool:
    """Whether the key/value pairs of a NRRD describe segments, as 3D Slicer writes them."""
    header = attributes.get("nrrd")
    pairs = header.get("key_values") if isinstance(header, Mapping) else None
    return isinstance(pairs, Mapping) and any(map(SEGMENT.fullmatch, map(str, pairs)))
