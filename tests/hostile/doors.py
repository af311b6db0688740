"""The ways in which users open what is foreign, each to some pixels."""

import asyncio
import itertools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import xarray as xr
import zarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr import open_virtual_dataset

import jnrrdz
from jnrrdz import VirtualGroup
from jnrrdz.api import index_in_place, open_stored, remove_in_place
from jnrrdz.batches.stac import Assets, Reader

type Door = Callable[[Path], Any]

LARGEST = 1 << 20
"""Bytes of an array that is read whole; of a larger one the first pixel."""


def read_group(path: Path) -> None:
    """Read all arrays by zarr."""
    group = jnrrdz.open_group(path)
    for _, node in group.members(max_depth=None):
        if isinstance(node, zarr.Array):
            read_pixels(node)


def read_pixels(array: zarr.Array) -> None:
    """Read an array, or the first pixel of a large one."""
    chunk = math.prod(array.chunks) * array.dtype.itemsize
    if array.nbytes <= LARGEST:
        array[...]
    elif chunk <= LARGEST:
        array[(0,) * array.ndim]


def open_dataset(path: Path) -> None:
    """Open the image, and read the first pixel of each variable."""
    with jnrrdz.open_dataset(path) as dataset:
        read_variables(dataset)


def by_engine(path: Path) -> None:
    """Open the image by xarray with the name of the engine."""
    with xr.open_dataset(path, engine="jnrrdz", chunks={}) as dataset:
        repr(dataset)


def by_content(path: Path) -> None:
    """Ask the engine whether the file is its own."""
    xr.backends.list_engines()["jnrrdz"].guess_can_open(str(path))


def open_datatree(path: Path) -> None:
    """Open all groups."""
    tree = jnrrdz.open_datatree(path)
    for node in tree.subtree:
        read_variables(node.to_dataset())


def read_variables(dataset: xr.Dataset) -> None:
    """Read the first element of each variable."""
    for variable in dataset.variables.values():
        first = {axis: slice(0, 1) for axis in variable.dims}
        chunk = math.prod(variable.encoding.get("chunks") or (1,)) * variable.dtype.itemsize
        if chunk <= LARGEST:
            variable.isel(first).to_numpy()


def open_stored_keys(path: Path) -> None:
    """List a store and read some of its keys."""
    store = open_stored(path)

    async def keys() -> None:
        async for key in store.list():
            if key.endswith("zarr.json"):
                await store.get(key, zarr.core.buffer.default_buffer_prototype())

    asyncio.run(keys())
    for refs in store.manifest.arrays.values():
        if refs.chunks < LARGEST:
            _ = refs.present


def virtual_levels(path: Path) -> None:
    """Open a store with levels that are computed."""
    for _, node in jnrrdz.open_group(path, virtual_levels=1).members(max_depth=None):
        if isinstance(node, zarr.Array):
            read_pixels(node)


def info(path: Path) -> None:
    """Return all that is known."""
    jnrrdz.info(path, attributes=True)


def preview(path: Path) -> None:
    """Draw a picture."""
    jnrrdz.preview(path, size=16)


def verify(path: Path) -> None:
    """Check everything."""
    jnrrdz.verify(path, deep=True)


def cube(path: Path) -> None:
    """Make a cube of one file."""
    jnrrdz.cube([str(path)], path.parent / "cube.json", time_from=r"_(\d{8})_")


def merge(path: Path) -> None:
    """Stack a source on itself."""
    jnrrdz.merge([path, path], path.parent / "stack.json", concat_dim="stack")


def refresh(path: Path) -> None:
    """Scan again what changed."""
    jnrrdz.refresh(path)


def convert(path: Path) -> None:
    """Write another form."""
    jnrrdz.convert(path, path.parent / "other.parquet", overwrite=True)


def convert_to_json(path: Path) -> None:
    """Write JSON."""
    jnrrdz.convert(path, path.parent / "other.json", overwrite=True)


def overwrite(path: Path) -> None:
    """Replace a manifest by another one."""
    jnrrdz.write(VirtualGroup({}), path, overwrite=True)


def stac_item(path: Path) -> None:
    """Describe it as an item."""
    jnrrdz.stac_item(path, datetime="2024-06-01T00:00:00Z")


def tile(path: Path) -> None:
    """Write a tiled JNRRD, of as many axes as there are."""
    target = path.parent / "tiled.jnrrd"
    for axes in range(2, 5):
        try:
            jnrrdz.tile(path, target, tile=(32,) * axes, overwrite=True)
        except jnrrdz.UnsupportedError as error:
            if "numbers for" not in error.message or axes == 4:
                raise
        else:
            return


def serve(path: Path) -> None:
    """Ask a server's application for documents, a chunk and a picture."""
    app = jnrrdz.make_app([path], hosts=["testserver"])
    try:
        for key in ("zarr.json", "preview.png", "data/zarr.json", "data/c/0/0", "0/data/c/0/0"):
            status = asyncio.run(asked(app, f"/{path.name}/{key}"))
            assert status in {200, 404, 409, 502}, (key, status)
    finally:
        app.close()


async def asked(app: Any, path: str) -> int:
    """Return the status of an answer."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"testserver")],
        "root_path": "",
    }
    answers: list[Mapping[str, Any]] = []
    waits = asyncio.Event()

    async def receive() -> Mapping[str, Any]:
        await waits.wait()
        return {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        answers.append(message)

    await app(scope, receive, send)
    return int(answers[0]["status"])


def scan(path: Path) -> None:
    """Scan a source."""
    jnrrdz.scan(path)


def scan_physical(path: Path) -> None:
    """Scan a source with physical values."""
    jnrrdz.scan(path, physical=True)


def index(path: Path) -> None:
    """Index a source and open the manifest."""
    out = path.parent / "refs.json"
    jnrrdz.index(path, out, overwrite=True)
    read_group(out)


def index_parquet(path: Path) -> None:
    """Index a source to Parquet."""
    jnrrdz.index(path, path.parent / "refs.parquet", overwrite=True)


def parser(path: Path) -> None:
    """Open a source as VirtualiZarr does."""
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    options = {"registry": registry, "parser": jnrrdz.Parser()}
    with open_virtual_dataset(path.as_uri(), loadable_variables=[], **options) as virtual:
        repr(virtual)


def place_again(path: Path) -> None:
    """Replace metadata in place."""
    index_in_place(path, overwrite=True)


def take_away(path: Path) -> None:
    """Remove metadata in place."""
    remove_in_place(str(path))


def stac_cube(path: Path) -> None:
    """Make a cube of the items of a document."""
    jnrrdz.cube([], path.parent / "cube.json", stac=[str(path)])


def stac_sources(path: Path) -> None:
    """List the sources that a document names."""
    for _ in itertools.islice(Reader(Assets()).found(str(path)), 9):
        pass


READING: list[Door] = [
    read_group,
    open_dataset,
    by_engine,
    by_content,
    open_datatree,
    open_stored_keys,
    virtual_levels,
    info,
    preview,
    tile,
    cube,
    merge,
    stac_item,
    serve,
]

DOORS: Mapping[str, list[Door]] = {
    "manifest": [*READING, verify, convert, convert_to_json, refresh, overwrite],
    "source": [*READING, scan, scan_physical, index, index_parquet, parser],
    "in place": [place_again, take_away, scan],
    "STAC": [stac_cube, stac_sources],
}
