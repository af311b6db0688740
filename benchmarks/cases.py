"""What is compared with what: indexing, opening, full reads, windows over HTTP, header scans.

What jnrrdz reads is compared with
what an independent reader decodes: a fast wrong answer stops the run.
"""

import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import data
import fsspec
import http_windows
import jnrrd
import jobs
import jpeg2000 as jp2
import jpeg2000_network
import jpeg2000_window
import n5 as volumes
import numpy as np
import rasterio
import readers
import serve as served
import tifffile
import zarr
from measure import Case, Sample, timed
from numpy.typing import NDArray
from rasterio.windows import Window
from server import Remote, serving

import jnrrdz

LATENCY = 0.020
WINDOW = 1024
WINDOWS = 30
WARM_UP = 16
VSICURL = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR", "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": ".tif"}


def finest(manifest: Path, **options: object) -> zarr.Array:
    """Return the full-resolution array of a manifest."""
    group = jnrrdz.open_group(str(manifest), **options)
    return group["0/data"] if "0" in group else group["data"]


def million(sizes: data.Sizes, work: Path) -> Iterator[Case]:
    """Yield indexing of the many-tile file, then opening of what came of it."""
    source, small = str(data.many_tiles(sizes.tiles)), str(data.many_tiles(WARM_UP))
    (work / "small").mkdir()

    def index(job: str, out: str) -> Callable[[], Sample]:
        return lambda: Sample(**jobs.run(job, (small, str(work / "small" / out)), (source, str(work / out))))

    def opened(job: str, manifest: str) -> Callable[[], Sample]:
        return lambda: Sample(**jobs.run(job, (str(work / "small" / manifest), ""), (str(work / manifest), "")))

    yield Case(
        f"index {sizes.tiles:,} tiles",
        "tifffile write_fsspec",
        {
            "tifffile write_fsspec": index("tifffile_index", "tifffile.json"),
            "jnrrdz JSON": index("jnrrdz_json", "jnrrdz.json"),
            "jnrrdz Parquet": index("jnrrdz_parquet", "jnrrdz.parquet"),
        },
        goals={"jnrrdz JSON": {"seconds": 0.33}, "jnrrdz Parquet": {"seconds": 0.1}},
    )
    yield Case(
        f"open {sizes.tiles:,} references",
        "fsspec, jnrrdz's JSON",
        {
            "fsspec, jnrrdz's JSON": opened("fsspec_open", "jnrrdz.json"),
            "jnrrdz JSON": opened("jnrrdz_open", "jnrrdz.json"),
            "jnrrdz JSON, one chunk": opened("jnrrdz_open_and_read", "jnrrdz.json"),
            "jnrrdz Parquet, one chunk": opened("jnrrdz_open_and_read", "jnrrdz.parquet"),
        },
        goals={"jnrrdz JSON": {"seconds": 0.5, "rise": 0.25}},
    )


def cold_starts(work: Path) -> Iterator[Case]:
    """Yield processes that import, do one small thing and end, in seconds of CPU; packages compile beforehand."""
    source, manifest = str(data.small_cog()), str(work / "cold.json")
    jnrrdz.index(source, manifest)
    index = [sys.executable, "-m", "jnrrdz", "-q", "index", source, "-o", manifest, "--overwrite"]
    yield Case(
        "cold: index a small COG",
        "import numpy",
        {
            "import numpy": lambda: cpu([sys.executable, "-c", "import numpy"]),
            "import numpy, tifffile": lambda: cpu([sys.executable, "-c", "import numpy, tifffile"]),
            "jnrrdz index": lambda: cpu(index),
        },
        rounds=7,
    )
    yield Case(
        "cold: help of the command line",
        "import numpy",
        {
            "import numpy": lambda: cpu([sys.executable, "-c", "import numpy"]),
            "jnrrdz --help": lambda: cpu([sys.executable, "-m", "jnrrdz", "--help"]),
        },
        rounds=7,
    )
    opened = f"import xarray; xarray.open_dataset({manifest!r}, engine='jnrrdz')"
    alone = f"import xarray, jnrrdz.engine as e; xarray.open_dataset({manifest!r}, engine=e.JnrrdzBackend)"
    native = str(work / "native.zarr")
    jnrrdz.open_dataset(manifest).load().drop_encoding().to_zarr(native, mode="w", consolidated=False)
    stored = f"import xarray; xarray.open_dataset({native!r}, engine='zarr', consolidated=False)"
    yield Case(
        "cold: open a manifest (with all of xarray's engines that are installed)",
        "import xarray",
        {
            "import xarray": lambda: cpu([sys.executable, "-c", "import xarray"]),
            "import xarray, zarr": lambda: cpu([sys.executable, "-c", "import xarray, zarr"]),
            "xarray, native Zarr": lambda: cpu([sys.executable, "-c", stored]),
            "xarray.open_dataset": lambda: cpu([sys.executable, "-c", opened]),
            "xarray.open_dataset, no other engine": lambda: cpu([sys.executable, "-c", alone]),
        },
        rounds=5,
    )


