"""`jnrrdz serve` against nginx: the same COG, decoded and packed while it is asked for, and as a native copy.

The copy holds the very bytes that are served, so that nginx sends files and nothing else.  wrk asks for the chunks of
the finest level over and over, which is how fast those are that a server keeps; both have been asked for all of them
before, and they take turns in both orders.  The processor's time for them is less at the mercy of what else the machine
does.  A first picture is that of a server that has just begun: the metadata, and the pixels of a window of the coarsest
level that a screen shows.  Memory is that of all processes of the server while two hundred clients ask.  nginx and wrk
are Debian's packages of those names.
"""

import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import zarr
from measure import Case, Sample

from jnrrdz.api import open_stored
from jnrrdz.options import ServeOptions
from jnrrdz.server.plain import PlainZarr

SECONDS = 2
CLIENTS = 16
CROWD = 200
WORKERS = 2
SCREEN = 1024

CONFIGURATION = """
worker_processes {workers}; daemon off; pid {work}/nginx.pid; error_log {work}/nginx.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;
  client_body_temp_path {work}/t1; proxy_temp_path {work}/t2; fastcgi_temp_path {work}/t3;
  uwsgi_temp_path {work}/t4; scgi_temp_path {work}/t5;
  server {{ listen 127.0.0.1:{port} backlog=2048; root {work}; }}
}}
"""

SCRIPT = """
local n = 0
request = function()
  local k = n % ({side} * {side}); n = n + 1
  return wrk.format("GET", "{path}/0/data/c/" .. math.floor(k / {side}) .. "/" .. (k % {side}))
end
"""


@dataclass(frozen=True)
class Contender:
    """A server, and where in it the image is."""

    command: list[str]
    port: int
    path: str

    @property
    def url(self) -> str:
        """The address of the image's group."""
        return f"http://127.0.0.1:{self.port}{self.path}"


