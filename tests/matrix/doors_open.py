"""Doors that open what was indexed: forms of manifests, and ways to read them."""

import json
from dataclasses import replace

import jnrrdz
import numpy as np
import rioxarray  # noqa: F401  gives datasets their place
import virtualizarr
import xarray as xr
import zarr
from click.testing import CliRunner
from jnrrdz.api import index_in_place
from jnrrdz.cli import cli
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from tests.matrix.plain import plain_reader
from tests.matrix.view import View, of_dataset

STORED = {"mask_and_scale": False, "decode_times": False}
"""Opens the numbers that are stored."""


def opened(manifest, case):
    """Return the view of a manifest, opened by its name alone, with its levels."""
    with xr.open_dataset(manifest, **STORED) as dataset:
        view = of_dataset(dataset, case.row.variable)
    if not case.row.levels:
        return view
    group = jnrrdz.open_group(manifest)
    levels = (group[path][...] for path in case.array_paths[1:])
    return replace(view, levels=tuple(levels))


def by_form(form):
    """Return a door: index to a form, and open the manifest."""
    return lambda case: opened(case.index(form), case)


def in_place(case):
    """Read metadata next to N5's own, whose arrays have N5's order of axes."""
    source = case.moved()
    index_in_place(source)
    groups = (case.row.group, *case.row.levels)
    found = [zarr.open_array(source / group, mode="r") for group in groups]
    dims = found[0].metadata.dimension_names or ("x", "y", "z")
    levels = tuple(each[...].T for each in found[1:])
    return View(found[0][...].T, dims[::-1], levels=levels)


def by_source(case):
    # references are opened as they are: nothing is scanned
    is_scanned = "references" not in case.row.traits
    choices = {"codecs": case.codecs} if is_scanned else {}
    options = {**choices, **case.row.options, **STORED}
    with xr.open_dataset(case.sources[0], engine="jnrrdz", **options) as dataset:
        return of_dataset(dataset, case.row.variable)


def decoded(case):
    with xr.open_dataset(case.index()) as dataset:
        return View(dataset[case.row.variable].to_numpy())


def expected_decoded(case):
    """Return physical values, but stored ones where bands have different scales."""
    view = case.view
    differ = len(set(view.scales)) > 1
    plain = replace(view, scales=(), offsets=()) if differ else view
    return replace(view, pixels=plain.decoded())


def physical(case):
    with xr.open_dataset(case.index(physical=True), **STORED) as dataset:
        return View(dataset[case.row.variable].to_numpy())


def open_group(case):
    group = jnrrdz.open_group(case.index())
    found = [group[path] for path in case.array_paths]
    dims = found[0].metadata.dimension_names
    nodata = found[0].attrs.get("_FillValue")
    view = View(found[0][...], dims, levels=tuple(each[...] for each in found[1:]))
    return view if isinstance(nodata, str) else replace(view, nodata=nodata)


def open_datatree(case):
    tree = jnrrdz.open_datatree(case.index(), **STORED)
    finest, *coarser = [tree[path] for path in case.array_paths]
    group = case.row.group
    view = of_dataset(
        tree[group].to_dataset() if group else tree.to_dataset(), finest.name
    )
    return replace(view, levels=tuple(each.to_numpy() for each in coarser))


REGISTRY = ObjectStoreRegistry({"file://": LocalStore()})


def parser(case):
    choices = {"codecs": case.codecs, **case.row.options}
    url = case.sources[0].as_uri()
    made = jnrrdz.Parser(**choices)
    virtualizarr.open_virtual_dataset(url, registry=REGISTRY, parser=made)
    store = made(url, REGISTRY)
    with xr.open_zarr(store, consolidated=False, zarr_format=3, **STORED) as dataset:
        return of_dataset(dataset, case.row.variable)


def fsspec_protocol(case):
    options = {"fo": str(case.index())}
    group = zarr.open_group("jnrrdz://", mode="r", storage_options=options)
    is_computed = "virtual levels" in case.row.traits  # which has no bytes to read
    paths = case.array_paths[: 1 if is_computed else None]
    found = [group[path][...] for path in paths]
    return View(found[0], levels=case.view.levels if is_computed else tuple(found[1:]))