def small_files(work: Path) -> Iterator[Case]:
    """Yield scanning and writing of small files in one warm process, in seconds of CPU for each."""
    cog, tiled = data.small_cog(), data.small_jp2()

    def tifffile_references(path: Path) -> None:
        with tifffile.TiffFile(path) as tiff, (work / "tifffile.json").open("w") as stream:
            tiff.aszarr().write_fsspec(stream, "file:///")

    def index(path: Path) -> None:
        jnrrdz.index(str(path), str(work / "small.json"), overwrite=True)

    yield Case(
        "small: index a COG of 512 x 512, warm",
        "tifffile write_fsspec",
        {
            "tifffile write_fsspec": lambda: warm(partial(tifffile_references, cog)),
            "jnrrdz index": lambda: warm(partial(index, cog)),
        },
    )
    yield Case(
        "small: index a JPEG 2000 of 1,024 tiles at six resolutions, warm",
        "jnrrdz, the COG",
        {"jnrrdz, the COG": lambda: warm(partial(index, cog)), "jnrrdz index": lambda: warm(partial(index, tiled))},
    )


def warm(function: Callable[[], object], times: int = 50) -> Sample:
    """Return the CPU time of the best call of many."""
    function()
    best = float("inf")
    for _ in range(times):
        before = time.process_time()
        function()
        best = min(best, time.process_time() - before)
    return Sample(seconds=best)


