"""The images of a tree: which one is opened, its levels, its kind, how levels are made.

A scanned tree and the documents of a manifest become the same `ImageTree`, so that every
command gives the same answers.  An image is an array of two axes or more, or the arrays
of several resolutions that a group lists as its levels.
docs/decisions/043-one-choice-of-the-image.md has the rules and their reasons.
"""

import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from jnrrdz.core.arrays import VirtualArray, VirtualGroup
from jnrrdz.errors import ImageChoiceWarning
from jnrrdz.records import record

PLANE = ("y", "x")
MASK = "mask"
"""The array in an image's group that hides its pixels."""

LEAST_AXES = len(PLANE)

LABELS = re.compile(
    r"labels?|masks?|seg(mentation)?s?|ground_?truth|gt|predictions?|annotations?",
    re.IGNORECASE,
)
"""Names of arrays and groups that describe an image and are not the image."""

COMPANIONS = ("coordinates", "bounds", "grid_mapping", "ancillary_variables")
"""Attributes in which an array names others that describe it, as CF has them."""

CLASSES = ("flag_values", "flag_masks", "flag_meanings")
"""Attributes of arrays whose numbers are names of classes, as CF has them."""

LABEL_TYPES = frozenset({"uint32", "uint64"})
"""Types of volumes that hold identifiers: no instrument measures in so many bits."""

SEGMENT = re.compile(r"Segment\d+_.+")
"""Keys of segments in a NRRD of 3D Slicer."""

COLOURS = 3


class ImageKind(StrEnum):
    """What the numbers of an image are."""

    PICTURE = "picture"
    VOLUME = "volume"
    LABELS = "labels"
    """Identifiers or classes: between two of them there is nothing."""
    PALETTE = "palette"
    """Indices into a table of colours."""


LEVEL_METHODS: Mapping[ImageKind, str] = {
    ImageKind.PICTURE: "average",
    ImageKind.VOLUME: "average",
    ImageKind.LABELS: "mode",
    ImageKind.PALETTE: "mode",
}
"""How coarser levels are made where the user names no method."""


@record(eq=False)
class TreeNode:
    """A group or an array, as far as the choice of an image needs it."""

    path: str
    is_array: bool
    attributes: Mapping[str, Any]
    shape: tuple[int, ...] = ()
    dimension_names: tuple[str | None, ...] = ()
    data_type: str = ""
    """Zarr's name, such as `uint16`."""

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
    def plane_shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.plane
        return self.shape[rows], self.shape[columns]

    @property
    def plane_size(self) -> int:
        """Pixels of a plane."""
        rows, columns = self.plane_shape
        return rows * columns


@record(eq=False)
class Image:
    """An image with its levels."""

    levels: tuple[TreeNode, ...]
    """Its array at each resolution, the finest first."""
    kind: ImageKind

    @property
    def finest(self) -> TreeNode:
        """The array of the full resolution."""
        return self.levels[0]

    @property
    def level_method(self) -> str:
        """How coarser levels are made where the user names no method."""
        return LEVEL_METHODS[self.kind]


SAID: set[str] = set()
"""Texts that this process has warned with."""

SHOWN = 5


class Choice(NamedTuple):
    """The group that is opened where none is named, and the images that are not."""

    path: str
    others: tuple[str, ...] = ()
    is_empty: bool = False
    """Whether the group holds no image."""

    def warn(self, skipped: tuple[str, ...] = ()) -> None:
        """Warn of what was not opened; `skipped` are folders of code that users call.

        A text is given once a process, and names no file: else a loop over a thousand
        files would repeat it.  (Python's own rule forgets what it gave, for xarray
        changes the filters of warnings while it opens.)
        """
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
        if text in SAID:
            return
        SAID.add(text)
        warnings.warn(text, ImageChoiceWarning, skip_file_prefixes=skipped)


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


