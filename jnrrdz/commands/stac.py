"""A source or a manifest as a STAC item: where and when an image was taken, what its bands are, where its bytes are.

Everything comes from what `jnrrdz info` tells; no pixel is read.  What is not known is left out, but a time, without
which there is no item.  Specs: https://github.com/radiantearth/stac-spec/tree/v1.1.0 and the extensions below;
docs/decisions/035-stac-out.md says why these, and how a manifest stands among the assets.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from jnrrdz.batches.stac import IMAGE, REFERENCES
from jnrrdz.commands.facts import Facts, Inspection, Json, opened
from jnrrdz.commands.info import plain
from jnrrdz.core.arrays import SourceRecord
from jnrrdz.core.bands import Band
from jnrrdz.core.coordinate import METADATA, coordinate_along, parsed, rule_of
from jnrrdz.core.describe import Image, date_of, file_of
from jnrrdz.core.footprint import Footprint, footprint, joined
from jnrrdz.core.georeference import Place
from jnrrdz.core.json_schema import as_object
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError
from jnrrdz.formats import FORMATS
from jnrrdz.formats.products.product import PRODUCT
from jnrrdz.manifests.forms import FORMS
from jnrrdz.manifests.manifest import manifest_form
from jnrrdz.options import Access, Codecs, ItemRules, PrecinctWindows, ScanOptions, StorageOptions
from jnrrdz.redact import bare, is_share_link
from jnrrdz.sources.url import file_url, has_drive, local_path, slashed, without_query

VERSION = "1.1.0"
EXTENSIONS = {
    "eo:": "https://stac-extensions.github.io/eo/v2.0.0/schema.json",
    "file:": "https://stac-extensions.github.io/file/v2.1.0/schema.json",
    "proj:": "https://stac-extensions.github.io/projection/v2.0.0/schema.json",
    "raster:": "https://stac-extensions.github.io/raster/v2.0.0/schema.json",
    "xarray:": "https://stac-extensions.github.io/xarray-assets/v1.0.0/schema.json",
    "cube:": "https://stac-extensions.github.io/datacube/v2.2.0/schema.json",
}
"""By the prefix of their fields: an item names those of which it has some."""

TIME = "time"
TIME_FROM, MODIFIED = "--time-from", "modified"
"""An option, and the rule that takes the time at which a file was changed for that at which its image was taken."""

BAND_FROM = "--band-from"

GEOTIFF = "; application=geotiff"
TIFF = "image/tiff"
NETCDF, NETCDF_ENDINGS = "application/netcdf", (".nc", ".nc4", ".cdf")
DATA_TYPES = {"bool": "other", "complex64": "cfloat32", "complex128": "cfloat64"}
KNOWN_TYPES = re.compile(r"u?int(8|16|32|64)|float(16|32|64)")
NOT_FINITE = {"nan": "nan", "infinity": "inf", "-infinity": "-inf"}
STATISTICS = ("minimum", "maximum", "mean", "stddev", "count", "valid_percent")
COMMON_NAMES = frozenset(
    {
        *("pan", "coastal", "blue", "green", "green05", "yellow", "red"),
        *("rededge", "rededge071", "rededge075", "rededge078", "nir", "nir08", "nir09", "cirrus"),
        *("swir16", "swir22", "lwir", "lwir11", "lwir12"),
    }
)
EPSG = "EPSG:"

DAY = 10
"""Letters of a date without a time, at most."""


@dataclass(frozen=True)
class ItemParts:
    """What one item has of its own."""

    id: str = ""
    """By default the source's name without its ending."""

    key: str = IMAGE
    """The key of the image among the assets."""

    manifest: str = ""
    """The path or URL of the manifest."""

    form: str = ""
    """Its form."""

    told: Mapping[str, Any] | None = None
    """Properties that a STAC item has which names the source."""

    keep_query: Sequence[str] = ()
    """Members of the URLs' queries that stay, as in a manifest."""