def cpu(command: list[str]) -> Sample:
    """Return the CPU time, user and system, of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Sample(seconds=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def full_read(title: str, path: Path, work: Path, goal: float) -> Case:
    """Return the full read of one local COG at two threads."""
    decoder, manifest = readers.Decoder(path), work / f"{path.stem}.json"
    jnrrdz.index(str(path), str(manifest))
    array = finest(manifest)

    def through_jnrrdz() -> NDArray[Any]:
        return array[...]

    expected = decoder.read()
    got = through_jnrrdz()
    same(got, np.moveaxis(expected, -1, 0) if got.shape != expected.shape else expected, title)
    del got
    return Case(
        title,
        "decode only",
        {
            "decode only": lambda: timed(decoder.read),
            "decode only, into a new array": lambda: timed(decoder.read_anew),
            "jnrrdz": lambda: timed(through_jnrrdz),
            "tifffile": lambda: timed(readers.tifffile_full, path),
            "rasterio": lambda: timed(readers.rasterio_full, path),
        },
        rounds=5,
        goals={"jnrrdz": {"seconds": goal}},
    )


def same(got: NDArray[Any], expected: NDArray[Any], what: str) -> None:
    """Stop the run where pixels differ."""
    if not np.array_equal(got, expected):
        raise ValueError(f"{what}: the pixels differ, so the times mean nothing")


def corners(size: int) -> list[tuple[int, int]]:
    """Return first rows and columns of windows, the same ones in every run.

    Each covers parts of 3 x 3 tiles, and no two share a tile: merging of requests is compared, not
    the caches that only some readers have.
    """
    draw, cell = random.Random(11), 3 * data.TILE
    cells = list(product(range(0, size - cell + 1, cell), repeat=2))
    chosen = draw.sample(cells, min(WINDOWS, len(cells)))
    return [(row + draw.randrange(1, data.TILE), column + draw.randrange(1, data.TILE)) for row, column in chosen]


def counted(remote: Remote, function: Callable[[], Any]) -> tuple[Sample, Any]:
    """Return seconds, requests and bytes of one call, and its result."""
    remote.tally()
    start = time.perf_counter()
    result = function()
    seconds, tally = time.perf_counter() - start, remote.tally()
    under_way = tally["under_way"] / (tally["busy"] or 1)
    return Sample(seconds=seconds, requests=tally["requests"], nbytes=tally["bytes"], under_way=under_way), result


def windows(path: Path, work: Path) -> Case:
    """Return windows of a COG over HTTP; opening it does not count."""
    with tifffile.TiffFile(path) as tiff:
        image = tiff.pages.first.asarray()
    places, manifest = corners(image.shape[0]), work / "remote.json"

    def with_rasterio() -> Sample:
        with (
            serving(path.parent, LATENCY) as remote,
            rasterio.Env(**VSICURL),
            rasterio.open(f"/vsicurl/{remote.root}/{path.name}") as source,
        ):
            read = [partial(source.read, 1, window=Window(c, r, WINDOW, WINDOW)) for r, c in places]
            return counted(remote, lambda: [one() for one in read])[0]

    def with_jnrrdz() -> Sample:
        with serving(path.parent, LATENCY) as remote:
            jnrrdz.index(f"{remote.root}/{path.name}", str(manifest), overwrite=True)
            array = finest(manifest, allow=[remote.root])
            sample, got = counted(remote, lambda: [array[r : r + WINDOW, c : c + WINDOW] for r, c in places])
        for (r, c), pixels in zip(places, got, strict=True):
            same(pixels, image[r : r + WINDOW, c : c + WINDOW], f"window at row {r}, column {c}")
        return sample

    title = f"{len(places)} windows of {WINDOW}x{WINDOW}, HTTP with {LATENCY * 1000:.0f} ms"
    contenders = {"rasterio /vsicurl": with_rasterio, "jnrrdz": with_jnrrdz}
    # whoever reads one window after another waits for one answer at least, lets the bytes pass and decodes them
    contenders[" a round trip a window"] = lambda: Sample(seconds=len(places) * LATENCY)
    contenders[" the same bytes"] = lambda: http_windows.passed(path, places, WINDOW, LATENCY)
    local = work / "local.json"
    jnrrdz.index(str(path), str(local), overwrite=True)
    array = finest(local)
    contenders[" decoded from a local file"] = lambda: timed(
        lambda: [array[r : r + WINDOW, c : c + WINDOW] for r, c in places]
    )
    return Case(title, "rasterio /vsicurl", contenders, goals={"jnrrdz": {"requests": 1.0}})


def whole_image(path: Path, work: Path) -> Case:
    """Return the full read of a COG over HTTP; opening it does not count."""
    with tifffile.TiffFile(path) as tiff:
        image = tiff.pages.first.asarray()
    manifest = work / "remote.json"

    def with_rasterio() -> Sample:
        with (
            serving(path.parent, LATENCY) as remote,
            rasterio.Env(**VSICURL),
            rasterio.open(f"/vsicurl/{remote.root}/{path.name}", num_threads=2) as source,
        ):
            return counted(remote, lambda: source.read(1))[0]

    def with_jnrrdz() -> Sample:
        with serving(path.parent, LATENCY) as remote:
            jnrrdz.index(f"{remote.root}/{path.name}", str(manifest), overwrite=True)
            array = finest(manifest, allow=[remote.root])
            sample, got = counted(remote, lambda: array[...])
        same(got, image, "the whole image")
        return sample

    contenders = {"rasterio /vsicurl": with_rasterio, "jnrrdz": with_jnrrdz}
    return Case(f"full read of a COG, HTTP with {LATENCY * 1000:.0f} ms", "rasterio /vsicurl", contenders)


def header_scan(path: Path, work: Path) -> Case:
    """Return what it takes to learn a remote COG's layout."""

    def remotely(function: Callable[[str], object]) -> Callable[[], Sample]:
        def run() -> Sample:
            with serving(path.parent, LATENCY) as remote, rasterio.Env(**VSICURL):
                return counted(remote, partial(function, f"{remote.root}/{path.name}"))[0]

        return run

    contenders = {"rasterio open": rasterio_open, "tifffile over fsspec": tifffile_open}
    contenders["jnrrdz index"] = lambda url: jnrrdz.index(url, str(work / "scan.json"), overwrite=True)
    cases = {name: remotely(function) for name, function in contenders.items()}
    return Case(f"header scan of a COG, HTTP with {LATENCY * 1000:.0f} ms", "rasterio open", cases)


