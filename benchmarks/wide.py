"""Where 64 cores and 10,000 connections would stop us: costs measured on this machine, in a model of a wide one.

`python benchmarks/wide.py [--only decode|remote|serve] [--keep]`; it wants py-spy, and the right to look at processes.

Measured of each way to decode, of remote requests and of `jnrrdz serve`: CPU a chunk or request, and how much of it
with the interpreter's lock.  py-spy looks some hundred times a second whether a thread holds the lock, and how many
threads run; CPU times the quotient is the time with the lock, also where other work shares the machine.

The model is a closed queueing network, simulated: customers (threads, connections) go round, and hold a core, a
process's lock, a place among those that may fetch at once, while they work or wait.  What it says of one and two
threads, of a few and many connections, stands beside what they really did.  `--keep` puts all of it into
`benchmarks/results/VERSION.json`, and docs/scale.md shows it.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from pathlib import Path
from shutil import which

import data
import glymur
import numpy as np
import rasterio
import results
import serve
import server
import tifffile
import zarr

import jnrrdz
from jnrrdz.codecs import base
from jnrrdz.sources.fsspec import open_source

CORES = 64
CONNECTIONS = 10_000
LATENCY = 0.02
SAMPLES, RATE, SECONDS = 1200, 300, 3
"""How often py-spy looks, how often a second, and for how long a rate is measured."""

SIDE, SPAN = 2048, 32 << 10

FAR, FAR_SIDE, FAR_TILE, FARTHER = "deflated tiles of 256", 12288, 256, 0.1
"""An image of which every third tile is read over a latency of a tenth of a second."""

# The model

TAKE, GIVE, SPEND = "take", "give", "spend"

type Step = tuple[str, str, float]
"""What a customer does next: take or give back one of a resource, or spend seconds."""


def holding(names: Sequence[str], *steps: Step) -> list[Step]:
    """Return steps done while one of each resource is held."""
    return [*((TAKE, name, 0.0) for name in names), *steps, *((GIVE, name, 0.0) for name in reversed(names))]


def spend(seconds: float) -> Step:
    """Return the step that takes time."""
    return (SPEND, "", seconds)


def simulate(customers: Sequence[Sequence[Step]], room: Mapping[str, int], turns: int = 0) -> tuple[float, str]:
    """Return how many turns a second all customers take together, and the resource that works the most.

    Times vary by half of their mean to both sides, drawn from one seed; the first fifth of the turns is not counted.
    """
    draw, turns = random.Random(7), turns or max(4000, 8 * len(customers))
    free, waiting, held, busy = Counter(room), defaultdict(deque), defaultdict(set), Counter()
    at, heap = [0] * len(customers), [(draw.random() * 1e-3, one) for one in range(len(customers))]
    heapify(heap)
    done, begun, now = 0, 0.0, 0.0
    while done < turns:
        now, one = heappop(heap)
        while True:
            kind, name, seconds = customers[one][at[one]]
            if kind == TAKE and not free[name]:
                waiting[name].append(one)
                break
            at[one] = (at[one] + 1) % len(customers[one])
            if at[one] == 0:
                done += 1
                if done == turns // 5:
                    begun, busy = now, Counter()
            if kind == TAKE:
                free[name] -= 1
                held[one].add(name)
            elif kind == GIVE:
                held[one].discard(name)
                free[name] += 1
                if waiting[name]:
                    heappush(heap, (now, waiting[name].popleft()))
            if kind == SPEND:
                drawn = seconds * draw.uniform(0.5, 1.5)
                busy.update(dict.fromkeys(held[one], drawn))
                heappush(heap, (now + drawn, one))
                break
    used = {name: busy[name] / (count * (now - begun)) for name, count in room.items()}
    return (turns - turns // 5) / (now - begun), max(used, key=used.__getitem__)


@dataclass(frozen=True)
class Cost:
    """What a chunk or a request costs, in seconds."""

    cpu: float
    lock: float
    """The part of it with the interpreter's lock."""

    def steps(self, process: int = 0) -> list[Step]:
        """Return it as steps: Python before and after, between them what frees the lock."""
        python = holding([f"lock {process}", "core"], spend(self.lock / 2))
        return [*python, *holding(["core"], spend(self.cpu - self.lock)), *python]


def decoding(cost: Cost, threads: int, cores: int) -> tuple[float, str]:
    """Return what the model says of threads of one process that decode."""
    return simulate([cost.steps()] * threads, {"core": cores, "lock 0": 1})


