"""What a source or a manifest holds, as one JSON document: docs/info.md explains it, `info.schema.json` checks it.

It says what people ask first: where an image lies, what its bands are, when it was taken, how large a pixel is, which
levels there are.  All of it comes from metadata; no pixel is read.  Attributes that do not have the form that jnrrdz
writes are left out, and no number that JSON has not (NaN, infinity) is written but as text.
"""

import base64
import binascii
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from jnrrdz.commands.facts import Facts, Inspection, Json, opened
from jnrrdz.core.coordinate import coordinate_along
from jnrrdz.core.describe import Image, crs_at, date_of, file_of
from jnrrdz.core.hierarchy import HierarchyNode
from jnrrdz.core.json_schema import without_empty
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.jpeg2000.markers import Marker, Progression, parse_cod, parse_siz, segments
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
    tile_part_table: str | None = None,
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
    tile_part_table
        A Parquet table on this machine that lists the tile-parts of JPEG 2000 files,
        in place of the walk through a file without TLM.
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
        tile_part_table=tile_part_table,
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


def summary(inspection: Inspection, *, attributes: bool = False) -> Json:
    """Return the document of what was inspected."""
    facts = Facts(inspection.manifest)
    arrays = [array_facts(facts, node) for node in facts.arrays()]
    document: Json = {"version": VERSION, "name": hidden(inspection.name), "format": inspection.format}
    if inspection.requests is not None:
        document |= {"requests": inspection.requests, "bytes_read": inspection.bytes_read}
    sizes = [array["stored_bytes"] for array in arrays]
    images = facts.hierarchy.images()
    file = file_of(facts.hierarchy)
    document |= {
        "levels": 1 + max((array["level"] for array in arrays), default=-1),
        "chunks": sum(array["chunks"] for array in arrays),
        "missing": sum(array["missing"] for array in arrays),
        "stored_bytes": None if None in sizes else sum(sizes),
        **without_empty({"nitf": None if file is None else file.to_json(), "date": date_of(images)}),
        "readable_by": [verdict.to_json() for verdict in facts.readers()],
        "images": [image_json(image) for image in images],
        "arrays": arrays,
        "sources": [
            {
                "url": hidden(record.url),
                "size": record.size,
                "etag": record.etag,
                "version_id": record.version,
                "last_modified": record.modified,
            }
            for record in inspection.manifest.sources
        ],
    }
    if attributes:
        document["attributes"] = {path or "/": node.attributes for path, node in facts.nodes.items() if node.attributes}
    public: Json = plain(document)
    return public


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


def array_facts(facts: Facts, node: HierarchyNode) -> Json:
    """Return what an array is and what is stored of it."""
    crs, stored = crs_at(facts.hierarchy, node), facts.stored(node)
    return {
        "path": node.path,
        "level": facts.level(node.path),
        "shape": list(node.shape),
        "data_type": node.data_type,
        "dimension_names": list(node.dimension_names),
        "chunk_shape": list(node.chunk_shape),
        "codecs": [codec.to_json() for codec in node.codecs],
        "crs": None if crs is None else {"code": crs.code, "name": crs.name},
        "nodata": node.nodata,
        "chunks": stored.chunks,
        "missing": stored.missing,
        "stored_bytes": stored.nbytes,
    }


# Images


MEMBERS = (
    *("path", "shape", "dimension_names", "data_type", "levels", "title", "date", "times"),
    *("place", "bands", "colours", "channels", "pixel_size", "magnification", "mask"),
    *("jpeg2000", "nitf", "n5", "metadata", "comments"),
    *("capture_resolution", "display_resolution"),
)
"""Members of an image in the order of the document."""


def image_json(image: Image) -> Json:
    """Return what an image is: where it is, when it was taken, its bands, its levels."""
    members = image.to_json()
    members |= without_empty({"times": _times(image), "jpeg2000": _jpeg2000(image.finest)})
    return {name: members[name] for name in MEMBERS if name in members}


def _times(image: Image) -> Json | None:
    """Return the first and the last time of an image's axis `time` and how many there are, None where it has none."""
    if TIME not in image.finest.dimension_names:
        return None
    try:
        coordinate = coordinate_along(image, TIME)
    except JnrrdzError:  # a manifest of another's, whose axis is no numbers
        return None
    if coordinate is None or coordinate.values.dtype.kind != "M" or not len(coordinate.values):
        return None
    times = coordinate.values
    return {"count": len(times), "first": f"{times.min()}Z", "last": f"{times.max()}Z"}


# Formats' own


def _jpeg2000(node: HierarchyNode) -> Json | None:
    """Return what the main header in the codec says: tiles, resolutions, order of packets."""
    codec = next((codec for codec in node.codecs if "main_header" in codec.configuration), None)
    if codec is None:
        return None
    try:
        header = base64.b64decode(str(codec.configuration["main_header"]), validate=True)
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