def rasterio_open(url: str) -> None:
    """Open a COG and look at its georeferencing."""
    with rasterio.open(f"/vsicurl/{url}") as source:
        source.crs.to_wkt()


def tifffile_open(url: str) -> None:
    """Read all tags of a COG through fsspec's defaults."""
    with fsspec.open(url, "rb") as file, tifffile.TiffFile(file) as tiff:
        [page.dataoffsets for page in tiff.pages]


def deflate(sizes: data.Sizes, work: Path) -> Iterator[Case]:
    """Yield the full read of the deflate COG."""
    title = f"full read, {sizes.deflate} squared uint16, deflate + predictor"
    yield full_read(title, data.deflate_cog(sizes.deflate), work, 1.3)


def jpeg(sizes: data.Sizes, work: Path) -> Iterator[Case]:
    """Yield the full read of the JPEG COG."""
    yield full_read(f"full read, {sizes.jpeg} squared RGB, JPEG", data.jpeg_cog(sizes.jpeg), work, 1.2)


def jpeg_windows(sizes: data.Sizes, work: Path) -> Iterator[Case]:
    """Yield windows of the local JPEG COG."""
    path, manifest = data.jpeg_cog(sizes.jpeg), work / "windows.json"
    jnrrdz.index(str(path), str(manifest))
    array, decoder, places = finest(manifest), readers.Decoder(path), corners(sizes.jpeg)
    image = np.moveaxis(decoder.read(), -1, 0)  # whole tiles: jnrrdz decodes no rows below a window

    def with_jnrrdz() -> None:
        for r, c in places:
            array[:, r : r + WINDOW, c : c + WINDOW]

    def with_rasterio() -> None:
        with rasterio.open(path, NUM_THREADS=2) as source:
            for r, c in places:
                source.read(window=Window(c, r, WINDOW, WINDOW))

    for r, c in places:
        same(array[:, r : r + WINDOW, c : c + WINDOW], image[:, r : r + WINDOW, c : c + WINDOW], f"window {r}, {c}")
    yield Case(
        f"{len(places)} windows of {WINDOW}x{WINDOW}, RGB, JPEG",
        "decode only",
        {
            "decode only": lambda: timed(decoder.read_windows, places, WINDOW),
            "jnrrdz": lambda: timed(with_jnrrdz),
            "rasterio": lambda: timed(with_rasterio),
        },
        rounds=7,
        goals={"jnrrdz": {"seconds": 1.05}},
    )


def predictor3(sizes: data.Sizes, work: Path) -> Iterator[Case]:
    """Yield the full read of the float COG."""
    title = f"full read, {sizes.jpeg} squared float32, ZSTD + predictor 3"
    yield full_read(title, data.float_cog(sizes.jpeg), work, 1.0)


