"""What a dataset says of its images: where each is, when it was taken, what its bands mean.

Commands and readers ask an `Image`, and none of them looks into attributes itself.  What
is written and read has one module for both directions: places are in `georeference`,
bands and colours in `bands`, axes and channels in `ome`, dates in `coordinate`, the
headers of a NITF in `segments`.  Attributes may come from anywhere: those that do not
have the form that jnrrdz writes are left out.
docs/decisions/058-one-description.md has the reasons.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jnrrdz.core.bands import BAND_AXES, Band, Colours, stated_bands
from jnrrdz.core.georeference import GeoTransform, Place, StatedCrs, geo_transform, stated_crs
from jnrrdz.core.json_schema import as_number, as_object, as_objects, without_empty
from jnrrdz.core.ome import Channel, PixelSize, pixel_size, stated_channels
from jnrrdz.core.segments import NITF, NitfFile, Segment, moment, nitf_file, segment_of
from jnrrdz.records import record

if TYPE_CHECKING:
    from jnrrdz.core.hierarchy import Hierarchy, HierarchyNode

type Json = dict[str, Any]

MASK = "mask"
"""The array in an image's group that hides its pixels."""


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
class Image:
    """An image with its levels; its description is read from attributes where it is asked for."""

    tree: "Hierarchy"
    levels: "tuple[HierarchyNode, ...]"
    """Its array at each resolution, the finest first."""
    kind: ImageKind

    @property
    def finest(self) -> "HierarchyNode":
        """The array of the full resolution."""
        return self.levels[0]

    @property
    def level_method(self) -> str:
        """How coarser levels are made where the user names no method."""
        return LEVEL_METHODS[self.kind]

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes of its finest array and of the groups above it: the nearest one counts."""
        return self.tree.inherited(self.finest)

    # Its axes

    @property
    def axis_names(self) -> list[str]:
        """A name for every axis; the last two are rows and columns where the file names none."""
        return self.finest.axis_names

    @property
    def band_axis(self) -> int | None:
        """The axis of its bands or channels."""
        names = self.finest.dimension_names
        return next((axis for axis, name in enumerate(names) if name in BAND_AXES), None)

    @property
    def band_count(self) -> int:
        """How many bands it has; 1 where it has no axis of them."""
        axis = self.band_axis
        return 1 if axis is None else self.finest.shape[axis]

    # What is said of it

    @property
    def title(self) -> str | None:
        """Its name in the file's own words."""
        nitf = as_object(self.attributes.get(NITF))
        scales = as_objects(as_object(self.attributes.get("ome")).get("multiscales"))
        names = [nitf.get("IID2"), nitf.get("ITITLE"), *(scale.get("name") for scale in scales)]
        titles = (name.strip() for name in names if isinstance(name, str))
        return next(filter(None, titles), None)

    @property
    def date(self) -> str | None:
        """When it was taken, in ISO 8601."""
        return taken(self.attributes)

    @property
    def transform(self) -> GeoTransform | None:
        """The transform of its grid mapping; an error where that is malformed."""
        return geo_transform(self.tree.grid_mapping(self.finest))

    @cached_property
    def place(self) -> Place:
        """Where its pixels are."""
        node = self.finest
        return Place.of_attributes(
            node.plane_shape,
            self.tree.grid_mapping(node),
            node.attributes,
            self.tree.group_attributes(node),
            self.attributes,
        )

    @cached_property
    def bands(self) -> tuple[Band, ...]:
        """What is said of each band; nothing where nothing is."""
        return stated_bands(self.attributes, self.band_count, self.finest.nodata)

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """The channels of a microscope."""
        try:
            return stated_channels(self.attributes)
        except TypeError:
            return ()

    @property
    def colours(self) -> Colours:
        """How its numbers become colours."""
        return Colours.of_attributes(self.attributes)

    @property
    def pixel_size(self) -> PixelSize:
        """The distance of neighbours along each axis, where an image has a physical scale."""
        return pixel_size(self.attributes, self.finest.dimension_names)

    @property
    def mask(self) -> "HierarchyNode | None":
        """The array that hides its pixels."""
        node = self.tree.sibling(self.finest, MASK)
        is_mask = node is not None and node.refs is not None and node is not self.finest
        return node if is_mask else None

    @cached_property
    def segment(self) -> Segment | None:
        """The header of the NITF's image segment that it is."""
        path = self.finest.path
        try:
            places = self.tree.segment_places
        except (ValueError, TypeError):  # ILOC, IALVL or IDLVL as no NITF has them
            places = {}
        home = next((at for at in places if path.startswith(f"{at}/")), None)
        return segment_of(self.attributes, None if home is None else places[home])

    def to_json(self) -> Json:
        """Return the description, as `jnrrdz info` has it."""
        node, attributes = self.finest, self.attributes
        comments = attributes.get("comments")
        texts = comments if isinstance(comments, list) else []
        members = {
            "title": self.title,
            "date": self.date,
            "place": self.place.to_json(),
            "bands": [band.to_json() for band in self.bands],
            "colours": self.colours.to_json(),
            "channels": [channel.to_json() for channel in self.channels],
            "pixel_size": self.pixel_size,
            "magnification": as_number(attributes.get("magnification")),
            "mask": None if self.mask is None else self.mask.path,
            "nitf": None if self.segment is None else self.segment.to_json(),
            "n5": as_object(attributes.get("n5")),
            "metadata": _metadata(attributes),
            "comments": [text for text in texts if isinstance(text, str)],
            "capture_resolution": as_object(attributes.get("capture_resolution")),
            "display_resolution": as_object(attributes.get("display_resolution")),
        }
        return {
            "path": node.path,
            "shape": list(node.shape),
            "dimension_names": list(node.dimension_names),
            "data_type": node.data_type,
            "levels": [{"path": level.path, "shape": list(level.shape)} for level in self.levels],
            **without_empty(members),
        }


def _metadata(attributes: Mapping[str, Any]) -> Json:
    """Return the texts of a file's metadata: items by domain, TIFF's tags in the domain without name."""
    domains = as_object(attributes.get("gdal_metadata"))
    items = {str(name): domain for name, domain in domains.items() if isinstance(domain, dict | str)}
    tags = {name: value for name, value in attributes.items() if name.startswith("TIFFTAG_")}
    unnamed = as_object(items.get(""))
    return without_empty({**items, "": {**tags, **unnamed}})


def crs_at(tree: "Hierarchy", node: "HierarchyNode") -> StatedCrs | None:
    """Return the CRS of an array."""
    return stated_crs(tree.grid_mapping(node), node.attributes, tree.group_attributes(node))


def file_of(tree: "Hierarchy") -> NitfFile | None:
    """Return the file header of a NITF."""
    root = tree.nodes.get("")
    return None if root is None else nitf_file(root.attributes)


def date_of(images: Sequence[Image]) -> str | None:
    """Return when the first image that has a date was taken."""
    return next((image.date for image in images if image.date is not None), None)


def taken(attributes: Mapping[str, Any]) -> str | None:
    """Return when an image was taken by its attributes, None where they do not give it.

    Scanners write it as `datetime`; a NITF's image segment has it in its header.
    """
    text = attributes.get("datetime")
    if isinstance(text, str):
        return text
    header = attributes.get("nitf")
    return moment(header.get("IDATIM")) if isinstance(header, Mapping) else None