def fetching(request: Cost, chunk: Cost, places: int, cores: int, latency: float = LATENCY) -> tuple[float, str]:
    """Return the same of chunks elsewhere, of which so many are fetched and decoded at once."""
    steps = holding(["place"], *request.steps(), spend(latency), *holding(["thread"], *chunk.steps()))
    room = {"core": cores, "lock 0": 1, "place": places, "thread": cores}
    return simulate([steps] * (places + cores), room)


def serving(cost: Cost, client: float, clients: int, workers: int, cores: int) -> tuple[float, str]:
    """Return the same of clients that ask workers again once they are answered; a client on this machine has a core."""
    steps = [[*cost.steps(worker), *(holding(["core"], spend(client)) if client else ())] for worker in range(workers)]
    room = {"core": cores} | {f"lock {worker}": 1 for worker in range(workers)}
    return simulate([steps[number % workers] for number in range(clients)], room)


# What is measured


def image(name: str, work: Path) -> Path:
    """Return the file that is decoded."""
    if name == "deflate + predictor 2":
        return data.deflate_cog(data.QUICK.deflate)
    if name == "JPEG":
        return data.jpeg_cog(data.QUICK.jpeg)
    if name == "raw strips":
        return data.row_strips(data.QUICK.strips)
    if name == FAR:
        path = data.cache() / "far.tif"
        if not path.exists():
            noise = np.random.default_rng(1).integers(0, 255, (4096, 4096), np.uint8)
            tifffile.imwrite(path, np.tile(noise, (3, 3)), tile=(FAR_TILE, FAR_TILE), compression="zlib", maxworkers=1)
        return path
    height = data.terrain(SIDE, 1) * 2000
    if name == "JPEG 2000":
        path = work / "tiles.jp2"
        if not path.exists():
            glymur.Jp2k(path, data=height.astype("uint16"), tilesize=(512, 512))
        return path
    path = work / "floats.tif"
    if not path.exists():
        options = {"compress": "zstd", "predictor": 3, "tiled": True, "blockxsize": 512, "blockysize": 512}
        with rasterio.open(
            path, "w", width=SIDE, height=SIDE, count=1, dtype="float32", driver="GTiff", **options
        ) as out:
            out.write(height, 1)
    return path


DECODED = ("deflate + predictor 2", "JPEG", "ZSTD + predictor 3", "raw strips", "JPEG 2000")


def decoder(name: str, work: Path, threads: int) -> Callable[[], int]:
    """Return what decodes a whole image on threads and returns the number of chunks."""
    zarr.config.set({"threading.max_workers": threads, "codec_pipeline.max_workers": threads})
    path, manifest = image(name, work), work / f"{os.getpid()}.json"
    jnrrdz.index(str(path), str(manifest))
    group = jnrrdz.open_group(str(manifest))
    array = group["0/data"] if "0" in group else group["data"]
    expected = tifffile.imread(path, key=0) if path.suffix == ".tif" else glymur.Jp2k(path)[:]
    assert (array[...].reshape(expected.shape) if array.ndim == expected.ndim else array[...]).sum() == expected.sum()

    def whole() -> int:
        array[...]
        return array.nchunks

    return whole


def requester(url: str, threads: int) -> Callable[[], int]:
    """Return what asks for a range from each of some threads, and returns how many that are."""
    source, pool, draw = open_source(url), ThreadPoolExecutor(threads), random.Random(3)
    size = source.validators.size - SPAN

    def ask(_: int) -> int:
        start = draw.randrange(size)
        return len(source.read([(start, start + SPAN)])[0]) // SPAN

    return lambda: sum(pool.map(ask, range(16 * threads)))


def far(url: str, at_once: int, work: Path) -> Callable[[], int]:
    """Return what reads every third tile of every third row, which share no request, and returns how many they are."""
    base.AT_ONCE = at_once
    manifest = work / f"{os.getpid()}.json"
    jnrrdz.index(url, str(manifest), codecs="proposal")
    step = 3 * FAR_TILE
    # opened anew each time: what was read last is kept
    return lambda: jnrrdz.open_group(str(manifest), allow=[url])["data"][::step, ::step].size


