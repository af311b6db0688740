"""Good documents of every form of foreign JSON, and files with one value of a document replaced.

A form has documents by name; `place` writes the form with another text for one of them,
and returns what the doors open.
"""

import json
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import rasterio
import zarr
from rasterio.control import GroundControlPoint
from rasterio.rpc import RPC
from rasterio.transform import from_origin

import jnrrdz
from tests import writers

DATED = "a_20240601_B04"
"""A name with a date, which `cube` looks for."""

MANIFEST = f"{DATED}.json"

PIXELS = np.arange(96 * 80, dtype="u2").reshape(96, 80)


@dataclass
class Form:
    """Documents of one form, as their writer left them."""

    name: str
    folder: Path
    """Where its sources are."""

    documents: Mapping[str, Any]
    place: Callable[[Path, Mapping[str, str]], Path]
    """Writes texts by name in place of the writer's, and returns what is opened."""

    doors: str = "manifest"
    skipped: frozenset[str] = field(default_factory=frozenset)


def tiff(folder: Path) -> Path:
    """Write a small file with an overview, a CRS, a scale, nodata, and a description."""
    path = folder / "a_20240601_B04.tif"
    place = {**writers.PLACE, **writers.TILES, "nodata": 3, "compress": "deflate"}
    writers.geotiff(path, PIXELS, **place)
    with rasterio.open(path, "r+") as file:
        file.scales, file.offsets = (0.5,), (1.0,)
        file.set_band_description(1, "red")
        file.update_tags(TIFFTAG_DATETIME="2024:06:01 10:00:00")
    with rasterio.open(path, "r+") as file:
        file.build_overviews([2])
    return path