def check_rules(rules: ItemRules) -> None:
    """Refuse a rule that is none, before anything is read."""
    if rules.datetime is not None:
        try:
            _stated(rules.datetime)
        except MalformedError as error:
            raise MalformedError(error.message, field="--datetime") from error
    if rules.time_from not in {None, MODIFIED}:
        rule_of(str(rules.time_from), TIME_FROM)
    if rules.band_from is not None:
        rule_of(rules.band_from, BAND_FROM)


def stac_item(  # noqa: PLR0913  the signature is the documentation
    src: str | os.PathLike[str],
    *,
    manifest: str | os.PathLike[str] = "",
    datetime: str | None = None,
    time_from: str | None = None,
    band_from: str | None = None,
    collection: str = "",
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
    """Return a source or manifest as a STAC item.

    Parameters
    ----------
    src
        The path or URL of an image, or of a manifest.
    manifest
        The path or URL of the image's manifest, which becomes an asset; `src` itself does where it is one.
    datetime
        When the images were taken: a time, or two with a slash between them.
    time_from
        Where that is recorded: a regular expression whose one group finds it in the
        source's name, `metadata`, or `modified` for the time at which the file was
        changed; by default a STAC item's properties, else the metadata.
    band_from
        A regular expression whose one group finds, in the source's name, the band of an
        image of one band.
    collection
        The id of the collection that the items belong to; by default the name of the
        folder or file that they are written to.
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
    rules = ItemRules(
        datetime=datetime,
        time_from=time_from,
        band_from=band_from,
        collection=collection,
    )
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
    check_rules(rules)
    name, refs = os.fspath(src), os.fspath(manifest)
    if not refs and manifest_form(name) is not None:
        refs = name
    parts = ItemParts(manifest=refs, form=(manifest_form(refs) or "") if refs else "")
    return item_of(opened(name, access, options), rules, parts, access)


def item_of(found: Inspection, rules: ItemRules, parts: ItemParts, access: Access | None = None) -> Json:
    """Return what was found as a STAC item."""
    try:
        return _item(found, rules, parts, access or Access())
    except JnrrdzError as error:
        raise error.at(url=found.name) from error.__cause__


def _item(found: Inspection, rules: ItemRules, parts: ItemParts, access: Access) -> Json:
    facts = Facts(found.manifest)
    images = facts.hierarchy.images()
    source = _source(found, access)
    name = found.name if source is None else source.url
    last = without_query(name).rstrip("/").rpartition("/")[2]
    timed = next((image for image in images if TIME in image.finest.dimension_names), None)
    when = _asked(rules, name, source)
    if when is None and rules.time_from is None:
        when = _told(parts.told or {})
    properties = when or _shown(facts, images, timed)
    ground = ground_of(images)
    title = next((image.title for image in images if image.title is not None), None)
    properties |= {} if title is None else {"title": title}
    root = facts.hierarchy.nodes[""].attributes
    product = root.get(PRODUCT)
    of_product = product if isinstance(product, Mapping) else {}
    cloud = (parts.told or {}).get("eo:cloud_cover", of_product.get("cloud_cover"))
    if isinstance(cloud, int | float):
        properties["eo:cloud_cover"] = cloud
    places = {str((image.place.to_json(), image.finest.shape[-2:])) for image in images}
    assets: Json = {}
    if len(places) == 1:
        properties |= projection(images[0])
    if source is not None:
        assets[parts.key] = _image_asset(found, source, images, parts.keep_query)
    if parts.manifest:
        assets[REFERENCES] = manifest_asset(parts.manifest, parts.form, keep_query=parts.keep_query)
        if source is None:
            assets[REFERENCES] |= image_bands(images[0]) if len(images) == 1 else {}
            assets[REFERENCES]["roles"] = ["data", *assets[REFERENCES]["roles"]]
    if rules.band_from is not None:
        _name_band(assets, rule_of(rules.band_from, BAND_FROM).text(name, VirtualGroup()))
    if timed is not None:
        properties |= cube_fields(timed)
    for asset in assets.values():  # what stays of a URL is said above, and is more than is shown to people
        asset |= plain({name: value for name, value in asset.items() if name != "href"})  # noqa: PLW2901  in place
    item = {
        "type": "Feature",
        "stac_version": VERSION,
        "stac_extensions": [],
        "id": parts.id or str(of_product.get("id") or "") or last.rpartition(".")[0] or last,
        **({"collection": rules.collection} if rules.collection else {}),
        "geometry": None if ground is None else ground.geometry,
        **({} if ground is None else {"bbox": ground.bbox}),
        "properties": plain(properties),
        "assets": assets,
        "links": [],
    }
    return with_extensions(item)


def _name_band(assets: Json, name: str) -> None:
    """Give a band its name in the assets that have no other."""
    for asset in assets.values():
        if len(asset.get("bands", ())) == 1:
            asset["bands"][0]["name"] = name


def with_extensions(document: Json) -> Json:
    """Return an item or collection that names the extensions whose fields it has."""
    prefixes = {f"{name.partition(':')[0]}:" for name in _names(document)}
    return document | {"stac_extensions": [url for prefix, url in EXTENSIONS.items() if prefix in prefixes]}


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            if ":" in name:
                yield name
            if name != "geometry":
                yield from _names(member)
    elif isinstance(value, list):
        for member in value:
            yield from _names(member)


def _source(found: Inspection, access: Access) -> SourceRecord | None:
    """Return the one source of an image, by its absolute URL; None where it was put together of several."""
    manifest = found.manifest
    own = manifest.documents.own()
    if not manifest.sources or (len(manifest.sources) > 1 and ("concat_dim" in own or "cube" in own)):
        return None
    trust, record = manifest.trust(access.allow), manifest.sources[0]
    return record if trust is None else replace(record, url=trust.resolve(record.url))


# Time


def _asked(rules: ItemRules, name: str, source: SourceRecord | None) -> Json | None:
    """Return when an image was taken by what is asked for; None where its metadata are to tell."""
    if rules.datetime is not None:
        return _stated(rules.datetime)
    if rules.time_from in {None, METADATA}:
        return None
    if rules.time_from != MODIFIED:
        return _instant(rule_of(str(rules.time_from), TIME_FROM).text(name, VirtualGroup()))
    if source is None or source.modified is None:
        raise UnrepresentableError("nothing tells when the file was modified", field="datetime")
    return _instant(source.modified)


def _shown(facts: Facts, images: Sequence[Image], timed: Image | None) -> Json:
    """Return when an image was taken by its axis of times, or its metadata."""
    if timed is not None and (span := span_of(timed)) is not None:
        return span
    file = file_of(facts.hierarchy)
    text = date_of(images) or (None if file is None else file.date)
    if text is None:
        raise UnrepresentableError(
            "the metadata tell no time at which the image was taken, and a STAC item has one; --datetime TIME or "
            f"{TIME_FROM} REGEX tells it, {TIME_FROM} {MODIFIED} takes that of the file",
            field="datetime",
        )
    return _instant(text)


def _told(told: Mapping[str, Any]) -> Json | None:
    """Return the times of a STAC item that names the source."""
    texts = {
        name: value.isoformat() if isinstance(value, datetime) else str(value)
        for name in ("datetime", "start_datetime", "end_datetime")
        if (value := told.get(name)) is not None
    }
    if "datetime" in texts or {"start_datetime", "end_datetime"} <= set(texts):
        return {"datetime": None} | {name: _text(_moment(text)) for name, text in texts.items()}
    return None


def _stated(text: str) -> Json:
    start, slash, end = text.partition("/")
    if not slash:
        return _instant(start)
    last = _instant(end)
    last_moment = last.get("end_datetime", last["datetime"])
    return {"datetime": None, "start_datetime": _instant(start)["datetime"], "end_datetime": last_moment}


def _instant(text: str) -> Json:
    """Return the properties of a time; of a day without one they say that it is a whole day."""
    start = _moment(text)
    if len(text.strip()) > DAY:
        return {"datetime": _text(start)}
    day = _text(start)
    return {"datetime": day, "start_datetime": day, "end_datetime": day.replace("T00:00:00Z", "T23:59:59Z")}


def _moment(text: str) -> np.datetime64:
    try:
        (found,) = parsed([text], "date")
    except MalformedError as error:
        raise MalformedError(f"{text!r} is no time such as 2024-06-01T10:30:00Z", field="datetime") from error
    return np.datetime64(found)


def _text(when: np.datetime64) -> str:
    unit = np.datetime_data(when)[0]
    return f"{when.astype('M8[us]') if unit == 'ns' else when}Z"


def span_of(image: Image) -> Json | None:
    """Return the properties of an axis of times: one time, or from the first to the last."""
    coordinate = coordinate_along(image, TIME)
    if coordinate is None or coordinate.values.dtype.kind != "M" or not len(coordinate.values):
        return None
    first, last = (_text(one.astype("M8[s]")) for one in (coordinate.values.min(), coordinate.values.max()))
    return {"datetime": first if first == last else None, "start_datetime": first, "end_datetime": last}


# Places


def ground_of(images: Sequence[Image]) -> Footprint | None:
    """Return the ground that all images of a file cover together."""
    parts = [footprint(image.place) for image in images]
    placed = [part for part in parts if part is not None]
    return joined(placed) if placed else None


def projection(image: Image) -> Json:
    """Return the fields `proj:` of an image that has a CRS, and its size on the ground."""
    place, crs = image.place, image.place.crs
    if crs is None:
        return {}
    fields: Json = {"proj:code": crs.code} if crs.code else {"proj:code": None, "proj:wkt2": crs.wkt}
    fields["proj:shape"] = list(place.shape)
    if place.affine is not None:
        ring = [*place.corners, place.corners[0]]
        fields |= {"proj:transform": list(place.affine), "proj:bbox": place.bounds}
        fields["proj:geometry"] = {"type": "Polygon", "coordinates": [ring]}
        if place.degrees is not None:
            longitude, latitude = place.degrees["center"]
            longitude = round((longitude + 180) % 360 - 180, 7)
            fields["proj:centroid"] = {"lat": round(latitude, 7), "lon": longitude}
    if (size := place.pixel_metres) is not None:
        fields["gsd"] = size
    return fields


# Assets


def media_type(url: str, *, is_placed: bool) -> str | None:
    """Return the media type of an image by its name; None of what has none."""
    name = without_query(url).lower()
    kinds = next((fmt.media_types for fmt in FORMATS if name.endswith(fmt.endings)), ())
    found = NETCDF if NETCDF in kinds and name.endswith(NETCDF_ENDINGS) else next(iter(kinds), None)
    return f"{found}{GEOTIFF}" if found == TIFF and is_placed else found


def manifest_asset(url: str, form: str, *, group: str = "", keep_query: Sequence[str] = ()) -> Json:
    """Return a manifest as an asset; `group` is the one in it that is meant."""
    record = FORMS.get(form)
    title = "manifest" if record is None else record.title
    media_type = {} if record is None else {"type": record.media_type}
    path = local_path(url)
    where = bare(url, keep_query) if path is None else slashed(os.path.abspath(path))  # noqa: PTH100  it is literal
    return {
        "href": file_url(where) if has_drive(where) else where,
        **media_type,
        "title": f"{title}: the same pixels as Zarr, by reference",
        "roles": [REFERENCES, "virtual"],
        "xarray:open_kwargs": {"engine": "jnrrdz"} | ({"group": group} if group else {}),
    }


def _image_asset(found: Inspection, source: SourceRecord, images: Sequence[Image], keep_query: Sequence[str]) -> Json:
    if is_share_link(source.url):
        raise UnrepresentableError("a share link: its path is the permission to read, which an item would hand on")
    is_placed = any(image.place.crs is not None for image in images)
    kind = media_type(source.url, is_placed=is_placed)
    if kind is None:
        fmt = next((fmt for fmt in FORMATS if fmt.name == found.format and fmt.media_types), None)
        kind = None if fmt is None else fmt.media_types[0]
    asset: Json = {"href": bare(source.url, keep_query), **({"type": kind} if kind else {}), "roles": ["data"]}
    if source.size is not None:
        asset["file:size"] = source.size
    if source.modified is not None:
        asset["updated"] = _text(_moment(source.modified))
    return asset | (image_bands(images[0]) if len(images) == 1 else {})


def image_bands(image: Image) -> Json:
    """Return the fields of an asset about its bands; what all have in common is above them."""
    channels = enumerate(image.channels, 1)
    bands = image.bands or [Band(number, name=channel.name) for number, channel in channels]
    bands = bands or [Band(number) for number in range(1, image.band_count + 1)]
    fields = [_band(image.finest.data_type, band) for band in bands]
    first = {name: value for name, value in fields[0].items() if name != "name"}
    common = {name: value for name, value in first.items() if all(field.get(name) == value for field in fields)}
    each = [{name: value for name, value in band.items() if name not in common} for band in fields]
    if (size := image.place.pixel_metres) is not None:
        common["raster:spatial_resolution"] = size
    sampling = str(image.place.sampling).lower()
    if sampling in {"area", "point"}:
        common["raster:sampling"] = sampling
    return {**common, "bands": each}


def _band(data_type: str, band: Band) -> Json:
    is_common = KNOWN_TYPES.fullmatch(data_type) is not None
    colour = str(band.colour).lower()
    numbers = {name: value for name in STATISTICS if _is_number(value := as_object(band.statistics).get(name))}
    fields: Json = {
        "name": str(band.name or f"b{band.number}"),
        "data_type": data_type if is_common else DATA_TYPES.get(data_type, "other"),
        "nodata": _nodata(band.nodata),
        "unit": band.unit,
        "statistics": numbers or None,
        "eo:common_name": colour if colour in COMMON_NAMES else None,
        "raster:bits_per_sample": band.bits,
    }
    scale = 1 if band.scale is None else band.scale
    offset = 0 if band.offset is None else band.offset
    if scale != 1 or offset != 0:
        fields |= {"raster:scale": scale, "raster:offset": offset}
    return {name: value for name, value in fields.items() if value is not None}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _nodata(value: Any) -> float | str | None:
    """Return a missing value as STAC spells it; Zarr has other words, and the bits of NaN."""
    if isinstance(value, str):
        return NOT_FINITE.get(value.lower(), "nan" if value.startswith("0x") else None)
    if isinstance(value, float) and not np.isfinite(value):
        return "nan" if np.isnan(value) else "inf" if value > 0 else "-inf"
    return value if _is_number(value) else None


# Cubes


def cube_fields(image: Image) -> Json:
    """Return the axes and the variable of a stack or cube, as the datacube extension has them."""
    dimensions = {
        str(name): _dimension(str(name), size, image)
        for name, size in zip(image.finest.dimension_names, image.finest.shape, strict=True)
    }
    variable = {"type": "data", "dimensions": list(dimensions)}
    return {"cube:dimensions": dimensions, "cube:variables": {image.finest.name: variable}}


def _dimension(name: str, size: int, image: Image) -> Json:
    place = image.place
    if name == TIME and (span := span_of(image)) is not None:
        return {"type": "temporal", "extent": [span["start_datetime"], span["end_datetime"]]}
    if name in {"x", "y"} and place.affine is not None:
        first = 0 if name == "x" else 1
        extent = [place.bounds[first], place.bounds[first + 2]]
        step = place.resolution[first]
        return {"type": "spatial", "axis": name, "extent": extent, "step": step, **_system(place)}
    if name == "band":
        return {"type": "bands", "values": [band["name"] for band in image_bands(image)["bands"]]}
    coordinate = coordinate_along(image, name)
    values = [] if coordinate is None else coordinate.values.tolist()
    if values:
        return {"type": "other", "values": values}
    return {"type": "other", "extent": [0, size - 1]}


def _system(place: Place) -> Json:
    """Return the CRS as the datacube extension has it: the number of an EPSG code, else WKT."""
    crs = place.crs
    if crs is None:
        return {}
    number = (crs.code or "").removeprefix(EPSG)
    if (crs.code or "").startswith(EPSG) and number.isdecimal() and int(number):
        return {"reference_system": int(number)}
    return {"reference_system": crs.wkt} if crs.wkt else {}