class NotReadableError(Exception):
    """`info --json` says that a reader cannot read a manifest."""


def stock_fsspec(case):
    manifest = case.index()
    verdicts = jnrrdz.info(manifest)["readable_by"]
    verdict = next(it for it in verdicts if it["reader"] == "zarr-python by itself")
    if not verdict["readable"]:
        raise NotReadableError(f"{verdict['reason']}; {verdict.get('remedy')}")
    return View(plain_reader().call("references", str(manifest), case.array_paths[0]))


def serve(case):
    """Read every level that is served, those that the server computes too."""
    url = case.session.served_url(case.row)
    groups = case.row.served_groups
    name = case.row.variable
    view = plain_reader().call("dataset", url, "zarr", groups[0], name)
    paths = [f"{group}/{name}" for group in groups[1:]]
    arrays = plain_reader().call("arrays", url, paths)
    return replace(view, levels=tuple(arrays))


def expected_served(case):
    view = case.view
    return replace(view, levels=case.row.computed(view)) if case.row.computed else view


def verify(case):
    found = jnrrdz.verify(case.index(), deep=True)
    assert found.ok, found.findings


def refresh(case):
    source = case.moved()
    manifest = case.output("refreshed.json")
    jnrrdz.index(source, manifest, codecs=case.codecs, **case.row.options)
    case.rewrite(source)
    assert jnrrdz.refresh(manifest).changed
    return opened(manifest, case)


def run_info(case, *options):
    """Return the JSON that `jnrrdz info` prints."""
    run = CliRunner().invoke(cli, ["info", str(case.index()), *options])
    if run.exit_code:
        raise CommandError(run.output)
    return json.loads(run.stdout)


class CommandError(Exception):
    """A command's exit code is not 0."""


def info_json(case):
    found = run_info(case, "--json")
    path = case.array_paths[0]
    image = next(each for each in found["images"] if each["path"] == path)
    place = image.get("place", {})
    affine = place.get("affine")
    code = (place.get("crs") or {}).get("code")
    bands = image.get("bands", []) or image.get("channels", [])
    sizes = image.get("pixel_size", {})
    names = tuple(band.get("name", "") for band in bands)
    nodata = bands[0].get("nodata") if bands else None
    pixels = np.zeros(image["shape"], image["data_type"])
    return View(
        pixels,
        tuple(image["dimension_names"]),
        tuple(affine) if affine else None,
        int(code.removeprefix("EPSG:")) if code else None,
        steps={axis: (0.0, each["size"]) for axis, each in sizes.items()},
        nodata=float(nodata) if nodata is not None else None,
        names=names if any(names) and len(names) > 1 else (),
    )


def expected_info(case):
    """Return the view; `info` has sizes of pixels, which are positive, and no origin.

    It reads no chunk, so that it has no coordinates of netCDF.
    """
    if "foreign" in case.row.traits:
        return replace(case.view, steps={})
    steps = {axis: (0.0, abs(step)) for axis, (_, step) in case.view.steps.items()}
    return replace(case.view, steps=steps)


def expected_stac(case):
    """Return the view; STAC wants a name for each band of the one image."""
    view = case.view
    if "several images" in case.row.traits:
        return replace(view, names=())
    sizes = dict(zip(view.dims, view.pixels.shape, strict=True))
    count = sizes.get("band", sizes.get("c", 0))
    numbers = tuple(f"b{n + 1}" for n in range(count)) if count > 1 else ()
    return replace(view, names=view.names or numbers)


def info_stac(case):
    item = run_info(case, "--stac", "--datetime", "2020-01-01T00:00:00Z")
    facts = item["properties"]
    affine = facts.get("proj:transform")
    code = facts.get("proj:code")
    asset = item["assets"]["image"]
    nodata = asset.get("nodata")
    shape = tuple(facts.get("proj:shape", ()))
    names = tuple(band.get("name", "") for band in asset.get("bands", ()))
    return View(
        np.zeros(shape),
        (),
        tuple(affine[:6]) if affine else None,
        int(code.removeprefix("EPSG:")) if code else None,
        nodata=float(nodata) if nodata is not None else None,
        names=names if any(names) and len(names) > 1 else (),
    )
