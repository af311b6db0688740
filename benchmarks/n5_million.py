"""What a million N5 blocks cost: `python benchmarks/n5_million.py [--blocks N] [--uploaded N] [--seaweed]`.

A local tree is indexed to Parquet, and the manifest opened and
one chunk read, each in a process of its own.  Listings of as many objects come from a server that makes up its
pages; with `--seaweed` a real S3 server is asked too, which holds as many objects as `--uploaded` says, for
uploading takes much longer than listing.  Requests are counted by the servers.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import data
import jobs

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.servers import seaweed
from tests.servers.proxy import FaultProxy, Faults

SIDE, PAGE = 8, 1000
BODY = bytes([0, 0, 0, 3]) + 3 * SIDE.to_bytes(4) + bytes(range(256)) * (SIDE**3 // 256)
JOB = """
import json, sys, time
import jnrrdz
source, out, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
start = time.perf_counter()
found = jnrrdz.index(source, out, overwrite=True, **({"storage_options": options} if options else {}))
seconds = time.perf_counter() - start
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
print(json.dumps({"seconds": round(seconds, 2), "peak MB": round(peak), "requests": found.requests}))
"""


def attributes(blocks: int) -> bytes:
    """Return the metadata of a dataset with at least so many blocks, a thousand in each plane or column."""
    across = side(blocks)
    told = {"dimensions": [across * SIDE] * 3, "blockSize": [SIDE] * 3, "dataType": "uint8"}
    return json.dumps({**told, "compression": {"type": "raw"}}).encode()


def side(blocks: int) -> int:
    """Return how many blocks stand along each axis."""
    return round(blocks ** (1 / 3))


def keys(blocks: int) -> list[str]:
    """Return the keys of all blocks."""
    return [f"{x}/{y}/{z}" for x, y, z in product(range(side(blocks)), repeat=3)]


def local_tree(blocks: int) -> Path:
    """Return a local dataset, its blocks links to a few files: inodes are what a file system runs out of."""
    path = data.cache() / f"blocks-{blocks}.n5"
    if not (path / "attributes.json").exists():
        path.mkdir(exist_ok=True)
        for x, y in product(range(side(blocks)), repeat=2):
            folder = path / str(x) / str(y)
            folder.mkdir(parents=True, exist_ok=True)
            original = folder / "0"
            original.write_bytes(BODY)
            for z in range(1, side(blocks)):
                if not (folder / str(z)).exists():
                    os.link(original, folder / str(z))
        (path / "attributes.json").write_bytes(attributes(blocks))
    return path


class MadeUp(BaseHTTPRequestHandler):
    """S3's LIST of objects that nobody stores."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer a page, or the metadata."""
        query = parse_qs(urlsplit(self.path).query)
        listing = "list-type" in query
        self.server.seen["LIST" if listing else "GET"] += 1
        body = self._page(int(query.get("continuation-token", ["0"])[0])) if listing else self.server.document
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _page(self, first: int) -> bytes:
        some, total = self.server.keys[first : first + PAGE], len(self.server.keys)
        entries = "".join(f"<Contents><Key>v.n5/{key}</Key><Size>{len(BODY)}</Size></Contents>" for key in some)
        more = first + PAGE < total
        token = f"<NextContinuationToken>{first + PAGE}</NextContinuationToken>" if more else ""
        text = f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{entries}</ListBucketResult>"
        return text.encode()


def run(source: str, out: Path, options: dict[str, object] | None = None) -> str:
    """Index in a process of its own, and return what it says."""
    command = [sys.executable, "-c", JOB, source, out, json.dumps(options)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def made_up(blocks: int, out: Path) -> str:
    """Index a dataset whose listing is made up."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), MadeUp)
    server.daemon_threads = True
    server.seen, server.keys, server.document = Counter(), ["attributes.json", *keys(blocks)], attributes(blocks)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        options = {"endpoint_url": f"http://127.0.0.1:{server.server_port}", "key": "a", "secret": "b"}
        return f"{run('s3://b/v.n5', out, options | {'use_ssl': False})} {dict(server.seen)}"
    finally:
        server.shutdown()


def uploaded(blocks: int, out: Path, folder: Path) -> str:
    """Index a dataset that a real server holds."""
    with seaweed.running(folder) as server:
        bucket = server.make_bucket()
        start = time.perf_counter()
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda key: server.put(bucket, f"v.n5/{key}", BODY), keys(blocks)))
        server.put(bucket, "v.n5/attributes.json", attributes(blocks))
        took = time.perf_counter() - start
        proxy = FaultProxy(server.port, Faults()).start()
        try:
            options = server.options(endpoint_url=proxy.url)
            return f"{run(f's3://{bucket}/v.n5', out, options)}, upload {took:.0f} s, {tally(proxy)}"
        finally:
            proxy.close()


def tally(proxy: FaultProxy) -> dict[str, int]:
    """Return how many requests of each kind a proxy passed."""
    return dict(Counter("LIST" if "list-type" in one.path else one.method for one in proxy.requests))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Index a million N5 blocks.")
    parser.add_argument("--blocks", type=int, default=1_000_000)
    parser.add_argument("--uploaded", type=int, default=64_000)
    parser.add_argument("--seaweed", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=data.cache()) as name:
        out = Path(name) / "million.parquet"
        print(f"{side(options.blocks) ** 3:,} local blocks: {run(str(local_tree(options.blocks)), out)}", flush=True)
        print(f"Parquet: {sum(file.stat().st_size for file in out.rglob('*') if file.is_file()) / 1e6:.1f} MB")
        small = Path(name) / "small.parquet"
        run(str(local_tree(64)), small)
        opened = jobs.run("jnrrdz_open_and_read", (str(small), ""), (str(out), ""))
        print(f"open it and read one chunk: {opened}", flush=True)
        print(f"made-up listing: {made_up(options.blocks, Path(name) / 's3.parquet')}", flush=True)
        if options.seaweed:
            (Path(name) / "server").mkdir()
            found = uploaded(options.uploaded, Path(name) / "real.parquet", Path(name) / "server")
            print(f"{side(options.uploaded) ** 3:,} blocks on SeaweedFS: {found}")


if __name__ == "__main__":
    main()
