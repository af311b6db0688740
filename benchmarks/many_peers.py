"""One of the peers over a list of sources, 64 at once: `python many_peers.py NAME LIST OUT [ENDPOINT]`.

Runs in an environment that has the peer; prints seconds as JSON, of the
work alone: what it imports is there before the clock starts.  With ENDPOINT the sources are `s3://` URLs, and the
credentials are those of the AWS_* variables.
"""

import asyncio
import io
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

AT_ONCE = 64

type Work = Callable[[str, Path], None]


def s3_options(endpoint: str | None) -> dict[str, object]:
    """Return s3fs's options, none for HTTP."""
    return {"endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}} if endpoint else {}


def async_tiff(urls: list[str], endpoint: str | None) -> None:
    """Read the headers of every source and leave it at that."""
    from async_tiff import TIFF
    from async_tiff.store import HTTPStore, S3Store

    first = urlsplit(urls[0])
    if endpoint:
        # the bucket by name: S3Store takes its credentials from the environment
        store = S3Store(first.netloc, endpoint=endpoint, client_options={"allow_http": True})
    else:
        store = HTTPStore.from_url(f"http://{first.netloc}", client_options={"allow_http": True})

    async def all_of_them() -> None:
        places = asyncio.Semaphore(AT_ONCE)

        async def one(url: str) -> None:
            async with places:
                tiff = await TIFF.open(urlsplit(url).path.lstrip("/"), store=store)
                assert tiff.ifds[0].tile_offsets

        await asyncio.gather(*map(one, urls))

    asyncio.run(all_of_them())


def tifffile_refs(endpoint: str | None) -> Work:
    """Return tifffile's references through fsspec."""
    import fsspec
    import tifffile

    options = s3_options(endpoint)

    def work(url: str, out: Path) -> None:
        with fsspec.open(url, "rb", **options) as stream, tifffile.TiffFile(stream, name=url) as tiff:
            text = io.StringIO()
            tiff.aszarr().write_fsspec(text, url.rpartition("/")[0] + "/")
            out.write_text(text.getvalue())

    return work


def kerchunk(endpoint: str | None) -> Work:
    """Return kerchunk's references of TIFF."""
    from kerchunk.tiff import tiff_to_zarr

    options = s3_options(endpoint)
    return lambda url, out: void(out.write_text(json.dumps(tiff_to_zarr(url, remote_options=dict(options)))))


def virtual_tiff(endpoint: str | None) -> Work:
    """Return virtual-tiff's manifests in memory."""
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import HTTPStore, S3Store
    from virtual_tiff import VirtualTIFF

    def registry(url: str) -> ObjectStoreRegistry:
        first = urlsplit(url)
        root = f"{first.scheme}://{first.netloc}"
        if endpoint:
            return ObjectStoreRegistry(
                {root: S3Store(first.netloc, endpoint=endpoint, client_options={"allow_http": True})}
            )
        return ObjectStoreRegistry({root: HTTPStore.from_url(root, client_options={"allow_http": True})})

    known: list[ObjectStoreRegistry] = []

    def work(url: str, out: Path) -> None:
        if not known:
            known.append(registry(url))
        assert VirtualTIFF(ifd_layout="nested")(url, known[0])
        assert out  # not written: 0.5.0 with zarr 3.4 fails there (KeyError: 'configuration')

    return work


def osml(endpoint: str | None) -> Work:
    """Return osml-imagery-io's tile indices; it opens URLs by fsspec without options."""
    from aws.osml.io.virtualizarr_parsers import OversightMLParser, write_tile_index

    if endpoint:
        os.environ["AWS_ENDPOINT_URL"] = endpoint
    parser = OversightMLParser()
    return lambda url, out: write_tile_index(parser(url), str(out))


def void(_: object) -> None:
    """Take a value and return none."""


WORKS = {"tifffile": tifffile_refs, "kerchunk": kerchunk, "virtual-tiff": virtual_tiff, "osml": osml}


def main() -> None:
    """Measure one peer."""
    name, listed, out, *rest = sys.argv[1:]
    urls = Path(listed).read_text(encoding="utf-8").split()
    endpoint = rest[0] if rest else None
    warnings.simplefilter("ignore")
    if name == "async-tiff":
        async_tiff(urls[:1], endpoint)
        start, before = time.perf_counter(), time.process_time()
        async_tiff(urls, endpoint)
    else:
        work = WORKS[name](endpoint)
        work(urls[0], Path(out) / "first.json")
        start, before = time.perf_counter(), time.process_time()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda pair: work(pair[1], Path(out) / f"{pair[0]}.json"), enumerate(urls)))
    print(json.dumps({"seconds": time.perf_counter() - start, "cpu": time.process_time() - before}), flush=True)
    os._exit(0)  # async-tiff 0.7.2 may crash when the interpreter ends


if __name__ == "__main__":
    main()