def plain_documents(refs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the documents among references, without those that the root holds again."""
    found = {}
    for key, value in refs.items():
        name = key.rpartition("/")[2]
        if name != "zarr.json" and not name.startswith(".z"):
            continue
        found[key] = json.loads(value) if isinstance(value, str) else value
        found[key].pop("consolidated_metadata", None)
    return found


def json_manifest(folder: Path) -> Form:
    """Return our own JSON manifest of a TIFF."""
    jnrrdz.index(tiff(folder), folder / "refs.json")
    top = json.loads((folder / "refs.json").read_text())
    return of_references("JSON, version 3", folder, top)


def of_references(name: str, folder: Path, top: dict[str, Any], source: Path | None = None) -> Form:
    """Return the form of a JSON manifest: its documents, and the manifest around them."""
    documents = plain_documents(top["refs"])
    chunks = {key: value for key, value in top["refs"].items() if key not in documents}
    few = dict(list(chunks.items())[:2])
    others = {key: value for key, value in top.items() if key != "refs"}

    def place(target: Path, texts: Mapping[str, str]) -> Path:
        own = dict(documents)
        if source is not None:  # manifests of others reach what is next to them
            os.link(source, target / source.name)
        if "refs" in texts:
            (target / MANIFEST).write_text(texts["refs"], "utf-8", "replace")
            return target / MANIFEST
        refs = {key: texts.get(key, json.dumps(value)) for key, value in own.items()}
        refs = {key: text for key, text in refs.items() if text} | chunks
        made = {**others, "refs": refs}
        (target / MANIFEST).write_text(json.dumps(made), "utf-8")
        return target / MANIFEST

    inside = {key: json.dumps(value) for key, value in documents.items()}
    whole = {**others, "refs": {**inside, **few}}
    return Form(name, folder, {**documents, "refs": whole}, place)


def ome_manifest(folder: Path) -> Form:
    """Return our own JSON manifest of an OME-TIFF, whose groups have `ome` and whose arrays have `axes`."""
    import tifffile  # noqa: PLC0415  one form needs it

    volume = np.arange(2 * 3 * 32 * 32, dtype="u2").reshape(2, 3, 32, 32)
    metadata = {
        "axes": "CZYX",
        "PhysicalSizeX": 0.5,
        "PhysicalSizeXUnit": "µm",
        "PhysicalSizeY": 0.5,
        "PhysicalSizeYUnit": "µm",
        "Channel": {"Name": ["a", "b"]},
    }
    tifffile.imwrite(folder / "a.ome.tif", volume, metadata=metadata, tile=(32, 32))
    jnrrdz.index(folder / "a.ome.tif", folder / "refs.json")
    top = json.loads((folder / "refs.json").read_text())
    return of_references("JSON, version 3, of an OME-TIFF", folder, top)


def rpc_manifest(folder: Path) -> Form:
    """Return our own JSON manifest of a NITF with RPCs."""
    path = folder / "a.ntf"
    ones = [1.0] + [0.0] * 19
    offsets = {"height_off": 0, "lat_off": 50, "long_off": 10, "line_off": 48, "samp_off": 40}
    scales = {name.replace("off", "scale"): 40 for name in offsets}
    names = ("line_num", "line_den", "samp_num", "samp_den")
    rpc = RPC(**offsets, **scales, **{f"{name}_coeff": ones for name in names})
    place = {"crs": "EPSG:4326", "transform": from_origin(10, 50, 0.01, 0.01), "ICORDS": "G"}
    writers.gdal_image(path, PIXELS, driver="NITF", rpcs=rpc, **place)
    jnrrdz.index(path, folder / "refs.json")
    top = json.loads((folder / "refs.json").read_text())
    return of_references("JSON, version 3, of a NITF", folder, top)


def gcp_manifest(folder: Path) -> Form:
    """Return our own JSON manifest of a TIFF with control points, a palette and three bands that differ."""
    corners = [(row, column) for row in (0, 96) for column in (0, 80)]
    gcps = [GroundControlPoint(row, column, 10 + column / 100, 50 - row / 100) for row, column in corners]
    path = writers.geotiff(folder / "a.tif", np.stack([PIXELS] * 3), gcps=gcps, crs="EPSG:4326", **writers.TILES)
    with rasterio.open(path, "r+") as file:
        file.scales, file.offsets = (0.5, 1.0, 2.0), (0.0, 1.0, 0.0)
        file.units = ("m", "K", "m")
    jnrrdz.index(path, folder / "refs.json")
    top = json.loads((folder / "refs.json").read_text())
    return of_references("JSON, version 3, of control points", folder, top)


def kerchunk(folder: Path) -> Form:
    """Return kerchunk's references of an HDF5 file, with templates and references that are computed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kerchunk imports what numcodecs and zarr have moved
        from kerchunk.hdf import SingleHdf5ToZarr  # noqa: PLC0415  see above

        path = folder / "a.h5"
        with h5py.File(path, "w") as file:
            made = file.create_dataset("t", data=PIXELS[:64, :64], chunks=(32, 64), compression="gzip", shuffle=True)
            made.attrs["scale_factor"] = 0.5
            times = file.create_dataset("time", data=np.arange(64.0))
            times.attrs["units"] = "days since 2000-01-01"
            times.make_scale("time")
            made.dims[0].attach_scale(times)
        top = SingleHdf5ToZarr(str(path), inline_threshold=0).translate()
    top["templates"] = {"u": "a.h5", "f": "{{c}}"}
    places = [value for key, value in sorted(top["refs"].items()) if key.startswith("t/") and isinstance(value, list)]
    first, size = places[0][1:]
    gen = {
        "key": "t/{{i}}.0",
        "url": "{{u}}",
        "offset": f"{{{{i * {size} + {first}}}}}",
        "length": str(size),
        "dimensions": {"i": {"start": 0, "stop": 2}},
    }
    refs = {key: ["a.h5", *value[1:]] if isinstance(value, list) else value for key, value in top["refs"].items()}
    top |= {"refs": refs, "gen": [gen]}
    return of_references("JSON, version 2, of kerchunk", folder, top, path)


def parquet(folder: Path) -> Form:
    """Return our own Parquet manifest of a TIFF."""
    good = folder / "good.parquet"
    jnrrdz.index(tiff(folder), good)
    top = json.loads((good / ".zmetadata").read_text())
    for document in top["metadata"].values():
        document.pop("consolidated_metadata", None)

    def place(target: Path, texts: Mapping[str, str]) -> Path:
        shutil.copytree(good, target / f"{DATED}.parquet")
        for name, text in texts.items():
            (target / f"{DATED}.parquet" / name).write_text(text, "utf-8", "replace")
        return target / f"{DATED}.parquet"

    return Form("Parquet", folder, {".zmetadata": top}, place)


def icechunk(folder: Path) -> Form:
    """Return an Icechunk repository of a TIFF; it refuses some documents itself."""
    good = folder / "good.icechunk"
    jnrrdz.index(tiff(folder), good)
    top = json.loads((folder / "refs.json").read_text()) if (folder / "refs.json").exists() else None
    if top is None:
        jnrrdz.index(folder / "a_20240601_B04.tif", folder / "refs.json")
        top = json.loads((folder / "refs.json").read_text())
    documents = plain_documents(top["refs"])

    def place(target: Path, texts: Mapping[str, str]) -> Path:
        import icechunk as ic  # noqa: PLC0415  one form needs it

        shutil.copytree(good, target / f"{DATED}.icechunk")
        storage = ic.local_filesystem_storage(str(target / f"{DATED}.icechunk"))
        session = ic.Repository.open(storage).writable_session("main")
        buffer = zarr.core.buffer.default_buffer_prototype().buffer
        for name, text in texts.items():
            data = buffer.from_bytes(text.encode("utf-8", "replace"))
            zarr.core.sync.sync(session.store.set(name, data))
        session.commit("a change")
        return target / f"{DATED}.icechunk"

    return Form("Icechunk", folder, documents, place)


def tree_of(name: str, folder: Path, good: Path, keys: list[str], doors: str = "source") -> Form:
    """Return the form of documents in files of a folder."""
    documents = {key: json.loads((good / key).read_text()) for key in keys}
    for document in documents.values():
        document.pop("consolidated_metadata", None)

    def place(target: Path, texts: Mapping[str, str]) -> Path:
        made = target / good.name
        shutil.copytree(good, made)
        for key, text in texts.items():
            (made / key).write_text(text, "utf-8", "replace")
        return made

    return Form(name, folder, documents, place, doors)


def zarr_3(folder: Path) -> Form:
    """Return zarr-python's store of version 3, with shards."""
    good = folder / f"{DATED}.zarr"
    root = zarr.create_group(good, zarr_format=3)
    attributes = {"scale_factor": 0.5, "_FillValue": 3, "grid_mapping": "spatial_ref", "units": "m"}
    array = root.create_array(
        "g/data",
        shape=(64, 64),
        chunks=(16, 16),
        shards=(32, 32),
        dtype="u2",
        dimension_names=["y", "x"],
        attributes=attributes,
    )
    array[...] = PIXELS[:64, :64]
    time = root["g"].create_array(
        "time",
        shape=(4,),
        dtype="f8",
        fill_value=np.nan,
        dimension_names=["time"],
        attributes={"units": "days since 2000-01-01", "_FillValue": "AAAAAAAA+H8="},
    )
    time[...] = np.arange(4.0)
    mapping = root["g"].create_array("spatial_ref", shape=(), dtype="i8", attributes={"GeoTransform": "0 1 0 0 0 -1"})
    mapping[...] = 0
    keys = [str(path.relative_to(good)) for path in sorted(good.rglob("zarr.json"))]
    return tree_of("Zarr, version 3", folder, good, keys)


def zarr_2(folder: Path) -> Form:
    """Return zarr-python's store of version 2."""
    import numcodecs  # noqa: PLC0415  one form needs it

    good = folder / f"{DATED}.zarr"
    root = zarr.create_group(good, zarr_format=2)
    array = root.create_array(
        "data",
        shape=(64, 64),
        chunks=(32, 32),
        dtype="<u2",
        filters=[numcodecs.Shuffle(2)],
        compressors=numcodecs.Blosc(),
        attributes={"_ARRAY_DIMENSIONS": ["y", "x"], "scale_factor": 0.5},
        fill_value=3,
    )
    array[...] = PIXELS[:64, :64]
    zarr.consolidate_metadata(good, zarr_format=2)
    keys = [".zgroup", "data/.zarray", "data/.zattrs"]
    return tree_of("Zarr, version 2", folder, good, keys)


def n5(folder: Path) -> Form:
    """Return tensorstore's N5 data sets in a group with the attributes of viewers."""
    good = folder / f"{DATED}.n5"
    for level, step in (("s0", 1), ("s1", 2)):
        values = PIXELS[:64:step, :64:step]
        blosc = {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}
        writers.n5_dataset(good / level, values, [32, 32], blosc)
    transform = {"axes": ["y", "x"], "units": ["nm", "nm"], "scale": [4.0, 4.0], "translate": [0.0, 0.0]}
    group = {
        "n5": "4.0.0",
        "axes": ["x", "y"],
        "units": ["nm", "nm"],
        "resolution": [4, 4],
        "offset": [0, 0],
        "pixelResolution": {"dimensions": [4.0, 4.0], "unit": "nm"},
        "scales": [[1, 1], [2, 2]],
        "downsamplingFactors": [[1, 1], [2, 2]],
        "multiscales": [{"name": "a", "datasets": [{"path": "s0", "transform": {**transform, "order": "F"}}]}],
    }
    (good / "attributes.json").write_text(json.dumps(group))
    writers.n5_attributes(good / "s1", downsamplingFactors=[2, 2], transform=transform)
    return tree_of("N5", folder, good, ["attributes.json", "s0/attributes.json", "s1/attributes.json"])


def in_place(folder: Path) -> Form:
    """Return an N5 with Zarr's metadata beside its own, which zarr and we read as Zarr."""
    n5(folder)
    good = folder / f"{DATED}.n5"
    from jnrrdz.api import index_in_place  # noqa: PLC0415  one form needs it

    index_in_place(good)
    return tree_of("in place", folder, good, ["zarr.json", "s0/zarr.json"], "in place")


def stac(folder: Path) -> Form:
    """Return a page of a search with an item, which names a file and its bands."""
    path = tiff(folder)
    item = jnrrdz.stac_item(path)
    item["links"] = [{"rel": "self", "href": str(folder / "item.json")}]
    item["assets"] = {"red": {**next(iter(item["assets"].values())), "href": str(path)}}
    item["assets"]["red"]["file:size"] = path.stat().st_size
    item["assets"]["red"]["eo:bands"] = [{"name": "B04", "common_name": "red"}]
    catalog = {"type": "Catalog", "id": "c", "links": [{"rel": "item", "href": "item.json"}]}
    page = {"type": "FeatureCollection", "features": [item], "links": [{"rel": "next", "href": "last.json"}]}
    last = {"type": "FeatureCollection", "features": [], "links": []}
    table = {"type": "Collection", "assets": {"m": {"href": "refs.json", "roles": ["references"]}}, "links": []}
    jnrrdz.index(path, folder / "refs.json")
    documents = {"item.json": item, "catalog.json": catalog, "page.json": page, "collection.json": table}

    def place(target: Path, texts: Mapping[str, str]) -> Path:
        shutil.copy(folder / "refs.json", target / "refs.json")
        for name, document in {**documents, "last.json": last}.items():
            (target / name).write_text(texts.get(name, json.dumps(document)), "utf-8", "replace")
        return target / next(iter(texts))

    return Form("STAC", folder, documents, place, "STAC")


FORMS: Mapping[str, Callable[[Path], Form]] = {
    "json": json_manifest,
    "ome": ome_manifest,
    "nitf": rpc_manifest,
    "gcps": gcp_manifest,
    "kerchunk": kerchunk,
    "parquet": parquet,
    "icechunk": icechunk,
    "zarr-3": zarr_3,
    "zarr-2": zarr_2,
    "n5": n5,
    "in-place": in_place,
    "stac": stac,
}
