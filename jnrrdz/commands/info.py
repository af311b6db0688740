"""What a source or a manifest holds, as one JSON document: docs/info.md explains it, `info.schema.json` checks it.

It says what people ask first: where an image lies, what its bands are, when it was taken, how large a pixel is, which
levels there are.  All of it comes from metadata; no pixel is read.  Attributes that do not have the form that jnrrdz
writes are left out, and no number that JSON has not (NaN, infinity) is written but as text.
"""

import base64
import binascii
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jnrrdz.commands.facts import BANDS, Facts, Inspection, Json, as_object, nitf_header, nitf_places, opened
from jnrrdz.core.arrays import VirtualGroup
from jnrrdz.core.bands import NAMES, OFFSETS, SCALES, UNITS, by_band
from jnrrdz.core.coordinate import coordinate_of, moment, taken
from jnrrdz.core.crs import ground
from jnrrdz.core.hierarchy import HierarchyNode
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.jpeg2000.markers import Marker, Progression, parse_cod, parse_siz, segments
from jnrrdz.manifests.groups import group_from_manifest
from jnrrdz.options import Access, Codecs, PrecinctWindows, ScanOptions, StorageOptions
from jnrrdz.redact import hidden, redacted

TIME = "time"
VERSION = 1
"""Of the schema; members are added without a new one."""


def info(  # noqa: PLR0913  the signature is the documentation
    src: str | os.PathLike[str],
    *,
    attributes: bool = False,
    overviews: bool = True,
    embedded: bool = False,
    expand_palette: bool = False,
    physical: bool = False,
    sidecars: bool = False,
    codecs: Codecs = "auto",
    chain: str | None = None,
    stack_timepoints: bool = False,
    precinct_windows: PrecinctWindows | None = None,
    allow_missing: bool = False,
    allow_odd_blocks: bool = False,
    object_versions: bool = True,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
    source_options: StorageOptions = None,
    template_overrides: Mapping[str, str] | None = None,
) -> Json:
    """Return what a source or manifest holds, as the document that `jnrrdz info --json` prints.

    Parameters
    ----------
    src
        The path or URL of a manifest or of a source.
    attributes
        Add every attribute of every group and array.
    overviews
        Take the smaller versions of an image that the file holds.
    embedded
        Take whole documents that the file carries: colour profile (ICC), XMP, EXIF.
    expand_palette
        Return colours in place of the indices into a palette.
    physical
        Return values after scale, offset and nodata, as floats with NaN, in place of
        those that are stored.
    sidecars
        Read `.tfw`, `.aux.xml`, `.RPB`, `_RPC.TXT`, `.ovr` and `.msk` files next to the
        source.
    codecs
        `auto` takes Zarr's own codecs wherever they are exact, `standard` Zarr's own or
        raises an error that gives the reason, `proposal` those of the format's
        proposal, one family for a whole archive.
    chain
        Codecs for the headers of N5 blocks: `pad`, `offset` or `n5_default`; by default
        those that read them right.
    stack_timepoints
        Stack the timepoints of a BigDataViewer container along an axis `t`.
    precinct_windows
        Cut JPEG 2000 tiles into windows of precincts: large tiles whose packets are
        cheap to find (`auto`, the default), all (`always`), or none (`never`).
    allow_missing
        Read tiles whose files are missing as the fill value.
    allow_odd_blocks
        Accept N5 blocks of another shape than `blockSize`: larger ones are cropped,
        shorter ones padded.
    object_versions
        Record the listed state of each of a container's objects, so that a replaced one
        is noticed; this costs some bytes for each chunk.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the source or the manifest that you name.
    source_options
        fsspec's options for the sources that a manifest names.
    template_overrides
        Values for the templates of a manifest's URLs, by their names: `{"base":
        "s3://bucket/scenes/"}` for `{{base}}a.tif`; by default the manifest's own.
    """
    options = ScanOptions(
        overviews=overviews,
        embedded=embedded,
        expand_palette=expand_palette,
        physical=physical,
        sidecars=sidecars,
        codecs=codecs,
        chain=chain,
        stack_timepoints=stack_timepoints,
        precinct_windows=precinct_windows,
        allow_missing=allow_missing,
        allow_odd_blocks=allow_odd_blocks,
        object_versions=object_versions,
    )
    access = Access(
        allow=allow,
        storage_options=storage_options,
        source_options=source_options,
        template_overrides=template_overrides,
    )
    return summary(opened(os.fspath(src), access, options), attributes=attributes)