def small_chunks(sizes: data.Sizes, work: Path) -> Iterator[Case]:
    """Yield full reads of images in many small tiles."""
    for side, count in ((data.SMALL_TILE, sizes.tiles), (4 * data.SMALL_TILE, sizes.tiles // 4)):
        case = full_read(f"full read, {count:,} tiles of {side}x{side}", data.many_tiles(count, side), work, 2.0)
        # tifffile and rasterio take minutes
        few = {name: case.contenders[name] for name in ("decode only", "jnrrdz")}
        yield replace(case, contenders=few, rounds=3)


def webp(sizes: data.Sizes, work: Path) -> Iterator[Case]:
    """Yield the full read of the WebP COG."""
    yield full_read(f"full read, {sizes.webp} squared RGB, WebP", data.webp_cog(sizes.webp), work, 1.25)


def planar(sizes: data.Sizes, work: Path) -> Iterator[Case]:
    """Yield the full read of the COG whose bands stand apart."""
    title = f"full read, {sizes.planar} squared uint16, three bands apart, deflate + predictor"
    yield full_read(title, data.planar_cog(sizes.planar), work, 1.25)


def jpeg2000(sizes: data.Sizes, work: Path) -> Iterator[Case]:
    """Yield the full read of a tiled JPEG 2000 image."""
    yield jp2.full_read(sizes.jpeg, work, same)


def one_tile(sizes: data.Sizes, work: Path) -> Iterator[Case]:
    """Yield windows of a JPEG 2000 image in one tile, local and over HTTP."""
    yield from jpeg2000_window.cases(sizes.one_tile, work, same)


def network(sizes: data.Sizes, work: Path) -> Iterator[Case]:
    """Yield a band as of Sentinel-2 over HTTP, with and without TLM and PLT."""
    yield from jpeg2000_network.cases(sizes.band, work, same)


def strips(sizes: data.Sizes, work: Path) -> Iterator[Case]:
    """Yield the full read of raw one-row strips; reading them at once is the bound."""
    path, manifest = data.row_strips(sizes.strips), work / "strips.json"
    jnrrdz.index(str(path), str(manifest))
    array = finest(manifest)
    same(array[...], readers.tifffile_full(path), "strips")
    yield Case(
        f"full read, {sizes.strips} squared uint16, raw strips of one row",
        "tifffile",
        {
            "tifffile": lambda: timed(readers.tifffile_full, path),
            "jnrrdz": lambda: timed(lambda: array[...]),
            "rasterio": lambda: timed(readers.rasterio_full, path),
        },
        rounds=5,
        goals={"jnrrdz": {"seconds": 3.0}},
    )


def n5(sizes: data.Sizes, work: Path) -> Iterator[Case]:  # noqa: ARG001  one signature for all
    """Yield the full read of an N5 volume."""
    yield volumes.full_read(sizes.n5, same)


def tiled_jnrrd(sizes: data.Sizes, work: Path) -> Iterator[Case]:
    """Yield indexing and the full read of a tiled JNRRD."""
    yield jnrrd.index(sizes.jnrrd, work)
    yield jnrrd.full_read(sizes.jnrrd, same)


def http(sizes: data.Sizes, work: Path) -> Iterator[Case]:
    """Yield windows, the full read and the header scan of the deflate COG over HTTP."""
    path = data.deflate_cog(sizes.deflate)
    yield windows(path, work)
    yield from http_windows.cases(path, work, finest, LATENCY)
    yield whole_image(path, work)
    yield http_windows.slow_links(path, work, finest, LATENCY)
    yield header_scan(data.deflate_cog(sizes.deflate), work)


def serve(sizes: data.Sizes, work: Path) -> Iterator[Case]:  # noqa: ARG001  one signature for all
    """Yield chunks over HTTP, against nginx and a native copy of 4096 pixels a side, whose chunks all fit a cache."""
    yield from served.cases(data.deflate_cog(data.QUICK.deflate), work)


TASKS: dict[str, Callable[[data.Sizes, Path], Iterator[Case]]] = {
    "cold": lambda sizes, work: cold_starts(work),  # noqa: ARG005  the same at every size
    "small": lambda sizes, work: small_files(work),  # noqa: ARG005  the same
    "million": million,
    "deflate": deflate,
    "jpeg": jpeg,
    "jpeg_windows": jpeg_windows,
    "webp": webp,
    "predictor3": predictor3,
    "small_chunks": small_chunks,
    "planar": planar,
    "jpeg2000": jpeg2000,
    "one_tile": one_tile,
    "jpeg2000_network": network,
    "strips": strips,
    "n5": n5,
    "jnrrd": tiled_jnrrd,
    "http": http,
    "serve": serve,
}