def cases(source: Path, work: Path) -> Iterator[Case]:
    """Yield chunks that are kept, the first picture, and memory under many clients."""
    if shutil.which("wrk") is None or not (nginx := shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")):
        print("serve is not measured: apt-get install nginx-light wrk")
        return
    work.chmod(0o755)  # nginx's workers are nobody
    chunks = _native_copy(source, work / "native.zarr")
    ports = [free_port(), free_port()]
    configuration = work / "nginx.conf"
    configuration.write_text(CONFIGURATION.format(workers=WORKERS, work=work, port=ports[0]), encoding="utf-8")
    serve = [sys.executable, "-m", "jnrrdz", "-q", "serve", str(source), "--port", str(ports[1])]
    contenders = {
        "nginx": Contender([nginx, "-c", str(configuration)], ports[0], "/native.zarr"),
        "jnrrdz serve": Contender([*serve, "--workers", str(WORKERS)], ports[1], f"/{source.name}"),
    }
    yield _first_picture(contenders)
    with running(contenders["nginx"]) as nginx_process, running(contenders["jnrrdz serve"]) as process:
        for contender in contenders.values():
            wrk(contender, work, chunks, CLIENTS)  # every worker has made every chunk
            wrk(contender, work, chunks, CLIENTS)
        yield from _kept(contenders, (nginx_process.pid, process.pid), work, chunks)
        yield _crowd(contenders["jnrrdz serve"], process.pid, work, chunks)


def _kept(contenders: dict[str, Contender], pids: tuple[int, ...], work: Path, chunks: int) -> Iterator[Case]:
    processor_times: dict[str, list[float]] = {name: [] for name in contenders}

    def asked(name: str, pid: int) -> Callable[[], Sample]:
        def measured() -> Sample:
            before = processor_time(pid)
            rate = wrk(contenders[name], work, chunks, CLIENTS)
            processor_times[name].append(1000 * (processor_time(pid) - before) / (rate * SECONDS))
            return Sample(seconds=1000 / rate)

        return measured

    title = f"a thousand chunks that are kept, {CLIENTS} clients, {WORKERS} workers each (x2.00 is half the rate)"
    yield Case(title, "nginx", {name: asked(name, pid) for name, pid in zip(contenders, pids, strict=True)}, rounds=4)
    least = {name: partial(lambda name: Sample(seconds=min(processor_times[name])), name) for name in contenders}
    yield Case("the processor's time for a thousand of them", "nginx", least, rounds=1)


def _first_picture(contenders: dict[str, Contender]) -> Case:
    def shown(contender: Contender) -> Callable[[], Sample]:
        return lambda: _picture(contender)

    title = f"first picture of a server that has just begun: metadata and {SCREEN} pixels of a side"
    return Case(title, "nginx", {name: shown(contender) for name, contender in contenders.items()}, rounds=2)


def _picture(contender: Contender) -> Sample:
    with running(contender):
        start = time.perf_counter()
        group = zarr.open_group(contender.url, mode="r", zarr_format=3)
        levels = [array for _, array in group.members(max_depth=None) if getattr(array, "ndim", 0) > 1]
        fitting = [level for level in levels if max(level.shape) <= SCREEN] or levels
        level = max(fitting, key=lambda array: array.shape)
        level[...]
        return Sample(seconds=time.perf_counter() - start)


def _crowd(contender: Contender, pid: int, work: Path, chunks: int) -> Case:
    def asked() -> Sample:
        rate = wrk(contender, work, chunks, CROWD)
        return Sample(seconds=1000 / rate, peak=sum(map(_peak, _family(pid))))

    return Case(f"{CROWD} clients, {WORKERS} workers", "jnrrdz serve", {"jnrrdz serve": asked}, rounds=2)


def _native_copy(source: Path, out: Path) -> int:
    """Write what is served as files, and return the chunks along a side of the finest level."""
    plain = PlainZarr(open_stored(str(source)), ServeOptions())
    for key, document in plain.documents.items():
        file = out / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(document)
        node = json.loads(document)
        if node["node_type"] != "array":
            continue
        sizes = zip(node["shape"], node["chunk_grid"]["configuration"]["chunk_shape"], strict=True)
        for place in itertools.product(*(range(-(-size // chunk)) for size, chunk in sizes)):
            name = "/".join(["c", *map(str, place)])
            chunk = plain.chunk_at(f"{file.parent.relative_to(out)}/{name}")
            if chunk is not None and (data := plain.packed(chunk)) is not None:
                (file.parent / name).parent.mkdir(parents=True, exist_ok=True)
                (file.parent / name).write_bytes(data)
    finest = json.loads(plain.documents["0/data/zarr.json"])
    return int(finest["shape"][0]) // int(finest["chunk_grid"]["configuration"]["chunk_shape"][0])


@contextmanager
def running(contender: Contender) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the context ends; it is there once it answers."""
    with subprocess.Popen(contender.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(1200):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{contender.port}/viewer/none").close()
                except urllib.error.HTTPError as error:
                    error.close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield process
        finally:
            process.terminate()


def wrk(contender: Contender, work: Path, chunks: int, clients: int) -> float:
    """Return chunks a second."""
    script = work / f"{contender.port}.lua"
    script.write_text(SCRIPT.format(side=chunks, path=contender.path), encoding="utf-8")
    command = ["wrk", "-t1", f"-c{clients}", f"-d{SECONDS}s", "-s", str(script), f"http://127.0.0.1:{contender.port}/"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in told or "Socket errors" in told:
        raise RuntimeError(told)
    return float(re.search(r"Requests/sec:\s+([\d.]+)", told)[1])


def _family(pid: int) -> list[int]:
    """Return a process and those that it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [pid, *(member for child in children for member in _family(int(child)))]


def processor_time(pid: int) -> float:
    """Return the seconds of processors that a process has had, with those that it started."""
    stats = [Path(f"/proc/{member}/stat").read_text(encoding="ascii").rpartition(")")[2] for member in _family(pid)]
    return sum(int(ticks) for stat in stats for ticks in stat.split()[11:13]) / os.sysconf("SC_CLK_TCK")


def _peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]