def summary(found: Inspection, *, attributes: bool = False) -> Json:
    """Return what was found as JSON has it."""
    facts = Facts(found.manifest)
    arrays = [array_facts(facts, node) for node in facts.arrays()]
    whole: Json = {"version": VERSION, "name": hidden(found.name), "format": found.format}
    if found.requests is not None:
        whole |= {"requests": found.requests, "bytes_read": found.bytes_read}
    sizes = [array["stored_bytes"] for array in arrays]
    images = image_facts(facts)
    _add_places(facts, images)
    whole |= {
        "levels": 1 + max((array["level"] for array in arrays), default=-1),
        "chunks": sum(array["chunks"] for array in arrays),
        "missing": sum(array["missing"] for array in arrays),
        "stored_bytes": None if None in sizes else sum(sizes),
        **_without_none({"nitf": _nitf_file(facts), "date": date_of(images)}),
        "readable_by": [verdict.to_json() for verdict in facts.readers()],
        "images": images,
        "arrays": arrays,
        "sources": [
            {
                "url": hidden(record.url),
                "size": record.size,
                "etag": record.etag,
                "version_id": record.version,
                "last_modified": record.modified,
            }
            for record in found.manifest.sources
        ],
    }
    if attributes:
        whole["attributes"] = {path or "/": node.attributes for path, node in facts.nodes.items() if node.attributes}
    shown: Json = plain(whole)
    return shown


def date_of(images: Sequence[Json]) -> str | None:
    """Return when a file's first image that has a date was taken."""
    return next((image["date"] for image in images if "date" in image), None)


def plain(value: Any) -> Any:
    """Return JSON whose numbers are all JSON's, others as Zarr spells them, and whose texts show no secret of a URL."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    if isinstance(value, str):
        return redacted(value) if "://" in value else value
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _without_none(members: Mapping[str, Any]) -> Json:
    return {name: value for name, value in members.items() if value is not None and value not in ([], {})}


def array_facts(facts: Facts, node: HierarchyNode) -> Json:
    """Return what an array is and what is stored of it."""
    crs, stored = facts.crs(node), facts.stored(node)
    return {
        "path": node.path,
        "level": facts.level(node.path),
        "shape": list(node.shape),
        "data_type": node.data_type,
        "dimension_names": list(node.dimension_names),
        "chunk_shape": list(node.chunk_shape),
        "codecs": node.codecs,
        "crs": None if crs is None else {"code": crs.code, "name": crs.name},
        "nodata": node.nodata,
        "chunks": stored.chunks,
        "missing": stored.missing,
        "stored_bytes": stored.nbytes,
    }


# Images


def image_facts(facts: Facts) -> list[Json]:
    """Return what each image is: where it lies, when it was taken, its bands, its levels."""
    images = facts.hierarchy.images()
    return [_image(facts, [facts.nodes[level.path] for level in image.levels]) for image in images]


def _image(facts: Facts, levels: Sequence[HierarchyNode]) -> Json:
    node = levels[0]
    said = facts.said(node)
    place, comments = _place(facts, node, said), said.get("comments")
    return {
        "path": node.path,
        "shape": list(node.shape),
        "dimension_names": list(node.dimension_names),
        "data_type": node.data_type,
        "levels": [{"path": level.path, "shape": list(level.shape)} for level in levels],
        **_without_none(
            {
                "title": _title(said),
                "date": taken(said),
                "times": _times(facts, node),
                "place": place,
                "bands": _bands(node, said),
                "colours": _colours(said),
                "channels": _channels(said),
                "pixel_size": _pixel_size(node, said),
                "magnification": _number(said.get("magnification")),
                "mask": facts.beside(node, "mask"),
                "jpeg2000": _jpeg2000(node),
                "nitf": _nitf_image(said),
                "n5": as_object(said.get("n5")),
                "metadata": _metadata(said),
                "comments": [one for one in comments if isinstance(one, str)] if isinstance(comments, list) else None,
                "capture_resolution": as_object(said.get("capture_resolution")),
                "display_resolution": as_object(said.get("display_resolution")),
            }
        ),
    }


def _times(facts: Facts, node: HierarchyNode) -> Json | None:
    """Return the first and the last time of an image's axis `time` and how many there are, None where it has none."""
    if TIME not in node.dimension_names:
        return None
    try:
        root = group_from_manifest(facts.manifest, outline=True)
        group = root.at(node.path.rpartition("/")[0])
        coordinate = coordinate_of(group, TIME) if isinstance(group, VirtualGroup) else None
    except JnrrdzError:  # a manifest of another's, whose axis is no numbers
        return None
    if coordinate is None or coordinate.values.dtype.kind != "M" or not len(coordinate.values):
        return None
    times = coordinate.values
    return {"count": len(times), "first": f"{times.min()}Z", "last": f"{times.max()}Z"}