def child(job: str, name: str, threads: int, work: Path) -> None:
    """Repeat a job until the input ends, and print how often, in which time, at how much CPU."""
    jobs = {"decode": lambda: decoder(name, work, threads), "request": lambda: requester(name, threads)}
    work_once = (jobs | {"far": lambda: far(name, threads, work)})[job]()
    work_once()
    print("ready", flush=True)
    ended = ThreadPoolExecutor(1).submit(sys.stdin.read)
    count, start, before = 0, time.perf_counter(), time.process_time()
    rounds = []
    while not ended.done():
        begun = time.perf_counter()
        number = work_once()
        rounds.append(number / (time.perf_counter() - begun))
        count += number
    told = {"count": count, "seconds": time.perf_counter() - start, "cpu": time.process_time() - before}
    print(json.dumps(told | {"best": max(rounds)}), flush=True)


def spied(pid: int, work: Path, *, lock: bool) -> float:
    """Return how many threads of a process run on average; of them those that hold the lock, if asked for."""
    out = work / f"{pid}.raw"
    words = ["--pid", str(pid), "--nonblocking", "--format", "raw", "--output", str(out), *(["--gil"] if lock else ())]
    length = ["--rate", str(RATE), "--duration", str(SAMPLES // RATE)]
    subprocess.run([which("py-spy") or "py-spy", "record", *words, *length], check=True, capture_output=True)
    return sum(int(line.rpartition(" ")[2]) for line in out.read_text().splitlines()) / SAMPLES


def run(job: str, name: str, threads: int, work: Path, *, spy: bool = False) -> dict[str, float]:
    """Return what a job does in a process of its own: its best round a second, CPU a piece, the share with the lock."""
    command = [sys.executable, __file__, "--child", job, name, str(threads), str(work)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        share = 0.0
        if spy:
            share = min(spied(process.pid, work, lock=True) / max(spied(process.pid, work, lock=False), 0.01), 1.0)
        else:
            time.sleep(SECONDS)
        process.stdin.close()
        told = json.loads(process.stdout.readline())
    return {"rate": told["best"], "cpu": told["cpu"] / told["count"], "lock": share * told["cpu"] / told["count"]}


def costs_of_decoding(name: str, work: Path) -> tuple[Cost, dict[str, float]]:
    """Return what a chunk costs, and how much faster two threads are: really, and as the model says."""
    seen = run("decode", name, 1, work, spy=True)
    cost = Cost(seen["cpu"], seen["lock"])
    model = decoding(cost, 2, 2)[0] / decoding(cost, 1, 2)[0]
    return cost, {"measured": run("decode", name, 2, work)["rate"] / seen["rate"], "model": model}


def costs_of_requests(work: Path) -> tuple[Cost, dict[str, float]]:
    """Return what a remote request costs, and how much faster eight threads are than two."""
    path = image("deflate + predictor 2", work)
    with server.serving(path.parent, LATENCY) as remote:
        url = f"{remote.root}/{path.name}"
        seen = run("request", url, 8, work, spy=True)
        cost = Cost(seen["cpu"], min(seen["lock"], seen["cpu"]))
        few = run("request", url, 2, work)["rate"]
    told = [simulate([[*cost.steps(), spend(LATENCY)]] * threads, {"core": 2, "lock 0": 1})[0] for threads in (2, 8)]
    return cost, {"measured": seen["rate"] / few, "model": told[1] / told[0]}


SERVER = """\
import sys
from jnrrdz.options import ServeOptions
from jnrrdz.server import running
if __name__ == "__main__":
    port, workers, cache = map(int, sys.argv[1:4])
    listening = running.listening_socket("127.0.0.1", port)
    running.run(sys.argv[4:], ServeOptions(cache_bytes=cache), listening, workers)
"""


def costs_of_answers(work: Path, *, kept: bool) -> tuple[Cost, dict[str, float]]:
    """Return what an answer of `jnrrdz serve` costs, and how much faster two workers are."""
    path, script = data.deflate_cog(data.QUICK.deflate), work / "serving.py"
    script.write_text(SERVER)
    side, rates = data.QUICK.deflate // data.TILE, {}
    cost, theirs = Cost(0, 0), 0.0
    for workers in (1, 2):
        port = serve.free_port()
        words = [str(script), str(port), str(workers), str((256 << 20) if kept else 0), str(path)]
        contender = serve.Contender([sys.executable, *words], port, f"/{path.name}")

        def asked(times: int, contender: serve.Contender = contender) -> list[float]:
            return [serve.wrk(contender, work, side, serve.CLIENTS) for _ in range(times)]

        with serve.running(contender) as process, ThreadPoolExecutor(1) as pool:
            asked(2 * workers)
            before, client = serve.processor_time(process.pid), os.times()
            rates[workers] = asked(3)
            if workers == 1:
                spent, after, answers = serve.processor_time(process.pid) - before, os.times(), sum(rates[1])
                asking = pool.submit(asked, 3 * SAMPLES // RATE // serve.SECONDS)
                share = spied(process.pid, work, lock=True) / max(spied(process.pid, work, lock=False), 0.01)
                asking.result()
                each = spent / (answers * serve.SECONDS)
                used = sum(after[2:4]) - sum(client[2:4])
                cost, theirs = Cost(each, min(share, 1) * each), used / (answers * serve.SECONDS)
    model = [serving(cost, theirs, serve.CLIENTS, workers, 2)[0] for workers in (1, 2)]
    return cost, {"measured": max(rates[2]) / max(rates[1]), "model": model[1] / model[0]}


def places(work: Path, request: Cost) -> dict[str, dict[str, object]]:
    """Return chunks a second from elsewhere where 10 and 64 are fetched at once: here, in the model, on many cores."""
    cost = Cost(*(run("decode", FAR, 1, work, spy=True)[name] for name in ("cpu", "lock")))
    told = {}
    with server.serving(image(FAR, work).parent, FARTHER) as remote:
        for number in (10, 64):
            url = f"{remote.root}/{image(FAR, work).name}"
            rate = run("far", url, number, work)["rate"]
            wide, limit = fetching(request, cost, number, CORES, FARTHER)
            model = fetching(request, cost, number, 2, FARTHER)[0]
            rates = {"measured": rate, "model": model, "wide": wide}
            told[str(number)] = {name: float(f"{value:.3g}") for name, value in rates.items()} | {"limit": limit}
    return told


def tell(name: str, cost: Cost, ratio: dict[str, float], wide: tuple[float, float, str]) -> dict[str, object]:
    """Print and return what came out for one way."""
    one, many, limit = wide
    kept = {"cpu": cost.cpu * 1e6, "lock": cost.lock * 1e6, **ratio, "speedup": many / one}
    kept = {name: float(f"{value:.3g}") for name, value in kept.items()}
    print(f"{name}: {kept}, then all wait for: {limit}", flush=True)
    return {**kept, "limit": limit}


def ways_to_decode(work: Path) -> dict[str, object]:
    """Return what all kinds of chunks cost, and what 64 threads on as many cores make of it."""
    found: dict[str, object] = {}
    for name in DECODED:
        cost, ratio = costs_of_decoding(name, work)
        many, limit = decoding(cost, CORES, CORES)
        found[f"decode: {name}"] = tell(name, cost, ratio, (decoding(cost, 1, CORES)[0], many, limit))
    return found


def remote(work: Path) -> dict[str, object]:
    """Return what a request costs, and what becomes of chunks elsewhere where more of them are fetched at once."""
    request, ratio = costs_of_requests(work)
    steps = [*request.steps(), spend(LATENCY)]
    many, limit = simulate([steps] * CORES, {"core": CORES, "lock 0": 1})
    one, _ = simulate([steps], {"core": CORES, "lock 0": 1})
    found = {"remote: request": tell("request", request, ratio, (one, many, limit))}
    for number, told in places(work, request).items():
        print(f"{number} chunks at once, {FARTHER * 1000:.0f} ms: {told}", flush=True)
        found[f"at once: {number}"] = told
    return found


def served(work: Path) -> dict[str, object]:
    """Return what answers cost, and what 10,000 connections get of 64 workers."""
    found: dict[str, object] = {}
    for name, kept in (("kept answer", True), ("made answer", False)):
        cost, ratio = costs_of_answers(work, kept=kept)
        many, limit = serving(cost, 0, CONNECTIONS, CORES, CORES)
        found[f"serve: {name}"] = tell(name, cost, ratio, (serving(cost, 0, CONNECTIONS, 1, CORES)[0], many, limit))
    return found


PARTS = {"decode": ways_to_decode, "remote": remote, "serve": served}


def main() -> None:
    """Measure, simulate, print, and keep where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PARTS, help="this part; may be given again")
    parser.add_argument("--keep", action="store_true", help="put the figures into benchmarks/results/VERSION.json")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        job, name, number, work = given.child
        child(job, name, int(number), Path(work))
        return
    for program in ("py-spy", "wrk"):
        if which(program) is None:
            raise SystemExit(f"{program} is not there: pip install py-spy, apt-get install wrk")
    for part in given.only or PARTS:
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as work:
            told = PARTS[part](Path(work))
        if given.keep:
            results.keep_wide(part, told, [round(load, 1), round(os.getloadavg()[0], 1)])
            results.write_pages()


if __name__ == "__main__":
    main()