class ImageTree:
    """Groups and arrays by their paths, parents before children; the root's is empty."""

    def __init__(self, nodes: Iterable[TreeNode]) -> None:
        self.nodes = {node.path: node for node in nodes}
        self._children: dict[str, list[TreeNode]] = defaultdict(list)
        for path, node in self.nodes.items():
            if path:
                self._children[node.parent].append(node)

    @classmethod
    def of_documents(cls, documents: Mapping[str, Mapping[str, Any]]) -> "ImageTree":
        """Return the tree of the parsed documents of a manifest, by their paths."""
        return cls(_node_of(path, document) for path, document in documents.items())

    @classmethod
    def of_group(cls, root: VirtualGroup) -> "ImageTree":
        """Return the tree of what was scanned."""
        nodes = [TreeNode("", is_array=False, attributes=root.attributes)]
        for path, node in root.walk():
            if isinstance(node, VirtualArray):
                shape, names = node.shape, node.dimension_names
                about: dict[str, Any] = {"is_array": True, "data_type": node.dtype.name}
                about |= {"shape": shape, "dimension_names": names}
            else:
                about = {"is_array": False}
            nodes.append(TreeNode(path, attributes=node.attributes, **about))
        return cls(nodes)

    def children(self, path: str) -> list[TreeNode]:
        """Return the nodes right below a group."""
        return self._children.get(path, [])

    # Which image

    def choice(self, top: str = "") -> Choice:
        """Return which group is opened of those at and below one.

        That is the finest level of the first image; labels come after all others.
        """
        path, others = top, list[str]()
        while True:
            children = self.children(path)
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

    def _level_nodes(self, path: str) -> list[TreeNode]:
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

    def images_in(self, group: str) -> list[TreeNode]:
        """Return the arrays of a group that can be its image, the likeliest first.

        That is the one of the most axes, then of the largest plane, then the first.  A
        mask, labels, and arrays that another one names (coordinates, bounds) are none,
        unless the group holds nothing else.
        """
        arrays = [node for node in self.children(group) if node.is_image]
        named = self._companions(group)
        own = [node for node in arrays if node.name not in named and not LABELS.fullmatch(node.name)]
        return sorted(own or arrays, key=lambda node: (-len(node.shape), -node.plane_size))

    def _companions(self, group: str) -> set[str]:
        """Return the names that arrays of a group give of others in it."""
        names: set[str] = set()
        for node in self.children(group):
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
        images = [Image(nodes, self.kind(nodes[0].path)) for nodes in self._grouped()]
        chosen = self.choice().path

        def rank(image: Image) -> tuple[bool, bool]:
            path = image.finest.path
            return image.finest.parent != chosen, any(map(is_annotation, _above(path)))

        return sorted(images, key=rank)

    def _grouped(self) -> Iterator[tuple[TreeNode, ...]]:
        by_image: dict[tuple[str, str], list[TreeNode]] = defaultdict(list)
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

    def levels(self, path: str) -> tuple[TreeNode, ...]:
        """Return the array at a path at all its resolutions, the finest first."""
        return next(
            (nodes for nodes in self._grouped() if self.nodes[path] in nodes),
            (self.nodes[path],),
        )

    # What its numbers are

    def kind(self, path: str) -> ImageKind:
        """Return what the numbers of an array are, by its metadata and its type."""
        node = self.nodes[path]
        is_ramp = _is_grey_ramp(node.attributes.get("color_table"))
        if not is_ramp and _has_palette(node.attributes):
            return ImageKind.PALETTE
        is_volume = {"z", *PLANE} <= set(node.dimension_names)
        if self._is_labels(node, is_ramp=is_ramp, is_volume=is_volume):
            return ImageKind.LABELS
        return ImageKind.VOLUME if is_volume else ImageKind.PICTURE

    def level_method(self, path: str) -> str:
        """Return how coarser levels of an array are made where no method is named."""
        return LEVEL_METHODS[self.kind(path)]

    def _is_labels(self, node: TreeNode, *, is_ramp: bool, is_volume: bool) -> bool:
        attributes = node.attributes
        if any(name in attributes for name in CLASSES) and not is_ramp:
            return True
        if is_thematic(attributes):
            return True
        if not node.data_type.startswith(("int", "uint", "bool")):
            return False
        is_plain = is_volume and len(node.shape) == len(("z", *PLANE))
        if is_plain and node.data_type in LABEL_TYPES:
            return True
        above = _above(node.path)
        if any(map(is_annotation, above)):
            return True
        holders = [self.nodes[at].attributes for at in above if at in self.nodes]
        return any(_is_ome_label(one) or _is_segmentation(one) for one in holders)


def _above(path: str) -> list[str]:
    """Return a path and those of all groups above it; the root's is empty."""
    paths = [path]
    while paths[-1]:
        paths.append(paths[-1].rpartition("/")[0])
    return paths


def _node_of(path: str, document: Mapping[str, Any]) -> TreeNode:
    attributes = document.get("attributes")
    attributes = attributes if isinstance(attributes, Mapping) else {}
    if document.get("node_type") != "array":
        return TreeNode(path, is_array=False, attributes=attributes)
    shape, names = tuple(document["shape"]), document.get("dimension_names")
    if not isinstance(names, list | tuple) or len(names) != len(shape):
        names = [None] * len(shape)
    kind = document.get("data_type")
    kind = kind.get("name") if isinstance(kind, Mapping) else kind
    return TreeNode(
        path,
        is_array=True,
        attributes=attributes,
        shape=shape,
        dimension_names=tuple(name if isinstance(name, str) else None for name in names),
        data_type=str(kind),
    )


def is_annotation(path: str) -> bool:
    """Whether the name of an array or a group is one of labels."""
    return LABELS.fullmatch(path.rpartition("/")[2]) is not None


def _holds_any(group: str, paths: Iterable[str]) -> bool:
    return any(path == group or path.startswith(f"{group}/") for path in paths)


def _has_palette(attributes: Mapping[str, Any]) -> bool:
    table = attributes.get("color_table")
    return isinstance(table, list | tuple) or attributes.get("colorinterp") == ["palette"]


def _is_grey_ramp(table: Any) -> bool:
    """Whether a table of colours is brightness in even steps: it names no classes.

    TIFF's MINISWHITE and look-up tables of NITF are tables too.  Two colours are none.
    """
    if not isinstance(table, list | tuple) or len(table) <= LEAST_AXES:
        return False
    greys = []
    for entry in table:
        if not isinstance(entry, list | tuple) or len(entry) < COLOURS:
            return False
        red, green, blue = entry[:COLOURS]
        if not isinstance(red, int) or not red == green == blue:
            return False
        greys.append(red)
    steps = [after - before for before, after in pairwise(greys)]
    return max(steps) - min(steps) <= 1 and bool(min(steps) > 0 or max(steps) < 0)


def is_thematic(attributes: Mapping[str, Any]) -> bool:
    """Whether GDAL's metadata of all bands call them thematic: numbers are classes."""
    bands = attributes.get("band_metadata")
    if not isinstance(bands, list | tuple) or not bands:
        return False
    domains = [band.get("") if isinstance(band, Mapping) else None for band in bands]
    items = [domain if isinstance(domain, Mapping) else {} for domain in domains]
    return all(str(one.get("LAYER_TYPE")).lower() == "thematic" for one in items)


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