def _number(value: Any) -> float | int | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _numbers(value: Any, count: int) -> list[float] | None:
    found = value if isinstance(value, list | tuple) and len(value) == count else []
    return list(found) if found and all(_number(one) is not None for one in found) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _objects(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _title(said: Json) -> str | None:
    nitf = as_object(said.get("nitf"))
    ome = as_object(said.get("ome"))
    names = [nitf.get("IID2"), nitf.get("ITITLE"), *(one.get("name") for one in _objects(ome.get("multiscales")))]
    found = next((name for name in names if isinstance(name, str) and name.strip()), None)
    return None if found is None else found.strip()


def _place(facts: Facts, node: HierarchyNode, said: Json) -> Json:
    """Return where an image lies: CRS, affine, bounds there and in degrees, control points, the sensor's model."""
    crs, wkt = facts.crs(node), facts.wkt(node)
    place: Json = {}
    affine: list[float] = []
    refused = None
    try:
        affine = facts.affine(node)
    except MalformedError as error:
        refused = str(error)
    if crs is not None:
        place["crs"] = {"code": crs.code, "name": crs.name, "wkt": wkt or None}
    if affine:
        rows, columns = (node.shape[axis] for axis in node.plane)
        a, b, c, d, e, f = affine
        corners = [
            [a * x + b * y + c, d * x + e * y + f] for x, y in ((0, 0), (0, rows), (columns, rows), (columns, 0))
        ]
        xs, ys = zip(*corners, strict=True)
        place |= {"affine": affine, "resolution": [math.hypot(a, d), math.hypot(b, e)]}
        place |= {"bounds": [min(xs), min(ys), max(xs), max(ys)], "corners": corners}
        if crs is not None and (degrees := ground(wkt or crs.code or "", (a, b, c, d, e, f), (rows, columns))):
            place["degrees"] = degrees
    names = ("AREA_OR_POINT", "georeference_refused", "georeference_remark")
    texts = {name.lower(): _text(said.get(name)) for name in names}
    texts["georeference_refused"] = texts["georeference_refused"] or refused
    rpc = as_object(said.get("rpc"))
    return place | _without_none({"control_points": facts.control_points(node), "rpc": rpc, **texts})


def _bands(node: HierarchyNode, said: Json) -> list[Json]:
    """Return what is said of each band, from the first; of one band where an image has no axis of bands."""
    axis = next((axis for axis, name in enumerate(node.dimension_names) if name in BANDS), None)
    count = 1 if axis is None else node.shape[axis]
    lists = {
        "name": NAMES,
        "colour": "colorinterp",
        "scale": SCALES,
        "offset": OFFSETS,
        "unit": UNITS,
        "statistics": "statistics",
        "metadata": "band_metadata",
        "bits": "bits_per_sample",
    }
    listed = by_band(said, count)
    found = {member: listed.get(name) for member, name in lists.items()}
    known = {member: value for member, value in found.items() if isinstance(value, list) and len(value) == count}
    if not known and node.nodata is None:
        return []
    bands = []
    for number in range(count):
        band = {"number": number + 1, "nodata": node.nodata}
        band |= {member: values[number] for member, values in known.items() if values[number] != ""}
        bands.append(_without_none(band))
    return bands


def _colours(said: Json) -> Json:
    table = said.get("color_table")
    return _without_none(
        {
            "photometric": _text(said.get("photometric")),
            "space": said.get("color_space"),
            "table": table if isinstance(table, list) else None,
        }
    )


# Microscopes


def _channels(said: Json) -> list[Json]:
    ome = as_object(said.get("ome"))
    channels = []
    for one in _objects(as_object(ome.get("omero")).get("channels")):
        window = as_object(one.get("window"))
        numbers = {name: value for name, value in window.items() if _number(value) is not None}
        texts = {"name": _text(one.get("label")), "color": _text(one.get("color"))}
        channels.append(_without_none({**texts, "window": numbers}))
    return channels


def _pixel_size(node: HierarchyNode, said: Json) -> Json:
    """Return the distance of neighbours along each axis, and its unit, where an image has a physical scale."""
    axes = as_object(said.get("axes"))
    steps = {
        name: _without_none({"size": meaning.get("step"), "unit": meaning.get("unit")})
        for name, meaning in axes.items()
        if name in node.dimension_names and isinstance(meaning, dict) and _number(meaning.get("step")) is not None
    }
    return steps or _ome_size(as_object(said.get("ome")))


def _ome_size(ome: Json) -> Json:
    """Return the same of OME-Zarr's attributes, whose axes without a unit count elements."""
    for scales in _objects(ome.get("multiscales"))[:1]:
        axes, datasets = _objects(scales.get("axes")), _objects(scales.get("datasets"))
        moves = _objects(datasets[0].get("coordinateTransformations")) if datasets else []
        scale = next((_numbers(move.get("scale"), len(axes)) for move in moves if move.get("type") == "scale"), None)
        return {
            str(axis.get("name")): {"size": size, "unit": axis["unit"]}
            for axis, size in zip(axes, scale or (), strict=False)
            if isinstance(axis.get("unit"), str)
        }
    return {}


# Formats' own


def _jpeg2000(node: HierarchyNode) -> Json | None:
    """Return what the main header in the codec says: tiles, resolutions, order of packets."""
    codec = next((entry for entry in node.codecs if "main_header" in entry.get("configuration", {})), None)
    if codec is None:
        return None
    try:
        header = base64.b64decode(str(codec["configuration"]["main_header"]), validate=True)
        found = {segment.marker: segment.data for segment in segments(header)}
        siz, style = parse_siz(found[Marker.SIZ]), parse_cod(found[Marker.COD])
        order = Progression(style.progression).name
    except (binascii.Error, KeyError, ValueError, JnrrdzError):
        return None
    return {
        "tile_shape": [siz.y.tile, siz.x.tile],
        "tiles": siz.tiles,
        "resolutions": style.levels + 1,
        "progression": order,
        "layers": style.layers,
        "is_reversible": style.reversible,
    }


def _nitf_file(facts: Facts) -> Json | None:
    """Return what a NITF's file header says first."""
    said = facts.nodes[""].attributes if "" in facts.nodes else {}
    header = said.get("nitf")
    if not isinstance(header, dict) or "FHDR" not in header:
        return None
    security = as_object(said.get("security"))
    version = "".join(str(header.get(name, "")) for name in ("FHDR", "FVER"))
    others = {name: len(_objects(said.get(name))) or None for name in ("graphics", "labels", "texts")}
    return _without_none(
        {
            "version": version,
            "title": header.get("FTITLE"),
            "date": moment(header.get("FDT")),
            "classification": security.get("FSCLAS"),
            "station": header.get("OSTAID"),
            "tres": _tres(said),
            "header": {**header, **security},
            **others,
        }
    )


def _nitf_image(said: Json) -> Json | None:
    """Return what an image segment's header says first, and where it lies among the others."""
    header = said.get("nitf")
    if not isinstance(header, dict) or "NROWS" not in header:
        return None
    security = as_object(said.get("security"))
    place = str(header.get("ILOC", ""))
    digits = (place[:5], place[5:10])
    location = [int(part) for part in digits] if all(re.fullmatch(r"[+-]?\d+", part) for part in digits) else None
    named = {
        "id": "IID1",
        "compression": "IC",
        "representation": "IREP",
        "category": "ICAT",
        "display_level": "IDLVL",
        "attached_to": "IALVL",
        "magnification": "IMAG",
        "source": "ISORCE",
    }
    return _without_none(
        {member: header.get(name) for member, name in named.items()}
        | {"classification": security.get("ISCLAS"), "location": location, "tres": _tres(said)}
        | {"header": {**header, **security}}
    )


def _add_places(facts: Facts, images: Sequence[Json]) -> None:
    """Say where the images of a NITF lie on the plane that they share."""
    headers = {path: nitf_header(node.attributes) for path, node in facts.nodes.items()}
    try:
        places = nitf_places({path: header for path, header in headers.items() if header is not None})
    except (ValueError, TypeError):
        return  # ILOC, IALVL or IDLVL as no NITF has them
    for image in images:
        home = next((path for path in places if image["path"].startswith(f"{path}/")), None)
        if home is not None and "nitf" in image:
            image["nitf"]["place"] = list(places[home])


def _tres(said: Mapping[str, Any]) -> list[str]:
    return [str(one["tag"]) for one in _objects(said.get("tres")) if "tag" in one]


def _metadata(said: Json) -> Json:
    """Return the texts that a file has of itself: items by domain, and tags in the domain without name."""
    domains = as_object(said.get("gdal_metadata"))
    found = {str(name): items for name, items in domains.items() if isinstance(items, dict | str)}
    own = {name: value for name, value in said.items() if name.startswith("TIFFTAG_")}
    first = found.get("", {})
    return _without_none({**found, "": {**own, **(first if isinstance(first, dict) else {})}})
